// Matmul over packed weights with SMMLA: one token from its activation row, two to eight tokens in pairs from tiles of
// two pairs, eight rows at a time, for every type. Include in a file built with the int8 matrix multiply
// extension.
#pragma once

#include <type_traits>

#include "kernels/panels_arm_q4_0.h"
#include "kernels/panels_arm_q4_k.h"
#include "kernels/panels_arm_q5_0.h"
#include "kernels/panels_arm_q6_k.h"

namespace hearth {

namespace {

// Tiles hold four tokens as two pairs. Per 32 columns: [8 columns][pair][token] of eight bytes.
inline constexpr std::size_t kTileTokens = 4;
inline constexpr std::size_t kTilePairs = 2;
inline constexpr std::size_t kTileUnitBytes = 128;
// Q8x32: the unit, then for each pair its scales as (a, b, a, b).
inline constexpr std::size_t kTile32Scales = 128;
inline constexpr std::size_t kTile32Bytes = kTileTokens * sizeof(ActivationBlock32);
// Q8x256: eight units; the sums of 32 as 128 * high + low, each pair's high bytes, then its low bytes; the same for the
// sums of the even sixteens; four scales.
inline constexpr std::size_t kTile256Sums = 1024;
inline constexpr std::size_t kTile256EvenSums = 1088;
inline constexpr std::size_t kTile256Scales = 1152;
inline constexpr std::size_t kTile256Bytes = kTileTokens * sizeof(ActivationBlock256);
static_assert(kTile32Bytes == 160 && kTile256Bytes == 1168);

template <typename Panel>
[[gnu::always_inline]] inline int32x4_t multiply_add(int32x4_t sums, int8x16_t w, int8x16_t x) {
    if constexpr (Panel::kUnsigned) return vusmmlaq_s32(sums, vreinterpretq_u8_s8(w), x);
    return vmmlaq_s32(sums, w, x);
}

template <int kFraction>
[[gnu::always_inline]] inline float32x4_t to_floats(int32x4_t x) {
    if constexpr (kFraction == 0) return vcvtq_f32_s32(x);
    if constexpr (kFraction > 0) return vcvtq_n_f32_s32(x, kFraction);
}

[[gnu::always_inline]] inline int8x16_t load_tile(const std::byte* tile, std::size_t vector) {
    return vld1q_s8(reinterpret_cast<const std::int8_t*>(tile) + 16 * vector);
}

// One token. Its eight columns are the first row of a 2 x 8 matrix whose second row is zero: of the four sums of an
// SMMLA the first and third count.

[[gnu::always_inline]] inline int8x16_t load_eight(const std::int8_t* q) {
    return vcombine_s8(vld1_s8(q), vdup_n_s8(0));
}

struct Ints8 {
    int32x4_t low;  // rows 0 to 3
    int32x4_t high;
};

// Products of columns 8 * kFirst to 8 * kLast of two rows.
template <typename Panel, std::size_t kFirst, std::size_t kLast>
[[gnu::always_inline]] inline int32x4_t quad(const RowPair& w, const int8x16_t (&x)[4]) {
    int32x4_t sums = vdupq_n_s32(0);
    for (std::size_t s = kFirst; s < kLast; ++s) sums = multiply_add<Panel>(sums, w.at[s], x[s]);
    return sums;
}

[[gnu::always_inline]] inline Ints8 first_sums(const int32x4_t (&quads)[4]) {
    return {vuzp1q_s32(quads[0], quads[1]), vuzp1q_s32(quads[2], quads[3])};
}

// Products of a unit with one token.
template <typename Panel>
[[gnu::always_inline]] inline Ints8 row_sums(const std::byte* unit, const int8x16_t (&x)[4]) {
    int32x4_t quads[4];
    for_each_row_pair([&](auto pair) {
        constexpr std::size_t kP = decltype(pair)::kIndex;
        quads[kP] = quad<Panel, 0, 4>(Panel::Unit::template row_pair<kP>(unit), x);
    });
    return first_sums(quads);
}

// Products of a unit's two halves of sixteen columns with one token. Row pairs 1 and 3 take the token in the second row
// of its matrix and share the sums of pairs 0 and 2, which then hold rows 0, 2, 1, 3: fewer sums to clear and to sort.
[[gnu::always_inline]] inline int32x4_t uncross(int32x4_t rows) {
    return vzip1q_s32(rows, vextq_s32(rows, rows, 2));
}
struct HalfSums {
    Ints8 first;
    Ints8 second;
};
template <typename Panel>
[[gnu::always_inline]] inline HalfSums half_sums(const std::byte* unit, const int8x16_t (&x)[4]) {
    int8x16_t lower[4];
    for (std::size_t s = 0; s < 4; ++s) lower[s] = vextq_s8(vdupq_n_s8(0), x[s], 8);
    int32x4_t first[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
    int32x4_t second[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
    RowPair w[4];
    for_each_row_pair([&](auto pair) {
        constexpr std::size_t kP = decltype(pair)::kIndex;
        w[kP] = Panel::Unit::template row_pair<kP>(unit);
    });
    for (std::size_t s = 0; s < 2; ++s) {
        for (std::size_t p = 0; p < 4; ++p) {
            first[p / 2] = multiply_add<Panel>(first[p / 2], w[p].at[s], p % 2 == 0 ? x[s] : lower[s]);
        }
        for (std::size_t p = 0; p < 4; ++p) {
            second[p / 2] = multiply_add<Panel>(second[p / 2], w[p].at[s + 2], p % 2 == 0 ? x[s + 2] : lower[s + 2]);
        }
    }
    return {{first[0], first[1]}, {second[0], second[1]}};
}

[[gnu::always_inline]] inline void add_scaled(Floats8& acc, float32x4_t low, float32x4_t high, Floats8 d, float scale) {
    acc.low = vfmaq_f32(acc.low, low, vmulq_n_f32(d.low, scale));
    acc.high = vfmaq_f32(acc.high, high, vmulq_n_f32(d.high, scale));
}

template <typename Panel>
Floats8 one_token32(const std::byte* panel, const ActivationBlock32* x, std::size_t blocks, Floats8 acc) {
    for (std::size_t b = 0; b < blocks; ++b, panel += Panel::kBlockBytes) {
        fetch_ahead<Panel::kBlockBytes>(panel);
        int8x16_t q[4];
        for (std::size_t s = 0; s < 4; ++s) q[s] = load_eight(x[b].q + 8 * s);
        const Ints8 isum = row_sums<Panel>(panel + Panel::kUnitsAt, q);
        constexpr int kFraction = Panel::Unit::kFraction;
        add_scaled(acc, to_floats<kFraction>(isum.low), to_floats<kFraction>(isum.high), Panel::scales(panel),
                   x[b].scale);
        if constexpr (Panel::kMinimum) {
            const float32x4_t sum = vdupq_n_f32(static_cast<float>(x[b].sum));
            add_scaled(acc, sum, sum, Panel::minimums(panel), x[b].scale);
        }
    }
    return acc;
}

[[gnu::always_inline]] inline void add_products(Ints8& total, Ints8 isum, int16x8_t scales) {
    total.low = vmlaq_s32(total.low, isum.low, vmovl_s16(vget_low_s16(scales)));
    total.high = vmlaq_s32(total.high, isum.high, vmovl_high_s16(scales));
}

// Sums of 32 or of sixteens as 128 * high + low in bytes.
struct SplitSums {
    int8x8_t high;
    int8x8_t low;
};
[[gnu::always_inline]] inline SplitSums split(int16x8_t sums) {
    return {vmovn_s16(vshrq_n_s16(sums, 7)), vmovn_s16(vandq_s16(sums, vdupq_n_s16(127)))};
}

// For each row the sum over sub-blocks of minimum times sum of activations.
template <typename Panel>
[[gnu::always_inline]] inline Ints8 minimum_sums(const std::byte* block, const std::int16_t* sums) {
    const int16x8_t first = vld1q_s16(sums);
    const int16x8_t second = vld1q_s16(sums + 8);
    const SplitSums whole = split(vpaddq_s16(first, second));
    const SplitSums even = split(vuzp1q_s16(first, second));
    const int8x8_t zero = vdup_n_s8(0);
    int32x4_t out[4];
    for (std::size_t p = 0; p < 4; ++p) {
        const MinimumVectors minimums = Panel::minimum_vectors(block, p);
        out[p] = vmmlaq_s32(vdupq_n_s32(0), minimums.whole, vcombine_s8(whole.high, zero));
        if constexpr (Panel::kMinimums == Minimums::Per16) {
            out[p] = vmmlaq_s32(out[p], minimums.even, vcombine_s8(even.high, zero));
        }
        out[p] = vmmlaq_s32(vshlq_n_s32(out[p], 7), minimums.whole, vcombine_s8(whole.low, zero));
        if constexpr (Panel::kMinimums == Minimums::Per16) {
            out[p] = vmmlaq_s32(out[p], minimums.even, vcombine_s8(even.low, zero));
        }
    }
    return {vuzp1q_s32(out[0], out[1]), vuzp1q_s32(out[2], out[3])};
}

// Adds scale times product over the eight units of a block.
template <typename Panel>
[[gnu::always_inline]] inline void add_units(const std::byte* panel, const std::int8_t* x, Ints8& total) {
    for (std::size_t unit = 0; unit < 8; ++unit) {
        const std::byte* at = panel + Panel::kUnitsAt + unit * Panel::Unit::kBytes;
        fetch_ahead<Panel::kBlockBytes / 8>(panel + unit * (Panel::kBlockBytes / 8));
        int8x16_t q[4];
        for (std::size_t s = 0; s < 4; ++s) q[s] = load_eight(x + unit * kUnitColumns + 8 * s);
        if constexpr (Panel::kSub16) {
            const SubScales scales = Panel::crossed_scales(panel, unit);
            const HalfSums sums = half_sums<Panel>(at, q);
            add_products(total, sums.first, scales.first);
            add_products(total, sums.second, scales.second);
        } else {
            add_products(total, row_sums<Panel>(at, q), Panel::sub_scales(panel, unit).first);
        }
    }
}

// Whether the sum over the units of a block is in assembly, for one, two, four and eight tokens: sum_units.
template <typename Panel>
inline constexpr bool kInAssembly = std::is_same_v<Panel, PanelQ4_K> || std::is_same_v<Panel, PanelQ6_K>;

// The columns of one token as the assembly of a type wants them, and for minimums the sums of 32 of each block, which
// are 128 * high + low: the high bytes, then the low ones.
struct ArrangedUnits {
    static constexpr std::size_t kMost = 512;
    alignas(16) std::int8_t at[kMost][48];
    alignas(16) std::int8_t sums[kMost / 8][16];

    template <typename Panel>
    void fill(const ActivationBlock256* x, std::size_t blocks) {
        for (std::size_t b = 0; b < blocks; ++b) {
            for (std::size_t unit = 0; unit < 8; ++unit) {
                arrange_unit(Panel{}, x[b].q + unit * kUnitColumns, at[8 * b + unit]);
            }
            if constexpr (Panel::kMinimum) {
                const SplitSums whole = split(vpaddq_s16(vld1q_s16(x[b].sums), vld1q_s16(x[b].sums + 8)));
                vst1q_s8(sums[b], vcombine_s8(whole.high, whole.low));
            }
        }
    }
};

template <typename Panel>
[[gnu::always_inline]] inline Ints8 minimum_sums(const std::byte* block, const std::int8_t (&sums)[16]) {
    static_assert(Panel::kMinimums == Minimums::Per32);
    const int8x16_t x = vld1q_s8(sums);
    int32x4_t out[4];
    for (std::size_t p = 0; p < 4; ++p) {
        out[p] = vmmlaq_s32(vdupq_n_s32(0), Panel::minimum_vectors(block, p).whole, x);
    }
    return {vmlaq_n_s32(vuzp2q_s32(out[0], out[1]), vuzp1q_s32(out[0], out[1]), 128),
            vmlaq_n_s32(vuzp2q_s32(out[2], out[3]), vuzp1q_s32(out[2], out[3]), 128)};
}

template <typename Panel>
Floats8 one_token256(const std::byte* panel, const ActivationBlock256* x, std::size_t blocks) {
    constexpr int kFraction = Panel::Unit::kFraction;
    Floats8 acc = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
    for (std::size_t b = 0; b < blocks; ++b, panel += Panel::kBlockBytes) {
        Ints8 total = {vdupq_n_s32(0), vdupq_n_s32(0)};
        add_units<Panel>(panel, x[b].q, total);
        if constexpr (Panel::kSub16) total = {uncross(total.low), uncross(total.high)};
        add_scaled(acc, to_floats<kFraction>(total.low), to_floats<kFraction>(total.high), Panel::scales(panel),
                   x[b].scale);
        if constexpr (Panel::kMinimum) {
            const Ints8 sums = minimum_sums<Panel>(panel, x[b].sums);
            add_scaled(acc, vcvtq_f32_s32(sums.low), vcvtq_f32_s32(sums.high), Panel::minimums(panel), -x[b].scale);
        }
    }
    return acc;
}

// The same in assembly.
template <typename Panel>
Floats8 one_token256(const std::byte* panel, const ActivationBlock256* x, const ArrangedUnits& units,
                     std::size_t blocks) {
    constexpr int kFraction = Panel::Unit::kFraction;
    Floats8 acc = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
    for (std::size_t b = 0; b < blocks; ++b, panel += Panel::kBlockBytes) {
        Ints8 total;
        sum_units(Panel{}, panel, units.at[8 * b], total.low, total.high);
        add_scaled(acc, to_floats<kFraction>(total.low), to_floats<kFraction>(total.high), Panel::scales(panel),
                   x[b].scale);
        if constexpr (Panel::kMinimum) {
            const Ints8 sums = minimum_sums<Panel>(panel, units.sums[b]);
            add_scaled(acc, vcvtq_f32_s32(sums.low), vcvtq_f32_s32(sums.high), Panel::minimums(panel), -x[b].scale);
        }
    }
    return acc;
}

// One to four token pairs. An accumulator holds (row 2p, token a), (row 2p, token b), (row 2p + 1, a), (row 2p + 1, b).

struct PairFloats {
    float32x4_t at[4];  // by row pair: (r, r, r + 1, r + 1)
};
[[gnu::always_inline]] inline PairFloats pair_floats(Floats8 d) {
    return {
        {vzip1q_f32(d.low, d.low), vzip2q_f32(d.low, d.low), vzip1q_f32(d.high, d.high), vzip2q_f32(d.high, d.high)}};
}

template <std::size_t kPairs>
struct TileSums {
    float32x4_t at[kPairs][4];
};

// The activations of one or two tiles.
struct Tiles {
    const std::byte* first;
    std::size_t bytes;  // of one tile, where there are two
    [[gnu::always_inline]] const std::byte* of_pair(std::size_t pair) const {
        return first + pair / kTilePairs * bytes;
    }
};

// Thirty-two columns of the token pairs.
template <std::size_t kPairs>
struct TileUnit {
    int8x16_t at[kPairs][4];

    [[gnu::always_inline]] TileUnit(Tiles x, std::size_t offset) {
        for (std::size_t t = 0; t < kPairs; ++t) {
            for (std::size_t s = 0; s < 4; ++s) {
                at[t][s] = load_tile(x.of_pair(t) + offset, kTilePairs * s + t % kTilePairs);
            }
        }
    }
};

template <typename Panel, std::size_t kPairs>
TileSums<kPairs> tile32(const std::byte* panel, Tiles x, std::size_t blocks, TileSums<kPairs> acc) {
    for (std::size_t b = 0; b < blocks; ++b, panel += Panel::kBlockBytes, x.first += kTile32Bytes) {
        if constexpr (kPairs == 1) fetch_ahead<Panel::kBlockBytes>(panel);
        const TileUnit<kPairs> q(x, 0);
        const PairFloats d = pair_floats(Panel::scales(panel));
        float32x4_t a[kPairs];
        for (std::size_t t = 0; t < kPairs; ++t) {
            a[t] = vld1q_f32(reinterpret_cast<const float*>(x.of_pair(t) + kTile32Scales) + 4 * (t % kTilePairs));
        }
        for_each_row_pair([&](auto pair) {
            constexpr std::size_t kP = decltype(pair)::kIndex;
            const RowPair w = Panel::Unit::template row_pair<kP>(panel + Panel::kUnitsAt);
            for (std::size_t t = 0; t < kPairs; ++t) {
                const float32x4_t isum = to_floats<Panel::Unit::kFraction>(quad<Panel, 0, 4>(w, q.at[t]));
                acc.at[t][kP] = vfmaq_f32(acc.at[t][kP], isum, vmulq_f32(d.at[kP], a[t]));
            }
        });
        if constexpr (Panel::kMinimum) {
            const PairFloats m = pair_floats(Panel::minimums(panel));
            for (std::size_t t = 0; t < kPairs; ++t) {
                int32x4_t sum = vdupq_n_s32(0);
                for (std::size_t s = 0; s < 4; ++s) sum = vmmlaq_s32(sum, vdupq_n_s8(1), q.at[t][s]);
                for (std::size_t p = 0; p < 4; ++p) {
                    acc.at[t][p] = vfmaq_f32(acc.at[t][p], vcvtq_f32_s32(sum), vmulq_f32(m.at[p], a[t]));
                }
            }
        }
    }
    return acc;
}

struct PairInts {
    int32x4_t at[4];
};
[[gnu::always_inline]] inline PairInts pair_ints(int16x8_t scales) {
    const int16x8_t low = vzip1q_s16(scales, scales);
    const int16x8_t high = vzip2q_s16(scales, scales);
    return {{vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)}};
}

template <typename Panel>
[[gnu::always_inline]] inline int32x4_t minimum_quad(const std::byte* block, const std::byte* x, std::size_t p,
                                                     std::size_t pair) {
    const MinimumVectors minimums = Panel::minimum_vectors(block, p);
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

// The sum of scale times product over the eight units of a block.
template <typename Panel, std::size_t kPairs>
[[gnu::always_inline]] inline void sum_units(const std::byte* panel, Tiles x, int32x4_t (&total)[kPairs][4]) {
    for (std::size_t t = 0; t < kPairs; ++t) {
        for (std::size_t p = 0; p < 4; ++p) total[t][p] = vdupq_n_s32(0);
    }
    for (std::size_t unit = 0; unit < 8; ++unit) {
        const std::byte* at = panel + Panel::kUnitsAt + unit * Panel::Unit::kBytes;
        if constexpr (kPairs == 1) fetch_ahead<Panel::kBlockBytes / 8>(panel + unit * (Panel::kBlockBytes / 8));
        const TileUnit<kPairs> q(x, unit * kTileUnitBytes);
        const SubScales scales = Panel::sub_scales(panel, unit);
        const PairInts first = pair_ints(scales.first);
        const PairInts second = pair_ints(scales.second);
        for_each_row_pair([&](auto pair) {
            constexpr std::size_t kP = decltype(pair)::kIndex;
            const RowPair w = Panel::Unit::template row_pair<kP>(at);
            for (std::size_t t = 0; t < kPairs; ++t) {
                constexpr std::size_t kFirstColumns = Panel::kSub16 ? 2 : 4;
                total[t][kP] = vmlaq_s32(total[t][kP], quad<Panel, 0, kFirstColumns>(w, q.at[t]), first.at[kP]);
                if constexpr (Panel::kSub16) {
                    total[t][kP] = vmlaq_s32(total[t][kP], quad<Panel, 2, 4>(w, q.at[t]), second.at[kP]);
                }
            }
        });
    }
}

template <typename Panel, std::size_t kPairs>
TileSums<kPairs> tile256(const std::byte* panel, Tiles x, std::size_t blocks) {
    TileSums<kPairs> acc = {};
    for (std::size_t b = 0; b < blocks; ++b, panel += Panel::kBlockBytes, x.first += kTile256Bytes) {
        int32x4_t total[kPairs][4];
        if constexpr (kInAssembly<Panel> && kPairs == 1) {
            sum_units(Panel{}, panel, x.first, total[0]);
        } else if constexpr (kInAssembly<Panel> && kPairs == 2) {
            sum_units(Panel{}, panel, x.first, total);
        } else if constexpr (kInAssembly<Panel> && kPairs == 4) {
            sum_units<0>(Panel{}, panel, x.first, x.of_pair(2), total);
            sum_units<1>(Panel{}, panel, x.first, x.of_pair(2), total);
        } else {
            sum_units<Panel, kPairs>(panel, x, total);
        }
        const PairFloats d = pair_floats(Panel::scales(panel));
        PairFloats dmin = {};
        if constexpr (Panel::kMinimum) dmin = pair_floats(Panel::minimums(panel));
        for (std::size_t t = 0; t < kPairs; ++t) {
            const auto* scales = reinterpret_cast<const float*>(x.of_pair(t) + kTile256Scales) + 2 * (t % kTilePairs);
            const float32x2_t two = vld1_f32(scales);
            const float32x4_t a = vcombine_f32(two, two);
            for (std::size_t p = 0; p < 4; ++p) {
                acc.at[t][p] =
                    vfmaq_f32(acc.at[t][p], to_floats<Panel::Unit::kFraction>(total[t][p]), vmulq_f32(d.at[p], a));
                if constexpr (Panel::kMinimum) {
                    const float32x4_t sums = vcvtq_f32_s32(minimum_quad<Panel>(panel, x.of_pair(t), p, t % kTilePairs));
                    acc.at[t][p] = vfmsq_f32(acc.at[t][p], sums, vmulq_f32(dmin.at[p], a));
                }
            }
        }
    }
    return acc;
}

// The rows of one token pair to the outputs of its (one or two) tokens.
inline void store_pair(const PanelTask& task, std::size_t row, std::size_t token, const float32x4_t* sums) {
    float* out = task.out + token * task.out_stride + row;
    const std::size_t rows = task.rows - row;
    store_rows8(out, rows, {vuzp1q_f32(sums[0], sums[1]), vuzp1q_f32(sums[2], sums[3])});
    if (token + 1 == task.tokens) return;
    store_rows8(out + task.out_stride, rows, {vuzp2q_f32(sums[0], sums[1]), vuzp2q_f32(sums[2], sums[3])});
}

template <typename Panel, std::size_t kPairs>
void multiply_tile(const PanelTask& task, std::size_t row, std::size_t token) {
    const std::byte* panel = task.panels + row / kPanelRows * task.panel_bytes;
    const Tiles x = {task.activations + token * task.activation_row_bytes, kTileTokens * task.activation_row_bytes};
    TileSums<kPairs> acc = {};
    if constexpr (Panel::kColumns == kBlock32) {
        acc = tile32<Panel, kPairs>(panel, x, task.columns / kBlock32, acc);
    } else {
        acc = tile256<Panel, kPairs>(panel, x, task.columns / kBlock256);
    }
    for (std::size_t t = 0; t < kPairs; ++t) store_pair(task, row, token + 2 * t, acc.at[t]);
}

// Scales of activations as halves, times kHalfScalesUnit. They have eleven significant bits, so nothing is lost where
// the exponent fits, and the product of two halves is exact.
struct HalfScale {
    float16x4_t half;
    uint32x4_t exact;  // all bits set where it is
};
[[gnu::always_inline]] inline HalfScale half_scale(float32x4_t scale) {
    const float32x4_t wanted = vmulq_n_f32(scale, kHalfScalesUnit);
    const float16x4_t half = vcvt_f16_f32(wanted);
    return {half, vceqq_f32(vcvt_f32_f16(half), wanted)};
}
// 1.5 * 2^23 plus eight times the sum of the columns that meet low nibbles, as the bits of a float.
[[gnu::always_inline]] inline uint32x4_t float_bias(int32x4_t sums) {
    return vaddq_u32(vdupq_n_u32(kFloatBits), vreinterpretq_u32_s32(vshlq_n_s32(sums, 3)));
}

// What the tokens of a task bring to each block: by pair the scales as (a, b, a, b, a, b, a, b), then by pair where
// integers start, as (a, b, a, b).
template <std::size_t kPairs>
struct TokenScales {
    struct Block {
        std::uint16_t halves[kPairs][8];
        std::uint32_t first[kPairs][4];
    };
    static constexpr std::size_t kMostBlocks = 512;
    alignas(16) Block at[kMostBlocks + 1];  // the one after the last is loaded and not used

    // False where the scales are no halves.
    [[nodiscard]] bool fill(Tiles x, std::size_t blocks) {
        if (blocks > kMostBlocks) return false;
        uint32x4_t exact = vdupq_n_u32(~0u);
        for (std::size_t b = 0; b < blocks; ++b) {
            for (std::size_t t = 0; t < kPairs; ++t) {
                const std::byte* block = x.of_pair(t) + b * kTile32Bytes;
                const auto* scales = reinterpret_cast<const float*>(block + kTile32Scales) + 4 * (t % kTilePairs);
                const HalfScale scale = half_scale(vld1q_f32(scales));
                exact = vandq_u32(exact, scale.exact);
                vst1q_u16(at[b].halves[t], vreinterpretq_u16_f16(vcombine_f16(scale.half, scale.half)));
                const int16x8_t eights = vaddq_s16(vpaddlq_s8(load_tile(block, t % kTilePairs)),
                                                   vpaddlq_s8(load_tile(block, kTilePairs + t % kTilePairs)));
                const int32x4_t sums = vpaddlq_s16(eights);
                vst1q_u32(at[b].first[t], float_bias(vnegq_s32(vpaddq_s32(sums, sums))));
            }
        }
        return vminvq_u32(exact) != 0;
    }
    [[gnu::always_inline]] const std::byte* from(std::size_t block) const {
        return reinterpret_cast<const std::byte*>(&at[block]);
    }
};

// The sums of eight rows, all too large by 1 / kHalfSumsUnit.
inline void sum_q4_0(const std::byte* panel, Tiles x, const TokenScales<1>& scales, std::size_t blocks,
                     TileSums<1>& acc) {
    add_block_pairs_q4_0(panel, x.first, scales.from(0), blocks / 2, acc.at[0]);
}
inline void sum_q4_0(const std::byte* panel, Tiles x, const TokenScales<2>& scales, std::size_t blocks,
                     TileSums<2>& acc) {
    add_tile_q4_0(panel, x.first, scales.from(0), blocks, acc.at);
}
// Four rows after the other four, in turns of some columns, so that memory goes on working while the second four are
// served.
inline void sum_q4_0(const std::byte* panel, Tiles x, const TokenScales<4>& scales, std::size_t blocks,
                     TileSums<4>& acc) {
    constexpr std::size_t kTurn = 16;  // blocks
    for (std::size_t b = 0; b < blocks; b += kTurn) {
        const std::size_t count = blocks - b < kTurn ? blocks - b : kTurn;
        const std::byte* w = panel + b * PanelMixedQ4_0::kBlockBytes;
        const std::size_t offset = b * kTile32Bytes;
        add_half_tiles_q4_0<0>(w, x.first + offset, x.of_pair(2) + offset, scales.from(b), count, acc.at);
        add_half_tiles_q4_0<1>(w, x.first + offset, x.of_pair(2) + offset, scales.from(b), count, acc.at);
    }
}

// All tokens of the task, at most 2 * kPairs. False, and nothing done, where the scales are no halves.
template <std::size_t kPairs>
bool multiply_q4_0(const PanelTask& task) {
    const Tiles x = {task.activations, kTileTokens * task.activation_row_bytes};
    const std::size_t blocks = task.columns / kBlock32;
    TokenScales<kPairs> scales;
    if (blocks < 2 || !scales.fill(x, blocks)) return false;
    for (std::size_t row = 0; row < task.rows; row += kPanelRows) {
        const std::byte* panel = task.panels + row / kPanelRows * task.panel_bytes;
        TileSums<kPairs> acc = {};
        sum_q4_0(panel, x, scales, blocks, acc);
        for (auto& pair : acc.at) {
            for (float32x4_t& sums : pair) sums = vmulq_n_f32(sums, kHalfSumsUnit);
        }
        if (kPairs == 1 && blocks % 2 != 0) {
            const Tiles last = {x.first + (blocks - 1) * kTile32Bytes, x.bytes};
            acc = tile32<PanelMixedQ4_0, kPairs>(panel + (blocks - 1) * PanelMixedQ4_0::kBlockBytes, last, 1, acc);
        }
        for (std::size_t t = 0; t < kPairs; ++t) {  // a constant, so that the sums stay in registers
            if (2 * t < task.tokens) store_pair(task, row, 2 * t, acc.at[t]);
        }
    }
    return true;
}

// All blocks of a panel: in pairs where there is assembly for them, and what is left.
template <typename Panel>
[[gnu::always_inline]] inline Floats8 all_blocks(const std::byte* panel, const ActivationBlock32* x,
                                                 std::size_t blocks) {
    Floats8 acc = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
    std::size_t done = 0;
    if constexpr (std::is_same_v<Panel, PanelQ5_0>) {
        done = blocks / 2 * 2;
        acc = block_pairs_q5_0(panel, x, done / 2);
    }
    return one_token32<Panel>(panel + done * Panel::kBlockBytes, x + done, blocks - done, acc);
}

// The blocks of one token for the assembly of Q4_0.
struct ArrangedBlocks {
    static constexpr std::size_t kMost = 512;
    ArrangedBlock at[kMost];

    // False where a scale is no half, or there are too many.
    [[nodiscard]] bool fill(const ActivationBlock32* x, std::size_t blocks) {
        if (blocks > kMost) return false;
        uint32x4_t exact = vdupq_n_u32(~0u);
        for (std::size_t i = 0; i < blocks; ++i) {
            const HalfScale scale = half_scale(vdupq_n_f32(x[i].scale));
            exact = vandq_u32(exact, scale.exact);
            arrange_for_nibbles(x[i].q, at[i].columns);
            vst1q_u32(at[i].bias, float_bias(vdupq_n_s32(vaddlvq_s8(vld1q_s8(x[i].q)))));
            at[i].scale = vget_lane_u16(vreinterpret_u16_f16(scale.half), 0);
        }
        return vminvq_u32(exact) != 0;
    }
};

// False, and nothing done, where a scale is no half or the row too long.
inline bool one_token_q4_0(const PanelTask& task) {
    const auto* x = reinterpret_cast<const ActivationBlock32*>(task.activations);
    const std::size_t blocks = task.columns / kBlock32;
    ArrangedBlocks arranged;
    if (blocks < 2 || !arranged.fill(x, blocks)) return false;
    const std::size_t done = blocks / 2 * 2;
    for (std::size_t row = 0; row < task.rows; row += kPanelRows) {
        const std::byte* panel = task.panels + row / kPanelRows * task.panel_bytes;
        Floats8 acc = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
        add_block_pairs_q4_0(panel, arranged.at, done / 2, acc);
        acc = {vmulq_n_f32(acc.low, kHalfSumsUnit), vmulq_n_f32(acc.high, kHalfSumsUnit)};
        acc = one_token32<PanelMixedQ4_0>(panel + done * PanelMixedQ4_0::kBlockBytes, x + done, blocks - done, acc);
        store_rows8(task.out + row, task.rows - row, acc);
    }
    return true;
}

template <typename Panel>
void one_token32(const PanelTask& task) {
    const auto* x = reinterpret_cast<const ActivationBlock32*>(task.activations);
    for (std::size_t row = 0; row < task.rows; row += kPanelRows) {
        const std::byte* panel = task.panels + row / kPanelRows * task.panel_bytes;
        store_rows8(task.out + row, task.rows - row, all_blocks<Panel>(panel, x, task.columns / kBlock32));
    }
}

template <typename Panel>
void one_token256(const PanelTask& task) {
    const auto* x = reinterpret_cast<const ActivationBlock256*>(task.activations);
    const std::size_t blocks = task.columns / kBlock256;
    const auto each_panel = [&task](const auto& sums_of) {
        for (std::size_t row = 0; row < task.rows; row += kPanelRows) {
            const std::byte* panel = task.panels + row / kPanelRows * task.panel_bytes;
            store_rows8(task.out + row, task.rows - row, sums_of(panel));
        }
    };
    if constexpr (kInAssembly<Panel>) {
        if (8 * blocks <= ArrangedUnits::kMost) {
            ArrangedUnits units;
            units.fill<Panel>(x, blocks);
            each_panel([&](const std::byte* panel) { return one_token256<Panel>(panel, x, units, blocks); });
            return;
        }
    }
    each_panel([&](const std::byte* panel) { return one_token256<Panel>(panel, x, blocks); });
}

template <typename Panel>
void one_token(const PanelTask& task) {
    if constexpr (Panel::kColumns == kBlock32) {
        one_token32<Panel>(task);
    } else {
        one_token256<Panel>(task);
    }
}

}  // namespace

}  // namespace hearth
