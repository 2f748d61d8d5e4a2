// AArch64 with the int8 matrix multiply extension: the quantised matmuls of two and more tokens, with SMMLA.
#include "kernels/levels_arm.h"
#include "kernels/simd_neon_types.h"
// After the vocabulary it is written in.
#include "kernels/simd_matmul.h"
// After simd_matmul.h.
#include "kernels/simd_i8mm.h"

#if !defined(__ARM_FEATURE_DOTPROD) || !defined(__ARM_FEATURE_MATMUL_INT8)
#error "this file needs the dot product and int8 matrix multiply extensions; see room.cmake"
#endif

namespace hearth {

void install_i8mm(Kernels& table) {
    install_paired_matmul(table);
    install_i8mm_float_matmul(table);
    install_i8mm_panels(table);
    install_i8mm_fast_panels(table);
}

}  // namespace hearth
