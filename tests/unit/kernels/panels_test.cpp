// Packed weights: every level's panels against the reference over the rows they were made of, by bits.
#include <cmath>

#include "unit/kernels/panel_cases.h"

namespace hearth {
namespace {

using namespace kernel_test;

const PanelKernels& panels_of(const Kernels& kernels, DType type) {
    return kernels.panels[static_cast<std::size_t>(type)];
}

// Few tokens, and any number of them for float weights, as rows; more tokens for quantised ones in tiles.
std::vector<std::byte> arranged(const Kernels& kernels, DType type, const std::vector<std::byte>& rows,
                                std::size_t columns, std::size_t tokens) {
    const ActivationFormat format = traits(type).activation;
    if (tokens < kernels.tiles_from || format == ActivationFormat::F32) return rows;
    const std::size_t bytes = activation_row_bytes(format, columns);
    const auto tile = format == ActivationFormat::Q8x32 ? kernels.tile_q8x32 : kernels.tile_q8x256;
    const std::size_t tiles = (tokens + kernels.tile_tokens - 1) / kernels.tile_tokens;
    std::vector<std::byte> out(tiles * kernels.tile_tokens * bytes, std::byte{0x5a});
    for (std::size_t t = 0; t < tokens; t += kernels.tile_tokens) {
        tile({.rows = rows.data() + t * bytes,
              .row_bytes = bytes,
              .tokens = std::min(kernels.tile_tokens, tokens - t),
              .columns = columns,
              .out = out.data() + t * bytes});
    }
    return out;
}

void expect_equal(const PanelCase& c, const std::vector<float>& x, std::size_t tokens) {
    const std::vector<std::byte> weights = c.weights();
    const std::vector<std::byte> rows = make_activations(reference(), c.type, x, c.columns);
    std::vector<float> expected(c.rows * tokens);
    run_matmul(reference(), c.type, matmul_task(c.type, weights, c.rows, c.columns, rows, tokens, expected));
    for (const Kernels& kernels : supported_kernels()) {
        const PanelKernels& panels = panels_of(kernels, c.type);
        if (panels.rows == 0) continue;
        expect_panel_product(kernels, panels.matmul, c, weights,
                             {arranged(kernels, c.type, rows, c.columns, tokens),
                              activation_row_bytes(traits(c.type).activation, c.columns)},
                             expected);
        if (::testing::Test::HasFatalFailure()) return;
    }
}

TEST(Panels, EveryLevelGivesTheBitsOfTheReferenceAtOddSizes) {
    for (const DType type : kAllTypes) {
        for (const std::size_t columns : {32u, 96u, 256u, 544u, 768u}) {
            if (columns % traits(type).block_elements != 0) continue;
            for (const std::size_t rows : {1u, 7u, 8u, 16u, 37u}) {
                for (const std::size_t tokens : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 12u, 13u, 16u, 17u, 33u}) {
                    expect_equal({type, rows, columns}, random_values(tokens * columns, tokens + 7), tokens);
                    if (HasFatalFailure()) return;
                }
            }
        }
    }
}

TEST(Panels, LongRowsAndManyTokensCrossEveryInnerBorder) {
    for (const DType type : kAllTypes) {
        for (const std::size_t columns : {std::size_t{4096} + 256, std::size_t{9472}}) {
            for (const std::size_t tokens : {1u, 2u, 4u, 8u, 70u}) {
                expect_equal({type, 24, columns}, random_values(tokens * columns, 3), tokens);
                if (HasFatalFailure()) return;
            }
        }
    }
}

// Few tokens walk through up to eight panels at a time: groups of them, what is left, and a group whose last panel is
// not full.
TEST(Panels, GroupsOfPanelsAndWhatIsLeftOfThem) {
    for (const DType type : kAllTypes) {
        for (const std::size_t rows : {61u, 64u, 150u, 231u}) {
            for (const std::size_t tokens : {1u, 2u, 3u, 4u, 8u}) {
                expect_equal({type, rows, 768}, random_values(tokens * 768, tokens), tokens);
                if (HasFatalFailure()) return;
            }
        }
    }
}

// Unpacked weights are shared by 256 tokens.
TEST(Panels, MoreTokensThanShareUnpackedWeights) {
    for (const DType type : kAllTypes) {
        for (const std::size_t tokens : {257u, 290u}) {
            expect_equal({type, 37, 512}, random_values(tokens * 512, 9), tokens);
            if (HasFatalFailure()) return;
        }
    }
}

// Some kernels arrange activations in buffers of their own, which hold 16,384 columns.
TEST(Panels, RowsAsLongAsBuffersAndLonger) {
    for (const DType type : {DType::Q4_0, DType::Q4_K, DType::Q6_K}) {
        for (const std::size_t columns : {std::size_t{16384}, std::size_t{16384} + 256}) {
            for (const std::size_t tokens : {1u, 2u, 4u, 8u}) {
                expect_equal({type, 9, columns}, random_values(tokens * columns, 5), tokens);
                if (HasFatalFailure()) return;
            }
        }
    }
}

TEST(Panels, FloatTilesGiveTheBitsOfRows) {
    for (const DType type : {DType::F16, DType::BF16}) {
        for (const std::size_t columns : {16u, 48u, 1024u, 1040u, 2064u}) {
            for (const std::size_t tokens : {1u, 2u, 3u, 4u, 20u, 270u}) {
                const PanelCase c{type, 24, columns};
                const std::vector<std::byte> weights = c.weights();
                const std::vector<float> x = random_values(tokens * columns, 3);
                const std::vector<std::byte> rows = make_activations(reference(), type, x, columns);
                const std::size_t row_bytes = columns * sizeof(float);
                std::vector<float> expected(c.rows * tokens);
                run_matmul(reference(), type, matmul_task(type, weights, c.rows, columns, rows, tokens, expected));
                for (const Kernels& kernels : supported_kernels()) {
                    const FloatTileKernels& floats = kernels.float_tiles;
                    const auto matmul = floats.panels_matmul[static_cast<std::size_t>(type)];
                    if (matmul == nullptr) continue;
                    std::vector<std::byte> tiles((tokens + floats.tile_tokens) * row_bytes, std::byte{0xff});
                    for (std::size_t t = 0; t < tokens; t += floats.tile_tokens) {
                        floats.tile({.rows = rows.data() + t * row_bytes,
                                     .row_bytes = row_bytes,
                                     .tokens = std::min(floats.tile_tokens, tokens - t),
                                     .columns = columns,
                                     .out = tiles.data() + t * row_bytes});
                    }
                    expect_panel_product(kernels, matmul, c, weights, {tiles, row_bytes}, expected);
                    if (HasFatalFailure()) return;
                }
            }
        }
    }
}

// As with rows: one -0 among sums that underflow shows the sign of a zero weight.
TEST(Panels, TheSignOfAZeroHalfIsKeptWhereASumUnderflows) {
    const PanelCase c{DType::F16, 8, 32};
    std::vector<std::byte> weights(c.rows * c.columns * 2);
    for (std::size_t i = 0; i < c.rows * c.columns; ++i) {
        std::uint16_t half = i % c.columns < 16 ? 0x8001 : 0x0000;
        if (i / c.columns % 2 == 1 && i % c.columns >= 16) half = 0x8000;
        std::memcpy(weights.data() + 2 * i, &half, 2);
    }
    for (const std::size_t tokens : {1u, 2u, 6u, 12u}) {
        const std::vector<float> x(tokens * c.columns, 0x1p-130f);
        const std::vector<std::byte> rows = make_activations(reference(), c.type, x, c.columns);
        std::vector<float> expected(c.rows * tokens);
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = i % 2 == 1 ? -0.0f : 0.0f;
        for (const Kernels& kernels : supported_kernels()) {
            const PanelKernels& panels = panels_of(kernels, c.type);
            if (panels.rows == 0) continue;
            expect_panel_product(kernels, panels.matmul, c, weights, {rows, c.columns * sizeof(float)}, expected);
            if (HasFatalFailure()) return;
        }
    }
}

TEST(Panels, TheLargestIntegersAndScalesDoNotOverflowDifferently) {
    for (const DType type : kAllTypes) {
        if (traits(type).activation == ActivationFormat::F32) continue;
        for (const float sign : {1.0f, -1.0f}) {
            for (const std::size_t tokens : {1u, 2u, 5u, 16u, 49u}) {
                const std::vector<float> x(tokens * 512, sign * 3.0f);  // every q is 127 or -127
                for (const Fill fill : {Fill::AllOnes, Fill::Zero, Fill::Random}) {
                    for (const Scales scales : {Scales::Usual, Scales::Largest, Scales::Subnormal}) {
                        expect_equal({type, 19, 512, fill, scales}, x, tokens);
                        if (HasFatalFailure()) return;
                    }
                }
            }
        }
    }
}

TEST(Panels, TinyAndHugeActivationsKeepTheirScales) {
    for (const DType type : kAllTypes) {
        if (traits(type).activation == ActivationFormat::F32) continue;
        for (const std::size_t tokens : {1u, 2u, 3u, 8u, 9u}) {
            std::vector<float> x = random_values(tokens * 512, 31);
            for (std::size_t i = 0; i < x.size(); ++i) x[i] *= i % 512 < 256 ? 1e-25f : 1e12f;
            expect_equal({type, 16, 512}, x, tokens);
            if (HasFatalFailure()) return;
        }
    }
}

// Some kernels hold these scales as halves where they fit.
TEST(Panels, ScalesOfActivationsCrossTheBordersOfHalves) {
    for (const DType type : kAllTypes) {
        if (traits(type).activation != ActivationFormat::Q8x32) continue;
        for (const std::size_t tokens : {2u, 4u, 8u}) {
            for (const int exponent : {-40, -28, -24, -20, -16, 8, 12, 13, 14, 18}) {
                std::vector<float> x = random_values(tokens * 512, 37);
                for (float& value : x) value = std::ldexp(value, exponent);
                expect_equal({type, 16, 512}, x, tokens);
                if (HasFatalFailure()) return;
            }
            constexpr std::size_t kMany = 32 * 513;  // more blocks than any kernel keeps scales of
            expect_equal({type, 8, kMany}, random_values(tokens * kMany, 41), tokens);
            if (HasFatalFailure()) return;
        }
    }
}

TEST(Panels, EveryQuantisedTypeOfAVectorLevelIsPacked) {
    for (const Kernels& kernels : supported_kernels()) {
        if (kernels.panel_layout.empty()) continue;
        for (const DType type : kAllTypes) {
            if (traits(type).activation == ActivationFormat::F32 || type == DType::TQ1_0) continue;
            EXPECT_GT(panels_of(kernels, type).rows, 0u) << kernels.level << " " << traits(type).name;
        }
    }
}

}  // namespace
}  // namespace hearth
