// One token with weights that are used as they lie, in assembly (see panels_arm_sdot_wide.h).
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

}  // namespace

}  // namespace hearth
