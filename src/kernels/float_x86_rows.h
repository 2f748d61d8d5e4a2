// Matmul of float weights on x86 for few tokens, and for shapes that have no tiles: some rows and tokens at a time,
// over all their columns. The rows of a group lie far apart, and those below each are next: memory brings more from
// several places than from one.
#pragma once

#include "kernels/float_x86_lanes.h"

namespace hearth {

namespace {

inline constexpr std::size_t kPrefetchBytes = 8192;  // of all places together

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

#if defined(__AVX512F__)

inline constexpr std::size_t kRowsAtOnce = 4;  // sixteen sums, whose lanes are folded together
inline constexpr std::size_t kTokensAtOnce = 4;
inline constexpr std::size_t kFewTokens = 2;  // that meet twice as many rows

// The first or last eight lanes of two sums.
[[gnu::always_inline]] inline Lanes two_halves(Lanes a, Lanes b, bool last) {
    return last ? _mm512_shuffle_f32x4(a, b, 0xee) : _mm512_shuffle_f32x4(a, b, 0x44);
}

// The tree of sixteen sums at once.
[[gnu::always_inline]] inline Lanes sums_of_lanes(const Lanes (&lanes)[16]) {
    constexpr std::size_t kOrder[16] = {0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15};  // undone by the tree
    Lanes x[8];
    for (std::size_t i = 0; i < 8; ++i) {
        const Lanes a = lanes[kOrder[i]];
        const Lanes b = lanes[kOrder[i + 8]];
        x[i] = _mm512_add_ps(two_halves(a, b, false), two_halves(a, b, true));
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

inline constexpr std::size_t kRowsAtOnce = 2;  // 12 registers of sums
inline constexpr std::size_t kTokensAtOnce = 3;
inline constexpr std::size_t kFewTokens = 1;

#endif

template <typename Weight, std::size_t kRows, std::size_t kTokens>
[[gnu::always_inline]] inline void finish_sums(const MatmulTask& task, std::size_t row, std::size_t apart,
                                               std::size_t token, const Lanes (&sums)[kTokens][kRows]) {
#if defined(__AVX512F__)
    if constexpr (kRows * kTokens == 16) {
        if (task.columns % kLaneCount == 0) {
            Lanes lanes[16];
            for (std::size_t i = 0; i < 16; ++i) lanes[i] = sums[i / kRows][i % kRows];
            float folded[kTokens][kRows];
            store_lanes(folded[0], sums_of_lanes(lanes));
            for (std::size_t t = 0; t < kTokens; ++t) {
                float* out = task.out + (token + t) * task.out_stride + row;
                for (std::size_t r = 0; r < kRows; ++r) out[r * apart] = folded[t][r];
            }
            return;
        }
    }
#endif
    for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t t = 0; t < kTokens; ++t) finish_sum<Weight>(task, row + r * apart, token + t, sums[t][r]);
    }
}

// kRows rows from `row` on, `apart` rows from one to the next.
template <typename Weight, std::size_t kRows, std::size_t kTokens>
void multiply_rows(const MatmulTask& task, std::size_t row, std::size_t apart, std::size_t token) {
    using Element = typename Weight::Element;
    const Element* w[kRows];
    const float* x[kTokens];
    Lanes sums[kTokens][kRows];
    for (std::size_t r = 0; r < kRows; ++r) {
        w[r] = weight_row<Weight>(task, row + r * apart);
        for (std::size_t t = 0; t < kTokens; ++t) sums[t][r] = zero_lanes();
    }
    for (std::size_t t = 0; t < kTokens; ++t) x[t] = activation_row(task, token + t);
    const std::size_t whole = task.columns / kLaneCount * kLaneCount;
    for (std::size_t k = 0; k < whole; k += kLaneCount) {
        Lanes weights[kRows];
        for (std::size_t r = 0; r < kRows; ++r) {
            _mm_prefetch(reinterpret_cast<const char*>(w[r] + k) + kPrefetchBytes / kRows, _MM_HINT_T0);
            weights[r] = Weight::load(w[r] + k);
        }
        for (std::size_t t = 0; t < kTokens; ++t) {
            const Lanes values = load_lanes(x[t] + k);
            for (std::size_t r = 0; r < kRows; ++r) sums[t][r] = multiply_add(weights[r], values, sums[t][r]);
        }
    }
    finish_sums<Weight>(task, row, apart, token, sums);
}

// From `token` on, at most kTokens.
template <typename Weight, std::size_t kRows, std::size_t kTokens>
void multiply_last_tokens(const MatmulTask& task, std::size_t row, std::size_t apart, std::size_t token) {
    if (task.tokens - token == kTokens) return multiply_rows<Weight, kRows, kTokens>(task, row, apart, token);
    if constexpr (kTokens > 1) multiply_last_tokens<Weight, kRows, kTokens - 1>(task, row, apart, token);
}

template <typename Weight, std::size_t kRows, std::size_t kTokens>
void multiply_all_tokens(const MatmulTask& task, std::size_t row, std::size_t apart) {
    std::size_t token = 0;
    for (; token + kTokens < task.tokens; token += kTokens) {
        multiply_rows<Weight, kRows, kTokens>(task, row, apart, token);
    }
    multiply_last_tokens<Weight, kRows, kTokens>(task, row, apart, token);
}

template <typename Weight, std::size_t kRows, std::size_t kTokens>
void multiply_all_rows(const MatmulTask& task) {
    const std::size_t apart = task.rows / kRows;
    for (std::size_t row = 0; row < apart; ++row) multiply_all_tokens<Weight, kRows, kTokens>(task, row, apart);
    for (std::size_t row = kRows * apart; row < task.rows; ++row) multiply_all_tokens<Weight, 1, kTokens>(task, row, 1);
}

template <typename Weight>
void matmul_floats(const MatmulTask& task) {
    if (task.tokens <= kFewTokens) return multiply_all_rows<Weight, 2 * kRowsAtOnce, kFewTokens>(task);
    multiply_all_rows<Weight, kRowsAtOnce, kTokensAtOnce>(task);
}

}  // namespace

}  // namespace hearth
