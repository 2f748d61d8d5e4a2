// x86-64 with AVX-512 VNNI: the packed weights on 512-bit registers.
#include "kernels/panels_x86.h"
#include "kernels/panels_x86_avx512.h"
// After the vocabulary it is written in.
#include "kernels/panels_x86_install.h"

#if !defined(__AVX512VNNI__) || !defined(__AVX512BW__)
#error "this file needs AVX-512 BW and VNNI; see room.cmake"
#endif

namespace hearth {

namespace {

struct PanelMatmuls {
    void (*of[kDTypeLimit])(const PanelTask&) = {};

    constexpr PanelMatmuls() {
        each_panel_matmul(
            [this](DType type, void (*matmul)(const PanelTask&)) { of[static_cast<std::size_t>(type)] = matmul; });
    }
};
constexpr PanelMatmuls kMatmuls;

}  // namespace

void matmul_panels_avx512(DType type, const PanelTask& task) {
    kMatmuls.of[static_cast<std::size_t>(type)](task);
}

void install_avx512_panels(Kernels& table) {
    install_panel_matmuls(table);
}

}  // namespace hearth
