// x86-64 with AVX2: the packed weights, and how they are packed for every x86 level.
#include "kernels/panels_x86.h"
#include "kernels/panels_x86_avx2.h"
#include "kernels/panels_x86_pack.h"
// After the vocabulary it is written in.
#include "kernels/panels_x86_install.h"

#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "this file needs AVX2, FMA and F16C; see room.cmake"
#endif

namespace hearth {

void install_avx2_panels(Kernels& table) {
    pack_x86::install(table);
    install_panel_matmuls(table);
}

}  // namespace hearth
