// Products of packed weights with SDOT. Weights are in its own order (Order::Quads): a vector is four columns of four
// rows, which meet four columns of a token, one lane of sixteen bytes; the sums of four rows come out side by side. The
// lanes are sixteen columns of one token, or four columns of a tile of four.
#pragma once

#include "kernels/panels_arm_blocks.h"
#include "kernels/panels_arm_sdot_tiles.h"
#include "kernels/panels_arm_sdot_wide.h"

namespace hearth {

namespace {

struct Sdot {
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
            w, columns,
            [&sums](std::size_t t) -> int32x4_t& { return kP % 2 == 0 ? sums.at[t].low : sums.at[t].high; }, sums);
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
        TokenInts<Input::kTokens> out = {};
        add<kFirst, kLast>(unit, x, u, out);
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

    template <typename Panel>
    [[gnu::always_inline]] static void add_blocks(const WideBlock<Panel>* w, std::size_t blocks,
                                                  Tile<Panel, kGroupTokens> x, TokenFloats<kGroupTokens>& sums) {
        if constexpr (Panel::kColumns == kBlock32 && !Panel::kMinimum) {
            add_blocks32(w, blocks, x.at, kStarts<kFractionLeft<Panel>>, sums);
        } else {
            TokenFloats<kGroupTokens> acc = sums;
            for (std::size_t b = 0; b < blocks; ++b, x.next()) {
                if constexpr (Panel::kColumns == kBlock32) add_block32<Sdot>(w[b], x, acc);
                if constexpr (Panel::kColumns == kBlock256) {
                    add_block256<Sdot>(w[b], x, block_sums256(w[b], x.at->q), acc);
                }
            }
            sums = acc;
        }
    }

    // Adds minimums of four sub-blocks, times their sums' part: 0 and 1 the high ones, 2 and 3 the low ones.
    template <std::size_t kPart>
    [[gnu::always_inline]] static void add_minimums(int8x16_t low, int8x16_t high, int8x16_t sums, TokenInts<1>& out) {
        out.at[0].low = vdotq_laneq_s32(out.at[0].low, low, sums, kPart);
        out.at[0].high = vdotq_laneq_s32(out.at[0].high, high, sums, kPart);
    }
    template <std::size_t kPart, std::size_t kTokens>
    [[gnu::always_inline]] static void add_minimums(int8x16_t low, int8x16_t high, const std::int8_t (*sums)[16],
                                                    TokenInts<kTokens>& out) {
        const int8x16_t part = vld1q_s8(sums[kPart]);
        add_tokens(low, part, [&out](std::size_t t) -> int32x4_t& { return out.at[t].low; }, out);
        add_tokens(high, part, [&out](std::size_t t) -> int32x4_t& { return out.at[t].high; }, out);
    }
    template <std::size_t kFirstPart, typename Panel, typename Input>
    [[gnu::always_inline]] static void add_minimums(const std::byte* block, const Input& x,
                                                    TokenInts<Input::kTokens>& out) {
        MinimumVectors at[4];
        for (std::size_t p = 0; p < 4; ++p) at[p] = Panel::minimum_vectors(block, p);
        add_minimums<kFirstPart>(at[0].whole, at[1].whole, x.whole_sums(), out);
        add_minimums<kFirstPart + 1>(at[2].whole, at[3].whole, x.whole_sums(), out);
        if constexpr (Panel::kMinimums == Minimums::Per16) {
            add_minimums<kFirstPart>(at[0].even, at[1].even, x.even_sums(), out);
            add_minimums<kFirstPart + 1>(at[2].even, at[3].even, x.even_sums(), out);
        }
    }
    template <typename Panel, typename Input>
    [[gnu::always_inline]] static TokenInts<Input::kTokens> minimum_sums(const std::byte* block, const Input& x) {
        TokenInts<Input::kTokens> out = {};
        add_minimums<0, Panel>(block, x, out);
        for (Ints8& high : out.at) high = {vshlq_n_s32(high.low, 7), vshlq_n_s32(high.high, 7)};
        add_minimums<2, Panel>(block, x, out);
        return out;
    }
};

}  // namespace

}  // namespace hearth
