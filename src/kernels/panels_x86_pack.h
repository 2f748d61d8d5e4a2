// Packs GGUF rows into x86 panels (panels_x86_layout.h). Include in one ISA file: all levels share the bytes.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/kernels.h"
#include "kernels/panels_x86_layout.h"

namespace hearth {

namespace {

namespace pack_x86 {

using namespace x86;

// The dwords of a field to lane `row` of as many vectors, each byte with some bits flipped.
template <std::size_t kBytes>
void put_words(const void* field, std::byte* vectors, std::size_t row, std::uint32_t flip = 0) {
    const auto* from = static_cast<const std::byte*>(field);
    for (std::size_t w = 0; w < kBytes / 4; ++w) {
        std::uint32_t word;
        std::memcpy(&word, from + 4 * w, 4);
        word ^= flip;
        std::memcpy(vectors + w * kVectorBytes + 4 * row, &word, 4);
    }
}

inline void put_bits16(std::uint16_t bits, std::byte* halves, std::size_t row) {
    std::memcpy(halves + 2 * row, &bits, 2);
}

template <typename Block>
std::uint16_t scale_bits(const Block& block) {
    return block.d.bits;
}
// 2^(exponent - 128) as the upper half of a float, which holds all of it.
template <>
std::uint16_t scale_bits(const BlockMXFP4& block) {
    const unsigned exponent = block.exponent;
    return static_cast<std::uint16_t>(exponent < 2 ? 0x20u << exponent : (exponent - 1) << 7);
}

// Bit i of four bytes is column i: in the vector byte c holds columns c, 4 + c, 8 + c, ... as its bits 0, 1, 2, ...
inline void put_fifth_bits(const std::uint8_t* high, std::byte* vector, std::size_t row) {
    std::uint32_t bits;
    std::memcpy(&bits, high, 4);
    std::uint8_t bytes[4];
    for (std::size_t c = 0; c < 4; ++c) {
        std::uint32_t every_fourth = (bits >> c) & 0x11111111u;
        every_fourth = (every_fourth | every_fourth >> 3) & 0x03030303u;
        every_fourth = (every_fourth | every_fourth >> 6) & 0x000f000fu;
        bytes[c] = static_cast<std::uint8_t>(every_fourth | every_fourth >> 12);
    }
    std::memcpy(vector + 4 * row, bytes, 4);
}

template <typename Block>
void put_block32(const Block& block, std::byte* pair, std::size_t which, std::size_t row) {
    using Layout = Layout32<Block>;
    put_bits16(scale_bits(block), pair + which * 32, row);
    if constexpr (Layout::kMinimum) put_bits16(block.m.bits, pair + Layout::kMinimumAt + which * 32, row);
    if constexpr (Layout::kFifthBit) {
        put_fifth_bits(block.high, pair + Layout::kHighAt + which * kVectorBytes, row);
    }
    // Q8_0 as unsigned bytes, 128 too large.
    constexpr std::uint32_t kFlip = sizeof(Block::q) == 32 ? 0x80808080u : 0;
    put_words<sizeof(Block::q)>(block.q, pair + Layout::kQuantsAt + which * Layout::kWords * kVectorBytes, row, kFlip);
}

// One byte a row: a scale or minimum of sub-block j of 32 columns.
inline void put_byte(int value, std::byte* field, std::size_t j, std::size_t row) {
    field[j * kPanelRows + row] = static_cast<std::byte>(value);
}
// One byte a row for sub-block j of 16 columns, next to its neighbour's.
inline void put_pair_byte(int value, std::byte* field, std::size_t j, std::size_t row) {
    field[(j / 2 * kPanelRows + row) * 2 + j % 2] = static_cast<std::byte>(value);
}

// Eight 6-bit scales and minimums in 12 bytes, see reference_matmul256.cpp.
inline void put_scales_k(const std::uint8_t* packed, std::byte* scales, std::byte* minimums, std::size_t row) {
    for (std::size_t j = 0; j < 8; ++j) {
        put_byte(j < 4 ? packed[j] & 63 : (packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4), scales, j, row);
        put_byte(j < 4 ? packed[j + 4] & 63 : (packed[j + 4] >> 4) | ((packed[j] >> 6) << 4), minimums, j, row);
    }
}

inline void put_block256(const BlockQ4_K& block, std::byte* out, std::size_t row) {
    using Layout = Layout256<BlockQ4_K>;
    put_bits16(block.d.bits, out, row);
    put_bits16(block.dmin.bits, out + 32, row);
    put_scales_k(block.scales, out + Layout::kScalesAt, out + Layout::kMinimumsAt, row);
    put_words<sizeof block.q>(block.q, out + Layout::kLowAt, row);
}

inline void put_block256(const BlockQ5_K& block, std::byte* out, std::size_t row) {
    using Layout = Layout256<BlockQ5_K>;
    put_bits16(block.d.bits, out, row);
    put_bits16(block.dmin.bits, out + 32, row);
    put_scales_k(block.scales, out + Layout::kScalesAt, out + Layout::kMinimumsAt, row);
    put_words<sizeof block.high>(block.high, out + Layout::kHighAt, row);
    put_words<sizeof block.q>(block.q, out + Layout::kLowAt, row);
}

inline void put_block256(const BlockQ6_K& block, std::byte* out, std::size_t row) {
    using Layout = Layout256<BlockQ6_K>;
    put_bits16(block.d.bits, out, row);
    for (std::size_t j = 0; j < 16; ++j) put_pair_byte(block.scales[j], out + Layout::kScalesAt, j, row);
    put_words<sizeof block.high>(block.high, out + Layout::kHighAt, row);
    put_words<sizeof block.low>(block.low, out + Layout::kLowAt, row);
}

inline void put_block256(const BlockQ2_K& block, std::byte* out, std::size_t row) {
    using Layout = Layout256<BlockQ2_K>;
    put_bits16(block.d.bits, out, row);
    put_bits16(block.dmin.bits, out + 32, row);
    for (std::size_t j = 0; j < 16; ++j) put_pair_byte(block.scales[j], out + Layout::kScalesAt, j, row);
    put_words<sizeof block.q>(block.q, out + Layout::kLowAt, row);
}

inline void put_block256(const BlockQ3_K& block, std::byte* out, std::size_t row) {
    using Layout = Layout256<BlockQ3_K>;
    put_bits16(block.d.bits, out, row);
    for (std::size_t j = 0; j < 16; ++j) {
        const int low = j < 8 ? block.scales[j] & 15 : block.scales[j - 8] >> 4;
        const int high = (block.scales[8 + j % 4] >> (j / 4 * 2)) & 3;
        put_pair_byte((low | (high << 4)) - 32, out + Layout::kScalesAt, j, row);
    }
    put_words<sizeof block.high>(block.high, out + Layout::kHighAt, row);
    put_words<sizeof block.q>(block.q, out + Layout::kLowAt, row);
}

inline void put_block256(const BlockIQ4_XS& block, std::byte* out, std::size_t row) {
    using Layout = Layout256<BlockIQ4_XS>;
    put_bits16(block.d.bits, out, row);
    for (std::size_t j = 0; j < 8; ++j) {
        const int low = (block.scales_low[j / 2] >> (j % 2 * 4)) & 15;
        const int high = (block.scales_high >> (j * 2)) & 3;
        put_byte((low | (high << 4)) - 32, out + Layout::kScalesAt, j, row);
    }
    put_words<sizeof block.q>(block.q, out + Layout::kLowAt, row);
}

inline void put_block256(const BlockTQ2_0& block, std::byte* out, std::size_t row) {
    put_bits16(block.d.bits, out, row);
    put_words<sizeof block.q>(block.q, out + Layout256<BlockTQ2_0>::kLowAt, row);
}

template <typename Block>
const Block* row_of(const PackTask& task, std::size_t row) {
    return reinterpret_cast<const Block*>(task.weights + row * task.weight_row_bytes);
}

template <typename Block>
void pack32(const PackTask& task) {
    const std::size_t blocks = task.columns / kBlock32;
    for (std::size_t b = 0; b < blocks; ++b) {
        std::byte* pair = task.out + b / 2 * Layout32<Block>::kBytes;
        if (b % 2 == 0) std::memset(pair, 0, Layout32<Block>::kBytes);
        for (std::size_t r = 0; r < task.rows; ++r) put_block32(row_of<Block>(task, r)[b], pair, b % 2, r);
    }
}

template <typename Block>
void pack256(const PackTask& task) {
    const std::size_t blocks = task.columns / kBlock256;
    for (std::size_t b = 0; b < blocks; ++b) {
        std::byte* out = task.out + b * Layout256<Block>::kBytes;
        std::memset(out, 0, Layout256<Block>::kBytes);
        for (std::size_t r = 0; r < task.rows; ++r) put_block256(row_of<Block>(task, r)[b], out, r);
    }
}

template <typename Block>
void install32(Kernels& table, DType type) {
    PanelKernels& panels = table.panels[static_cast<std::size_t>(type)];
    panels.rows = kPanelRows;
    panels.block_columns = Layout32<Block>::kColumns;
    panels.block_bytes = Layout32<Block>::kBytes;
    panels.pack = pack32<Block>;
}

template <typename Block>
void install256(Kernels& table, DType type) {
    PanelKernels& panels = table.panels[static_cast<std::size_t>(type)];
    panels.rows = kPanelRows;
    panels.block_columns = kBlock256;
    panels.block_bytes = Layout256<Block>::kBytes;
    panels.pack = pack256<Block>;
}

inline void install(Kernels& table) {
    table.panel_layout = "x86-16x4.1";
    install32<BlockQ4_0>(table, DType::Q4_0);
    install32<BlockQ4_1>(table, DType::Q4_1);
    install32<BlockQ5_0>(table, DType::Q5_0);
    install32<BlockQ5_1>(table, DType::Q5_1);
    install32<BlockQ8_0>(table, DType::Q8_0);
    install32<BlockIQ4_NL>(table, DType::IQ4_NL);
    install32<BlockMXFP4>(table, DType::MXFP4);
    install256<BlockQ2_K>(table, DType::Q2_K);
    install256<BlockQ3_K>(table, DType::Q3_K);
    install256<BlockQ4_K>(table, DType::Q4_K);
    install256<BlockQ5_K>(table, DType::Q5_K);
    install256<BlockQ6_K>(table, DType::Q6_K);
    install256<BlockIQ4_XS>(table, DType::IQ4_XS);
    install256<BlockTQ2_0>(table, DType::TQ2_0);
}

}  // namespace pack_x86

}  // namespace

}  // namespace hearth
