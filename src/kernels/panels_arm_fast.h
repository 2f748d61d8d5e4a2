// The fast matmul over the panels of AArch64: some columns of a panel are unpacked and rounded to int8 with one scale
// per 256 columns, and stay in the first-level cache for all tiles of eight tokens. What multiplies, SMMLA or SDOT, is
// a parameter `Dots`. It has
// - Q4_0, Q4_K, Q5_K: their panels;
// - kStepColumns: how many columns of a token lie side by side in a tile;
// - minimum_at(row, unit): where integer minimums lie;
// - of_rows<kHalf>(x): what belongs to the rows of half kHalf of a step's vectors, of something of all eight;
// - Scales and scales(x): the scales of eight rows as it wants them;
// - add(group, x, scales, columns, sums): adds the products of a group;
// - store(task, row, first, last, sums): the sums of a tile to its outputs.
#pragma once

#include "kernels/fast_block.h"
#include "kernels/panels_arm_types.h"

namespace hearth {

namespace {

inline constexpr std::size_t kFastTokens = 8;
inline constexpr std::size_t kFastChunkBlocks = 8;
inline constexpr std::size_t kFastPanels = 2;       // that share the tokens while these are in the cache
inline constexpr std::size_t kFastGroupTiles = 64;  // tiles whose sums are kept from chunk to chunk

// A tile of eight tokens: [step of columns][token][column] bytes, then for every 256 columns the scales of the tokens.
template <typename Dots>
void fast_tile(const FastTileTask& task) {
    constexpr std::size_t kStep = Dots::kStepColumns;
    std::byte* scales = task.out + kFastTokens * task.columns;
    for (std::size_t first = 0; first < task.columns; first += kBlock256) {
        const std::size_t columns = task.columns - first < kBlock256 ? task.columns - first : kBlock256;
        for (std::size_t t = 0; t < kFastTokens; ++t) {
            const ActivationBlock256 block = fast_block(task, t, first, columns);
            std::byte* out = task.out + kFastTokens * first + kStep * t;
            for (std::size_t c = 0; c < columns; c += kStep) {
                __builtin_memcpy(out + kFastTokens * c, block.q + c, kStep);
            }
            __builtin_memcpy(scales + first / kBlock256 * kFastTokens * sizeof(float) + 4 * t, &block.scale, 4);
        }
    }
}

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
template <typename Panel>
requires(Panel::kSub16) inline constexpr bool kTwoScales<Panel> = true;

// Unit `unit` of 256 columns that begin at `block` (eight blocks, or one).
template <typename Dots, typename Panel>
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
            const auto* at = reinterpret_cast<const std::uint8_t*>(block + Panel::kMinimumsAt);
            std::uint8_t of_rows[kPanelRows];
            for (std::size_t r = 0; r < kPanelRows; ++r) of_rows[r] = at[Dots::minimum_at(r, unit)];
            const uint8x8_t bytes = vld1_u8(of_rows);
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

// Sixteen codes, the vector kP of a step.
template <typename Dots, std::size_t kP, bool kMinimum>
[[gnu::always_inline]] inline int8x16_t round_codes(int8x16_t q, int16x8_t b, int16x8_t c) {
    int16x8_t first = vmulq_s16(vmovl_s8(vget_low_s8(q)), Dots::template of_rows<2 * kP>(b));
    int16x8_t second = vmulq_s16(vmovl_high_s8(q), Dots::template of_rows<2 * kP + 1>(b));
    if constexpr (kMinimum) {
        first = vaddq_s16(first, Dots::template of_rows<2 * kP>(c));
        second = vaddq_s16(second, Dots::template of_rows<2 * kP + 1>(c));
    }
    return vrshrn_high_n_s16(vrshrn_n_s16(first, 8), second, 8);
}

// A group of up to 256 columns of a panel, rounded: the vectors of its units in their order, and the scales.
template <typename Dots>
struct alignas(64) FastGroup {
    int8x16_t q[kBlock256 / kUnitColumns * 16];
    typename Dots::Scales scales;
};
struct FastSums {
    float32x4_t at[kFastTokens * kPanelRows / 4];
};

// kLargest: the largest magnitude of the type's codes.
template <typename Dots, typename Panel, std::int32_t kLargest>
void round_group(const std::byte* block, std::size_t units, FastGroup<Dots>& out) {
    LinearUnit linear[8];
    uint32x4_t reach[2] = {vdupq_n_u32(0), vdupq_n_u32(0)};
    const float32x4_t code = vdupq_n_f32(static_cast<float>(kLargest));
    constexpr std::size_t kParts = kTwoScales<Panel> ? 2 : 1;
    for (std::size_t u = 0; u < units; ++u) {
        linear[u] = linear_unit<Dots, Panel>(block, u);
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
    out.scales = Dots::scales({to[0].scale, to[1].scale});
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
                out.q[16 * u + 4 * s + kP] =
                    round_codes<Dots, kP, Panel::kMinimum>(codes[4 * s + kP], b[s / 2], c[s / 2]);
            }
        });
    }
}

// Some panels by some tiles.
struct FastArea {
    std::size_t row;
    std::size_t panels;
    std::size_t first;  // token
    std::size_t last;
};

template <typename Dots>
void multiply_fast_chunk(const PanelTask& task, const FastArea& area, std::size_t begin, std::size_t groups,
                         const FastGroup<Dots> (&w)[kFastPanels][kFastChunkBlocks],
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
                Dots::add(w[panel][g], tile + kFastTokens * column, scales + column / kBlock256 * kFastTokens, columns,
                          kept);
            }
        }
    }
}

template <typename Dots, typename Panel, std::int32_t kLargest>
void multiply_fast_area(const PanelTask& task, const FastArea& area) {
    constexpr std::size_t kChunk = kFastChunkBlocks * kBlock256;
    FastGroup<Dots> w[kFastPanels][kFastChunkBlocks];
    FastSums sums[kFastPanels][kFastGroupTiles];
    for (std::size_t begin = 0; begin < task.columns; begin += kChunk) {
        std::size_t groups = 0;
        for (std::size_t column = begin; column < task.columns && groups < kFastChunkBlocks; column += kBlock256) {
            const std::size_t columns = task.columns - column < kBlock256 ? task.columns - column : kBlock256;
            for (std::size_t panel = 0; panel < area.panels; ++panel) {
                const std::byte* at = task.panels + (area.row / kPanelRows + panel) * task.panel_bytes;
                round_group<Dots, Panel, kLargest>(at + column / Panel::kColumns * Panel::kBlockBytes,
                                                   columns / kUnitColumns, w[panel][groups]);
            }
            ++groups;
        }
        multiply_fast_chunk<Dots>(task, area, begin, groups, w, sums);
    }
    for (std::size_t panel = 0; panel < area.panels; ++panel) {
        for (std::size_t token = area.first; token < area.last; token += kFastTokens) {
            const std::size_t last = area.last - token < kFastTokens ? area.last : token + kFastTokens;
            Dots::store(task, area.row + panel * kPanelRows, token, last,
                        sums[panel][(token - area.first) / kFastTokens]);
        }
    }
}

template <typename Dots, typename Panel, std::int32_t kLargest>
void fast_matmul(const PanelTask& task) {
    constexpr std::size_t kGroup = kFastGroupTiles * kFastTokens;
    for (std::size_t row = 0; row < task.rows; row += kFastPanels * kPanelRows) {
        const std::size_t panels = task.rows - row > kPanelRows ? kFastPanels : 1;
        static_assert(kFastPanels == 2);
        for (std::size_t first = 0; first < task.tokens; first += kGroup) {
            const std::size_t last = task.tokens - first < kGroup ? task.tokens : first + kGroup;
            multiply_fast_area<Dots, Panel, kLargest>(task, {row, panels, first, last});
        }
    }
}

template <typename Dots>
void install_fast(Kernels& table) {
    const auto set = [&table](DType type, void (*matmul)(const PanelTask&)) {
        table.fast.panels_matmul[static_cast<std::size_t>(type)] = matmul;
    };
    set(DType::Q4_0, fast_matmul<Dots, typename Dots::Q4_0, 8>);
    set(DType::Q4_1, fast_matmul<Dots, PanelQ4_1, 15>);
    set(DType::Q5_0, fast_matmul<Dots, PanelQ5_0, 16>);
    set(DType::Q5_1, fast_matmul<Dots, PanelQ5_1, 31>);
    set(DType::Q8_0, fast_matmul<Dots, PanelQ8_0, 127>);
    set(DType::IQ4_NL, fast_matmul<Dots, PanelIQ4_NL, 127>);
    set(DType::MXFP4, fast_matmul<Dots, PanelMXFP4, 12>);
    set(DType::Q2_K, fast_matmul<Dots, PanelQ2_K, 3>);
    set(DType::Q3_K, fast_matmul<Dots, PanelQ3_K, 4>);
    set(DType::Q4_K, fast_matmul<Dots, typename Dots::Q4_K, 15>);
    set(DType::Q5_K, fast_matmul<Dots, typename Dots::Q5_K, 31>);
    set(DType::Q6_K, fast_matmul<Dots, PanelQ6_K, 32>);
    set(DType::IQ4_XS, fast_matmul<Dots, PanelIQ4_XS, 127>);
    set(DType::TQ2_0, fast_matmul<Dots, PanelTQ2_0, 1>);
    table.fast.tile_tokens = kFastTokens;
    table.fast.tile = fast_tile<Dots>;
}

}  // namespace

}  // namespace hearth
