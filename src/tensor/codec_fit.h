// The searches behind encode_row: scales (and offsets) that minimise the weighted squared error of a small run of
// elements. Sums run in kLanes fixed partial sums, written out with the compiler's portable vectors (plain IEEE
// operations, no ISA flags), so that every compiler and ISA gets the same bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "base/half.h"

namespace hearth::codec {

using Vector = float __attribute__((vector_size(16)));
inline constexpr std::size_t kWidth = sizeof(Vector) / sizeof(float);
inline constexpr std::size_t kLanes = 2 * kWidth;  // two vectors of partial sums hide the latency of the additions
// Runs smaller than this decode to zero in every block type: no f16 scale reaches them. It also keeps 1 / max finite.
inline constexpr float kTiny = 0x1p-40f;
inline constexpr float kHalfMax = 65504.0f;

// To the nearest integer, ties to even, for |value| < 2^22: the addition pushes the fraction out of the mantissa.
inline float round_even(float value) {
    constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23
    return (value + kMagic) - kMagic;
}

inline float round_clamped(float value, float low, float high) {
    const float capped = value < high ? value : high;
    return round_even(capped > low ? capped : low);
}

inline Vector load(const float* from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof vector);
    return vector;
}

inline Vector fill(float value) {
    return Vector{value, value, value, value};
}

inline Vector round_clamped(Vector value, Vector low, Vector high) {
    const Vector magic = fill(12582912.0f);
    const Vector capped = value < high ? value : high;
    return ((capped > low ? capped : low) + magic) - magic;
}

// The half nearest to `value` that is finite.
inline Half finite_half(float value) {
    return to_half(std::clamp(value, -kHalfMax, kHalfMax));
}

// The same, but never zero for a value that is not: the smallest half then, as sub-block scales can still step it.
inline Half nonzero_half(float value) {
    const Half half = finite_half(value);
    if ((half.bits & 0x7fffu) != 0 || value == 0.0f) return half;
    return Half{static_cast<std::uint16_t>(value < 0.0f ? 0x8001u : 1u)};
}

inline double sum(const Vector (&lanes)[2]) {
    const Vector both = lanes[0] + lanes[1];
    return static_cast<double>((both[0] + both[1]) + (both[2] + both[3]));
}

// x = scale * q with q in [Low, High].
struct ScaleSums {
    double xq;                                                     // of w * x * q
    double qq;                                                     // of w * q * q
    double gain() const { return qq > 0.0 ? xq * xq / qq : 0.0; }  // how much of the sum of w * x * x is explained
};

template <std::size_t Count, int Low, int High>
ScaleSums sum_scaled(const float* x, const float* w, float inverse) {
    static_assert(Count % kLanes == 0);
    const Vector low = fill(static_cast<float>(Low));
    const Vector high = fill(static_cast<float>(High));
    const Vector factor = fill(inverse);
    Vector xq[2] = {};
    Vector qq[2] = {};
    for (std::size_t at = 0; at < Count; at += kLanes) {
        for (std::size_t part = 0; part < 2; ++part) {
            const Vector value = load(x + at + part * kWidth);
            const Vector q = round_clamped(value * factor, low, high);
            const Vector weighted = load(w + at + part * kWidth) * q;
            xq[part] += weighted * value;
            qq[part] += weighted * q;
        }
    }
    return {sum(xq), sum(qq)};
}

template <std::size_t Count>
float largest(const float* x) {
    float best = 0.0f;
    for (std::size_t i = 0; i < Count; ++i) {
        if (std::fabs(x[i]) > std::fabs(best)) best = x[i];
    }
    return best;
}

// The scale (of either sign) that fits `x` best: a sweep of starting points, then alternation between rounding and
// least squares. `Steps` starting points each way around the one that maps the largest element to an end of the range.
template <std::size_t Count, int Low, int High, int Steps>
float fit_scale(const float* x, const float* w) {
    const float peak = largest<Count>(x);
    if (std::fabs(peak) < kTiny) return 0.0f;
    double best_gain = 0.0;
    float best_scale = peak / static_cast<float>(Low);
    const auto consider = [&](float inverse) {
        const ScaleSums sums = sum_scaled<Count, Low, High>(x, w, inverse);
        if (sums.gain() <= best_gain) return false;
        best_gain = sums.gain();
        best_scale = static_cast<float>(sums.xq / sums.qq);
        return true;
    };
    constexpr float kStep = 0.125f;
    for (const int end : {Low, High}) {
        const float outward = end < 0 ? -kStep : kStep;
        for (int step = -Steps; step <= Steps; ++step) {
            consider((static_cast<float>(end) + static_cast<float>(step) * outward) / peak);
        }
    }
    for (int round = 0; round < 4 && std::fabs(best_scale) > kTiny; ++round) {
        if (!consider(1.0f / best_scale)) break;
    }
    return best_scale;
}

// x = scale * q + offset with q in [0, High]. The sums are of y = x - origin, which keeps them free of cancellation.
struct LinearSums {
    double q;
    double qq;
    double yq;
};

template <std::size_t Count, int High>
LinearSums sum_linear(const float* y, const float* w, float inverse, float shift) {
    static_assert(Count % kLanes == 0);
    const Vector low = fill(0.0f);
    const Vector high = fill(static_cast<float>(High));
    const Vector factor = fill(inverse);
    const Vector from = fill(shift);
    Vector q_sum[2] = {};
    Vector qq[2] = {};
    Vector yq[2] = {};
    for (std::size_t at = 0; at < Count; at += kLanes) {
        for (std::size_t part = 0; part < 2; ++part) {
            const Vector value = load(y + at + part * kWidth);
            const Vector q = round_clamped((value - from) * factor, low, high);
            const Vector weighted = load(w + at + part * kWidth) * q;
            q_sum[part] += weighted;
            qq[part] += weighted * q;
            yq[part] += weighted * value;
        }
    }
    return {sum(q_sum), sum(qq), sum(yq)};
}

struct Linear {
    float scale;   // >= 0
    float offset;  // what q = 0 means
};

enum class Offset { Any, NotPositive };

// The best Linear of `x`, by the same method over a grid of ranges: both ends may be cut or widened.
template <std::size_t Count, int High, Offset Kind>
Linear fit_linear(const float* x, const float* w) {
    const auto [least, most] = std::minmax_element(x, x + Count);
    const float origin = Kind == Offset::NotPositive ? std::min(*least, 0.0f) : *least;
    const float range = *most - origin;
    if (range < kTiny) return {0.0f, origin};

    float y[Count];
    double ww = 0.0;
    double wy = 0.0;
    double wyy = 0.0;
    for (std::size_t i = 0; i < Count; ++i) {
        y[i] = x[i] - origin;
        ww += static_cast<double>(w[i]);
        wy += static_cast<double>(w[i] * y[i]);
        wyy += static_cast<double>(w[i] * y[i] * y[i]);
    }

    double best_error = 0.0;
    bool found = false;
    double best_scale = 0.0;
    double best_shift = 0.0;
    const auto consider = [&](float inverse, float shift) {
        const LinearSums sums = sum_linear<Count, High>(y, w, inverse, shift);
        const double determinant = ww * sums.qq - sums.q * sums.q;
        if (determinant <= 0.0 || sums.qq <= 0.0) return false;
        double scale = (ww * sums.yq - sums.q * wy) / determinant;
        double offset = (wy - scale * sums.q) / ww;
        if (Kind == Offset::NotPositive && offset > -static_cast<double>(origin)) {
            offset = -static_cast<double>(origin);
            scale = (sums.yq - offset * sums.q) / sums.qq;
        }
        const double error = wyy + scale * scale * sums.qq + offset * offset * ww - 2.0 * scale * sums.yq -
                             2.0 * offset * wy + 2.0 * scale * offset * sums.q;
        if (!(scale > 0.0) || (found && error >= best_error)) return false;
        found = true;
        best_error = error;
        best_scale = scale;
        best_shift = offset;
        return true;
    };
    // In units of one quantisation step: outside the data, at its end, and one or more steps cut off.
    constexpr float kCuts[] = {-0.4f, 0.0f, 0.4f, 0.8f, 1.3f};
    const float unit = range / static_cast<float>(High);
    for (const float low_cut : kCuts) {
        for (const float high_cut : kCuts) {
            const float kept = range - (low_cut + high_cut) * unit;
            consider(static_cast<float>(High) / kept, low_cut * unit);
        }
    }
    for (int round = 0; round < 4 && found; ++round) {
        const float scale = static_cast<float>(best_scale);
        if (scale < kTiny * kTiny || !consider(1.0f / scale, static_cast<float>(best_shift))) break;
    }
    if (!found) return {range / static_cast<float>(High), origin};
    return {static_cast<float>(best_scale), static_cast<float>(best_shift + static_cast<double>(origin))};
}

}  // namespace hearth::codec
