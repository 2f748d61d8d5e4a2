// The register tiles of attention for any vector ISA: scores of some rows with four keys, their softmax, and weighted
// values. A row is one query head of one token. Include after simd_float.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace hearth {

namespace {

// Where a tile finds K or V of a block, [position][head_dim]: in the cache's f16, converted on the way; the same, and
// kept for the tiles that follow; or kept by an earlier one.
struct Halves {
    const std::uint16_t* at;
    const std::uint16_t* ahead;  // what will be read next, laid out alike
    [[gnu::always_inline]] Vec load(std::size_t i) const { return v_load_f16(at + i); }
    [[gnu::always_inline]] void prefetch(std::size_t i) const { __builtin_prefetch(ahead + i); }
};
struct KeptHalves {
    const std::uint16_t* at;
    const std::uint16_t* ahead;
    float* kept;
    [[gnu::always_inline]] Vec load(std::size_t i) const {
        const Vec wide = v_load_f16(at + i);
        v_store(kept + i, wide);
        return wide;
    }
    [[gnu::always_inline]] void prefetch(std::size_t i) const { __builtin_prefetch(ahead + i); }
};
struct Floats {
    const float* at;
    [[gnu::always_inline]] Vec load(std::size_t i) const { return v_load(at + i); }
    [[gnu::always_inline]] void prefetch(std::size_t) const {}
};
inline constexpr std::size_t kLineHalves = 32;  // of a cache line

// Lane groups summed at once: g and its partner in the first step of the tree.
inline constexpr std::size_t kPair = kVecs > 1 ? 2 : 1;
inline constexpr std::size_t kPasses = kVecs / kPair;

// Sixteen-lane dot products of kRows queries with kKeys keys, the tree taken down to one vector. Over lane groups
// `pass` and pass + kPasses only, so that all sums stay in registers.
template <std::size_t kRows, std::size_t kKeys, typename Source>
[[gnu::always_inline]] inline void score_pass(const float* const (&queries)[kRows], Source keys, std::size_t key,
                                              std::size_t dim, std::size_t pass, Vec (&sums)[kRows][kKeys]) {
    Vec acc[kPair][kRows][kKeys];
    for (std::size_t i = 0; i < kPair; ++i) {
        for (std::size_t r = 0; r < kRows; ++r) {
            for (std::size_t k = 0; k < kKeys; ++k) acc[i][r][k] = v_set(0.0f);
        }
    }
    for (std::size_t d = pass * kWidth; d < dim; d += kLaneCount) {
        for (std::size_t i = 0; i < kPair; ++i) {
            const std::size_t at = d + i * kPasses * kWidth;
            Vec wide[kKeys];
            for (std::size_t k = 0; k < kKeys; ++k) wide[k] = keys.load((key + k) * dim + at);
            for (std::size_t r = 0; r < kRows; ++r) {
                const Vec query = v_load(queries[r] + at);
                for (std::size_t k = 0; k < kKeys; ++k) acc[i][r][k] = v_fma(query, wide[k], acc[i][r][k]);
            }
        }
    }
    for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t k = 0; k < kKeys; ++k) {
            sums[r][k] = acc[0][r][k];
            if constexpr (kPair == 2) sums[r][k] = v_add(sums[r][k], acc[1][r][k]);
        }
    }
}

// Scaled scores of kRows rows with keys [first, end), whole fours; head_dim is a multiple of sixteen.
template <std::size_t kRows, typename Source>
inline void score_rows(const float* const (&queries)[kRows], Source keys, std::size_t first, std::size_t end,
                       std::size_t dim, float scale, float* const (&scores)[kRows]) {
    constexpr std::size_t kKeys = kScoreKeys<kRows>;
    for (std::size_t key = first; key < end; key += 4) {
        for (std::size_t i = 0; i < 4 * dim; i += kLineHalves) keys.prefetch(key * dim + i);
        Vec folded[kRows][4];
        for (std::size_t k = 0; k < 4; k += kKeys) {
            Vec sums[kPasses][kRows][kKeys];
            for (std::size_t pass = 0; pass < kPasses; ++pass)
                score_pass(queries, keys, key + k, dim, pass, sums[pass]);
            for (std::size_t r = 0; r < kRows; ++r) {
                for (std::size_t i = 0; i < kKeys; ++i) {
                    folded[r][k + i] = sums[0][r][i];
                    if constexpr (kPasses == 2) folded[r][k + i] = v_add(sums[0][r][i], sums[1][r][i]);
                }
            }
        }
        for (std::size_t r = 0; r < kRows; ++r) store4(scores[r] + key, mul4(v_sum_folded(folded[r]), scale));
    }
}

// Any head_dim, one row and one converted key.
inline float score_one(const float* query, const float* key, std::size_t dim) {
    Lanes acc;
    clear_lanes(acc);
    const std::size_t whole = dim / kLaneCount * kLaneCount;
    for (std::size_t d = 0; d < whole; d += kLaneCount) {
        for (std::size_t i = 0; i < kVecs; ++i) {
            acc[i] = v_fma(v_load(query + d + i * kWidth), v_load(key + d + i * kWidth), acc[i]);
        }
    }
    if (whole < dim) add_tail<WeightF32>(acc, query + whole, key + whole, dim - whole);
    return v_sum_tree(acc);
}

// The exponential of reference_float.cpp for x <= 0, where every step has the same bits for less: adding 1.5 * 2^23
// rounds to a whole number as v_round does, 2^n fits in one factor because e^-87.3 is still a normal number, and the
// polynomial is halved throughout because the factor is 2^(n + 1): an even offset keeps ties to even. NaN stays.
[[gnu::always_inline]] inline Vec v_exp_nonpositive(Vec x) {
    const Vec offset = v_set(12582912.0f + 128.0f);
    const Vec shifted = v_add(v_mul(x, v_set(0x1.715476p+0f)), offset);
    const Vec n = v_sub(shifted, offset);
    Vec r = v_fma(n, v_set(-0x1.62ep-1f), x);
    r = v_fma(n, v_set(-0x1.0bfbe8p-15f), r);
    Vec p = v_set(0x1.6d981cp-11f);
    p = v_fma(p, r, v_set(0x1.123e14p-8f));
    p = v_fma(p, r, v_set(0x1.55547ep-6f));
    p = v_fma(p, r, v_set(0x1.55548ap-4f));
    p = v_fma(p, r, v_set(0.25f));
    p = v_fma(p, r, v_set(0.5f));
    p = v_fma(p, r, v_set(0.5f));
    return v_select_less(x, v_set(-87.3f), v_set(0.0f), v_mul(p, v_low_bits_to_exponent(shifted)));
}

struct Softmax {
    float largest;
    float sum;
};

// Scores of one block to exp(score - largest), and their sum. Positions that are not visible get weight zero.
inline Softmax softmax(float* weights, std::size_t first, std::size_t last) {
    for (std::size_t i = 0; i < first; ++i) weights[i] = -__builtin_inff();
    for (std::size_t i = last + 1; i < kKvBlockTokens; ++i) weights[i] = -__builtin_inff();
    Vec most[4];
    for (std::size_t i = 0; i < 4; ++i) most[i] = v_load(weights + i * kWidth);
    for (std::size_t k = 4 * kWidth; k < kKvBlockTokens; k += 4 * kWidth) {
        for (std::size_t i = 0; i < 4; ++i) most[i] = v_max(most[i], v_load(weights + k + i * kWidth));
    }
    const float largest = v_largest(v_max(v_max(most[0], most[1]), v_max(most[2], most[3])));
    Lanes sums;
    clear_lanes(sums);
    for (std::size_t k = 0; k < kKvBlockTokens; k += kLaneCount) {
        for (std::size_t i = 0; i < kVecs; ++i) {
            const Vec weight = v_exp_nonpositive(v_sub(v_load(weights + k + i * kWidth), v_set(largest)));
            v_store(weights + k + i * kWidth, weight);
            sums[i] = v_add(sums[i], weight);
        }
    }
    return {largest, v_sum_tree(sums)};
}

template <int kIndex, std::size_t kRows, std::size_t kParts, typename Source>
[[gnu::always_inline]] inline void add_position(const Factors (&factors)[kRows], Source values, std::size_t at,
                                                Vec (&acc)[kRows][kParts]) {
    values.prefetch(at);
    for (std::size_t i = 0; i < kParts; ++i) {
        const Vec value = values.load(at + i * kWidth);
        for (std::size_t r = 0; r < kRows; ++r) acc[r][i] = v_fma_factor<kIndex>(factors[r], value, acc[r][i]);
    }
}

// out[d] = fma(weight, value[d], out[d]) over ascending positions [first, end), for kParts vectors from element d on.
template <std::size_t kRows, std::size_t kParts, typename Source>
inline void add_part(const float* const (&weights)[kRows], Source values, std::size_t first, std::size_t end,
                     std::size_t dim, std::size_t d, float* const (&out)[kRows]) {
    Vec acc[kRows][kParts];
    for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t i = 0; i < kParts; ++i) acc[r][i] = v_load(out[r] + d + i * kWidth);
    }
    std::size_t p = first;
    for (; p + 4 <= end; p += 4) {
        Factors factors[kRows];
        for (std::size_t r = 0; r < kRows; ++r) factors[r] = load_factors(weights[r] + p);
        const std::size_t at = p * dim + d;
        add_position<0>(factors, values, at, acc);
        add_position<1>(factors, values, at + dim, acc);
        add_position<2>(factors, values, at + 2 * dim, acc);
        add_position<3>(factors, values, at + 3 * dim, acc);
    }
    for (; p < end; ++p) {
        for (std::size_t i = 0; i < kParts; ++i) {
            const Vec value = values.load(p * dim + d + i * kWidth);
            for (std::size_t r = 0; r < kRows; ++r) acc[r][i] = v_fma(v_set(weights[r][p]), value, acc[r][i]);
        }
    }
    for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t i = 0; i < kParts; ++i) v_store(out[r] + d + i * kWidth, acc[r][i]);
    }
}

// The same for all elements that fill whole vectors; returns the first that does not.
template <std::size_t kRows, typename Source>
inline std::size_t add_values(const float* const (&weights)[kRows], Source values, std::size_t first, std::size_t end,
                              std::size_t dim, float* const (&out)[kRows]) {
    constexpr std::size_t kParts = kValueParts<kRows>;
    std::size_t d = 0;
    for (; d + kParts * kWidth <= dim; d += kParts * kWidth) {
        add_part<kRows, kParts>(weights, values, first, end, dim, d, out);
    }
    for (; d + kWidth <= dim; d += kWidth) add_part<kRows, 1>(weights, values, first, end, dim, d, out);
    return d;
}

}  // namespace

}  // namespace hearth
