// Q4_K panels with one, two, four and eight tokens in assembly: compilers take a sixth longer for one, and run out of
// registers with more. Loops in the best of a million orders that were tried on a Neoverse-V1.
#pragma once

#include "kernels/ahead_arm.h"
#include "kernels/panels_arm_types.h"

namespace hearth {

namespace {

// Where the scales of a row pair are among the eight of a unit, for TBL, which makes them 32 bits wide.
alignas(16) inline constexpr std::uint8_t kScalePlaces[4][16] = {
    {0, 255, 255, 255, 0, 255, 255, 255, 1, 255, 255, 255, 1, 255, 255, 255},
    {2, 255, 255, 255, 2, 255, 255, 255, 3, 255, 255, 255, 3, 255, 255, 255},
    {4, 255, 255, 255, 4, 255, 255, 255, 5, 255, 255, 255, 5, 255, 255, 255},
    {6, 255, 255, 255, 6, 255, 255, 255, 7, 255, 255, 255, 7, 255, 255, 255}};

// One token, thirty-two columns as 48 bytes: the sums of high and of low nibbles are each scaled for themselves.
inline void arrange_unit(PanelQ4_K, const std::int8_t* x, std::int8_t* out) {
    arrange_for_nibbles(x, out);
}

// The sum of scale times product over the eight units of a block, two units a round. Registers: v0-v3 and v4-v7 sums of
// the two units by row pair, v16-v23 weights, v12 and v24-v26 activations, v13-v15 scales, v27 the mask of low nibbles,
// v28-v31 where the scales of a row pair are.
[[gnu::always_inline]] inline void sum_units(PanelQ4_K, const std::byte* block, const std::int8_t* x, int32x4_t& low,
                                             int32x4_t& high) {
    const std::byte* w = block + PanelQ4_K::kUnitsAt;
    const std::byte* scales = block + PanelQ4_K::kScalesAt;
    std::size_t pairs = 4;
    int32x4_t t[4];
    fetch_ahead<PanelQ4_K::kUnitsAt>(block);
    __asm__ volatile(
        "movi v27.16b, #15\n"
        "ldp q28, q29, [%[where]]\n"
        "ldp q30, q31, [%[where], #32]\n"
        "movi %[t0].4s, #0\n"
        "movi %[t1].4s, #0\n"
        "movi %[t2].4s, #0\n"
        "movi %[t3].4s, #0\n"
        "1:\n"
        "ldp q18, q19, [%[w], #32]\n"
        "ldp q16, q17, [%[w], #0]\n"
        "movi v1.4s, #0\n"
        "ldp d24, d25, [%[x], #0]\n"
        "prfm pldl3keep, [%[w], #%c[ahead]+0]\n"
        "ldr d13, [%[scales], #0]\n"
        "movi v3.4s, #0\n"
        "ldr q26, [%[x], #16]\n"
        "movi v4.4s, #0\n"
        "movi v0.4s, #0\n"
        "usmmla v0.4s, v16.16b, v24.16b\n"
        "and v16.16b, v16.16b, v27.16b\n"
        "ldp q22, q23, [%[w], #96]\n"
        "usmmla v3.4s, v19.16b, v24.16b\n"
        "usmmla v1.4s, v17.16b, v24.16b\n"
        "movi v2.4s, #0\n"
        "usmmla v2.4s, v18.16b, v24.16b\n"
        "and v18.16b, v18.16b, v27.16b\n"
        "ldp q20, q21, [%[w], #64]\n"
        "movi v5.4s, #0\n"
        "and v19.16b, v19.16b, v27.16b\n"
        "and v17.16b, v17.16b, v27.16b\n"
        "movi v7.4s, #0\n"
        "usmmla v2.4s, v18.16b, v26.16b\n"
        "usmmla v1.4s, v17.16b, v26.16b\n"
        "usmmla v3.4s, v19.16b, v26.16b\n"
        "usmmla v3.4s, v23.16b, v25.16b\n"
        "usmmla v1.4s, v21.16b, v25.16b\n"
        "ldp q18, q19, [%[w], #160]\n"
        "usmmla v2.4s, v22.16b, v25.16b\n"
        "and v21.16b, v21.16b, v27.16b\n"
        "tbl v14.16b, {v13.16b}, v28.16b\n"
        "tbl v15.16b, {v13.16b}, v29.16b\n"
        "usmmla v0.4s, v16.16b, v26.16b\n"
        "ldp q16, q17, [%[w], #128]\n"
        "usmmla v0.4s, v20.16b, v25.16b\n"
        "ldp d24, d25, [%[x], #48]\n"
        "and v23.16b, v23.16b, v27.16b\n"
        "and v22.16b, v22.16b, v27.16b\n"
        "and v20.16b, v20.16b, v27.16b\n"
        "usmmla v5.4s, v17.16b, v24.16b\n"
        "movi v6.4s, #0\n"
        "ldr q12, [%[x], #32]\n"
        "usmmla v7.4s, v19.16b, v24.16b\n"
        "usmmla v6.4s, v18.16b, v24.16b\n"
        "usmmla v4.4s, v16.16b, v24.16b\n"
        "and v18.16b, v18.16b, v27.16b\n"
        "and v16.16b, v16.16b, v27.16b\n"
        "and v17.16b, v17.16b, v27.16b\n"
        "usmmla v3.4s, v23.16b, v12.16b\n"
        "and v19.16b, v19.16b, v27.16b\n"
        "usmmla v2.4s, v22.16b, v12.16b\n"
        "usmmla v0.4s, v20.16b, v12.16b\n"
        "prfm pldl3keep, [%[w], #%c[ahead]+64]\n"
        "ldr q26, [%[x], #64]\n"
        "ldp q22, q23, [%[w], #224]\n"
        "usmmla v4.4s, v16.16b, v26.16b\n"
        "usmmla v1.4s, v21.16b, v12.16b\n"
        "ldp q20, q21, [%[w], #192]\n"
        "usmmla v4.4s, v20.16b, v25.16b\n"
        "and v20.16b, v20.16b, v27.16b\n"
        "prfm pldl3keep, [%[w], #%c[ahead]+128]\n"
        "mla %[t0].4s, v0.4s, v14.4s\n"
        "mla %[t1].4s, v1.4s, v15.4s\n"
        "usmmla v5.4s, v17.16b, v26.16b\n"
        "usmmla v7.4s, v19.16b, v26.16b\n"
        "usmmla v7.4s, v23.16b, v25.16b\n"
        "usmmla v6.4s, v18.16b, v26.16b\n"
        "tbl v14.16b, {v13.16b}, v30.16b\n"
        "mla %[t2].4s, v2.4s, v14.4s\n"
        "prfm pldl3keep, [%[w], #%c[ahead]+192]\n"
        "usmmla v6.4s, v22.16b, v25.16b\n"
        "tbl v15.16b, {v13.16b}, v31.16b\n"
        "and v22.16b, v22.16b, v27.16b\n"
        "ldr q12, [%[x], #80]\n"
        "mla %[t3].4s, v3.4s, v15.4s\n"
        "and v23.16b, v23.16b, v27.16b\n"
        "ldr d13, [%[scales], #8]\n"
        "add %[scales], %[scales], #16\n"
        "usmmla v5.4s, v21.16b, v25.16b\n"
        "tbl v14.16b, {v13.16b}, v28.16b\n"
        "add %[x], %[x], #96\n"
        "add %[w], %[w], #256\n"
        "usmmla v4.4s, v20.16b, v12.16b\n"
        "and v21.16b, v21.16b, v27.16b\n"
        "usmmla v7.4s, v23.16b, v12.16b\n"
        "tbl v15.16b, {v13.16b}, v29.16b\n"
        "usmmla v5.4s, v21.16b, v12.16b\n"
        "mla %[t0].4s, v4.4s, v14.4s\n"
        "tbl v14.16b, {v13.16b}, v30.16b\n"
        "usmmla v6.4s, v22.16b, v12.16b\n"
        "mla %[t1].4s, v5.4s, v15.4s\n"
        "mla %[t2].4s, v6.4s, v14.4s\n"
        "tbl v15.16b, {v13.16b}, v31.16b\n"
        "mla %[t3].4s, v7.4s, v15.4s\n"
        "subs %[pairs], %[pairs], #1\n"
        "b.ne 1b\n"
        : [w] "+r"(w), [x] "+r"(x), [scales] "+r"(scales), [pairs] "+r"(pairs), [t0] "=&w"(t[0]), [t1] "=&w"(t[1]),
          [t2] "=&w"(t[2]), [t3] "=&w"(t[3])
        : [ahead] "i"(kAheadBytes), [where] "r"(kScalePlaces)
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v12", "v13", "v14", "v15", "v16", "v17",
          "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
    low = vsraq_n_s32(vuzp2q_s32(t[0], t[1]), vuzp1q_s32(t[0], t[1]), 4);
    high = vsraq_n_s32(vuzp2q_s32(t[2], t[3]), vuzp1q_s32(t[2], t[3]), 4);
}

// Two tokens, by row pair, a unit a round. Registers: v0-v3 sums, v4-v7 activations, v8-v11 places of scales, v16-v23
// weights, v24-v27 low nibbles, v27-v30 scales, v31 the mask of low nibbles.
[[gnu::always_inline]] inline void sum_units(PanelQ4_K, const std::byte* block, const std::byte* x,
                                             int32x4_t (&total)[4]) {
    const std::byte* w = block + PanelQ4_K::kUnitsAt;
    const std::byte* scales = block + PanelQ4_K::kScalesAt;
    std::size_t units = 8;
    fetch_ahead<PanelQ4_K::kUnitsAt>(block);
    __asm__ volatile(
        "movi v31.16b, #15\n"
        "movi %[a0].4s, #0\n"
        "movi %[a1].4s, #0\n"
        "movi %[a2].4s, #0\n"
        "movi %[a3].4s, #0\n"
        "ldp q8, q9, [%[where]]\n"
        "ldp q10, q11, [%[where], #32]\n"
        "1:\n"
        "ldp q18, q19, [%[w], #32]\n"
        "ldp q16, q17, [%[w]]\n"
        "ldr q4, [%[x], #0]\n"
        "and v27.16b, v19.16b, v31.16b\n"
        "ldp q20, q21, [%[w], #64]\n"
        "ldp q22, q23, [%[w], #96]\n"
        "movi v0.4s, #0\n"
        "and v26.16b, v18.16b, v31.16b\n"
        "ushr v19.16b, v19.16b, #4\n"
        "and v25.16b, v17.16b, v31.16b\n"
        "ushr v18.16b, v18.16b, #4\n"
        "movi v1.4s, #0\n"
        "movi v3.4s, #0\n"
        "and v24.16b, v16.16b, v31.16b\n"
        "ldr q7, [%[x], #96]\n"
        "ldr q6, [%[x], #64]\n"
        "smmla v0.4s, v24.16b, v4.16b\n"
        "and v24.16b, v20.16b, v31.16b\n"
        "movi v2.4s, #0\n"
        "ushr v16.16b, v16.16b, #4\n"
        "ushr v17.16b, v17.16b, #4\n"
        "smmla v3.4s, v27.16b, v4.16b\n"
        "smmla v1.4s, v25.16b, v4.16b\n"
        "smmla v2.4s, v26.16b, v4.16b\n"
        "smmla v0.4s, v16.16b, v6.16b\n"
        "ldr d30, [%[scales]]\n"
        "add %[scales], %[scales], #8\n"
        "smmla v3.4s, v19.16b, v6.16b\n"
        "prfm pldl3keep, [%[w], #%c[ahead]+64]\n"
        "ushr v20.16b, v20.16b, #4\n"
        "ldr q5, [%[x], #32]\n"
        "and v25.16b, v21.16b, v31.16b\n"
        "ushr v21.16b, v21.16b, #4\n"
        "and v27.16b, v23.16b, v31.16b\n"
        "smmla v0.4s, v24.16b, v5.16b\n"
        "smmla v1.4s, v17.16b, v6.16b\n"
        "smmla v3.4s, v27.16b, v5.16b\n"
        "and v26.16b, v22.16b, v31.16b\n"
        "tbl v27.16b, {v30.16b}, v10.16b\n"
        "prfm pldl3keep, [%[w], #%c[ahead]]\n"
        "ushr v22.16b, v22.16b, #4\n"
        "add %[w], %[w], #128\n"
        "tbl v29.16b, {v30.16b}, v8.16b\n"
        "tbl v28.16b, {v30.16b}, v9.16b\n"
        "ushr v23.16b, v23.16b, #4\n"
        "smmla v2.4s, v18.16b, v6.16b\n"
        "smmla v1.4s, v25.16b, v5.16b\n"
        "smmla v3.4s, v23.16b, v7.16b\n"
        "smmla v2.4s, v26.16b, v5.16b\n"
        "tbl v30.16b, {v30.16b}, v11.16b\n"
        "add %[x], %[x], #128\n"
        "mla %[a3].4s, v3.4s, v30.4s\n"
        "smmla v0.4s, v20.16b, v7.16b\n"
        "smmla v2.4s, v22.16b, v7.16b\n"
        "mla %[a2].4s, v2.4s, v27.4s\n"
        "mla %[a0].4s, v0.4s, v29.4s\n"
        "smmla v1.4s, v21.16b, v7.16b\n"
        "mla %[a1].4s, v1.4s, v28.4s\n"
        "subs %[units], %[units], #1\n"
        "b.ne 1b\n"
        : [w] "+r"(w), [x] "+r"(x), [scales] "+r"(scales), [units] "+r"(units), [a0] "=&w"(total[0]),
          [a1] "=&w"(total[1]), [a2] "=&w"(total[2]), [a3] "=&w"(total[3])
        : [ahead] "i"(kAheadBytes), [where] "r"(kScalePlaces)
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v16", "v17", "v18",
          "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}

// The same for four tokens, by token pair and row pair, a unit a round. Registers: v0-v3 sums of a unit for the first
// token pair, v4-v7 for the second, v16-v23 weights and then, in v16-v19, scales, v24-v27 low nibbles, v28 and v29
// activations, v30 scales as they are stored, v31 the mask of low nibbles.
[[gnu::always_inline]] inline void sum_units(PanelQ4_K, const std::byte* block, const std::byte* x,
                                             int32x4_t (&total)[2][4]) {
    const std::byte* w = block + PanelQ4_K::kUnitsAt;
    const std::byte* scales = block + PanelQ4_K::kScalesAt;
    std::size_t units = 8;
    fetch_ahead<PanelQ4_K::kUnitsAt>(block);
    __asm__ volatile(
        "movi v31.16b, #15\n"
        "movi %[a0].4s, #0\n"
        "movi %[a1].4s, #0\n"
        "movi %[a2].4s, #0\n"
        "movi %[a3].4s, #0\n"
        "movi %[b0].4s, #0\n"
        "movi %[b1].4s, #0\n"
        "movi %[b2].4s, #0\n"
        "movi %[b3].4s, #0\n"
        "1:\n"
        "ldp q16, q17, [%[w]]\n"
        "ldp q18, q19, [%[w], #32]\n"
        "ldp q28, q29, [%[x]]\n"
        "movi v1.4s, #0\n"
        "and v26.16b, v18.16b, v31.16b\n"
        "movi v0.4s, #0\n"
        "movi v2.4s, #0\n"
        "movi v3.4s, #0\n"
        "ldp q22, q23, [%[w], #96]\n"
        "movi v4.4s, #0\n"
        "ushr v18.16b, v18.16b, #4\n"
        "prfm pldl3keep, [%[w], #%c[ahead]]\n"
        "and v24.16b, v16.16b, v31.16b\n"
        "and v25.16b, v17.16b, v31.16b\n"
        "movi v5.4s, #0\n"
        "movi v6.4s, #0\n"
        "and v27.16b, v19.16b, v31.16b\n"
        "ushr v16.16b, v16.16b, #4\n"
        "movi v7.4s, #0\n"
        "smmla v7.4s, v27.16b, v29.16b\n"
        "ushr v17.16b, v17.16b, #4\n"
        "smmla v3.4s, v27.16b, v28.16b\n"
        "ldp q20, q21, [%[w], #64]\n"
        "ushr v19.16b, v19.16b, #4\n"
        "ldr d30, [%[scales]]\n"
        "and v27.16b, v23.16b, v31.16b\n"
        "add %[scales], %[scales], #8\n"
        "ushr v23.16b, v23.16b, #4\n"
        "smmla v2.4s, v26.16b, v28.16b\n"
        "smmla v1.4s, v25.16b, v28.16b\n"
        "smmla v4.4s, v24.16b, v29.16b\n"
        "smmla v5.4s, v25.16b, v29.16b\n"
        "and v25.16b, v21.16b, v31.16b\n"
        "smmla v0.4s, v24.16b, v28.16b\n"
        "smmla v6.4s, v26.16b, v29.16b\n"
        "ldp q28, q29, [%[x], #64]\n"
        "and v24.16b, v20.16b, v31.16b\n"
        "smmla v2.4s, v18.16b, v28.16b\n"
        "smmla v6.4s, v18.16b, v29.16b\n"
        "ushr v20.16b, v20.16b, #4\n"
        "and v26.16b, v22.16b, v31.16b\n"
        "ushr v22.16b, v22.16b, #4\n"
        "smmla v3.4s, v19.16b, v28.16b\n"
        "prfm pldl3keep, [%[w], #%c[ahead]+64]\n"
        "smmla v7.4s, v19.16b, v29.16b\n"
        "ldp q18, q19, [%[where], #32]\n"
        "tbl v18.16b, {v30.16b}, v18.16b\n"
        "ushr v21.16b, v21.16b, #4\n"
        "smmla v1.4s, v17.16b, v28.16b\n"
        "smmla v0.4s, v16.16b, v28.16b\n"
        "smmla v4.4s, v16.16b, v29.16b\n"
        "smmla v5.4s, v17.16b, v29.16b\n"
        "ldp q28, q29, [%[x], #32]\n"
        "smmla v0.4s, v24.16b, v28.16b\n"
        "smmla v7.4s, v27.16b, v29.16b\n"
        "smmla v4.4s, v24.16b, v29.16b\n"
        "smmla v1.4s, v25.16b, v28.16b\n"
        "smmla v6.4s, v26.16b, v29.16b\n"
        "smmla v2.4s, v26.16b, v28.16b\n"
        "smmla v3.4s, v27.16b, v28.16b\n"
        "tbl v19.16b, {v30.16b}, v19.16b\n"
        "ldp q16, q17, [%[where]]\n"
        "smmla v5.4s, v25.16b, v29.16b\n"
        "ldp q28, q29, [%[x], #96]\n"
        "tbl v16.16b, {v30.16b}, v16.16b\n"
        "tbl v17.16b, {v30.16b}, v17.16b\n"
        "smmla v6.4s, v22.16b, v29.16b\n"
        "smmla v3.4s, v23.16b, v28.16b\n"
        "smmla v7.4s, v23.16b, v29.16b\n"
        "mla %[b3].4s, v7.4s, v19.4s\n"
        "mla %[b2].4s, v6.4s, v18.4s\n"
        "add %[x], %[x], #128\n"
        "smmla v0.4s, v20.16b, v28.16b\n"
        "mla %[a0].4s, v0.4s, v16.4s\n"
        "mla %[a3].4s, v3.4s, v19.4s\n"
        "add %[w], %[w], #128\n"
        "smmla v2.4s, v22.16b, v28.16b\n"
        "smmla v1.4s, v21.16b, v28.16b\n"
        "smmla v5.4s, v21.16b, v29.16b\n"
        "mla %[a2].4s, v2.4s, v18.4s\n"
        "smmla v4.4s, v20.16b, v29.16b\n"
        "mla %[b0].4s, v4.4s, v16.4s\n"
        "mla %[a1].4s, v1.4s, v17.4s\n"
        "mla %[b1].4s, v5.4s, v17.4s\n"
        "subs %[units], %[units], #1\n"
        "b.ne 1b\n"
        : [w] "+r"(w), [x] "+r"(x), [scales] "+r"(scales), [units] "+r"(units), [a0] "=&w"(total[0][0]),
          [a1] "=&w"(total[0][1]), [a2] "=&w"(total[0][2]), [a3] "=&w"(total[0][3]), [b0] "=&w"(total[1][0]),
          [b1] "=&w"(total[1][1]), [b2] "=&w"(total[1][2]), [b3] "=&w"(total[1][3])
        : [ahead] "i"(kAheadBytes), [where] "r"(kScalePlaces)
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21",
          "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}

// The same for eight tokens in the tiles x and y, and the first or second four rows. Registers: v0-v3 weights, v24,
// v25, v26 and v29 low nibbles, v4-v7, v20-v22 and v30 sums, v16-v19 activations, v27 and v28 scales.
template <std::size_t kHalf>
[[gnu::always_inline]] inline void sum_units(PanelQ4_K, const std::byte* block, const std::byte* x, const std::byte* y,
                                             int32x4_t (&total)[4][4]) {
    const std::byte* w = block + PanelQ4_K::kUnitsAt + kHalf * 32;
    const std::byte* scales = block + PanelQ4_K::kScalesAt + kHalf * 4;
    std::size_t units = 8;
    fetch_ahead<PanelQ4_K::kUnitsAt>(block);
    __asm__ volatile(
        "movi v31.16b, #15\n"
        "movi %[a0].4s, #0\n"
        "movi %[a1].4s, #0\n"
        "movi %[b0].4s, #0\n"
        "movi %[b1].4s, #0\n"
        "movi %[c0].4s, #0\n"
        "movi %[c1].4s, #0\n"
        "movi %[d0].4s, #0\n"
        "movi %[d1].4s, #0\n"
        "1:\n"
        "movi v21.4s, #0\n"
        "movi v5.4s, #0\n"
        "ldp q0, q1, [%[w]]\n"
        "and v25.16b, v1.16b, v31.16b\n"
        "and v24.16b, v0.16b, v31.16b\n"
        "movi v4.4s, #0\n"
        "ldp q16, q17, [%[x], #0]\n"
        "ldr s28, [%[scales]]\n"
        "ldp q18, q19, [%[y], #0]\n"
        "ushr v0.16b, v0.16b, #4\n"
        "movi v7.4s, #0\n"
        "ushr v1.16b, v1.16b, #4\n"
        "smmla v21.4s, v24.16b, v19.16b\n"
        "movi v20.4s, #0\n"
        "ldp q2, q3, [%[w], #64]\n"
        "movi v6.4s, #0\n"
        "zip1 v28.16b, v28.16b, v28.16b\n"
        "movi v30.4s, #0\n"
        "movi v22.4s, #0\n"
        "prfm pldl3keep, [%[w], #%c[ahead]]\n"
        "smmla v20.4s, v25.16b, v18.16b\n"
        "smmla v5.4s, v25.16b, v16.16b\n"
        "smmla v22.4s, v25.16b, v19.16b\n"
        "smmla v30.4s, v24.16b, v18.16b\n"
        "ldp q18, q19, [%[y], #64]\n"
        "smmla v4.4s, v24.16b, v16.16b\n"
        "smmla v21.4s, v0.16b, v19.16b\n"
        "smmla v7.4s, v25.16b, v17.16b\n"
        "and v26.16b, v2.16b, v31.16b\n"
        "and v29.16b, v3.16b, v31.16b\n"
        "smmla v6.4s, v24.16b, v17.16b\n"
        "smmla v20.4s, v1.16b, v18.16b\n"
        "ldp q16, q17, [%[x], #64]\n"
        "smmla v6.4s, v0.16b, v17.16b\n"
        "ushr v3.16b, v3.16b, #4\n"
        "ushr v2.16b, v2.16b, #4\n"
        "smmla v4.4s, v0.16b, v16.16b\n"
        "smmla v30.4s, v0.16b, v18.16b\n"
        "smmla v5.4s, v1.16b, v16.16b\n"
        "sxtl v28.8h, v28.8b\n"
        "smmla v7.4s, v1.16b, v17.16b\n"
        "ldp q16, q17, [%[x], #32]\n"
        "smmla v22.4s, v1.16b, v19.16b\n"
        "smmla v4.4s, v26.16b, v16.16b\n"
        "smmla v5.4s, v29.16b, v16.16b\n"
        "add %[scales], %[scales], #8\n"
        "smmla v7.4s, v29.16b, v17.16b\n"
        "ldp q18, q19, [%[y], #32]\n"
        "smmla v22.4s, v29.16b, v19.16b\n"
        "smmla v20.4s, v29.16b, v18.16b\n"
        "smmla v6.4s, v26.16b, v17.16b\n"
        "smmla v21.4s, v26.16b, v19.16b\n"
        "smmla v30.4s, v26.16b, v18.16b\n"
        "ldp q18, q19, [%[y], #96]\n"
        "smmla v20.4s, v3.16b, v18.16b\n"
        "ldp q16, q17, [%[x], #96]\n"
        "smmla v30.4s, v2.16b, v18.16b\n"
        "smmla v4.4s, v2.16b, v16.16b\n"
        "add %[x], %[x], #128\n"
        "add %[w], %[w], #128\n"
        "smmla v5.4s, v3.16b, v16.16b\n"
        "sxtl v27.4s, v28.4h\n"
        "sxtl2 v28.4s, v28.8h\n"
        "mla %[c1].4s, v20.4s, v28.4s\n"
        "mla %[a1].4s, v5.4s, v28.4s\n"
        "smmla v22.4s, v3.16b, v19.16b\n"
        "smmla v21.4s, v2.16b, v19.16b\n"
        "mla %[d1].4s, v22.4s, v28.4s\n"
        "add %[y], %[y], #128\n"
        "mla %[c0].4s, v30.4s, v27.4s\n"
        "mla %[d0].4s, v21.4s, v27.4s\n"
        "smmla v7.4s, v3.16b, v17.16b\n"
        "smmla v6.4s, v2.16b, v17.16b\n"
        "mla %[b1].4s, v7.4s, v28.4s\n"
        "mla %[a0].4s, v4.4s, v27.4s\n"
        "mla %[b0].4s, v6.4s, v27.4s\n"
        "subs %[units], %[units], #1\n"
        "b.ne 1b\n"
        : [w] "+r"(w), [x] "+r"(x), [y] "+r"(y), [scales] "+r"(scales), [units] "+r"(units),
          [a0] "=&w"(total[0][2 * kHalf]), [a1] "=&w"(total[0][2 * kHalf + 1]), [b0] "=&w"(total[1][2 * kHalf]),
          [b1] "=&w"(total[1][2 * kHalf + 1]), [c0] "=&w"(total[2][2 * kHalf]), [c1] "=&w"(total[2][2 * kHalf + 1]),
          [d0] "=&w"(total[3][2 * kHalf]), [d1] "=&w"(total[3][2 * kHalf + 1])
        : [ahead] "i"(kAheadBytes + kHalf * 32)
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21",
          "v22", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}

}  // namespace

}  // namespace hearth
