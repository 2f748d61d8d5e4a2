// TensorView: a typed, shaped look at bytes somebody else owns. Dimension 0 is the contiguous one, as in GGUF.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "tensor/dtype.h"

namespace hearth {

struct Shape {
    std::array<std::size_t, 4> extent{1, 1, 1, 1};  // [columns, rows, ...]

    std::size_t columns() const { return extent[0]; }
    std::size_t rows() const { return extent[1] * extent[2] * extent[3]; }
    std::size_t elements() const { return columns() * rows(); }
    bool operator==(const Shape&) const = default;
};

struct TensorView {
    DType type = DType::F32;
    Shape shape;
    const std::byte* data = nullptr;  // owned by the mapped file or the Arena it came from

    std::size_t row_bytes() const { return hearth::row_bytes(type, shape.columns()); }
    std::size_t size_bytes() const { return row_bytes() * shape.rows(); }
    const std::byte* row(std::size_t index) const { return data + index * row_bytes(); }

    // A slice of rows by reference: how fused matrices (QKV, gate and up) are taken apart without a copy.
    TensorView row_range(std::size_t first, std::size_t count) const {
        CHECK(first + count <= shape.rows());
        return TensorView{type, Shape{{shape.columns(), count, 1, 1}}, row(first)};
    }
};

}  // namespace hearth
