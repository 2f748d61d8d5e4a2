// Matmul over packed weights with SDOT, or with SMULL where there is no SDOT: up to four tokens share the unpacked
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

template <typename Panel>
[[gnu::always_inline]] inline void unpack_signed(const std::byte* unit, UnitVectors& w) {
    Panel::Unit::unpack(unit, w);
    if constexpr (Panel::kUnsigned && Panel::Unit::kFraction > 0) {
        for (int8x16_t& vector : w.at) {
            vector = vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(vector), Panel::Unit::kFraction));
        }
    }
}

template <int kFraction>
[[gnu::always_inline]] inline float32x4_t to_floats(int32x4_t x) {
    if constexpr (kFraction == 0) return vcvtq_f32_s32(x);
    if constexpr (kFraction > 0) return vcvtq_n_f32_s32(x, kFraction);
}

#if defined(__ARM_FEATURE_DOTPROD)
// Columns 8 * kFirst to 8 * kLast of a unit.
template <std::size_t kFirst, std::size_t kLast>
[[gnu::always_inline]] inline Ints8 row_sums(const UnitVectors& w, const std::int8_t* q) {
    int32x4_t sums[4];
    for (std::size_t p = 0; p < 4; ++p) sums[p] = vdupq_n_s32(0);
    for (std::size_t s = kFirst; s < kLast; ++s) {
        const int8x8_t eight = vld1_s8(q + 8 * s);
        const int8x16_t x = vcombine_s8(eight, eight);
        for (std::size_t p = 0; p < 4; ++p) sums[p] = vdotq_s32(sums[p], w.at[4 * s + p], x);
    }
    return {vpaddq_s32(sums[0], sums[1]), vpaddq_s32(sums[2], sums[3])};
}
#else
// Columns 8 * kFirst to 8 * kLast of a unit, two steps at a time: two products of int8 fit in int16, even -128 * 127
// twice.
template <std::size_t kFirst, std::size_t kLast>
[[gnu::always_inline]] inline Ints8 row_sums(const UnitVectors& w, const std::int8_t* q) {
    int32x4_t sums[4];
    for (std::size_t p = 0; p < 4; ++p) {
        int32x4_t rows[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
        for (std::size_t s = kFirst; s < kLast; s += 2) {
            const int8x8_t x0 = vld1_s8(q + 8 * s);
            const int8x8_t x1 = vld1_s8(q + 8 * s + 8);
            const int8x16_t w0 = w.at[4 * s + p];
            const int8x16_t w1 = w.at[4 * s + 4 + p];
            rows[0] = vpadalq_s16(rows[0], vmlal_s8(vmull_s8(vget_low_s8(w0), x0), vget_low_s8(w1), x1));
            rows[1] = vpadalq_s16(rows[1], vmlal_s8(vmull_s8(vget_high_s8(w0), x0), vget_high_s8(w1), x1));
        }
        sums[p] = vpaddq_s32(rows[0], rows[1]);
    }
    return {vpaddq_s32(sums[0], sums[1]), vpaddq_s32(sums[2], sums[3])};
}
#endif

[[gnu::always_inline]] inline void add_scaled(Floats8& acc, float32x4_t low, float32x4_t high, Floats8 d, float scale) {
    acc.low = vfmaq_f32(acc.low, low, vmulq_n_f32(d.low, scale));
    acc.high = vfmaq_f32(acc.high, high, vmulq_n_f32(d.high, scale));
}

template <typename Panel, std::size_t kTokens>
void tile32(const std::byte* panel, const ActivationBlock32* const (&x)[kTokens], std::size_t blocks,
            Floats8 (&acc)[kTokens]) {
    for (std::size_t b = 0; b < blocks; ++b, panel += Panel::kBlockBytes) {
        UnitVectors w;
        unpack_signed<Panel>(panel + Panel::kUnitsAt, w);
        const Floats8 d = Panel::scales(panel);
        for (std::size_t t = 0; t < kTokens; ++t) {
            const ActivationBlock32& block = x[t][b];
            const Ints8 isum = row_sums<0, 4>(w, block.q);
            constexpr int kFraction = kFractionLeft<Panel>;
            add_scaled(acc[t], to_floats<kFraction>(isum.low), to_floats<kFraction>(isum.high), d, block.scale);
            if constexpr (Panel::kMinimum) {
                const float32x4_t sum = vdupq_n_f32(static_cast<float>(block.sum));
                add_scaled(acc[t], sum, sum, Panel::minimums(panel), block.scale);
            }
        }
    }
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
void tile256(const std::byte* panel, const ActivationBlock256* const (&x)[kTokens], std::size_t blocks,
             Floats8 (&acc)[kTokens]) {
    for (std::size_t b = 0; b < blocks; ++b, panel += Panel::kBlockBytes) {
        Ints8 total[kTokens];
        for (Ints8& sums : total) sums = {vdupq_n_s32(0), vdupq_n_s32(0)};
        for (std::size_t unit = 0; unit < 8; ++unit) {
            UnitVectors w;
            unpack_signed<Panel>(panel + Panel::kUnitsAt + unit * Panel::Unit::kBytes, w);
            const SubScales scales = Panel::sub_scales(panel, unit);
            for (std::size_t t = 0; t < kTokens; ++t) {
                const std::int8_t* q = x[t][b].q + unit * kUnitColumns;
                if constexpr (Panel::kSub16) {
                    add_products(total[t], row_sums<0, 2>(w, q), scales.first);
                    add_products(total[t], row_sums<2, 4>(w, q), scales.second);
                } else {
                    add_products(total[t], row_sums<0, 4>(w, q), scales.first);
                }
            }
        }
        const Floats8 d = Panel::scales(panel);
        for (std::size_t t = 0; t < kTokens; ++t) {
            const ActivationBlock256& block = x[t][b];
            constexpr int kFraction = kFractionLeft<Panel>;
            add_scaled(acc[t], to_floats<kFraction>(total[t].low), to_floats<kFraction>(total[t].high), d, block.scale);
            if constexpr (Panel::kMinimum) {
                const Ints8 sums = minimum_sums<Panel>(panel, block.sums);
                add_scaled(acc[t], vcvtq_f32_s32(sums.low), vcvtq_f32_s32(sums.high), Panel::minimums(panel),
                           -block.scale);
            }
        }
    }
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
    Floats8 acc[kTokens];
    for (Floats8& sums : acc) sums = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
    if constexpr (Panel::kColumns == kBlock32) {
        const ActivationBlock32* x[kTokens];
        for (std::size_t t = 0; t < kTokens; ++t) {
            x[t] = reinterpret_cast<const ActivationBlock32*>(rows + t * task.activation_row_bytes);
        }
        tile32<Panel>(panel, x, task.columns / kBlock32, acc);
    } else {
        const ActivationBlock256* x[kTokens];
        for (std::size_t t = 0; t < kTokens; ++t) {
            x[t] = reinterpret_cast<const ActivationBlock256*>(rows + t * task.activation_row_bytes);
        }
        tile256<Panel>(panel, x, task.columns / kBlock256, acc);
    }
    for (std::size_t t = 0; t < kTokens; ++t) {
        store_rows8(task.out + (token + t) * task.out_stride + row, task.rows - row, acc[t]);
    }
}

template <typename Panel>
void panel_matmul(const PanelTask& task) {
    for (std::size_t row = 0; row < task.rows; row += kPanelRows) {
        std::size_t token = 0;
        for (; token + 4 <= task.tokens; token += 4) multiply_tile<Panel, 4>(task, row, token);
        for (; token + 2 <= task.tokens; token += 2) multiply_tile<Panel, 2>(task, row, token);
        if (token < task.tokens) multiply_tile<Panel, 1>(task, row, token);
    }
}

inline void install_panel_matmul(Kernels& table) {
    const auto set = [&table](DType type, void (*matmul)(const PanelTask&)) {
        table.panels[static_cast<std::size_t>(type)].matmul = matmul;
    };
    set(DType::Q4_0, panel_matmul<PanelQ4_0>);
    set(DType::Q4_1, panel_matmul<PanelQ4_1>);
    set(DType::Q5_0, panel_matmul<PanelQ5_0>);
    set(DType::Q5_1, panel_matmul<PanelQ5_1>);
    set(DType::Q8_0, panel_matmul<PanelQ8_0>);
    set(DType::IQ4_NL, panel_matmul<PanelIQ4_NL>);
    set(DType::MXFP4, panel_matmul<PanelMXFP4>);
    set(DType::Q2_K, panel_matmul<PanelQ2_K>);
    set(DType::Q3_K, panel_matmul<PanelQ3_K>);
    set(DType::Q4_K, panel_matmul<PanelQ4_K>);
    set(DType::Q5_K, panel_matmul<PanelQ5_K>);
    set(DType::Q6_K, panel_matmul<PanelQ6_K>);
    set(DType::IQ4_XS, panel_matmul<PanelIQ4_XS>);
    set(DType::TQ2_0, panel_matmul<PanelTQ2_0>);
}

}  // namespace

}  // namespace hearth
