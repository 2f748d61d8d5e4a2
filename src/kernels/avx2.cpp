// x86-64 with AVX2, FMA and F16C: every operation.
#include "kernels/panels_x86.h"
#include "kernels/simd_avx2_types.h"
// After the vocabulary they are written in.
#include "kernels/simd_float.h"
#include "kernels/simd_kv.h"
#include "kernels/simd_matmul.h"
// After simd_float.h, in this order.
#include "kernels/simd_attention_tiles.h"
// After the tiles.
#include "kernels/simd_attention.h"

#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "this file needs AVX2, FMA and F16C; see room.cmake"
#endif

namespace hearth {

void install_avx2(Kernels& table) {
    install_quantised_matmul(table);
    install_float(table);
    install_attention(table);
    install_avx2_panels(table);
    install_avx2_float(table);
}

}  // namespace hearth
