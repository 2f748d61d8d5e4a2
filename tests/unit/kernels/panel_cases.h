// What the tests of both matmuls over panels share: a matrix of weights, and a product compared by bits.
#pragma once

#include "unit/kernels/test_support.h"

namespace hearth::kernel_test {

inline const Kernels& reference() {
    return supported_kernels().front();
}

struct PanelCase {
    DType type;
    std::size_t rows;
    std::size_t columns;
    Fill fill = Fill::Random;
    Scales scales = Scales::Usual;

    std::vector<std::byte> weights() const {
        return random_weights(type, rows * columns, rows * 131 + columns, fill, scales);
    }
};

struct PanelActivations {
    std::vector<std::byte> bytes;  // as the level's matmul takes them
    std::size_t row_bytes = 0;
};

// The product over `weights` packed for `kernels` has the bits of `expected`, and nothing is written beyond its rows.
inline void expect_panel_product(const Kernels& kernels, void (*matmul)(const PanelTask& task), const PanelCase& c,
                                 const std::vector<std::byte>& weights, const PanelActivations& activations,
                                 const std::vector<float>& expected) {
    const PanelKernels& panels = kernels.panels[static_cast<std::size_t>(c.type)];
    const std::vector<std::byte> bytes = packed(panels, c.type, weights, c.rows, c.columns);
    const std::size_t tokens = expected.size() / c.rows;
    const std::size_t stride = c.rows + 3;
    std::vector<float> wide(stride * tokens, 77.0f);
    matmul({.panels = bytes.data(),
            .panel_bytes = panels.panel_bytes(c.columns),
            .rows = c.rows,
            .columns = c.columns,
            .activations = activations.bytes.data(),
            .activation_row_bytes = activations.row_bytes,
            .tokens = tokens,
            .out = wide.data(),
            .out_stride = stride});
    std::vector<float> actual;
    for (std::size_t t = 0; t < tokens; ++t) {
        const float* row = wide.data() + t * stride;
        actual.insert(actual.end(), row, row + c.rows);
        for (std::size_t i = c.rows; i < stride; ++i) {
            ASSERT_EQ(row[i], 77.0f) << kernels.level << " " << traits(c.type).name << " wrote past its rows";
        }
    }
    ASSERT_TRUE(same_bits(actual, expected)) << kernels.level << " " << traits(c.type).name << " rows " << c.rows
                                             << " columns " << c.columns << " tokens " << tokens;
}

}  // namespace hearth::kernel_test
