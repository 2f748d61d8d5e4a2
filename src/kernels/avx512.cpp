// x86-64 with AVX-512 VNNI: the quantised matmuls again, with VPDPBUSD and VPDPWSSD on 256-bit registers.
#include "kernels/panels_x86.h"
#include "kernels/simd_avx2_types.h"
// After the vocabulary it is written in.
#include "kernels/simd_matmul.h"

#if !defined(__AVX512VNNI__) || !defined(__AVX512VL__)
#error "this file needs AVX-512 VL and VNNI; see room.cmake"
#endif

namespace hearth {

void install_avx512(Kernels& table) {
    install_quantised_matmul(table);
    install_avx512_panels(table);
    install_avx512_fast(table);
    install_avx512_vectors(table);
    install_avx512_float(table);
}

}  // namespace hearth
