// The searches behind encode_row: scales (and offsets) that minimise the weighted squared error of a small run of
// elements. Sums run in kLanes fixed partial sums, written out, so that every compiler and ISA gets the same bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/half.h"

namespace hearth::codec {

inline constexpr std::size_t kLanes = 8;
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

inline double sum(const float (&lanes)[kLanes]) {
    return static_cast<double>(((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
                               ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7])));
}

// x = scale * q with q in [Low, High].
struct ScaleSums {
    double xq;                                                     // of w * x * q
    double qq;                                                     // of w * q * q
    double gain() const { return qq > 0.0 ? xq * xq / qq : 0.0; }  // how much of the sum of w * x * x is explained
};

template <std::size_t Count, int Low, int High>
ScaleSums sum_scaled(const float* x, const float* w, float inverse) {
    float xq[kLanes] = {};
    float qq[kLanes] = {};
    for (std::size_t at = 0; at < Count; at += kLanes) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            const float value = x[at + lane];
            const float q = round_clamped(value * inverse, static_cast<float>(Low), static_cast<float>(High));
            const float weighted = w[at + lane] * q;
            xq[lane] += weighted * value;
            qq[lane] += weighted * q;
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
    float q_sum[kLanes] = {};
    float qq[kLanes] = {};
    float yq[kLanes] = {};
    for (std::size_t at = 0; at < Count; at += kLanes) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            const float value = y[at + lane];
            const float q = round_clamped((value - shift) * inverse, 0.0f, static_cast<float>(High));
            const float weighted = w[at + lane] * q;
            q_sum[lane] += weighted;
            qq[lane] += weighted * q;
            yq[lane] += weighted * value;
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
    float w_lanes[kLanes] = {};
    float wy_lanes[kLanes] = {};
    float wyy_lanes[kLanes] = {};
    for (std::size_t at = 0; at < Count; at += kLanes) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            const float value = x[at + lane] - origin;
            const float weighted = w[at + lane] * value;
            y[at + lane] = value;
            w_lanes[lane] += w[at + lane];
            wy_lanes[lane] += weighted;
            wyy_lanes[lane] += weighted * value;
        }
    }
    const double ww = sum(w_lanes);
    const double wy = sum(wy_lanes);
    const double wyy = sum(wyy_lanes);

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
