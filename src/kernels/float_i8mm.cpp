// AArch64 with the multiplications of halves into floats that every CPU of the i8mm level has: matmul of float weights.
#include "kernels/levels_arm.h"
#include "kernels/matmul_arm_float.h"

#if !defined(__ARM_FEATURE_FP16_FML)
#error "this file needs the half-precision multiplication extension; see room.cmake"
#endif

namespace hearth {

void install_i8mm_float_matmul(Kernels& table) {
    install_float_matmul(table);
}

}  // namespace hearth
