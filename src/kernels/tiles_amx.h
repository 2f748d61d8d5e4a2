// What every file with AMX tiles needs: their shapes, and a word to the compiler.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace hearth {

namespace {

// Eight tiles of sixteen rows and 64 bytes, in the format LDTILECFG reads.
struct TileShapes {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);
alignas(64) inline constexpr TileShapes kTileShapes;

// The intrinsics of tiles say nothing to the compiler about the memory they use.
[[gnu::always_inline]] inline void memory_barrier() {
    __asm__ volatile("" ::: "memory");
}

}  // namespace

}  // namespace hearth
