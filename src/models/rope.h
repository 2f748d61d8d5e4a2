// Rotary position embeddings: the frequency of each pair, after whatever a model does to reach beyond the context it
// was first trained with (linear interpolation, Llama 3's and LongRoPE's factors, YaRN).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "graph/graph.h"
#include "models/hyperparameters.h"
#include "models/weights.h"

namespace hearth {

enum class RopeScaling : std::uint8_t { None, Linear, Yarn, LongRope };

struct RopeParameters {
    std::size_t rotated = 0;  // elements; half as many pairs
    float base = 10000;
    RopeScaling scaling = RopeScaling::None;
    float factor = 1;                  // Linear, Yarn: how much further positions reach
    float magnitude = 1;               // of cosine and sine
    std::size_t original_context = 0;  // Yarn, LongRope: positions before the stretching
    float extrapolation = 1;           // Yarn: weight of the ramp
    float beta_fast = 32;              // Yarn: pairs that turn more often than this in the original context are kept
    float beta_slow = 1;               // Yarn: pairs that turn less often than this are interpolated
};

// Reads rope.* of the file's architecture.
Result<RopeParameters> read_rope_parameters(const GgufFile& file, const Hyperparameters& h);

// The frequencies, computed in double and rounded once. `factors` divides them pair by pair; empty: none.
RopeTable make_rope_table(const RopeParameters& parameters, std::span<const float> factors);

// The same for numbers from a file: an error naming `base_key` when they make a frequency no angle can be computed
// from.
Result<RopeTable> make_checked_rope_table(const GgufFile& file, const std::string& base_key,
                                          const RopeParameters& parameters, std::span<const float> factors);

// Reading and making together, with the factors the file keeps as tensors: rope_freqs.weight (Llama 3), or
// rope_factors_long.weight when more positions than the original context will be used, else rope_factors_short.weight
// (LongRoPE).
Result<RopeTable> read_rope_table(Weights& weights, const Hyperparameters& h);

}  // namespace hearth
