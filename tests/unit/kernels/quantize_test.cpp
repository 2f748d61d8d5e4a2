// The activation quantiser: its definition, and the same bits at every level.
#include <limits>

#include "unit/kernels/test_support.h"

namespace hearth {
namespace {

using namespace kernel_test;

std::vector<ActivationBlock32> quantize32(const Kernels& kernels, const std::vector<float>& x) {
    std::vector<ActivationBlock32> out(x.size() / 32);
    kernels.quantize_q8x32(x.data(), x.size(), out.data());
    return out;
}

std::vector<ActivationBlock256> quantize256(const Kernels& kernels, const std::vector<float>& x) {
    std::vector<ActivationBlock256> out(x.size() / 256);
    kernels.quantize_q8x256(x.data(), x.size(), out.data());
    return out;
}

void expect_all_levels_equal(const std::vector<float>& x) {
    const auto expected32 = quantize32(supported_kernels().front(), x);
    const auto expected256 = quantize256(supported_kernels().front(), x);
    for (const Kernels& kernels : supported_kernels()) {
        const auto actual32 = quantize32(kernels, x);
        const auto actual256 = quantize256(kernels, x);
        ASSERT_EQ(std::memcmp(actual32.data(), expected32.data(), actual32.size() * sizeof(ActivationBlock32)), 0)
            << kernels.level;
        ASSERT_EQ(std::memcmp(actual256.data(), expected256.data(), actual256.size() * sizeof(ActivationBlock256)), 0)
            << kernels.level;
    }
}

TEST(Quantize, EveryLevelGivesTheBitsOfTheReference) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        std::vector<float> x = random_values(768, seed);
        const float magnitude = std::ldexp(1.0f, static_cast<int>(seed) - 100);
        for (float& value : x) value *= magnitude;
        expect_all_levels_equal(x);
        if (HasFatalFailure()) return;
    }
}

TEST(Quantize, TiesRoundToEven) {
    std::vector<float> x(256, 0.0f);
    x[0] = 127.0f;  // scale exactly 1
    x[1] = 0.5f;
    x[2] = 1.5f;
    x[3] = -2.5f;
    x[4] = -127.0f;
    x[5] = 126.5f;
    for (const Kernels& kernels : supported_kernels()) {
        const ActivationBlock32 block = quantize32(kernels, x)[0];
        EXPECT_EQ(block.scale, 1.0f);
        EXPECT_EQ(block.q[0], 127);
        EXPECT_EQ(block.q[1], 0);
        EXPECT_EQ(block.q[2], 2);
        EXPECT_EQ(block.q[3], -2);
        EXPECT_EQ(block.q[4], -127);
        EXPECT_EQ(block.q[5], 126);
        EXPECT_EQ(block.sum, 126);
        EXPECT_EQ(quantize256(kernels, x)[0].sums[0], 126);
    }
}

TEST(Quantize, TheScaleHasElevenBitsAndTheErrorStaysNearHalfAStep) {
    const std::vector<float> x = random_values(std::size_t{32} * 64, 3);
    const auto blocks = quantize32(supported_kernels().front(), x);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(blocks[b].scale) & 0x1fffu, 0u);
        std::int32_t sum = 0;
        for (std::size_t i = 0; i < 32; ++i) {
            // Rounding the scale down by 2^-11 can clip the largest value by 127 * 2^-11 of a step.
            EXPECT_NEAR(x[b * 32 + i], blocks[b].scale * static_cast<float>(blocks[b].q[i]), blocks[b].scale * 0.57f);
            sum += blocks[b].q[i];
        }
        EXPECT_EQ(blocks[b].sum, sum);
    }
}

TEST(Quantize, NanAndInfinityGiveANanScaleAndTinyBlocksAreZero) {
    const float special[] = {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
                             std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
    for (const float value : special) {
        for (const std::size_t at : {0u, 17u, 31u, 200u, 255u}) {
            std::vector<float> x = random_values(256, 8);
            x[at] = value;
            expect_all_levels_equal(x);
            const ActivationBlock256 block = quantize256(supported_kernels().front(), x)[0];
            EXPECT_TRUE(std::isnan(block.scale));
            for (const std::int8_t q : block.q) EXPECT_EQ(q, 0);
        }
    }
    for (const float tiny : {0.0f, -0.0f, 1e-45f, 0x1.fffffep-101f}) {
        const std::vector<float> x(256, tiny);
        expect_all_levels_equal(x);
        EXPECT_EQ(quantize32(supported_kernels().front(), x)[0].scale, 0.0f);
    }
    const std::vector<float> smallest(256, 0x1p-100f);
    expect_all_levels_equal(smallest);
    EXPECT_EQ(quantize32(supported_kernels().front(), smallest)[0].q[5], 127);
    expect_all_levels_equal(std::vector<float>(256, std::numeric_limits<float>::max()));
}

}  // namespace
}  // namespace hearth
