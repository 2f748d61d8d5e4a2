// x86-64 with AVX-512: float operations, quantisers and attention on 512-bit registers.
#include "kernels/panels_x86.h"
#include "kernels/simd_avx512.h"
// After the vocabulary it is written in.
#include "kernels/simd_float.h"
#include "kernels/simd_kv.h"
// After simd_float.h, in this order.
#include "kernels/simd_attention_tiles.h"
// After the tiles.
#include "kernels/simd_attention.h"

#if !defined(__AVX512F__) || !defined(__AVX512DQ__)
#error "this file needs AVX-512 F and DQ; see room.cmake"
#endif

namespace hearth {

void install_avx512_vectors(Kernels& table) {
    install_float(table);
    install_attention(table);
}

}  // namespace hearth
