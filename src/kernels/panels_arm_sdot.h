// Matmul over packed weights with SDOT, or with SMULL where there is no SDOT: one or two tokens share the unpacked
// weights. Activations are plain rows. The sums of a vector are (row 2p, columns 0-3), (row 2p, columns 4-7) and so
// for row 2p + 1: pairwise additions bring them together.
#pragma once

#include "kernels/panels_arm_types.h"

namespace hearth {

namespace {

struct Ints8 {
    int32x4_t low;  // rows 0 to 3
    int32x4_t high;
};

// These instructions are signed: weights above 127 go down to their own size, and lose their fraction bits.
template <typename Panel>
inline constexpr int kFractionLeft = Panel::kUnsigned ? 0 : Panel::Unit::kFraction;

template <typename Panel, std::size_t kP>
[[gnu::always_inline]] inline RowPair signed_weights(const std::byte* unit) {
    RowPair w = Panel::Unit::template row_pair<kP>(unit);
    if constexpr (Panel::kUnsigned && Panel::Unit::kFraction > 0) {
        for (int8x16_t& vector : w.at) {
            vector = vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(vector), Panel::Unit::kFraction));
        }
    }
    return w;
}

template <int kFraction>
[[gnu::always_inline]] inline float32x4_t to_floats(int32x4_t x) {
    if constexpr (kFraction == 0) return vcvtq_f32_s32(x);
    if constexpr (kFraction > 0) return vcvtq_n_f32_s32(x, kFraction);
}

#if defined(__ARM_FEATURE_DOTPROD)
// Eight columns of a token, once for each row of a pair.
using Octets = int8x16_t;
[[gnu::always_inline]] inline Octets load_octets(const std::int8_t* q) {
    const int8x8_t eight = vld1_s8(q);
    return vcombine_s8(eight, eight);
}
// Products of columns 8 * kFirst to 8 * kLast of two rows, two sums a row.
template <std::size_t kFirst, std::size_t kLast>
[[gnu::always_inline]] inline int32x4_t quad(const RowPair& w, const Octets (&x)[4]) {
    int32x4_t sums = vdupq_n_s32(0);
    for (std::size_t s = kFirst; s < kLast; ++s) sums = vdotq_s32(sums, w.at[s], x[s]);
    return sums;
}
#else
using Octets = int8x8_t;
[[gnu::always_inline]] inline Octets load_octets(const std::int8_t* q) {
    return vld1_s8(q);
}
// The same two steps at a time: two products of int8 fit in int16, even -128 * 127 twice.
template <std::size_t kFirst, std::size_t kLast>
[[gnu::always_inline]] inline int32x4_t quad(const RowPair& w, const Octets (&x)[4]) {
    int32x4_t rows[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
    for (std::size_t s = kFirst; s < kLast; s += 2) {
        const int8x16_t a = w.at[s];
        const int8x16_t b = w.at[s + 1];
        rows[0] = vpadalq_s16(rows[0], vmlal_s8(vmull_s8(vget_low_s8(a), x[s]), vget_low_s8(b), x[s + 1]));
        rows[1] = vpadalq_s16(rows[1], vmlal_s8(vmull_s8(vget_high_s8(a), x[s]), vget_high_s8(b), x[s + 1]));
    }
    return vpaddq_s32(rows[0], rows[1]);
}
#endif

[[gnu::always_inline]] inline Ints8 row_sums(const int32x4_t (&quads)[4]) {
    return {vpaddq_s32(quads[0], quads[1]), vpaddq_s32(quads[2], quads[3])};
}

// Thirty-two columns of some tokens.
template <std::size_t kTokens>
struct TokenUnit {
    Octets at[kTokens][4];

    [[gnu::always_inline]] void load(std::size_t token, const std::int8_t* q) {
        for (std::size_t s = 0; s < 4; ++s) at[token][s] = load_octets(q + 8 * s);
    }
};

[[gnu::always_inline]] inline void add_scaled(Floats8& acc, float32x4_t low, float32x4_t high, Floats8 d, float scale) {
    acc.low = vfmaq_f32(acc.low, low, vmulq_n_f32(d.low, scale));
    acc.high = vfmaq_f32(acc.high, high, vmulq_n_f32(d.high, scale));
}

template <std::size_t kTokens>
struct TokenSums {
    Floats8 at[kTokens];
};

template <typename Panel, std::size_t kTokens>
TokenSums<kTokens> tile32(const std::byte* panel, const ActivationBlock32* const (&x)[kTokens], std::size_t blocks) {
    TokenSums<kTokens> acc = {};
    for (std::size_t b = 0; b < blocks; ++b, panel += Panel::kBlockBytes) {
        TokenUnit<kTokens> q;
        for (std::size_t t = 0; t < kTokens; ++t) q.load(t, x[t][b].q);
        int32x4_t quads[kTokens][4];
        for_each_row_pair([&](auto pair) {
            constexpr std::size_t kP = decltype(pair)::kIndex;
            const RowPair w = signed_weights<Panel, kP>(panel + Panel::kUnitsAt);
            for (std::size_t t = 0; t < kTokens; ++t) quads[t][kP] = quad<0, 4>(w, q.at[t]);
        });
        const Floats8 d = Panel::scales(panel);
        for (std::size_t t = 0; t < kTokens; ++t) {
            const Ints8 isum = row_sums(quads[t]);
            const float scale = x[t][b].scale;
            constexpr int kFraction = kFractionLeft<Panel>;
            add_scaled(acc.at[t], to_floats<kFraction>(isum.low), to_floats<kFraction>(isum.high), d, scale);
            if constexpr (Panel::kMinimum) {
                const float32x4_t sum = vdupq_n_f32(static_cast<float>(x[t][b].sum));
                add_scaled(acc.at[t], sum, sum, Panel::minimums(panel), scale);
            }
        }
    }
    return acc;
}

[[gnu::always_inline]] inline void add_products(Ints8& total, Ints8 isum, int16x8_t scales) {
    total.low = vmlaq_s32(total.low, isum.low, vmovl_s16(vget_low_s16(scales)));
    total.high = vmlaq_s32(total.high, isum.high, vmovl_high_s16(scales));
}

// Sum of eight products of a byte of one row and an int16.
[[gnu::always_inline]] inline int32x4_t minimum_products(int16x8_t minimums, int16x8_t sums) {
    return vmlal_high_s16(vmull_s16(vget_low_s16(minimums), vget_low_s16(sums)), minimums, sums);
}

// For each row the sum over sub-blocks of minimum times sum of activations.
template <typename Panel>
[[gnu::always_inline]] inline Ints8 minimum_sums(const std::byte* block, const std::int16_t* sums) {
    const int16x8_t first = vld1q_s16(sums);
    const int16x8_t second = vld1q_s16(sums + 8);
    const int16x8_t whole = vpaddq_s16(first, second);
    int32x4_t pairs[4];
    for (std::size_t p = 0; p < 4; ++p) {
        const MinimumVectors minimums = Panel::minimum_vectors(block, p);
        int32x4_t a = minimum_products(vmovl_s8(vget_low_s8(minimums.whole)), whole);
        int32x4_t b = minimum_products(vmovl_high_s8(minimums.whole), whole);
        if constexpr (Panel::kMinimums == Minimums::Per16) {
            const int16x8_t even = vuzp1q_s16(first, second);
            a = vaddq_s32(a, minimum_products(vmovl_s8(vget_low_s8(minimums.even)), even));
            b = vaddq_s32(b, minimum_products(vmovl_high_s8(minimums.even), even));
        }
        pairs[p] = vpaddq_s32(a, b);
    }
    return {vpaddq_s32(pairs[0], pairs[1]), vpaddq_s32(pairs[2], pairs[3])};
}

template <typename Panel, std::size_t kTokens>
TokenSums<kTokens> tile256(const std::byte* panel, const ActivationBlock256* const (&x)[kTokens], std::size_t blocks) {
    TokenSums<kTokens> acc = {};
    for (std::size_t b = 0; b < blocks; ++b, panel += Panel::kBlockBytes) {
        Ints8 total[kTokens] = {};
        for (std::size_t unit = 0; unit < 8; ++unit) {
            const std::byte* at = panel + Panel::kUnitsAt + unit * Panel::Unit::kBytes;
            TokenUnit<kTokens> q;
            for (std::size_t t = 0; t < kTokens; ++t) q.load(t, x[t][b].q + unit * kUnitColumns);
            int32x4_t first[kTokens][4];
            int32x4_t second[kTokens][4];
            for_each_row_pair([&](auto pair) {
                constexpr std::size_t kP = decltype(pair)::kIndex;
                const RowPair w = signed_weights<Panel, kP>(at);
                for (std::size_t t = 0; t < kTokens; ++t) {
                    first[t][kP] = quad < 0, Panel::kSub16 ? 2 : 4 > (w, q.at[t]);
                    if constexpr (Panel::kSub16) second[t][kP] = quad<2, 4>(w, q.at[t]);
                }
            });
            const SubScales scales = Panel::sub_scales(panel, unit);
            for (std::size_t t = 0; t < kTokens; ++t) {
                add_products(total[t], row_sums(first[t]), scales.first);
                if constexpr (Panel::kSub16) add_products(total[t], row_sums(second[t]), scales.second);
            }
        }
        const Floats8 d = Panel::scales(panel);
        for (std::size_t t = 0; t < kTokens; ++t) {
            const float scale = x[t][b].scale;
            constexpr int kFraction = kFractionLeft<Panel>;
            add_scaled(acc.at[t], to_floats<kFraction>(total[t].low), to_floats<kFraction>(total[t].high), d, scale);
            if constexpr (Panel::kMinimum) {
                const Ints8 sums = minimum_sums<Panel>(panel, x[t][b].sums);
                add_scaled(acc.at[t], vcvtq_f32_s32(sums.low), vcvtq_f32_s32(sums.high), Panel::minimums(panel),
                           -scale);
            }
        }
    }
    return acc;
}

inline void store_rows8(float* out, std::size_t rows, Floats8 values) {
    if (rows >= kPanelRows) {
        vst1q_f32(out, values.low);
        vst1q_f32(out + 4, values.high);
        return;
    }
    float buffer[kPanelRows];
    vst1q_f32(buffer, values.low);
    vst1q_f32(buffer + 4, values.high);
    for (std::size_t i = 0; i < rows; ++i) out[i] = buffer[i];
}

template <typename Panel, std::size_t kTokens>
void multiply_tile(const PanelTask& task, std::size_t row, std::size_t token) {
    const std::byte* panel = task.panels + row / kPanelRows * task.panel_bytes;
    const std::byte* rows = task.activations + token * task.activation_row_bytes;
    TokenSums<kTokens> acc;
    if constexpr (Panel::kColumns == kBlock32) {
        const ActivationBlock32* x[kTokens];
        for (std::size_t t = 0; t < kTokens; ++t) {
            x[t] = reinterpret_cast<const ActivationBlock32*>(rows + t * task.activation_row_bytes);
        }
        acc = tile32<Panel>(panel, x, task.columns / kBlock32);
    } else {
        const ActivationBlock256* x[kTokens];
        for (std::size_t t = 0; t < kTokens; ++t) {
            x[t] = reinterpret_cast<const ActivationBlock256*>(rows + t * task.activation_row_bytes);
        }
        acc = tile256<Panel>(panel, x, task.columns / kBlock256);
    }
    for (std::size_t t = 0; t < kTokens; ++t) {
        store_rows8(task.out + (token + t) * task.out_stride + row, task.rows - row, acc.at[t]);
    }
}

}  // namespace

}  // namespace hearth
