// AArch64 baseline: packing of weights, and matmul over them with SMULL.
#include "kernels/levels_arm.h"
#include "kernels/panels_arm_pack.h"
#include "kernels/panels_arm_smull.h"

namespace hearth {

void install_neon_panels(Kernels& table) {
    install_packs<Order::Pairs, PanelQ4_0, PanelQ4_K, PanelQ5_K>(table);
    table.panel_layout = "aarch64-8x8.2";
    install_panel_matmul<Smull>(table);
}

}  // namespace hearth
