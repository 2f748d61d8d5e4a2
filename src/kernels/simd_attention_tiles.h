// The register tiles of attention for any vector ISA: scores of some rows with four keys, their softmax, and weighted
// values. A row is one query head of one token. Include after simd_float.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace hearth {

namespace {

template <std::size_t kValue>
struct Index {
    static constexpr std::size_t value = kValue;
    constexpr operator std::size_t() const { return kValue; }
};
// Calls body(Index<0>) ... body(Index<kCount - 1>): unrolled for certain, so that arrays of vectors indexed in it
// become registers.
template <std::size_t kCount, std::size_t kFrom = 0, typename Body>
[[gnu::always_inline]] inline void repeat(const Body& body) {
    if constexpr (kFrom < kCount) {
        body(Index<kFrom>{});
        repeat<kCount, kFrom + 1>(body);
    }
}

// Keeps the compiler from moving loads up across it: with most registers holding sums, a load that comes early costs
// two moves to the stack. The processor reorders all the same.
[[gnu::always_inline]] inline void end_of_loads() {
    __asm__ volatile("" ::: "memory");
}

// Scores are summed four keys at a time and two lane groups at a time, g and its partner in the first step of the tree:
// one pass. So a tile of three rows fills the registers with sums, and half of them are added before they leave these.
inline constexpr std::size_t kPair = kVecs > 1 ? 2 : 1;
inline constexpr std::size_t kPasses = kVecs / kPair;

// Packed operands lie in the order of their use: by pass, then by sixteen elements, then by lane group of the pair, and
// the vectors of four keys, or of the queries of a tile, side by side. As rows they would lie a power of two apart, in
// the same bank of the first-level cache, which then gives one of them a cycle.
template <std::size_t kSide>
[[gnu::always_inline]] inline std::size_t packed_offset(std::size_t pass, std::size_t dim) {
    return pass * (dim / kPasses) * kSide;
}

// K in the f16 of the cache, [position][head_dim]; converted on the way.
struct HalfKeys {
    const std::uint16_t* keys;
    const std::uint16_t* next_keys;  // of the block that follows, laid out alike
    const std::uint16_t* next_values;

    struct Cursor {
        const std::uint16_t* at;
        std::size_t dim;
        [[gnu::always_inline]] Vec load(std::size_t step, std::size_t pair, std::size_t k) const {
            return v_load_key(at + k * dim + step * kLaneCount + pair * kPasses * kWidth);
        }
        [[gnu::always_inline]] Cursor after(std::size_t steps) const { return {at + steps * kLaneCount, dim}; }
    };
    [[gnu::always_inline]] Cursor cursor(std::size_t four, std::size_t pass, std::size_t dim) const {
        return {keys + four * dim + pass * kWidth, dim};
    }
    // A whole block early, and to the second-level cache: on their way to the first they would take its line buffers
    // from loads that are waited for.
    [[gnu::always_inline]] void prefetch(std::size_t i) const {
        __builtin_prefetch(next_keys + i, 0, 2);
        __builtin_prefetch(next_values + i, 0, 2);
    }
};
// K in f32, packed by fours.
struct PackedKeys {
    const float* packed;

    struct Cursor {
        const float* at;
        [[gnu::always_inline]] Vec load(std::size_t step, std::size_t pair, std::size_t k) const {
            return v_load(at + ((step * kPair + pair) * 4 + k) * kWidth);
        }
        [[gnu::always_inline]] Cursor after(std::size_t steps) const { return {at + steps * kPair * 4 * kWidth}; }
    };
    [[gnu::always_inline]] Cursor cursor(std::size_t four, std::size_t pass, std::size_t dim) const {
        return {packed + four * dim + packed_offset<4>(pass, dim)};
    }
    [[gnu::always_inline]] void prefetch(std::size_t) const {}
};
// From the first to the second.
struct PackingKeys {
    HalfKeys halves;
    float* packed;

    struct Cursor {
        HalfKeys::Cursor from;
        float* to;
        [[gnu::always_inline]] Vec load(std::size_t step, std::size_t pair, std::size_t k) const {
            const Vec wide = from.load(step, pair, k);
            v_store(to + ((step * kPair + pair) * 4 + k) * kWidth, wide);
            return wide;
        }
        [[gnu::always_inline]] Cursor after(std::size_t steps) const {
            return {from.after(steps), to + steps * kPair * 4 * kWidth};
        }
    };
    [[gnu::always_inline]] Cursor cursor(std::size_t four, std::size_t pass, std::size_t dim) const {
        return {halves.cursor(four, pass, dim), packed + four * dim + packed_offset<4>(pass, dim)};
    }
    [[gnu::always_inline]] void prefetch(std::size_t i) const { halves.prefetch(i); }
};
inline constexpr std::size_t kLineHalves = 32;  // of a cache line

// Keys [first, end), whole fours.
inline void pack_keys(const std::uint16_t* keys, std::size_t first, std::size_t end, std::size_t dim, float* packed) {
    const PackingKeys source = {{keys, keys, keys}, packed};
    for (std::size_t four = first; four < end; four += 4) {
        for (std::size_t pass = 0; pass < kPasses; ++pass) {
            const PackingKeys::Cursor cursor = source.cursor(four, pass, dim);
            for (std::size_t step = 0; step < dim / kLaneCount; ++step) {
                for (std::size_t pair = 0; pair < kPair; ++pair) {
                    repeat<4>([&](auto k) __attribute__((always_inline)) { cursor.load(step, pair, k); });
                }
            }
        }
    }
}

// The queries of a tile.
template <std::size_t kRows>
inline void pack_queries(const float* const* queries, std::size_t dim, float* packed) {
    for (std::size_t pass = 0; pass < kPasses; ++pass) {
        for (std::size_t step = 0; step < dim / kLaneCount; ++step) {
            for (std::size_t pair = 0; pair < kPair; ++pair) {
                const std::size_t d = step * kLaneCount + (pass + pair * kPasses) * kWidth;
                repeat<kRows>([&](auto r) __attribute__((always_inline)) {
                    v_store(packed, v_load(queries[r] + d));
                    packed += kWidth;
                });
            }
        }
    }
}

// sums[pair][r][k] = fma(query r, key k, sums[pair][r][k]) over kCount times sixteen elements.
template <bool kFirst, std::size_t kCount, std::size_t kRows, std::size_t kKeys, typename Cursor>
[[gnu::always_inline]] inline void score_steps(const float* queries, Cursor keys, std::size_t from,
                                               Vec (&sums)[kPair][kRows][kKeys]) {
    repeat<kCount * kPair>([&](auto index) __attribute__((always_inline)) {
        constexpr std::size_t kStep = decltype(index)::value / kPair;
        constexpr std::size_t kMember = decltype(index)::value % kPair;
        Vec wide[kKeys];
        repeat<kKeys>([&](auto k) __attribute__((always_inline)) { wide[k] = keys.load(kStep, kMember, from + k); });
        repeat<kRows>([&](auto r) __attribute__((always_inline)) {
            const Vec query = v_load(queries + (decltype(index)::value * kRows + r) * kWidth);
            repeat<kKeys>([&](auto k) __attribute__((always_inline)) {
                // The first product of a sum is no fused step onto zero; that changes the sign of a zero at most, which
                // no softmax can see.
                Vec& sum = sums[kMember][r][k];
                sum = kFirst && kStep == 0 ? v_mul(query, wide[k]) : v_fma(query, wide[k], sum);
            });
        });
        end_of_loads();
    });
}

// One pass over all elements: its sums are the first half of sums[0].
template <std::size_t kRows, std::size_t kKeys, typename Cursor>
[[gnu::always_inline]] inline void score_pass(const float* queries, Cursor keys, std::size_t from, std::size_t steps,
                                              Vec (&out)[kRows][kKeys]) {
    Vec sums[kPair][kRows][kKeys];
    const auto run = [&](auto first, auto count) __attribute__((always_inline)) {
        constexpr std::size_t kCount = decltype(count)::value;
        score_steps<decltype(first)::value != 0, kCount>(queries, keys, from, sums);
        queries += kCount * kPair * kRows * kWidth;
        keys = keys.after(kCount);
        steps -= kCount;
    };
    run(Index<1>{}, Index<1>{});
    while (steps != 0) run(Index<0>{}, Index<1>{});
    repeat<kRows>([&](auto r) __attribute__((always_inline)) {
        repeat<kKeys>([&](auto k) __attribute__((always_inline)) {
            out[r][k] = sums[0][r][k];
            if constexpr (kPair == 2) out[r][k] = v_add(sums[0][r][k], sums[1][r][k]);
        });
    });
}

// Scaled scores of kRows packed rows with keys [first, end), whole fours; head_dim is a multiple of sixteen.
template <std::size_t kRows, typename Keys>
inline void score_rows(const float* queries, Keys keys, std::size_t first, std::size_t end, std::size_t dim,
                       float scale, float* const (&scores_of)[kRows]) {
    constexpr std::size_t kKeys = kScoreKeys<kRows>;
    float* scores[kRows];  // a copy that nothing else can reach stays in registers
    repeat<kRows>([&](auto r) __attribute__((always_inline)) { scores[r] = scores_of[r]; });
    for (std::size_t four = first; four < end; four += 4) {
        for (std::size_t i = 0; i < 4 * dim; i += kLineHalves) keys.prefetch(four * dim + i);
        Vec folded[kRows][4];
        repeat<4 / kKeys>([&](auto part) __attribute__((always_inline)) {
            Vec sums[kPasses][kRows][kKeys];
            repeat<kPasses>([&](auto pass) __attribute__((always_inline)) {
                score_pass(queries + packed_offset<kRows>(pass, dim), keys.cursor(four, pass, dim), part * kKeys,
                           dim / kLaneCount, sums[pass]);
            });
            repeat<kRows>([&](auto r) __attribute__((always_inline)) {
                repeat<kKeys>([&](auto k) __attribute__((always_inline)) {
                    Vec& sum = folded[r][part * kKeys + k];
                    sum = sums[0][r][k];
                    if constexpr (kPasses == 2) sum = v_add(sums[0][r][k], sums[1][r][k]);
                });
            });
        });
        repeat<kRows>([&](auto r) __attribute__((always_inline)) {
            store4(scores[r] + four, mul4(v_sum_folded(folded[r]), scale));
        });
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
// rounds to a whole number, 2^n fits in one factor because e^-87.3 is still a normal number, and the polynomial is
// halved throughout because the factor is 2^(n + 1): an even offset keeps ties to even. NaN stays.
alignas(16) constexpr float kExpTerms[5][4] = {{0x1.123e14p-8f, 0x1.123e14p-8f, 0x1.123e14p-8f, 0x1.123e14p-8f},
                                               {0x1.55547ep-6f, 0x1.55547ep-6f, 0x1.55547ep-6f, 0x1.55547ep-6f},
                                               {0x1.55548ap-4f, 0x1.55548ap-4f, 0x1.55548ap-4f, 0x1.55548ap-4f},
                                               {0.25f, 0.25f, 0.25f, 0.25f},
                                               {0.5f, 0.5f, 0.5f, 0.5f}};
// All of x step by step: one after the other, their chains would fill the queues of the vector pipes.
template <std::size_t kCount>
[[gnu::always_inline]] inline void v_exp_nonpositive(Vec (&x)[kCount]) {
    const Vec offset = v_set(12582912.0f + 128.0f);
    Vec shifted[kCount];
    Vec r[kCount];
    Vec p[kCount];
    repeat<kCount>([&](auto i) __attribute__((always_inline)) {
        shifted[i] = v_add(v_mul(x[i], v_set(0x1.715476p+0f)), offset);
    });
    repeat<kCount>([&](auto i) __attribute__((always_inline)) {
        const Vec n = v_sub(shifted[i], offset);
        r[i] = v_fma(n, v_set(-0x1.0bfbe8p-15f), v_fma(n, v_set(-0x1.62ep-1f), x[i]));
        p[i] = v_set(0x1.6d981cp-11f);
    });
    repeat<6>([&](auto term) __attribute__((always_inline)) {
        constexpr std::size_t kTerm = decltype(term)::value < 5 ? decltype(term)::value : 4;
        repeat<kCount>([&](auto i)
                           __attribute__((always_inline)) { p[i] = v_fma(p[i], r[i], v_addend(kExpTerms[kTerm])); });
    });
    repeat<kCount>([&](auto i) __attribute__((always_inline)) {
        const Vec power = v_mul(p[i], v_low_bits_to_exponent(shifted[i]));
        x[i] = v_select_less(x[i], v_set(-87.3f), v_set(0.0f), power);
    });
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
    repeat<4>([&](auto i) __attribute__((always_inline)) { most[i] = v_load(scores + i * kWidth); });
    for (std::size_t k = 4 * kWidth; k < kKvBlockTokens; k += 4 * kWidth) {
        repeat<4>([&](auto i)
                      __attribute__((always_inline)) { most[i] = v_max(most[i], v_load(scores + k + i * kWidth)); });
    }
    return v_largest(v_max(v_max(most[0], most[1]), v_max(most[2], most[3])));
}

// Scores to exp(score - largest); returns their sum.
inline float scores_to_weights(float* scores, float largest) {
    Lanes sums;
    clear_lanes(sums);
    for (std::size_t k = 0; k < kKvBlockTokens; k += kLaneCount) {
        Vec weights[kVecs];
        repeat<kVecs>([&](auto i) __attribute__((always_inline)) {
            weights[i] = v_sub(v_load(scores + k + i * kWidth), v_set(largest));
        });
        v_exp_nonpositive(weights);
        repeat<kVecs>([&](auto i) __attribute__((always_inline)) {
            v_store(scores + k + i * kWidth, weights[i]);
            sums[i] = v_add(sums[i], weights[i]);
        });
    }
    return v_sum_tree(sums);
}

// V, [position][head_dim]: in the f16 of the cache, converted on the way; converted; and from one to the other.
struct HalfValues {
    const std::uint16_t* values;
    [[gnu::always_inline]] Vec load(std::size_t i) const { return v_load_value(values + i); }
};
struct FloatValues {
    const float* values;
    [[gnu::always_inline]] Vec load(std::size_t i) const { return v_load(values + i); }
};
struct ConvertingValues {
    HalfValues halves;
    float* values;
    [[gnu::always_inline]] Vec load(std::size_t i) const {
        const Vec wide = halves.load(i);
        v_store(values + i, wide);
        return wide;
    }
};

// acc[r][i] = fma(factor of row r, value, acc[r][i]) for the elements of kCount neighbouring positions. Values are
// loaded two steps before they are used: the queues of the vector pipes are too short to wait for many loads.
template <std::size_t kCount, std::size_t kRows, std::size_t kParts, typename Source>
[[gnu::always_inline]] inline void add_positions(const Factors (&factors)[kRows], Source values, std::size_t at,
                                                 std::size_t dim, Vec (&acc)[kRows][kParts]) {
    constexpr std::size_t kSteps = kCount * kParts;
    constexpr std::size_t kAhead = 2;
    Vec waiting[kAhead + 1];
    const auto load = [&](auto step) __attribute__((always_inline)) {
        constexpr std::size_t kStep = decltype(step)::value;
        if constexpr (kStep < kSteps) {
            waiting[kStep % (kAhead + 1)] = values.load(at + kStep / kParts * dim + kStep % kParts * kWidth);
        }
    };
    repeat<kAhead>(load);
    repeat<kSteps>([&](auto step) __attribute__((always_inline)) {
        constexpr std::size_t kStep = decltype(step)::value;
        load(Index<kStep + kAhead>{});
        end_of_loads();
        repeat<kRows>([&](auto r) __attribute__((always_inline)) {
            Vec& sum = acc[r][kStep % kParts];
            sum = v_fma_factor<static_cast<int>(kStep / kParts)>(factors[r], waiting[kStep % (kAhead + 1)], sum);
        });
    });
}

// What becomes of weighted values: added to what is there, put there, or merged into the values of earlier blocks.
struct AddTo {
    [[gnu::always_inline]] static Vec start(const float* out) { return v_load(out); }
    [[gnu::always_inline]] Vec finish(Vec sum, std::size_t, const float*) const { return sum; }
};
struct Put {
    [[gnu::always_inline]] static Vec start(const float*) { return v_set(0.0f); }
    [[gnu::always_inline]] Vec finish(Vec sum, std::size_t, const float*) const { return sum; }
};
struct MergeInto {
    const float* old_factors;  // by row
    const float* new_factors;
    [[gnu::always_inline]] static Vec start(const float*) { return v_set(0.0f); }
    [[gnu::always_inline]] Vec finish(Vec sum, std::size_t r, const float* out) const {
        return v_fma(v_load(out), v_set(old_factors[r]), v_mul(sum, v_set(new_factors[r])));
    }
};

// sum[d] = fma(weight, value[d], sum[d]) over ascending positions [first, end), for kParts vectors from element d on.
template <std::size_t kRows, std::size_t kParts, typename Source, typename Finish>
[[gnu::always_inline]] inline void add_part(const float* const (&weights)[kRows], Source values, std::size_t first,
                                            std::size_t end, std::size_t dim, std::size_t d, Finish finish,
                                            float* const (&out)[kRows]) {
    Vec acc[kRows][kParts];
    repeat<kRows>([&](auto r) __attribute__((always_inline)) {
        repeat<kParts>([&](auto i)
                           __attribute__((always_inline)) { acc[r][i] = Finish::start(out[r] + d + i * kWidth); });
    });
    Factors factors[kRows];
    std::size_t p = first;
    for (; p + 4 <= end; p += 4) {
        repeat<kRows>([&](auto r) __attribute__((always_inline)) { factors[r] = load_factors(weights[r] + p); });
        add_positions<4>(factors, values, p * dim + d, dim, acc);
    }
    for (; p < end; ++p) {
        repeat<kRows>([&](auto r) __attribute__((always_inline)) { factors[r] = load_factor(weights[r] + p); });
        add_positions<1>(factors, values, p * dim + d, dim, acc);
    }
    repeat<kRows>([&](auto r) __attribute__((always_inline)) {
        repeat<kParts>([&](auto i) __attribute__((always_inline)) {
            float* at = out[r] + d + i * kWidth;
            v_store(at, finish.finish(acc[r][i], r, at));
        });
    });
}

// The same for all elements that fill whole vectors; returns the first that does not.
template <std::size_t kRows, typename Source, typename Finish>
inline std::size_t add_values(const float* const* weights_of, Source values, std::size_t first, std::size_t end,
                              std::size_t dim, Finish finish, float* const* out_of) {
    constexpr std::size_t kParts = kValueParts<kRows>;
    const float* weights[kRows];  // copies that nothing else can reach stay in registers
    float* out[kRows];
    repeat<kRows>([&](auto r) __attribute__((always_inline)) {
        weights[r] = weights_of[r];
        out[r] = out_of[r];
    });
    std::size_t d = 0;
    for (; d + kParts * kWidth <= dim; d += kParts * kWidth) {
        add_part<kRows, kParts>(weights, values, first, end, dim, d, finish, out);
    }
    for (; d + 4 * kWidth <= dim; d += 4 * kWidth) {
        add_part<kRows, 4>(weights, values, first, end, dim, d, finish, out);
    }
    for (; d + kWidth <= dim; d += kWidth) add_part<kRows, 1>(weights, values, first, end, dim, d, finish, out);
    return d;
}

}  // namespace

}  // namespace hearth
