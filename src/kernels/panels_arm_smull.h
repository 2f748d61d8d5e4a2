// Products of packed weights with SMULL, for the baseline that has no SDOT. Weights are in the order of SMMLA: pairwise
// additions bring the two sums of a row together.
#pragma once

#include "kernels/panels_arm_blocks.h"

namespace hearth {

namespace {

struct Smull {
    using Q4_0 = PanelQ4_0;
    using Q4_K = PanelQ4_K;
    using Q5_K = PanelQ5_K;
    static constexpr std::size_t kTileTokens = 2;
    static constexpr std::size_t kFewTokens = 8;
    static constexpr std::size_t kGroupTokens = 3;
    template <typename Panel, std::size_t kTokens>
    using Input = Rows<Panel, kTokens>;

    // Products of columns 8 * kFirst to 8 * kLast of two rows, two sums a row. Two steps at a time: two products of
    // int8 fit in int16, even -128 * 127 twice.
    template <std::size_t kFirst, std::size_t kLast>
    [[gnu::always_inline]] static int32x4_t quad(const RowPair& w, const std::int8_t* q) {
        int32x4_t rows[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
        for (std::size_t s = kFirst; s < kLast; s += 2) {
            const int8x16_t a = w.at[s];
            const int8x16_t b = w.at[s + 1];
            const int8x8_t x = vld1_s8(q + 8 * s);
            const int8x8_t y = vld1_s8(q + 8 * s + 8);
            rows[0] = vpadalq_s16(rows[0], vmlal_s8(vmull_s8(vget_low_s8(a), x), vget_low_s8(b), y));
            rows[1] = vpadalq_s16(rows[1], vmlal_s8(vmull_s8(vget_high_s8(a), x), vget_high_s8(b), y));
        }
        return vpaddq_s32(rows[0], rows[1]);
    }

    template <std::size_t kFirst, std::size_t kLast, typename Unit, typename Panel, std::size_t kTokens>
    [[gnu::always_inline]] static TokenInts<kTokens> sums(const Unit& unit, const Rows<Panel, kTokens>& x,
                                                          std::size_t u) {
        int32x4_t quads[kTokens][4];
        for_each_row_pair([&](auto pair) {
            constexpr std::size_t kP = decltype(pair)::kIndex;
            const RowPair w = unit.template row_pair<kP>();
            for (std::size_t t = 0; t < kTokens; ++t) quads[t][kP] = quad<kFirst, kLast>(w, x.q(t, u));
        });
        TokenInts<kTokens> out;
        for (std::size_t t = 0; t < kTokens; ++t) {
            out.at[t] = {vpaddq_s32(quads[t][0], quads[t][1]), vpaddq_s32(quads[t][2], quads[t][3])};
        }
        return out;
    }

    template <int kFraction, typename Unit, typename Panel, std::size_t kTokens>
    [[gnu::always_inline]] static TokenFloats<kTokens> floats(const Unit& unit, const Rows<Panel, kTokens>& x) {
        const TokenInts<kTokens> ints = sums<0, 4>(unit, x, 0);
        TokenFloats<kTokens> out;
        for (std::size_t t = 0; t < kTokens; ++t) out.at[t] = to_floats<kFraction>(ints.at[t]);
        return out;
    }

    template <typename Block, typename Panel, std::size_t kTokens>
    [[gnu::always_inline]] static TokenInts<kTokens> block_sums(const Block& w, const Rows<Panel, kTokens>& x) {
        return hearth::block_sums<Smull, kTokens>(w, x);
    }

    template <typename Panel, std::size_t kTokens>
    [[gnu::always_inline]] static void add_blocks(const WideBlock<Panel>* w, std::size_t blocks, Rows<Panel, kTokens> x,
                                                  TokenFloats<kTokens>& sums) {
        TokenFloats<kTokens> acc = sums;
        for (std::size_t b = 0; b < blocks; ++b) add_block<Smull>(w[b], x, acc);
        sums = acc;
    }

    // Sum of eight products of a byte of one row and an int16.
    [[gnu::always_inline]] static int32x4_t minimum_products(int16x8_t minimums, int16x8_t sums) {
        return vmlal_high_s16(vmull_s16(vget_low_s16(minimums), vget_low_s16(sums)), minimums, sums);
    }
    template <typename Panel>
    [[gnu::always_inline]] static Ints8 minimum_sums_of(const std::byte* block, int16x8_t whole, int16x8_t even) {
        int32x4_t pairs[4];
        for (std::size_t p = 0; p < 4; ++p) {
            const MinimumVectors minimums = Panel::minimum_vectors(block, p);
            int32x4_t a = minimum_products(vmovl_s8(vget_low_s8(minimums.whole)), whole);
            int32x4_t b = minimum_products(vmovl_high_s8(minimums.whole), whole);
            if constexpr (Panel::kMinimums == Minimums::Per16) {
                a = vaddq_s32(a, minimum_products(vmovl_s8(vget_low_s8(minimums.even)), even));
                b = vaddq_s32(b, minimum_products(vmovl_high_s8(minimums.even), even));
            }
            pairs[p] = vpaddq_s32(a, b);
        }
        return {vpaddq_s32(pairs[0], pairs[1]), vpaddq_s32(pairs[2], pairs[3])};
    }
    template <typename Panel, std::size_t kTokens>
    [[gnu::always_inline]] static TokenInts<kTokens> minimum_sums(const std::byte* block,
                                                                  const Rows<Panel, kTokens>& x) {
        TokenInts<kTokens> out;
        for (std::size_t t = 0; t < kTokens; ++t) {
            out.at[t] = minimum_sums_of<Panel>(block, x.whole_sums(t), x.even_sums(t));
        }
        return out;
    }
};

}  // namespace

}  // namespace hearth
