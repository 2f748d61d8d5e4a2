// Products of packed weights with SDOT. Weights are in its own order (Order::Quads): a vector is four columns of four
// rows, which meet four columns of a token, one lane of sixteen bytes; the sums of four rows come out side by side. The
// lanes are sixteen columns of one token, or four columns of a tile of four.
#pragma once

#include <bit>

#include "kernels/panels_arm_blocks.h"
#include "kernels/panels_arm_sdot_few.h"
#include "kernels/panels_arm_sdot_tiles.h"
#include "kernels/panels_arm_sdot_wide.h"

namespace hearth {

namespace {

struct Sdot {
    using Q4_0 = PanelQuadQ4_0;
    using Q4_K = PanelQuadQ4_K;
    using Q5_K = PanelQuadQ5_K;
    static constexpr std::size_t kTileTokens = kSdotTileTokens;
    static constexpr std::size_t kFewTokens = 8;
    static constexpr std::size_t kGroupTokens = kSdotTileTokens;
    template <typename Panel, std::size_t kTokens>
    using Input = Tile<Panel, kTokens>;

    // Vector 4 * kS + kP of a unit: columns 4g to 4g + 3, g = 2 * kS + kP / 2, of rows 4 * (kP % 2) and on.
    template <std::size_t kS, std::size_t kP, typename Panel>
    [[gnu::always_inline]] static void add_vector(int8x16_t w, const Rows<Panel, 1>& x, std::size_t u,
                                                  TokenInts<1>& sums) {
        int32x4_t& sum = kP % 2 == 0 ? sums.at[0].low : sums.at[0].high;
        sum = vdotq_laneq_s32(sum, w, vld1q_s8(x.q(0, u) + kS / 2 * 16), 2 * (kS % 2) + kP / 2);
    }
    template <std::size_t kS, std::size_t kP, typename Panel, std::size_t kTokens>
    [[gnu::always_inline]] static void add_vector(int8x16_t w, const Tile<Panel, kTokens>& x, std::size_t u,
                                                  TokenInts<kTokens>& sums) {
        const int8x16_t columns = vld1q_s8(x.q(u) + 16 * (2 * kS + kP / 2));
        add_tokens(
            w, columns, [&sums](std::size_t t) -> int32x4_t& { return kP % 2 == 0 ? sums.at[t].low : sums.at[t].high; },
            sums);
    }
    // The sums of a tile's tokens, each a lane of x.
    template <typename SumOf, std::size_t kTokens>
    [[gnu::always_inline]] static void add_tokens(int8x16_t w, int8x16_t x, const SumOf& sum_of, TokenInts<kTokens>&) {
        sum_of(0) = vdotq_laneq_s32(sum_of(0), w, x, 0);
        if constexpr (kTokens > 1) sum_of(1) = vdotq_laneq_s32(sum_of(1), w, x, 1);
        if constexpr (kTokens > 2) sum_of(2) = vdotq_laneq_s32(sum_of(2), w, x, 2);
        if constexpr (kTokens > 3) sum_of(3) = vdotq_laneq_s32(sum_of(3), w, x, 3);
    }

    template <std::size_t kFirst, std::size_t kLast, typename Unit, typename Input, std::size_t kTokens>
    [[gnu::always_inline]] static void add(const Unit& unit, const Input& x, std::size_t u, TokenInts<kTokens>& sums) {
        for_each_row_pair([&](auto pair) {
            constexpr std::size_t kP = decltype(pair)::kIndex;
            const RowPair w = unit.template row_pair<kP>();
            if constexpr (kFirst == 0) {
                add_vector<0, kP>(w.at[0], x, u, sums);
                add_vector<1, kP>(w.at[1], x, u, sums);
            }
            if constexpr (kLast == 4) {
                add_vector<2, kP>(w.at[2], x, u, sums);
                add_vector<3, kP>(w.at[3], x, u, sums);
            }
        });
    }

    template <std::size_t kFirst, std::size_t kLast, typename Unit, typename Input>
    [[gnu::always_inline]] static TokenInts<Input::kTokens> sums(const Unit& unit, const Input& x, std::size_t u) {
        TokenInts<Input::kTokens> out;
        for (Ints8& sum : out.at) sum = {zero(), zero()};
        add<kFirst, kLast>(unit, x, u, out);
        return out;
    }

    // Of a unit of UnitQuadNibbles `low` gets the sums of c, `high` those of the bytes as they are.
    template <typename Input>
    [[gnu::always_inline]] static void add_nibbles(const std::byte* unit, const Input& x, std::size_t u,
                                                   TokenInts<Input::kTokens>& sums) {
        for_each_row_pair([&](auto pair) {
            constexpr std::size_t kS = decltype(pair)::kIndex;
            const uint8x16_t first = load_plane(unit, 2 * kS);
            const uint8x16_t second = load_plane(unit, 2 * kS + 1);
            add_vector<kS, 0>(vreinterpretq_s8_u8(vandq_u8(first, vdupq_n_u8(15))), x, u, sums);
            add_vector<kS, 1>(vreinterpretq_s8_u8(first), x, u, sums);
            add_vector<kS, 2>(vreinterpretq_s8_u8(vandq_u8(second, vdupq_n_u8(15))), x, u, sums);
            add_vector<kS, 3>(vreinterpretq_s8_u8(second), x, u, sums);
        });
    }

    template <typename Block, typename Input>
    [[gnu::always_inline]] static TokenInts<Input::kTokens> block_sums(const Block& w, const Input& x) {
        return hearth::block_sums<Sdot, Input::kTokens>(w, x);
    }
    [[gnu::always_inline]] static TokenInts<1> block_sums(const PackedBlock<Q4_K>& w, const Rows<Q4_K, 1>& x) {
        return {{block_sums_of_one(w, x.at[0])}};
    }
    [[gnu::always_inline]] static TokenInts<1> block_sums(const PackedBlock<PanelQ6_K>& w,
                                                          const Rows<PanelQ6_K, 1>& x) {
        return {{block_sums_of_one(w, x.at[0])}};
    }
    template <std::size_t kTokens>
    requires(kTokens > 1) [[gnu::always_inline]] static TokenInts<kTokens> block_sums(const PackedBlock<Q4_K>& w,
                                                                                      const Tile<Q4_K, kTokens>& x) {
        return block_sums_of_tile<kTokens>(w, x.at);
    }
    // Q5_K: what is sixteen too little in its codes is added to the sums in advance. They are eightfold, by the
    // fraction of the unit.
    struct UnitAsKept {
        const std::byte* at;

        template <std::size_t kP>
        [[gnu::always_inline]] RowPair row_pair() const {
            return UnitFiveBits::row_pair<kP>(at);
        }
    };
    [[gnu::always_inline]] static TokenInts<1> block_sums(const PackedBlock<Q5_K>& w, const Rows<Q5_K, 1>& x) {
        TokenInts<1> total = {};
        for (std::size_t u = 0; u < 8; ++u) {
            const int32x4_t start = vdupq_n_s32(x.whole_sum(0, u) * (16 << UnitFiveBits::kFraction));
            TokenInts<1> sums = {{{start, start}}};
            add<0, 4>(UnitAsKept{w.unit(u).at}, x, u, sums);
            add_products(total.at[0], sums.at[0], w.unit_scales(u).at);
        }
        constexpr int kFraction = UnitFiveBits::kFraction;
        return {{{vshrq_n_s32(total.at[0].low, kFraction), vshrq_n_s32(total.at[0].high, kFraction)}}};
    }
    // For a compiler that would copy a register of zeros, which is a vector operation.
    [[gnu::always_inline]] static int32x4_t zero() {
        int32x4_t out;
        __asm__ volatile("movi %0.4s, #0" : "=w"(out));
        return out;
    }

    template <int kFraction, typename Unit, typename Input>
    [[gnu::always_inline]] static TokenFloats<Input::kTokens> floats(const Unit& unit, const Input& x) {
        TokenInts<Input::kTokens> ints;
        for (Ints8& start : ints.at) {
            __asm__ volatile("ldp %q0, %q1, [%2]" : "=w"(start.low), "=w"(start.high) : "r"(kStarts<kFraction>));
        }
        add<0, 4>(unit, x, 0, ints);
        const float32x4_t start = vld1q_f32(kStarts<kFraction>);
        TokenFloats<Input::kTokens> out;
        for (std::size_t t = 0; t < Input::kTokens; ++t) {
            out.at[t].low = vsubq_f32(vreinterpretq_f32_s32(ints.at[t].low), start);
            out.at[t].high = vsubq_f32(vreinterpretq_f32_s32(ints.at[t].high), start);
        }
        return out;
    }

    // Q4_0: with c eight too large, the sums of low codes start eight times the sum of the activations below.
    template <int kFraction, typename Input>
    [[gnu::always_inline]] static TokenFloats<Input::kTokens> floats(const PackedUnit<Q4_0>& unit, const Input& x) {
        TokenInts<Input::kTokens> sums;
        for (std::size_t t = 0; t < Input::kTokens; ++t) {
            const int32x4_t low = vdupq_n_s32(std::bit_cast<std::int32_t>(kStart<0>) - 8 * x.sum(t));
            sums.at[t] = {low, vaddq_s32(low, vreinterpretq_s32_f32(vdupq_n_f32(kStart<kFraction>)))};
        }
        add_nibbles(unit.at, x, 0, sums);
        TokenFloats<Input::kTokens> out;
        for (std::size_t t = 0; t < Input::kTokens; ++t) {
            const int32x4_t high = vsubq_s32(sums.at[t].high, sums.at[t].low);
            out.at[t].low = vsubq_f32(vreinterpretq_f32_s32(sums.at[t].low), vdupq_n_f32(kStart<0>));
            out.at[t].high = vsubq_f32(vreinterpretq_f32_s32(high), vdupq_n_f32(kStart<kFraction>));
        }
        return out;
    }

    // Whole panels that have assembly of their own.
    [[gnu::always_inline]] static void add_blocks(PackedBlock<Q4_0> w, std::size_t blocks, Rows<Q4_0, 1> x,
                                                  TokenFloats<1>& acc) {
        if (blocks > 1) add_pairs_of_blocks(w.packed, blocks / 2, x.at[0], acc.at[0]);
        if (blocks % 2 == 1) {
            w.packed += (blocks - 1) * Q4_0::kBlockBytes;
            x.at[0] += blocks - 1;
            add_block<Sdot>(w, x, acc);
        }
    }
    template <std::size_t kTokens>
    requires(kTokens > 1)
        [[gnu::always_inline]] static void add_blocks(PackedBlock<Q4_0> w, std::size_t blocks,
                                                      const Tile<Q4_0, kTokens>& x, TokenFloats<kTokens>& acc) {
        add_blocks_of_tile(w.packed, blocks, x.at, acc);
    }
    [[gnu::always_inline]] static void add_blocks(PackedBlock<PanelQ8_0> w, std::size_t blocks,
                                                  const Tile<PanelQ8_0, kTileTokens>& x,
                                                  TokenFloats<kTileTokens>& acc) {
        static_assert(PanelQ8_0::kUnitsAt == 16 && PanelQ8_0::kBlockBytes == 272);
        add_blocks32<Scales::HalvesBefore, 0>(w.packed, blocks, x.at, kStarts<0>, acc);
    }

    template <typename Panel>
    [[gnu::always_inline]] static void add_blocks(const WideBlock<Panel>* w, std::size_t blocks,
                                                  Tile<Panel, kGroupTokens> x, TokenFloats<kGroupTokens>& sums) {
        if constexpr (Panel::kColumns == kBlock32 && !Panel::kMinimum) {
            static_assert(offsetof(WideBlock<Panel>, d) == kUnitColumns * kPanelRows);
            constexpr std::size_t kNext = sizeof(*w) - offsetof(WideBlock<Panel>, d);
            add_blocks32<Scales::FloatsBehind, kNext>(w, blocks, x.at, kStarts<kFractionLeft<Panel>>, sums);
        } else {
            TokenFloats<kGroupTokens> acc = sums;
            for (std::size_t b = 0; b < blocks; ++b, x.next()) {
                if constexpr (Panel::kColumns == kBlock32) add_block32<Sdot>(w[b], x, acc);
                if constexpr (std::is_same_v<Panel, Q4_K>) add_block_q4_k(w[b], *x.at, acc);
                if constexpr (Panel::kColumns == kBlock256 && !std::is_same_v<Panel, Q4_K>) {
                    add_block256<Sdot>(w[b], x, block_sums256(w[b], x.at->q), acc);
                }
            }
            sums = acc;
        }
    }

    // Adds minimums of four sub-blocks, times a part of their sums: 0 and 1 the high bytes, 2 and 3 the low ones.
    template <std::size_t kPart>
    [[gnu::always_inline]] static void add_minimums(int8x16_t low, int8x16_t high, int8x16_t sums, TokenInts<1>& out) {
        out.at[0].low = vdotq_laneq_s32(out.at[0].low, low, sums, kPart);
        out.at[0].high = vdotq_laneq_s32(out.at[0].high, high, sums, kPart);
    }
    template <std::size_t kPart, std::size_t kTokens>
    [[gnu::always_inline]] static void add_minimums(int8x16_t low, int8x16_t high, const SplitSums& sums,
                                                    TokenInts<kTokens>& out) {
        const int8x16_t part = vld1q_s8(sums.part[kPart]);
        add_tokens(
            low, part, [&out](std::size_t t) -> int32x4_t& { return out.at[t].low; }, out);
        add_tokens(
            high, part, [&out](std::size_t t) -> int32x4_t& { return out.at[t].high; }, out);
    }
    // The same for all of them, the high bytes (0) or the low ones (2).
    template <std::size_t kFirst, typename Panel, typename Sums, std::size_t kTokens>
    [[gnu::always_inline]] static void add_minimums(const std::byte* block, const Sums& whole, const Sums& even,
                                                    TokenInts<kTokens>& out) {
        MinimumVectors at[4];
        for (std::size_t p = 0; p < 4; ++p) at[p] = Panel::minimum_vectors(block, p);
        add_minimums<kFirst>(at[0].whole, at[1].whole, whole, out);
        add_minimums<kFirst + 1>(at[2].whole, at[3].whole, whole, out);
        if constexpr (Panel::kMinimums == Minimums::Per16) {
            add_minimums<kFirst>(at[0].even, at[1].even, even, out);
            add_minimums<kFirst + 1>(at[2].even, at[3].even, even, out);
        }
    }
    template <typename Panel, typename Sums, std::size_t kTokens>
    [[gnu::always_inline]] static void sum_minimums(const std::byte* block, const Sums& whole, const Sums& even,
                                                    TokenInts<kTokens>& out) {
        add_minimums<0, Panel>(block, whole, even, out);
        for (Ints8& high : out.at) high = {vshlq_n_s32(high.low, 7), vshlq_n_s32(high.high, 7)};
        add_minimums<2, Panel>(block, whole, even, out);
    }
    template <typename Panel>
    [[gnu::always_inline]] static TokenInts<1> minimum_sums(const std::byte* block, const Rows<Panel, 1>& x) {
        TokenInts<1> out = {};
        sum_minimums<Panel>(block, split(x.whole_sums(0)), split(x.even_sums(0)), out);
        return out;
    }
    template <typename Panel, std::size_t kTokens>
    [[gnu::always_inline]] static TokenInts<kTokens> minimum_sums(const std::byte* block,
                                                                  const Tile<Panel, kTokens>& x) {
        TokenInts<kTokens> out = {};
        sum_minimums<Panel>(block, x.at->whole_sums, x.at->even_sums, out);
        return out;
    }
};

}  // namespace

}  // namespace hearth
