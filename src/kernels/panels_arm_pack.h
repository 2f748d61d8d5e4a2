// Packing of weights into the panels of AArch64.
#pragma once

#include "kernels/panels_arm_types.h"

namespace hearth {

namespace {

// How the weights of a unit lie in its sixteen vectors.
enum class Order {
    Pairs,  // eight columns of two rows, for SMMLA (and SMULL)
    Quads,  // vector 4 * s + p: columns 4g to 4g + 3, g = 2s + p / 2, of rows 4 * (p % 2) and on, for SDOT
};

// Half of a vector of Quads is two rows of four columns: what Pairs would have as eight columns of a row.
inline void to_quads(Words32 (&rows)[kPanelRows]) {
    constexpr std::uint64_t kFourColumns = 0xffffffffu;
    Words32 quads[kPanelRows];
    for (std::size_t half = 0; half < kPanelRows; ++half) {
        const std::size_t p = half / 2;
        const std::size_t row = 4 * (p % 2) + 2 * (half % 2);
        for (std::size_t s = 0; s < 4; ++s) {
            const std::uint64_t first = rows[row].word[s] >> (p / 2 * 32);
            const std::uint64_t second = rows[row + 1].word[s] >> (p / 2 * 32);
            quads[half].word[s] = (first & kFourColumns) | second << 32;
        }
    }
    for (std::size_t i = 0; i < kPanelRows; ++i) rows[i] = quads[i];
}

// The same for integer minimums, eight of each row: vector 2 * (j / 4) + row / 4 holds four of four rows.
inline void minimums_to_quads(std::byte* at) {
    std::byte quads[64];
    for (std::size_t row = 0; row < kPanelRows; ++row) {
        for (std::size_t j = 0; j < 8; ++j) {
            quads[16 * (2 * (j / 4) + row / 4) + 4 * (row % 4) + j % 4] = at[8 * row + j];
        }
    }
    __builtin_memcpy(at, quads, sizeof quads);
}

template <typename Panel, Order kOrder>
void pack_block(const typename Panel::Block* const (&rows)[kPanelRows], std::byte* out) {
    if constexpr (Panel::kColumns == kBlock32) {
        Panel::pack_header(rows, out);
    } else {
        __builtin_memset(out, 0, Panel::kUnitsAt);
        for (std::size_t r = 0; r < kPanelRows; ++r) {
            if (rows[r] != nullptr) Panel::pack_row_header(*rows[r], r, out);
        }
        if constexpr (Panel::kMinimum && kOrder == Order::Quads) minimums_to_quads(out + Panel::kMinimumsAt);
    }
    for (std::size_t unit = 0; unit < Panel::kColumns / kUnitColumns; ++unit) {
        std::byte* at = out + Panel::kUnitsAt + unit * Panel::Unit::kBytes;
        Words32 codes[kPanelRows] = {};
        for (std::size_t r = 0; r < kPanelRows; ++r) {
            if (rows[r] == nullptr) continue;
            codes[r] = Panel::codes(*rows[r], unit);
            for (std::uint64_t& word : codes[r].word) word ^= every_byte(Panel::kFlip);
        }
        if constexpr (kOrder == Order::Quads) to_quads(codes);
        for (std::size_t r = 0; r < kPanelRows; ++r) Panel::Unit::pack(codes[r], r, at);
    }
}

template <typename Panel, Order kOrder>
void pack_panel(const PackTask& task) {
    using Block = typename Panel::Block;
    for (std::size_t b = 0; b < task.columns / Panel::kColumns; ++b) {
        const Block* rows[kPanelRows] = {};
        for (std::size_t r = 0; r < task.rows; ++r) {
            rows[r] = reinterpret_cast<const Block*>(task.weights + r * task.weight_row_bytes) + b;
        }
        pack_block<Panel, kOrder>(rows, task.out + b * Panel::kBlockBytes);
    }
}

template <typename Panel, Order kOrder>
void install_pack(Kernels& table, DType type) {
    PanelKernels& panels = table.panels[static_cast<std::size_t>(type)];
    panels.rows = kPanelRows;
    panels.block_columns = Panel::kColumns;
    panels.block_bytes = Panel::kBlockBytes;
    panels.pack = pack_panel<Panel, kOrder>;
}

template <Order kOrder, typename Q4_0, typename Q4_K, typename Q5_K>
void install_packs(Kernels& table) {
    install_pack<Q4_0, kOrder>(table, DType::Q4_0);
    install_pack<PanelQ4_1, kOrder>(table, DType::Q4_1);
    install_pack<PanelQ5_0, kOrder>(table, DType::Q5_0);
    install_pack<PanelQ5_1, kOrder>(table, DType::Q5_1);
    install_pack<PanelQ8_0, kOrder>(table, DType::Q8_0);
    install_pack<PanelIQ4_NL, kOrder>(table, DType::IQ4_NL);
    install_pack<PanelMXFP4, kOrder>(table, DType::MXFP4);
    install_pack<PanelQ2_K, kOrder>(table, DType::Q2_K);
    install_pack<PanelQ3_K, kOrder>(table, DType::Q3_K);
    install_pack<Q4_K, kOrder>(table, DType::Q4_K);
    install_pack<Q5_K, kOrder>(table, DType::Q5_K);
    install_pack<PanelQ6_K, kOrder>(table, DType::Q6_K);
    install_pack<PanelIQ4_XS, kOrder>(table, DType::IQ4_XS);
    install_pack<PanelTQ2_0, kOrder>(table, DType::TQ2_0);
}

}  // namespace

}  // namespace hearth
