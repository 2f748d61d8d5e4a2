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
        const auto sum_of = [&sums](std::size_t t) -> int32x4_t& {
            return kP % 2 == 0 ? sums.at[t].low : sums.at[t].high;
        };
        sum_of(0) = vdotq_laneq_s32(sum_of(0), w, columns, 0);
        if constexpr (kTokens > 1) sum_of(1) = vdotq_laneq_s32(sum_of(1), w, columns, 1);
        if constexpr (kTokens > 2) sum_of(2) = vdotq_laneq_s32(sum_of(2), w, columns, 2);
        if constexpr (kTokens > 3) sum_of(3) = vdotq_laneq_s32(sum_of(3), w, columns, 3);
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

    // Adds minimums of eight rows, times a sum of each token: one of eight of a token, or those of a tile.
    template <int kJ>
    [[gnu::always_inline]] static void add_minimums(int16x8_t minimums, int16x8_t sums, TokenInts<1>& out) {
        out.at[0].low = vmlal_laneq_s16(out.at[0].low, vget_low_s16(minimums), sums, kJ);
        out.at[0].high = vmlal_high_laneq_s16(out.at[0].high, minimums, sums, kJ);
    }
    template <int kJ, std::size_t kTokens>
    [[gnu::always_inline]] static void add_minimums(int16x8_t minimums, const std::int16_t (*sums)[4],
                                                    TokenInts<kTokens>& out) {
        const int16x4_t x = vld1_s16(sums[kJ]);
        const auto add_token = [&](Ints8& sum, auto lane) {
            sum.low = vmlal_lane_s16(sum.low, vget_low_s16(minimums), x, decltype(lane)::kIndex);
            sum.high = vmlal_high_lane_s16(sum.high, minimums, x, decltype(lane)::kIndex);
        };
        add_token(out.at[0], PairIndex<0>{});
        if constexpr (kTokens > 1) add_token(out.at[1], PairIndex<1>{});
        if constexpr (kTokens > 2) add_token(out.at[2], PairIndex<2>{});
        if constexpr (kTokens > 3) add_token(out.at[3], PairIndex<3>{});
    }
    template <typename Load, typename Sums, std::size_t kTokens>
    [[gnu::always_inline]] static void add_eight_minimums(const Load& load, const Sums& sums, TokenInts<kTokens>& out) {
        add_minimums<0>(load(0), sums, out);
        add_minimums<1>(load(1), sums, out);
        add_minimums<2>(load(2), sums, out);
        add_minimums<3>(load(3), sums, out);
        add_minimums<4>(load(4), sums, out);
        add_minimums<5>(load(5), sums, out);
        add_minimums<6>(load(6), sums, out);
        add_minimums<7>(load(7), sums, out);
    }
    // Minimums of sixteen columns are two in a byte. Minimum times sum of the even ones and of the odd ones is odd
    // minimum times sum of both, and what the even one is more times the sum of the even ones.
    template <typename Panel, typename Input>
    [[gnu::always_inline]] static TokenInts<Input::kTokens> minimum_sums(const std::byte* block, const Input& x) {
        const auto* at = reinterpret_cast<const std::uint8_t*>(block + Panel::kMinimumsAt);
        const auto load = [at](std::size_t j) { return vreinterpretq_s16_u16(vmovl_u8(vld1_u8(at + 8 * j))); };
        TokenInts<Input::kTokens> out = {};
        if constexpr (Panel::kMinimums == Minimums::Per32) {
            add_eight_minimums(load, x.whole_sums(), out);
        } else {
            const auto odd = [&](std::size_t j) { return vshrq_n_s16(load(j), 4); };
            const auto even_less_odd = [&](std::size_t j) {
                return vsubq_s16(vandq_s16(load(j), vdupq_n_s16(15)), odd(j));
            };
            add_eight_minimums(odd, x.whole_sums(), out);
            add_eight_minimums(even_less_odd, x.even_sums(), out);
        }
        return out;
    }
};

}  // namespace

}  // namespace hearth
