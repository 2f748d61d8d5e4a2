// AMX over panels of the types in blocks of 32, for tokens too few for tiles of sixteen. Their rows are tiles as they
// lie; weights are unpacked as they come from memory. Include after panels_x86_tiles.h.
#pragma once

#include "kernels/tiles_amx.h"

namespace hearth {

namespace {

// Up to kTokens tokens and kPanels panels, two blocks at a time: while their products are made, those of the two before
// are scaled and added up, and the weights of the two after unpacked. A core that is shared holds too few instructions
// to find that overlap by itself.
template <typename Type, std::size_t kTokens, std::size_t kPanels>
struct FewTokens32 {
    // To signed bytes. Those of Q8_0 are a tile as they lie, unsigned; their offset is taken back from the sums.
    static constexpr bool kUnpacks = Type::Layout::kWords != 8;
    using Rows = const ActivationBlock32* const (&)[kTokens];

    struct alignas(64) Block {
        Ints weights[kPanels][8];
        std::int32_t sums[kPanels][kTokens][x86::kPanelRows];  // of tokens that are not there: anything, and not used
        std::int32_t starts[kTokens];  // of bytes as they lie: what their offset adds to a sum, with the other sign
    };
    struct Pair {
        Block blocks[2];
    };

    static void run(const PanelTask& task, std::size_t first_panel) {
        const ActivationBlock32* x[kTokens];
        Floats acc[kPanels][kTokens];
        unrolled<kTokens>([&](auto t) __attribute__((always_inline)) {
            x[t.kIndex] = activation_row<ActivationBlock32>(task, t.kIndex);
            for (std::size_t p = 0; p < kPanels; ++p) acc[p][t.kIndex] = zero_floats();
        });
        const std::byte* panels = task.panels + first_panel * task.panel_bytes;
        const std::size_t blocks = task.columns / kBlock32;
        const std::size_t pairs = blocks / 2;
        PanelEnd end = {.blocks = (blocks + 1) / 2, .skip = (kPanels - 1) * task.panel_bytes};
        Pair turns[2];
        if (pairs > 0) prepare_both(task, panels, 0, end, x, turns[0]);
        for (std::size_t i = 0; i <= pairs; ++i) {
            Pair& now = turns[i % 2];
            Pair& other = turns[(i + 1) % 2];
            if (i < pairs) {
                memory_barrier();
                multiply_tiles<0>(task, panels, i, x, now);
                multiply_tiles<1>(task, panels, i, x, now);
            }
            if (i > 0) {
                add_up<0>(task, panels, i - 1, x, other, acc);
                add_up<1>(task, panels, i - 1, x, other, acc);
            }
            --end.blocks;
            if (i + 1 < pairs) prepare_both(task, panels, i + 1, end, x, other);
            if (i < pairs) {
                store_sums<0>(now);
                store_sums<1>(now);
                memory_barrier();
            }
        }
        if (blocks % 2 == 1) {
            Pair& last = turns[0];
            prepare<0>(task, panels, pairs, {}, x, last);
            memory_barrier();
            multiply_tiles<0>(task, panels, pairs, x, last);
            store_sums<0>(last);
            memory_barrier();
            add_up<0>(task, panels, pairs, x, last, acc);
        }
        unrolled<kTokens>([&](auto t) __attribute__((always_inline)) {
            for (std::size_t p = 0; p < kPanels; ++p) store_rows(task, first_panel + p, t.kIndex, acc[p][t.kIndex]);
        });
    }

    [[gnu::always_inline]] static void prepare_both(const PanelTask& task, const std::byte* panels, std::size_t pair,
                                                    PanelEnd end, Rows x, Pair& out) {
        prepare<0>(task, panels, pair, end, x, out);
        prepare<1>(task, panels, pair, end, x, out);
    }

    // Block kWhich of a pair, here and below.
    template <std::size_t kWhich>
    [[gnu::always_inline]] static void prepare(const PanelTask& task, const std::byte* panels, std::size_t pair,
                                               PanelEnd end, Rows x, Pair& out) {
        const Ints offset = set_bytes(Type::kOffset);
        unrolled<kPanels>([&](auto p) __attribute__((always_inline)) {
            const std::byte* here = panels + p.kIndex * task.panel_bytes + pair * Type::Layout::kBytes;
            prefetch<Type::Layout::kBytes, 2, kPanels>(here, kWhich, end);
            if constexpr (kUnpacks) {
                prefetch_near<Type::Layout::kBytes, 2, kPanels>(here, kWhich, end);
                unrolled<8>([&](auto v) __attribute__((always_inline)) {
                    const Ints weights = Type::template weight<decltype(v)::kIndex>(here, kWhich, 0);
                    out.blocks[kWhich].weights[p.kIndex][v.kIndex] = _mm512_sub_epi8(weights, offset);
                });
            }
        });
        if constexpr (kUnpacks) return;
        for (std::size_t t = 0; t < kTokens; ++t) {
            out.blocks[kWhich].starts[t] = -Type::kOffset * x[t][2 * pair + kWhich].sum;
        }
    }

    template <std::size_t kWhich>
    [[gnu::always_inline]] static void multiply_tiles(const PanelTask& task, const std::byte* panels, std::size_t pair,
                                                      Rows x, const Pair& now) {
        constexpr int kActivations = 4 + kWhich;
        load_tile<kActivations>(x[0][2 * pair + kWhich].q, task.activation_row_bytes);
        unrolled<kPanels>([&](auto p) __attribute__((always_inline)) {
            constexpr int kSums = kWhich * kPanels + decltype(p)::kIndex;
            constexpr int kWeights = 6 + kSums % 2;
            const void* weights = now.blocks[kWhich].weights[p.kIndex];
            if constexpr (!kUnpacks) {
                weights = panels + p.kIndex * task.panel_bytes + pair * Type::Layout::kBytes + Type::Layout::kQuantsAt +
                          kWhich * 8 * kVectorBytes;
            }
            zero_tile<kSums>();
            load_tile<kWeights>(weights, kVectorBytes);
            add_tile_products<kSums, kActivations, kWeights, kUnpacks>();
        });
    }

    template <std::size_t kWhich>
    [[gnu::always_inline]] static void store_sums(Pair& out) {
        unrolled<kPanels>([&](auto p) __attribute__((always_inline)) {
            store_tile<kWhich * kPanels + decltype(p)::kIndex>(out.blocks[kWhich].sums[p.kIndex], kVectorBytes);
        });
    }

    template <std::size_t kWhich>
    [[gnu::always_inline]] static void add_up(const PanelTask& task, const std::byte* panels, std::size_t pair, Rows x,
                                              const Pair& from, Floats (&acc)[kPanels][kTokens]) {
        const Block& block = from.blocks[kWhich];
        unrolled<kPanels>([&](auto p) __attribute__((always_inline)) {
            const std::byte* here = panels + p.kIndex * task.panel_bytes + pair * Type::Layout::kBytes;
            const Floats d = Type::scale(here, kWhich, 0);
            const Floats m = minimum_of<Type>(here, kWhich, 0);
            unrolled<kTokens>([&](auto t) __attribute__((always_inline)) {
                const ActivationBlock32& activations = x[t.kIndex][2 * pair + kWhich];
                const Floats scale = set_floats(activations.scale);
                Ints ints = load_ints(block.sums[p.kIndex][t.kIndex]);
                if constexpr (!kUnpacks) ints = _mm512_add_epi32(ints, set_ints(block.starts[t.kIndex]));
                Floats& sum = acc[p.kIndex][t.kIndex];
                sum = multiply_add(ints_to_floats(ints), multiply(d, scale), sum);
                if constexpr (Type::Layout::kMinimum) {
                    sum = multiply_add(ints_to_floats(set_ints(activations.sum)), multiply(m, scale), sum);
                }
            });
        });
    }

    static void run_all(const PanelTask& task) {
        run_groups<kPanels>(task, 0, [&](auto panels, std::size_t first) {
            FewTokens32<Type, kTokens, decltype(panels)::kIndex>::run(task, first);
        });
    }
};

// At most sixteen.
template <typename Type>
void matmul_few_tokens32(const PanelTask& task) {
    configure_tiles(with_tokens(kHalfTileShapes, task.tokens));
    if (task.tokens <= 8) {
        FewTokens32<Type, 8, 2>::run_all(task);
    } else if (task.tokens <= 12) {
        FewTokens32<Type, 12, 1>::run_all(task);
    } else {
        FewTokens32<Type, 16, 1>::run_all(task);
    }
    _tile_release();
}

}  // namespace

}  // namespace hearth
