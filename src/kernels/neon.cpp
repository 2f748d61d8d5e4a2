// AArch64 baseline: every operation in NEON.
#include "kernels/levels_arm.h"
#include "kernels/simd_neon_types.h"
// After the vocabulary they are written in.
#include "kernels/simd_float.h"
#include "kernels/simd_kv.h"
#include "kernels/simd_matmul.h"
// After simd_float.h, in this order.
#include "kernels/simd_attention_tiles.h"
// After the tiles.
#include "kernels/simd_attention.h"

namespace hearth {

void install_neon(Kernels& table) {
    install_quantised_matmul(table);
    install_float(table);
    install_attention(table);
    install_neon_float_matmul(table);
    install_neon_panels(table);
}

}  // namespace hearth
