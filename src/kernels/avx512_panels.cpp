// x86-64 with AVX-512 VNNI: the packed weights on 512-bit registers.
#include "base/check.h"
#include "kernels/panels_x86.h"
#include "kernels/panels_x86_avx512.h"
// After the vocabulary it is written in.
#include "kernels/panels_x86_install.h"

#if !defined(__AVX512VNNI__) || !defined(__AVX512BW__)
#error "this file needs AVX-512 BW and VNNI; see room.cmake"
#endif

namespace hearth {

void matmul_panels_avx512(DType type, const PanelTask& task) {
    switch (type) {
        case DType::Q2_K: return matmul_panels256<PanelQ2_K>(task);
        case DType::Q3_K: return matmul_panels256<PanelQ3_K>(task);
        case DType::Q4_K: return matmul_panels256<PanelQ4_K>(task);
        case DType::Q5_K: return matmul_panels256<PanelQ5_K>(task);
        case DType::Q6_K: return matmul_panels256<PanelQ6_K>(task);
        case DType::IQ4_XS: return matmul_panels256<PanelIQ4_XS>(task);
        default: CHECK(false);
    }
}

void install_avx512_panels(Kernels& table) {
    install_panel_matmuls(table);
}

}  // namespace hearth
