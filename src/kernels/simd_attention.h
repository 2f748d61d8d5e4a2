// Attention for any vector ISA: one token, some blocks of one token, or a tile of tokens. All are sets of rows, a row
// being one query head of one token, that go through the KV blocks together: K of a block is converted to f32 once and
// scored by all rows, then V. Include after simd_attention_tiles.h and simd_kv.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/memory.h"
#include "kernels/kernels.h"

namespace hearth {

namespace {

inline constexpr std::size_t kRoundRows = 256;  // rows that share a conversion; more go in rounds

// Rows are in the order of their tokens, so the positions they see begin and end ever later.
struct Rows {
    std::size_t count;
    const float* query[kRoundRows];
    float* out[kRoundRows];
    std::size_t first[kRoundRows];  // visible positions, inclusive
    std::size_t last[kRoundRows];
    std::size_t first_block[kRoundRows];  // the block after which others are merged
    float largest[kRoundRows];            // of the blocks so far
    float sum[kRoundRows];
};

struct Workspace {
    alignas(64) float converted[kKvBlockTokens * kMaxHeadDim];  // K (packed) or V of a block in f32
    alignas(64) float gap[32];                                  // sets queries on other banks of the cache than keys
    alignas(64) float queries[kAttentionRows * kMaxHeadDim];    // of a tile, packed
    alignas(64) float weights[kRoundRows][kKvBlockTokens];      // scores, then exp(score - largest)
    alignas(64) float values[kAttentionRows][kMaxHeadDim];      // weighted values of this block alone
    Softmax split[kRoundRows];                                  // of this block alone
    alignas(64) std::uint16_t widened[kKvBlockTokens * kMaxHeadDim];  // K or V of a quantised block in f16
};

// Some rows and one KV block.
struct BlockTask {
    const std::uint16_t* keys;
    const std::uint16_t* values;
    const std::uint16_t* next_keys;  // of the block that follows
    const std::uint16_t* next_values;
    std::size_t block;  // absolute
    std::size_t begin;  // rows that see something of it: [begin, end)
    std::size_t end;
    std::size_t dim;
    float scale;
};

// What a row sees of a block, inclusive.
struct Visible {
    std::size_t first;
    std::size_t last;
};
inline Visible visible(const Rows& rows, std::size_t row, std::size_t block) {
    const std::size_t begin = block * kKvBlockTokens;
    return {rows.first[row] > begin ? rows.first[row] - begin : 0,
            rows.last[row] - begin < kKvBlockTokens ? rows.last[row] - begin : kKvBlockTokens - 1};
}

// The rows of the next tile, where `left` are to go.
inline std::size_t tile_rows(std::size_t left) {
    if (left == kAttentionRows) return left;
    return left < 3 ? left : 3;
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

inline void softmax(const BlockTask& task, const Rows& rows, std::size_t row, std::size_t count, Workspace& work) {
    for (std::size_t r = row; r < row + count; ++r) {
        const Visible own = visible(rows, r, task.block);
        work.split[r].largest = largest_score(work.weights[r], own.first, own.last);
    }
    for (std::size_t r = row; r < row + count; ++r) {
        work.split[r].sum = scores_to_weights(work.weights[r], work.split[r].largest);
    }
}

// Scores of kRows rows from `row` on. Positions are taken in whole fours: what is read too much lies in the block, and
// softmax forgets it.
template <std::size_t kRows, typename Source>
inline void score_tile(const BlockTask& task, const Rows& rows, std::size_t row, Source keys, Workspace& work) {
    float* scores[kRows];
    for (std::size_t r = 0; r < kRows; ++r) scores[r] = work.weights[row + r];
    pack_queries<kRows>(rows.query + row, task.dim, work.queries);
    const std::size_t first = visible(rows, row, task.block).first;
    const std::size_t last = visible(rows, row + kRows - 1, task.block).last;
    score_rows<kRows>(work.queries, keys, first / 4 * 4, last / 4 * 4 + 4, task.dim, task.scale, scores);
}

template <typename Source>
inline void score_tile(const BlockTask& task, const Rows& rows, std::size_t row, std::size_t count, Source keys,
                       Workspace& work) {
    if (count == 1) score_tile<1>(task, rows, row, keys, work);
    if (count == 2) score_tile<2>(task, rows, row, keys, work);
    if (count == 3) score_tile<3>(task, rows, row, keys, work);
    if constexpr (kAttentionRows == 4) {
        if (count == 4) score_tile<4>(task, rows, row, keys, work);
    }
    softmax(task, rows, row, count, work);
}

// Rows that are not a multiple of sixteen long.
inline void score_odd(const BlockTask& task, const Rows& rows, Workspace& work) {
    for (std::size_t row = task.begin; row < task.end; ++row) {
        const Visible own = visible(rows, row, task.block);
        for (std::size_t p = own.first; p <= own.last; ++p) {
            work.weights[row][p] = score_one(rows.query[row], work.converted + p * task.dim, task.dim) * task.scale;
        }
    }
    softmax(task, rows, task.begin, task.end - task.begin, work);
}

// Whether all rows see the same of the block: then the first tile can convert for the others.
inline bool same_for_all(const BlockTask& task, const Rows& rows) {
    const Visible first = visible(rows, task.begin, task.block);
    const Visible last = visible(rows, task.end - 1, task.block);
    return first.first == last.first && first.last == last.last && task.dim % kLaneCount == 0;
}

// What any row sees, in whole fours: positions [first, end).
struct Fours {
    std::size_t first;
    std::size_t end;
};
inline Fours visible_fours(const BlockTask& task, const Rows& rows) {
    return {visible(rows, task.begin, task.block).first / 4 * 4,
            visible(rows, task.end - 1, task.block).last / 4 * 4 + 4};
}

inline void convert_visible(const BlockTask& task, const Rows& rows, const std::uint16_t* from, Workspace& work) {
    const Fours fours = visible_fours(task, rows);
    convert(from + fours.first * task.dim, (fours.end - fours.first) * task.dim,
            work.converted + fours.first * task.dim);
}

inline void compute_weights(const BlockTask& task, const Rows& rows, Workspace& work) {
    if (task.dim % kLaneCount != 0) {
        convert_visible(task, rows, task.keys, work);
        return score_odd(task, rows, work);
    }
    bool packed = !same_for_all(task, rows);
    if (packed) {
        const Fours fours = visible_fours(task, rows);
        pack_keys(task.keys, fours.first, fours.end, task.dim, work.converted);
    }
    const HalfKeys halves = {task.keys, task.next_keys, task.next_values};
    for (std::size_t row = task.begin; row < task.end;) {
        const std::size_t count = tile_rows(task.end - row);
        if (packed) {
            score_tile(task, rows, row, count, PackedKeys{work.converted}, work);
        } else if (row + count == task.end) {
            score_tile(task, rows, row, count, halves, work);
        } else {
            score_tile(task, rows, row, count, PackingKeys{halves, work.converted}, work);
            packed = true;
        }
        row += count;
    }
}

// One row and positions [first, end), from converted values; any head_dim.
inline void add_values_of_one(const float* weights, const float* values, std::size_t first, std::size_t end,
                              std::size_t dim, float* out) {
    for (std::size_t d = add_values<1>(&weights, FloatValues{values}, first, end, dim, AddTo{}, &out); d < dim; ++d) {
        float value = out[d];
        for (std::size_t p = first; p < end; ++p) value = __builtin_fmaf(weights[p], values[p * dim + d], value);
        out[d] = value;
    }
}

// Merges a block's values into those of the blocks before it.
inline void merge_values(const float* values, float old_factor, float new_factor, std::size_t dim, float* out) {
    std::size_t d = 0;
    for (; d + kWidth <= dim; d += kWidth) {
        v_store(out + d, v_fma(v_load(out + d), v_set(old_factor), v_mul(v_load(values + d), v_set(new_factor))));
    }
    for (; d < dim; ++d) out[d] = __builtin_fmaf(out[d], old_factor, values[d] * new_factor);
}

// What the values so far and those of a block are multiplied with where they meet, for some rows.
struct MergeFactors {
    float old_factors[kAttentionRows];
    float new_factors[kAttentionRows];
};
// Largest scores and sums become those of both. The difference that is not zero is negative.
inline MergeFactors merge_sums(const Softmax* splits, std::size_t count, float* largest, float* sums) {
    constexpr std::size_t kPadded = (2 * kAttentionRows + kWidth - 1) / kWidth * kWidth;
    alignas(64) float factors[kPadded] = {};
    for (std::size_t r = 0; r < count; ++r) {
        const float both = splits[r].largest > largest[r] ? splits[r].largest : largest[r];
        factors[2 * r] = largest[r] - both;
        factors[2 * r + 1] = splits[r].largest - both;
        largest[r] = both;
    }
    Vec exponents[kPadded / kWidth];
    for (std::size_t i = 0; i < kPadded; i += kWidth) exponents[i / kWidth] = v_load(factors + i);
    v_exp_nonpositive(exponents);
    for (std::size_t i = 0; i < kPadded; i += kWidth) v_store(factors + i, exponents[i / kWidth]);
    MergeFactors merged;
    for (std::size_t r = 0; r < count; ++r) {
        merged.old_factors[r] = factors[2 * r];
        merged.new_factors[r] = factors[2 * r + 1];
        sums[r] = __builtin_fmaf(sums[r], factors[2 * r], splits[r].sum * factors[2 * r + 1]);
    }
    return merged;
}

// Weighted values of kRows rows that do not see the same of the block, or are not all new to it: what all see goes
// together, and no row may touch a position that it does not see.
template <std::size_t kRows>
inline void value_rows_apart(const BlockTask& task, Rows& rows, std::size_t row, Workspace& work) {
    const float* weights[kRows];
    float* out[kRows];
    for (std::size_t r = 0; r < kRows; ++r) {
        weights[r] = work.weights[row + r];
        out[r] = rows.first_block[row + r] == task.block ? rows.out[row + r] : work.values[r];
        __builtin_memset(out[r], 0, task.dim * sizeof(float));
    }
    const std::size_t first = visible(rows, row + kRows - 1, task.block).first;
    const std::size_t end = visible(rows, row, task.block).last + 1;
    const bool together = first < end && task.dim % kLaneCount == 0;
    for (std::size_t r = 0; r < kRows; ++r) {
        const Visible own = visible(rows, row + r, task.block);
        const std::size_t apart = together ? first : own.last + 1;
        if (own.first < apart) add_values_of_one(weights[r], work.converted, own.first, apart, task.dim, out[r]);
    }
    if (together) {
        add_values<kRows>(weights, FloatValues{work.converted}, first, end, task.dim, AddTo{}, out);
        for (std::size_t r = 0; r < kRows; ++r) {
            const std::size_t own_end = visible(rows, row + r, task.block).last + 1;
            if (end < own_end) add_values_of_one(weights[r], work.converted, end, own_end, task.dim, out[r]);
        }
    }
    for (std::size_t r = 0; r < kRows; ++r) {
        if (rows.first_block[row + r] == task.block) {
            rows.largest[row + r] = work.split[row + r].largest;
            rows.sum[row + r] = work.split[row + r].sum;
            continue;
        }
        const MergeFactors factors = merge_sums(&work.split[row + r], 1, &rows.largest[row + r], &rows.sum[row + r]);
        merge_values(work.values[r], factors.old_factors[0], factors.new_factors[0], task.dim, rows.out[row + r]);
    }
}

// Weighted values of kRows rows that see the same of the block, put into or merged with their outputs.
template <std::size_t kRows, typename Source>
inline void value_rows(const BlockTask& task, Rows& rows, std::size_t row, Source values, Workspace& work) {
    const float* weights[kRows];
    for (std::size_t r = 0; r < kRows; ++r) weights[r] = work.weights[row + r];
    const Visible seen = visible(rows, row, task.block);
    if (rows.first_block[row] == task.block) {
        for (std::size_t r = row; r < row + kRows; ++r) {
            rows.largest[r] = work.split[r].largest;
            rows.sum[r] = work.split[r].sum;
        }
        add_values<kRows>(weights, values, seen.first, seen.last + 1, task.dim, Put{}, rows.out + row);
    } else {
        const MergeFactors factors = merge_sums(&work.split[row], kRows, &rows.largest[row], &rows.sum[row]);
        add_values<kRows>(weights, values, seen.first, seen.last + 1, task.dim,
                          MergeInto{factors.old_factors, factors.new_factors}, rows.out + row);
    }
}

template <typename Source>
inline void value_tile(const BlockTask& task, Rows& rows, std::size_t row, std::size_t count, Source values,
                       Workspace& work) {
    if (count == 1) value_rows<1>(task, rows, row, values, work);
    if (count == 2) value_rows<2>(task, rows, row, values, work);
    if (count == 3) value_rows<3>(task, rows, row, values, work);
    if constexpr (kAttentionRows == 4) {
        if (count == 4) value_rows<4>(task, rows, row, values, work);
    }
}

inline void value_tile_apart(const BlockTask& task, Rows& rows, std::size_t row, std::size_t count, Workspace& work) {
    if (count == 1) value_rows_apart<1>(task, rows, row, work);
    if (count == 2) value_rows_apart<2>(task, rows, row, work);
    if (count == 3) value_rows_apart<3>(task, rows, row, work);
    if constexpr (kAttentionRows == 4) {
        if (count == 4) value_rows_apart<4>(task, rows, row, work);
    }
}

inline void apply_weights(const BlockTask& task, Rows& rows, Workspace& work) {
    const bool apart = !same_for_all(task, rows) || rows.first_block[task.begin] != rows.first_block[task.end - 1];
    if (apart) convert_visible(task, rows, task.values, work);
    bool converted = false;
    const HalfValues halves = {task.values};
    for (std::size_t row = task.begin; row < task.end;) {
        const std::size_t count = tile_rows(task.end - row);
        if (apart) {
            value_tile_apart(task, rows, row, count, work);
        } else if (converted) {
            value_tile(task, rows, row, count, FloatValues{work.converted}, work);
        } else if (row + count == task.end) {
            value_tile(task, rows, row, count, halves, work);
        } else {
            value_tile(task, rows, row, count, ConvertingValues{halves, work.converted}, work);
            converted = true;
        }
        row += count;
    }
}

// Where K and V are, and of what shape.
struct Context {
    const std::byte* pool;
    const std::uint32_t* block_table;
    std::size_t block_bytes;
    std::size_t key_offset;
    std::size_t value_offset;
    std::size_t dim;
    float scale;
    KvType type;

    const std::byte* bytes(std::size_t block, std::size_t offset) const {
        return pool + block_table[block] * block_bytes + offset;
    }
    const std::uint16_t* at(std::size_t block, std::size_t offset) const {
        return reinterpret_cast<const std::uint16_t*>(bytes(block, offset));
    }
};

// What is seen of a quantised block's K or V, to work.widened; that of the next block is fetched meanwhile.
inline void widen_visible(const Context& context, const BlockTask& task, const Rows& rows, std::size_t offset,
                          std::size_t next, Workspace& work) {
    const std::size_t row_bytes = kv_row_bytes(context.type, context.dim);
    const Fours fours = visible_fours(task, rows);
    const std::byte* from = context.bytes(task.block, offset);
    const std::byte* fetched = context.bytes(next, offset);
    for (std::size_t four = fours.first; four < fours.end; four += 4) {
        for (std::size_t i = 0; i < 4 * row_bytes; i += kCacheLine) {
            __builtin_prefetch(fetched + four * row_bytes + i, 0, 2);
        }
        widen_rows(context.type, from + four * row_bytes, 4, context.dim, work.widened + four * context.dim);
    }
}

// Blocks [begin, end), each for the rows that see something of it. Blocks exist up to known_end: the one at end is
// likely to be asked for next, so it is fetched like the others.
inline void attend(const Context& context, std::size_t begin, std::size_t end, std::size_t known_end, Rows& rows,
                   Workspace& work) {
    std::size_t first_row = 0;
    std::size_t end_row = 0;
    for (std::size_t block = begin; block < end; ++block) {
        while (end_row < rows.count && rows.first[end_row] / kKvBlockTokens <= block) ++end_row;
        while (first_row < end_row && rows.last[first_row] / kKvBlockTokens < block) ++first_row;
        if (first_row == end_row) continue;
        const std::size_t next = block + 1 < known_end ? block + 1 : block;
        const bool quantised = context.type != KvType::F16;
        const BlockTask task = {.keys = quantised ? work.widened : context.at(block, context.key_offset),
                                .values = quantised ? work.widened : context.at(block, context.value_offset),
                                .next_keys = quantised ? work.widened : context.at(next, context.key_offset),
                                .next_values = quantised ? work.widened : context.at(next, context.value_offset),
                                .block = block,
                                .begin = first_row,
                                .end = end_row,
                                .dim = context.dim,
                                .scale = context.scale};
        if (quantised) widen_visible(context, task, rows, context.key_offset, next, work);
        compute_weights(task, rows, work);
        if (quantised) widen_visible(context, task, rows, context.value_offset, next, work);
        apply_weights(task, rows, work);
    }
}

inline void divide(float* values, float sum, std::size_t dim) {
    std::size_t d = 0;
    for (; d + kWidth <= dim; d += kWidth) v_store(values + d, v_div(v_load(values + d), v_set(sum)));
    for (; d < dim; ++d) values[d] = values[d] / sum;
}

inline Context context_of(const AttentionTask& task) {
    return {task.pool,         task.block_table, task.block_bytes, task.key_offset,
            task.value_offset, task.head_dim,    task.scale,       task.kv_type};
}

// Heads [head, head + rows.count) of one token.
inline void rows_of_token(const AttentionTask& task, std::size_t head, Rows& rows) {
    rows.count = task.group - head < kRoundRows ? task.group - head : kRoundRows;
    for (std::size_t r = 0; r < rows.count; ++r) {
        rows.query[r] = task.query + (head + r) * task.head_dim;
        rows.out[r] = task.out + (head + r) * task.head_dim;
        rows.first[r] = task.first;
        rows.last[r] = task.last;
        rows.first_block[r] = task.first / kKvBlockTokens;
    }
}

inline void attention(const AttentionTask& task) {
    Rows rows;
    Workspace work;
    for (std::size_t head = 0; head < task.group; head += kRoundRows) {
        rows_of_token(task, head, rows);
        const std::size_t end = task.last / kKvBlockTokens + 1;
        attend(context_of(task), task.first / kKvBlockTokens, end, end, rows, work);
        for (std::size_t r = 0; r < rows.count; ++r) divide(rows.out[r], rows.sum[r], task.head_dim);
    }
}

inline void attention_splits(const AttentionSplitTask& task) {
    Rows rows;
    Workspace work;
    const std::size_t group = task.attention.group;
    const std::size_t dim = task.attention.head_dim;
    for (std::size_t head = 0; head < group; head += kRoundRows) {
        rows_of_token(task.attention, head, rows);
        for (std::size_t i = 0; i < task.block_count; ++i) {
            for (std::size_t r = 0; r < rows.count; ++r) {
                rows.out[r] = task.splits + (i * group + head + r) * attention_split_floats(dim);
                rows.first_block[r] = task.first_block + i;  // merged with nothing
            }
            attend(context_of(task.attention), task.first_block + i, task.first_block + i + 1,
                   task.attention.last / kKvBlockTokens + 1, rows, work);
            for (std::size_t r = 0; r < rows.count; ++r) {
                rows.out[r][dim] = rows.largest[r];
                rows.out[r][dim + 1] = rows.sum[r];
            }
        }
    }
}

// Heads [head, head + count) together, because their exponentials are.
inline void merge_heads(const AttentionMergeTask& task, std::size_t head, std::size_t count) {
    const std::size_t dim = task.head_dim;
    const std::size_t stride = attention_split_floats(dim);
    const float* entry = task.splits + head * stride;
    float* out = task.out + head * dim;
    float largest[kAttentionRows];
    float sums[kAttentionRows];
    for (std::size_t r = 0; r < count; ++r) {
        largest[r] = entry[r * stride + dim];
        sums[r] = entry[r * stride + dim + 1];
        __builtin_memcpy(out + r * dim, entry + r * stride, dim * sizeof(float));
    }
    for (std::size_t block = 1; block < task.block_count; ++block) {
        entry += task.group * stride;
        Softmax splits[kAttentionRows];
        for (std::size_t r = 0; r < count; ++r) splits[r] = {entry[r * stride + dim], entry[r * stride + dim + 1]};
        const MergeFactors factors = merge_sums(splits, count, largest, sums);
        for (std::size_t r = 0; r < count; ++r) {
            merge_values(entry + r * stride, factors.old_factors[r], factors.new_factors[r], dim, out + r * dim);
        }
    }
    for (std::size_t r = 0; r < count; ++r) divide(out + r * dim, sums[r], dim);
}

inline void attention_merge(const AttentionMergeTask& task) {
    for (std::size_t head = 0; head < task.group; head += kAttentionRows) {
        merge_heads(task, head, task.group - head < kAttentionRows ? task.group - head : kAttentionRows);
    }
}

inline void attention_tile(const AttentionTileTask& task) {
    Rows rows;
    Workspace work;
    const Context context = {task.pool,         task.block_table, task.block_bytes, task.key_offset,
                             task.value_offset, task.head_dim,    task.scale,       task.kv_type};
    const std::size_t total = task.tokens * task.group;
    for (std::size_t begin = 0; begin < total; begin += kRoundRows) {
        rows.count = total - begin < kRoundRows ? total - begin : kRoundRows;
        for (std::size_t r = 0; r < rows.count; ++r) {
            const std::size_t token = (begin + r) / task.group;
            const std::size_t column = (begin + r) % task.group * task.head_dim;
            const std::size_t position = task.position + token;
            rows.query[r] = task.query + token * task.query_stride + column;
            rows.out[r] = task.out + token * task.out_stride + column;
            rows.first[r] = task.window != 0 && position + 1 > task.window ? position + 1 - task.window : 0;
            rows.last[r] = position;
            rows.first_block[r] = rows.first[r] / kKvBlockTokens;
        }
        const std::size_t end = rows.last[rows.count - 1] / kKvBlockTokens + 1;
        attend(context, rows.first_block[0], end, end, rows, work);
        for (std::size_t r = 0; r < rows.count; ++r) divide(rows.out[r], rows.sum[r], task.head_dim);
    }
}

inline void install_attention(Kernels& table) {
    table.attention = attention;
    table.attention_splits = attention_splits;
    table.attention_merge = attention_merge;
    table.attention_tile = attention_tile;
    table.widen_kv = widen_kv;
}

}  // namespace

}  // namespace hearth
