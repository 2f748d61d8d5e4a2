// Enters the panel matmuls of an x86 ISA file into the table. Include after its vocabulary.
#pragma once

#include "kernels/panels_x86_types.h"
// After the types.
#include "kernels/panels_x86_matmul256.h"
#include "kernels/panels_x86_matmul32.h"

namespace hearth {

namespace {

// matmul(type, function) for every packed type.
template <typename Visit>
constexpr void each_panel_matmul(Visit matmul) {
    matmul(DType::Q4_0, matmul_panels32<PanelQ4_0>);
    matmul(DType::Q4_1, matmul_panels32<PanelQ4_1>);
    matmul(DType::Q5_0, matmul_panels32<PanelQ5_0>);
    matmul(DType::Q5_1, matmul_panels32<PanelQ5_1>);
    matmul(DType::Q8_0, matmul_panels32<PanelQ8_0>);
    matmul(DType::IQ4_NL, matmul_panels32<PanelIQ4_NL>);
    matmul(DType::MXFP4, matmul_panels32<PanelMXFP4>);
    matmul(DType::Q2_K, matmul_panels256<PanelQ2_K>);
    matmul(DType::Q3_K, matmul_panels256<PanelQ3_K>);
    matmul(DType::Q4_K, matmul_panels256<PanelQ4_K>);
    matmul(DType::Q5_K, matmul_panels256<PanelQ5_K>);
    matmul(DType::Q6_K, matmul_panels256<PanelQ6_K>);
    matmul(DType::IQ4_XS, matmul_panels256<PanelIQ4_XS>);
    matmul(DType::TQ2_0, matmul_panels256<PanelTQ2_0>);
}

inline void install_panel_matmuls(Kernels& table) {
    each_panel_matmul([&table](DType type, void (*matmul)(const PanelTask&)) {
        table.panels[static_cast<std::size_t>(type)].matmul = matmul;
    });
}

}  // namespace

}  // namespace hearth
