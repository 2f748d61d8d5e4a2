// One token of Q4_0, Q4_K and Q6_K, and up to four of Q4_0 and Q4_K, with weights that are unpacked in registers, in
// assembly (see panels_arm_sdot_wide.h).
#pragma once

#include <bit>

#include "kernels/panels_arm_sdot_wide.h"

namespace hearth {

namespace {

// Q4_0, two blocks at a time. v0 and v2 their sums of rows 0 to 3, v1 and v3 of the others; v16-v19 columns, then
// scales; v20-v23 bytes of weights and v24-v27 their low codes; v28 and v30 where sums start.
[[gnu::always_inline]] inline void add_pairs_of_blocks(const std::byte* w, std::size_t pairs,
                                                       const ActivationBlock32* x, Floats8& acc) {
    static_assert(PanelQuadQ4_0::kUnitsAt == 16 && PanelQuadQ4_0::kBlockBytes == 144 && sizeof(*x) == 40);
    __asm__ volatile(
        "movi v29.16b, #15\n"
        "dup v28.4s, %w[start]\n"
        "dup v30.4s, %w[start_high]\n"
        "1:\n"
        "ldr w9, [%[x], #4]\n"
        "ldr w10, [%[x], #44]\n"
        "ldur q16, [%[x], #8]\n"
        "ldur q17, [%[x], #24]\n"
        "ldr q18, [%[x], #48]\n"
        "ldr q19, [%[x], #64]\n"
        "sub w9, %w[start], w9, lsl #3\n"
        "sub w10, %w[start], w10, lsl #3\n"
        "dup v0.4s, w9\n"
        "dup v2.4s, w10\n"
        "add v1.4s, v0.4s, v30.4s\n"
        "add v3.4s, v2.4s, v30.4s\n"
        "ldp q20, q21, [%[w], #16]\n"
        "ldp q22, q23, [%[w], #160]\n"
        "and v24.16b, v20.16b, v29.16b\n"
        "and v25.16b, v21.16b, v29.16b\n"
        "and v26.16b, v22.16b, v29.16b\n"
        "and v27.16b, v23.16b, v29.16b\n"
        "sdot v1.4s, v20.16b, v16.4b[0]\n"
        "sdot v3.4s, v22.16b, v18.4b[0]\n"
        "sdot v0.4s, v24.16b, v16.4b[0]\n"
        "sdot v2.4s, v26.16b, v18.4b[0]\n"
        "sdot v1.4s, v21.16b, v16.4b[1]\n"
        "sdot v3.4s, v23.16b, v18.4b[1]\n"
        "sdot v0.4s, v25.16b, v16.4b[1]\n"
        "sdot v2.4s, v27.16b, v18.4b[1]\n"
        "ldp q20, q21, [%[w], #48]\n"
        "ldp q22, q23, [%[w], #192]\n"
        "and v24.16b, v20.16b, v29.16b\n"
        "and v25.16b, v21.16b, v29.16b\n"
        "and v26.16b, v22.16b, v29.16b\n"
        "and v27.16b, v23.16b, v29.16b\n"
        "sdot v1.4s, v20.16b, v16.4b[2]\n"
        "sdot v3.4s, v22.16b, v18.4b[2]\n"
        "sdot v0.4s, v24.16b, v16.4b[2]\n"
        "sdot v2.4s, v26.16b, v18.4b[2]\n"
        "sdot v1.4s, v21.16b, v16.4b[3]\n"
        "sdot v3.4s, v23.16b, v18.4b[3]\n"
        "sdot v0.4s, v25.16b, v16.4b[3]\n"
        "sdot v2.4s, v27.16b, v18.4b[3]\n"
        "ldp q20, q21, [%[w], #80]\n"
        "ldp q22, q23, [%[w], #224]\n"
        "and v24.16b, v20.16b, v29.16b\n"
        "and v25.16b, v21.16b, v29.16b\n"
        "and v26.16b, v22.16b, v29.16b\n"
        "and v27.16b, v23.16b, v29.16b\n"
        "sdot v1.4s, v20.16b, v17.4b[0]\n"
        "sdot v3.4s, v22.16b, v19.4b[0]\n"
        "sdot v0.4s, v24.16b, v17.4b[0]\n"
        "sdot v2.4s, v26.16b, v19.4b[0]\n"
        "sdot v1.4s, v21.16b, v17.4b[1]\n"
        "sdot v3.4s, v23.16b, v19.4b[1]\n"
        "sdot v0.4s, v25.16b, v17.4b[1]\n"
        "sdot v2.4s, v27.16b, v19.4b[1]\n"
        "ldp q20, q21, [%[w], #112]\n"
        "ldp q22, q23, [%[w], #256]\n"
        "and v24.16b, v20.16b, v29.16b\n"
        "and v25.16b, v21.16b, v29.16b\n"
        "and v26.16b, v22.16b, v29.16b\n"
        "and v27.16b, v23.16b, v29.16b\n"
        "sdot v1.4s, v20.16b, v17.4b[2]\n"
        "sdot v3.4s, v22.16b, v19.4b[2]\n"
        "sdot v0.4s, v24.16b, v17.4b[2]\n"
        "sdot v2.4s, v26.16b, v19.4b[2]\n"
        "sdot v1.4s, v21.16b, v17.4b[3]\n"
        "sdot v3.4s, v23.16b, v19.4b[3]\n"
        "sdot v0.4s, v25.16b, v17.4b[3]\n"
        "sdot v2.4s, v27.16b, v19.4b[3]\n"
        "ldr q20, [%[w]]\n"
        "ldr q22, [%[w], #144]\n"
        "ldr s16, [%[x]]\n"
        "ldr s18, [%[x], #40]\n"
        "add %[w], %[w], #288\n"
        "add %[x], %[x], #80\n"
        "fcvtl v24.4s, v20.4h\n"
        "fcvtl2 v25.4s, v20.8h\n"
        "fcvtl v26.4s, v22.4h\n"
        "fcvtl2 v27.4s, v22.8h\n"
        "sub v1.4s, v1.4s, v0.4s\n"
        "sub v3.4s, v3.4s, v2.4s\n"
        "fsub v0.4s, v0.4s, v28.4s\n"
        "fsub v2.4s, v2.4s, v28.4s\n"
        "fsub v1.4s, v1.4s, v30.4s\n"
        "fsub v3.4s, v3.4s, v30.4s\n"
        "fmul v24.4s, v24.4s, v16.s[0]\n"
        "fmul v25.4s, v25.4s, v16.s[0]\n"
        "fmul v26.4s, v26.4s, v18.s[0]\n"
        "fmul v27.4s, v27.4s, v18.s[0]\n"
        "fmla %[low].4s, v0.4s, v24.4s\n"
        "fmla %[high].4s, v1.4s, v25.4s\n"
        "fmla %[low].4s, v2.4s, v26.4s\n"
        "fmla %[high].4s, v3.4s, v27.4s\n"
        "subs %[pairs], %[pairs], #1\n"
        "b.ne 1b\n"
        : [w] "+r"(w), [pairs] "+r"(pairs), [x] "+r"(x), [low] "+w"(acc.low), [high] "+w"(acc.high)
        : [start] "r"(std::bit_cast<std::int32_t>(kStart<0>)), [start_high] "r"(std::bit_cast<std::int32_t>(kStart<4>))
        : "memory", "cc", "x9", "x10", "v0", "v1", "v2", "v3", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23",
          "v24", "v25", "v26", "v27", "v28", "v29", "v30");
}

// Adds the products of a unit of UnitQuadNibbles and the first tokens of a tile. v(2t) and v(2t + 1) the sums of token
// t, of low codes and of bytes as they are, in the end of high codes, sixteenfold; v24 and v25 columns, v26 and v27 low
// codes of the bytes in v28 and v29; v15 their mask.
#define HEARTH_SDOT_NIBBLES            \
    ".irp columns, 0, 1, 2, 3\n"       \
    "ldp q24, q25, [%[x]], #32\n"      \
    "ldp q28, q29, [%[w]], #32\n"      \
    "and v26.16b, v28.16b, v15.16b\n"  \
    "and v27.16b, v29.16b, v15.16b\n"  \
    "sdot v0.4s, v26.16b, v24.4b[0]\n" \
    "sdot v1.4s, v28.16b, v24.4b[0]\n" \
    "sdot v2.4s, v26.16b, v24.4b[1]\n" \
    "sdot v3.4s, v28.16b, v24.4b[1]\n" \
    ".if %[tokens] > 2\n"              \
    "sdot v4.4s, v26.16b, v24.4b[2]\n" \
    "sdot v5.4s, v28.16b, v24.4b[2]\n" \
    ".endif\n"                         \
    ".if %[tokens] > 3\n"              \
    "sdot v6.4s, v26.16b, v24.4b[3]\n" \
    "sdot v7.4s, v28.16b, v24.4b[3]\n" \
    ".endif\n"                         \
    "sdot v0.4s, v27.16b, v25.4b[0]\n" \
    "sdot v1.4s, v29.16b, v25.4b[0]\n" \
    "sdot v2.4s, v27.16b, v25.4b[1]\n" \
    "sdot v3.4s, v29.16b, v25.4b[1]\n" \
    ".if %[tokens] > 2\n"              \
    "sdot v4.4s, v27.16b, v25.4b[2]\n" \
    "sdot v5.4s, v29.16b, v25.4b[2]\n" \
    ".endif\n"                         \
    ".if %[tokens] > 3\n"              \
    "sdot v6.4s, v27.16b, v25.4b[3]\n" \
    "sdot v7.4s, v29.16b, v25.4b[3]\n" \
    ".endif\n"                         \
    ".endr\n"                          \
    "sub v1.4s, v1.4s, v0.4s\n"        \
    "sub v3.4s, v3.4s, v2.4s\n"        \
    ".if %[tokens] > 2\n"              \
    "sub v5.4s, v5.4s, v4.4s\n"        \
    ".endif\n"                         \
    ".if %[tokens] > 3\n"              \
    "sub v7.4s, v7.4s, v6.4s\n"        \
    ".endif\n"

// Q4_0 with the first kTokens of a tile. v16-v23 the sums as floats, v30 and v31 where sums start.
template <std::size_t kTokens>
[[gnu::always_inline]] inline void add_blocks_of_tile(const std::byte* w, std::size_t blocks, const TileBlock32* x,
                                                      TokenFloats<kTokens>& acc) {
    static_assert(kTokens >= 2 && kTokens <= 4 && sizeof(*x) == 160);
    w += PanelQuadQ4_0::kUnitsAt;
    __asm__ volatile(
        "movi v15.16b, #15\n"
        "dup v31.4s, %w[start]\n"
        "dup v30.4s, %w[start_high]\n"
        ".irp i, 16, 17, 18, 19, 20, 21, 22, 23\n"
        "movi v\\i\\().4s, #0\n"
        ".endr\n"
        "1:\n"
        "ldr q26, [%[x], #144]\n"
        "shl v26.4s, v26.4s, #3\n"
        "sub v26.4s, v31.4s, v26.4s\n"
        "dup v0.4s, v26.s[0]\n"
        "dup v2.4s, v26.s[1]\n"
        ".if %[tokens] > 2\n"
        "dup v4.4s, v26.s[2]\n"
        ".endif\n"
        ".if %[tokens] > 3\n"
        "dup v6.4s, v26.s[3]\n"
        ".endif\n"
        "add v1.4s, v0.4s, v30.4s\n"
        "add v3.4s, v2.4s, v30.4s\n"
        ".if %[tokens] > 2\n"
        "add v5.4s, v4.4s, v30.4s\n"
        ".endif\n"
        ".if %[tokens] > 3\n"
        "add v7.4s, v6.4s, v30.4s\n"
        ".endif\n" HEARTH_SDOT_NIBBLES
        "ldr q26, [%[x]], #32\n"
        "ldr q27, [%[w], #-144]\n"
        "add %[w], %[w], #16\n"
        "fcvtl v28.4s, v27.4h\n"
        "fcvtl2 v29.4s, v27.8h\n"
        "fsub v0.4s, v0.4s, v31.4s\n"
        "fsub v1.4s, v1.4s, v30.4s\n"
        "fsub v2.4s, v2.4s, v31.4s\n"
        "fsub v3.4s, v3.4s, v30.4s\n"
        ".if %[tokens] > 2\n"
        "fsub v4.4s, v4.4s, v31.4s\n"
        "fsub v5.4s, v5.4s, v30.4s\n"
        ".endif\n"
        ".if %[tokens] > 3\n"
        "fsub v6.4s, v6.4s, v31.4s\n"
        "fsub v7.4s, v7.4s, v30.4s\n"
        ".endif\n"
        "fmul v8.4s, v28.4s, v26.s[0]\n"
        "fmul v9.4s, v29.4s, v26.s[0]\n"
        "fmul v10.4s, v28.4s, v26.s[1]\n"
        "fmul v11.4s, v29.4s, v26.s[1]\n"
        ".if %[tokens] > 2\n"
        "fmul v12.4s, v28.4s, v26.s[2]\n"
        "fmul v13.4s, v29.4s, v26.s[2]\n"
        ".endif\n"
        ".if %[tokens] > 3\n"
        "fmul v24.4s, v28.4s, v26.s[3]\n"
        "fmul v25.4s, v29.4s, v26.s[3]\n"
        ".endif\n"
        "fmla v16.4s, v0.4s, v8.4s\n"
        "fmla v17.4s, v1.4s, v9.4s\n"
        "fmla v18.4s, v2.4s, v10.4s\n"
        "fmla v19.4s, v3.4s, v11.4s\n"
        ".if %[tokens] > 2\n"
        "fmla v20.4s, v4.4s, v12.4s\n"
        "fmla v21.4s, v5.4s, v13.4s\n"
        ".endif\n"
        ".if %[tokens] > 3\n"
        "fmla v22.4s, v6.4s, v24.4s\n"
        "fmla v23.4s, v7.4s, v25.4s\n"
        ".endif\n"
        "subs %[blocks], %[blocks], #1\n"
        "b.ne 1b\n"
        "stp q16, q17, [%[acc]]\n"
        "stp q18, q19, [%[acc], #32]\n"
        ".if %[tokens] > 2\n"
        "stp q20, q21, [%[acc], #64]\n"
        ".endif\n"
        ".if %[tokens] > 3\n"
        "stp q22, q23, [%[acc], #96]\n"
        ".endif\n"
        : [w] "+r"(w), [blocks] "+r"(blocks), [x] "+r"(x)
        : [acc] "r"(&acc), [tokens] "i"(kTokens), [start] "r"(std::bit_cast<std::int32_t>(kStart<0>)),
          [start_high] "r"(std::bit_cast<std::int32_t>(kStart<4>))
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v15",
          "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30",
          "v31");
}

// Q4_K: scale times product over the units of a block, two units at a time. Registers as above, but v20-v26 scales in
// the end. What is eight too little in high codes is added to their sums in advance; they are sixteenfold till the end.
[[gnu::always_inline]] inline Ints8 block_sums_of_one(PackedBlock<PanelQuadQ4_K> block, const ActivationBlock256* x) {
    const std::byte* w = block.packed + PanelQuadQ4_K::kUnitsAt;
    const std::byte* scales = block.packed + PanelQuadQ4_K::kScalesAt;
    const std::int8_t* q = x->q;
    const std::int16_t* sums = x->sums;
    std::size_t pairs = 4;
    Ints8 total = {vdupq_n_s32(0), vdupq_n_s32(0)};
    __asm__ volatile(
        "movi v29.16b, #15\n"
        "1:\n"
        "ldrsh w9, [%[sums]]\n"
        "ldrsh w10, [%[sums], #2]\n"
        "ldrsh w11, [%[sums], #4]\n"
        "ldrsh w12, [%[sums], #6]\n"
        "ldp q16, q17, [%[q]]\n"
        "ldp q18, q19, [%[q], #32]\n"
        "add w9, w9, w10\n"
        "add w11, w11, w12\n"
        "lsl w9, w9, #7\n"
        "lsl w11, w11, #7\n"
        "movi v0.4s, #0\n"
        "movi v2.4s, #0\n"
        "dup v1.4s, w9\n"
        "dup v3.4s, w11\n"
        "ldp q20, q21, [%[w]]\n"
        "ldp q22, q23, [%[w], #128]\n"
        "and v24.16b, v20.16b, v29.16b\n"
        "and v25.16b, v21.16b, v29.16b\n"
        "and v26.16b, v22.16b, v29.16b\n"
        "and v27.16b, v23.16b, v29.16b\n"
        "sdot v1.4s, v20.16b, v16.4b[0]\n"
        "sdot v3.4s, v22.16b, v18.4b[0]\n"
        "sdot v0.4s, v24.16b, v16.4b[0]\n"
        "sdot v2.4s, v26.16b, v18.4b[0]\n"
        "sdot v1.4s, v21.16b, v16.4b[1]\n"
        "sdot v3.4s, v23.16b, v18.4b[1]\n"
        "sdot v0.4s, v25.16b, v16.4b[1]\n"
        "sdot v2.4s, v27.16b, v18.4b[1]\n"
        "ldp q20, q21, [%[w], #32]\n"
        "ldp q22, q23, [%[w], #160]\n"
        "and v24.16b, v20.16b, v29.16b\n"
        "and v25.16b, v21.16b, v29.16b\n"
        "and v26.16b, v22.16b, v29.16b\n"
        "and v27.16b, v23.16b, v29.16b\n"
        "sdot v1.4s, v20.16b, v16.4b[2]\n"
        "sdot v3.4s, v22.16b, v18.4b[2]\n"
        "sdot v0.4s, v24.16b, v16.4b[2]\n"
        "sdot v2.4s, v26.16b, v18.4b[2]\n"
        "sdot v1.4s, v21.16b, v16.4b[3]\n"
        "sdot v3.4s, v23.16b, v18.4b[3]\n"
        "sdot v0.4s, v25.16b, v16.4b[3]\n"
        "sdot v2.4s, v27.16b, v18.4b[3]\n"
        "ldp q20, q21, [%[w], #64]\n"
        "ldp q22, q23, [%[w], #192]\n"
        "and v24.16b, v20.16b, v29.16b\n"
        "and v25.16b, v21.16b, v29.16b\n"
        "and v26.16b, v22.16b, v29.16b\n"
        "and v27.16b, v23.16b, v29.16b\n"
        "sdot v1.4s, v20.16b, v17.4b[0]\n"
        "sdot v3.4s, v22.16b, v19.4b[0]\n"
        "sdot v0.4s, v24.16b, v17.4b[0]\n"
        "sdot v2.4s, v26.16b, v19.4b[0]\n"
        "sdot v1.4s, v21.16b, v17.4b[1]\n"
        "sdot v3.4s, v23.16b, v19.4b[1]\n"
        "sdot v0.4s, v25.16b, v17.4b[1]\n"
        "sdot v2.4s, v27.16b, v19.4b[1]\n"
        "ldp q20, q21, [%[w], #96]\n"
        "ldp q22, q23, [%[w], #224]\n"
        "and v24.16b, v20.16b, v29.16b\n"
        "and v25.16b, v21.16b, v29.16b\n"
        "and v26.16b, v22.16b, v29.16b\n"
        "and v27.16b, v23.16b, v29.16b\n"
        "sdot v1.4s, v20.16b, v17.4b[2]\n"
        "sdot v3.4s, v22.16b, v19.4b[2]\n"
        "sdot v0.4s, v24.16b, v17.4b[2]\n"
        "sdot v2.4s, v26.16b, v19.4b[2]\n"
        "sdot v1.4s, v21.16b, v17.4b[3]\n"
        "sdot v3.4s, v23.16b, v19.4b[3]\n"
        "sdot v0.4s, v25.16b, v17.4b[3]\n"
        "sdot v2.4s, v27.16b, v19.4b[3]\n"
        "ldr q20, [%[scales]], #16\n"
        "add %[w], %[w], #256\n"
        "add %[q], %[q], #64\n"
        "add %[sums], %[sums], #8\n"
        "sub v1.4s, v1.4s, v0.4s\n"
        "sub v3.4s, v3.4s, v2.4s\n"
        "sxtl v21.8h, v20.8b\n"
        "sxtl2 v22.8h, v20.16b\n"
        "sxtl v23.4s, v21.4h\n"
        "sxtl2 v24.4s, v21.8h\n"
        "sxtl v25.4s, v22.4h\n"
        "sxtl2 v26.4s, v22.8h\n"
        "mla %[low].4s, v0.4s, v23.4s\n"
        "mla %[high].4s, v1.4s, v24.4s\n"
        "mla %[low].4s, v2.4s, v25.4s\n"
        "mla %[high].4s, v3.4s, v26.4s\n"
        "subs %[pairs], %[pairs], #1\n"
        "b.ne 1b\n"
        : [w] "+r"(w), [scales] "+r"(scales), [q] "+r"(q), [sums] "+r"(sums), [pairs] "+r"(pairs),
          [low] "+w"(total.low), [high] "+w"(total.high)
        :
        : "memory", "cc", "x9", "x10", "x11", "x12", "v0", "v1", "v2", "v3", "v16", "v17", "v18", "v19", "v20", "v21",
          "v22", "v23", "v24", "v25", "v26", "v27", "v29");
    return {total.low, vshrq_n_s32(total.high, 4)};
}

// The same with the first kTokens of a tile, a unit at a time: v16-v23 the totals, v26 and v27 scales in the end. Four
// units have their sums side by side, high bytes, and low ones 32 bytes behind.
template <std::size_t kTokens>
[[gnu::always_inline]] inline TokenInts<kTokens> block_sums_of_tile(PackedBlock<PanelQuadQ4_K> block,
                                                                    const TileBlock256* x) {
    static_assert(kTokens >= 2 && kTokens <= 4 && sizeof(SplitSums) == 64);
    const std::byte* w = block.packed + PanelQuadQ4_K::kUnitsAt;
    const std::byte* scales = block.packed + PanelQuadQ4_K::kScalesAt;
    const std::int8_t* sums = x->whole_sums.part[0];
    std::size_t halves = 2;
    std::size_t units;
    TokenInts<kTokens> total;
    __asm__ volatile(
        "movi v15.16b, #15\n"
        ".irp i, 16, 17, 18, 19, 20, 21, 22, 23\n"
        "movi v\\i\\().4s, #0\n"
        ".endr\n"
        "2:\n"
        "mov %[units], #4\n"
        "1:\n"
        "ldrsb w9, [%[sums]]\n"
        "ldrsb w10, [%[sums], #32]\n"
        "ldrsb w11, [%[sums], #4]\n"
        "ldrsb w12, [%[sums], #36]\n"
        "add w9, w10, w9, lsl #7\n"
        "add w11, w12, w11, lsl #7\n"
        "lsl w9, w9, #7\n"
        "lsl w11, w11, #7\n"
        "movi v0.4s, #0\n"
        "movi v2.4s, #0\n"
        "dup v1.4s, w9\n"
        "dup v3.4s, w11\n"
        ".if %[tokens] > 2\n"
        "ldrsb w9, [%[sums], #8]\n"
        "ldrsb w10, [%[sums], #40]\n"
        "add w9, w10, w9, lsl #7\n"
        "lsl w9, w9, #7\n"
        "movi v4.4s, #0\n"
        "dup v5.4s, w9\n"
        ".endif\n"
        ".if %[tokens] > 3\n"
        "ldrsb w11, [%[sums], #12]\n"
        "ldrsb w12, [%[sums], #44]\n"
        "add w11, w12, w11, lsl #7\n"
        "lsl w11, w11, #7\n"
        "movi v6.4s, #0\n"
        "dup v7.4s, w11\n"
        ".endif\n"
        "add %[sums], %[sums], #1\n" HEARTH_SDOT_NIBBLES
        "ldr d28, [%[scales]], #8\n"
        "sxtl v28.8h, v28.8b\n"
        "sxtl v26.4s, v28.4h\n"
        "sxtl2 v27.4s, v28.8h\n"
        "mla v16.4s, v0.4s, v26.4s\n"
        "mla v17.4s, v1.4s, v27.4s\n"
        "mla v18.4s, v2.4s, v26.4s\n"
        "mla v19.4s, v3.4s, v27.4s\n"
        ".if %[tokens] > 2\n"
        "mla v20.4s, v4.4s, v26.4s\n"
        "mla v21.4s, v5.4s, v27.4s\n"
        ".endif\n"
        ".if %[tokens] > 3\n"
        "mla v22.4s, v6.4s, v26.4s\n"
        "mla v23.4s, v7.4s, v27.4s\n"
        ".endif\n"
        "subs %[units], %[units], #1\n"
        "b.ne 1b\n"
        "add %[sums], %[sums], #12\n"
        "subs %[halves], %[halves], #1\n"
        "b.ne 2b\n"
        "sshr v17.4s, v17.4s, #4\n"
        "sshr v19.4s, v19.4s, #4\n"
        "stp q16, q17, [%[total]]\n"
        "stp q18, q19, [%[total], #32]\n"
        ".if %[tokens] > 2\n"
        "sshr v21.4s, v21.4s, #4\n"
        "stp q20, q21, [%[total], #64]\n"
        ".endif\n"
        ".if %[tokens] > 3\n"
        "sshr v23.4s, v23.4s, #4\n"
        "stp q22, q23, [%[total], #96]\n"
        ".endif\n"
        :
        [w] "+r"(w), [scales] "+r"(scales), [x] "+r"(x), [sums] "+r"(sums), [halves] "+r"(halves), [units] "=&r"(units)
        : [total] "r"(&total), [tokens] "i"(kTokens)
        : "memory", "cc", "x9", "x10", "x11", "x12", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v15", "v16",
          "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29");
    return total;
}

// The same of Q6_K, a unit at a time: v0 and v1 the sums of the first sixteen columns, v2 and v3 of the others, v16 and
// v17 columns, v18 scales, v31 the mask of codes. See UnitSixBits.
[[gnu::always_inline]] inline Ints8 block_sums_of_one(PackedBlock<PanelQ6_K> block, const ActivationBlock256* x) {
    const std::byte* w = block.packed + PanelQ6_K::kUnitsAt;
    const std::byte* scales = block.packed + PanelQ6_K::kScalesAt;
    const std::int8_t* q = x->q;
    std::size_t units = 8;
    Ints8 total = {vdupq_n_s32(0), vdupq_n_s32(0)};
    __asm__ volatile(
        "movi v31.16b, #0xfc\n"
        "1:\n"
        "ldp q16, q17, [%[q]], #32\n"
        "ldr q18, [%[scales]], #16\n"
        "movi v0.4s, #0\n"
        "movi v1.4s, #0\n"
        "movi v2.4s, #0\n"
        "movi v3.4s, #0\n"
        "ldp q20, q21, [%[w]]\n"
        "ldr q22, [%[w], #32]\n"
        "and v24.16b, v20.16b, v31.16b\n"
        "sli v20.16b, v21.16b, #2\n"
        "and v25.16b, v21.16b, v31.16b\n"
        "and v26.16b, v22.16b, v31.16b\n"
        "sli v20.16b, v22.16b, #4\n"
        "sdot v0.4s, v24.16b, v16.4b[0]\n"
        "sdot v2.4s, v26.16b, v17.4b[0]\n"
        "shl v20.16b, v20.16b, #2\n"
        "sdot v0.4s, v25.16b, v16.4b[2]\n"
        "sdot v2.4s, v20.16b, v17.4b[2]\n"
        "ldp q4, q5, [%[w], #48]\n"
        "ldr q6, [%[w], #80]\n"
        "and v27.16b, v4.16b, v31.16b\n"
        "sli v4.16b, v5.16b, #2\n"
        "and v28.16b, v5.16b, v31.16b\n"
        "and v29.16b, v6.16b, v31.16b\n"
        "sli v4.16b, v6.16b, #4\n"
        "sdot v1.4s, v27.16b, v16.4b[0]\n"
        "sdot v3.4s, v29.16b, v17.4b[0]\n"
        "shl v4.16b, v4.16b, #2\n"
        "sdot v1.4s, v28.16b, v16.4b[2]\n"
        "sdot v3.4s, v4.16b, v17.4b[2]\n"
        "ldp q20, q21, [%[w], #96]\n"
        "ldr q22, [%[w], #128]\n"
        "and v24.16b, v20.16b, v31.16b\n"
        "sli v20.16b, v21.16b, #2\n"
        "and v25.16b, v21.16b, v31.16b\n"
        "and v26.16b, v22.16b, v31.16b\n"
        "sli v20.16b, v22.16b, #4\n"
        "sdot v0.4s, v24.16b, v16.4b[1]\n"
        "sdot v2.4s, v26.16b, v17.4b[1]\n"
        "shl v20.16b, v20.16b, #2\n"
        "sdot v0.4s, v25.16b, v16.4b[3]\n"
        "sdot v2.4s, v20.16b, v17.4b[3]\n"
        "ldp q4, q5, [%[w], #144]\n"
        "ldr q6, [%[w], #176]\n"
        "and v27.16b, v4.16b, v31.16b\n"
        "sli v4.16b, v5.16b, #2\n"
        "and v28.16b, v5.16b, v31.16b\n"
        "and v29.16b, v6.16b, v31.16b\n"
        "sli v4.16b, v6.16b, #4\n"
        "sdot v1.4s, v27.16b, v16.4b[1]\n"
        "sdot v3.4s, v29.16b, v17.4b[1]\n"
        "shl v4.16b, v4.16b, #2\n"
        "sdot v1.4s, v28.16b, v16.4b[3]\n"
        "sdot v3.4s, v4.16b, v17.4b[3]\n"
        "sxtl v19.8h, v18.8b\n"
        "sxtl2 v18.8h, v18.16b\n"
        "sxtl v24.4s, v19.4h\n"
        "sxtl2 v25.4s, v19.8h\n"
        "sxtl v26.4s, v18.4h\n"
        "sxtl2 v27.4s, v18.8h\n"
        "add %[w], %[w], #192\n"
        "mla %[low].4s, v0.4s, v24.4s\n"
        "mla %[high].4s, v1.4s, v25.4s\n"
        "mla %[low].4s, v2.4s, v26.4s\n"
        "mla %[high].4s, v3.4s, v27.4s\n"
        "subs %[units], %[units], #1\n"
        "b.ne 1b\n"
        : [w] "+r"(w), [scales] "+r"(scales), [q] "+r"(q), [units] "+r"(units), [low] "+w"(total.low),
          [high] "+w"(total.high)
        :
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v16", "v17", "v18", "v19", "v20", "v21", "v22",
          "v24", "v25", "v26", "v27", "v28", "v29", "v31");
    return total;
}

#undef HEARTH_SDOT_NIBBLES

}  // namespace

}  // namespace hearth
