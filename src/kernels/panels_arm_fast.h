// The fast matmul over the panels of AArch64: some columns of a panel are unpacked and rounded to int8 with one scale
// per 256 columns, and stay in the first-level cache for all tiles of eight tokens. Include in a file built with the
// int8 matrix multiply extension.
#pragma once

#include "kernels/fast_block.h"
#include "kernels/panels_arm_gemm.h"

namespace hearth {

namespace {

inline constexpr std::size_t kFastTokens = 8;
inline constexpr std::size_t kFastPairs = kFastTokens / 2;
inline constexpr std::size_t kFastStepBytes = 64;  // eight columns of eight rows, or of eight tokens
inline constexpr std::size_t kFastChunkBlocks = 8;
inline constexpr std::size_t kFastPanels = 2;       // that share the tokens while these are in the cache
inline constexpr std::size_t kFastGroupTiles = 64;  // tiles whose sums are kept from chunk to chunk

// A tile of eight tokens: [eight columns][token][8] bytes, then for every 256 columns the scales of the tokens.
inline void fast_tile(const FastTileTask& task) {
    std::byte* scales = task.out + kFastTokens * task.columns;
    for (std::size_t first = 0; first < task.columns; first += kBlock256) {
        const std::size_t columns = task.columns - first < kBlock256 ? task.columns - first : kBlock256;
        for (std::size_t t = 0; t < kFastTokens; ++t) {
            const ActivationBlock256 block = fast_block(task, t, first, columns);
            std::byte* out = task.out + kFastTokens * first + 8 * t;
            for (std::size_t s = 0; s < columns / 8; ++s) {
                __builtin_memcpy(out + kFastStepBytes * s, block.q + 8 * s, 8);
            }
            __builtin_memcpy(scales + first / kBlock256 * kFastTokens * sizeof(float) + 4 * t, &block.scale, 4);
        }
    }
}

// The largest magnitude of a type's codes.
template <typename Panel>
inline constexpr std::int32_t kLargestCode = 0;
template <>
inline constexpr std::int32_t kLargestCode<PanelMixedQ4_0> = 8;
template <>
inline constexpr std::int32_t kLargestCode<PanelQ4_1> = 15;
template <>
inline constexpr std::int32_t kLargestCode<PanelQ5_0> = 16;
template <>
inline constexpr std::int32_t kLargestCode<PanelQ5_1> = 31;
template <>
inline constexpr std::int32_t kLargestCode<PanelQ8_0> = 127;
template <>
inline constexpr std::int32_t kLargestCode<PanelIQ4_NL> = 127;
template <>
inline constexpr std::int32_t kLargestCode<PanelMXFP4> = 12;
template <>
inline constexpr std::int32_t kLargestCode<PanelQ2_K> = 3;
template <>
inline constexpr std::int32_t kLargestCode<PanelQ3_K> = 4;
template <>
inline constexpr std::int32_t kLargestCode<PanelQ4_K> = 15;
template <>
inline constexpr std::int32_t kLargestCode<PanelQ5_K> = 31;
template <>
inline constexpr std::int32_t kLargestCode<PanelQ6_K> = 32;
template <>
inline constexpr std::int32_t kLargestCode<PanelIQ4_XS> = 127;
template <>
inline constexpr std::int32_t kLargestCode<PanelTQ2_0> = 1;

// w = scale * q + minimum for the eight rows, in the first and the second sixteen columns of a unit.
struct LinearUnit {
    Floats8 scale[2];
    Floats8 minimum[2];
};

[[gnu::always_inline]] inline Floats8 times(Floats8 d, int16x8_t integers) {
    return {vmulq_f32(d.low, vcvtq_f32_s32(vmovl_s16(vget_low_s16(integers)))),
            vmulq_f32(d.high, vcvtq_f32_s32(vmovl_high_s16(integers)))};
}
[[gnu::always_inline]] inline Floats8 negated(Floats8 x) {
    return {vnegq_f32(x.low), vnegq_f32(x.high)};
}

template <typename Panel>
inline constexpr bool kTwoScales = false;
template <>
inline constexpr bool kTwoScales<PanelQ2_K> = true;
template <>
inline constexpr bool kTwoScales<PanelQ3_K> = true;
template <>
inline constexpr bool kTwoScales<PanelQ6_K> = true;

// Unit `unit` of 256 columns that begin at `block` (eight blocks, or one).
template <typename Panel>
[[gnu::always_inline]] inline LinearUnit linear_unit(const std::byte* block, std::size_t unit) {
    LinearUnit out = {};
    if constexpr (Panel::kColumns == kBlock32) {
        block += unit * Panel::kBlockBytes;
        out.scale[0] = Panel::scales(block);
        if constexpr (Panel::kMinimum) out.minimum[0] = Panel::minimums(block);
    } else {
        const SubScales scales = Panel::sub_scales(block, unit);
        const Floats8 d = Panel::scales(block);
        out.scale[0] = times(d, scales.first);
        if constexpr (kTwoScales<Panel>) out.scale[1] = times(d, scales.second);
        if constexpr (Panel::kMinimum) {
            // Minimums lie row after row, a byte for each unit.
            alignas(8) static constexpr std::uint8_t kRows[8] = {0, 8, 16, 24, 32, 40, 48, 56};
            const std::byte* at = block + Panel::kMinimumsAt;
            const uint8x16x4_t table = {load_plane(at, 0), load_plane(at, 1), load_plane(at, 2), load_plane(at, 3)};
            const uint8x8_t bytes =
                vqtbl4_u8(table, vadd_u8(vld1_u8(kRows), vdup_n_u8(static_cast<std::uint8_t>(unit))));
            const Floats8 dmin = Panel::minimums(block);
            if constexpr (Panel::kMinimums == Minimums::Per16) {
                const uint8x8_t first = vand_u8(bytes, vdup_n_u8(15));
                out.minimum[0] = negated(times(dmin, vreinterpretq_s16_u16(vmovl_u8(first))));
                out.minimum[1] = negated(times(dmin, vreinterpretq_s16_u16(vmovl_u8(vshr_n_u8(bytes, 4)))));
            } else {
                out.minimum[0] = negated(times(dmin, vreinterpretq_s16_u16(vmovl_u8(bytes))));
            }
        }
    }
    return out;
}

[[gnu::always_inline]] inline uint32x4_t larger_magnitude(uint32x4_t reach, float32x4_t x) {
    return vmaxq_u32(reach, vreinterpretq_u32_f32(vabsq_f32(x)));
}

// What rounds four rows of a group: their scale, and the factor of their linear units.
struct Rounding {
    float32x4_t scale;
    float32x4_t inverse;
    uint32x4_t usual;  // all ones, or zeros where the group is zeros or not finite
};
[[gnu::always_inline]] inline Rounding rounding(uint32x4_t reach) {
    const uint32x4_t infinity = vdupq_n_u32(0x7f800000u);
    const uint32x4_t bad = vcgeq_u32(reach, infinity);
    const uint32x4_t usual = vbicq_u32(vcgeq_u32(reach, vdupq_n_u32((127u - 100u) << 23)), bad);
    const float32x4_t scale = vdivq_f32(vreinterpretq_f32_u32(reach), vdupq_n_f32(127.0f));
    const float32x4_t inverse = vdivq_f32(vdupq_n_f32(256.0f), scale);
    const uint32x4_t kept =
        vorrq_u32(vandq_u32(vreinterpretq_u32_f32(scale), usual), vandq_u32(vdupq_n_u32(0x7fc00000u), bad));
    return {vreinterpretq_f32_u32(kept), inverse, usual};
}
[[gnu::always_inline]] inline int16x8_t rounded(Floats8 x, const Rounding (&to)[2]) {
    const int32x4_t low = vcvtnq_s32_f32(vmulq_f32(x.low, to[0].inverse));
    const int32x4_t high = vcvtnq_s32_f32(vmulq_f32(x.high, to[1].inverse));
    return vcombine_s16(vmovn_s32(vandq_s32(low, vreinterpretq_s32_u32(to[0].usual))),
                        vmovn_s32(vandq_s32(high, vreinterpretq_s32_u32(to[1].usual))));
}

// Sixteen codes, eight of row 2p and eight of row 2p + 1.
template <std::size_t kP, bool kMinimum>
[[gnu::always_inline]] inline int8x16_t round_codes(int8x16_t q, int16x8_t b, int16x8_t c) {
    int16x8_t first = vmovl_s8(vget_low_s8(q));
    int16x8_t second = vmovl_high_s8(q);
    if constexpr (kMinimum) {
        first = vmlaq_laneq_s16(vdupq_laneq_s16(c, 2 * kP), first, b, 2 * kP);
        second = vmlaq_laneq_s16(vdupq_laneq_s16(c, 2 * kP + 1), second, b, 2 * kP + 1);
    } else {
        first = vmulq_laneq_s16(first, b, 2 * kP);
        second = vmulq_laneq_s16(second, b, 2 * kP + 1);
    }
    return vrshrn_high_n_s16(vrshrn_n_s16(first, 8), second, 8);
}

// A group of up to 256 columns of a panel, rounded: [eight columns][row pair] of sixteen bytes, and the scales.
struct alignas(64) FastGroup {
    int8x16_t q[4 * kBlock256 / 8];
    PairFloats scales;
};

template <typename Panel>
void round_group(const std::byte* block, std::size_t units, FastGroup& out) {
    LinearUnit linear[8];
    uint32x4_t reach[2] = {vdupq_n_u32(0), vdupq_n_u32(0)};
    const float32x4_t code = vdupq_n_f32(static_cast<float>(kLargestCode<Panel>));
    constexpr std::size_t kParts = kTwoScales<Panel> ? 2 : 1;
    for (std::size_t u = 0; u < units; ++u) {
        linear[u] = linear_unit<Panel>(block, u);
        for (std::size_t i = 0; i < kParts; ++i) {
            const Floats8 s = linear[u].scale[i];
            if constexpr (Panel::kMinimum) {
                const Floats8 m = linear[u].minimum[i];
                reach[0] = larger_magnitude(larger_magnitude(reach[0], m.low), vfmaq_f32(m.low, s.low, code));
                reach[1] = larger_magnitude(larger_magnitude(reach[1], m.high), vfmaq_f32(m.high, s.high, code));
            } else {
                reach[0] = larger_magnitude(reach[0], vmulq_f32(s.low, code));
                reach[1] = larger_magnitude(reach[1], vmulq_f32(s.high, code));
            }
        }
    }
    const Rounding to[2] = {rounding(reach[0]), rounding(reach[1])};
    out.scales = pair_floats({to[0].scale, to[1].scale});
    for (std::size_t u = 0; u < units; ++u) {
        int16x8_t b[2];
        int16x8_t c[2];
        for (std::size_t i = 0; i < 2; ++i) {
            b[i] = rounded(linear[u].scale[i % kParts], to);
            c[i] = rounded(linear[u].minimum[i % kParts], to);
        }
        const std::byte* unit = block + Panel::kUnitsAt;
        unit += Panel::kColumns == kBlock32 ? u * Panel::kBlockBytes : u * Panel::Unit::kBytes;
        int8x16_t codes[16];
        widen_weights<Panel>(unit, codes);
        for_each_row_pair([&](auto pair) {
            constexpr std::size_t kP = decltype(pair)::kIndex;
            for (std::size_t s = 0; s < 4; ++s) {
                out.q[16 * u + 4 * s + kP] = round_codes<kP, Panel::kMinimum>(codes[4 * s + kP], b[s / 2], c[s / 2]);
            }
        });
    }
}

struct FastSums {
    float32x4_t at[kFastPairs][4];
};

// Eight rows by eight tokens over `columns` columns, a multiple of 16. Registers: the sums wherever the compiler wants
// them, v16-v19 and v24-v27 weights of two steps of eight columns, v20-v23 and v28-v31 activations.
[[gnu::always_inline]] inline void multiply_fast(const FastGroup& w, const std::byte* x, std::size_t columns,
                                                 int32x4_t (&sums)[kFastPairs][4]) {
    const int8x16_t* weights = w.q;
    std::size_t steps = columns / 16;
    __asm__ volatile(
        "ldp q16, q17, [%[w]]\n"
        "ldp q20, q21, [%[x]]\n"
        "ldp q18, q19, [%[w], #32]\n"
        "ldp q22, q23, [%[x], #32]\n"
        "movi %[a0].4s, #0\n"
        "movi %[a1].4s, #0\n"
        "movi %[a2].4s, #0\n"
        "movi %[a3].4s, #0\n"
        "movi %[b0].4s, #0\n"
        "movi %[b1].4s, #0\n"
        "movi %[b2].4s, #0\n"
        "movi %[b3].4s, #0\n"
        "movi %[c0].4s, #0\n"
        "movi %[c1].4s, #0\n"
        "movi %[c2].4s, #0\n"
        "movi %[c3].4s, #0\n"
        "movi %[d0].4s, #0\n"
        "movi %[d1].4s, #0\n"
        "movi %[d2].4s, #0\n"
        "movi %[d3].4s, #0\n"
        "1:\n"
        "subs %[steps], %[steps], #1\n"
        "ldp q24, q25, [%[w], #64]\n"
        "smmla %[a0].4s, v16.16b, v20.16b\n"
        "smmla %[a1].4s, v17.16b, v20.16b\n"
        "smmla %[b0].4s, v16.16b, v21.16b\n"
        "smmla %[b1].4s, v17.16b, v21.16b\n"
        "ldp q28, q29, [%[x], #64]\n"
        "smmla %[a2].4s, v18.16b, v20.16b\n"
        "smmla %[a3].4s, v19.16b, v20.16b\n"
        "smmla %[b2].4s, v18.16b, v21.16b\n"
        "smmla %[b3].4s, v19.16b, v21.16b\n"
        "ldp q26, q27, [%[w], #96]\n"
        "smmla %[c0].4s, v16.16b, v22.16b\n"
        "smmla %[c1].4s, v17.16b, v22.16b\n"
        "smmla %[d0].4s, v16.16b, v23.16b\n"
        "smmla %[d1].4s, v17.16b, v23.16b\n"
        "ldp q30, q31, [%[x], #96]\n"
        "smmla %[c2].4s, v18.16b, v22.16b\n"
        "smmla %[c3].4s, v19.16b, v22.16b\n"
        "smmla %[d2].4s, v18.16b, v23.16b\n"
        "smmla %[d3].4s, v19.16b, v23.16b\n"
        "add %[w], %[w], #128\n"
        "add %[x], %[x], #128\n"
        "b.eq 2f\n"
        "ldp q16, q17, [%[w]]\n"
        "smmla %[a0].4s, v24.16b, v28.16b\n"
        "smmla %[a1].4s, v25.16b, v28.16b\n"
        "smmla %[b0].4s, v24.16b, v29.16b\n"
        "smmla %[b1].4s, v25.16b, v29.16b\n"
        "ldp q20, q21, [%[x]]\n"
        "smmla %[a2].4s, v26.16b, v28.16b\n"
        "smmla %[a3].4s, v27.16b, v28.16b\n"
        "smmla %[b2].4s, v26.16b, v29.16b\n"
        "smmla %[b3].4s, v27.16b, v29.16b\n"
        "ldp q18, q19, [%[w], #32]\n"
        "smmla %[c0].4s, v24.16b, v30.16b\n"
        "smmla %[c1].4s, v25.16b, v30.16b\n"
        "smmla %[d0].4s, v24.16b, v31.16b\n"
        "smmla %[d1].4s, v25.16b, v31.16b\n"
        "ldp q22, q23, [%[x], #32]\n"
        "smmla %[c2].4s, v26.16b, v30.16b\n"
        "smmla %[c3].4s, v27.16b, v30.16b\n"
        "smmla %[d2].4s, v26.16b, v31.16b\n"
        "smmla %[d3].4s, v27.16b, v31.16b\n"
        "b 1b\n"
        "2:\n"
        "smmla %[a0].4s, v24.16b, v28.16b\n"
        "smmla %[a1].4s, v25.16b, v28.16b\n"
        "smmla %[b0].4s, v24.16b, v29.16b\n"
        "smmla %[b1].4s, v25.16b, v29.16b\n"
        "smmla %[a2].4s, v26.16b, v28.16b\n"
        "smmla %[a3].4s, v27.16b, v28.16b\n"
        "smmla %[b2].4s, v26.16b, v29.16b\n"
        "smmla %[b3].4s, v27.16b, v29.16b\n"
        "smmla %[c0].4s, v24.16b, v30.16b\n"
        "smmla %[c1].4s, v25.16b, v30.16b\n"
        "smmla %[d0].4s, v24.16b, v31.16b\n"
        "smmla %[d1].4s, v25.16b, v31.16b\n"
        "smmla %[c2].4s, v26.16b, v30.16b\n"
        "smmla %[c3].4s, v27.16b, v30.16b\n"
        "smmla %[d2].4s, v26.16b, v31.16b\n"
        "smmla %[d3].4s, v27.16b, v31.16b\n"
        : [w] "+r"(weights), [x] "+r"(x), [steps] "+r"(steps), [a0] "=&w"(sums[0][0]), [a1] "=&w"(sums[0][1]),
          [a2] "=&w"(sums[0][2]), [a3] "=&w"(sums[0][3]), [b0] "=&w"(sums[1][0]), [b1] "=&w"(sums[1][1]),
          [b2] "=&w"(sums[1][2]), [b3] "=&w"(sums[1][3]), [c0] "=&w"(sums[2][0]), [c1] "=&w"(sums[2][1]),
          [c2] "=&w"(sums[2][2]), [c3] "=&w"(sums[2][3]), [d0] "=&w"(sums[3][0]), [d1] "=&w"(sums[3][1]),
          [d2] "=&w"(sums[3][2]), [d3] "=&w"(sums[3][3])
        :
        : "memory", "cc", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28",
          "v29", "v30", "v31");
}

// Adds one group of columns to the sums of a tile.
[[gnu::always_inline]] inline void add_fast_group(const FastGroup& w, const std::byte* x, const float* scales,
                                                  std::size_t columns, FastSums& kept) {
    int32x4_t sums[kFastPairs][4];
    multiply_fast(w, x, columns, sums);
    for (std::size_t t = 0; t < kFastPairs; ++t) {
        const float32x2_t two = vld1_f32(scales + 2 * t);
        const float32x4_t a = vcombine_f32(two, two);
        for (std::size_t p = 0; p < 4; ++p) {
            kept.at[t][p] = vfmaq_f32(kept.at[t][p], vcvtq_f32_s32(sums[t][p]), vmulq_f32(w.scales.at[p], a));
        }
    }
}

// Some panels by some tiles.
struct FastArea {
    std::size_t row;
    std::size_t panels;
    std::size_t first;  // token
    std::size_t last;
};

inline void multiply_fast_chunk(const PanelTask& task, const FastArea& area, std::size_t begin, std::size_t groups,
                                const FastGroup (&w)[kFastPanels][kFastChunkBlocks],
                                FastSums (&sums)[kFastPanels][kFastGroupTiles]) {
    for (std::size_t token = area.first; token < area.last; token += kFastTokens) {
        const std::byte* tile = task.activations + token * task.activation_row_bytes;
        const auto* scales = reinterpret_cast<const float*>(tile + kFastTokens * task.columns);
        for (std::size_t panel = 0; panel < area.panels; ++panel) {
            FastSums& kept = sums[panel][(token - area.first) / kFastTokens];
            if (begin == 0) kept = {};
            for (std::size_t g = 0; g < groups; ++g) {
                const std::size_t column = begin + g * kBlock256;
                const std::size_t columns = task.columns - column < kBlock256 ? task.columns - column : kBlock256;
                add_fast_group(w[panel][g], tile + kFastTokens * column, scales + column / kBlock256 * kFastTokens,
                               columns, kept);
            }
        }
    }
}

template <typename Panel>
void multiply_fast_area(const PanelTask& task, const FastArea& area) {
    constexpr std::size_t kChunk = kFastChunkBlocks * kBlock256;
    FastGroup w[kFastPanels][kFastChunkBlocks];
    FastSums sums[kFastPanels][kFastGroupTiles];
    for (std::size_t begin = 0; begin < task.columns; begin += kChunk) {
        std::size_t groups = 0;
        for (std::size_t column = begin; column < task.columns && groups < kFastChunkBlocks; column += kBlock256) {
            const std::size_t columns = task.columns - column < kBlock256 ? task.columns - column : kBlock256;
            for (std::size_t panel = 0; panel < area.panels; ++panel) {
                const std::byte* at = task.panels + (area.row / kPanelRows + panel) * task.panel_bytes;
                round_group<Panel>(at + column / Panel::kColumns * Panel::kBlockBytes, columns / kUnitColumns,
                                   w[panel][groups]);
            }
            ++groups;
        }
        multiply_fast_chunk(task, area, begin, groups, w, sums);
    }
    for (std::size_t panel = 0; panel < area.panels; ++panel) {
        for (std::size_t token = area.first; token < area.last; token += 2) {
            const std::size_t at = token - area.first;
            store_pair(task, area.row + panel * kPanelRows, token,
                       sums[panel][at / kFastTokens].at[at % kFastTokens / 2]);
        }
    }
}

template <typename Panel>
void fast_matmul(const PanelTask& task) {
    constexpr std::size_t kGroup = kFastGroupTiles * kFastTokens;
    for (std::size_t row = 0; row < task.rows; row += kFastPanels * kPanelRows) {
        const std::size_t panels = task.rows - row > kPanelRows ? kFastPanels : 1;
        static_assert(kFastPanels == 2);
        for (std::size_t first = 0; first < task.tokens; first += kGroup) {
            const std::size_t last = task.tokens - first < kGroup ? task.tokens : first + kGroup;
            multiply_fast_area<Panel>(task, {row, panels, first, last});
        }
    }
}

}  // namespace

}  // namespace hearth
