// AArch64 with the int8 matrix multiply extension: matmul over packed weights.
#include <type_traits>

#include "kernels/levels_arm.h"
#include "kernels/panels_arm_gemm.h"
#include "kernels/panels_arm_i8mm.h"
#include "kernels/panels_arm_pack.h"
#include "kernels/panels_arm_tiles.h"

#if !defined(__ARM_FEATURE_DOTPROD) || !defined(__ARM_FEATURE_MATMUL_INT8)
#error "this file needs the dot product and int8 matrix multiply extensions; see room.cmake"
#endif

namespace hearth {

namespace {

// Up to so many tokens it is better to unpack weights in registers than to unpack them to memory.
inline constexpr std::size_t kFewTokens = 2 * kTileTokens;

// Types that are so fast with two tokens and four that six are better served by tiles of four and two.
template <typename Panel>
inline constexpr bool kTileByTile = std::is_same_v<Panel, PanelQ4_1> || kInAssembly<Panel>;

template <typename Panel>
void two_tiles(const PanelTask& task, std::size_t row) {
    const bool is_half = task.tokens <= kTileTokens + 2;  // the second tile
    if constexpr (!kTileByTile<Panel>) {
        if (is_half) return multiply_tile<Panel, 3>(task, row, 0);
    }
    if constexpr (!std::is_same_v<Panel, PanelQ4_1>) {
        if (!is_half) return multiply_tile<Panel, 4>(task, row, 0);
    }
    multiply_tile<Panel, 2>(task, row, 0);
    if (is_half) return multiply_tile<Panel, 1>(task, row, kTileTokens);
    multiply_tile<Panel, 2>(task, row, kTileTokens);
}

bool few_tokens_q4_0(const PanelTask& task) {
    if (task.tokens == 1) return one_token_q4_0(task);
    if (task.tokens <= 2) return multiply_q4_0<1>(task);
    if (task.tokens <= kTileTokens) return multiply_q4_0<2>(task);
    return multiply_q4_0<4>(task);
}

template <typename Panel>
void panel_matmul(const PanelTask& task) {
    if constexpr (std::is_same_v<Panel, PanelMixedQ4_0>) {
        if (task.tokens <= kFewTokens && few_tokens_q4_0(task)) return;
    }
    if (task.tokens == 1) return one_token<Panel>(task);
    if (task.tokens > kFewTokens) return many_tokens<Panel>(task);
    for (std::size_t row = 0; row < task.rows; row += kPanelRows) {
        if (task.tokens <= 2) {
            multiply_tile<Panel, 1>(task, row, 0);
        } else if (task.tokens <= kTileTokens) {
            multiply_tile<Panel, 2>(task, row, 0);
        } else {
            two_tiles<Panel>(task, row);
        }
    }
}

}  // namespace

void install_i8mm_panels(Kernels& table) {
    install_packs<Order::Pairs, PanelMixedQ4_0, PanelQ4_K, PanelQ5_K>(table);
    table.panel_layout = "aarch64-i8mm-8x8.1";
    const auto set = [&table](DType type, void (*matmul)(const PanelTask&)) {
        table.panels[static_cast<std::size_t>(type)].matmul = matmul;
    };
    set(DType::Q4_0, panel_matmul<PanelMixedQ4_0>);
    set(DType::Q4_1, panel_matmul<PanelQ4_1>);
    set(DType::Q5_0, panel_matmul<PanelQ5_0>);
    set(DType::Q5_1, panel_matmul<PanelQ5_1>);
    set(DType::Q8_0, panel_matmul<PanelQ8_0>);
    set(DType::IQ4_NL, panel_matmul<PanelIQ4_NL>);
    set(DType::MXFP4, panel_matmul<PanelMXFP4>);
    set(DType::Q2_K, panel_matmul<PanelQ2_K>);
    set(DType::Q3_K, panel_matmul<PanelQ3_K>);
    set(DType::Q4_K, panel_matmul<PanelQ4_K>);
    set(DType::Q5_K, panel_matmul<PanelQ5_K>);
    set(DType::Q6_K, panel_matmul<PanelQ6_K>);
    set(DType::IQ4_XS, panel_matmul<PanelIQ4_XS>);
    set(DType::TQ2_0, panel_matmul<PanelTQ2_0>);
    table.tile_tokens = kTileTokens;
    table.tiles_from = 2;
    table.tile_q8x32 = tile_q8x32;
    table.tile_q8x256 = tile_q8x256;
}

}  // namespace hearth
