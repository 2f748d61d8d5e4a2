// The meaning of the fast matmul: weights rounded once more, to one int8 scale a row and 256 columns, and multiplied
// with activations that have one scale for the same columns.
#pragma once

#include "kernels/kernels.h"

namespace hearth {

// Up to 256 columns of a weight row as w = scale * q + minimum, the two per sixteen columns.
struct LinearWeights {
    std::size_t columns = 0;
    std::int32_t largest_code = 0;  // the largest |q| the type can express
    bool has_minimum = false;       // then q is not negative
    float scale[kBlock256 / 16] = {};
    float minimum[kBlock256 / 16] = {};
    std::int32_t q[kBlock256] = {};
};

// The group in int8: w is about scale * q.
struct FastWeights {
    float scale = 0.0f;
    std::int8_t q[kBlock256] = {};
};

// With R the largest |w| the group's codes can express (not only those it has: the headers alone decide):
//   scale = R / 127, b = rint(s * (256 / scale)), c = rint(m * (256 / scale)), q8 = (q * b + c + 128) >> 8.
// q8 keeps its low eight bits: only codes that no encoder writes (the fourth of a ternary type) go beyond them.
// R below 2^-100 makes a group of zeros, R infinite or NaN one whose scale is NaN.
FastWeights round_weights(const LinearWeights& group);

// acc = fma(sum of products, weight scale * activation scale, acc)
float add_fast_product(const FastWeights& w, const ActivationBlock256& x, std::size_t columns, float accumulator);

// out for one row and all tokens. `group(first)` makes the LinearWeights that begin at column `first`.
template <typename Group>
void fast_row(const MatmulTask& task, std::size_t row, const Group& group) {
    for (std::size_t t = 0; t < task.tokens; ++t) task.out[t * task.out_stride + row] = 0.0f;
    for (std::size_t first = 0; first < task.columns; first += kBlock256) {
        const LinearWeights linear = group(first);
        const FastWeights w = round_weights(linear);
        for (std::size_t t = 0; t < task.tokens; ++t) {
            const std::byte* x = task.activations + t * task.activation_row_bytes;
            float& out = task.out[t * task.out_stride + row];
            out = add_fast_product(w, reinterpret_cast<const ActivationBlock256*>(x)[first / kBlock256], linear.columns,
                                   out);
        }
    }
}

}  // namespace hearth
