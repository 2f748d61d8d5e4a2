// Activations in tiles of four tokens, as SDOT wants them: four columns of each side by side.
#pragma once

#include "kernels/panels_arm_blocks.h"

namespace hearth {

namespace {

inline constexpr std::size_t kSdotTileTokens = 4;

struct TileBlock32 {
    std::int8_t q[kBlock32 * kSdotTileTokens];
    float scale[kSdotTileTokens];
    std::int32_t sum[kSdotTileTokens];
};
// Eight sums as 128 * high + low in bytes: all high ones, then all low ones.
[[gnu::always_inline]] inline int8x16_t split(int16x8_t sums) {
    return vuzp1q_s8(vreinterpretq_s8_s16(vshrq_n_s16(sums, 7)),
                     vreinterpretq_s8_s16(vandq_s16(sums, vdupq_n_s16(127))));
}
// The same of each token, four of each token side by side: the high ones of sub-blocks 0 to 3, of 4 to 7, the low ones.
struct SplitSums {
    std::int8_t part[4][4 * kSdotTileTokens];

    void set(std::size_t token, int16x8_t sums) {
        std::int8_t bytes[16];
        vst1q_s8(bytes, split(sums));
        for (std::size_t i = 0; i < 4; ++i) __builtin_memcpy(part[i] + 4 * token, bytes + 4 * i, 4);
    }
};
struct TileBlock256 {
    std::int8_t q[kBlock256 * kSdotTileTokens];
    float scale[kSdotTileTokens];
    SplitSums whole_sums;  // of 32 columns
    SplitSums even_sums;   // of their first sixteen
};
static_assert(sizeof(TileBlock32) == kSdotTileTokens * sizeof(ActivationBlock32));
static_assert(sizeof(TileBlock256) == kSdotTileTokens * sizeof(ActivationBlock256));

// The first kCount tokens of a tile.
template <typename PanelType, std::size_t kCount>
struct Tile {
    using Panel = PanelType;
    using Block = std::conditional_t<Panel::kColumns == kBlock32, TileBlock32, TileBlock256>;
    static constexpr std::size_t kTokens = kCount;
    const Block* at;

    [[gnu::always_inline]] Tile(const PanelTask& task, std::size_t token, std::size_t block)
        : at(reinterpret_cast<const Block*>(task.activations + token * task.activation_row_bytes) + block) {}
    [[gnu::always_inline]] void next() { ++at; }
    [[gnu::always_inline]] float scale(std::size_t t) const { return at->scale[t]; }
    [[gnu::always_inline]] std::int32_t sum(std::size_t t) const { return at->sum[t]; }
    // Columns of unit u.
    [[gnu::always_inline]] const std::int8_t* q(std::size_t u) const {
        return at->q + u * kUnitColumns * kSdotTileTokens;
    }
};

inline void tile_columns(std::int8_t* out, std::size_t token, const std::int8_t* q, std::size_t columns) {
    for (std::size_t c = 0; c < columns; c += 4) __builtin_memcpy(out + kSdotTileTokens * c + 4 * token, q + c, 4);
}

inline void tile_q8x32(const TileTask& task) {
    static constexpr ActivationBlock32 kZero = {};
    for (std::size_t b = 0; b < task.columns / kBlock32; ++b) {
        TileBlock32& out = reinterpret_cast<TileBlock32*>(task.out)[b];
        for (std::size_t t = 0; t < kSdotTileTokens; ++t) {
            const auto* row = reinterpret_cast<const ActivationBlock32*>(task.rows + t * task.row_bytes);
            const ActivationBlock32& x = t < task.tokens ? row[b] : kZero;
            tile_columns(out.q, t, x.q, kBlock32);
            out.scale[t] = x.scale;
            out.sum[t] = x.sum;
        }
    }
}

inline void tile_q8x256(const TileTask& task) {
    static constexpr ActivationBlock256 kZero = {};
    for (std::size_t b = 0; b < task.columns / kBlock256; ++b) {
        TileBlock256& out = reinterpret_cast<TileBlock256*>(task.out)[b];
        for (std::size_t t = 0; t < kSdotTileTokens; ++t) {
            const auto* row = reinterpret_cast<const ActivationBlock256*>(task.rows + t * task.row_bytes);
            const ActivationBlock256& x = t < task.tokens ? row[b] : kZero;
            tile_columns(out.q, t, x.q, kBlock256);
            out.scale[t] = x.scale;
            out.whole_sums.set(t, vpaddq_s16(vld1q_s16(x.sums), vld1q_s16(x.sums + 8)));
            out.even_sums.set(t, vuzp1q_s16(vld1q_s16(x.sums), vld1q_s16(x.sums + 8)));
        }
    }
}

}  // namespace

}  // namespace hearth
