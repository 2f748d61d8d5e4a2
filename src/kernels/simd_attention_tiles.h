// The register tiles of attention for any vector ISA: scores of some rows with four keys, their softmax, and weighted
// values. A row is one query head of one token. Include after simd_float.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace hearth {

namespace {

// Repeats body(0) ... body(kCount - 1) in source order, for certain: arrays of vectors indexed in it become registers.
template <std::size_t kCount, std::size_t kFrom = 0, typename Body>
[[gnu::always_inline]] inline void repeat(const Body& body) {
    if constexpr (kFrom < kCount) {
        body(kFrom);
        repeat<kCount, kFrom + 1>(body);
    }
}
#define HEARTH_BODY(index) [&](std::size_t index) __attribute__((always_inline))

// Keeps the compiler from moving loads up across it: with most registers holding sums, a load that comes early costs
// two moves to the stack. The processor reorders all the same.
[[gnu::always_inline]] inline void end_of_loads() {
    __asm__ volatile("" ::: "memory");
}

// K in the f16 of the cache, [position][head_dim]; converted on the way.
struct HalfKeys {
    const std::uint16_t* keys;
    const std::uint16_t* ahead;  // what will be read after K, laid out alike
    [[gnu::always_inline]] Vec load(std::size_t four, std::size_t k, std::size_t dim, std::size_t d) const {
        return v_load_key(keys + (four + k) * dim + d);
    }
    [[gnu::always_inline]] void prefetch(std::size_t i) const { __builtin_prefetch(ahead + i); }
};
// K in f32, the vectors that four keys are read by side by side: in rows they would all be in the same bank of the
// first-level cache, which gives one of them a cycle.
struct PackedKeys {
    const float* packed;
    [[gnu::always_inline]] Vec load(std::size_t four, std::size_t k, std::size_t dim, std::size_t d) const {
        return v_load(packed + four * dim + 4 * d + k * kWidth);
    }
    [[gnu::always_inline]] void prefetch(std::size_t) const {}
};
// From the first to the second.
struct PackingKeys {
    HalfKeys halves;
    float* packed;
    [[gnu::always_inline]] Vec load(std::size_t four, std::size_t k, std::size_t dim, std::size_t d) const {
        const Vec wide = halves.load(four, k, dim, d);
        v_store(packed + four * dim + 4 * d + k * kWidth, wide);
        return wide;
    }
    [[gnu::always_inline]] void prefetch(std::size_t i) const { halves.prefetch(i); }
};
inline constexpr std::size_t kLineHalves = 32;  // of a cache line

// Keys [first, end), whole fours.
inline void pack_keys(const std::uint16_t* keys, std::size_t first, std::size_t end, std::size_t dim, float* packed) {
    const PackingKeys source = {{keys, keys}, packed};
    for (std::size_t four = first; four < end; four += 4) {
        for (std::size_t d = 0; d < dim; d += kWidth) {
            for (std::size_t k = 0; k < 4; ++k) source.load(four, k, dim, d);
        }
    }
}

// The queries of a tile, their vectors side by side for the same reason.
template <std::size_t kRows>
inline void pack_queries(const float* const* queries, std::size_t dim, float* packed) {
    for (std::size_t d = 0; d < dim; d += kWidth) {
        for (std::size_t r = 0; r < kRows; ++r) v_store(packed + kRows * d + r * kWidth, v_load(queries[r] + d));
    }
}

// Lane groups summed at once: g and its partner in the first step of the tree.
inline constexpr std::size_t kPair = kVecs > 1 ? 2 : 1;
inline constexpr std::size_t kPasses = kVecs / kPair;

// One step of score_pass: a vector of each query times a vector of each key. The first product of a sum is no fused
// step onto zero; that changes the sign of a zero at most, which no softmax can see.
template <bool kFirst, std::size_t kRows, std::size_t kKeys, typename Source>
[[gnu::always_inline]] inline void score_step(const float* queries, Source keys, std::size_t four, std::size_t from,
                                              std::size_t dim, std::size_t d, Vec (&acc)[kRows][kKeys]) {
    Vec wide[kKeys];
    repeat<kKeys>(HEARTH_BODY(k) { wide[k] = keys.load(four, from + k, dim, d); });
    repeat<kRows>(HEARTH_BODY(r) {
        const Vec query = v_load(queries + kRows * d + r * kWidth);
        repeat<kKeys>(
            HEARTH_BODY(k) { acc[r][k] = kFirst ? v_mul(query, wide[k]) : v_fma(query, wide[k], acc[r][k]); });
    });
    end_of_loads();
}

// Sixteen-lane dot products of kRows queries with kKeys keys, over lane groups `pass` and pass + kPasses only, so that
// all sums stay in registers; the two are added, which is the first step of the tree.
template <std::size_t kRows, std::size_t kKeys, typename Source>
[[gnu::always_inline]] inline void score_pass(const float* queries, Source keys, std::size_t four, std::size_t from,
                                              std::size_t dim, std::size_t pass, Vec (&sums)[kRows][kKeys]) {
    constexpr std::size_t kPartner = kPasses * kWidth;
    Vec first[kRows][kKeys];
    Vec second[kRows][kKeys];
    std::size_t d = pass * kWidth;
    score_step<true>(queries, keys, four, from, dim, d, first);
    if constexpr (kPair == 2) score_step<true>(queries, keys, four, from, dim, d + kPartner, second);
    for (d += kLaneCount; d < dim; d += kLaneCount) {
        score_step<false>(queries, keys, four, from, dim, d, first);
        if constexpr (kPair == 2) score_step<false>(queries, keys, four, from, dim, d + kPartner, second);
    }
    repeat<kRows>(HEARTH_BODY(r) {
        repeat<kKeys>(HEARTH_BODY(k) {
            sums[r][k] = first[r][k];
            if constexpr (kPair == 2) sums[r][k] = v_add(first[r][k], second[r][k]);
        });
    });
}

// Scaled scores of kRows packed rows with keys [first, end), whole fours; head_dim is a multiple of sixteen.
template <std::size_t kRows, typename Source>
inline void score_rows(const float* queries, Source keys, std::size_t first, std::size_t end, std::size_t dim,
                       float scale, float* const (&scores)[kRows]) {
    constexpr std::size_t kKeys = kScoreKeys<kRows>;
    for (std::size_t four = first; four < end; four += 4) {
        for (std::size_t i = 0; i < 4 * dim; i += kLineHalves) keys.prefetch(four * dim + i);
        Vec folded[kRows][4];
        repeat<4 / kKeys>(HEARTH_BODY(part) {
            Vec sums[kPasses][kRows][kKeys];
            repeat<kPasses>(
                HEARTH_BODY(pass) { score_pass(queries, keys, four, part * kKeys, dim, pass, sums[pass]); });
            repeat<kRows>(HEARTH_BODY(r) {
                repeat<kKeys>(HEARTH_BODY(k) {
                    folded[r][part * kKeys + k] = sums[0][r][k];
                    if constexpr (kPasses == 2) folded[r][part * kKeys + k] = v_add(sums[0][r][k], sums[1][r][k]);
                });
            });
        });
        repeat<kRows>(HEARTH_BODY(r) { store4(scores[r] + four, mul4(v_sum_folded(folded[r]), scale)); });
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

// The largest of the scores of one block. Positions that are not visible get -inf, and later weight zero.
inline float largest_score(float* scores, std::size_t first, std::size_t last) {
    for (std::size_t i = 0; i < first; ++i) scores[i] = -__builtin_inff();
    for (std::size_t i = last + 1; i < kKvBlockTokens; ++i) scores[i] = -__builtin_inff();
    Vec most[4];
    repeat<4>(HEARTH_BODY(i) { most[i] = v_load(scores + i * kWidth); });
    for (std::size_t k = 4 * kWidth; k < kKvBlockTokens; k += 4 * kWidth) {
        repeat<4>(HEARTH_BODY(i) { most[i] = v_max(most[i], v_load(scores + k + i * kWidth)); });
    }
    return v_largest(v_max(v_max(most[0], most[1]), v_max(most[2], most[3])));
}

// Scores to exp(score - largest); returns their sum.
inline float scores_to_weights(float* scores, float largest) {
    Lanes sums;
    clear_lanes(sums);
    for (std::size_t k = 0; k < kKvBlockTokens; k += kLaneCount) {
        repeat<kVecs>(HEARTH_BODY(i) {
            const Vec weight = v_exp_nonpositive(v_sub(v_load(scores + k + i * kWidth), v_set(largest)));
            v_store(scores + k + i * kWidth, weight);
            sums[i] = v_add(sums[i], weight);
        });
    }
    return v_sum_tree(sums);
}

// V, [position][head_dim]: in the f16 of the cache, converted on the way; converted; and from one to the other.
struct HalfValues {
    const std::uint16_t* values;
    const std::uint16_t* ahead;  // what will be read after V, laid out alike
    [[gnu::always_inline]] Vec load(std::size_t i) const { return v_load_value(values + i); }
    [[gnu::always_inline]] void prefetch(std::size_t i) const { __builtin_prefetch(ahead + i); }
};
struct FloatValues {
    const float* values;
    [[gnu::always_inline]] Vec load(std::size_t i) const { return v_load(values + i); }
    [[gnu::always_inline]] void prefetch(std::size_t) const {}
};
struct ConvertingValues {
    HalfValues halves;
    float* values;
    [[gnu::always_inline]] Vec load(std::size_t i) const {
        const Vec wide = halves.load(i);
        v_store(values + i, wide);
        return wide;
    }
    [[gnu::always_inline]] void prefetch(std::size_t i) const { halves.prefetch(i); }
};

// acc[r] = fma(factor kIndex of row r, value, acc[r]) for the elements of one position.
template <int kIndex, std::size_t kRows, std::size_t kParts, typename Source>
[[gnu::always_inline]] inline void add_position(const Factors (&factors)[kRows], Source values, std::size_t at,
                                                Vec (&acc)[kRows][kParts]) {
    values.prefetch(at);
    repeat<kParts>(HEARTH_BODY(i) {
        const Vec value = values.load(at + i * kWidth);
        repeat<kRows>(HEARTH_BODY(r) { acc[r][i] = v_fma_factor<kIndex>(factors[r], value, acc[r][i]); });
        end_of_loads();
    });
}

// out[d] = fma(weight, value[d], out[d]) over ascending positions [first, end), for kParts vectors from element d on.
template <std::size_t kRows, std::size_t kParts, typename Source>
[[gnu::always_inline]] inline void add_part(const float* const (&weights)[kRows], Source values, std::size_t first,
                                            std::size_t end, std::size_t dim, std::size_t d,
                                            float* const (&out)[kRows]) {
    Vec acc[kRows][kParts];
    repeat<kRows>(HEARTH_BODY(r) { repeat<kParts>(HEARTH_BODY(i) { acc[r][i] = v_load(out[r] + d + i * kWidth); }); });
    std::size_t p = first;
    for (; p + 4 <= end; p += 4) {
        Factors factors[kRows];
        repeat<kRows>(HEARTH_BODY(r) { factors[r] = load_factors(weights[r] + p); });
        const std::size_t at = p * dim + d;
        add_position<0>(factors, values, at, acc);
        add_position<1>(factors, values, at + dim, acc);
        add_position<2>(factors, values, at + 2 * dim, acc);
        add_position<3>(factors, values, at + 3 * dim, acc);
    }
    for (; p < end; ++p) {
        Factors factors[kRows];
        repeat<kRows>(HEARTH_BODY(r) { factors[r] = load_factor(weights[r] + p); });
        add_position<0>(factors, values, p * dim + d, acc);
    }
    repeat<kRows>(HEARTH_BODY(r) { repeat<kParts>(HEARTH_BODY(i) { v_store(out[r] + d + i * kWidth, acc[r][i]); }); });
}

// The same for all elements that fill whole vectors; returns the first that does not.
template <std::size_t kRows, typename Source>
inline std::size_t add_values(const float* const* weights_of, Source values, std::size_t first, std::size_t end,
                              std::size_t dim, float* const* out_of) {
    constexpr std::size_t kParts = kValueParts<kRows>;
    const float* weights[kRows];  // copies that nothing else can reach stay in registers
    float* out[kRows];
    repeat<kRows>(HEARTH_BODY(r) {
        weights[r] = weights_of[r];
        out[r] = out_of[r];
    });
    std::size_t d = 0;
    for (; d + kParts * kWidth <= dim; d += kParts * kWidth) {
        add_part<kRows, kParts>(weights, values, first, end, dim, d, out);
    }
    for (; d + 2 * kWidth <= dim; d += 2 * kWidth) add_part<kRows, 2>(weights, values, first, end, dim, d, out);
    for (; d + kWidth <= dim; d += kWidth) add_part<kRows, 1>(weights, values, first, end, dim, d, out);
    return d;
}

#undef HEARTH_BODY

}  // namespace

}  // namespace hearth
