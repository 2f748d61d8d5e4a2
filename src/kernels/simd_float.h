// Float operations for any vector ISA, in the sixteen virtual lanes of the reference. Include after the ISA's
// vocabulary (simd_neon.h or simd_avx2.h), once in an ISA file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace hearth {

namespace {

inline constexpr std::size_t kLaneCount = 16;
inline constexpr std::size_t kVecs = kLaneCount / kWidth;

// Sixteen virtual lanes in as many native vectors as they take.
using Lanes = Vec[kVecs];

[[gnu::always_inline]] inline void clear_lanes(Lanes& lanes) {
    for (std::size_t i = 0; i < kVecs; ++i) lanes[i] = v_set(0.0f);
}

// 1 + e^x with the exponential of reference_float.cpp, where every step has the same bits for less: adding 1.5 * 2^23
// rounds to a whole number, and below the range, or where e^x is no normal number, nothing of it is left beside 1, so
// there it may be wrong. A NaN may become a number: what is divided by it is one too.
[[gnu::always_inline]] inline Vec v_one_plus_exp(Vec x) {
    const Vec high = v_set(88.7f);
    const Vec offset = v_set(12582912.0f);
    const Vec inside = v_clamp(x, v_set(-87.3f), high);
    const Vec shifted = v_add(v_mul(inside, v_set(0x1.715476p+0f)), offset);
    const Vec n = v_sub(shifted, offset);
    Vec r = v_fma(n, v_set(-0x1.62ep-1f), inside);
    r = v_fma(n, v_set(-0x1.0bfbe8p-15f), r);
    Vec p = v_set(0x1.6d981cp-10f);
    p = v_fma(p, r, v_set(0x1.123e14p-7f));
    p = v_fma(p, r, v_set(0x1.55547ep-5f));
    p = v_fma(p, r, v_set(0x1.55548ap-3f));
    p = v_fma(p, r, v_set(0.5f));
    p = v_fma(p, r, v_set(1.0f));
    p = v_fma(p, r, v_set(1.0f));
    p = v_add_to_exponent(p, shifted);
    return v_add(v_set(1.0f), v_select_less(high, x, v_set(__builtin_inff()), p));
}

// Loads of the three float weight types.
struct WeightF32 {
    using Element = float;
    [[gnu::always_inline]] static Vec load(const float* w) { return v_load(w); }
};
struct WeightF16 {
    using Element = std::uint16_t;
    [[gnu::always_inline]] static Vec load(const std::uint16_t* w) { return v_load_f16(w); }
};
struct WeightBF16 {
    using Element = std::uint16_t;
    [[gnu::always_inline]] static Vec load(const std::uint16_t* w) { return v_load_bf16(w); }
};

// Columns past the last whole sixteen, into lanes 0, 1, ... and no other: an added zero could turn -0 into +0.
template <typename Weight>
inline void add_tail(Lanes& lanes, const typename Weight::Element* w, const float* x, std::size_t n) {
    typename Weight::Element padded[kLaneCount] = {};
    float weights[kLaneCount];
    float values[kLaneCount];
    for (std::size_t i = 0; i < n; ++i) padded[i] = w[i];
    for (std::size_t i = 0; i < kVecs; ++i) {
        v_store(weights + i * kWidth, Weight::load(padded + i * kWidth));
        v_store(values + i * kWidth, lanes[i]);
    }
    for (std::size_t i = 0; i < n; ++i) values[i] = __builtin_fmaf(weights[i], x[i], values[i]);
    for (std::size_t i = 0; i < kVecs; ++i) lanes[i] = v_load(values + i * kWidth);
}

template <typename Weight, std::size_t kTokens>
void tile_float(const MatmulTask& task, std::size_t row, std::size_t token) {
    const auto* w = reinterpret_cast<const typename Weight::Element*>(task.weights + row * task.weight_row_bytes);
    const float* x[kTokens];
    Lanes acc[kTokens];
    for (std::size_t t = 0; t < kTokens; ++t) {
        x[t] = reinterpret_cast<const float*>(task.activations + (token + t) * task.activation_row_bytes);
        clear_lanes(acc[t]);
    }
    const std::size_t whole = task.columns / kLaneCount * kLaneCount;
    for (std::size_t k = 0; k < whole; k += kLaneCount) {
        for (std::size_t i = 0; i < kVecs; ++i) {
            const Vec weights = Weight::load(w + k + i * kWidth);
            for (std::size_t t = 0; t < kTokens; ++t)
                acc[t][i] = v_fma(weights, v_load(x[t] + k + i * kWidth), acc[t][i]);
        }
    }
    for (std::size_t t = 0; t < kTokens; ++t) {
        if (whole < task.columns) add_tail<Weight>(acc[t], w + whole, x[t] + whole, task.columns - whole);
        task.out[(token + t) * task.out_stride + row] = v_sum_tree(acc[t]);
    }
}

template <typename Weight>
void matmul_float(const MatmulTask& task) {
    for (std::size_t row = 0; row < task.rows; ++row) {
        std::size_t token = 0;
        for (; token + 4 <= task.tokens; token += 4) tile_float<Weight, 4>(task, row, token);
        for (; token < task.tokens; ++token) tile_float<Weight, 1>(task, row, token);
    }
}

inline void rms_norm(const float* x, const float* weight, std::size_t n, float eps, float* out) {
    Lanes lanes;
    clear_lanes(lanes);
    const std::size_t whole = n / kLaneCount * kLaneCount;
    for (std::size_t k = 0; k < whole; k += kLaneCount) {
        for (std::size_t i = 0; i < kVecs; ++i) {
            const Vec value = v_load(x + k + i * kWidth);
            lanes[i] = v_fma(value, value, lanes[i]);
        }
    }
    if (whole < n) add_tail<WeightF32>(lanes, x + whole, x + whole, n - whole);
    const float mean = v_sum_tree(lanes) / static_cast<float>(n);
    const float inverse = 1.0f / __builtin_sqrtf(mean + eps);
    std::size_t i = 0;
    for (; i + kWidth <= n; i += kWidth)
        v_store(out + i, v_mul(v_mul(v_load(x + i), v_set(inverse)), v_load(weight + i)));
    for (; i < n; ++i) out[i] = (x[i] * inverse) * weight[i];
}

// Vectors whose long chains of operations are woven into each other: a core looks ahead over one or two of them.
inline constexpr std::size_t kTogether = 4;

// out[i] = operation(a[i], b[i]), the tail through padded copies: one element's result does not depend on its
// neighbours.
template <typename Operation>
[[gnu::always_inline]] inline void for_each(const float* a, const float* b, std::size_t n, float* out,
                                            Operation operation) {
    std::size_t i = 0;
    for (; i + kTogether * kWidth <= n; i += kTogether * kWidth) {
        Vec results[kTogether];
        for (std::size_t v = 0; v < kTogether; ++v) {
            results[v] = operation(v_load(a + i + v * kWidth), v_load(b + i + v * kWidth));
        }
        for (std::size_t v = 0; v < kTogether; ++v) v_store(out + i + v * kWidth, results[v]);
    }
    for (; i + kWidth <= n; i += kWidth) v_store(out + i, operation(v_load(a + i), v_load(b + i)));
    if (i == n) return;
    float first[kWidth] = {};
    float second[kWidth] = {};
    for (std::size_t k = i; k < n; ++k) {
        first[k - i] = a[k];
        second[k - i] = b[k];
    }
    v_store(first, operation(v_load(first), v_load(second)));
    for (std::size_t k = i; k < n; ++k) out[k] = first[k - i];
}

inline void add(const float* a, const float* b, std::size_t n, float* out) {
    for_each(a, b, n, out, [](Vec x, Vec y) { return v_add(x, y); });
}

inline void swiglu(const float* gate, const float* up, std::size_t n, float* out) {
    for_each(gate, up, n, out, [](Vec g, Vec u) { return v_mul(v_div(g, v_one_plus_exp(v_neg(g))), u); });
}

inline void geglu(const float* gate, const float* up, std::size_t n, float* out) {
    for_each(gate, up, n, out, [](Vec g, Vec u) {
        const Vec cube = v_mul(v_mul(g, g), g);
        const Vec minus_two_u = v_mul(v_set(-1.59576912160573f), v_fma(v_set(0.044715f), cube, g));
        return v_mul(v_div(g, v_one_plus_exp(minus_two_u)), u);
    });
}

[[gnu::always_inline]] inline VecPair rotate(VecPair head, VecPair angle) {
    return {v_fma(head.first, angle.first, v_neg(v_mul(head.second, angle.second))),
            v_fma(head.first, angle.second, v_mul(head.second, angle.first))};
}

inline void rope(float* head, const float* angles, std::size_t pairs, RopeStyle style) {
    const bool adjacent = style == RopeStyle::Adjacent;
    std::size_t i = 0;
    for (; i + kWidth <= pairs; i += kWidth) {
        const VecPair angle = v_load_pairs(angles + 2 * i);
        if (adjacent) {
            v_store_pairs(head + 2 * i, rotate(v_load_pairs(head + 2 * i), angle));
        } else {
            const VecPair rotated = rotate({v_load(head + i), v_load(head + pairs + i)}, angle);
            v_store(head + i, rotated.first);
            v_store(head + pairs + i, rotated.second);
        }
    }
    for (; i < pairs; ++i) {
        float* first = adjacent ? head + 2 * i : head + i;
        float* second = adjacent ? first + 1 : first + pairs;
        const float a = *first;
        const float b = *second;
        *first = __builtin_fmaf(a, angles[2 * i], -(b * angles[2 * i + 1]));
        *second = __builtin_fmaf(a, angles[2 * i + 1], b * angles[2 * i]);
    }
}

inline void convert_to_f16(const float* x, std::size_t n, Half* out) {
    auto* bits = reinterpret_cast<std::uint16_t*>(out);
    std::size_t i = 0;
    for (; i + kWidth <= n; i += kWidth) v_store_f16(bits + i, v_load(x + i));
    if (i == n) return;
    float padded[kWidth] = {};
    std::uint16_t halves[kWidth];
    for (std::size_t k = i; k < n; ++k) padded[k - i] = x[k];
    v_store_f16(halves, v_load(padded));
    for (std::size_t k = i; k < n; ++k) bits[k] = halves[k - i];
}

// Scale of a block whose largest magnitude has these bits; the inverse is zero where all q are zero.
struct BlockScale {
    float scale;
    float inverse;
};
inline BlockScale block_scale(std::uint32_t largest) {
    if (largest >= 0x7f800000u) return {__builtin_nanf(""), 0.0f};
    if (largest < (127u - 100u) << 23) return {0.0f, 0.0f};
    float magnitude;
    __builtin_memcpy(&magnitude, &largest, 4);
    const float exact = magnitude / 127.0f;
    std::uint32_t bits;
    __builtin_memcpy(&bits, &exact, 4);
    bits = (bits + 0xfffu + ((bits >> 13) & 1u)) & ~0x1fffu;  // 11 significant bits, nearest even
    float scale;
    __builtin_memcpy(&scale, &bits, 4);
    return {scale, 1.0f / scale};
}

inline void quantize_block(const float* x, BlockScale scale, ActivationBlock32& out) {
    out.scale = scale.scale;
    if (scale.inverse == 0.0f) {
        __builtin_memset(out.q, 0, kBlock32);
        out.sum = 0;
        return;
    }
    out.sum = quantize16(x, scale.inverse, out.q) + quantize16(x + 16, scale.inverse, out.q + 16);
}

// Some blocks at a time, step by step: each step waits for nothing but the one before, whose results are there by then.
inline void quantize_q8x32(const float* x, std::size_t n, ActivationBlock32* out) {
    constexpr std::size_t kGroup = 8;
    std::uint32_t largest[kGroup];
    BlockScale scales[kGroup];
    for (std::size_t blocks = n / kBlock32; blocks > 0;) {
        const std::size_t count = blocks < kGroup ? blocks : kGroup;
        for (std::size_t b = 0; b < count; ++b) largest[b] = largest_magnitude(x + b * kBlock32, kBlock32);
        for (std::size_t b = 0; b < count; ++b) scales[b] = block_scale(largest[b]);
        for (std::size_t b = 0; b < count; ++b) quantize_block(x + b * kBlock32, scales[b], out[b]);
        x += count * kBlock32;
        out += count;
        blocks -= count;
    }
}

inline void quantize_q8x256(const float* x, std::size_t n, ActivationBlock256* out) {
    for (std::size_t b = 0; b < n / kBlock256; ++b, x += kBlock256) {
        const BlockScale scale = block_scale(largest_magnitude(x, kBlock256));
        out[b].scale = scale.scale;
        if (scale.inverse == 0.0f) {
            __builtin_memset(out[b].q, 0, kBlock256);
            __builtin_memset(out[b].sums, 0, sizeof out[b].sums);
            continue;
        }
        for (std::size_t j = 0; j < 16; ++j) {
            out[b].sums[j] = static_cast<std::int16_t>(quantize16(x + 16 * j, scale.inverse, out[b].q + 16 * j));
        }
    }
}

[[gnu::always_inline]] inline float largest_of_chunk(const float* x) {
    Vec largest[4];
    for (std::size_t i = 0; i < 4; ++i) largest[i] = v_load(x + i * kWidth);
    for (std::size_t k = 4 * kWidth; k < kLogitChunk; k += 4 * kWidth) {
        for (std::size_t i = 0; i < 4; ++i) largest[i] = v_max(largest[i], v_load(x + k + i * kWidth));
    }
    return v_largest(v_max(v_max(largest[0], largest[1]), v_max(largest[2], largest[3]))) + 0.0f;
}

inline void chunk_maxima(const float* x, std::size_t n, float* maxima) {
    std::size_t i = 0;
    for (; i + kLogitChunk <= n; i += kLogitChunk) *maxima++ = largest_of_chunk(x + i);
    if (i == n) return;
    float padded[kLogitChunk];  // with a value of the chunk itself: it cannot change the maximum
    for (std::size_t k = 0; k < kLogitChunk; ++k) padded[k] = x[i + k < n ? i + k : i];
    *maxima = largest_of_chunk(padded);
}

inline void install_float(Kernels& table) {
    table.matmul[static_cast<std::size_t>(DType::F32)] = matmul_float<WeightF32>;
    table.matmul[static_cast<std::size_t>(DType::F16)] = matmul_float<WeightF16>;
    table.matmul[static_cast<std::size_t>(DType::BF16)] = matmul_float<WeightBF16>;
    table.quantize_q8x32 = quantize_q8x32;
    table.quantize_q8x256 = quantize_q8x256;
    table.rms_norm = rms_norm;
    table.add = add;
    table.swiglu = swiglu;
    table.geglu = geglu;
    table.rope = rope;
    table.to_f16 = convert_to_f16;
    table.chunk_maxima = chunk_maxima;
}

}  // namespace

}  // namespace hearth
