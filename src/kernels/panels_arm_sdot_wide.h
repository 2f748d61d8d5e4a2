// Four tokens and eight rows of unpacked weights with SDOT, in assembly: compilers keep sums in memory, and spread
// floats among the products, where a Neoverse-N1 loses a turn for every multiplication. The sums of token t are v(2t)
// for rows 0 to 3 and v(2t + 1); v24-v27 are columns of the tokens, v28-v31 weights.
#pragma once

#include "kernels/panels_arm_sdot_tiles.h"

namespace hearth {

namespace {

// Sums that start from the bits of 1.5 * 2^(23 - kFraction) are floats that much too large: one subtraction, where
// SCVTF takes a Neoverse-N1 as long as four. They start from memory, because a load takes no vector operation.
template <int kFraction>
inline constexpr float kStart = 1.5f * static_cast<float>(1 << (23 - kFraction));
template <int kFraction>
alignas(16) inline constexpr float kStarts[8] = {kStart<kFraction>, kStart<kFraction>, kStart<kFraction>,
                                                 kStart<kFraction>, kStart<kFraction>, kStart<kFraction>,
                                                 kStart<kFraction>, kStart<kFraction>};

// v16-v23 the sums as floats, v8 where sums start.
template <typename Panel>
[[gnu::always_inline]] inline void add_blocks32(const WideBlock<Panel>* w, std::size_t blocks, const TileBlock32* x,
                                                const float (&starts)[8], TokenFloats<4>& acc) {
    static_assert(offsetof(WideBlock<Panel>, d) == 256);
    __asm__ volatile(
        "ldr q8, [%[starts]]\n"
        "ldp q16, q17, [%[acc]]\n"
        "ldp q18, q19, [%[acc], #32]\n"
        "ldp q20, q21, [%[acc], #64]\n"
        "ldp q22, q23, [%[acc], #96]\n"
        "1:\n"
        "ldp q0, q1, [%[starts]]\n"
        "ldp q2, q3, [%[starts]]\n"
        "ldp q4, q5, [%[starts]]\n"
        "ldp q6, q7, [%[starts]]\n"
        ".irp columns, 0, 1, 2, 3\n"
        "ldp q24, q25, [%[x]], #32\n"
        "ldp q28, q29, [%[w]], #32\n"
        "ldp q30, q31, [%[w]], #32\n"
        "sdot v0.4s, v28.16b, v24.4b[0]\n"
        "sdot v1.4s, v29.16b, v24.4b[0]\n"
        "sdot v2.4s, v28.16b, v24.4b[1]\n"
        "sdot v3.4s, v29.16b, v24.4b[1]\n"
        "sdot v4.4s, v28.16b, v24.4b[2]\n"
        "sdot v5.4s, v29.16b, v24.4b[2]\n"
        "sdot v6.4s, v28.16b, v24.4b[3]\n"
        "sdot v7.4s, v29.16b, v24.4b[3]\n"
        "sdot v0.4s, v30.16b, v25.4b[0]\n"
        "sdot v1.4s, v31.16b, v25.4b[0]\n"
        "sdot v2.4s, v30.16b, v25.4b[1]\n"
        "sdot v3.4s, v31.16b, v25.4b[1]\n"
        "sdot v4.4s, v30.16b, v25.4b[2]\n"
        "sdot v5.4s, v31.16b, v25.4b[2]\n"
        "sdot v6.4s, v30.16b, v25.4b[3]\n"
        "sdot v7.4s, v31.16b, v25.4b[3]\n"
        ".endr\n"
        "ldr q26, [%[x]], #32\n"
        "ldp q28, q29, [%[w]], %[next]\n"
        "fmul v9.4s, v28.4s, v26.s[0]\n"
        "fmul v10.4s, v29.4s, v26.s[0]\n"
        "fmul v11.4s, v28.4s, v26.s[1]\n"
        "fmul v12.4s, v29.4s, v26.s[1]\n"
        "fmul v13.4s, v28.4s, v26.s[2]\n"
        "fmul v14.4s, v29.4s, v26.s[2]\n"
        "fmul v15.4s, v28.4s, v26.s[3]\n"
        "fmul v30.4s, v29.4s, v26.s[3]\n"
        "fsub v0.4s, v0.4s, v8.4s\n"
        "fsub v1.4s, v1.4s, v8.4s\n"
        "fsub v2.4s, v2.4s, v8.4s\n"
        "fsub v3.4s, v3.4s, v8.4s\n"
        "fsub v4.4s, v4.4s, v8.4s\n"
        "fsub v5.4s, v5.4s, v8.4s\n"
        "fsub v6.4s, v6.4s, v8.4s\n"
        "fsub v7.4s, v7.4s, v8.4s\n"
        "fmla v16.4s, v0.4s, v9.4s\n"
        "fmla v17.4s, v1.4s, v10.4s\n"
        "fmla v18.4s, v2.4s, v11.4s\n"
        "fmla v19.4s, v3.4s, v12.4s\n"
        "fmla v20.4s, v4.4s, v13.4s\n"
        "fmla v21.4s, v5.4s, v14.4s\n"
        "fmla v22.4s, v6.4s, v15.4s\n"
        "fmla v23.4s, v7.4s, v30.4s\n"
        "subs %[blocks], %[blocks], #1\n"
        "b.ne 1b\n"
        "stp q16, q17, [%[acc]]\n"
        "stp q18, q19, [%[acc], #32]\n"
        "stp q20, q21, [%[acc], #64]\n"
        "stp q22, q23, [%[acc], #96]\n"
        : [w] "+r"(w), [blocks] "+r"(blocks), [x] "+r"(x)
        : [starts] "r"(&starts), [acc] "r"(&acc), [next] "i"(sizeof(*w) - offsetof(WideBlock<Panel>, d))
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
          "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v28", "v29", "v30",
          "v31");
}

// All sums of scale times product over the eight units of a block: v16-v23.
template <typename Panel>
[[gnu::always_inline]] inline TokenInts<4> block_sums256(const WideBlock<Panel>& block, const std::int8_t* x) {
    const WideUnit* w = block.units;
    const UnitScales* scales = block.of_units;
    std::size_t units = 8;
    TokenInts<4> out;
    __asm__ volatile(
        ".irp i, 16, 17, 18, 19, 20, 21, 22, 23\n"
        "movi v\\i\\().4s, #0\n"
        ".endr\n"
        "1:\n"
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7\n"
        "movi v\\i\\().4s, #0\n"
        ".endr\n"
        ".irp columns, 0, 1, 2, 3\n"
        "ldp q24, q25, [%[x]], #32\n"
        "ldp q28, q29, [%[w]], #32\n"
        "ldp q30, q31, [%[w]], #32\n"
        "sdot v0.4s, v28.16b, v24.4b[0]\n"
        "sdot v1.4s, v29.16b, v24.4b[0]\n"
        "sdot v2.4s, v28.16b, v24.4b[1]\n"
        "sdot v3.4s, v29.16b, v24.4b[1]\n"
        "sdot v4.4s, v28.16b, v24.4b[2]\n"
        "sdot v5.4s, v29.16b, v24.4b[2]\n"
        "sdot v6.4s, v28.16b, v24.4b[3]\n"
        "sdot v7.4s, v29.16b, v24.4b[3]\n"
        "sdot v0.4s, v30.16b, v25.4b[0]\n"
        "sdot v1.4s, v31.16b, v25.4b[0]\n"
        "sdot v2.4s, v30.16b, v25.4b[1]\n"
        "sdot v3.4s, v31.16b, v25.4b[1]\n"
        "sdot v4.4s, v30.16b, v25.4b[2]\n"
        "sdot v5.4s, v31.16b, v25.4b[2]\n"
        "sdot v6.4s, v30.16b, v25.4b[3]\n"
        "sdot v7.4s, v31.16b, v25.4b[3]\n"
        ".if %[sixteens] && \\columns == 1\n"
        "ldp q26, q27, [%[scales]]\n"
        "mla v16.4s, v0.4s, v26.4s\n"
        "mla v17.4s, v1.4s, v27.4s\n"
        "mla v18.4s, v2.4s, v26.4s\n"
        "mla v19.4s, v3.4s, v27.4s\n"
        "mla v20.4s, v4.4s, v26.4s\n"
        "mla v21.4s, v5.4s, v27.4s\n"
        "mla v22.4s, v6.4s, v26.4s\n"
        "mla v23.4s, v7.4s, v27.4s\n"
        "movi v0.4s, #0\n"
        "movi v1.4s, #0\n"
        "movi v2.4s, #0\n"
        "movi v3.4s, #0\n"
        "movi v4.4s, #0\n"
        "movi v5.4s, #0\n"
        "movi v6.4s, #0\n"
        "movi v7.4s, #0\n"
        ".endif\n"
        ".endr\n"
        "ldp q26, q27, [%[scales], #32]\n"
        "add %[scales], %[scales], #64\n"
        "mla v16.4s, v0.4s, v26.4s\n"
        "mla v17.4s, v1.4s, v27.4s\n"
        "mla v18.4s, v2.4s, v26.4s\n"
        "mla v19.4s, v3.4s, v27.4s\n"
        "mla v20.4s, v4.4s, v26.4s\n"
        "mla v21.4s, v5.4s, v27.4s\n"
        "mla v22.4s, v6.4s, v26.4s\n"
        "mla v23.4s, v7.4s, v27.4s\n"
        "subs %[units], %[units], #1\n"
        "b.ne 1b\n"
        "stp q16, q17, [%[out]]\n"
        "stp q18, q19, [%[out], #32]\n"
        "stp q20, q21, [%[out], #64]\n"
        "stp q22, q23, [%[out], #96]\n"
        : [w] "+r"(w), [scales] "+r"(scales), [units] "+r"(units), [x] "+r"(x)
        : [out] "r"(&out), [sixteens] "i"(Panel::kSub16 ? 1 : 0)
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21",
          "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
    return out;
}

}  // namespace

}  // namespace hearth
