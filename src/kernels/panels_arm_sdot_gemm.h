// Matmul of packed weights with many tokens, with SDOT or SMULL: some columns of a panel are unpacked to int8 on the
// stack, where they serve tiles of three tokens, whose twelve integer sums then fit in the registers beside them.
// Include after panels_arm_sdot.h.
#pragma once

#include <type_traits>

#include "kernels/panels_arm_sdot.h"

namespace hearth {

namespace {

inline constexpr std::size_t kChunkColumns = 2048;
inline constexpr std::size_t kGroupTokens = 3;
inline constexpr std::size_t kGroups = 64;  // that share an unpacked chunk

// Thirty-two columns, unpacked; vector 4 * s + p as in the packed unit.
struct WideUnit {
    int8x16_t q[16];
    int32x4_t scales[4];  // of blocks of 256: first sixteen columns, rows 0-3 and 4-7, then the others
};
template <typename Panel>
struct WideBlock {
    WideUnit units[Panel::kColumns / kUnitColumns];
    Floats8 d;
    Floats8 minimum;
    const std::byte* packed;  // for its integer minimums
};

template <typename Panel>
void widen(const std::byte* panel, std::size_t blocks, WideBlock<Panel>* out) {
    for (std::size_t b = 0; b < blocks; ++b, panel += Panel::kBlockBytes) {
        out[b].packed = panel;
        out[b].d = Panel::scales(panel);
        if constexpr (Panel::kMinimum) out[b].minimum = Panel::minimums(panel);
        for (std::size_t u = 0; u < Panel::kColumns / kUnitColumns; ++u) {
            WideUnit& unit = out[b].units[u];
            for_each_row_pair([&](auto pair) {
                constexpr std::size_t kP = decltype(pair)::kIndex;
                const RowPair w = signed_weights<Panel, kP>(panel + Panel::kUnitsAt + u * Panel::Unit::kBytes);
                for (std::size_t s = 0; s < 4; ++s) unit.q[4 * s + kP] = w.at[s];
            });
            if constexpr (Panel::kColumns == kBlock256) {
                const SubScales scales = Panel::sub_scales(panel, u);
                unit.scales[0] = vmovl_s16(vget_low_s16(scales.first));
                unit.scales[1] = vmovl_high_s16(scales.first);
                unit.scales[2] = vmovl_s16(vget_low_s16(scales.second));
                unit.scales[3] = vmovl_high_s16(scales.second);
            }
        }
    }
}

struct GroupInts {
    Ints8 at[kGroupTokens];
};

#if defined(__ARM_FEATURE_DOTPROD)
// Adds the products of sixteen columns with three tokens. Assembly: compilers string the sums of one token together and
// then wait for them.
[[gnu::always_inline]] inline void add_half_unit(const int8x16_t* w, const std::int8_t* const (&q)[kGroupTokens],
                                                 std::size_t column, int32x4_t (&sums)[kGroupTokens][4]) {
    const std::int8_t* q0 = q[0] + column;
    const std::int8_t* q1 = q[1] + column;
    const std::int8_t* q2 = q[2] + column;
    __asm__(
        "ldp q0, q1, [%[w]]\n"
        "ld1r {v4.2d}, [%[q0]]\n"
        "add x9, %[q0], #8\n"
        "ld1r {v5.2d}, [%[q1]]\n"
        "add x10, %[q1], #8\n"
        "ld1r {v6.2d}, [%[q2]]\n"
        "add x11, %[q2], #8\n"
        "ldp q2, q3, [%[w], #32]\n"
        "sdot %[a0].4s, v0.16b, v4.16b\n"
        "sdot %[b0].4s, v0.16b, v5.16b\n"
        "sdot %[c0].4s, v0.16b, v6.16b\n"
        "sdot %[a1].4s, v1.16b, v4.16b\n"
        "sdot %[b1].4s, v1.16b, v5.16b\n"
        "sdot %[c1].4s, v1.16b, v6.16b\n"
        "ldp q16, q17, [%[w], #64]\n"
        "ld1r {v20.2d}, [x9]\n"
        "ld1r {v21.2d}, [x10]\n"
        "ld1r {v22.2d}, [x11]\n"
        "sdot %[a2].4s, v2.16b, v4.16b\n"
        "sdot %[b2].4s, v2.16b, v5.16b\n"
        "sdot %[c2].4s, v2.16b, v6.16b\n"
        "sdot %[a3].4s, v3.16b, v4.16b\n"
        "sdot %[b3].4s, v3.16b, v5.16b\n"
        "sdot %[c3].4s, v3.16b, v6.16b\n"
        "ldp q18, q19, [%[w], #96]\n"
        "sdot %[a0].4s, v16.16b, v20.16b\n"
        "sdot %[b0].4s, v16.16b, v21.16b\n"
        "sdot %[c0].4s, v16.16b, v22.16b\n"
        "sdot %[a1].4s, v17.16b, v20.16b\n"
        "sdot %[b1].4s, v17.16b, v21.16b\n"
        "sdot %[c1].4s, v17.16b, v22.16b\n"
        "sdot %[a2].4s, v18.16b, v20.16b\n"
        "sdot %[b2].4s, v18.16b, v21.16b\n"
        "sdot %[c2].4s, v18.16b, v22.16b\n"
        "sdot %[a3].4s, v19.16b, v20.16b\n"
        "sdot %[b3].4s, v19.16b, v21.16b\n"
        "sdot %[c3].4s, v19.16b, v22.16b\n"
        : [a0] "+w"(sums[0][0]), [a1] "+w"(sums[0][1]), [a2] "+w"(sums[0][2]), [a3] "+w"(sums[0][3]),
          [b0] "+w"(sums[1][0]), [b1] "+w"(sums[1][1]), [b2] "+w"(sums[1][2]), [b3] "+w"(sums[1][3]),
          [c0] "+w"(sums[2][0]), [c1] "+w"(sums[2][1]), [c2] "+w"(sums[2][2]), [c3] "+w"(sums[2][3])
        : [w] "r"(w), [q0] "r"(q0), [q1] "r"(q1), [q2] "r"(q2)
        : "memory", "x9", "x10", "x11", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v16", "v17", "v18", "v19", "v20",
          "v21", "v22");
}
#endif

// Products of columns 8 * kFirst to 8 * kLast of a unit with three tokens.
template <std::size_t kFirst, std::size_t kLast>
[[gnu::always_inline]] inline GroupInts multiply_unit(const WideUnit& w, const std::int8_t* const (&q)[kGroupTokens]) {
#if defined(__ARM_FEATURE_DOTPROD)
    int32x4_t sums[kGroupTokens][4] = {};
    if constexpr (kFirst == 0) add_half_unit(w.q, q, 0, sums);
    if constexpr (kLast == 4) add_half_unit(w.q + 8, q, 16, sums);
    return {{row_sums(sums[0]), row_sums(sums[1]), row_sums(sums[2])}};
#else
    GroupInts out;
    for (std::size_t t = 0; t < kGroupTokens; ++t) {
        Octets x[4];
        for (std::size_t s = 0; s < 4; ++s) x[s] = load_octets(q[t] + 8 * s);
        int32x4_t sums[4];
        for (std::size_t p = 0; p < 4; ++p) {
            sums[p] = quad<kFirst, kLast>({{w.q[p], w.q[4 + p], w.q[8 + p], w.q[12 + p]}}, x);
        }
        out.at[t] = row_sums(sums);
    }
    return out;
#endif
}

[[gnu::always_inline]] inline void add_products(Ints8& total, Ints8 isum, const int32x4_t* scales) {
    total.low = vmlaq_s32(total.low, isum.low, scales[0]);
    total.high = vmlaq_s32(total.high, isum.high, scales[1]);
}

// All integers of a block for three tokens.
template <typename Panel, typename Activation>
[[gnu::always_inline]] inline GroupInts multiply_block(const WideBlock<Panel>& w,
                                                       const Activation* const (&x)[kGroupTokens]) {
    if constexpr (Panel::kColumns == kBlock32) {
        return multiply_unit<0, 4>(w.units[0], {x[0]->q, x[1]->q, x[2]->q});
    } else {
        GroupInts total = {};
        for (std::size_t u = 0; u < 8; ++u) {
            const std::int8_t* q[kGroupTokens];
            for (std::size_t t = 0; t < kGroupTokens; ++t) q[t] = x[t]->q + u * kUnitColumns;
            constexpr std::size_t kFirstLast = Panel::kSub16 ? 2 : 4;
            const GroupInts first = multiply_unit<0, kFirstLast>(w.units[u], q);
            for (std::size_t t = 0; t < kGroupTokens; ++t) add_products(total.at[t], first.at[t], w.units[u].scales);
            if constexpr (Panel::kSub16) {
                const GroupInts second = multiply_unit<2, 4>(w.units[u], q);
                for (std::size_t t = 0; t < kGroupTokens; ++t) {
                    add_products(total.at[t], second.at[t], w.units[u].scales + 2);
                }
            }
        }
        return total;
    }
}

template <typename Panel, typename Activation>
[[gnu::always_inline]] inline void multiply_chunk(const WideBlock<Panel>* w, std::size_t blocks,
                                                  const Activation* (&x)[kGroupTokens], TokenSums<kGroupTokens>& kept) {
    TokenSums<kGroupTokens> acc = kept;
    for (std::size_t b = 0; b < blocks; ++b) {
        const GroupInts isum = multiply_block(w[b], x);
        for (std::size_t t = 0; t < kGroupTokens; ++t) {
            constexpr int kFraction = kFractionLeft<Panel>;
            const float scale = x[t]->scale;
            add_scaled(acc.at[t], to_floats<kFraction>(isum.at[t].low), to_floats<kFraction>(isum.at[t].high), w[b].d,
                       scale);
            if constexpr (Panel::kMinimum && Panel::kColumns == kBlock32) {
                const float32x4_t sum = vdupq_n_f32(static_cast<float>(x[t]->sum));
                add_scaled(acc.at[t], sum, sum, w[b].minimum, scale);
            }
            if constexpr (Panel::kMinimum && Panel::kColumns == kBlock256) {
                const Ints8 sums = minimum_sums<Panel>(w[b].packed, x[t]->sums);
                add_scaled(acc.at[t], vcvtq_f32_s32(sums.low), vcvtq_f32_s32(sums.high), w[b].minimum, -scale);
            }
            ++x[t];
        }
    }
    kept = acc;
}

// One panel and the tokens [first, last). Tokens past the end repeat the last one: computed, never stored.
template <typename Panel>
void multiply_group(const PanelTask& task, std::size_t row, std::size_t first, std::size_t last) {
    using Activation = std::conditional_t<Panel::kColumns == kBlock32, ActivationBlock32, ActivationBlock256>;
    constexpr std::size_t kChunkBlocks = kChunkColumns / Panel::kColumns;
    WideBlock<Panel> wide[kChunkBlocks];
    TokenSums<kGroupTokens> sums[kGroups] = {};
    const std::byte* panel = task.panels + row / kPanelRows * task.panel_bytes;
    const std::size_t blocks = task.columns / Panel::kColumns;
    for (std::size_t begin = 0; begin < blocks; begin += kChunkBlocks) {
        const std::size_t count = blocks - begin < kChunkBlocks ? blocks - begin : kChunkBlocks;
        widen<Panel>(panel + begin * Panel::kBlockBytes, count, wide);
        for (std::size_t token = first; token < last; token += kGroupTokens) {
            const Activation* x[kGroupTokens];
            for (std::size_t t = 0; t < kGroupTokens; ++t) {
                const std::size_t own = token + t < last ? token + t : last - 1;
                x[t] = reinterpret_cast<const Activation*>(task.activations + own * task.activation_row_bytes) + begin;
            }
            multiply_chunk(wide, count, x, sums[(token - first) / kGroupTokens]);
        }
    }
    for (std::size_t token = first; token < last; ++token) {
        const Floats8& values = sums[(token - first) / kGroupTokens].at[(token - first) % kGroupTokens];
        store_rows8(task.out + token * task.out_stride + row, task.rows - row, values);
    }
}

template <typename Panel>
void many_tokens(const PanelTask& task) {
    constexpr std::size_t kStep = kGroups * kGroupTokens;
    for (std::size_t row = 0; row < task.rows; row += kPanelRows) {
        for (std::size_t first = 0; first < task.tokens; first += kStep) {
            multiply_group<Panel>(task, row, first, task.tokens - first < kStep ? task.tokens : first + kStep);
        }
    }
}

template <typename Panel>
void panel_matmul(const PanelTask& task) {
    if (task.tokens > 8) return many_tokens<Panel>(task);
    for (std::size_t row = 0; row < task.rows; row += kPanelRows) {
        std::size_t token = 0;
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
