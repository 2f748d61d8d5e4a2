// Matmul over x86 panels of the types in blocks of 32: an exact integer a block, then
//   acc = fma(isum, d * s, acc), with minimums also acc = fma(sum, m * s, acc).
// Include after panels_x86_types.h.
#pragma once

#include "kernels/panels_x86_tiles.h"

namespace hearth {

namespace {

// One block of kVectors vectors of rows and kTokens tokens. weights(p, v): vector v of the block.
template <typename Type, std::size_t kTokens, std::size_t kVectors, typename Weights>
[[gnu::always_inline]] inline void add_block32(Weights weights, const Floats* d, const Floats* m,
                                               const ActivationBlock32* const (&x)[kTokens], std::size_t b,
                                               Floats (&acc)[kTokens][kVectors]) {
    Sum sums[kTokens][kVectors];
    for (std::size_t t = 0; t < kTokens; ++t) {
        const Sum start = start_sum<Type>(x[t][b].sum);
        for (std::size_t p = 0; p < kVectors; ++p) sums[t][p] = start;
    }
    unrolled<8>([&](auto v) __attribute__((always_inline)) {
        Ints w[kVectors];
        for (std::size_t p = 0; p < kVectors; ++p) w[p] = weights(p, v);
        for (std::size_t t = 0; t < kTokens; ++t) {
            const Ints q = broadcast4(x[t][b].q + 4 * v.kIndex);
            for (std::size_t p = 0; p < kVectors; ++p) add_products<Type, decltype(v)::kIndex>(sums[t][p], w[p], q);
        }
    });
    for (std::size_t t = 0; t < kTokens; ++t) {
        const ActivationBlock32& block = x[t][b];
        const Floats scale = set_floats(block.scale);
        for (std::size_t p = 0; p < kVectors; ++p) {
            const Ints isum = finish_sum<Type>(sums[t][p], block.sum);
            acc[t][p] = multiply_add(ints_to_floats(isum), multiply(d[p], scale), acc[t][p]);
            if constexpr (Type::Layout::kMinimum) {
                const Floats activations = ints_to_floats(set_ints(block.sum));
                acc[t][p] = multiply_add(activations, multiply(m[p], scale), acc[t][p]);
            }
        }
    }
}

// Few tokens: weights are unpacked as they come from memory.
template <typename Type, std::size_t kPanels>
struct Direct32 {
    static constexpr bool kNibbles = sizeof(Type::Block::q) == kBlock32 / 2;

    template <std::size_t kTokens>
    static void run(const PanelTask& task, std::size_t panel, std::size_t token) {
        constexpr std::size_t kVectors = kPanels * kPanelVectors;
        const ActivationBlock32* x[kTokens];
        Floats acc[kTokens][kVectors];
        for (std::size_t t = 0; t < kTokens; ++t) {
            x[t] = activation_row<ActivationBlock32>(task, token + t);
            for (std::size_t p = 0; p < kVectors; ++p) acc[t][p] = zero_floats();
        }
        const std::byte* pair = task.panels + panel * task.panel_bytes;
        const std::size_t blocks = task.columns / kBlock32;
        PanelEnd end = {.blocks = (blocks + 1) / 2, .skip = (kPanels - 1) * task.panel_bytes};
        std::size_t b = 0;
        for (; b + 2 <= blocks; b += 2, pair += Type::Layout::kBytes, --end.blocks) {
            add_block(task, pair, 0, end, x, b, acc);
            add_block(task, pair, 1, end, x, b + 1, acc);
        }
        if (b < blocks) add_block(task, pair, 0, end, x, b, acc);
        for (std::size_t t = 0; t < kTokens; ++t) {
            for (std::size_t p = 0; p < kVectors; ++p) {
                store_rows(task, panel * kPanelVectors + p, token + t, acc[t][p]);
            }
        }
    }

    // Bytes that are used as they lie are asked for once, straight into the first cache, and three times as far ahead
    // for one token, which is done with them soonest: memory brings a tenth more of them so. Nibbles lose by it.
    template <std::size_t kTokens>
    [[gnu::always_inline]] static void ask_for(const std::byte* pair, std::size_t which, PanelEnd end) {
        if constexpr (kNibbles) {
            prefetch<Type::Layout::kBytes, 2, kPanels>(pair, which, end);
            prefetch_near<Type::Layout::kBytes, 2, kPanels>(pair, which, end);
        } else {
            constexpr std::size_t kDistance = kTokens == 1 ? 3 * kPrefetchBytes : kPrefetchBytes;
            prefetch_near<Type::Layout::kBytes, 2, kPanels, kDistance>(pair, which, end);
        }
    }

    // Block `which` of a pair of blocks; `pair` is that of the first panel.
    template <std::size_t kTokens, std::size_t kVectors>
    [[gnu::always_inline]] static void add_block(const PanelTask& task, const std::byte* pair, std::size_t which,
                                                 PanelEnd end, const ActivationBlock32* const (&x)[kTokens],
                                                 std::size_t b, Floats (&acc)[kTokens][kVectors]) {
        VectorRows rows[kVectors];
        Floats d[kVectors];
        Floats m[kVectors];
        for (std::size_t p = 0; p < kVectors; ++p) {
            rows[p] = vector_rows(pair, task.panel_bytes, p);
            if (rows[p].row == 0) ask_for<kTokens>(rows[p].panel, which, end);
            d[p] = Type::scale(rows[p].panel, which, rows[p].row);
            m[p] = minimum_of<Type>(rows[p].panel, which, rows[p].row);
        }
        const auto weights = [&](std::size_t p, auto v) __attribute__((always_inline)) {
            return Type::template weight<decltype(v)::kIndex>(rows[p].panel, which, rows[p].row);
        };
        add_block32<Type, kTokens, kVectors>(weights, d, m, x, b, acc);
    }
};

// Many tokens.
template <typename Type>
struct Gemm32 {
    static constexpr std::size_t kChunkBlocks = 16;
    static constexpr std::size_t kChunkColumns = kChunkBlocks * kBlock32;
    static constexpr std::size_t kChunkParts = kChunkBlocks;
    static constexpr std::size_t kVectors = kGemmVectors;

    struct Chunk {
        Ints weights[kChunkBlocks][8][kVectors];
        Floats scales[kChunkBlocks][kVectors];
        Floats minimums[Type::Layout::kMinimum ? kChunkBlocks : 1][kVectors];
    };

    static std::size_t bytes_of(std::size_t columns) {
        return (columns + Type::Layout::kColumns - 1) / Type::Layout::kColumns * Type::Layout::kBytes;
    }
    static std::size_t blocks_in(const PanelTask& task, std::size_t column) {
        const std::size_t left = (task.columns - column) / kBlock32;
        return left < kChunkBlocks ? left : kChunkBlocks;
    }

    static void unpack(const PanelTask& task, std::size_t vector, std::size_t column, Chunk& chunk) {
        const std::size_t blocks = blocks_in(task, column);
        for (std::size_t p = 0; p < kVectors; ++p) {
            const VectorRows rows = vector_rows(task.panels, task.panel_bytes, vector + p);
            const std::byte* first = rows.panel + bytes_of(column);
            for (std::size_t b = 0; b < blocks; ++b) {
                const std::byte* pair = first + b / 2 * Type::Layout::kBytes;
                unrolled<8>([&](auto v) __attribute__((always_inline)) {
                    chunk.weights[b][v.kIndex][p] = Type::template weight<decltype(v)::kIndex>(pair, b % 2, rows.row);
                });
                chunk.scales[b][p] = Type::scale(pair, b % 2, rows.row);
                if constexpr (Type::Layout::kMinimum) chunk.minimums[b][p] = minimum_of<Type>(pair, b % 2, rows.row);
            }
        }
    }

    static void tile(const PanelTask& task, const Chunk& chunk, std::size_t column, std::size_t token,
                     Accumulators sums, NextChunk& next) {
        constexpr std::size_t kTokens = kTileTokens;
        const ActivationBlock32* x[kTokens];
        Floats acc[kTokens][kVectors];
        for (std::size_t t = 0; t < kTokens; ++t) {
            x[t] = activation_row<ActivationBlock32>(task, token + t) + column / kBlock32;
        }
        load_sums(sums, column == 0, acc);
        const std::size_t blocks = blocks_in(task, column);
        for (std::size_t b = 0; b < blocks; ++b) {
            const auto weights = [&](std::size_t p, auto v) __attribute__((always_inline)) {
                return chunk.weights[b][v.kIndex][p];
            };
            const std::size_t minimum = Type::Layout::kMinimum ? b : 0;
            next.ask();
            add_block32<Type, kTokens, kVectors>(weights, chunk.scales[b], chunk.minimums[minimum], x, b, acc);
        }
        store_sums(sums, acc);
    }
};

template <typename Type>
void matmul_panels32(const PanelTask& task) {
    // One token walks through several panels at a time, two through half as many: memory brings more from many places
    // than from one. Up to four meet two panels: their activations, more than the first cache holds where rows are
    // long, are read half as often.
    if (task.tokens == 1) {
        return run_groups<kWalkedPanels>(task, 0, [&](auto panels, std::size_t first) {
            Direct32<Type, decltype(panels)::kIndex>::template run<1>(task, first, 0);
        });
    }
    if (task.tokens == 2) {
        return run_groups<kWalkedPanels / 2>(task, 0, [&](auto panels, std::size_t first) {
            Direct32<Type, decltype(panels)::kIndex>::template run<2>(task, first, 0);
        });
    }
    if (task.tokens <= 4) {
        return run_groups<2>(task, 0, [&](auto panels, std::size_t first) {
            run_up_to_four<Direct32<Type, decltype(panels)::kIndex>>(task, first, 0, task.tokens);
        });
    }
    run_matmul<Gemm32<Type>, Direct32<Type, 1>>(task);
}

}  // namespace

}  // namespace hearth
