// Q4_K panels with one token and with a tile of four, in assembly: compilers take 8 % longer for one, and run out of
// registers with four.
#pragma once

#include "kernels/ahead_arm.h"
#include "kernels/panels_arm_types.h"

namespace hearth {

namespace {

// Adds scale times product over the eight units of a block with one token, whose eight columns are the first row of a 2
// x 8 matrix with zeros in the second: of the four sums of an USMMLA the first and third count. Two units a round, in
// the best of some thousands of orders that were tried on a Neoverse-V1. Registers: v0-v3 and v4-v7 sums of the two
// units by row pair, v16-v23 weights, v24-v27 activations, v28-v30 scales, v31 the mask of low nibbles, others low
// nibbles.
[[gnu::always_inline]] inline void add_units_q4_k(const std::byte* block, const std::int8_t* x, int32x4_t& low,
                                                  int32x4_t& high) {
    const std::byte* w = block + PanelQ4_K::kUnitsAt;
    const std::byte* scales = block + PanelQ4_K::kScalesAt;
    std::size_t pairs = 4;
    fetch_ahead<PanelQ4_K::kUnitsAt>(block);
    __asm__ volatile(
        "movi v31.16b, #15\n"
        "1:\n"
        "ldp q18, q19, [%[w], #32]\n"
        "ldp q16, q17, [%[w], #0]\n"
        "movi v0.4s, #0\n"
        "ldp d24, d25, [%[x], #0]\n"
        "ldp q20, q21, [%[w], #64]\n"
        "ldp d26, d27, [%[x], #16]\n"
        "prfm pldl3keep, [%[w], #%c[ahead]+64]\n"
        "ldp q22, q23, [%[w], #96]\n"
        "and v8.16b, v16.16b, v31.16b\n"
        "ushr v16.16b, v16.16b, #4\n"
        "movi v3.4s, #0\n"
        "movi v1.4s, #0\n"
        "and v9.16b, v17.16b, v31.16b\n"
        "usmmla v0.4s, v8.16b, v24.16b\n"
        "ushr v17.16b, v17.16b, #4\n"
        "and v10.16b, v18.16b, v31.16b\n"
        "movi v2.4s, #0\n"
        "ldr d28, [%[scales], #0]\n"
        "usmmla v1.4s, v9.16b, v24.16b\n"
        "and v11.16b, v19.16b, v31.16b\n"
        "ushr v18.16b, v18.16b, #4\n"
        "usmmla v2.4s, v10.16b, v24.16b\n"
        "usmmla v0.4s, v16.16b, v26.16b\n"
        "and v6.16b, v22.16b, v31.16b\n"
        "usmmla v3.4s, v11.16b, v24.16b\n"
        "ushr v19.16b, v19.16b, #4\n"
        "and v12.16b, v20.16b, v31.16b\n"
        "usmmla v2.4s, v18.16b, v26.16b\n"
        "and v7.16b, v23.16b, v31.16b\n"
        "ushr v22.16b, v22.16b, #4\n"
        "and v13.16b, v21.16b, v31.16b\n"
        "ushr v21.16b, v21.16b, #4\n"
        "ushr v20.16b, v20.16b, #4\n"
        "usmmla v3.4s, v19.16b, v26.16b\n"
        "usmmla v0.4s, v12.16b, v25.16b\n"
        "usmmla v1.4s, v17.16b, v26.16b\n"
        "usmmla v1.4s, v13.16b, v25.16b\n"
        "ushr v23.16b, v23.16b, #4\n"
        "ldp q16, q17, [%[w], #128]\n"
        "usmmla v3.4s, v7.16b, v25.16b\n"
        "usmmla v1.4s, v21.16b, v27.16b\n"
        "ldp q18, q19, [%[w], #160]\n"
        "usmmla v2.4s, v6.16b, v25.16b\n"
        "usmmla v0.4s, v20.16b, v27.16b\n"
        "ldp q20, q21, [%[w], #192]\n"
        "usmmla v2.4s, v22.16b, v27.16b\n"
        "sxtl v28.8h, v28.8b\n"
        "sxtl2 v30.4s, v28.8h\n"
        "usmmla v3.4s, v23.16b, v27.16b\n"
        "uzp1 v2.4s, v2.4s, v3.4s\n"
        "mla %[high].4s, v2.4s, v30.4s\n"
        "sxtl v29.4s, v28.4h\n"
        "prfm pldl3keep, [%[w], #%c[ahead]+128]\n"
        "ldp d26, d27, [%[x], #48]\n"
        "and v8.16b, v16.16b, v31.16b\n"
        "ldp d24, d25, [%[x], #32]\n"
        "ldp q22, q23, [%[w], #224]\n"
        "ushr v16.16b, v16.16b, #4\n"
        "and v10.16b, v18.16b, v31.16b\n"
        "ushr v18.16b, v18.16b, #4\n"
        "uzp1 v0.4s, v0.4s, v1.4s\n"
        "and v9.16b, v17.16b, v31.16b\n"
        "movi v5.4s, #0\n"
        "movi v6.4s, #0\n"
        "and v11.16b, v19.16b, v31.16b\n"
        "movi v4.4s, #0\n"
        "ushr v19.16b, v19.16b, #4\n"
        "usmmla v4.4s, v8.16b, v24.16b\n"
        "usmmla v5.4s, v9.16b, v24.16b\n"
        "movi v7.4s, #0\n"
        "and v12.16b, v20.16b, v31.16b\n"
        "usmmla v6.4s, v10.16b, v24.16b\n"
        "usmmla v7.4s, v11.16b, v24.16b\n"
        "ushr v17.16b, v17.16b, #4\n"
        "usmmla v6.4s, v18.16b, v26.16b\n"
        "and v13.16b, v21.16b, v31.16b\n"
        "usmmla v5.4s, v17.16b, v26.16b\n"
        "mla %[low].4s, v0.4s, v29.4s\n"
        "prfm pldl3keep, [%[w], #%c[ahead]+192]\n"
        "prfm pldl3keep, [%[w], #%c[ahead]+0]\n"
        "usmmla v4.4s, v16.16b, v26.16b\n"
        "ldr d28, [%[scales], #8]\n"
        "ushr v20.16b, v20.16b, #4\n"
        "and v2.16b, v22.16b, v31.16b\n"
        "ushr v22.16b, v22.16b, #4\n"
        "and v3.16b, v23.16b, v31.16b\n"
        "usmmla v7.4s, v19.16b, v26.16b\n"
        "ushr v23.16b, v23.16b, #4\n"
        "ushr v21.16b, v21.16b, #4\n"
        "usmmla v7.4s, v3.16b, v25.16b\n"
        "usmmla v6.4s, v2.16b, v25.16b\n"
        "add %[scales], %[scales], #16\n"
        "add %[w], %[w], #256\n"
        "usmmla v4.4s, v12.16b, v25.16b\n"
        "usmmla v4.4s, v20.16b, v27.16b\n"
        "usmmla v5.4s, v13.16b, v25.16b\n"
        "usmmla v5.4s, v21.16b, v27.16b\n"
        "uzp1 v4.4s, v4.4s, v5.4s\n"
        "usmmla v7.4s, v23.16b, v27.16b\n"
        "usmmla v6.4s, v22.16b, v27.16b\n"
        "add %[x], %[x], #64\n"
        "sxtl v28.8h, v28.8b\n"
        "sxtl v29.4s, v28.4h\n"
        "uzp1 v6.4s, v6.4s, v7.4s\n"
        "sxtl2 v30.4s, v28.8h\n"
        "subs %[pairs], %[pairs], #1\n"
        "mla %[high].4s, v6.4s, v30.4s\n"
        "mla %[low].4s, v4.4s, v29.4s\n"
        "b.ne 1b\n"
        : [w] "+r"(w), [x] "+r"(x), [scales] "+r"(scales), [pairs] "+r"(pairs), [low] "+w"(low), [high] "+w"(high)
        : [ahead] "i"(kAheadBytes)
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v16",
          "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}

// Adds scale times product over the eight units of a block, by token pair and row pair. Registers: v0-v3 sums of a unit
// for the first token pair, v4-v7 for the second, v16-v23 weights and then, in v16-v19, scales, v24-v27 low nibbles,
// v28 and v29 activations, v31 the mask of low nibbles.
[[gnu::always_inline]] inline void add_units_q4_k(const std::byte* block, const std::byte* x,
                                                  int32x4_t (&total)[2][4]) {
    const std::byte* w = block + PanelQ4_K::kUnitsAt;
    const std::byte* scales = block + PanelQ4_K::kScalesAt;
    std::size_t units = 8;
    __asm__ volatile(
        "movi v31.16b, #15\n"
        "1:\n"
        "ldp q16, q17, [%[w]]\n"
        "ldp q18, q19, [%[w], #32]\n"
        "ldp q28, q29, [%[x]]\n"
        // Columns 0 to 7: low nibbles.
        "movi v0.4s, #0\n"
        "movi v4.4s, #0\n"
        "and v24.16b, v16.16b, v31.16b\n"
        "movi v1.4s, #0\n"
        "movi v5.4s, #0\n"
        "and v25.16b, v17.16b, v31.16b\n"
        "movi v2.4s, #0\n"
        "movi v6.4s, #0\n"
        "and v26.16b, v18.16b, v31.16b\n"
        "movi v3.4s, #0\n"
        "movi v7.4s, #0\n"
        "and v27.16b, v19.16b, v31.16b\n"
        "ldp q20, q21, [%[w], #64]\n"
        "ldp q22, q23, [%[w], #96]\n"
        "smmla v0.4s, v24.16b, v28.16b\n"
        "smmla v4.4s, v24.16b, v29.16b\n"
        "ushr v16.16b, v16.16b, #4\n"
        "smmla v1.4s, v25.16b, v28.16b\n"
        "smmla v5.4s, v25.16b, v29.16b\n"
        "ushr v17.16b, v17.16b, #4\n"
        "smmla v2.4s, v26.16b, v28.16b\n"
        "smmla v6.4s, v26.16b, v29.16b\n"
        "ushr v18.16b, v18.16b, #4\n"
        "smmla v3.4s, v27.16b, v28.16b\n"
        "smmla v7.4s, v27.16b, v29.16b\n"
        "ushr v19.16b, v19.16b, #4\n"
        // Columns 16 to 23: high nibbles of the same bytes.
        "ldp q28, q29, [%[x], #64]\n"
        "smmla v0.4s, v16.16b, v28.16b\n"
        "smmla v4.4s, v16.16b, v29.16b\n"
        "and v24.16b, v20.16b, v31.16b\n"
        "smmla v1.4s, v17.16b, v28.16b\n"
        "smmla v5.4s, v17.16b, v29.16b\n"
        "and v25.16b, v21.16b, v31.16b\n"
        "smmla v2.4s, v18.16b, v28.16b\n"
        "smmla v6.4s, v18.16b, v29.16b\n"
        "and v26.16b, v22.16b, v31.16b\n"
        "smmla v3.4s, v19.16b, v28.16b\n"
        "smmla v7.4s, v19.16b, v29.16b\n"
        "and v27.16b, v23.16b, v31.16b\n"
        // Columns 8 to 15.
        "ldp q28, q29, [%[x], #32]\n"
        "ldr d19, [%[scales]], #8\n"
        "smmla v0.4s, v24.16b, v28.16b\n"
        "smmla v4.4s, v24.16b, v29.16b\n"
        "ushr v20.16b, v20.16b, #4\n"
        "smmla v1.4s, v25.16b, v28.16b\n"
        "ushr v21.16b, v21.16b, #4\n"
        "smmla v5.4s, v25.16b, v29.16b\n"
        "ushr v22.16b, v22.16b, #4\n"
        "smmla v2.4s, v26.16b, v28.16b\n"
        "ushr v23.16b, v23.16b, #4\n"
        "smmla v6.4s, v26.16b, v29.16b\n"
        "sxtl v19.8h, v19.8b\n"
        "smmla v3.4s, v27.16b, v28.16b\n"
        "zip1 v17.8h, v19.8h, v19.8h\n"
        "smmla v7.4s, v27.16b, v29.16b\n"
        "zip2 v19.8h, v19.8h, v19.8h\n"
        // Columns 24 to 31 and the scales.
        "ldp q28, q29, [%[x], #96]\n"
        "add %[w], %[w], #128\n"
        "add %[x], %[x], #128\n"
        "subs %[units], %[units], #1\n"
        "smmla v0.4s, v20.16b, v28.16b\n"
        "smmla v4.4s, v20.16b, v29.16b\n"
        "sxtl v16.4s, v17.4h\n"
        "smmla v1.4s, v21.16b, v28.16b\n"
        "smmla v5.4s, v21.16b, v29.16b\n"
        "sxtl2 v17.4s, v17.8h\n"
        "smmla v2.4s, v22.16b, v28.16b\n"
        "smmla v6.4s, v22.16b, v29.16b\n"
        "sxtl v18.4s, v19.4h\n"
        "smmla v3.4s, v23.16b, v28.16b\n"
        "smmla v7.4s, v23.16b, v29.16b\n"
        "sxtl2 v19.4s, v19.8h\n"
        "mla %[a0].4s, v0.4s, v16.4s\n"
        "mla %[b0].4s, v4.4s, v16.4s\n"
        "mla %[a1].4s, v1.4s, v17.4s\n"
        "mla %[b1].4s, v5.4s, v17.4s\n"
        "mla %[a2].4s, v2.4s, v18.4s\n"
        "mla %[b2].4s, v6.4s, v18.4s\n"
        "mla %[a3].4s, v3.4s, v19.4s\n"
        "mla %[b3].4s, v7.4s, v19.4s\n"
        "b.ne 1b\n"
        : [w] "+r"(w), [x] "+r"(x), [scales] "+r"(scales), [units] "+r"(units), [a0] "+w"(total[0][0]),
          [a1] "+w"(total[0][1]), [a2] "+w"(total[0][2]), [a3] "+w"(total[0][3]), [b0] "+w"(total[1][0]),
          [b1] "+w"(total[1][1]), [b2] "+w"(total[1][2]), [b3] "+w"(total[1][3])
        :
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21",
          "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v31");
}

}  // namespace

}  // namespace hearth
