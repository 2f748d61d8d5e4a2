// One answer: feeds a prompt, reusing what the sequence already holds, then samples until something ends it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/sequence.h"

namespace hearth {

enum class StopReason : std::uint8_t {
    End,          // the model ended its answer
    StopString,   // a stop string was completed
    Length,       // as many tokens as asked for
    Context,      // the context is full
    Interrupted,  // Ctrl-C, or the reader of our output went away
};
std::string_view name_of(StopReason reason);

struct GenerateOptions {
    std::size_t max_tokens = 0;  // 0: until the context is full
    std::size_t chunk = 0;       // prompt rows per step; 0: what a step takes
    bool hash_logits = false;    // costs as much as reading every logit once more
};

struct Generation {
    std::vector<TokenId> tokens;  // without the one that ends an answer
    std::string text;
    std::uint64_t logits_hash = 0;  // when asked for: chained over the logits of every step a token was drawn from
    std::size_t prompt_tokens = 0;
    std::size_t cached_tokens = 0;  // of these, not computed again
    double prompt_seconds = 0;
    double decode_seconds = 0;
    std::size_t decode_steps = 0;  // forward passes after the prompt's
    StopReason reason = StopReason::End;

    double prompt_rate() const;  // computed prompt tokens per second
    double decode_rate() const;  // tokens per second
};

// `on_text` gets the text as it becomes certain; false from it stops. A prompt longer than the context is a Usage
// error with both counts, and the sequence is as before.
Result<Generation> generate(Sequence& sequence, std::span<const TokenId> prompt, const GenerateOptions& options,
                            const std::function<bool(std::string_view)>& on_text);

// "prompt 812 tok (790 cached) 0.31 s · 64 tok 41.8 tok/s · 81 % of the memory roof · cpu 2 threads".
// `read_gb_per_s`: the machine's measured read bandwidth; 0: not measured, the roof is left out.
std::string closing_line(const Generation& generation, std::size_t weight_bytes, double read_gb_per_s,
                         std::size_t threads);

}  // namespace hearth
