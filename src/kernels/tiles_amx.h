// What every file with AMX tiles needs: their shapes, and a word to the compiler.
#pragma once

#include <immintrin.h>

#include <cstddef>
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

// For so many tokens at a time.
inline TileShapes with_tokens(TileShapes shapes, std::size_t tokens) {
    for (std::size_t i = 0; i < 6 && tokens < 16; ++i) shapes.rows[i] = static_cast<std::uint8_t>(tokens);
    return shapes;
}

// The compiler is told that all of it is read: the intrinsic alone names its first bytes.
[[gnu::always_inline]] inline void configure_tiles(const TileShapes& shapes) {
    __asm__ volatile("" ::"r"(&shapes) : "memory");
    _tile_loadconfig(&shapes);
}

// The intrinsics of tiles, and the instructions below, say nothing to the compiler about the memory they use.
[[gnu::always_inline]] inline void memory_barrier() {
    __asm__ volatile("" ::: "memory");
}

// Instructions whose tiles are numbered by a template: the intrinsics take nothing but digits.
template <int kTile>
[[gnu::always_inline]] inline void zero_tile() {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(kTile));
}
template <int kTile>
[[gnu::always_inline]] inline void load_tile(const void* rows, std::size_t row_stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(rows), "r"(row_stride), "i"(kTile));
}
template <int kTile>
[[gnu::always_inline]] inline void store_tile(void* rows, std::size_t row_stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(rows), "r"(row_stride), "i"(kTile));
}
// Adds the products of activations, signed bytes, and weights, signed or unsigned ones.
template <int kSums, int kActivations, int kWeights, bool kSignedWeights>
[[gnu::always_inline]] inline void add_tile_products() {
    if constexpr (kSignedWeights) {
        __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kActivations), "i"(kWeights));
    } else {
        __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kActivations), "i"(kWeights));
    }
}

}  // namespace

}  // namespace hearth
