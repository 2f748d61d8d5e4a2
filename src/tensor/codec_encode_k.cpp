// Quantisers of the 256-element blocks. Sub-blocks are fitted alone first; then their integer scales and the two block
// scales are improved in turn, every trial rounding the elements against the numbers that will be stored.
#include <limits>

#include "tensor/codec_encode.h"
#include "tensor/codec_fit.h"

namespace hearth::codec {

namespace {

constexpr int kRounds = 3;

// Q4_K and Q5_K: w = (d * scale) * q - (dmin * min) with six-bit scale and min, in sub-blocks of 32.
constexpr std::size_t kSubs = 8;
constexpr std::size_t kSubElements = 32;
constexpr int kMaxStep = 63;

struct LinearState {
    Half d;
    Half dmin;
    int scale[kSubs] = {};
    int min[kSubs] = {};
    double error = std::numeric_limits<double>::infinity();
};

template <int High>
float sub_error(const float* x, const float* w, float scale, float min) {
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    const Vector low = fill(0.0f);
    const Vector high = fill(static_cast<float>(High));
    const Vector factor = fill(inverse);
    const Vector steps = fill(scale);
    const Vector under = fill(min);
    Vector lanes[2] = {};
    for (std::size_t at = 0; at < kSubElements; at += kLanes) {
        for (std::size_t part = 0; part < 2; ++part) {
            const Vector value = load(x + at + part * kWidth);
            const Vector q = round_clamped((value + under) * factor, low, high);
            const Vector difference = steps * q - under - value;
            lanes[part] += load(w + at + part * kWidth) * difference * difference;
        }
    }
    return static_cast<float>(sum(lanes));
}

int nearest_step(float value, float unit, int low, int high) {
    if (unit == 0.0f) return 0;
    return static_cast<int>(round_clamped(value / unit, static_cast<float>(low), static_cast<float>(high)));
}

// The integers of one sub-block for given block scales: the nearest to `fit` and their neighbours are tried.
template <int High>
double choose_steps(const float* x, const float* w, const Linear& fit, float d, float dmin, int& scale, int& min) {
    const int near_scale = nearest_step(fit.scale, d, 0, kMaxStep);
    const int near_min = nearest_step(-fit.offset, dmin, 0, kMaxStep);
    float best = std::numeric_limits<float>::infinity();
    for (int s = std::max(near_scale - 1, 0); s <= std::min(near_scale + 1, kMaxStep); ++s) {
        for (int m = std::max(near_min - 1, 0); m <= std::min(near_min + 1, kMaxStep); ++m) {
            const float error = sub_error<High>(x, w, d * static_cast<float>(s), dmin * static_cast<float>(m));
            if (error >= best) continue;
            best = error;
            scale = s;
            min = m;
        }
    }
    return static_cast<double>(best);
}

// Least squares for d and dmin with every integer held fixed.
template <int High>
void refit(const float* x, const float* w, LinearState& state) {
    const float d = to_float(state.d);
    const float dmin = to_float(state.dmin);
    double aa = 0.0, ab = 0.0, bb = 0.0, ax = 0.0, bx = 0.0;  // a = scale * q, b = min
    for (std::size_t sub = 0; sub < kSubs; ++sub) {
        const float* values = x + sub * kSubElements;
        const float* weights = w + sub * kSubElements;
        const float step = d * static_cast<float>(state.scale[sub]);
        const float min = dmin * static_cast<float>(state.min[sub]);
        const LinearSums sums =
            sum_linear<kSubElements, High>(values, weights, step != 0.0f ? 1.0f / step : 0.0f, -min);
        double total = 0.0;
        double mean = 0.0;
        for (std::size_t i = 0; i < kSubElements; ++i) {
            total += static_cast<double>(weights[i]);
            mean += static_cast<double>(weights[i] * values[i]);
        }
        const double s = state.scale[sub];
        const double m = state.min[sub];
        aa += s * s * sums.qq;
        ab += s * m * sums.q;
        bb += m * m * total;
        ax += s * sums.yq;
        bx += m * mean;
    }
    // Minimises sum w (d a - dmin b - x)^2.
    const double determinant = aa * bb - ab * ab;
    if (aa > 0.0 && determinant > 1e-9 * aa * bb) {
        const double scale = (ax * bb - ab * bx) / determinant;
        const double min = (ab * ax - aa * bx) / determinant;
        if (scale > 0.0 && min >= 0.0) {
            state.d = nonzero_half(static_cast<float>(scale));
            state.dmin = nonzero_half(static_cast<float>(min));
        }
    } else if (aa > 0.0 && bb == 0.0 && ax > 0.0) {
        state.d = nonzero_half(static_cast<float>(ax / aa));
    } else if (bb > 0.0 && aa == 0.0 && bx < 0.0) {
        state.dmin = nonzero_half(static_cast<float>(-bx / bb));
    }
}

template <int High>
LinearState fit_block(const float* x, const float* w) {
    Linear fits[kSubs];
    float most_scale = 0.0f;
    float most_min = 0.0f;
    for (std::size_t sub = 0; sub < kSubs; ++sub) {
        fits[sub] = fit_linear<kSubElements, High, Offset::NotPositive>(x + sub * kSubElements, w + sub * kSubElements);
        most_scale = std::max(most_scale, fits[sub].scale);
        most_min = std::max(most_min, -fits[sub].offset);
    }
    LinearState best;
    LinearState state;
    state.d = nonzero_half(most_scale / static_cast<float>(kMaxStep));
    state.dmin = nonzero_half(most_min / static_cast<float>(kMaxStep));
    for (int round = 0; round < kRounds; ++round) {
        state.error = 0.0;
        for (std::size_t sub = 0; sub < kSubs; ++sub) {
            const std::size_t at = sub * kSubElements;
            state.error += choose_steps<High>(x + at, w + at, fits[sub], to_float(state.d), to_float(state.dmin),
                                              state.scale[sub], state.min[sub]);
        }
        if (state.error >= best.error) break;
        best = state;
        refit<High>(x, w, state);
    }
    return best;
}

// Sub-blocks 0..3 fill the low six bits of eight bytes; the others put four bits in the last four bytes and the upper
// two on top of the first eight.
void pack_steps(const LinearState& state, std::uint8_t (&out)[12]) {
    for (std::size_t i = 0; i < 4; ++i) {
        const int scale = state.scale[i + 4];
        const int min = state.min[i + 4];
        out[i] = static_cast<std::uint8_t>(state.scale[i] | (scale >> 4) << 6);
        out[i + 4] = static_cast<std::uint8_t>(state.min[i] | (min >> 4) << 6);
        out[i + 8] = static_cast<std::uint8_t>((scale & 15) | (min & 15) << 4);
    }
}

template <int High, typename Block>
void encode_linear(const float* x, const float* w, Block& block, std::uint8_t (&q)[kBlock256]) {
    const LinearState state = fit_block<High>(x, w);
    block.d = state.d;
    block.dmin = state.dmin;
    pack_steps(state, block.scales);
    for (std::size_t sub = 0; sub < kSubs; ++sub) {
        const float scale = to_float(state.d) * static_cast<float>(state.scale[sub]);
        const float min = to_float(state.dmin) * static_cast<float>(state.min[sub]);
        const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
        for (std::size_t i = sub * kSubElements; i < (sub + 1) * kSubElements; ++i) {
            q[i] = static_cast<std::uint8_t>(round_clamped((x[i] + min) * inverse, 0.0f, static_cast<float>(High)));
        }
    }
    for (std::size_t pair = 0; pair < 4; ++pair) {
        for (std::size_t i = 0; i < 32; ++i) {
            const std::size_t at = pair * 64 + i;
            block.q[pair * 32 + i] = static_cast<std::uint8_t>((q[at] & 15) | (q[at + 32] & 15) << 4);
        }
    }
}

// Q6_K: w = (d * scale) * (q - 32) with a signed eight-bit scale, in sub-blocks of 16.
constexpr std::size_t kSmallSubs = 16;
constexpr std::size_t kSmallElements = 16;

struct ScaleState {
    Half d;
    int scale[kSmallSubs] = {};
    double error = std::numeric_limits<double>::infinity();
};

float small_error(const float* x, const float* w, float scale) {
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    const Vector low = fill(-32.0f);
    const Vector high = fill(31.0f);
    const Vector factor = fill(inverse);
    const Vector steps = fill(scale);
    Vector lanes[2] = {};
    for (std::size_t at = 0; at < kSmallElements; at += kLanes) {
        for (std::size_t part = 0; part < 2; ++part) {
            const Vector value = load(x + at + part * kWidth);
            const Vector difference = steps * round_clamped(value * factor, low, high) - value;
            lanes[part] += load(w + at + part * kWidth) * difference * difference;
        }
    }
    return static_cast<float>(sum(lanes));
}

double choose_small_steps(const float* x, const float* w, const float (&fits)[kSmallSubs], ScaleState& state) {
    const float d = to_float(state.d);
    double total = 0.0;
    for (std::size_t sub = 0; sub < kSmallSubs; ++sub) {
        const int near = nearest_step(fits[sub], d, -128, 127);
        float best = std::numeric_limits<float>::infinity();
        for (int step = std::max(near - 1, -128); step <= std::min(near + 1, 127); ++step) {
            const std::size_t at = sub * kSmallElements;
            const float error = small_error(x + at, w + at, d * static_cast<float>(step));
            if (error >= best) continue;
            best = error;
            state.scale[sub] = step;
        }
        total += static_cast<double>(best);
    }
    return total;
}

ScaleState fit_small_block(const float* x, const float* w) {
    float fits[kSmallSubs];
    for (std::size_t sub = 0; sub < kSmallSubs; ++sub) {
        const std::size_t at = sub * kSmallElements;
        fits[sub] = fit_scale<kSmallElements, -32, 31, 6>(x + at, w + at);
    }
    ScaleState best;
    ScaleState state;
    state.d = nonzero_half(largest<kSmallSubs>(fits) / -128.0f);
    for (int round = 0; round < kRounds; ++round) {
        state.error = choose_small_steps(x, w, fits, state);
        if (state.error >= best.error) break;
        best = state;
        double xq = 0.0;
        double qq = 0.0;
        for (std::size_t sub = 0; sub < kSmallSubs; ++sub) {
            const float step = to_float(state.d) * static_cast<float>(state.scale[sub]);
            if (step == 0.0f) continue;
            const std::size_t at = sub * kSmallElements;
            const ScaleSums sums = sum_scaled<kSmallElements, -32, 31>(x + at, w + at, 1.0f / step);
            xq += state.scale[sub] * sums.xq;
            qq += state.scale[sub] * state.scale[sub] * sums.qq;
        }
        if (qq > 0.0) state.d = nonzero_half(static_cast<float>(xq / qq));
    }
    return best;
}

}  // namespace

void encode(const float* x, const float* w, BlockQ4_K& block) {
    std::uint8_t q[kBlock256];
    encode_linear<15>(x, w, block, q);
}

void encode(const float* x, const float* w, BlockQ5_K& block) {
    std::uint8_t q[kBlock256];
    encode_linear<31>(x, w, block, q);
    for (std::size_t i = 0; i < 32; ++i) {
        int bits = 0;
        for (std::size_t sub = 0; sub < kSubs; ++sub) bits |= (q[sub * 32 + i] >> 4) << sub;
        block.high[i] = static_cast<std::uint8_t>(bits);
    }
}

void encode(const float* x, const float* w, BlockQ6_K& block) {
    const ScaleState state = fit_small_block(x, w);
    std::uint8_t q[kBlock256];
    block.d = state.d;
    for (std::size_t sub = 0; sub < kSmallSubs; ++sub) {
        block.scales[sub] = static_cast<std::int8_t>(state.scale[sub]);
        const float scale = to_float(state.d) * static_cast<float>(state.scale[sub]);
        const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
        for (std::size_t i = sub * kSmallElements; i < (sub + 1) * kSmallElements; ++i) {
            q[i] = static_cast<std::uint8_t>(static_cast<int>(round_clamped(x[i] * inverse, -32.0f, 31.0f)) + 32);
        }
    }
    // Halves of 128: element groups of 32 are low nibbles 0 and 1, high nibbles 2 and 3, and two upper bits each.
    for (std::size_t half = 0; half < 2; ++half) {
        for (std::size_t i = 0; i < 32; ++i) {
            const std::uint8_t* group = q + half * 128 + i;
            block.low[half * 64 + i] = static_cast<std::uint8_t>((group[0] & 15) | (group[64] & 15) << 4);
            block.low[half * 64 + 32 + i] = static_cast<std::uint8_t>((group[32] & 15) | (group[96] & 15) << 4);
            block.high[half * 32 + i] = static_cast<std::uint8_t>((group[0] >> 4) | (group[32] >> 4) << 2 |
                                                                  (group[64] >> 4) << 4 | (group[96] >> 4) << 6);
        }
    }
}

}  // namespace hearth::codec
