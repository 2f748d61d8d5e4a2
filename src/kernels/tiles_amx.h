// What every file with AMX tiles needs: their shapes, and a word to the compiler.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace hearth {

namespace {

// The shapes of eight tiles in the format LDTILECFG reads: sixteen rows of 64 bytes each. Numbers 0 to 3 are sums, 4
// and 5 activations of 64 columns, 6 and 7 the weights.
struct TileShapes {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);
alignas(64) inline constexpr TileShapes kTileShapes;
// The same for 32 columns.
alignas(64) inline constexpr TileShapes kHalfTileShapes = {.row_bytes = {64, 64, 64, 64, 32, 32, 64, 64},
                                                           .rows = {16, 16, 16, 16, 16, 16, 8, 8}};

// The intrinsics of tiles say nothing to the compiler about the memory they use.
[[gnu::always_inline]] inline void memory_barrier() {
    __asm__ volatile("" ::: "memory");
}

}  // namespace

}  // namespace hearth
