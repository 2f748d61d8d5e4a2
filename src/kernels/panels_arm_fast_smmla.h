// The fast matmul with SMMLA. Include in a file built with the int8 matrix multiply extension.
#pragma once

#include "kernels/panels_arm_fast.h"
#include "kernels/panels_arm_i8mm.h"

namespace hearth {

namespace {

// Eight rows by eight tokens over `columns` columns, a multiple of 16. Registers: the sums wherever the compiler wants
// them, v16-v19 and v24-v27 weights of two steps of eight columns, v20-v23 and v28-v31 activations.
[[gnu::always_inline]] inline void multiply_fast(const int8x16_t* weights, const std::byte* x, std::size_t columns,
                                                 int32x4_t (&sums)[4][4]) {
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

struct FastSmmla {
    using Q4_0 = PanelMixedQ4_0;
    using Q4_K = PanelQ4_K;
    using Q5_K = PanelQ5_K;
    using Scales = PairFloats;
    static constexpr std::size_t kStepColumns = 8;
    static constexpr std::size_t minimum_at(std::size_t row, std::size_t unit) { return 8 * row + unit; }
    template <std::size_t kHalf>
    [[gnu::always_inline]] static int16x8_t of_rows(int16x8_t x) {
        return vdupq_laneq_s16(x, kHalf);
    }
    [[gnu::always_inline]] static Scales scales(Floats8 x) { return pair_floats(x); }
    [[gnu::always_inline]] static void add(const FastGroup<FastSmmla>& w, const std::byte* x, const float* scales,
                                           std::size_t columns, FastSums& kept) {
        int32x4_t sums[4][4];  // by pairs of tokens and of rows
        multiply_fast(w.q, x, columns, sums);
        for (std::size_t t = 0; t < 4; ++t) {
            const float32x2_t two = vld1_f32(scales + 2 * t);
            const float32x4_t a = vcombine_f32(two, two);
            for (std::size_t p = 0; p < 4; ++p) {
                float32x4_t& sum = kept.at[4 * t + p];
                sum = vfmaq_f32(sum, vcvtq_f32_s32(sums[t][p]), vmulq_f32(w.scales.at[p], a));
            }
        }
    }
    static void store(const PanelTask& task, std::size_t row, std::size_t first, std::size_t last,
                      const FastSums& sums) {
        for (std::size_t token = first; token < last; token += 2) {
            store_pair(task, row, token, sums.at + 2 * (token - first));
        }
    }
};

}  // namespace

}  // namespace hearth
