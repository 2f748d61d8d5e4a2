// AArch64 baseline: packing of weights for every level, and matmul over them with SMULL.
#include "kernels/levels_arm.h"
#include "kernels/panels_arm_pack.h"
#include "kernels/panels_arm_sdot_gemm.h"

namespace hearth {

void install_neon_panels(Kernels& table) {
    install_pack<PanelQ4_0>(table, DType::Q4_0);
    install_pack<PanelQ4_1>(table, DType::Q4_1);
    install_pack<PanelQ5_0>(table, DType::Q5_0);
    install_pack<PanelQ5_1>(table, DType::Q5_1);
    install_pack<PanelQ8_0>(table, DType::Q8_0);
    install_pack<PanelIQ4_NL>(table, DType::IQ4_NL);
    install_pack<PanelMXFP4>(table, DType::MXFP4);
    install_pack<PanelQ2_K>(table, DType::Q2_K);
    install_pack<PanelQ3_K>(table, DType::Q3_K);
    install_pack<PanelQ4_K>(table, DType::Q4_K);
    install_pack<PanelQ5_K>(table, DType::Q5_K);
    install_pack<PanelQ6_K>(table, DType::Q6_K);
    install_pack<PanelIQ4_XS>(table, DType::IQ4_XS);
    install_pack<PanelTQ2_0>(table, DType::TQ2_0);
    table.panel_layout = "aarch64-8x8.2";
    install_panel_matmul(table);
}

}  // namespace hearth
