// x86-64 with AVX-512 VNNI: the packed weights on 512-bit registers.
#include "kernels/panels_x86.h"
#include "kernels/panels_x86_avx512.h"
// After the vocabulary it is written in.
#include "kernels/panels_x86_install.h"

#if !defined(__AVX512VNNI__) || !defined(__AVX512BW__)
#error "this file needs AVX-512 BW and VNNI; see room.cmake"
#endif

namespace hearth {

void install_avx512_panels(Kernels& table) {
    install_panel_matmuls(table);
}

}  // namespace hearth
