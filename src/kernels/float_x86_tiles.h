// Matmul of float weights on x86 for many tokens. Registers hold neighbouring tokens, and one step multiplies one
// column of some rows with that column of all of them: with AVX-512 it reads 56 numbers for 24 multiply-adds, where
// registers of columns (4 rows by 6 tokens) read 160. The virtual lanes of the reference are then done one after
// another, each being every sixteenth column, and added up in the order of its tree.
#pragma once

#include <bit>

#include "base/memory.h"
#include "kernels/float_x86_lanes.h"

namespace hearth {

namespace {

#if defined(__AVX512F__)

using Vector = __m512;
inline constexpr std::size_t kWidth = 16;
inline constexpr std::size_t kGroupRows = 8;  // 24 sums, 3 vectors of tokens, and a weight
inline constexpr std::size_t kTilesFrom = 32;

[[gnu::always_inline]] inline Vector load_vector(const float* x) {
    return _mm512_loadu_ps(x);
}
[[gnu::always_inline]] inline void store_vector(float* to, Vector x) {
    _mm512_storeu_ps(to, x);
}
[[gnu::always_inline]] inline void store_low_half(float* to, Vector x) {
    _mm256_storeu_ps(to, _mm512_castps512_ps256(x));
}
[[gnu::always_inline]] inline void store_high_half(float* to, Vector x) {
    _mm256_storeu_ps(to, _mm512_extractf32x8_ps(x, 1));
}
[[gnu::always_inline]] inline Vector zero_vector() {
    return _mm512_setzero_ps();
}
[[gnu::always_inline]] inline Vector all(float x) {
    return _mm512_set1_ps(x);
}
[[gnu::always_inline]] inline Vector add(Vector a, Vector b) {
    return _mm512_add_ps(a, b);
}
[[gnu::always_inline]] inline Vector fused(Vector a, Vector b, Vector c) {
    return _mm512_fmadd_ps(a, b, c);
}
[[gnu::always_inline]] inline Vector part_of(Lanes x, std::size_t /*part*/) {
    return x;
}

// Within each four columns, then the fours.
[[gnu::always_inline]] inline void transpose(Vector (&x)[kWidth]) {
    Vector y[kWidth];
    for (std::size_t i = 0; i < kWidth; i += 4) {
        const __m512d low[2] = {_mm512_castps_pd(_mm512_unpacklo_ps(x[i], x[i + 1])),
                                _mm512_castps_pd(_mm512_unpacklo_ps(x[i + 2], x[i + 3]))};
        const __m512d high[2] = {_mm512_castps_pd(_mm512_unpackhi_ps(x[i], x[i + 1])),
                                 _mm512_castps_pd(_mm512_unpackhi_ps(x[i + 2], x[i + 3]))};
        y[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(low[0], low[1]));
        y[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low[0], low[1]));
        y[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high[0], high[1]));
        y[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high[0], high[1]));
    }
    for (std::size_t i = 0; i < 4; ++i) {
        const Vector even[2] = {_mm512_shuffle_f32x4(y[i], y[i + 4], 0x88),
                                _mm512_shuffle_f32x4(y[i + 8], y[i + 12], 0x88)};
        const Vector odd[2] = {_mm512_shuffle_f32x4(y[i], y[i + 4], 0xdd),
                               _mm512_shuffle_f32x4(y[i + 8], y[i + 12], 0xdd)};
        x[i] = _mm512_shuffle_f32x4(even[0], even[1], 0x88);
        x[i + 4] = _mm512_shuffle_f32x4(odd[0], odd[1], 0x88);
        x[i + 8] = _mm512_shuffle_f32x4(even[0], even[1], 0xdd);
        x[i + 12] = _mm512_shuffle_f32x4(odd[0], odd[1], 0xdd);
    }
}

#else

using Vector = __m256;
inline constexpr std::size_t kWidth = 8;
inline constexpr std::size_t kGroupRows = 4;  // 12 sums, 3 vectors of tokens, and a weight
inline constexpr std::size_t kTilesFrom = 17;

[[gnu::always_inline]] inline Vector load_vector(const float* x) {
    return _mm256_loadu_ps(x);
}
[[gnu::always_inline]] inline void store_vector(float* to, Vector x) {
    _mm256_storeu_ps(to, x);
}
[[gnu::always_inline]] inline void store_low_half(float* to, Vector x) {
    _mm_storeu_ps(to, _mm256_castps256_ps128(x));
}
[[gnu::always_inline]] inline void store_high_half(float* to, Vector x) {
    _mm_storeu_ps(to, _mm256_extractf128_ps(x, 1));
}
[[gnu::always_inline]] inline Vector zero_vector() {
    return _mm256_setzero_ps();
}
[[gnu::always_inline]] inline Vector all(float x) {
    return _mm256_set1_ps(x);
}
[[gnu::always_inline]] inline Vector add(Vector a, Vector b) {
    return _mm256_add_ps(a, b);
}
[[gnu::always_inline]] inline Vector fused(Vector a, Vector b, Vector c) {
    return _mm256_fmadd_ps(a, b, c);
}
[[gnu::always_inline]] inline Vector part_of(Lanes x, std::size_t part) {
    return part == 0 ? x.low : x.high;
}

// Within each four columns, then the fours.
[[gnu::always_inline]] inline void transpose(Vector (&x)[kWidth]) {
    Vector y[kWidth];
    for (std::size_t i = 0; i < kWidth; i += 4) {
        const Vector low[2] = {_mm256_unpacklo_ps(x[i], x[i + 1]), _mm256_unpacklo_ps(x[i + 2], x[i + 3])};
        const Vector high[2] = {_mm256_unpackhi_ps(x[i], x[i + 1]), _mm256_unpackhi_ps(x[i + 2], x[i + 3])};
        y[i] = _mm256_shuffle_ps(low[0], low[1], 0x44);
        y[i + 1] = _mm256_shuffle_ps(low[0], low[1], 0xee);
        y[i + 2] = _mm256_shuffle_ps(high[0], high[1], 0x44);
        y[i + 3] = _mm256_shuffle_ps(high[0], high[1], 0xee);
    }
    for (std::size_t i = 0; i < 4; ++i) {
        x[i] = _mm256_permute2f128_ps(y[i], y[i + 4], 0x20);
        x[i + 4] = _mm256_permute2f128_ps(y[i], y[i + 4], 0x31);
    }
}

#endif

inline constexpr std::size_t kParts = kLaneCount / kWidth;  // of sixteen columns
inline constexpr std::size_t kTileVectors = 3;
inline constexpr std::size_t kTileTokens = kTileVectors * kWidth;
inline constexpr std::size_t kBlockRows = 2 * kGroupRows;
static_assert(kBlockRows == kWidth && FloatTileKernels::kRowMultiple % kGroupRows == 0);

// The lane that is done at a turn, and the turn of a lane. Neighbouring turns, pairs of them and so on are what the
// tree adds: lanes 0 and 8, those and 4 and 12.
inline constexpr std::size_t kTurns[kLaneCount] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};

// A tile is [turns][columns / 16][kTileTokens].
inline void tile_floats(const TileTask& task) {
    const std::size_t steps = task.columns / kLaneCount;
    auto* out = reinterpret_cast<float*>(task.out);
    for (std::size_t first = 0; first < kTileTokens; first += kWidth) {
        for (std::size_t i = 0; i < steps * kParts; ++i) {
            Vector x[kWidth];
            for (std::size_t t = 0; t < kWidth; ++t) {
                const std::byte* row = task.rows + (first + t) * task.row_bytes;
                x[t] = first + t < task.tokens ? load_vector(reinterpret_cast<const float*>(row) + i * kWidth)
                                               : zero_vector();
            }
            transpose(x);
            for (std::size_t c = 0; c < kWidth; ++c) {
                const std::size_t turn = kTurns[i % kParts * kWidth + c];
                store_vector(out + (turn * steps + i / kParts) * kTileTokens + first, x[c]);
            }
        }
    }
}

// Weights are widened into the scratch memory, some blocks of rows at a time: [turns][groups] strips of
// [columns / 16][kGroupRows]. What lies between the strips keeps their beginnings apart in the first cache.
inline constexpr std::size_t kMostRows = 64;
inline constexpr std::size_t kMostGroups = kMostRows / kGroupRows;
inline constexpr std::size_t kRowsUntil = 8192;  // columns; of more fewer rows
inline constexpr std::size_t kStripPadding = kCacheLine / sizeof(float);

[[gnu::always_inline]] inline std::size_t rows_at_once(std::size_t columns) {
    if (columns <= kRowsUntil) return kMostRows;
    const std::size_t blocks = kMostRows * kRowsUntil / (columns * kBlockRows);
    return blocks > 0 ? blocks * kBlockRows : kBlockRows;
}
[[gnu::always_inline]] inline std::size_t strip_floats(std::size_t columns) {
    return columns / kLaneCount * kGroupRows + kStripPadding;
}
inline std::size_t float_scratch_bytes(std::size_t columns) {
    return rows_at_once(columns) / kGroupRows * kLaneCount * strip_floats(columns) * sizeof(float);
}

// `wide`: the first turn's strips of the two groups of the block.
template <typename Weight>
void widen_block(const MatmulTask& task, std::size_t row, std::size_t groups, float* wide) {
    const std::size_t strip = strip_floats(task.columns);
    for (std::size_t i = 0; i < task.columns / kLaneCount; ++i) {
        Lanes lanes[kBlockRows];
        for (std::size_t r = 0; r < kBlockRows; ++r) {
            const typename Weight::Element* w = weight_row<Weight>(task, row + r) + i * kLaneCount;
            lanes[r] = row + r < task.rows ? Weight::load(w) : zero_lanes();
            _mm_prefetch(reinterpret_cast<const char*>(w) + kBlockRows * task.weight_row_bytes, _MM_HINT_T1);
        }
        for (std::size_t part = 0; part < kParts; ++part) {
            Vector x[kWidth];
            for (std::size_t r = 0; r < kWidth; ++r) x[r] = part_of(lanes[r], part);
            transpose(x);
            for (std::size_t c = 0; c < kWidth; ++c) {
                float* to = wide + kTurns[part * kWidth + c] * groups * strip + i * kGroupRows;
                store_low_half(to, x[c]);
                store_high_half(to + strip, x[c]);
            }
        }
    }
}

// What the tokens of a tile have summed up over a group of rows.
struct GroupSums {
    alignas(kCacheLine) float at[kGroupRows][kTileTokens];
};

// Steps of one lane. The sums begin at zero, or with what an earlier chunk of the same lane has left in `to`; a lane
// that completes a pair of the tree is added to the other one, which lies before `to`.
template <std::size_t kVectors, bool kBegin, bool kPair>
[[gnu::noinline]] void add_lane(const float* w, const float* next_w, const float* x, const float* next_x,
                                std::size_t next_x_step, std::size_t steps, GroupSums* to) {
    Vector sums[kGroupRows][kVectors];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kGroupRows; ++r) {
#pragma GCC unroll 3
        for (std::size_t v = 0; v < kVectors; ++v) {
            sums[r][v] = kBegin ? zero_vector() : load_vector(to->at[r] + v * kWidth);
        }
    }
    for (std::size_t i = 0; i < steps; ++i) {
        _mm_prefetch(reinterpret_cast<const char*>(next_x), _MM_HINT_T0);
        _mm_prefetch(reinterpret_cast<const char*>(next_w), _MM_HINT_T0);
        Vector values[kVectors];
        for (std::size_t v = 0; v < kVectors; ++v) values[v] = load_vector(x + v * kWidth);
        for (std::size_t r = 0; r < kGroupRows; ++r) {
            const Vector weight = all(w[r]);
            for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = fused(weight, values[v], sums[r][v]);
        }
        w += kGroupRows;
        next_w += kGroupRows;
        x += kTileTokens;
        next_x += next_x_step;
    }
    GroupSums* out = kPair ? to - 1 : to;
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kGroupRows; ++r) {
#pragma GCC unroll 3
        for (std::size_t v = 0; v < kVectors; ++v) {
            float* at = out->at[r] + v * kWidth;
            store_vector(at, kPair ? add(load_vector(at), sums[r][v]) : sums[r][v]);
        }
    }
}

template <std::size_t kVectors>
void add_pair(GroupSums& low, const GroupSums& high) {
    for (std::size_t r = 0; r < kGroupRows; ++r) {
        for (std::size_t v = 0; v < kVectors; ++v) {
            float* at = low.at[r] + v * kWidth;
            store_vector(at, add(load_vector(at), load_vector(high.at[r] + v * kWidth)));
        }
    }
}

// Of a lane: their activations stay in the first cache, where those of the next chunk join them meanwhile.
inline constexpr std::size_t kChunkBytes = 12 << 10;
inline constexpr std::size_t kChunkSteps = kChunkBytes / (kTileTokens * sizeof(float));
inline constexpr std::size_t kTreeDepth = 5;

// One tile of tokens and some rows. `wide`: their strips; `out`: of the first token and row.
template <std::size_t kVectors>
void multiply_tile(const MatmulTask& task, const float* wide, std::size_t rows, const float* x, std::size_t tokens,
                   float* out) {
    // Of each group, parts of the tree that wait for their other half: the largest first, then the lane at hand.
    GroupSums sums[kMostGroups][kTreeDepth];
    const std::size_t groups = rows / kGroupRows;
    const std::size_t strip = strip_floats(task.columns);
    const std::size_t turn_floats = (rows + kBlockRows - 1) / kBlockRows * 2 * strip;
    const std::size_t steps = task.columns / kLaneCount;
    const std::size_t chunks = (steps + kChunkSteps - 1) / kChunkSteps;
    const std::size_t chunk = (steps + chunks - 1) / chunks;  // steps, all nearly alike
    const std::size_t next_x_step = (kTileTokens + groups - 1) / groups;
    for (std::size_t turn = 0; turn < kLaneCount; ++turn) {
        const auto waiting = static_cast<std::size_t>(std::popcount(turn));
        const auto pairs = static_cast<std::size_t>(std::countr_one(turn));
        for (std::size_t from = 0; from < steps; from += chunk) {
            const bool last = from + chunk >= steps;
            const std::size_t count = last ? steps - from : chunk;
            const auto add_to = last && pairs > 0
                                    ? (from == 0 ? add_lane<kVectors, true, true> : add_lane<kVectors, false, true>)
                                    : (from == 0 ? add_lane<kVectors, true, false> : add_lane<kVectors, false, false>);
            const float* next_x = x + count * kTileTokens;
            for (std::size_t group = 0; group < groups; ++group) {
                const float* w = wide + turn * turn_floats + group * strip + from * kGroupRows;
                GroupSums* to = sums[group] + waiting;
                add_to(w, w + strip, x, next_x + group * count * next_x_step, next_x_step, count, to);
                for (std::size_t pair = 1; last && pair < pairs; ++pair)
                    add_pair<kVectors>(*(to - pair - 1), *(to - pair));
            }
            x = next_x;
        }
    }
    for (std::size_t row = 0; row < rows; row += kBlockRows) {
        const bool whole = rows - row >= kBlockRows;
        const GroupSums& low = sums[row / kGroupRows][0];
        const GroupSums& high = whole ? sums[row / kGroupRows + 1][0] : low;
        for (std::size_t first = 0; first < tokens; first += kWidth) {
            Vector block[kWidth];
            for (std::size_t r = 0; r < kGroupRows; ++r) {
                block[r] = load_vector(low.at[r] + first);
                block[kGroupRows + r] = load_vector(high.at[r] + first);
            }
            transpose(block);
            for (std::size_t t = 0; t < kWidth && first + t < tokens; ++t) {
                float* at = out + (first + t) * task.out_stride + row;
                whole ? store_vector(at, block[t]) : store_low_half(at, block[t]);
            }
        }
    }
}

template <typename Weight>
void matmul_float_tiles(const MatmulTask& task) {
    auto* wide = reinterpret_cast<float*>(task.scratch);
    const std::size_t most_rows = rows_at_once(task.columns);
    for (std::size_t row = 0; row < task.rows; row += most_rows) {
        const std::size_t rows = task.rows - row < most_rows ? task.rows - row : most_rows;
        const std::size_t blocks = (rows + kBlockRows - 1) / kBlockRows;
        for (std::size_t block = 0; block < blocks; ++block) {
            widen_block<Weight>(task, row + block * kBlockRows, 2 * blocks,
                                wide + block * 2 * strip_floats(task.columns));
        }
        for (std::size_t token = 0; token < task.tokens; token += kTileTokens) {
            const std::size_t tokens = task.tokens - token < kTileTokens ? task.tokens - token : kTileTokens;
            const std::size_t vectors = (tokens + kWidth - 1) / kWidth;
            const auto multiply = vectors == 1 ? multiply_tile<1> : vectors == 2 ? multiply_tile<2> : multiply_tile<3>;
            multiply(task, wide, rows, activation_row(task, token), tokens, task.out + token * task.out_stride + row);
        }
    }
}

}  // namespace

}  // namespace hearth
