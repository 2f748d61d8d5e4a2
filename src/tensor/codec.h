// Rows of floats to and from every block type. decode is exact (the meaning of a type); encode is the quantiser.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "tensor/dtype.h"

namespace hearth {

// Decodes `out.size()` elements (a multiple of the type's block) from `row` into f32.
void decode_row(DType type, const std::byte* row, std::span<float> out);

// True for the types encode_row can write.
bool can_encode(DType type);

// Quantises `in` (a multiple of the type's block) to `row`. `importance` is empty, or one weight per element:
// how much an error in that column matters (an importance matrix row).
Status encode_row(DType type, std::span<const float> in, std::span<const float> importance, std::byte* row);

}  // namespace hearth
