// exp and log in double, as plain arithmetic: the same bits on every machine, which a libm does not promise.
#pragma once

#include <bit>
#include <cstdint>

namespace hearth {

// Two doubles in one register, on every machine; the same arithmetic as on one.
using Double2 = double __attribute__((vector_size(16)));
using Bits2 = std::uint64_t __attribute__((vector_size(16)));

// e^x for x <= 0 (relative error below 1e-14); what is below -700 counts as -700. No branch.
// Real and Bits are double and uint64_t, or the vectors of them.
template <typename Real, typename Bits>
[[gnu::always_inline]] inline Real exponential_of(Real x) {
    constexpr double kInverseLn2 = 1.4426950408889634;
    constexpr double kLn2High = 0x1.62e42fefa3800p-1;
    constexpr double kLn2Low = 0x1.ef35793c76730p-45;
    constexpr double kRoundToInteger = 0x1.8p52;  // adding it leaves the integer in the low bits
    const Real lowest = Real{} - 700.0;
    x = x < lowest ? lowest : x;
    const Real shifted = x * kInverseLn2 + kRoundToInteger;
    const Real n = shifted - kRoundToInteger;
    const Real r = (x - n * kLn2High) - n * kLn2Low;  // in [-ln2/2, ln2/2]
    Real p = Real{} + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    // Times 2^n: n is added to the exponent field; it stays normal for x >= -700.
    return std::bit_cast<Real>(std::bit_cast<Bits>(p) + (std::bit_cast<Bits>(shifted) << 52));
}

inline double exponential(double x) {
    return exponential_of<double, std::uint64_t>(x);
}
[[gnu::always_inline]] inline Double2 exponential(Double2 x) {
    return exponential_of<Double2, Bits2>(x);
}

// ln x for normal x > 0, by 2 artanh((m - 1) / (m + 1)) of the mantissa.
inline double logarithm(double x) {
    constexpr double kLn2 = 0.6931471805599453;
    constexpr double kSqrt2 = 1.4142135623730951;
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
    double exponent = static_cast<double>(static_cast<std::int64_t>(bits >> 52) - 1023);
    double mantissa = std::bit_cast<double>((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);  // [1, 2)
    if (mantissa > kSqrt2) {
        mantissa *= 0.5;
        exponent += 1.0;
    }
    const double s = (mantissa - 1.0) / (mantissa + 1.0);
    const double square = s * s;
    double sum = 0.0;
    for (int power = 23; power >= 1; power -= 2) sum = sum * square + 1.0 / power;
    return exponent * kLn2 + 2.0 * s * sum;
}

}  // namespace hearth
