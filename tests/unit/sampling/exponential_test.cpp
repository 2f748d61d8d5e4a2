#include "sampling/exponential.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hearth {
namespace {

TEST(Exponential, AgreesWithTheLibraryOverItsWholeRange) {
    for (double x = 0.0; x > -700.0; x -= 0.0137) {
        EXPECT_NEAR(exponential(x) / std::exp(x), 1.0, 2e-14) << x;
    }
    EXPECT_EQ(exponential(0.0), 1.0);
}

TEST(Exponential, TreatsMinusInfinityAsNegligible) {
    const double value = exponential(-INFINITY);
    EXPECT_GT(value, 0.0);
    EXPECT_LT(value, 1e-300);
}

TEST(Logarithm, AgreesWithTheLibrary) {
    for (double x = 1.0; x < 1e9; x *= 1.0031) {
        EXPECT_NEAR(logarithm(x), std::log(x), 4e-15 * std::max(1.0, std::log(x))) << x;
    }
    EXPECT_NEAR(logarithm(0.3), std::log(0.3), 1e-15);
    EXPECT_EQ(logarithm(1.0), 0.0);
}

}  // namespace
}  // namespace hearth
