// What the fast tiles of every level are made of.
#pragma once

#include "kernels/kernels.h"

namespace hearth {

namespace {

// Up to 256 columns of a token, quantised and filled up with zeros. A token that is missing is zeros.
inline ActivationBlock256 fast_block(const FastTileTask& task, std::size_t token, std::size_t first,
                                     std::size_t columns) {
    ActivationBlock256 block = {};
    if (token >= task.tokens) return block;
    const float* x = task.rows + token * task.row_floats + first;
    float padded[kBlock256] = {};
    if (columns < kBlock256) {
        for (std::size_t i = 0; i < columns; ++i) padded[i] = x[i];
        x = padded;
    }
    task.quantize(x, kBlock256, &block);
    return block;
}

}  // namespace

}  // namespace hearth
