// Matmul over x86 panels of the types in blocks of 256: exact integers over the block, then
//   acc = fma(I, d * s, acc), with minimums also acc = fma(M, -(dmin * s), acc).
// Include after panels_x86_types.h.
#pragma once

#include "kernels/panels_x86_tiles.h"

namespace hearth {

namespace {

// Two sub-blocks of 16 columns: the scale of each as add_scaled_products wants it, and both as pairs.
struct SubScales {
    Ints even;
    Ints odd;
};

template <typename Type>
[[gnu::always_inline]] inline SubScales sub_scales(const std::byte* block, std::size_t j, std::size_t row) {
    const Ints scales = Type::scales(block, j, row);
    if constexpr (Type::kPairScales) return {even_scale<Type>(scales), odd_scale<Type>(scales)};
    const Ints both = int_scale<Type>(scales);
    return {both, both};
}
template <typename Type>
[[gnu::always_inline]] inline Ints offset_pairs(const std::byte* block, std::size_t j, std::size_t row) {
    const Ints scales = Type::scales(block, j, row);
    if constexpr (Type::kPairScales) return scales;
    return pair_twice(scales);
}

constexpr int log2_of(std::int32_t x) {
    return x <= 1 ? 0 : 1 + log2_of(x / 2);
}

// One sub-block of every token into the integers of the block. weights(p, v), scales(p)
template <typename Type, std::size_t kTokens, std::size_t kVectors, typename Weights, typename Scales>
[[gnu::always_inline]] inline void add_sub_block(Weights weights, Scales scales, const std::int8_t* const (&q)[kTokens],
                                                 Ints (&isums)[kTokens][kVectors]) {
    Sum sums[kTokens][kVectors];
    SubScales scale[kVectors];
    for (std::size_t p = 0; p < kVectors; ++p) scale[p] = scales(p);
    unrolled<8>([&](auto v) __attribute__((always_inline)) {
        Ints w[kVectors];
        for (std::size_t p = 0; p < kVectors; ++p) w[p] = weights(p, v);
        for (std::size_t t = 0; t < kTokens; ++t) {
            const Ints x = broadcast4(q[t] + 4 * v.kIndex);
            for (std::size_t p = 0; p < kVectors; ++p) {
                const Ints s = v.kIndex < 4 ? scale[p].even : scale[p].odd;
                add_scaled_products<Type, decltype(v)::kIndex>(sums[t][p], isums[t][p], w[p], x, s);
            }
        }
    });
}

// The end of a block: the offset of unsigned weights is taken back, then the float steps of the reference.
// offsets(p, j), minimums(p, j): pairs
template <typename Type, std::size_t kTokens, std::size_t kVectors, typename Offsets, typename Minimums>
[[gnu::always_inline]] inline void finish_block256(Offsets offsets, Minimums minimums, const Floats* d,
                                                   const Floats* dmin, const ActivationBlock256* const (&x)[kTokens],
                                                   std::size_t b, const Ints (&isums)[kTokens][kVectors],
                                                   Floats (&acc)[kTokens][kVectors]) {
    for (std::size_t p = 0; p < kVectors; ++p) {
        Ints minimum_sums[kTokens];
        Ints offset_sums[kTokens];
        for (std::size_t t = 0; t < kTokens; ++t) minimum_sums[t] = offset_sums[t] = zero_ints();
        if constexpr (Type::kMinimum || Type::kOffset != 0) {
            for (std::size_t j = 0; j < 8; ++j) {
                const Ints minimum = minimums(p, j);
                const Ints offset = offsets(p, j);
                for (std::size_t t = 0; t < kTokens; ++t) {
                    const Ints pair = broadcast4(x[t][b].sums + 2 * j);
                    if constexpr (Type::kMinimum) {
                        minimum_sums[t] = add_pair_products(minimum_sums[t], minimum, pair);
                    }
                    if constexpr (Type::kOffset != 0) {
                        offset_sums[t] = add_pair_products(offset_sums[t], offset, pair);
                    }
                }
            }
        }
        for (std::size_t t = 0; t < kTokens; ++t) {
            const Floats scale = set_floats(x[t][b].scale);
            Ints isum = isums[t][p];
            if constexpr (Type::kOffset != 0) {
                isum = subtract_ints(isum, shift_ints_up<log2_of(Type::kOffset)>(offset_sums[t]));
            }
            acc[t][p] = multiply_add(ints_to_floats(isum), multiply(d[p], scale), acc[t][p]);
            if constexpr (Type::kMinimum) {
                acc[t][p] = multiply_subtract(ints_to_floats(minimum_sums[t]), multiply(dmin[p], scale), acc[t][p]);
            }
        }
    }
}

// Few tokens: weights are unpacked as they come from memory.
template <typename Type, std::size_t kPanels>
struct Direct256 {
    template <std::size_t kTokens>
    static void run(const PanelTask& task, std::size_t panel, std::size_t token) {
        constexpr std::size_t kVectors = kPanels * kPanelVectors;
        const ActivationBlock256* x[kTokens];
        Floats acc[kTokens][kVectors];
        for (std::size_t t = 0; t < kTokens; ++t) {
            x[t] = activation_row<ActivationBlock256>(task, token + t);
            for (std::size_t p = 0; p < kVectors; ++p) acc[t][p] = zero_floats();
        }
        const std::size_t blocks = task.columns / kBlock256;
        const std::byte* block = task.panels + panel * task.panel_bytes;
        PanelEnd end = {.blocks = blocks, .skip = (kPanels - 1) * task.panel_bytes};
        for (std::size_t b = 0; b < blocks; ++b, block += Type::Layout::kBytes, --end.blocks) {
            add_block(task, block, end, x, b, acc);
        }
        for (std::size_t t = 0; t < kTokens; ++t) {
            for (std::size_t p = 0; p < kVectors; ++p) {
                store_rows(task, panel * kPanelVectors + p, token + t, acc[t][p]);
            }
        }
    }

    // `block` is that of the first panel.
    template <std::size_t kTokens, std::size_t kVectors>
    [[gnu::always_inline]] static void add_block(const PanelTask& task, const std::byte* block, PanelEnd end,
                                                 const ActivationBlock256* const (&x)[kTokens], std::size_t b,
                                                 Floats (&acc)[kTokens][kVectors]) {
        VectorRows rows[kVectors];
        Ints isums[kTokens][kVectors];
        Floats d[kVectors];
        Floats dmin[kVectors];
        const std::int8_t* q[kTokens];
        for (std::size_t t = 0; t < kTokens; ++t) {
            q[t] = x[t][b].q;
            for (std::size_t p = 0; p < kVectors; ++p) isums[t][p] = zero_ints();
        }
        for (std::size_t p = 0; p < kVectors; ++p) {
            rows[p] = vector_rows(block, task.panel_bytes, p);
            d[p] = halves_to_floats(rows[p].panel + 2 * rows[p].row);
            dmin[p] = halves_to_floats(rows[p].panel + 32 + 2 * rows[p].row);
        }
        for (std::size_t group = 0; group < 8 / Type::kPeriod; ++group) {
            unrolled<Type::kPeriod>([&](auto j) __attribute__((always_inline)) {
                const auto weights = [&](std::size_t p, auto v) __attribute__((always_inline)) {
                    return Type::template weight<decltype(j)::kIndex, decltype(v)::kIndex>(rows[p].panel, group,
                                                                                           rows[p].row);
                };
                const auto scales = [&](std::size_t p) __attribute__((always_inline)) {
                    return sub_scales<Type>(rows[p].panel, group * Type::kPeriod + j.kIndex, rows[p].row);
                };
                for (std::size_t p = 0; p < kVectors; p += kPanelVectors) {
                    prefetch<Type::Layout::kBytes, 8, kPanels>(rows[p].panel, group * Type::kPeriod + j.kIndex, end);
                    prefetch_near<Type::Layout::kBytes, 8, kPanels>(rows[p].panel, group * Type::kPeriod + j.kIndex,
                                                                    end);
                }
                add_sub_block<Type>(weights, scales, q, isums);
                for (std::size_t t = 0; t < kTokens; ++t) q[t] += 32;
            });
        }
        const auto offsets = [&](std::size_t p, std::size_t j) __attribute__((always_inline)) {
            return offset_pairs<Type>(rows[p].panel, j, rows[p].row);
        };
        const auto minimums = [&](std::size_t p, std::size_t j) __attribute__((always_inline)) {
            return Type::minimum_pairs(rows[p].panel, j, rows[p].row);
        };
        finish_block256<Type>(offsets, minimums, d, dmin, x, b, isums, acc);
    }
};

// Many tokens, a block of columns at a time.
template <typename Type>
struct Gemm256 {
    static constexpr std::size_t kChunkColumns = kBlock256;
    static constexpr std::size_t kChunkParts = 8;
    static constexpr std::size_t kVectors = kGemmVectors;

    struct Chunk {
        Ints weights[8][8][kVectors];
        SubScales scales[8][kVectors];
        Ints offsets[8][kVectors];
        Ints minimums[8][kVectors];
        Floats d[kVectors];
        Floats dmin[kVectors];
    };

    static std::size_t bytes_of(std::size_t columns) { return columns / kBlock256 * Type::Layout::kBytes; }

    static void unpack(const PanelTask& task, std::size_t vector, std::size_t column, Chunk& chunk) {
        for (std::size_t p = 0; p < kVectors; ++p) {
            const VectorRows rows = vector_rows(task.panels, task.panel_bytes, vector + p);
            const std::byte* block = rows.panel + bytes_of(column);
            for (std::size_t group = 0; group < 8 / Type::kPeriod; ++group) {
                unrolled<Type::kPeriod>([&](auto j) __attribute__((always_inline)) {
                    Ints(&weights)[8][kVectors] = chunk.weights[group * Type::kPeriod + j.kIndex];
                    unrolled<8>([&](auto v) __attribute__((always_inline)) {
                        weights[v.kIndex][p] =
                            Type::template weight<decltype(j)::kIndex, decltype(v)::kIndex>(block, group, rows.row);
                    });
                });
            }
            for (std::size_t j = 0; j < 8; ++j) {
                chunk.scales[j][p] = sub_scales<Type>(block, j, rows.row);
                chunk.offsets[j][p] = offset_pairs<Type>(block, j, rows.row);
                chunk.minimums[j][p] = Type::minimum_pairs(block, j, rows.row);
            }
            chunk.d[p] = halves_to_floats(block + 2 * rows.row);
            chunk.dmin[p] = halves_to_floats(block + 32 + 2 * rows.row);
        }
    }

    static void tile(const PanelTask& task, const Chunk& chunk, std::size_t column, std::size_t token,
                     Accumulators sums, NextChunk& next) {
        constexpr std::size_t kTokens = kTileTokens;
        const ActivationBlock256* x[kTokens];
        const std::int8_t* q[kTokens];
        Floats acc[kTokens][kVectors];
        Ints isums[kTokens][kVectors];
        for (std::size_t t = 0; t < kTokens; ++t) {
            x[t] = activation_row<ActivationBlock256>(task, token + t) + column / kBlock256;
            q[t] = x[t]->q;
            for (std::size_t p = 0; p < kVectors; ++p) isums[t][p] = zero_ints();
        }
        for (std::size_t j = 0; j < 8; ++j) {
            const auto weights = [&](std::size_t p, auto v) __attribute__((always_inline)) {
                return chunk.weights[j][v.kIndex][p];
            };
            const auto scales = [&](std::size_t p) __attribute__((always_inline)) {
                return chunk.scales[j][p];
            };
            next.ask();
            add_sub_block<Type>(weights, scales, q, isums);
            for (std::size_t t = 0; t < kTokens; ++t) q[t] += 32;
        }
        load_sums(sums, column == 0, acc);
        const auto offsets = [&](std::size_t p, std::size_t j) { return chunk.offsets[j][p]; };
        const auto minimums = [&](std::size_t p, std::size_t j) { return chunk.minimums[j][p]; };
        finish_block256<Type>(offsets, minimums, chunk.d, chunk.dmin, x, 0, isums, acc);
        store_sums(sums, acc);
    }
};

template <typename Type>
void matmul_panels256(const PanelTask& task) {
    // As with blocks of 32, but the scales of a panel take registers too, and more than two tokens fill them with one.
    if (task.tokens == 1) {
        return run_groups<kWalkedPanels / 2>(task, 0, [&](auto panels, std::size_t first) {
            Direct256<Type, decltype(panels)::kIndex>::template run<1>(task, first, 0);
        });
    }
    if (task.tokens == 2) {
        return run_groups<2>(task, 0, [&](auto panels, std::size_t first) {
            Direct256<Type, decltype(panels)::kIndex>::template run<2>(task, first, 0);
        });
    }
    run_matmul<Gemm256<Type>, Direct256<Type, 1>>(task);
}

}  // namespace

}  // namespace hearth
