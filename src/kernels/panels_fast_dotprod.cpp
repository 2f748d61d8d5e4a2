// AArch64 with the dot product extension: the fast matmul over packed weights.
#include "kernels/levels_arm.h"
#include "kernels/panels_arm_fast_sdot.h"

#if !defined(__ARM_FEATURE_DOTPROD)
#error "this file needs the dot product extension; see room.cmake"
#endif

namespace hearth {

void install_dotprod_fast_panels(Kernels& table) {
    install_fast<FastSdot>(table);
}

}  // namespace hearth
