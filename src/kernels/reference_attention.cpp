// Attention of one token over its KV blocks. A split is one KV block of 64 absolute positions; splits are computed
// apart and merged in ascending order, so whoever computes them, and in whatever order, the bits are the same.
#include <cmath>

#include "kernels/reference.h"

namespace hearth {

namespace {

// What one split leaves: the largest score, the sum of exp(score - largest), and the values weighted by these.
struct Split {
    float largest = 0.0f;
    float sum = 0.0f;
    float values[kMaxHeadDim] = {};
};

// K or V of one position of a block as halves: where they lie, or widened into `space`.
const Half* halves_of(const AttentionTask& task, const std::byte* rows, std::size_t position, Half* space) {
    const std::byte* row = rows + position * kv_row_bytes(task.kv_type, task.head_dim);
    if (task.kv_type == KvType::F16) return reinterpret_cast<const Half*>(row);
    reference_widen_kv({task.kv_type, row, 1, task.head_dim, space});
    return space;
}

void compute_split(const AttentionTask& task, const float* query, std::size_t block, Split& split) {
    const std::size_t begin = block * kKvBlockTokens;
    const std::size_t first = task.first > begin ? task.first - begin : 0;
    const std::size_t last = task.last - begin < kKvBlockTokens ? task.last - begin : kKvBlockTokens - 1;
    const std::byte* base = task.pool + task.block_table[block] * task.block_bytes;
    Half space[kMaxHeadDim];

    float weights[kKvBlockTokens] = {};
    for (std::size_t i = first; i <= last; ++i) {
        const Half* key = halves_of(task, base + task.key_offset, i, space);
        float lanes[kLanes] = {};
        for (std::size_t d = 0; d < task.head_dim; ++d) {
            lanes[d % kLanes] = std::fma(query[d], to_float(key[d]), lanes[d % kLanes]);
        }
        weights[i] = sum_lanes(lanes) * task.scale;
    }
    split.largest = weights[first];
    for (std::size_t i = first; i <= last; ++i) {
        if (weights[i] > split.largest) split.largest = weights[i];
    }
    float lanes[kLanes] = {};
    for (std::size_t i = first; i <= last; ++i) {
        weights[i] = exp_reference(weights[i] - split.largest);
        lanes[i % kLanes] += weights[i];
    }
    split.sum = sum_lanes(lanes);
    for (std::size_t i = first; i <= last; ++i) {
        const Half* value = halves_of(task, base + task.value_offset, i, space);
        for (std::size_t d = 0; d < task.head_dim; ++d) {
            split.values[d] = std::fma(weights[i], to_float(value[d]), split.values[d]);
        }
    }
}

void merge(const Split& split, std::size_t head_dim, Split& state) {
    const float largest = split.largest > state.largest ? split.largest : state.largest;
    const float old_factor = exp_reference(state.largest - largest);
    const float new_factor = exp_reference(split.largest - largest);
    state.largest = largest;
    state.sum = std::fma(state.sum, old_factor, split.sum * new_factor);
    for (std::size_t d = 0; d < head_dim; ++d) {
        state.values[d] = std::fma(state.values[d], old_factor, split.values[d] * new_factor);
    }
}

void attention(const AttentionTask& task) {
    for (std::size_t head = 0; head < task.group; ++head) {
        const float* query = task.query + head * task.head_dim;
        Split state;
        const std::size_t first_block = task.first / kKvBlockTokens;
        for (std::size_t block = first_block; block <= task.last / kKvBlockTokens; ++block) {
            if (block == first_block) {
                compute_split(task, query, block, state);
                continue;
            }
            Split split;
            compute_split(task, query, block, split);
            merge(split, task.head_dim, state);
        }
        for (std::size_t d = 0; d < task.head_dim; ++d) {
            task.out[head * task.head_dim + d] = state.values[d] / state.sum;
        }
    }
}

void attention_splits(const AttentionSplitTask& task) {
    const AttentionTask& attention = task.attention;
    float* entry = task.splits;
    for (std::size_t block = task.first_block; block < task.first_block + task.block_count; ++block) {
        for (std::size_t head = 0; head < attention.group; ++head) {
            Split split;
            compute_split(attention, attention.query + head * attention.head_dim, block, split);
            for (std::size_t d = 0; d < attention.head_dim; ++d) entry[d] = split.values[d];
            entry[attention.head_dim] = split.largest;
            entry[attention.head_dim + 1] = split.sum;
            entry += attention_split_floats(attention.head_dim);
        }
    }
}

void attention_merge(const AttentionMergeTask& task) {
    for (std::size_t head = 0; head < task.group; ++head) {
        Split state;
        for (std::size_t block = 0; block < task.block_count; ++block) {
            const float* entry = task.splits + (block * task.group + head) * attention_split_floats(task.head_dim);
            Split split;
            for (std::size_t d = 0; d < task.head_dim; ++d) split.values[d] = entry[d];
            split.largest = entry[task.head_dim];
            split.sum = entry[task.head_dim + 1];
            if (block == 0) {
                state = split;
            } else {
                merge(split, task.head_dim, state);
            }
        }
        for (std::size_t d = 0; d < task.head_dim; ++d) {
            task.out[head * task.head_dim + d] = state.values[d] / state.sum;
        }
    }
}

void attention_tile(const AttentionTileTask& task) {
    for (std::size_t token = 0; token < task.tokens; ++token) {
        const std::size_t position = task.position + token;
        const bool hidden = task.window != 0 && position + 1 > task.window;
        attention({.query = task.query + token * task.query_stride,
                   .out = task.out + token * task.out_stride,
                   .group = task.group,
                   .head_dim = task.head_dim,
                   .pool = task.pool,
                   .block_table = task.block_table,
                   .block_bytes = task.block_bytes,
                   .key_offset = task.key_offset,
                   .value_offset = task.value_offset,
                   .first = hidden ? position + 1 - task.window : 0,
                   .last = position,
                   .scale = task.scale,
                   .kv_type = task.kv_type});
    }
}

}  // namespace

void install_reference_attention(Kernels& table) {
    table.attention = attention;
    table.attention_splits = attention_splits;
    table.attention_merge = attention_merge;
    table.attention_tile = attention_tile;
}

}  // namespace hearth
