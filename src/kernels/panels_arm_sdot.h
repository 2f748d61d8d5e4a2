// Products of packed weights with SDOT. Weights are in its own order (Order::Quads): a vector is four columns of four
// rows, which meet four columns of a token, one lane of sixteen; the sums of four rows come out side by side.
#pragma once

#include "kernels/panels_arm_blocks.h"

namespace hearth {

namespace {

struct Sdot {
    static constexpr std::size_t kTileTokens = 4;
    static constexpr std::size_t kFewTokens = 8;
    static constexpr std::size_t kGroupTokens = 4;

    // Vector 4 * kS + kP of a unit: columns 4g to 4g + 3, g = 2 * kS + kP / 2, of rows 4 * (kP % 2) and on.
    template <std::size_t kS, std::size_t kP, std::size_t kTokens>
    [[gnu::always_inline]] static void add_vector(int8x16_t w, const int8x16_t (&x)[kTokens],
                                                  TokenInts<kTokens>& sums) {
        constexpr int kLane = 2 * (kS % 2) + kP / 2;
        for (std::size_t t = 0; t < kTokens; ++t) {
            int32x4_t& sum = kP % 2 == 0 ? sums.at[t].low : sums.at[t].high;
            sum = vdotq_laneq_s32(sum, w, x[t], kLane);
        }
    }
    template <std::size_t kTokens>
    [[gnu::always_inline]] static void load_columns(const std::int8_t* const (&q)[kTokens], std::size_t column,
                                                    int8x16_t (&x)[kTokens]) {
        for (std::size_t t = 0; t < kTokens; ++t) x[t] = vld1q_s8(q[t] + column);
    }

    // Unpacked weights in the order of columns, so that sixteen columns of the tokens are in registers at a time.
    template <std::size_t kFirst, std::size_t kLast, std::size_t kTokens>
    [[gnu::always_inline]] static void add(const WideUnit& unit, const std::int8_t* const (&q)[kTokens],
                                           TokenInts<kTokens>& sums) {
        for (std::size_t half = kFirst / 2; half < kLast / 2; ++half) {
            int8x16_t x[kTokens];
            load_columns(q, 16 * half, x);
            const int8x16_t* w = unit.q + 8 * half;
            add_vector<0, 0>(w[0], x, sums);
            add_vector<0, 1>(w[1], x, sums);
            add_vector<0, 2>(w[2], x, sums);
            add_vector<0, 3>(w[3], x, sums);
            add_vector<1, 0>(w[4], x, sums);
            add_vector<1, 1>(w[5], x, sums);
            add_vector<1, 2>(w[6], x, sums);
            add_vector<1, 3>(w[7], x, sums);
        }
    }
    // Packed ones as they come out.
    template <std::size_t kFirst, std::size_t kLast, typename Panel, std::size_t kTokens>
    [[gnu::always_inline]] static void add(const PackedUnit<Panel>& unit, const std::int8_t* const (&q)[kTokens],
                                           TokenInts<kTokens>& sums) {
        int8x16_t x[2][kTokens];
        if constexpr (kFirst == 0) load_columns(q, 0, x[0]);
        if constexpr (kLast == 4) load_columns(q, 16, x[1]);
        for_each_row_pair([&](auto pair) {
            constexpr std::size_t kP = decltype(pair)::kIndex;
            const RowPair w = unit.template row_pair<kP>();
            if constexpr (kFirst == 0) {
                add_vector<0, kP>(w.at[0], x[0], sums);
                add_vector<1, kP>(w.at[1], x[0], sums);
            }
            if constexpr (kLast == 4) {
                add_vector<2, kP>(w.at[2], x[1], sums);
                add_vector<3, kP>(w.at[3], x[1], sums);
            }
        });
    }

    template <std::size_t kFirst, std::size_t kLast, typename Unit, std::size_t kTokens>
    [[gnu::always_inline]] static TokenInts<kTokens> sums(const Unit& unit, const std::int8_t* const (&q)[kTokens]) {
        TokenInts<kTokens> out = {};
        add<kFirst, kLast>(unit, q, out);
        return out;
    }

    // Sums that start from the bits of 1.5 * 2^(23 - kFraction) are floats that much too large: one subtraction, where
    // SCVTF takes a Neoverse-N1 as long as four. They start from memory because a load takes no vector operation.
    template <int kFraction, typename Unit, std::size_t kTokens>
    [[gnu::always_inline]] static TokenFloats<kTokens> floats(const Unit& unit, const std::int8_t* const (&q)[kTokens]) {
        constexpr float kStart = 1.5f * static_cast<float>(1 << (23 - kFraction));
        alignas(16) static constexpr float kStarts[4] = {kStart, kStart, kStart, kStart};
        const auto load_start = [] {
            int32x4_t start;
            __asm__("ldr %q0, %1" : "=w"(start) : "m"(kStarts));
            return start;
        };
        TokenInts<kTokens> ints;
        for (std::size_t t = 0; t < kTokens; ++t) ints.at[t] = {load_start(), load_start()};
        add<0, 4>(unit, q, ints);
        const float32x4_t start = vld1q_f32(kStarts);
        TokenFloats<kTokens> out;
        for (std::size_t t = 0; t < kTokens; ++t) {
            out.at[t].low = vsubq_f32(vreinterpretq_f32_s32(ints.at[t].low), start);
            out.at[t].high = vsubq_f32(vreinterpretq_f32_s32(ints.at[t].high), start);
        }
        return out;
    }

    // Adds minimums of eight rows, times one of eight sums of each token.
    template <int kLane, std::size_t kTokens>
    [[gnu::always_inline]] static void add_minimums(uint8x8_t minimums, const int16x8_t (&x)[kTokens],
                                                    TokenInts<kTokens>& out) {
        const int16x8_t wide = vreinterpretq_s16_u16(vmovl_u8(minimums));
        for (std::size_t t = 0; t < kTokens; ++t) {
            out.at[t].low = vmlal_laneq_s16(out.at[t].low, vget_low_s16(wide), x[t], kLane);
            out.at[t].high = vmlal_high_laneq_s16(out.at[t].high, wide, x[t], kLane);
        }
    }
    template <std::size_t kTokens, typename Load>
    [[gnu::always_inline]] static void add_eight_minimums(const Load& load, const int16x8_t (&x)[kTokens],
                                                          TokenInts<kTokens>& out) {
        add_minimums<0>(load(0), x, out);
        add_minimums<1>(load(1), x, out);
        add_minimums<2>(load(2), x, out);
        add_minimums<3>(load(3), x, out);
        add_minimums<4>(load(4), x, out);
        add_minimums<5>(load(5), x, out);
        add_minimums<6>(load(6), x, out);
        add_minimums<7>(load(7), x, out);
    }
    template <typename Panel, std::size_t kTokens>
    [[gnu::always_inline]] static TokenInts<kTokens> minimum_sums(const std::byte* block,
                                                                  const std::int16_t* const (&sums)[kTokens]) {
        const auto* at = reinterpret_cast<const std::uint8_t*>(block + Panel::kMinimumsAt);
        TokenInts<kTokens> out = {};
        int16x8_t x[kTokens];
        if constexpr (Panel::kMinimums == Minimums::Per32) {
            for (std::size_t t = 0; t < kTokens; ++t) x[t] = vpaddq_s16(vld1q_s16(sums[t]), vld1q_s16(sums[t] + 8));
            add_eight_minimums([at](std::size_t j) { return vld1_u8(at + 8 * j); }, x, out);
        } else {
            for (std::size_t t = 0; t < kTokens; ++t) x[t] = vuzp1q_s16(vld1q_s16(sums[t]), vld1q_s16(sums[t] + 8));
            add_eight_minimums([at](std::size_t j) { return vand_u8(vld1_u8(at + 8 * j), vdup_n_u8(15)); }, x, out);
            for (std::size_t t = 0; t < kTokens; ++t) x[t] = vuzp2q_s16(vld1q_s16(sums[t]), vld1q_s16(sums[t] + 8));
            add_eight_minimums([at](std::size_t j) { return vshr_n_u8(vld1_u8(at + 8 * j), 4); }, x, out);
        }
        return out;
    }
};

}  // namespace

}  // namespace hearth
