// AArch64 with the int8 matrix multiply extension: the fast matmul over packed weights.
#include "kernels/levels_arm.h"
#include "kernels/panels_arm_fast.h"

#if !defined(__ARM_FEATURE_DOTPROD) || !defined(__ARM_FEATURE_MATMUL_INT8)
#error "this file needs the dot product and int8 matrix multiply extensions; see room.cmake"
#endif

namespace hearth {

void install_i8mm_fast_panels(Kernels& table) {
    const auto set = [&table](DType type, void (*matmul)(const PanelTask&)) {
        table.fast.panels_matmul[static_cast<std::size_t>(type)] = matmul;
    };
    set(DType::Q4_0, fast_matmul<PanelMixedQ4_0>);
    set(DType::Q4_1, fast_matmul<PanelQ4_1>);
    set(DType::Q5_0, fast_matmul<PanelQ5_0>);
    set(DType::Q5_1, fast_matmul<PanelQ5_1>);
    set(DType::Q8_0, fast_matmul<PanelQ8_0>);
    set(DType::IQ4_NL, fast_matmul<PanelIQ4_NL>);
    set(DType::MXFP4, fast_matmul<PanelMXFP4>);
    set(DType::Q2_K, fast_matmul<PanelQ2_K>);
    set(DType::Q3_K, fast_matmul<PanelQ3_K>);
    set(DType::Q4_K, fast_matmul<PanelQ4_K>);
    set(DType::Q5_K, fast_matmul<PanelQ5_K>);
    set(DType::Q6_K, fast_matmul<PanelQ6_K>);
    set(DType::IQ4_XS, fast_matmul<PanelIQ4_XS>);
    set(DType::TQ2_0, fast_matmul<PanelTQ2_0>);
    table.fast.tile_tokens = kFastTokens;
    table.fast.tile = fast_tile;
}

}  // namespace hearth
