// Matmul of F32, F16 and BF16 weights on x86: tiles of rows and tokens over the sixteen virtual lanes of the reference.
// With AVX-512 the lanes of one sum are one register, with AVX2 two.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

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
// The tree: 8, 4, 2, 1.
[[gnu::always_inline]] inline __m256 fold_lanes(Lanes x) {
    return _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
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

// Many tokens: a chunk of their columns stays in the first cache while sixteen rows pass, and as many tokens as fill a
// part of the second cache are done with before the next. Sums wait in memory between chunks.
inline constexpr std::size_t kBlockRows = 16;
inline constexpr std::size_t kChunkColumns = 512;
inline constexpr std::size_t kBlockBytes = 512 * 1024;

template <typename Weight, std::size_t kRows, std::size_t kTokens>
inline void add_chunk(const MatmulTask& task, std::size_t row, std::size_t token, std::size_t from, std::size_t to,
                      Lanes (*sums)[kTokens]) {
    const typename Weight::Element* w[kRows];
    const float* x[kTokens];
    Lanes acc[kRows][kTokens];
    for (std::size_t r = 0; r < kRows; ++r) {
        w[r] = weight_row<Weight>(task, row + r);
        for (std::size_t t = 0; t < kTokens; ++t) acc[r][t] = sums[r][t];
    }
    for (std::size_t t = 0; t < kTokens; ++t) x[t] = activation_row(task, token + t);
    for (std::size_t k = from; k < to; k += kLaneCount) {
        Lanes weights[kRows];
        for (std::size_t r = 0; r < kRows; ++r) weights[r] = Weight::load(w[r] + k);
        for (std::size_t t = 0; t < kTokens; ++t) {
            const Lanes values = load_lanes(x[t] + k);
            for (std::size_t r = 0; r < kRows; ++r) acc[r][t] = multiply_add(weights[r], values, acc[r][t]);
        }
    }
    for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t t = 0; t < kTokens; ++t) sums[r][t] = acc[r][t];
    }
}

template <typename Weight, std::size_t kTokens>
void add_rows(const MatmulTask& task, std::size_t row, std::size_t rows, std::size_t token) {
    Lanes sums[kBlockRows][kTokens];
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t t = 0; t < kTokens; ++t) sums[r][t] = zero_lanes();
    }
    const std::size_t whole = task.columns / kLaneCount * kLaneCount;
    for (std::size_t from = 0; from < whole; from += kChunkColumns) {
        const std::size_t to = from + kChunkColumns < whole ? from + kChunkColumns : whole;
        std::size_t r = 0;
        for (; r + kTileRows <= rows; r += kTileRows) {
            add_chunk<Weight, kTileRows, kTokens>(task, row + r, token, from, to, sums + r);
        }
        for (; r < rows; ++r) add_chunk<Weight, 1, kTokens>(task, row + r, token, from, to, sums + r);
    }
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t t = 0; t < kTokens; ++t) finish_sum<Weight>(task, row + r, token + t, sums[r][t]);
    }
}

template <typename Weight>
void many_tokens(const MatmulTask& task) {
    const std::size_t fitting = kBlockBytes / task.activation_row_bytes / kTileTokens * kTileTokens;
    const std::size_t block = fitting < kTileTokens ? kTileTokens : fitting;
    for (std::size_t first = 0; first < task.tokens; first += block) {
        const std::size_t last = first + block < task.tokens ? first + block : task.tokens;
        for (std::size_t row = 0; row < task.rows; row += kBlockRows) {
            const std::size_t rows = task.rows - row < kBlockRows ? task.rows - row : kBlockRows;
            std::size_t token = first;
            for (; token + kTileTokens <= last; token += kTileTokens) {
                add_rows<Weight, kTileTokens>(task, row, rows, token);
            }
            for (; token < last; ++token) add_rows<Weight, 1>(task, row, rows, token);
        }
    }
}

template <typename Weight>
void matmul_floats(const MatmulTask& task) {
    if (task.tokens >= kTileTokens) return many_tokens<Weight>(task);
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
