// Logits to a token: penalties, bias, temperature, the truncating filters, one draw. No state of its own: the random
// number belongs to (seed, position), so a token does not depend on the path that led to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sampling/candidates.h"
#include "sampling/chunked_logits.h"
#include "sampling/logit_row.h"
#include "text/tokenizer.h"

namespace hearth {

struct SamplingOptions {
    float temperature = 0.8f;         // 0: greedy
    std::uint32_t top_k = 40;         // 0: off
    float top_p = 0.95f;              // 1: off
    float min_p = 0.05f;              // 0: off
    float typical_p = 1.0f;           // 1: off
    float repetition_penalty = 1.0f;  // 1: off
    float frequency_penalty = 0.0f;
    float presence_penalty = 0.0f;
    std::uint32_t penalty_last = 64;  // tokens looked back at; 0: none
    std::uint64_t seed = 0;
    std::vector<std::pair<TokenId, float>> logit_bias;
    bool logprob = false;  // also give SampledToken::logprob: one pass over the vocabulary

    // Usage error naming the option and its range.
    Status validate(std::size_t vocabulary_size) const;
};

struct SampledToken {
    TokenId token = 0;
    // Of the token under the model's own distribution (temperature 1, no filter); NaN unless asked for.
    float logprob = std::numeric_limits<float>::quiet_NaN();
};

// Working memory of sampling, sized once for a vocabulary: sampling allocates nothing.
class SamplerScratch {
public:
    explicit SamplerScratch(std::size_t vocabulary_size);

private:
    friend Result<SampledToken> sample(const LogitRow&, const SamplingOptions&, std::span<const TokenId>, std::uint64_t,
                                       SamplerScratch&, std::span<const std::uint64_t>);
    friend Status top_logprobs(const LogitRow&, std::size_t, SamplerScratch&, std::vector<SampledToken>&);
    ChunkedLogits row_;
    Selection selection_;
    std::vector<std::uint32_t> counts_;  // by token, zero between calls
};

// Picks the token that follows. The chain: logit bias, repetition penalty (divides positive logits, multiplies negative
// ones), frequency and presence penalties; greedy ends here. Then top_k, typical_p, top_p, min_p, each over the
// temperature-1 probabilities of what the one before left; then temperature and one draw in descending order. `recent`:
// the tokens before it, oldest first (only the last `penalty_last` matter). `position`: how many tokens stand before
// it. A NaN logit is an error: the model's numbers are broken. Ties go to the lower token id.
// With maxima in `row`, greedy and top_k chains read little more than these.
// With a `mask`, one bit per token, only tokens whose bit is set can come out: the others count as -Inf after bias and
// penalties. When it leaves none, that is an error.
Result<SampledToken> sample(const LogitRow& row, const SamplingOptions& options, std::span<const TokenId> recent,
                            std::uint64_t position, SamplerScratch& scratch, std::span<const std::uint64_t> mask = {});

// The `count` likeliest tokens under the model's own distribution, the likeliest first. `out` is overwritten.
Status top_logprobs(const LogitRow& row, std::size_t count, SamplerScratch& scratch, std::vector<SampledToken>& out);

// ln of the sum of e^logit, to float precision and in a fixed order: logit - log_sum_exp(logits) is a log-probability.
// NaN when a logit is.
double log_sum_exp(std::span<const float> logits);

}  // namespace hearth
