// The fast matmul with SDOT. Include in a file built with the dot product extension.
#pragma once

#include <utility>

#include "kernels/panels_arm_fast.h"

namespace hearth {

namespace {

// Where sums start: the bits of 1.5 * 2^23, so that a subtraction makes floats of them. 256 products of 127 by 127 are
// less than 2^22.
alignas(16) inline constexpr float kFastStarts[8] = {0x1.8p23f, 0x1.8p23f, 0x1.8p23f, 0x1.8p23f,
                                                     0x1.8p23f, 0x1.8p23f, 0x1.8p23f, 0x1.8p23f};

// Four columns: v16, v17 of tokens 0 to 3 and 4 to 7, v18, v19 of rows 0 to 3 and 4 to 7.
#define HEARTH_FAST_STEP                   \
    "ldp q18, q19, [%[w]], #32\n"          \
    "ldp q16, q17, [%[x]], #32\n"          \
    "sdot %[s00].4s, v18.16b, v16.4b[0]\n" \
    "sdot %[s01].4s, v19.16b, v16.4b[0]\n" \
    "sdot %[s10].4s, v18.16b, v16.4b[1]\n" \
    "sdot %[s11].4s, v19.16b, v16.4b[1]\n" \
    "sdot %[s20].4s, v18.16b, v16.4b[2]\n" \
    "sdot %[s21].4s, v19.16b, v16.4b[2]\n" \
    "sdot %[s30].4s, v18.16b, v16.4b[3]\n" \
    "sdot %[s31].4s, v19.16b, v16.4b[3]\n" \
    "sdot %[s40].4s, v18.16b, v17.4b[0]\n" \
    "sdot %[s41].4s, v19.16b, v17.4b[0]\n" \
    "sdot %[s50].4s, v18.16b, v17.4b[1]\n" \
    "sdot %[s51].4s, v19.16b, v17.4b[1]\n" \
    "sdot %[s60].4s, v18.16b, v17.4b[2]\n" \
    "sdot %[s61].4s, v19.16b, v17.4b[2]\n" \
    "sdot %[s70].4s, v18.16b, v17.4b[3]\n" \
    "sdot %[s71].4s, v19.16b, v17.4b[3]\n"

// Eight rows by eight tokens over `columns` columns, a multiple of 16.
[[gnu::always_inline]] inline void multiply_fast(const int8x16_t* w, const std::byte* x, std::size_t columns,
                                                 int32x4_t (&sums)[kFastTokens][2]) {
    std::size_t steps = columns / 16;
    __asm__ volatile(
        "ldp %q[s00], %q[s01], [%[starts]]\n"
        "ldp %q[s10], %q[s11], [%[starts]]\n"
        "ldp %q[s20], %q[s21], [%[starts]]\n"
        "ldp %q[s30], %q[s31], [%[starts]]\n"
        "ldp %q[s40], %q[s41], [%[starts]]\n"
        "ldp %q[s50], %q[s51], [%[starts]]\n"
        "ldp %q[s60], %q[s61], [%[starts]]\n"
        "ldp %q[s70], %q[s71], [%[starts]]\n"
        "1:\n" HEARTH_FAST_STEP HEARTH_FAST_STEP HEARTH_FAST_STEP HEARTH_FAST_STEP
        "subs %[steps], %[steps], #1\n"
        "b.ne 1b\n"
        : [w] "+r"(w), [x] "+r"(x), [steps] "+r"(steps), [s00] "=&w"(sums[0][0]), [s01] "=&w"(sums[0][1]),
          [s10] "=&w"(sums[1][0]), [s11] "=&w"(sums[1][1]), [s20] "=&w"(sums[2][0]), [s21] "=&w"(sums[2][1]),
          [s30] "=&w"(sums[3][0]), [s31] "=&w"(sums[3][1]), [s40] "=&w"(sums[4][0]), [s41] "=&w"(sums[4][1]),
          [s50] "=&w"(sums[5][0]), [s51] "=&w"(sums[5][1]), [s60] "=&w"(sums[6][0]), [s61] "=&w"(sums[6][1]),
          [s70] "=&w"(sums[7][0]), [s71] "=&w"(sums[7][1])
        : [starts] "r"(&kFastStarts)
        : "memory", "cc", "v16", "v17", "v18", "v19");
}

#undef HEARTH_FAST_STEP

// Adds the sums of token kToken, rows 0 to 3 and 4 to 7.
template <std::size_t kToken>
[[gnu::always_inline]] inline void add_scaled(const int32x4_t (&sums)[2], Floats8 row_scales, float32x4_t token_scales,
                                              FastSums& kept) {
    const float32x4_t start = vld1q_f32(kFastStarts);
    float32x4_t* at = kept.at + 2 * kToken;
    at[0] = vfmaq_f32(at[0], vsubq_f32(vreinterpretq_f32_s32(sums[0]), start),
                      vmulq_laneq_f32(row_scales.low, token_scales, kToken % 4));
    at[1] = vfmaq_f32(at[1], vsubq_f32(vreinterpretq_f32_s32(sums[1]), start),
                      vmulq_laneq_f32(row_scales.high, token_scales, kToken % 4));
}

struct FastSdot {
    using Q4_0 = PanelQuadQ4_0;
    using Q4_K = PanelQuadQ4_K;
    using Q5_K = PanelQuadQ5_K;
    using Scales = Floats8;
    static constexpr std::size_t kStepColumns = 4;
    static constexpr std::size_t minimum_at(std::size_t row, std::size_t unit) {
        return 32 * (unit / 4) + 4 * row + unit % 4;
    }
    // Four columns each of rows r and r + 1, of rows 0 to 3 in even vectors and of the others in odd ones.
    template <std::size_t kHalf>
    [[gnu::always_inline]] static int16x8_t of_rows(int16x8_t x) {
        constexpr std::size_t kRow = 4 * (kHalf / 2 % 2) + 2 * (kHalf % 2);
        return vcombine_s16(vdup_laneq_s16(x, kRow), vdup_laneq_s16(x, kRow + 1));
    }
    [[gnu::always_inline]] static Scales scales(Floats8 x) { return x; }
    [[gnu::always_inline]] static void add(const FastGroup<FastSdot>& w, const std::byte* x, const float* scales,
                                           std::size_t columns, FastSums& kept) {
        int32x4_t sums[kFastTokens][2];
        multiply_fast(w.q, x, columns, sums);
        const float32x4_t token_scales[2] = {vld1q_f32(scales), vld1q_f32(scales + 4)};
        const Floats8 row_scales = w.scales;
        [&]<std::size_t... kToken>(std::index_sequence<kToken...>) {
            (add_scaled<kToken>(sums[kToken], row_scales, token_scales[kToken / 4], kept), ...);
        }
        (std::make_index_sequence<kFastTokens>());
    }
    static void store(const PanelTask& task, std::size_t row, std::size_t first, std::size_t last,
                      const FastSums& sums) {
        for (std::size_t token = first; token < last; ++token) {
            const std::size_t at = 2 * (token - first);
            store_rows8(task.out + token * task.out_stride + row, task.rows - row, {sums.at[at], sums.at[at + 1]});
        }
    }
};

}  // namespace

}  // namespace hearth
