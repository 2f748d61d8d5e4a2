// Arranges quantised activations as the tiles of panels_arm_i8mm.h. Include after it.
#pragma once

#include "kernels/panels_arm_i8mm.h"

namespace hearth {

namespace {

// Eight bytes of a token to its place among the token pairs.
[[gnu::always_inline]] inline void copy_eight(std::byte* unit, std::size_t s, std::size_t token, const void* from) {
    __builtin_memcpy(unit + (kTilePairs * s + token / 2) * 16 + token % 2 * 8, from, 8);
}

inline void tile_q8x32(const TileTask& task) {
    alignas(16) static constexpr ActivationBlock32 kZero = {};
    for (std::size_t b = 0; b < task.columns / kBlock32; ++b) {
        std::byte* out = task.out + b * kTile32Bytes;
        for (std::size_t t = 0; t < kTileTokens; ++t) {
            const auto* row = reinterpret_cast<const ActivationBlock32*>(task.rows + t * task.row_bytes);
            const ActivationBlock32& x = t < task.tokens ? row[b] : kZero;
            for (std::size_t s = 0; s < 4; ++s) copy_eight(out, s, t, x.q + 8 * s);
            std::byte* scales = out + kTile32Scales + t / 2 * 16 + t % 2 * 4;
            __builtin_memcpy(scales, &x.scale, 4);
            __builtin_memcpy(scales + 8, &x.scale, 4);
        }
    }
}

inline void tile_q8x256(const TileTask& task) {
    static constexpr ActivationBlock256 kZero = {};
    for (std::size_t b = 0; b < task.columns / kBlock256; ++b) {
        std::byte* out = task.out + b * kTile256Bytes;
        for (std::size_t t = 0; t < kTileTokens; ++t) {
            const auto* row = reinterpret_cast<const ActivationBlock256*>(task.rows + t * task.row_bytes);
            const ActivationBlock256& x = t < task.tokens ? row[b] : kZero;
            for (std::size_t s = 0; s < kBlock256 / 8; ++s) copy_eight(out, s, t, x.q + 8 * s);
            const int16x8_t first = vld1q_s16(x.sums);
            const int16x8_t second = vld1q_s16(x.sums + 8);
            const SplitSums whole = split(vpaddq_s16(first, second));
            const SplitSums even = split(vuzp1q_s16(first, second));
            copy_eight(out + kTile256Sums, 0, t, &whole.high);
            copy_eight(out + kTile256Sums, 1, t, &whole.low);
            copy_eight(out + kTile256EvenSums, 0, t, &even.high);
            copy_eight(out + kTile256EvenSums, 1, t, &even.low);
            __builtin_memcpy(out + kTile256Scales + 4 * t, &x.scale, 4);
        }
    }
}

}  // namespace

}  // namespace hearth
