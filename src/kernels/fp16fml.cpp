// AArch64 with the widening half-precision multiplies: attention again, whose conversions of K and V they make cheap.
#include "kernels/simd_neon_types.h"
// After the vocabulary it is written in.
#include "kernels/simd_float.h"
#include "kernels/simd_kv.h"
// After simd_float.h.
#include "kernels/simd_attention_tiles.h"
// After the tiles.
#include "kernels/simd_attention.h"

#if !defined(__ARM_FEATURE_FP16_FML)
#error "this file needs FMLAL; see room.cmake"
#endif

namespace hearth {

void install_fp16fml(Kernels& table) {
    install_attention(table);
}

}  // namespace hearth
