// AArch64 with the int8 matrix multiply extension: the fast matmul over packed weights.
#include "kernels/levels_arm.h"
#include "kernels/panels_arm_fast_smmla.h"

#if !defined(__ARM_FEATURE_DOTPROD) || !defined(__ARM_FEATURE_MATMUL_INT8)
#error "this file needs the dot product and int8 matrix multiply extensions; see room.cmake"
#endif

namespace hearth {

void install_i8mm_fast_panels(Kernels& table) {
    install_fast<FastSmmla>(table);
}

}  // namespace hearth
