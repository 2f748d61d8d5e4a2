// Enters the panel matmuls of an x86 ISA file into the table. Include after its vocabulary.
#pragma once

#include "kernels/panels_x86_types.h"
// After the types.
#include "kernels/panels_x86_matmul256.h"
#include "kernels/panels_x86_matmul32.h"

namespace hearth {

namespace {

inline void install_panel_matmuls(Kernels& table) {
    const auto set = [&table](DType type, void (*matmul)(const PanelTask&)) {
        table.panels[static_cast<std::size_t>(type)].matmul = matmul;
    };
    set(DType::Q4_0, matmul_panels32<PanelQ4_0>);
    set(DType::Q4_1, matmul_panels32<PanelQ4_1>);
    set(DType::Q5_0, matmul_panels32<PanelQ5_0>);
    set(DType::Q5_1, matmul_panels32<PanelQ5_1>);
    set(DType::Q8_0, matmul_panels32<PanelQ8_0>);
    set(DType::IQ4_NL, matmul_panels32<PanelIQ4_NL>);
    set(DType::MXFP4, matmul_panels32<PanelMXFP4>);
    set(DType::Q2_K, matmul_panels256<PanelQ2_K>);
    set(DType::Q3_K, matmul_panels256<PanelQ3_K>);
    set(DType::Q4_K, matmul_panels256<PanelQ4_K>);
    set(DType::Q5_K, matmul_panels256<PanelQ5_K>);
    set(DType::Q6_K, matmul_panels256<PanelQ6_K>);
    set(DType::IQ4_XS, matmul_panels256<PanelIQ4_XS>);
    set(DType::TQ2_0, matmul_panels256<PanelTQ2_0>);
}

}  // namespace

}  // namespace hearth
