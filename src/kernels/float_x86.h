// Matmul of F32, F16 and BF16 weights on x86: tiles of rows and tokens over the sixteen virtual lanes of the reference.
// With AVX-512 the lanes of one sum are one register, with AVX2 two.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "base/memory.h"
#include "kernels/kernels.h"

namespace hearth {

namespace {

#if defined(__AVX512F__)

inline constexpr std::size_t kTileRows = 4;  // 24 sums, 4 weights, and activations from memory
inline constexpr std::size_t kTileTokens = 6;

using Lanes = __m512;

[[gnu::always_inline]] inline Lanes zero_lanes() {
    return _mm512_setzero_ps();
}
[[gnu::always_inline]] inline Lanes load_lanes(const float* x) {
    return _mm512_loadu_ps(x);
}
[[gnu::always_inline]] inline void store_lanes(float* to, Lanes x) {
    _mm512_storeu_ps(to, x);
}
[[gnu::always_inline]] inline Lanes load_halves(const std::uint16_t* x) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
}
[[gnu::always_inline]] inline Lanes load_upper_halves(const std::uint16_t* x) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
[[gnu::always_inline]] inline Lanes multiply_add(Lanes a, Lanes b, Lanes c) {
    return _mm512_fmadd_ps(a, b, c);
}
// Into the first n lanes and no other: an added zero could turn -0 into +0.
[[gnu::always_inline]] inline Lanes multiply_add_first(Lanes a, Lanes b, Lanes c, std::size_t n) {
    return _mm512_mask3_fmadd_ps(a, b, c, static_cast<__mmask16>((1u << n) - 1));
}
[[gnu::always_inline]] inline void store_first(float* to, Lanes x, std::size_t n) {
    _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << n) - 1), x);
}
// The tree: 8, 4, 2, 1.
[[gnu::always_inline]] inline __m256 fold_lanes(Lanes x) {
    return _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
}

[[gnu::always_inline]] inline Lanes two_halves(const float* low, const float* high) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(low)), _mm256_loadu_ps(high), 1);
}

// The same of sixteen at once; lanes(i) are those of sum i.
template <typename LanesOf>
[[gnu::always_inline]] inline Lanes sums_of_lanes(LanesOf lanes) {
    constexpr std::size_t kOrder[16] = {0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15};  // undone by the tree
    Lanes x[8];
    for (std::size_t i = 0; i < 8; ++i) {
        const float* a = lanes(kOrder[i]);
        const float* b = lanes(kOrder[i + 8]);
        x[i] = _mm512_add_ps(two_halves(a, b), two_halves(a + 8, b + 8));
    }
    for (std::size_t i = 0; i < 4; ++i) {
        x[i] = _mm512_add_ps(_mm512_shuffle_f32x4(x[i], x[i + 4], 0x88), _mm512_shuffle_f32x4(x[i], x[i + 4], 0xdd));
    }
    for (std::size_t i = 0; i < 2; ++i) {
        x[i] = _mm512_add_ps(_mm512_shuffle_ps(x[i], x[i + 2], 0x44), _mm512_shuffle_ps(x[i], x[i + 2], 0xee));
    }
    return _mm512_add_ps(_mm512_shuffle_ps(x[0], x[1], 0x88), _mm512_shuffle_ps(x[0], x[1], 0xdd));
}

#else

inline constexpr std::size_t kTileRows = 2;  // 12 registers of sums
inline constexpr std::size_t kTileTokens = 3;

struct Lanes {
    __m256 low;
    __m256 high;
};

[[gnu::always_inline]] inline Lanes zero_lanes() {
    return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
[[gnu::always_inline]] inline Lanes load_lanes(const float* x) {
    return {_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)};
}
[[gnu::always_inline]] inline void store_lanes(float* to, Lanes x) {
    _mm256_storeu_ps(to, x.low);
    _mm256_storeu_ps(to + 8, x.high);
}
[[gnu::always_inline]] inline Lanes load_halves(const std::uint16_t* x) {
    const auto* from = reinterpret_cast<const __m128i*>(x);
    return {_mm256_cvtph_ps(_mm_loadu_si128(from)), _mm256_cvtph_ps(_mm_loadu_si128(from + 1))};
}
[[gnu::always_inline]] inline __m256 to_upper_halves(__m128i x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
[[gnu::always_inline]] inline Lanes load_upper_halves(const std::uint16_t* x) {
    const auto* from = reinterpret_cast<const __m128i*>(x);
    return {to_upper_halves(_mm_loadu_si128(from)), to_upper_halves(_mm_loadu_si128(from + 1))};
}
[[gnu::always_inline]] inline Lanes multiply_add(Lanes a, Lanes b, Lanes c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
[[gnu::always_inline]] inline __m256 select_first(__m256 yes, __m256 no, int n) {
    const __m256i index = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    return _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), index)));
}
// Into the first n lanes and no other: an added zero could turn -0 into +0.
[[gnu::always_inline]] inline Lanes multiply_add_first(Lanes a, Lanes b, Lanes c, std::size_t n) {
    const Lanes all = multiply_add(a, b, c);
    const int first = static_cast<int>(n);
    return {select_first(all.low, c.low, first), select_first(all.high, c.high, first - 8)};
}
// The tree: 8, 4, 2, 1.
[[gnu::always_inline]] inline __m256 fold_lanes(Lanes x) {
    return _mm256_add_ps(x.low, x.high);
}

#endif

[[gnu::always_inline]] inline float sum_of_lanes(Lanes x) {
    const __m256 eight = fold_lanes(x);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

inline constexpr std::size_t kLaneCount = 16;
inline constexpr std::size_t kPrefetchBytes = 2048;

struct WeightF32 {
    using Element = float;
    [[gnu::always_inline]] static Lanes load(const Element* w) { return load_lanes(w); }
};
struct WeightF16 {
    using Element = std::uint16_t;
    [[gnu::always_inline]] static Lanes load(const Element* w) { return load_halves(w); }
};
struct WeightBF16 {
    using Element = std::uint16_t;
    [[gnu::always_inline]] static Lanes load(const Element* w) { return load_upper_halves(w); }
};

template <typename Weight>
[[gnu::always_inline]] inline const typename Weight::Element* weight_row(const MatmulTask& task, std::size_t row) {
    return reinterpret_cast<const typename Weight::Element*>(task.weights + row * task.weight_row_bytes);
}
[[gnu::always_inline]] inline const float* activation_row(const MatmulTask& task, std::size_t token) {
    return reinterpret_cast<const float*>(task.activations + token * task.activation_row_bytes);
}

// The columns past the last whole sixteen, and the tree.
template <typename Weight>
inline void finish_sum(const MatmulTask& task, std::size_t row, std::size_t token, Lanes sum) {
    const std::size_t whole = task.columns / kLaneCount * kLaneCount;
    const std::size_t rest = task.columns - whole;
    if (rest > 0) {
        typename Weight::Element weights[kLaneCount] = {};
        float values[kLaneCount] = {};
        __builtin_memcpy(weights, weight_row<Weight>(task, row) + whole, rest * sizeof weights[0]);
        __builtin_memcpy(values, activation_row(task, token) + whole, rest * sizeof values[0]);
        sum = multiply_add_first(Weight::load(weights), load_lanes(values), sum, rest);
    }
    task.out[token * task.out_stride + row] = sum_of_lanes(sum);
}

// Few tokens: whole rows, fetched ahead.
template <typename Weight, std::size_t kRows, std::size_t kTokens>
void few_tokens(const MatmulTask& task, std::size_t row, std::size_t token) {
    using Element = typename Weight::Element;
    const Element* w[kRows];
    const float* x[kTokens];
    Lanes sums[kRows][kTokens];
    for (std::size_t r = 0; r < kRows; ++r) {
        w[r] = weight_row<Weight>(task, row + r);
        for (std::size_t t = 0; t < kTokens; ++t) sums[r][t] = zero_lanes();
    }
    for (std::size_t t = 0; t < kTokens; ++t) x[t] = activation_row(task, token + t);
    // What lies ahead of a row's end is another row of this tile: the tile below it is what comes next.
    const std::size_t row_bytes = task.columns * sizeof(Element);
    const std::size_t skip = (kRows - 1) * task.weight_row_bytes;
    const std::size_t whole = task.columns / kLaneCount * kLaneCount;
    for (std::size_t k = 0; k < whole; k += kLaneCount) {
        const std::size_t ahead = k * sizeof(Element) + kPrefetchBytes;
        const std::size_t jump = ahead < row_bytes ? ahead : ahead + skip;
        Lanes weights[kRows];
        for (std::size_t r = 0; r < kRows; ++r) {
            _mm_prefetch(reinterpret_cast<const char*>(w[r]) + jump, _MM_HINT_T0);
            weights[r] = Weight::load(w[r] + k);
        }
        for (std::size_t t = 0; t < kTokens; ++t) {
            const Lanes values = load_lanes(x[t] + k);
            for (std::size_t r = 0; r < kRows; ++r) sums[r][t] = multiply_add(weights[r], values, sums[r][t]);
        }
    }
    for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t t = 0; t < kTokens; ++t) finish_sum<Weight>(task, row + r, token + t, sums[r][t]);
    }
}

template <typename Weight, std::size_t kRows>
void rows_of_few_tokens(const MatmulTask& task, std::size_t row) {
    std::size_t token = 0;
    for (; token + 2 <= task.tokens; token += 2) few_tokens<Weight, kRows, 2>(task, row, token);
    if (token < task.tokens) few_tokens<Weight, kRows, 1>(task, row, token);
}

// Many tokens: a chunk of the columns of a block of rows is widened, and stays in the first cache while a group of
// tokens passes over it. The group's own columns stay in the second cache while the blocks take turns, and so do the
// sums, unless one chunk is the whole row.
inline constexpr std::size_t kBlockRows = 16;
inline constexpr std::size_t kRowTiles = kBlockRows / kTileRows;
inline constexpr std::size_t kChunkColumns = 512;
inline constexpr std::size_t kLongestChunk = 576;  // where that spares a chunk
inline constexpr std::size_t kChunkSteps = kLongestChunk / kLaneCount;
inline constexpr std::size_t kGroupTiles = 44;  // blocks times tiles of tokens; 264 KiB of sums
inline constexpr std::size_t kShortColumns = 2048;

struct WideRows {
    alignas(64) float at[kRowTiles][kChunkSteps][kTileRows][kLaneCount];
};

// What a tile of tokens has summed up over all rows of a block.
struct TileSums {
    alignas(64) float at[kRowTiles][kTileRows][kTileTokens][kLaneCount];
};

[[gnu::always_inline]] inline std::size_t rows_of_block(const MatmulTask& task, std::size_t row) {
    return task.rows - row < kBlockRows ? task.rows - row : kBlockRows;
}
[[gnu::always_inline]] inline std::size_t row_tiles_of_block(const MatmulTask& task, std::size_t row) {
    return (rows_of_block(task, row) + kTileRows - 1) / kTileRows;
}

// Rows that are missing in the last tile become zeros.
template <typename Weight>
inline void widen_rows(const MatmulTask& task, std::size_t row, std::size_t column, std::size_t steps, WideRows& wide) {
    for (std::size_t r = 0; r < row_tiles_of_block(task, row) * kTileRows; ++r) {
        float(*to)[kTileRows][kLaneCount] = wide.at[r / kTileRows];
        if (row + r >= task.rows) {
            for (std::size_t step = 0; step < steps; ++step) store_lanes(to[step][r % kTileRows], zero_lanes());
            continue;
        }
        const typename Weight::Element* w = weight_row<Weight>(task, row + r) + column;
        for (std::size_t step = 0; step < steps; ++step, w += kLaneCount) {
            _mm_prefetch(reinterpret_cast<const char*>(w) + task.weight_row_bytes, _MM_HINT_T0);
            store_lanes(to[step][r % kTileRows], Weight::load(w));
        }
    }
}

// One tile of rows and tokens; x: of the first token and column.
[[gnu::always_inline]] inline void add_tile(const float (*wide)[kTileRows][kLaneCount], std::size_t steps,
                                            const float* x, std::size_t x_stride, bool begin,
                                            float (*sums)[kTileTokens][kLaneCount]) {
    Lanes acc[kTileRows][kTileTokens];
    for (std::size_t r = 0; r < kTileRows; ++r) {
        for (std::size_t t = 0; t < kTileTokens; ++t) acc[r][t] = begin ? zero_lanes() : load_lanes(sums[r][t]);
    }
    for (std::size_t step = 0; step < steps; ++step, x += kLaneCount) {
        Lanes weights[kTileRows];
        for (std::size_t r = 0; r < kTileRows; ++r) weights[r] = load_lanes(wide[step][r]);
        for (std::size_t t = 0; t < kTileTokens; ++t) {
            const Lanes values = load_lanes(x + t * x_stride);
            for (std::size_t r = 0; r < kTileRows; ++r) acc[r][t] = multiply_add(weights[r], values, acc[r][t]);
        }
    }
    for (std::size_t r = 0; r < kTileRows; ++r) {
        for (std::size_t t = 0; t < kTileTokens; ++t) store_lanes(sums[r][t], acc[r][t]);
    }
}

template <typename Weight>
inline void finish_tile(const MatmulTask& task, std::size_t row, std::size_t token, const TileSums& sums) {
    const std::size_t rows = rows_of_block(task, row);
#if defined(__AVX512F__)
    if (task.columns % kLaneCount == 0) {
        for (std::size_t t = 0; t < kTileTokens; ++t) {
            const auto lanes = [&](std::size_t r) {
                const std::size_t there = r < rows ? r : 0;
                return sums.at[there / kTileRows][there % kTileRows][t];
            };
            store_first(task.out + (token + t) * task.out_stride + row, sums_of_lanes(lanes), rows);
        }
        return;
    }
#endif
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t t = 0; t < kTileTokens; ++t) {
            finish_sum<Weight>(task, row + r, token + t, load_lanes(sums.at[r / kTileRows][r % kTileRows][t]));
        }
    }
}

// The chunk of weights that is widened next, to be asked for in small parts.
template <typename Weight>
class ChunkAhead {
public:
    ChunkAhead(const MatmulTask& task, std::size_t row, std::size_t column, std::size_t calls)
        : row_bytes_(task.weight_row_bytes), parts_a_call_(kBlockRows * kRowParts / calls + 1) {
        if (row >= task.rows) return;
        bytes_ = reinterpret_cast<const std::byte*>(weight_row<Weight>(task, row) + column);
        rows_ = rows_of_block(task, row);
    }
    [[gnu::always_inline]] void fetch() {
        for (std::size_t i = 0; i < parts_a_call_ && rows_ > 0; ++i) {
            const std::byte* part = bytes_ + part_ * kPartLines * kCacheLine;
            for (std::size_t line = 0; line < kPartLines; ++line) fetch_line(part + line * kCacheLine);
            if (++part_ < kRowParts) continue;
            part_ = 0;
            bytes_ += row_bytes_;
            --rows_;
        }
    }

private:
    static constexpr std::size_t kPartLines = 4;
    static constexpr std::size_t kRowParts =
        kChunkColumns * sizeof(typename Weight::Element) / (kPartLines * kCacheLine);
    const std::byte* bytes_ = nullptr;
    std::size_t row_bytes_;
    std::size_t parts_a_call_;
    std::size_t part_ = 0;
    std::size_t rows_ = 0;
};

// Some blocks of rows and the tokens [first, last). The last tile may begin before `first`: it does some tokens again.
template <typename Weight>
void group_of_rows(const MatmulTask& task, std::size_t row, std::size_t blocks, std::size_t first, std::size_t last) {
    WideRows wide;
    TileSums sums[kGroupTiles];
    const std::size_t tiles = (last - first + kTileTokens - 1) / kTileTokens;
    const auto tile_begin = [&](std::size_t tile) {
        const std::size_t token = first + tile * kTileTokens;
        return token + kTileTokens < last ? token : last - kTileTokens;
    };
    const std::size_t whole = task.columns / kLaneCount * kLaneCount;
    const std::size_t chunks =
        whole <= kLongestChunk ? 1 : (whole - (kLongestChunk - kChunkColumns) + kChunkColumns - 1) / kChunkColumns;
    const std::size_t chunk = (whole / kLaneCount + chunks - 1) / chunks * kLaneCount;  // columns, all nearly alike
    const std::size_t x_stride = task.activation_row_bytes / sizeof(float);
    for (std::size_t from = 0; from < whole; from += chunk) {
        const std::size_t steps = (whole - from < chunk ? whole - from : chunk) / kLaneCount;
        for (std::size_t block = 0; block < blocks; ++block) {
            const std::size_t block_row = row + block * kBlockRows;
            widen_rows<Weight>(task, block_row, from, steps, wide);
            const std::size_t row_tiles = row_tiles_of_block(task, block_row);
            const bool last_chunk = from + chunk >= whole;
            const bool last_block = block + 1 == blocks;
            const std::size_t next_row = last_block && !last_chunk ? row : block_row + kBlockRows;
            const std::size_t next_column = last_block ? (last_chunk ? 0 : from + chunk) : from;
            ChunkAhead<Weight> ahead(task, next_row, next_column, tiles * row_tiles);
            for (std::size_t tile = 0; tile < tiles; ++tile) {
                const float* x = activation_row(task, tile_begin(tile)) + from;
                TileSums& here = sums[chunks == 1 ? 0 : block * tiles + tile];
                for (std::size_t i = 0; i < row_tiles; ++i) {
                    ahead.fetch();
                    add_tile(wide.at[i], steps, x, x_stride, from == 0, here.at[i]);
                }
                if (last_chunk) finish_tile<Weight>(task, block_row, tile_begin(tile), here);
            }
        }
    }
}

template <typename Weight>
void many_tokens(const MatmulTask& task) {
    // Many tokens widen the weights less often, many blocks read the tokens less often: long tokens leave the caches.
    const std::size_t group_blocks = task.columns <= kShortColumns ? 2 : 4;
    const std::size_t group_tokens = kGroupTiles / group_blocks * kTileTokens;
    const std::size_t all_blocks = (task.rows + kBlockRows - 1) / kBlockRows;
    for (std::size_t first = 0; first < task.tokens; first += group_tokens) {
        const std::size_t last = first + group_tokens < task.tokens ? first + group_tokens : task.tokens;
        for (std::size_t block = 0; block < all_blocks; block += group_blocks) {
            const std::size_t blocks = all_blocks - block < group_blocks ? all_blocks - block : group_blocks;
            group_of_rows<Weight>(task, block * kBlockRows, blocks, first, last);
        }
    }
}

template <typename Weight>
void matmul_floats(const MatmulTask& task) {
    if (task.tokens >= kTileTokens && task.columns >= kLaneCount) return many_tokens<Weight>(task);
    std::size_t row = 0;
    for (; row + kTileRows <= task.rows; row += kTileRows) rows_of_few_tokens<Weight, kTileRows>(task, row);
    for (; row < task.rows; ++row) rows_of_few_tokens<Weight, 1>(task, row);
}

inline void install_float_matmuls(Kernels& table) {
    table.matmul[static_cast<std::size_t>(DType::F32)] = matmul_floats<WeightF32>;
    table.matmul[static_cast<std::size_t>(DType::F16)] = matmul_floats<WeightF16>;
    table.matmul[static_cast<std::size_t>(DType::BF16)] = matmul_floats<WeightBF16>;
}

}  // namespace

}  // namespace hearth
