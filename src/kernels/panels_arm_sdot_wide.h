// Four tokens and eight rows of unpacked weights with SDOT, in assembly: compilers keep sums in memory, and spread
// floats among the products, where a Neoverse-N1 loses a turn for every multiplication. The sums of token t are v(2t)
// for rows 0 to 3 and v(2t + 1); v24-v27 are columns of the tokens, v28-v31 weights.
#pragma once

#include <bit>

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

// Adds the products of a unit of 32 columns to v0-v7.
#define HEARTH_SDOT_UNIT               \
    ".irp columns, 0, 1, 2, 3\n"       \
    "ldp q24, q25, [%[x]], #32\n"      \
    "ldp q28, q29, [%[w]], #32\n"      \
    "ldp q30, q31, [%[w]], #32\n"      \
    "sdot v0.4s, v28.16b, v24.4b[0]\n" \
    "sdot v1.4s, v29.16b, v24.4b[0]\n" \
    "sdot v2.4s, v28.16b, v24.4b[1]\n" \
    "sdot v3.4s, v29.16b, v24.4b[1]\n" \
    "sdot v4.4s, v28.16b, v24.4b[2]\n" \
    "sdot v5.4s, v29.16b, v24.4b[2]\n" \
    "sdot v6.4s, v28.16b, v24.4b[3]\n" \
    "sdot v7.4s, v29.16b, v24.4b[3]\n" \
    "sdot v0.4s, v30.16b, v25.4b[0]\n" \
    "sdot v1.4s, v31.16b, v25.4b[0]\n" \
    "sdot v2.4s, v30.16b, v25.4b[1]\n" \
    "sdot v3.4s, v31.16b, v25.4b[1]\n" \
    "sdot v4.4s, v30.16b, v25.4b[2]\n" \
    "sdot v5.4s, v31.16b, v25.4b[2]\n" \
    "sdot v6.4s, v30.16b, v25.4b[3]\n" \
    "sdot v7.4s, v31.16b, v25.4b[3]\n" \
    ".endr\n"

// How a block of 32 lies: its codes and then its scales as floats, or as it was packed, scales before codes and halves.
enum class Scales : std::uint8_t { FloatsBehind, HalvesBefore };

// v16-v23 the sums as floats, v8 where sums start. kNext: bytes from the scales behind a block to the next block.
template <Scales kScales, std::size_t kNext>
[[gnu::always_inline]] inline void add_blocks32(const void* w, std::size_t blocks, const TileBlock32* x,
                                                const float (&starts)[8], TokenFloats<4>& acc) {
    __asm__ volatile(
        "ldr q8, [%[starts]]\n"
        "ldp q16, q17, [%[acc]]\n"
        "ldp q18, q19, [%[acc], #32]\n"
        "ldp q20, q21, [%[acc], #64]\n"
        "ldp q22, q23, [%[acc], #96]\n"
        "1:\n"
        ".if %[before]\n"
        "ldr q27, [%[w]], #16\n"
        ".endif\n"
        "ldp q0, q1, [%[starts]]\n"
        "ldp q2, q3, [%[starts]]\n"
        "ldp q4, q5, [%[starts]]\n"
        "ldp q6, q7, [%[starts]]\n" HEARTH_SDOT_UNIT
        "ldr q26, [%[x]], #32\n"
        ".if %[before]\n"
        "fcvtl v28.4s, v27.4h\n"
        "fcvtl2 v29.4s, v27.8h\n"
        ".else\n"
        "ldp q28, q29, [%[w]], %[next]\n"
        ".endif\n"
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
        : [starts] "r"(&starts), [acc] "r"(&acc), [next] "i"(kNext), [before] "i"(kScales == Scales::HalvesBefore)
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
          "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29",
          "v30", "v31");
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
        ".endr\n" HEARTH_SDOT_UNIT
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
        : [out] "r"(&out)
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21",
          "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
    return out;
}

// The same where each sixteen columns have a scale: v0-v7 sums of the first, v8-v15 of the others. While one half is
// summed up the half before is scaled; before the first that is v8-v15 as zeros, whatever is read as their scales.
template <typename Panel>
requires(Panel::kSub16)
    [[gnu::always_inline]] inline TokenInts<4> block_sums256(const WideBlock<Panel>& block, const std::int8_t* x) {
    const WideUnit* w = block.units;
    const UnitScales* scales = block.of_units;
    std::size_t units = 8;
    TokenInts<4> out;
    __asm__ volatile(
        "movi v8.4s, #0\n"
        "movi v9.4s, #0\n"
        "movi v10.4s, #0\n"
        "movi v11.4s, #0\n"
        "movi v12.4s, #0\n"
        "movi v13.4s, #0\n"
        "movi v14.4s, #0\n"
        "movi v15.4s, #0\n"
        "movi v16.4s, #0\n"
        "movi v17.4s, #0\n"
        "movi v18.4s, #0\n"
        "movi v19.4s, #0\n"
        "movi v20.4s, #0\n"
        "movi v21.4s, #0\n"
        "movi v22.4s, #0\n"
        "movi v23.4s, #0\n"
        "1:\n"
        "movi v0.4s, #0\n"
        "movi v1.4s, #0\n"
        "movi v2.4s, #0\n"
        "movi v3.4s, #0\n"
        "movi v4.4s, #0\n"
        "movi v5.4s, #0\n"
        "movi v6.4s, #0\n"
        "movi v7.4s, #0\n"
        "ldp q26, q27, [%[scales], #-32]\n"
        "ldp q24, q25, [%[x]], #32\n"
        "ldp q28, q29, [%[w]], #32\n"
        "ldp q30, q31, [%[w]], #32\n"
        "mla v16.4s, v8.4s, v26.4s\n"
        "sdot v0.4s, v28.16b, v24.4b[0]\n"
        "sdot v1.4s, v29.16b, v24.4b[0]\n"
        "mla v17.4s, v9.4s, v27.4s\n"
        "sdot v2.4s, v28.16b, v24.4b[1]\n"
        "sdot v3.4s, v29.16b, v24.4b[1]\n"
        "mla v18.4s, v10.4s, v26.4s\n"
        "sdot v4.4s, v28.16b, v24.4b[2]\n"
        "sdot v5.4s, v29.16b, v24.4b[2]\n"
        "mla v19.4s, v11.4s, v27.4s\n"
        "sdot v6.4s, v28.16b, v24.4b[3]\n"
        "sdot v7.4s, v29.16b, v24.4b[3]\n"
        "mla v20.4s, v12.4s, v26.4s\n"
        "sdot v0.4s, v30.16b, v25.4b[0]\n"
        "sdot v1.4s, v31.16b, v25.4b[0]\n"
        "mla v21.4s, v13.4s, v27.4s\n"
        "sdot v2.4s, v30.16b, v25.4b[1]\n"
        "sdot v3.4s, v31.16b, v25.4b[1]\n"
        "mla v22.4s, v14.4s, v26.4s\n"
        "sdot v4.4s, v30.16b, v25.4b[2]\n"
        "sdot v5.4s, v31.16b, v25.4b[2]\n"
        "mla v23.4s, v15.4s, v27.4s\n"
        "sdot v6.4s, v30.16b, v25.4b[3]\n"
        "sdot v7.4s, v31.16b, v25.4b[3]\n"
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
        "movi v8.4s, #0\n"
        "movi v9.4s, #0\n"
        "movi v10.4s, #0\n"
        "movi v11.4s, #0\n"
        "movi v12.4s, #0\n"
        "movi v13.4s, #0\n"
        "movi v14.4s, #0\n"
        "movi v15.4s, #0\n"
        "ldp q26, q27, [%[scales]], #64\n"
        "ldp q24, q25, [%[x]], #32\n"
        "ldp q28, q29, [%[w]], #32\n"
        "ldp q30, q31, [%[w]], #32\n"
        "mla v16.4s, v0.4s, v26.4s\n"
        "sdot v8.4s, v28.16b, v24.4b[0]\n"
        "sdot v9.4s, v29.16b, v24.4b[0]\n"
        "mla v17.4s, v1.4s, v27.4s\n"
        "sdot v10.4s, v28.16b, v24.4b[1]\n"
        "sdot v11.4s, v29.16b, v24.4b[1]\n"
        "mla v18.4s, v2.4s, v26.4s\n"
        "sdot v12.4s, v28.16b, v24.4b[2]\n"
        "sdot v13.4s, v29.16b, v24.4b[2]\n"
        "mla v19.4s, v3.4s, v27.4s\n"
        "sdot v14.4s, v28.16b, v24.4b[3]\n"
        "sdot v15.4s, v29.16b, v24.4b[3]\n"
        "mla v20.4s, v4.4s, v26.4s\n"
        "sdot v8.4s, v30.16b, v25.4b[0]\n"
        "sdot v9.4s, v31.16b, v25.4b[0]\n"
        "mla v21.4s, v5.4s, v27.4s\n"
        "sdot v10.4s, v30.16b, v25.4b[1]\n"
        "sdot v11.4s, v31.16b, v25.4b[1]\n"
        "mla v22.4s, v6.4s, v26.4s\n"
        "sdot v12.4s, v30.16b, v25.4b[2]\n"
        "sdot v13.4s, v31.16b, v25.4b[2]\n"
        "mla v23.4s, v7.4s, v27.4s\n"
        "sdot v14.4s, v30.16b, v25.4b[3]\n"
        "sdot v15.4s, v31.16b, v25.4b[3]\n"
        "ldp q24, q25, [%[x]], #32\n"
        "ldp q28, q29, [%[w]], #32\n"
        "ldp q30, q31, [%[w]], #32\n"
        "sdot v8.4s, v28.16b, v24.4b[0]\n"
        "sdot v9.4s, v29.16b, v24.4b[0]\n"
        "sdot v10.4s, v28.16b, v24.4b[1]\n"
        "sdot v11.4s, v29.16b, v24.4b[1]\n"
        "sdot v12.4s, v28.16b, v24.4b[2]\n"
        "sdot v13.4s, v29.16b, v24.4b[2]\n"
        "sdot v14.4s, v28.16b, v24.4b[3]\n"
        "sdot v15.4s, v29.16b, v24.4b[3]\n"
        "sdot v8.4s, v30.16b, v25.4b[0]\n"
        "sdot v9.4s, v31.16b, v25.4b[0]\n"
        "sdot v10.4s, v30.16b, v25.4b[1]\n"
        "sdot v11.4s, v31.16b, v25.4b[1]\n"
        "sdot v12.4s, v30.16b, v25.4b[2]\n"
        "sdot v13.4s, v31.16b, v25.4b[2]\n"
        "sdot v14.4s, v30.16b, v25.4b[3]\n"
        "sdot v15.4s, v31.16b, v25.4b[3]\n"
        "subs %[units], %[units], #1\n"
        "b.ne 1b\n"
        "ldp q26, q27, [%[scales], #-32]\n"
        "mla v16.4s, v8.4s, v26.4s\n"
        "mla v17.4s, v9.4s, v27.4s\n"
        "mla v18.4s, v10.4s, v26.4s\n"
        "mla v19.4s, v11.4s, v27.4s\n"
        "mla v20.4s, v12.4s, v26.4s\n"
        "mla v21.4s, v13.4s, v27.4s\n"
        "mla v22.4s, v14.4s, v26.4s\n"
        "mla v23.4s, v15.4s, v27.4s\n"
        "stp q16, q17, [%[out]]\n"
        "stp q18, q19, [%[out], #32]\n"
        "stp q20, q21, [%[out], #64]\n"
        "stp q22, q23, [%[out], #96]\n"
        : [w] "+r"(w), [scales] "+r"(scales), [units] "+r"(units), [x] "+r"(x)
        : [out] "r"(&out)
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
          "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29",
          "v30", "v31");
    return out;
}

// A block of Q4_K, sums of four units at a time as floats, which are exact (kExactInFloats): v16-v23, in the end those
// of minimums times sums, which start from what 128 times is kStart<0>. v8 where sums start.
[[gnu::always_inline]] inline void add_block_q4_k(const WideBlock<PanelQuadQ4_K>& block, const TileBlock256& tile,
                                                  TokenFloats<4>& acc) {
    static constexpr std::int32_t kMinimumStart = std::bit_cast<std::int32_t>(kStart<0>) >> 7;
    alignas(16) static constexpr std::int32_t kMinimumStarts[8] = {kMinimumStart, kMinimumStart, kMinimumStart,
                                                                   kMinimumStart, kMinimumStart, kMinimumStart,
                                                                   kMinimumStart, kMinimumStart};
    static_assert(offsetof(TileBlock256, scale) == 1024 && offsetof(TileBlock256, whole_sums) == 1040);
    const WideUnit* w = block.units;
    const UnitScales* scales = block.of_units;
    const TileBlock256* x = &tile;
    std::size_t halves = 2;
    std::size_t units;
    TokenFloats<4> first;
    __asm__ volatile(
        "ldr q8, [%[starts]]\n"
        "2:\n"
        "mov %[units], #4\n"
        ".irp i, 16, 17, 18, 19, 20, 21, 22, 23\n"
        "movi v\\i\\().4s, #0\n"
        ".endr\n"
        "1:\n"
        "ldp q0, q1, [%[starts]]\n"
        "ldp q2, q3, [%[starts]]\n"
        "ldp q4, q5, [%[starts]]\n"
        "ldp q6, q7, [%[starts]]\n" HEARTH_SDOT_UNIT
        "ldp q26, q27, [%[scales]], #64\n"
        "fsub v0.4s, v0.4s, v8.4s\n"
        "fsub v1.4s, v1.4s, v8.4s\n"
        "fsub v2.4s, v2.4s, v8.4s\n"
        "fsub v3.4s, v3.4s, v8.4s\n"
        "fsub v4.4s, v4.4s, v8.4s\n"
        "fsub v5.4s, v5.4s, v8.4s\n"
        "fsub v6.4s, v6.4s, v8.4s\n"
        "fsub v7.4s, v7.4s, v8.4s\n"
        "fmla v16.4s, v0.4s, v26.4s\n"
        "fmla v17.4s, v1.4s, v27.4s\n"
        "fmla v18.4s, v2.4s, v26.4s\n"
        "fmla v19.4s, v3.4s, v27.4s\n"
        "fmla v20.4s, v4.4s, v26.4s\n"
        "fmla v21.4s, v5.4s, v27.4s\n"
        "fmla v22.4s, v6.4s, v26.4s\n"
        "fmla v23.4s, v7.4s, v27.4s\n"
        "subs %[units], %[units], #1\n"
        "b.ne 1b\n"
        "subs %[halves], %[halves], #1\n"
        "b.eq 3f\n"
        "stp q16, q17, [%[first]]\n"
        "stp q18, q19, [%[first], #32]\n"
        "stp q20, q21, [%[first], #64]\n"
        "stp q22, q23, [%[first], #96]\n"
        "b 2b\n"
        "3:\n"
        "ldp q0, q1, [%[first]]\n"
        "ldp q2, q3, [%[first], #32]\n"
        "ldp q4, q5, [%[first], #64]\n"
        "ldp q6, q7, [%[first], #96]\n"
        "ldr q26, [%[x]], #16\n"
        "ldp q28, q29, [%[d]]\n"
        "fadd v16.4s, v16.4s, v0.4s\n"
        "fadd v17.4s, v17.4s, v1.4s\n"
        "fadd v18.4s, v18.4s, v2.4s\n"
        "fadd v19.4s, v19.4s, v3.4s\n"
        "fadd v20.4s, v20.4s, v4.4s\n"
        "fadd v21.4s, v21.4s, v5.4s\n"
        "fadd v22.4s, v22.4s, v6.4s\n"
        "fadd v23.4s, v23.4s, v7.4s\n"
        "ldp q0, q1, [%[acc]]\n"
        "ldp q2, q3, [%[acc], #32]\n"
        "ldp q4, q5, [%[acc], #64]\n"
        "ldp q6, q7, [%[acc], #96]\n"
        "fmul v9.4s, v28.4s, v26.s[0]\n"
        "fmul v10.4s, v29.4s, v26.s[0]\n"
        "fmul v11.4s, v28.4s, v26.s[1]\n"
        "fmul v12.4s, v29.4s, v26.s[1]\n"
        "fmul v13.4s, v28.4s, v26.s[2]\n"
        "fmul v14.4s, v29.4s, v26.s[2]\n"
        "fmul v15.4s, v28.4s, v26.s[3]\n"
        "fmul v30.4s, v29.4s, v26.s[3]\n"
        "fmla v0.4s, v16.4s, v9.4s\n"
        "fmla v1.4s, v17.4s, v10.4s\n"
        "fmla v2.4s, v18.4s, v11.4s\n"
        "fmla v3.4s, v19.4s, v12.4s\n"
        "fmla v4.4s, v20.4s, v13.4s\n"
        "fmla v5.4s, v21.4s, v14.4s\n"
        "fmla v6.4s, v22.4s, v15.4s\n"
        "fmla v7.4s, v23.4s, v30.4s\n"
        "ldp q28, q29, [%[minimums]]\n"
        "ldp q24, q25, [%[x]]\n"
        "ldp q16, q17, [%[minimum_starts]]\n"
        "ldp q18, q19, [%[minimum_starts]]\n"
        "ldp q20, q21, [%[minimum_starts]]\n"
        "ldp q22, q23, [%[minimum_starts]]\n"
        "sdot v16.4s, v28.16b, v24.4b[0]\n"
        "sdot v17.4s, v29.16b, v24.4b[0]\n"
        "sdot v18.4s, v28.16b, v24.4b[1]\n"
        "sdot v19.4s, v29.16b, v24.4b[1]\n"
        "sdot v20.4s, v28.16b, v24.4b[2]\n"
        "sdot v21.4s, v29.16b, v24.4b[2]\n"
        "sdot v22.4s, v28.16b, v24.4b[3]\n"
        "sdot v23.4s, v29.16b, v24.4b[3]\n"
        "ldp q30, q31, [%[minimums], #32]\n"
        "sdot v16.4s, v30.16b, v25.4b[0]\n"
        "sdot v17.4s, v31.16b, v25.4b[0]\n"
        "sdot v18.4s, v30.16b, v25.4b[1]\n"
        "sdot v19.4s, v31.16b, v25.4b[1]\n"
        "sdot v20.4s, v30.16b, v25.4b[2]\n"
        "sdot v21.4s, v31.16b, v25.4b[2]\n"
        "sdot v22.4s, v30.16b, v25.4b[3]\n"
        "sdot v23.4s, v31.16b, v25.4b[3]\n"
        "ldp q24, q25, [%[x], #32]\n"
        "fneg v26.4s, v26.4s\n"
        "shl v16.4s, v16.4s, #7\n"
        "shl v17.4s, v17.4s, #7\n"
        "shl v18.4s, v18.4s, #7\n"
        "shl v19.4s, v19.4s, #7\n"
        "shl v20.4s, v20.4s, #7\n"
        "shl v21.4s, v21.4s, #7\n"
        "shl v22.4s, v22.4s, #7\n"
        "shl v23.4s, v23.4s, #7\n"
        "sdot v16.4s, v28.16b, v24.4b[0]\n"
        "sdot v17.4s, v29.16b, v24.4b[0]\n"
        "sdot v18.4s, v28.16b, v24.4b[1]\n"
        "sdot v19.4s, v29.16b, v24.4b[1]\n"
        "sdot v20.4s, v28.16b, v24.4b[2]\n"
        "sdot v21.4s, v29.16b, v24.4b[2]\n"
        "sdot v22.4s, v28.16b, v24.4b[3]\n"
        "sdot v23.4s, v29.16b, v24.4b[3]\n"
        "sdot v16.4s, v30.16b, v25.4b[0]\n"
        "sdot v17.4s, v31.16b, v25.4b[0]\n"
        "sdot v18.4s, v30.16b, v25.4b[1]\n"
        "sdot v19.4s, v31.16b, v25.4b[1]\n"
        "sdot v20.4s, v30.16b, v25.4b[2]\n"
        "sdot v21.4s, v31.16b, v25.4b[2]\n"
        "sdot v22.4s, v30.16b, v25.4b[3]\n"
        "sdot v23.4s, v31.16b, v25.4b[3]\n"
        "ldp q28, q29, [%[dmin]]\n"
        "fmul v9.4s, v28.4s, v26.s[0]\n"
        "fmul v10.4s, v29.4s, v26.s[0]\n"
        "fmul v11.4s, v28.4s, v26.s[1]\n"
        "fmul v12.4s, v29.4s, v26.s[1]\n"
        "fmul v13.4s, v28.4s, v26.s[2]\n"
        "fmul v14.4s, v29.4s, v26.s[2]\n"
        "fmul v15.4s, v28.4s, v26.s[3]\n"
        "fmul v30.4s, v29.4s, v26.s[3]\n"
        "fsub v16.4s, v16.4s, v8.4s\n"
        "fsub v17.4s, v17.4s, v8.4s\n"
        "fsub v18.4s, v18.4s, v8.4s\n"
        "fsub v19.4s, v19.4s, v8.4s\n"
        "fsub v20.4s, v20.4s, v8.4s\n"
        "fsub v21.4s, v21.4s, v8.4s\n"
        "fsub v22.4s, v22.4s, v8.4s\n"
        "fsub v23.4s, v23.4s, v8.4s\n"
        "fmla v0.4s, v16.4s, v9.4s\n"
        "fmla v1.4s, v17.4s, v10.4s\n"
        "fmla v2.4s, v18.4s, v11.4s\n"
        "fmla v3.4s, v19.4s, v12.4s\n"
        "fmla v4.4s, v20.4s, v13.4s\n"
        "fmla v5.4s, v21.4s, v14.4s\n"
        "fmla v6.4s, v22.4s, v15.4s\n"
        "fmla v7.4s, v23.4s, v30.4s\n"
        "stp q0, q1, [%[acc]]\n"
        "stp q2, q3, [%[acc], #32]\n"
        "stp q4, q5, [%[acc], #64]\n"
        "stp q6, q7, [%[acc], #96]\n"
        : [w] "+r"(w), [scales] "+r"(scales), [x] "+r"(x), [halves] "+r"(halves), [units] "=&r"(units)
        : [acc] "r"(&acc), [first] "r"(&first), [starts] "r"(&kStarts<0>), [minimum_starts] "r"(&kMinimumStarts),
          [minimums] "r"(block.packed + PanelQuadQ4_K::kMinimumsAt), [d] "r"(&block.d), [dmin] "r"(&block.minimum)
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
          "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29",
          "v30", "v31");
}

#undef HEARTH_SDOT_UNIT

}  // namespace

}  // namespace hearth
