// AArch64 with the dot product extension: packing of weights in an order of its own, and matmul over them with SDOT.
#include "kernels/levels_arm.h"
#include "kernels/panels_arm_pack.h"
#include "kernels/panels_arm_sdot.h"

#if !defined(__ARM_FEATURE_DOTPROD)
#error "this file needs the dot product extension; see room.cmake"
#endif

namespace hearth {

void install_dotprod_panels(Kernels& table) {
    install_packs<Order::Quads, PanelQuadQ4_0, PanelQuadQ4_K, PanelQuadQ5_K>(table);
    table.panel_layout = "aarch64-dotprod-8x4.1";
    install_panel_matmul<Sdot>(table);
    table.tile_tokens = kSdotTileTokens;
    table.tiles_from = 2;
    table.tile_q8x32 = tile_q8x32;
    table.tile_q8x256 = tile_q8x256;
}

}  // namespace hearth
