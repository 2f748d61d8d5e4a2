// Packing of weights into the panels of AArch64. The bytes are the same at every level, but for
// Q4_0 with the int8 matrix multiply extension.
#pragma once

#include "kernels/panels_arm_types.h"

namespace hearth {

namespace {

template <typename Panel>
void pack_block(const typename Panel::Block* const (&rows)[kPanelRows], std::byte* out) {
    if constexpr (Panel::kColumns == kBlock32) {
        Panel::pack_header(rows, out);
    } else {
        __builtin_memset(out, 0, Panel::kUnitsAt);
        for (std::size_t r = 0; r < kPanelRows; ++r) {
            if (rows[r] != nullptr) Panel::pack_row_header(*rows[r], r, out);
        }
    }
    for (std::size_t unit = 0; unit < Panel::kColumns / kUnitColumns; ++unit) {
        std::byte* at = out + Panel::kUnitsAt + unit * Panel::Unit::kBytes;
        for (std::size_t r = 0; r < kPanelRows; ++r) {
            Words32 codes = {};
            if (rows[r] != nullptr) {
                codes = Panel::codes(*rows[r], unit);
                for (std::uint64_t& word : codes.word) word ^= every_byte(Panel::kFlip);
            }
            Panel::Unit::pack(codes, r, at);
        }
    }
}

template <typename Panel>
void pack_panel(const PackTask& task) {
    using Block = typename Panel::Block;
    for (std::size_t b = 0; b < task.columns / Panel::kColumns; ++b) {
        const Block* rows[kPanelRows] = {};
        for (std::size_t r = 0; r < task.rows; ++r) {
            rows[r] = reinterpret_cast<const Block*>(task.weights + r * task.weight_row_bytes) + b;
        }
        pack_block<Panel>(rows, task.out + b * Panel::kBlockBytes);
    }
}

template <typename Panel>
void install_pack(Kernels& table, DType type) {
    PanelKernels& panels = table.panels[static_cast<std::size_t>(type)];
    panels.rows = kPanelRows;
    panels.block_columns = Panel::kColumns;
    panels.block_bytes = Panel::kBlockBytes;
    panels.pack = pack_panel<Panel>;
}

}  // namespace

}  // namespace hearth
