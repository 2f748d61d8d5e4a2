// AArch64 with the dot product extension: the quantised matmuls again, with SDOT.
#include "kernels/levels_arm.h"
#include "kernels/simd_neon_types.h"
// After the vocabulary it is written in.
#include "kernels/simd_matmul.h"

#if !defined(__ARM_FEATURE_DOTPROD)
#error "this file needs the dot product extension; see room.cmake"
#endif

namespace hearth {

void install_dotprod(Kernels& table) {
    install_quantised_matmul(table);
    install_dotprod_panels(table);
    install_dotprod_fast_panels(table);
}

}  // namespace hearth
