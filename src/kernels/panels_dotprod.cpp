// AArch64 with the dot product extension: matmul over packed weights with SDOT.
#include "kernels/levels_arm.h"
#include "kernels/panels_arm_sdot_gemm.h"

#if !defined(__ARM_FEATURE_DOTPROD)
#error "this file needs the dot product extension; see room.cmake"
#endif

namespace hearth {

void install_dotprod_panels(Kernels& table) {
    install_panel_matmul(table);
}

}  // namespace hearth
