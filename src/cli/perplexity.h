// Perplexity as everyone in this field quotes it: windows of one size, only their second halves scored.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/sequence.h"

namespace hearth {

struct PerplexitySum {
    double nll = 0;          // sum of -ln p
    double nll_squared = 0;  // sum of its squares
    std::size_t tokens = 0;  // scored

    double perplexity() const;
    double error() const;  // standard error of the perplexity
};

// A second engine that predicts the same tokens, and what the first one's predictions lose against its own.
struct PerplexityBaseline {
    Engine* engine = nullptr;
    PerplexitySum sum = {};
    double divergence = 0;  // sum over scored tokens of KL(baseline || measured), in nats
};

// Scores window after window of `window` tokens (each beginning with BOS when the model adds one): the tokens at
// [window / 2 + 1, window) given all before them. At most `chunks` windows. `on_window` false stops.
Result<PerplexitySum> measure_perplexity(Engine& engine, std::span<const TokenId> tokens, std::size_t window,
                                         std::size_t chunks,
                                         const std::function<bool(std::size_t, const PerplexitySum&)>& on_window,
                                         PerplexityBaseline* baseline = nullptr);

}  // namespace hearth
