// Attention for any vector ISA. K and V are converted to f32 once for all heads of a group, sixteen positions at a
// time, and stay in the first-level cache while the heads use them. Include after simd_float.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace hearth {

namespace {

inline constexpr std::size_t kHeads = 8;       // query heads handled together; a larger group goes in rounds
inline constexpr std::size_t kPositions = 16;  // positions converted at a time

struct SplitState {
    alignas(64) float converted[kPositions * kMaxHeadDim];  // K or V of some positions in f32
    alignas(64) float weights[kHeads][kKvBlockTokens];      // scores, then exp(score - largest)
    alignas(64) float values[kHeads][kMaxHeadDim];          // this split's weighted values
    float split_largest[kHeads];
    float split_sum[kHeads];
    float largest[kHeads];  // of the splits merged so far
    float sum[kHeads];
};

// What of one KV block is visible.
struct SplitRange {
    const std::uint16_t* keys;
    const std::uint16_t* values;
    std::size_t first;
    std::size_t last;
};

inline SplitRange split_range(const AttentionTask& task, std::size_t block) {
    const std::size_t begin = block * kKvBlockTokens;
    const std::byte* base = task.pool + task.block_table[block] * task.block_bytes;
    return {reinterpret_cast<const std::uint16_t*>(base + task.key_offset),
            reinterpret_cast<const std::uint16_t*>(base + task.value_offset),
            task.first > begin ? task.first - begin : 0,
            task.last - begin < kKvBlockTokens ? task.last - begin : kKvBlockTokens - 1};
}

inline void convert(const std::uint16_t* from, std::size_t n, float* to) {
    std::size_t i = 0;
    for (; i + kWidth <= n; i += kWidth) v_store(to + i, v_load_f16(from + i));
    if (i == n) return;
    std::uint16_t padded[kWidth] = {};
    for (std::size_t k = i; k < n; ++k) padded[k - i] = from[k];
    float wide[kWidth];
    v_store(wide, v_load_f16(padded));
    for (std::size_t k = i; k < n; ++k) to[k] = wide[k - i];
}

// Dot products of one query with four keys.
[[gnu::always_inline]] inline void score_four(const float* query, const float* keys, std::size_t dim, float scale,
                                              float* out) {
    Lanes acc[4];
    for (Lanes& lanes : acc) clear_lanes(lanes);
    const std::size_t whole = dim / kLaneCount * kLaneCount;
    for (std::size_t d = 0; d < whole; d += kLaneCount) {
        for (std::size_t i = 0; i < kVecs; ++i) {
            const Vec q = v_load(query + d + i * kWidth);
            for (std::size_t p = 0; p < 4; ++p)
                acc[p][i] = v_fma(q, v_load(keys + p * dim + d + i * kWidth), acc[p][i]);
        }
    }
    if (whole < dim) {
        for (std::size_t p = 0; p < 4; ++p)
            add_tail<WeightF32>(acc[p], query + whole, keys + p * dim + whole, dim - whole);
    }
    store4(out, mul4(v_sum_trees(acc[0], acc[1], acc[2], acc[3]), scale));
}

inline void score_one(const float* query, const float* key, std::size_t dim, float scale, float* out) {
    Lanes acc;
    clear_lanes(acc);
    const std::size_t whole = dim / kLaneCount * kLaneCount;
    for (std::size_t d = 0; d < whole; d += kLaneCount) {
        for (std::size_t i = 0; i < kVecs; ++i) {
            acc[i] = v_fma(v_load(query + d + i * kWidth), v_load(key + d + i * kWidth), acc[i]);
        }
    }
    if (whole < dim) add_tail<WeightF32>(acc, query + whole, key + whole, dim - whole);
    *out = v_sum_tree(acc) * scale;
}

inline void compute_scores(const AttentionTask& task, const SplitRange& range, std::size_t head, std::size_t heads,
                           SplitState& state) {
    const std::size_t dim = task.head_dim;
    for (std::size_t begin = range.first; begin <= range.last; begin += kPositions) {
        const std::size_t left = range.last + 1 - begin;
        const std::size_t count = left < kPositions ? left : kPositions;
        convert(range.keys + begin * dim, count * dim, state.converted);
        for (std::size_t h = 0; h < heads; ++h) {
            const float* query = task.query + (head + h) * dim;
            float* scores = state.weights[h] + begin;
            std::size_t p = 0;
            for (; p + 4 <= count; p += 4) score_four(query, state.converted + p * dim, dim, task.scale, scores + p);
            for (; p < count; ++p) score_one(query, state.converted + p * dim, dim, task.scale, scores + p);
        }
    }
}

// Scores to exp(score - largest), and their sum. Positions that are not visible get weight zero.
inline void softmax(const SplitRange& range, std::size_t h, SplitState& state) {
    float* weights = state.weights[h];
    float largest = weights[range.first];
    for (std::size_t i = range.first; i <= range.last; ++i) {
        if (weights[i] > largest) largest = weights[i];
    }
    for (std::size_t i = 0; i < range.first; ++i) weights[i] = -__builtin_inff();
    for (std::size_t i = range.last + 1; i < kKvBlockTokens; ++i) weights[i] = -__builtin_inff();
    Lanes sums;
    clear_lanes(sums);
    for (std::size_t k = 0; k < kKvBlockTokens; k += kLaneCount) {
        for (std::size_t i = 0; i < kVecs; ++i) {
            const Vec weight = v_exp(v_sub(v_load(weights + k + i * kWidth), v_set(largest)));
            v_store(weights + k + i * kWidth, weight);
            sums[i] = v_add(sums[i], weight);
        }
    }
    state.split_largest[h] = largest;
    state.split_sum[h] = v_sum_tree(sums);
}

// values[d] = fma(weight, v[d], values[d]) over ascending positions, for kHeadCount heads at once.
template <std::size_t kHeadCount>
[[gnu::always_inline]] inline void add_values(const float* const* weights, std::size_t count, const float* v,
                                              std::size_t dim, float* const* values) {
    constexpr std::size_t kStep = 16 / kHeadCount >= 8 ? 32 : 16;  // elements kept in registers a head
    constexpr std::size_t kParts = kStep / kWidth;
    std::size_t d = 0;
    for (; d + kStep <= dim; d += kStep) {
        Vec acc[kHeadCount][kParts];
        for (std::size_t h = 0; h < kHeadCount; ++h) {
            for (std::size_t i = 0; i < kParts; ++i) acc[h][i] = v_load(values[h] + d + i * kWidth);
        }
        for (std::size_t p = 0; p < count; ++p) {
            for (std::size_t i = 0; i < kParts; ++i) {
                const Vec value = v_load(v + p * dim + d + i * kWidth);
                for (std::size_t h = 0; h < kHeadCount; ++h) acc[h][i] = v_fma(v_set(weights[h][p]), value, acc[h][i]);
            }
        }
        for (std::size_t h = 0; h < kHeadCount; ++h) {
            for (std::size_t i = 0; i < kParts; ++i) v_store(values[h] + d + i * kWidth, acc[h][i]);
        }
    }
    for (; d < dim; ++d) {
        for (std::size_t h = 0; h < kHeadCount; ++h) {
            float value = values[h][d];
            for (std::size_t p = 0; p < count; ++p) value = __builtin_fmaf(weights[h][p], v[p * dim + d], value);
            values[h][d] = value;
        }
    }
}

inline void compute_values(const AttentionTask& task, const SplitRange& range, std::size_t heads, SplitState& state) {
    const std::size_t dim = task.head_dim;
    for (std::size_t h = 0; h < heads; ++h) __builtin_memset(state.values[h], 0, dim * sizeof(float));
    for (std::size_t begin = range.first; begin <= range.last; begin += kPositions) {
        const std::size_t left = range.last + 1 - begin;
        const std::size_t count = left < kPositions ? left : kPositions;
        convert(range.values + begin * dim, count * dim, state.converted);
        std::size_t h = 0;
        for (; h + 2 <= heads; h += 2) {
            const float* weights[2] = {state.weights[h] + begin, state.weights[h + 1] + begin};
            float* values[2] = {state.values[h], state.values[h + 1]};
            add_values<2>(weights, count, state.converted, dim, values);
        }
        if (h < heads) {
            const float* weights[1] = {state.weights[h] + begin};
            float* values[1] = {state.values[h]};
            add_values<1>(weights, count, state.converted, dim, values);
        }
    }
}

inline float exp_one(float x) {
    float lanes[kWidth];
    v_store(lanes, v_exp(v_set(x)));
    return lanes[0];
}

// Merges this split into the output, which holds the values of the splits before it.
inline void merge(std::size_t h, std::size_t dim, float* out, SplitState& state) {
    const float largest = state.split_largest[h] > state.largest[h] ? state.split_largest[h] : state.largest[h];
    const float old_factor = exp_one(state.largest[h] - largest);
    const float new_factor = exp_one(state.split_largest[h] - largest);
    state.largest[h] = largest;
    state.sum[h] = __builtin_fmaf(state.sum[h], old_factor, state.split_sum[h] * new_factor);
    const float* values = state.values[h];
    std::size_t d = 0;
    for (; d + kWidth <= dim; d += kWidth) {
        v_store(out + d, v_fma(v_load(out + d), v_set(old_factor), v_mul(v_load(values + d), v_set(new_factor))));
    }
    for (; d < dim; ++d) out[d] = __builtin_fmaf(out[d], old_factor, values[d] * new_factor);
}

// Heads [head, head + heads) of the group over all splits.
inline void attend(const AttentionTask& task, std::size_t head, std::size_t heads) {
    SplitState state;
    const std::size_t dim = task.head_dim;
    const std::size_t first_block = task.first / kKvBlockTokens;
    for (std::size_t block = first_block; block <= task.last / kKvBlockTokens; ++block) {
        const SplitRange range = split_range(task, block);
        compute_scores(task, range, head, heads, state);
        for (std::size_t h = 0; h < heads; ++h) softmax(range, h, state);
        compute_values(task, range, heads, state);
        for (std::size_t h = 0; h < heads; ++h) {
            float* out = task.out + (head + h) * dim;
            if (block == first_block) {
                state.largest[h] = state.split_largest[h];
                state.sum[h] = state.split_sum[h];
                __builtin_memcpy(out, state.values[h], dim * sizeof(float));
            } else {
                merge(h, dim, out, state);
            }
        }
    }
    for (std::size_t h = 0; h < heads; ++h) {
        float* out = task.out + (head + h) * dim;
        for (std::size_t d = 0; d < dim; ++d) out[d] = out[d] / state.sum[h];
    }
}

inline void attention(const AttentionTask& task) {
    for (std::size_t head = 0; head < task.group; head += kHeads) {
        attend(task, head, task.group - head < kHeads ? task.group - head : kHeads);
    }
}

inline void install_attention(Kernels& table) {
    table.attention = attention;
}

}  // namespace

}  // namespace hearth
