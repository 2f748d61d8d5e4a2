// What the parts of encode_row share: one function per family of blocks. Inputs are finite and at most kHalfMax in
// magnitude; `w` is one non-negative weight per element, at least one of each block positive.
#pragma once

#include <cstddef>

#include "tensor/blocks.h"

namespace hearth::codec {

void encode(const float* x, const float* w, BlockQ4_0& block);
void encode(const float* x, const float* w, BlockQ4_1& block);
void encode(const float* x, const float* w, BlockQ5_0& block);
void encode(const float* x, const float* w, BlockQ5_1& block);
void encode(const float* x, const float* w, BlockQ8_0& block);
void encode(const float* x, const float* w, BlockQ4_K& block);
void encode(const float* x, const float* w, BlockQ5_K& block);
void encode(const float* x, const float* w, BlockQ6_K& block);

}  // namespace hearth::codec
