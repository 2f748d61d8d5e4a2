// AArch64 baseline: matmul of float weights.
#include "kernels/levels_arm.h"
#include "kernels/matmul_arm_float.h"

namespace hearth {

void install_neon_float_matmul(Kernels& table) {
    install_float_matmul(table);
}

}  // namespace hearth
