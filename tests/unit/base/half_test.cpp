// Half conversions against an independent definition, over all 65536 halves and around every rounding boundary.
#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hearth {
namespace {

double meaning(std::uint16_t bits) {
    const int exponent = (bits >> 10) & 31;
    const int mantissa = bits & 1023;
    const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Half, EveryFiniteHalfConvertsToItsMeaningAndBack) {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
        if (((bits >> 10) & 31) == 31) continue;
        const Half half{static_cast<std::uint16_t>(bits)};
        ASSERT_EQ(static_cast<double>(to_float(half)), meaning(half.bits));
        ASSERT_EQ(to_half(to_float(half)).bits, bits);
    }
}

TEST(Half, RoundsToNearestEvenBetweenNeighbours) {
    for (std::uint16_t bits = 0; bits < 0x7bff; ++bits) {
        const double low = meaning(bits);
        const double high = meaning(static_cast<std::uint16_t>(bits + 1));
        const float middle = static_cast<float>((low + high) / 2);  // exact: one more bit than a half has
        const std::uint16_t even = static_cast<std::uint16_t>((bits & 1) != 0 ? bits + 1 : bits);
        ASSERT_EQ(to_half(middle).bits, even);
        ASSERT_EQ(to_half(std::nextafter(middle, -1.0f)).bits, bits);
        ASSERT_EQ(to_half(std::nextafter(middle, 1e9f)).bits, bits + 1);
    }
}

TEST(Half, LargeValuesBecomeInfinityAndNanStaysNan) {
    EXPECT_EQ(to_half(65519.99f).bits, 0x7bff);
    EXPECT_EQ(to_half(65520.0f).bits, 0x7c00);
    EXPECT_EQ(to_half(-std::numeric_limits<float>::infinity()).bits, 0xfc00);
    EXPECT_TRUE(std::isnan(to_float(to_half(std::numeric_limits<float>::quiet_NaN()))));
    EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(BFloat16, RoundsToNearestEven) {
    EXPECT_EQ(to_bfloat16(1.0f).bits, 0x3f80);
    EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);  // halfway, even below
    EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);  // halfway, even above
    EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3f808001u)).bits, 0x3f81);
}

}  // namespace
}  // namespace hearth
