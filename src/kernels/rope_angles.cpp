// Sine and cosine for rope, in double precision and without a C library: the same bits on every machine. Neither fused
// multiply-adds nor library calls appear here.
#include <cmath>

#include "kernels/kernels.h"

namespace hearth {

namespace {

// pi/2 in three parts. The first two have 28 bits, so their products with a quadrant number below 2^23 (angles to 1.3e7
// rad) are exact; beyond, accuracy falls off gently.
constexpr double kHalfPi1 = 0x1.921fb54p+0;
constexpr double kHalfPi2 = 0x1.10b461p-30;
constexpr double kHalfPi3 = 0x1.a62633145c06ep-58;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;

// Taylor series on [-pi/4, pi/4]: what is left out is below 5e-17.
double sine_polynomial(double r) {
    const double z = r * r;
    double p = -1.0 / 1307674368000.0;
    p = p * z + 1.0 / 6227020800.0;
    p = p * z - 1.0 / 39916800.0;
    p = p * z + 1.0 / 362880.0;
    p = p * z - 1.0 / 5040.0;
    p = p * z + 1.0 / 120.0;
    p = p * z - 1.0 / 6.0;
    return r + r * (z * p);
}

double cosine_polynomial(double r) {
    const double z = r * r;
    double p = 1.0 / 20922789888000.0;
    p = p * z - 1.0 / 87178291200.0;
    p = p * z + 1.0 / 479001600.0;
    p = p * z - 1.0 / 3628800.0;
    p = p * z + 1.0 / 40320.0;
    p = p * z - 1.0 / 720.0;
    p = p * z + 1.0 / 24.0;
    p = p * z - 0.5;
    return 1.0 + z * p;
}

struct Angle {
    double cosine;
    double sine;
};

Angle cosine_and_sine(double x) {
    const double quadrant = std::nearbyint(x * kTwoOverPi);
    const double r = ((x - quadrant * kHalfPi1) - quadrant * kHalfPi2) - quadrant * kHalfPi3;
    const double c = cosine_polynomial(r);
    const double s = sine_polynomial(r);
    switch (static_cast<std::int64_t>(quadrant) & 3) {
        case 0: return {c, s};
        case 1: return {-s, c};
        case 2: return {-c, -s};
        default: return {s, -c};
    }
}

}  // namespace

void rope_angles(std::uint32_t position, std::span<const float> inverse_frequencies, float magnitude, float* angles) {
    for (std::size_t i = 0; i < inverse_frequencies.size(); ++i) {
        const double x = static_cast<double>(position) * static_cast<double>(inverse_frequencies[i]);
        const Angle angle = cosine_and_sine(x);
        angles[2 * i] = static_cast<float>(angle.cosine * static_cast<double>(magnitude));
        angles[2 * i + 1] = static_cast<float>(angle.sine * static_cast<double>(magnitude));
    }
}

}  // namespace hearth
