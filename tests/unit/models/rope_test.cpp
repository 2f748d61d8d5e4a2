// Rope frequencies against values worked out by hand or by transformers.
#include "models/rope.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace hearth {
namespace {

TEST(Rope, FrequenciesArePowersOfTheBaseRoundedOnce) {
    const RopeTable table = make_rope_table(RopeParameters{.rotated = 8, .base = 10000}, {});
    const std::vector<float> expected{1.0F, 0.1F, 0.01F, 0.001F};
    EXPECT_EQ(table.inverse_frequencies, expected);
    EXPECT_EQ(table.magnitude, 1.0F);
}

TEST(Rope, LinearScalingDividesEveryFrequency) {
    const RopeTable table =
        make_rope_table(RopeParameters{.rotated = 4, .base = 10000, .scaling = RopeScaling::Linear, .factor = 4}, {});
    const std::vector<float> expected{0.25F, 0.0025F};
    EXPECT_EQ(table.inverse_frequencies, expected);
}

TEST(Rope, AFactorWithoutAScalingChangesNothing) {
    const RopeTable table = make_rope_table(RopeParameters{.rotated = 2, .base = 10000, .factor = 4}, {});
    EXPECT_EQ(table.inverse_frequencies, std::vector<float>{1.0F});
}

TEST(Rope, FactorsDividePairByPair) {
    const std::array<float, 2> factors{2, 5};
    const RopeTable table = make_rope_table(RopeParameters{.rotated = 4, .base = 100}, factors);
    const std::vector<float> expected{0.5F, 0.02F};
    EXPECT_EQ(table.inverse_frequencies, expected);
}

TEST(Rope, YarnKeepsFastPairsInterpolatesSlowOnesAndRampsBetween) {
    RopeParameters rope{.rotated = 16, .base = 10000, .scaling = RopeScaling::Yarn, .factor = 4};
    rope.original_context = 4096;
    const RopeTable table = make_rope_table(rope, {});
    ASSERT_EQ(table.inverse_frequencies.size(), 8U);
    // Turns within 4096 positions: pair 2 has 65 (kept), pair 6 has 0.65 (interpolated); the ramp runs from pair
    // floor(2.62) = 2 to ceil(5.63) = 6.
    const auto plain = [](double pair) { return std::pow(10000.0, -pair / 8); };
    EXPECT_FLOAT_EQ(table.inverse_frequencies[0], 1.0F);
    EXPECT_FLOAT_EQ(table.inverse_frequencies[2], static_cast<float>(plain(2)));
    EXPECT_FLOAT_EQ(table.inverse_frequencies[4], static_cast<float>(plain(4) * (0.5 + 0.5 / 4)));
    EXPECT_FLOAT_EQ(table.inverse_frequencies[6], static_cast<float>(plain(6) / 4));
    EXPECT_FLOAT_EQ(table.inverse_frequencies[7], static_cast<float>(plain(7) / 4));
}

}  // namespace
}  // namespace hearth
