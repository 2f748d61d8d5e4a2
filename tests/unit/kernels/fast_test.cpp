// The fast matmul: every level that has it against its reference, by bits, and the reference against the exact matmul.
#include <limits>

#include "kernels/reference_fast.h"
#include "unit/kernels/panel_cases.h"

namespace hearth {
namespace {

using namespace kernel_test;

std::size_t index(DType type) {
    return static_cast<std::size_t>(type);
}

// Rows of ActivationBlock256, the last block of a row filled up with zeros.
std::vector<ActivationBlock256> quantized_rows(const std::vector<float>& x, std::size_t columns) {
    const std::size_t blocks = (columns + kBlock256 - 1) / kBlock256;
    std::vector<ActivationBlock256> out(x.size() / columns * blocks);
    for (std::size_t t = 0; t < x.size() / columns; ++t) {
        std::vector<float> row(blocks * kBlock256, 0.0f);
        std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(t * columns), columns, row.begin());
        reference().quantize_q8x256(row.data(), row.size(), out.data() + t * blocks);
    }
    return out;
}

std::vector<float> expected_product(DType type, const std::vector<std::byte>& weights, std::size_t rows,
                                    std::size_t columns, const std::vector<float>& x) {
    const std::vector<ActivationBlock256> activations = quantized_rows(x, columns);
    const std::size_t tokens = x.size() / columns;
    std::vector<float> out(rows * tokens);
    reference().fast.rows_matmul[index(type)](
        {.weights = weights.data(),
         .weight_row_bytes = row_bytes(type, columns),
         .rows = rows,
         .columns = columns,
         .activations = reinterpret_cast<const std::byte*>(activations.data()),
         .activation_row_bytes = activations.size() / tokens * sizeof(ActivationBlock256),
         .tokens = tokens,
         .out = out.data(),
         .out_stride = rows});
    return out;
}

std::vector<std::byte> tiles(const Kernels& kernels, const std::vector<float>& x, std::size_t columns) {
    const std::size_t tokens = x.size() / columns;
    const std::size_t each = kernels.fast.tile_tokens;
    std::vector<std::byte> out((tokens + each - 1) / each * each * FastKernels::row_bytes(columns), std::byte{0x5a});
    for (std::size_t t = 0; t < tokens; t += each) {
        kernels.fast.tile({.rows = x.data() + t * columns,
                           .row_floats = columns,
                           .tokens = std::min(each, tokens - t),
                           .columns = columns,
                           .quantize = kernels.quantize_q8x256,
                           .out = out.data() + t * FastKernels::row_bytes(columns)});
    }
    return out;
}

void expect_equal(const PanelCase& c, const std::vector<float>& x) {
    const std::vector<std::byte> weights = c.weights();
    const std::vector<float> expected = expected_product(c.type, weights, c.rows, c.columns, x);
    for (const Kernels& kernels : supported_kernels()) {
        const auto matmul = kernels.fast.panels_matmul[index(c.type)];
        if (kernels.fast.tile_tokens == 0 || matmul == nullptr) continue;
        expect_panel_product(kernels, matmul, c, weights,
                             {tiles(kernels, x, c.columns), FastKernels::row_bytes(c.columns)}, expected);
        if (::testing::Test::HasFatalFailure()) return;
    }
}

bool has_fast(DType type) {
    return reference().fast.rows_matmul[index(type)] != nullptr;
}

TEST(FastMatmul, EveryLevelGivesTheBitsOfTheReferenceAtOddSizes) {
    for (const DType type : kAllTypes) {
        if (!has_fast(type)) continue;
        for (const std::size_t columns : {32u, 96u, 256u, 544u, 768u, 1312u, 2304u}) {
            if (columns % traits(type).block_elements != 0) continue;
            for (const std::size_t rows : {1u, 8u, 16u, 29u}) {
                for (const std::size_t tokens : {1u, 2u, 7u, 8u, 33u}) {
                    expect_equal({type, rows, columns}, random_values(tokens * columns, tokens + 7));
                    if (HasFatalFailure()) return;
                }
            }
        }
    }
}

TEST(FastMatmul, MoreTokensThanOneGroupOfTiles) {
    for (const DType type : {DType::Q4_0, DType::Q4_K}) {
        expect_equal({type, 24, 1280}, random_values(std::size_t{517} * 1280, 5));
    }
}

TEST(FastMatmul, MorePanelsThanShareATile) {
    for (const DType type : {DType::Q5_0, DType::Q6_K}) {
        for (const std::size_t rows : {45u, 64u, 83u}) {
            expect_equal({type, rows, 768}, random_values(std::size_t{50} * 768, rows));
            if (HasFatalFailure()) return;
        }
    }
}

TEST(FastMatmul, TheLargestIntegersAndScalesDoNotOverflowDifferently) {
    for (const DType type : kAllTypes) {
        if (!has_fast(type)) continue;
        for (const float sign : {1.0f, -1.0f}) {
            const std::vector<float> x(std::size_t{9} * 512, sign * 3.0f);
            for (const Fill fill : {Fill::AllOnes, Fill::Zero, Fill::Random}) {
                for (const Scales scales : {Scales::Usual, Scales::Largest, Scales::Subnormal}) {
                    expect_equal({type, 19, 512, fill, scales}, x);
                    if (HasFatalFailure()) return;
                }
            }
        }
    }
}

TEST(FastMatmul, IsCloseToTheExactMatmul) {
    constexpr std::size_t kRows = 64;
    constexpr std::size_t kColumns = 1024;
    constexpr std::size_t kTokens = 4;
    const std::vector<float> x = random_values(kTokens * kColumns, 11);
    for (const DType type : kAllTypes) {
        if (!has_fast(type) || type == DType::TQ2_0) continue;  // random bytes are no ternary weights
        const std::vector<std::byte> weights = random_weights(type, kRows * kColumns, 3);
        const std::vector<float> fast = expected_product(type, weights, kRows, kColumns, x);
        const std::vector<std::byte> activations = make_activations(reference(), type, x, kColumns);
        std::vector<float> exact(kRows * kTokens);
        run_matmul(reference(), type, matmul_task(type, weights, kRows, kColumns, activations, kTokens, exact));
        double difference = 0;
        double size = 0;
        for (std::size_t i = 0; i < exact.size(); ++i) {
            difference += std::pow(static_cast<double>(fast[i]) - static_cast<double>(exact[i]), 2);
            size += std::pow(static_cast<double>(exact[i]), 2);
        }
        EXPECT_LT(std::sqrt(difference / size), 0.08) << traits(type).name;
        EXPECT_GT(difference, 0.0) << traits(type).name;
    }
}

TEST(FastMatmul, WeightsOfOneScaleKeepTheirValues) {
    LinearWeights group;
    group.columns = kBlock256;
    group.largest_code = 127;
    for (float& scale : group.scale) scale = 0.25f;
    for (std::size_t i = 0; i < kBlock256; ++i) group.q[i] = static_cast<std::int32_t>(i % 255) - 127;
    const FastWeights w = round_weights(group);
    EXPECT_EQ(w.scale, 0.25f);
    for (std::size_t i = 0; i < kBlock256; ++i) ASSERT_EQ(w.q[i], group.q[i]) << i;
}

TEST(FastMatmul, AGroupThatIsNotFiniteHasAScaleThatIsNotANumber) {
    LinearWeights group;
    group.columns = 32;
    group.largest_code = 8;
    group.scale[1] = std::numeric_limits<float>::infinity();
    EXPECT_TRUE(std::isnan(round_weights(group).scale));
    group.scale[1] = 0.0f;
    EXPECT_EQ(round_weights(group).scale, 0.0f);
}

}  // namespace
}  // namespace hearth
