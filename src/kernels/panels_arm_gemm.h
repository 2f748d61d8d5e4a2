// Matmul of packed weights with many tokens: some columns of a panel are unpacked to int8 on the stack, where they stay
// in the first-level cache for all tiles of tokens. The sums of a tile wait beside them between two such chunks. The
// inner loops are written out in assembly: compilers lose a quarter of the speed to register moves there.
#pragma once

#include <type_traits>

#include "kernels/panels_arm_i8mm.h"

namespace hearth {

namespace {

inline constexpr std::size_t kChunkColumns = 2048;
inline constexpr std::size_t kGroupTiles = 64;  // tiles that share an unpacked chunk

// Thirty-two columns, unpacked.
template <std::size_t kScaleVectors>
struct alignas(16) WideUnit {
    int8x16_t q[16];  // 4 * s + p: columns 8s to 8s + 7 of row pair p
    // By row pair, as (r, r, r + 1, r + 1): f32 scales of a block of 32, or int32 scales of a sub-block, twice where
    // sub-blocks have sixteen columns.
    int32x4_t scales[kScaleVectors];
};

// Blocks of 32.

struct WideUnit32 : WideUnit<4> {};
struct WideUnit32Minimum : WideUnit<8> {};  // and the minimums

template <typename Panel, typename Wide>
void widen32(const std::byte* panel, std::size_t blocks, Wide* out) {
    for (std::size_t b = 0; b < blocks; ++b, panel += Panel::kBlockBytes) {
        widen_weights<Panel>(panel + Panel::kUnitsAt, out[b].q);
        const PairFloats d = pair_floats(Panel::scales(panel));
        for (std::size_t p = 0; p < 4; ++p) out[b].scales[p] = vreinterpretq_s32_f32(d.at[p]);
        if constexpr (Panel::kMinimum) {
            const PairFloats m = pair_floats(Panel::minimums(panel));
            for (std::size_t p = 0; p < 4; ++p) out[b].scales[4 + p] = vreinterpretq_s32_f32(m.at[p]);
        }
    }
}

// Eight rows by four tokens, all units of a chunk. Registers: v0-v7 integer sums (pair 0, then pair 1), v16-v23
// weights of two steps of eight columns, v24-v27 activations of two steps, v28-v31 products of scales.
[[gnu::always_inline]] inline void multiply_wide(const WideUnit32* w, const std::byte* x, std::size_t units,
                                                 TileSums<2>& acc) {
    __asm__ volatile(
        "1:\n"
        "ldp q24, q25, [%[x]]\n"
        "ldp q18, q19, [%[w], #32]\n"
        "movi v6.4s, #0\n"
        "movi v5.4s, #0\n"
        "movi v3.4s, #0\n"
        "movi v7.4s, #0\n"
        "smmla v7.4s, v19.16b, v25.16b\n"
        "ldp q22, q23, [%[w], #96]\n"
        "smmla v6.4s, v18.16b, v25.16b\n"
        "movi v2.4s, #0\n"
        "ldp q16, q17, [%[w]]\n"
        "movi v1.4s, #0\n"
        "smmla v1.4s, v17.16b, v24.16b\n"
        "ldp q26, q27, [%[x], #32]\n"
        "ldp q20, q21, [%[w], #64]\n"
        "smmla v3.4s, v19.16b, v24.16b\n"
        "movi v4.4s, #0\n"
        "smmla v2.4s, v18.16b, v24.16b\n"
        "movi v0.4s, #0\n"
        "smmla v0.4s, v16.16b, v24.16b\n"
        "smmla v3.4s, v23.16b, v26.16b\n"
        "ldp q18, q19, [%[w], #160]\n"
        "smmla v7.4s, v23.16b, v27.16b\n"
        "smmla v2.4s, v22.16b, v26.16b\n"
        "smmla v6.4s, v22.16b, v27.16b\n"
        "smmla v5.4s, v17.16b, v25.16b\n"
        "smmla v1.4s, v21.16b, v26.16b\n"
        "smmla v4.4s, v16.16b, v25.16b\n"
        "ldp q24, q25, [%[x], #64]\n"
        "smmla v0.4s, v20.16b, v26.16b\n"
        "smmla v5.4s, v21.16b, v27.16b\n"
        "smmla v4.4s, v20.16b, v27.16b\n"
        "ldp q16, q17, [%[w], #128]\n"
        "ldp q20, q21, [%[w], #192]\n"
        "smmla v2.4s, v18.16b, v24.16b\n"
        "ldp q26, q27, [%[x], #96]\n"
        "smmla v0.4s, v16.16b, v24.16b\n"
        "smmla v0.4s, v20.16b, v26.16b\n"
        "smmla v1.4s, v17.16b, v24.16b\n"
        "smmla v7.4s, v19.16b, v25.16b\n"
        "ldp q22, q23, [%[w], #224]\n"
        "smmla v3.4s, v19.16b, v24.16b\n"
        "smmla v6.4s, v18.16b, v25.16b\n"
        "smmla v2.4s, v22.16b, v26.16b\n"
        "scvtf v2.4s, v2.4s\n"
        "smmla v5.4s, v17.16b, v25.16b\n"
        "smmla v3.4s, v23.16b, v26.16b\n"
        "smmla v7.4s, v23.16b, v27.16b\n"
        "scvtf v7.4s, v7.4s\n"
        "smmla v1.4s, v21.16b, v26.16b\n"
        "smmla v6.4s, v22.16b, v27.16b\n"
        "scvtf v0.4s, v0.4s\n"
        "smmla v4.4s, v16.16b, v25.16b\n"
        "ldp q16, q17, [%[w], #256]\n"
        "smmla v4.4s, v20.16b, v27.16b\n"
        "smmla v5.4s, v21.16b, v27.16b\n"
        "scvtf v6.4s, v6.4s\n"
        "scvtf v1.4s, v1.4s\n"
        "ldp q24, q25, [%[x], #128]\n"
        "fmul v28.4s, v16.4s, v24.4s\n"
        "fmul v30.4s, v17.4s, v24.4s\n"
        "add %[x], %[x], #160\n"
        "fmul v29.4s, v16.4s, v25.4s\n"
        "ldp q18, q19, [%[w], #288]\n"
        "add %[w], %[w], #320\n"
        "fmul v31.4s, v17.4s, v25.4s\n"
        "fmul v17.4s, v18.4s, v25.4s\n"
        "fmla %[b2].4s, v6.4s, v17.4s\n"
        "fmul v16.4s, v18.4s, v24.4s\n"
        "fmul v18.4s, v19.4s, v24.4s\n"
        "fmla %[a0].4s, v0.4s, v28.4s\n"
        "scvtf v3.4s, v3.4s\n"
        "scvtf v5.4s, v5.4s\n"
        "scvtf v4.4s, v4.4s\n"
        "fmla %[a2].4s, v2.4s, v16.4s\n"
        "fmla %[a3].4s, v3.4s, v18.4s\n"
        "fmla %[b1].4s, v5.4s, v31.4s\n"
        "fmul v19.4s, v19.4s, v25.4s\n"
        "fmla %[b3].4s, v7.4s, v19.4s\n"
        "fmla %[a1].4s, v1.4s, v30.4s\n"
        "fmla %[b0].4s, v4.4s, v29.4s\n"
        "subs %[units], %[units], #1\n"
        "b.ne 1b\n"
        : [w] "+r"(w), [x] "+r"(x), [units] "+r"(units), [a0] "+w"(acc.at[0][0]), [a1] "+w"(acc.at[0][1]),
          [a2] "+w"(acc.at[0][2]), [a3] "+w"(acc.at[0][3]), [b0] "+w"(acc.at[1][0]), [b1] "+w"(acc.at[1][1]),
          [b2] "+w"(acc.at[1][2]), [b3] "+w"(acc.at[1][3])
        :
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21",
          "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}

// The same with minimums, for which the sum of activations is a product with ones.
[[gnu::always_inline]] inline void multiply_wide(const WideUnit32Minimum* w, const std::byte* x, std::size_t units,
                                                 TileSums<2>& acc) {
    TileSums<2> sums = acc;
    const int8x16_t ones = vdupq_n_s8(1);
    for (std::size_t u = 0; u < units; ++u, ++w, x += kTile32Bytes) {
        int32x4_t quads[2][4] = {};
        int32x4_t totals[2] = {};
        for (std::size_t s = 0; s < 4; ++s) {
            for (std::size_t t = 0; t < kTilePairs; ++t) {
                const int8x16_t q = load_tile(x, kTilePairs * s + t);
                for (std::size_t p = 0; p < 4; ++p) quads[t][p] = vmmlaq_s32(quads[t][p], w->q[4 * s + p], q);
                totals[t] = vmmlaq_s32(totals[t], ones, q);
            }
        }
        for (std::size_t t = 0; t < kTilePairs; ++t) {
            const float32x4_t a = vld1q_f32(reinterpret_cast<const float*>(x + kTile32Scales) + 4 * t);
            const float32x4_t total = vcvtq_f32_s32(totals[t]);
            for (std::size_t p = 0; p < 4; ++p) {
                const float32x4_t d = vmulq_f32(vreinterpretq_f32_s32(w->scales[p]), a);
                const float32x4_t m = vmulq_f32(vreinterpretq_f32_s32(w->scales[4 + p]), a);
                sums.at[t][p] = vfmaq_f32(vfmaq_f32(sums.at[t][p], vcvtq_f32_s32(quads[t][p]), d), total, m);
            }
        }
    }
    acc = sums;
}

// Blocks of 256.

template <typename Panel>
struct alignas(16) WideBlock256 {
    WideUnit<Panel::kSub16 ? 8 : 4> units[8];
    PairFloats d;
    PairFloats dmin;             // with minimums
    MinimumVectors minimums[4];  // with minimums
};

template <typename Panel>
void widen256(const std::byte* panel, std::size_t blocks, WideBlock256<Panel>* out) {
    for (std::size_t b = 0; b < blocks; ++b, panel += Panel::kBlockBytes) {
        for (std::size_t u = 0; u < 8; ++u) {
            widen_weights<Panel>(panel + Panel::kUnitsAt + u * Panel::Unit::kBytes, out[b].units[u].q);
            const SubScales scales = Panel::sub_scales(panel, u);
            const PairInts first = pair_ints(scales.first);
            const PairInts second = pair_ints(scales.second);
            for (std::size_t p = 0; p < 4; ++p) {
                out[b].units[u].scales[p] = first.at[p];
                if constexpr (Panel::kSub16) out[b].units[u].scales[4 + p] = second.at[p];
            }
        }
        out[b].d = pair_floats(Panel::scales(panel));
        if constexpr (Panel::kMinimum) {
            out[b].dmin = pair_floats(Panel::minimums(panel));
            for (std::size_t p = 0; p < 4; ++p) out[b].minimums[p] = Panel::minimum_vectors(panel, p);
        }
    }
}

struct TileInts {
    int32x4_t at[2][4];
};

// Sum over the eight units of scale times product, one scale a unit. Registers as above; v28-v31 scales.
[[gnu::always_inline]] inline void multiply_units(const WideUnit<4>* w, const std::byte* x, TileInts& total) {
    std::size_t units = 8;
    __asm__ volatile(
        "1:\n"
        "ldp q24, q25, [%[x]]\n"
        "ldp q18, q19, [%[w], #32]\n"
        "ldp q16, q17, [%[w]]\n"
        "movi v6.4s, #0\n"
        "movi v3.4s, #0\n"
        "ldp q26, q27, [%[x], #32]\n"
        "ldp q20, q21, [%[w], #64]\n"
        "ldp q22, q23, [%[w], #96]\n"
        "smmla v3.4s, v19.16b, v24.16b\n"
        "movi v7.4s, #0\n"
        "movi v5.4s, #0\n"
        "movi v4.4s, #0\n"
        "movi v2.4s, #0\n"
        "smmla v5.4s, v17.16b, v25.16b\n"
        "movi v0.4s, #0\n"
        "smmla v2.4s, v18.16b, v24.16b\n"
        "movi v1.4s, #0\n"
        "smmla v7.4s, v19.16b, v25.16b\n"
        "smmla v4.4s, v16.16b, v25.16b\n"
        "smmla v6.4s, v18.16b, v25.16b\n"
        "smmla v4.4s, v20.16b, v27.16b\n"
        "smmla v0.4s, v16.16b, v24.16b\n"
        "smmla v1.4s, v17.16b, v24.16b\n"
        "ldp q24, q25, [%[x], #64]\n"
        "ldp q16, q17, [%[w], #128]\n"
        "smmla v2.4s, v22.16b, v26.16b\n"
        "ldp q30, q31, [%[w], #288]\n"
        "ldp q18, q19, [%[w], #160]\n"
        "smmla v0.4s, v20.16b, v26.16b\n"
        "smmla v0.4s, v16.16b, v24.16b\n"
        "smmla v2.4s, v18.16b, v24.16b\n"
        "smmla v5.4s, v21.16b, v27.16b\n"
        "smmla v5.4s, v17.16b, v25.16b\n"
        "smmla v6.4s, v22.16b, v27.16b\n"
        "smmla v7.4s, v23.16b, v27.16b\n"
        "smmla v3.4s, v23.16b, v26.16b\n"
        "smmla v4.4s, v16.16b, v25.16b\n"
        "smmla v6.4s, v18.16b, v25.16b\n"
        "smmla v1.4s, v21.16b, v26.16b\n"
        "smmla v7.4s, v19.16b, v25.16b\n"
        "ldp q26, q27, [%[x], #96]\n"
        "ldp q20, q21, [%[w], #192]\n"
        "smmla v1.4s, v17.16b, v24.16b\n"
        "smmla v4.4s, v20.16b, v27.16b\n"
        "ldp q22, q23, [%[w], #224]\n"
        "ldp q28, q29, [%[w], #256]\n"
        "smmla v3.4s, v19.16b, v24.16b\n"
        "smmla v5.4s, v21.16b, v27.16b\n"
        "smmla v3.4s, v23.16b, v26.16b\n"
        "smmla v1.4s, v21.16b, v26.16b\n"
        "mla %[a3].4s, v3.4s, v31.4s\n"
        "mla %[b1].4s, v5.4s, v29.4s\n"
        "smmla v0.4s, v20.16b, v26.16b\n"
        "smmla v7.4s, v23.16b, v27.16b\n"
        "mla %[b0].4s, v4.4s, v28.4s\n"
        "mla %[a0].4s, v0.4s, v28.4s\n"
        "add %[w], %[w], #320\n"
        "mla %[b3].4s, v7.4s, v31.4s\n"
        "add %[x], %[x], #128\n"
        "smmla v6.4s, v22.16b, v27.16b\n"
        "mla %[a1].4s, v1.4s, v29.4s\n"
        "mla %[b2].4s, v6.4s, v30.4s\n"
        "smmla v2.4s, v22.16b, v26.16b\n"
        "mla %[a2].4s, v2.4s, v30.4s\n"
        "subs %[units], %[units], #1\n"
        "b.ne 1b\n"
        : [w] "+r"(w), [x] "+r"(x), [units] "+r"(units), [a0] "+w"(total.at[0][0]), [a1] "+w"(total.at[0][1]),
          [a2] "+w"(total.at[0][2]), [a3] "+w"(total.at[0][3]), [b0] "+w"(total.at[1][0]), [b1] "+w"(total.at[1][1]),
          [b2] "+w"(total.at[1][2]), [b3] "+w"(total.at[1][3])
        :
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21",
          "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}

// Two scales a unit.
[[gnu::always_inline]] inline void multiply_units(const WideUnit<8>* w, const std::byte* x, TileInts& total) {
    std::size_t units = 8;
    __asm__ volatile(
        "1:\n"
        "ldp q18, q19, [%[w], #32]\n"
        "ldp q16, q17, [%[w]]\n"
        "movi v3.4s, #0\n"
        "ldp q20, q21, [%[w], #64]\n"
        "ldp q24, q25, [%[x]]\n"
        "movi v5.4s, #0\n"
        "ldp q26, q27, [%[x], #32]\n"
        "movi v1.4s, #0\n"
        "ldp q28, q29, [%[w], #256]\n"
        "ldp q30, q31, [%[w], #288]\n"
        "movi v2.4s, #0\n"
        "movi v6.4s, #0\n"
        "movi v0.4s, #0\n"
        "movi v7.4s, #0\n"
        "movi v4.4s, #0\n"
        "smmla v3.4s, v19.16b, v24.16b\n"
        "smmla v0.4s, v16.16b, v24.16b\n"
        "smmla v7.4s, v19.16b, v25.16b\n"
        "smmla v6.4s, v18.16b, v25.16b\n"
        "smmla v4.4s, v16.16b, v25.16b\n"
        "smmla v2.4s, v18.16b, v24.16b\n"
        "ldp q22, q23, [%[w], #96]\n"
        "smmla v6.4s, v22.16b, v27.16b\n"
        "smmla v1.4s, v17.16b, v24.16b\n"
        "smmla v0.4s, v20.16b, v26.16b\n"
        "smmla v1.4s, v21.16b, v26.16b\n"
        "smmla v4.4s, v20.16b, v27.16b\n"
        "smmla v7.4s, v23.16b, v27.16b\n"
        "mla %[b2].4s, v6.4s, v30.4s\n"
        "smmla v5.4s, v17.16b, v25.16b\n"
        "mla %[b3].4s, v7.4s, v31.4s\n"
        "smmla v3.4s, v23.16b, v26.16b\n"
        "movi v6.4s, #0\n"
        "smmla v5.4s, v21.16b, v27.16b\n"
        "ldp q18, q19, [%[w], #160]\n"
        "ldp q24, q25, [%[x], #64]\n"
        "ldp q20, q21, [%[w], #192]\n"
        "mla %[a1].4s, v1.4s, v29.4s\n"
        "smmla v2.4s, v22.16b, v26.16b\n"
        "mla %[b1].4s, v5.4s, v29.4s\n"
        "mla %[a0].4s, v0.4s, v28.4s\n"
        "ldp q16, q17, [%[w], #128]\n"
        "mla %[a3].4s, v3.4s, v31.4s\n"
        "movi v1.4s, #0\n"
        "movi v7.4s, #0\n"
        "movi v0.4s, #0\n"
        "movi v5.4s, #0\n"
        "mla %[a2].4s, v2.4s, v30.4s\n"
        "ldp q30, q31, [%[w], #352]\n"
        "movi v2.4s, #0\n"
        "movi v3.4s, #0\n"
        "ldp q26, q27, [%[x], #96]\n"
        "smmla v6.4s, v18.16b, v25.16b\n"
        "smmla v7.4s, v19.16b, v25.16b\n"
        "add %[x], %[x], #128\n"
        "smmla v5.4s, v17.16b, v25.16b\n"
        "smmla v1.4s, v17.16b, v24.16b\n"
        "smmla v1.4s, v21.16b, v26.16b\n"
        "smmla v3.4s, v19.16b, v24.16b\n"
        "mla %[b0].4s, v4.4s, v28.4s\n"
        "smmla v0.4s, v16.16b, v24.16b\n"
        "ldp q28, q29, [%[w], #320]\n"
        "movi v4.4s, #0\n"
        "ldp q22, q23, [%[w], #224]\n"
        "smmla v3.4s, v23.16b, v26.16b\n"
        "smmla v2.4s, v18.16b, v24.16b\n"
        "smmla v6.4s, v22.16b, v27.16b\n"
        "mla %[b2].4s, v6.4s, v30.4s\n"
        "mla %[a3].4s, v3.4s, v31.4s\n"
        "smmla v5.4s, v21.16b, v27.16b\n"
        "mla %[b1].4s, v5.4s, v29.4s\n"
        "smmla v2.4s, v22.16b, v26.16b\n"
        "smmla v4.4s, v16.16b, v25.16b\n"
        "mla %[a1].4s, v1.4s, v29.4s\n"
        "add %[w], %[w], #384\n"
        "smmla v7.4s, v23.16b, v27.16b\n"
        "mla %[b3].4s, v7.4s, v31.4s\n"
        "smmla v4.4s, v20.16b, v27.16b\n"
        "mla %[b0].4s, v4.4s, v28.4s\n"
        "mla %[a2].4s, v2.4s, v30.4s\n"
        "smmla v0.4s, v20.16b, v26.16b\n"
        "mla %[a0].4s, v0.4s, v28.4s\n"
        "subs %[units], %[units], #1\n"
        "b.ne 1b\n"
        : [w] "+r"(w), [x] "+r"(x), [units] "+r"(units), [a0] "+w"(total.at[0][0]), [a1] "+w"(total.at[0][1]),
          [a2] "+w"(total.at[0][2]), [a3] "+w"(total.at[0][3]), [b0] "+w"(total.at[1][0]), [b1] "+w"(total.at[1][1]),
          [b2] "+w"(total.at[1][2]), [b3] "+w"(total.at[1][3])
        :
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21",
          "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}

template <typename Panel>
[[gnu::always_inline]] inline int32x4_t wide_minimum_quad(MinimumVectors minimums, const std::byte* x,
                                                          std::size_t pair) {
    const std::byte* whole = x + kTile256Sums;
    const std::byte* even = x + kTile256EvenSums;
    int32x4_t sums = vmmlaq_s32(vdupq_n_s32(0), minimums.whole, load_tile(whole, pair));
    if constexpr (Panel::kMinimums == Minimums::Per16) sums = vmmlaq_s32(sums, minimums.even, load_tile(even, pair));
    sums = vmmlaq_s32(vshlq_n_s32(sums, 7), minimums.whole, load_tile(whole, kTilePairs + pair));
    if constexpr (Panel::kMinimums == Minimums::Per16) {
        sums = vmmlaq_s32(sums, minimums.even, load_tile(even, kTilePairs + pair));
    }
    return sums;
}

template <typename Panel>
[[gnu::always_inline]] inline void multiply_wide(const WideBlock256<Panel>* w, const std::byte* x, std::size_t blocks,
                                                 TileSums<2>& acc) {
    for (std::size_t b = 0; b < blocks; ++b, ++w, x += kTile256Bytes) {
        TileInts total = {};
        multiply_units(w->units, x, total);
        for (std::size_t t = 0; t < kTilePairs; ++t) {
            const float32x2_t two = vld1_f32(reinterpret_cast<const float*>(x + kTile256Scales) + 2 * t);
            const float32x4_t a = vcombine_f32(two, two);
            for (std::size_t p = 0; p < 4; ++p) {
                float32x4_t sum = vfmaq_f32(acc.at[t][p], vcvtq_f32_s32(total.at[t][p]), vmulq_f32(w->d.at[p], a));
                if constexpr (Panel::kMinimum) {
                    const int32x4_t minimums = wide_minimum_quad<Panel>(w->minimums[p], x, t);
                    // fma(m, -(dmin * a), sum)
                    sum = vfmsq_f32(sum, vcvtq_f32_s32(minimums), vmulq_f32(w->dmin.at[p], a));
                }
                acc.at[t][p] = sum;
            }
        }
    }
}

template <typename Panel, bool kBlocksOf32 = Panel::kColumns == kBlock32>
struct WideOf {
    using Type = WideBlock256<Panel>;
};
template <typename Panel>
struct WideOf<Panel, true> {
    using Type = std::conditional_t<Panel::kMinimum, WideUnit32Minimum, WideUnit32>;
};

// All tiles of one panel, from token `first` on.
template <typename Panel>
void multiply_group(const PanelTask& task, std::size_t row, std::size_t first, std::size_t last) {
    constexpr std::size_t kChunkBlocks = kChunkColumns / Panel::kColumns;
    constexpr std::size_t kTileBytes = Panel::kColumns == kBlock32 ? kTile32Bytes : kTile256Bytes;
    typename WideOf<Panel>::Type wide[kChunkBlocks];
    TileSums<2> sums[kGroupTiles];
    const std::byte* panel = task.panels + row / kPanelRows * task.panel_bytes;
    const std::size_t blocks = task.columns / Panel::kColumns;
    for (std::size_t begin = 0; begin < blocks; begin += kChunkBlocks) {
        const std::size_t count = blocks - begin < kChunkBlocks ? blocks - begin : kChunkBlocks;
        if constexpr (Panel::kColumns == kBlock32) {
            widen32<Panel>(panel + begin * Panel::kBlockBytes, count, wide);
        } else {
            widen256<Panel>(panel + begin * Panel::kBlockBytes, count, wide);
        }
        for (std::size_t token = first; token < last; token += kTileTokens) {
            const std::byte* x = task.activations + token * task.activation_row_bytes + begin * kTileBytes;
            TileSums<2>& kept = sums[(token - first) / kTileTokens];
            TileSums<2> acc = {};
            if (begin > 0) acc = kept;
            multiply_wide(wide, x, count, acc);
            if (begin + count < blocks) {
                kept = acc;
                continue;
            }
            store_pair(task, row, token, acc.at[0]);
            if (token + 2 < last) store_pair(task, row, token + 2, acc.at[1]);
        }
    }
}

template <typename Panel>
void many_tokens(const PanelTask& task) {
    constexpr std::size_t kGroup = kGroupTiles * kTileTokens;
    for (std::size_t row = 0; row < task.rows; row += kPanelRows) {
        for (std::size_t first = 0; first < task.tokens; first += kGroup) {
            multiply_group<Panel>(task, row, first, task.tokens - first < kGroup ? task.tokens : first + kGroup);
        }
    }
}

}  // namespace

}  // namespace hearth
