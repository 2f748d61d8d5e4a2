// Sequence: one mutable timeline of tokens. It can go back (regress), branch (fork) and continue, and what it then says
// is what it would have said had it never been elsewhere, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "kv/block_tree.h"
#include "sampling/sampler.h"
#include "text/detokenizer.h"
#include "text/stop_strings.h"

namespace hearth {

// A point in a sequence's history: how many tokens stand before it. 0 is the beginning.
struct Time {
    std::uint32_t position = 0;
    auto operator<=>(const Time&) const = default;
};

class Sequence {
public:
    // `options` and `stops` are shared, unchanged, by all forks.
    Sequence(std::shared_ptr<Engine> engine, std::shared_ptr<const SamplingOptions> options,
             std::shared_ptr<const StopStrings> stops = nullptr);
    Sequence(Sequence&&) noexcept;
    Sequence& operator=(Sequence&&) noexcept;
    Sequence(const Sequence&) = delete;
    ~Sequence();

    // Adds tokens to the history; forward() computes them. Prompt tokens produce no text.
    // Errors: the context is full, no KV block is free.
    Status append(std::span<const TokenId> tokens);
    // Adds a generated token and appends the text it makes certain to `text`.
    Status accept(TokenId token, std::string& text);

    std::size_t length() const;    // tokens in the history
    std::size_t computed() const;  // of these, how many the KV holds
    std::size_t pending() const { return length() - computed(); }
    TokenId token(std::size_t position) const;
    std::vector<TokenId> tokens() const;

    // The next token, from the logits of the last one.
    Result<SampledToken> sample(std::span<const float> logits);

    Time mark() const { return Time{static_cast<std::uint32_t>(length())}; }
    Status regress(Time time);  // error when `time` lies ahead
    Result<Sequence> fork(Time time) const;

    // So that the last token's logits can be had (again): makes it pending if nothing is.
    void recompute_last();

    bool stopped() const;  // a stop string has been completed
    DetokenizerState text_state() const;

private:
    friend class Engine;
    struct State;
    std::unique_ptr<State> state_;
};

// Feeds all pending tokens in steps of at most `chunk` rows and gives the logits of the last one.
Result<Logits> forward_pending(Engine& engine, Sequence& sequence, std::size_t chunk);

}  // namespace hearth
