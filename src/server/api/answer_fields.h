// The fields that say how an answer is made: sampling, lengths, stop strings, formats. Their names and ranges are the
// same on every route that has them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "sampling/sampler.h"
#include "server/api/fields.h"
#include "text/grammar.h"

namespace hearth {

inline constexpr std::int64_t kChoiceLimit = 16;
inline constexpr std::size_t kStopLimit = 16;
inline constexpr std::size_t kStopBytesLimit = 1024;
inline constexpr std::int64_t kTopLogprobsLimit = 20;
inline constexpr std::size_t kLogitBiasLimit = 1024;
inline constexpr std::int64_t kMaxTokensLimit = std::int64_t{1} << 24;

struct AnswerSpec {
    SamplingOptions sampling;
    std::vector<std::string> stops;
    std::size_t max_tokens = 0;  // 0: until the context is full
    std::size_t choices = 1;
    bool logprobs = false;
    std::size_t top_logprobs = 0;
    bool stream = false;
    bool include_usage = false;
    bool ignore_end = false;
    std::shared_ptr<const Grammar> grammar;
};

// temperature, top_p, top_k, min_p, typical_p, penalties, seed, logit_bias, ignore_eos. Without a seed one is drawn.
void read_sampling(Fields& fields, const Tokenizer& tokenizer, AnswerSpec& spec);
// A string or an array of strings.
void read_stops(Fields& fields, std::string_view key, AnswerSpec& spec);
// n, stream, stream_options.
void read_choices_and_stream(Fields& fields, AnswerSpec& spec);
// response_format and grammar, one of them at most.
void read_response_format(Fields& fields, AnswerSpec& spec);
// {"type": "text" | "json_object" | "json_schema", ...}; `nested`: the schema stands in a field "json_schema".
enum class SchemaPlace : std::uint8_t { Nested, Flat };
std::shared_ptr<const Grammar> read_format(const Json& value, const std::string& path, SchemaPlace place,
                                           Faults& faults);

}  // namespace hearth
