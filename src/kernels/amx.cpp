// x86-64 with AMX over AVX-512: packed weights and many tokens, whose activations come in tiles of sixteen. A product
// of tiles is a sum of exact integers, for sixteen tokens and the sixteen rows of a panel; AVX-512 scales it and adds
// it up.
#include "kernels/panels_x86.h"
#include "kernels/panels_x86_avx512.h"
// After the vocabulary they are written in.
#include "kernels/panels_x86_types.h"
// After the types.
#include "kernels/panels_x86_tiles.h"
#include "kernels/tiles_amx.h"
#include "kernels/tiles_amx_few.h"

#if !defined(__AMX_INT8__) && !defined(__AMXINT8__)  // GCC's name and clang's
#error "this file needs AMX; see room.cmake"
#endif

namespace hearth {

namespace {

constexpr std::size_t kGroupTokens = 16;   // of a tile of activations
constexpr std::size_t kTilesFrom = 17;     // tokens that come in tiles; the rows of fewer are tiles as they lie
constexpr std::size_t kBatchTokens = 256;  // that share unpacked weights
constexpr std::size_t kPanelsAtOnce = 2;   // that a group meets while it is in the first cache

// A block of columns of sixteen tokens.
struct Activations32 {
    std::int8_t q[kGroupTokens][kBlock32];
    float scales[kGroupTokens];
    float sums[kGroupTokens];
};
struct Activations256 {
    std::int8_t q[4][kGroupTokens][64];
    std::int16_t sums[kGroupTokens][16];
    float scales[kGroupTokens];
};
static_assert(sizeof(Activations32) == kGroupTokens * sizeof(ActivationBlock32));
static_assert(sizeof(Activations256) == kGroupTokens * sizeof(ActivationBlock256));

void arrange(const ActivationBlock32& block, std::size_t t, Activations32& out) {
    __builtin_memcpy(out.q[t], block.q, sizeof block.q);
    out.scales[t] = block.scale;
    out.sums[t] = static_cast<float>(block.sum);
}
void arrange(const ActivationBlock256& block, std::size_t t, Activations256& out) {
    for (std::size_t i = 0; i < 4; ++i) __builtin_memcpy(out.q[i][t], block.q + 64 * i, 64);
    __builtin_memcpy(out.sums[t], block.sums, sizeof block.sums);
    out.scales[t] = block.scale;
}

template <typename Block, typename Activations>
void tile_activations(const TileTask& task) {
    const std::size_t blocks = task.columns / sizeof(Block::q);
    auto* out = reinterpret_cast<Activations*>(task.out);
    constexpr Block kNone = {};
    for (std::size_t b = 0; b < blocks; ++b) {
        for (std::size_t t = 0; t < kGroupTokens; ++t) {
            const auto* row = reinterpret_cast<const Block*>(task.rows + t * task.row_bytes);
            arrange(t < task.tokens ? row[b] : kNone, t, out[b]);
        }
    }
}

// Sums of products: [token][row].
struct alignas(64) TileSums {
    std::int32_t at[kGroupTokens][x86::kPanelRows];
};

using Outputs = float (*)[x86::kPanelRows];  // by token

// Groups of tokens, one after another.
struct Tokens {
    const std::byte* rows;
    std::size_t row_bytes;  // of one token, on average over a group
    std::size_t count;
    bool arranged;  // in tiles; else one group of rows
};

// Blocks of 32 columns. Weights are taken as signed bytes.
template <typename Type>
struct Tiles32 {
    using Activations = Activations32;
    static constexpr std::size_t kFrom = 7;  // tokens; fewer are quicker with AVX-512
    static constexpr std::size_t kBlockColumns = kBlock32;
    static constexpr std::size_t kChunkBlocks = 16;
    static constexpr std::size_t kLag = 2;  // blocks between a product and its use
    static constexpr const TileShapes& kShapes = kHalfTileShapes;

    struct Weights {
        Ints q[kChunkBlocks][8];
        Floats d[kChunkBlocks];
        Floats m[Type::Layout::kMinimum ? kChunkBlocks : 1];
    };

    static void multiply_few_tokens(const PanelTask& task) { matmul_few_tokens32<Type>(task); }

    static void unpack(const std::byte* panel, std::size_t first_block, std::size_t blocks, Weights& out) {
        const Ints offset = set_bytes(Type::kOffset);
        for (std::size_t b = 0; b < blocks; ++b) {
            const std::size_t which = (first_block + b) % 2;
            const std::byte* pair = panel + (first_block + b) / 2 * Type::Layout::kBytes;
            prefetch<Type::Layout::kBytes, 2>(pair, which);
            unrolled<8>([&](auto v) __attribute__((always_inline)) {
                const Ints weights = Type::template weight<decltype(v)::kIndex>(pair, which, 0);
                out.q[b][v.kIndex] = _mm512_sub_epi8(weights, offset);
            });
            out.d[b] = Type::scale(pair, which, 0);
            if constexpr (Type::Layout::kMinimum) out.m[b] = minimum_of<Type>(pair, which, 0);
        }
    }

    // The first kTokens of a group; the others are zeros.
    template <std::size_t kTokens>
    static void add_group(const Activations* x, const Weights& weights, std::size_t blocks, bool begin, Outputs out) {
        TileSums sums[4];  // in turn; more than kLag
        Floats acc[kTokens];
        unrolled<kTokens>([&](auto t) __attribute__((always_inline)) {
            acc[t.kIndex] = begin ? zero_floats() : load_floats(out[t.kIndex]);
        });
        for (std::size_t b = 0; b < blocks + kLag; ++b) {
            if (b < blocks) {
                _tile_zero(0);
                _tile_loadd(4, x[b].q, kBlock32);
                _tile_loadd(6, weights.q[b], kVectorBytes);
                _tile_dpbssd(0, 4, 6);
                _tile_stored(0, sums[b % 4].at, kVectorBytes);
                memory_barrier();
            }
            if (b >= kLag) finish(x[b - kLag], weights, b - kLag, sums[(b - kLag) % 4], acc);
        }
        unrolled<kTokens>([&](auto t) __attribute__((always_inline)) { store_floats(out[t.kIndex], acc[t.kIndex]); });
    }

    template <std::size_t kTokens>
    [[gnu::always_inline]] static void finish(const Activations& x, const Weights& weights, std::size_t b,
                                              const TileSums& sums, Floats (&acc)[kTokens]) {
        const Floats d = weights.d[b];
        unrolled<kTokens>([&](auto step) __attribute__((always_inline)) {
            constexpr std::size_t t = decltype(step)::kIndex;
            const Floats scale = set_floats(x.scales[t]);
            acc[t] = multiply_add(ints_to_floats(load_ints(sums.at[t])), multiply(d, scale), acc[t]);
            if constexpr (Type::Layout::kMinimum) {
                acc[t] = multiply_add(set_floats(x.sums[t]), multiply(weights.m[b], scale), acc[t]);
            }
        });
    }

    static void add_chunk(const Tokens& tokens, std::size_t first_block, std::size_t blocks, const Weights* weights,
                          std::size_t panels, Outputs* outs) {
        for (std::size_t token = 0; token < tokens.count; token += kGroupTokens) {
            const auto* x = reinterpret_cast<const Activations*>(tokens.rows + token * tokens.row_bytes) + first_block;
            const auto add =
                tokens.count - token <= kGroupTokens / 2 ? add_group<kGroupTokens / 2> : add_group<kGroupTokens>;
            for (std::size_t p = 0; p < panels; ++p) add(x, weights[p], blocks, first_block == 0, outs[p] + token);
        }
    }
};

// Blocks of 256 columns. A weight times its scale has at most fourteen bits; it is split into two planes of bytes.
// Minimums meet the activations' sums, split in two as well, as products of bf16: of integers whose sum stays below
// 2^24, so that floats add them up exactly.
template <typename Type>
struct Tiles256 {
    static constexpr std::size_t kFrom = 13;
    static constexpr std::size_t kBlockColumns = kBlock256;
    static constexpr std::size_t kChunkBlocks = 1;
    static constexpr const TileShapes& kShapes = kTileShapes;

    static constexpr bool kOnePlane = Type::kLargest <= 3;  // and scales of at most 15
    // Where weights and scales are unsigned and small, the scale is what is split: the planes are q * (scale & 15) and
    // q * (scale >> 4). Elsewhere the product is: w * scale & 127 and w * scale >> 7.
    static constexpr bool kSplitScale = Type::kMinimum && Type::kLargest * 15 <= 255;
    static constexpr int kPlaneBits = kSplitScale ? 4 : 7;

    struct Weights {
        Ints low[4][16];
        Ints high[4][16];
        Ints minimums[Type::kMinimum ? 16 : 1];  // of 16 columns, twice
        Floats d;
        Floats dmin;
    };

    // Both bytes of a word from the words of even and of odd bytes.
    [[gnu::always_inline]] static Ints join_bytes(Ints even, Ints odd) {
        return or_ints(and_ints(even, _mm512_set1_epi16(0xff)), _mm512_slli_epi16(odd, 8));
    }
    [[gnu::always_inline]] static void put_planes(Ints weights, Ints scale, Ints& low, Ints& high) {
        if constexpr (Type::kUnitScales) {
            low = _mm512_sub_epi8(weights, set_bytes(Type::kOffset));
        } else if constexpr (kOnePlane) {  // two products a word, neither of which leaves its byte
            low = _mm512_mullo_epi16(weights, scale);
        } else if constexpr (kSplitScale) {
            low = _mm512_mullo_epi16(weights, and_ints(scale, _mm512_set1_epi16(15)));
            high = _mm512_mullo_epi16(weights, _mm512_srli_epi16(scale, 4));
        } else {
            const Ints centred = _mm512_sub_epi8(weights, set_bytes(Type::kOffset));
            const Ints even = _mm512_mullo_epi16(_mm512_srai_epi16(_mm512_slli_epi16(centred, 8), 8), scale);
            const Ints odd = _mm512_mullo_epi16(_mm512_srai_epi16(centred, 8), scale);
            const Ints mask = _mm512_set1_epi16((1 << kPlaneBits) - 1);
            low = join_bytes(and_ints(even, mask), and_ints(odd, mask));
            high = join_bytes(_mm512_srai_epi16(even, kPlaneBits), _mm512_srai_epi16(odd, kPlaneBits));
        }
    }

    // Integers of at most eight bits, whatever zeros follow them: the upper half of a float holds all of such a one.
    [[gnu::always_inline]] static Ints bf16_pairs(Ints first, Ints second) {
        const Ints low = _mm512_castps_si512(ints_to_floats(first));
        const Ints high = _mm512_castps_si512(ints_to_floats(second));
        return or_ints(_mm512_srli_epi32(low, 16), and_ints(high, set_ints(-0x10000)));
    }

    static void unpack(const std::byte* panel, std::size_t first_block, std::size_t, Weights& out) {
        const std::byte* block = panel + first_block * Type::Layout::kBytes;
        for (std::size_t group = 0; group < 8 / Type::kPeriod; ++group) {
            unrolled<Type::kPeriod>([&](auto j) __attribute__((always_inline)) {
                const std::size_t sub_block = group * Type::kPeriod + j.kIndex;
                prefetch<Type::Layout::kBytes, 8>(block, sub_block);
                const Ints scales = Type::scales(block, sub_block, 0);
                const Ints even = pair_twice(scales);  // for the first sixteen columns, in both words of a lane
                const Ints odd = Type::kPairScales ? pair_twice(_mm512_srli_epi32(scales, 16)) : even;
                Ints* low = out.low[sub_block / 2] + sub_block % 2 * 8;
                Ints* high = out.high[sub_block / 2] + sub_block % 2 * 8;
                unrolled<8>([&](auto v) __attribute__((always_inline)) {
                    const Ints weights =
                        Type::template weight<decltype(j)::kIndex, decltype(v)::kIndex>(block, group, 0);
                    put_planes(weights, v.kIndex < 4 ? even : odd, low[v.kIndex], high[v.kIndex]);
                });
            });
        }
        out.d = halves_to_floats(block);
        if constexpr (Type::kMinimum) {
            for (std::size_t j = 0; j < 8; ++j) {
                const Ints pairs = Type::minimum_pairs(block, j, 0);
                const Ints even = and_ints(pairs, set_ints(0xffff));
                const Ints odd = _mm512_srli_epi32(pairs, 16);
                out.minimums[2 * j] = bf16_pairs(even, even);
                out.minimums[2 * j + 1] = bf16_pairs(odd, odd);
            }
            out.dmin = halves_to_floats(block + 32);
        }
    }

    struct Sums {
        TileSums low;
        TileSums high;
        alignas(64) float minimums[kGroupTokens][x86::kPanelRows];
        TileSums unused;  // two of a size that is no power of two are 3 to 5 % slower
    };
    // Of sixteen columns, by token: pairs of a multiple of 16 and the rest.
    using SplitSums = Ints[kGroupTokens];

    // A block of columns of up to sixteen tokens: where its parts of 64 columns and its sums lie, and how far it is
    // from one token to the next.
    struct Activations {
        const std::int8_t* q;
        std::size_t q_part;
        std::size_t q_stride;
        const std::int16_t* sums;
        std::size_t sums_stride;
        const float* scales;
        std::size_t scale_stride;

        float scale(std::size_t t) const {
            float x;
            __builtin_memcpy(&x, reinterpret_cast<const std::byte*>(scales) + t * scale_stride, sizeof x);
            return x;
        }
    };
    static Activations activations(const Tokens& tokens, std::size_t group, std::size_t block) {
        const std::byte* rows = tokens.rows + group * kGroupTokens * tokens.row_bytes;
        if (tokens.arranged) {
            const Activations256& x = reinterpret_cast<const Activations256*>(rows)[block];
            return {x.q[0][0], sizeof x.q[0], sizeof x.q[0][0], x.sums[0], sizeof x.sums[0], x.scales, sizeof(float)};
        }
        const ActivationBlock256& x = reinterpret_cast<const ActivationBlock256*>(rows)[block];
        return {x.q, 64, tokens.row_bytes, x.sums, tokens.row_bytes, &x.scale, tokens.row_bytes};
    }

    static void split_sums(const Activations& x, std::size_t tokens, SplitSums& out) {
        for (std::size_t t = 0; t < tokens; ++t) {
            const auto* sums = reinterpret_cast<const std::byte*>(x.sums) + t * x.sums_stride;
            const Ints all = _mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums)));
            out[t] = bf16_pairs(and_ints(all, set_ints(-16)), and_ints(all, set_ints(15)));
        }
        memory_barrier();
    }

    [[gnu::always_inline]] static void multiply_block(const Activations& x, const SplitSums& activation_sums,
                                                      const Weights& weights, Sums& sums) {
        _tile_zero(0);
        _tile_zero(1);
        for (std::size_t i = 0; i < 4; ++i) {
            _tile_loadd(4, x.q + i * x.q_part, x.q_stride);
            _tile_loadd(6, weights.low[i], kVectorBytes);
            if constexpr (kSplitScale) {
                _tile_dpbsud(0, 4, 6);
            } else {
                _tile_dpbssd(0, 4, 6);
            }
            if constexpr (kOnePlane) continue;
            _tile_loadd(6, weights.high[i], kVectorBytes);
            if constexpr (kSplitScale) {
                _tile_dpbsud(1, 4, 6);
            } else {
                _tile_dpbssd(1, 4, 6);
            }
        }
        _tile_stored(0, sums.low.at, kVectorBytes);
        if constexpr (!kOnePlane) _tile_stored(1, sums.high.at, kVectorBytes);
        if constexpr (Type::kMinimum) {
            _tile_zero(2);
            _tile_loadd(5, activation_sums, kVectorBytes);
            _tile_loadd(7, weights.minimums, kVectorBytes);
            _tile_dpbf16ps(2, 5, 7);
            _tile_stored(2, sums.minimums, kVectorBytes);
        }
        memory_barrier();
    }

    [[gnu::always_inline]] static Floats products(const Sums& sums, std::size_t t) {
        const Ints low = load_ints(sums.low.at[t]);
        if constexpr (kOnePlane) return ints_to_floats(low);
        return ints_to_floats(_mm512_add_epi32(low, _mm512_slli_epi32(load_ints(sums.high.at[t]), kPlaneBits)));
    }

    [[gnu::always_inline]] static void finish_block(const Activations& x, std::size_t tokens, const Weights& weights,
                                                    const Sums& sums, bool begin, Outputs out) {
        for (std::size_t t = 0; t < tokens; ++t) {
            const Floats scale = set_floats(x.scale(t));
            Floats sum = begin ? zero_floats() : load_floats(out[t]);
            sum = multiply_add(products(sums, t), multiply(weights.d, scale), sum);
            if constexpr (Type::kMinimum) {
                sum = multiply_subtract(load_floats(sums.minimums[t]), multiply(weights.dmin, scale), sum);
            }
            store_floats(out[t], sum);
        }
    }

    static std::size_t tokens_of(const Tokens& tokens, std::size_t group) {
        const std::size_t left = tokens.count - group * kGroupTokens;
        return left < kGroupTokens ? left : kGroupTokens;
    }

    // One group of tokens is multiplied while the sums of the one before are finished.
    static void add_chunk(const Tokens& tokens, std::size_t block, std::size_t, const Weights* weights,
                          std::size_t panels, Outputs* outs) {
        Sums sums[2];
        SplitSums split;
        const std::size_t steps = (tokens.count + kGroupTokens - 1) / kGroupTokens * panels;
        for (std::size_t step = 0; step <= steps; ++step) {
            if (step < steps) {
                const std::size_t group = step / panels;
                const Activations x = activations(tokens, group, block);
                if constexpr (Type::kMinimum) {
                    if (step % panels == 0) split_sums(x, tokens_of(tokens, group), split);
                }
                multiply_block(x, split, weights[step % panels], sums[step % 2]);
            }
            if (step == 0) continue;
            const std::size_t last = step - 1;
            const std::size_t group = last / panels;
            finish_block(activations(tokens, group, block), tokens_of(tokens, group), weights[last % panels],
                         sums[last % 2], block == 0, outs[last % panels] + group * kGroupTokens);
        }
    }
};

// Some tokens and panels, all columns.
template <typename Gemm>
void multiply_panels(const PanelTask& task, std::size_t token, std::size_t panel, std::size_t panels) {
    typename Gemm::Weights weights[kPanelsAtOnce];
    alignas(64) float sums[kPanelsAtOnce][kBatchTokens][x86::kPanelRows];
    Outputs outs[kPanelsAtOnce] = {sums[0], sums[1]};
    const std::size_t count = task.tokens - token < kBatchTokens ? task.tokens - token : kBatchTokens;
    const Tokens tokens = {.rows = task.activations + token * task.activation_row_bytes,
                           .row_bytes = task.activation_row_bytes,
                           .count = count,
                           .arranged = task.tokens >= kTilesFrom};
    const std::size_t blocks = task.columns / Gemm::kBlockColumns;
    for (std::size_t block = 0; block < blocks; block += Gemm::kChunkBlocks) {
        const std::size_t some = blocks - block < Gemm::kChunkBlocks ? blocks - block : Gemm::kChunkBlocks;
        for (std::size_t p = 0; p < panels; ++p) {
            Gemm::unpack(task.panels + (panel + p) * task.panel_bytes, block, some, weights[p]);
        }
        memory_barrier();
        Gemm::add_chunk(tokens, block, some, weights, panels, outs);
    }
    for (std::size_t p = 0; p < panels; ++p) {
        for (std::size_t t = 0; t < count; ++t) store_rows(task, panel + p, token + t, load_floats(sums[p][t]));
    }
}

template <typename Gemm, DType kType>
void matmul_panels_amx(const PanelTask& task) {
    if (task.tokens < Gemm::kFrom) return matmul_panels_avx512(kType, task);
    if constexpr (requires { Gemm::multiply_few_tokens(task); }) {
        if (task.tokens < kTilesFrom) return Gemm::multiply_few_tokens(task);
    }
    configure_tiles(with_tokens(Gemm::kShapes, task.tokens));
    const std::size_t panels = (task.rows + x86::kPanelRows - 1) / x86::kPanelRows;
    for (std::size_t token = 0; token < task.tokens; token += kBatchTokens) {
        for (std::size_t panel = 0; panel < panels; panel += kPanelsAtOnce) {
            multiply_panels<Gemm>(task, token, panel, panels - panel < kPanelsAtOnce ? panels - panel : kPanelsAtOnce);
        }
    }
    _tile_release();
}

template <template <typename> typename Gemm, typename Type, DType kType>
void set_matmul(Kernels& table) {
    table.panels[static_cast<std::size_t>(kType)].matmul = matmul_panels_amx<Gemm<Type>, kType>;
}

}  // namespace

void install_amx(Kernels& table) {
    table.tile_tokens = kGroupTokens;
    table.tiles_from = kTilesFrom;
    table.tile_q8x32 = tile_activations<ActivationBlock32, Activations32>;
    table.tile_q8x256 = tile_activations<ActivationBlock256, Activations256>;
    set_matmul<Tiles32, PanelQ4_0, DType::Q4_0>(table);
    set_matmul<Tiles32, PanelQ4_1, DType::Q4_1>(table);
    set_matmul<Tiles32, PanelQ5_0, DType::Q5_0>(table);
    set_matmul<Tiles32, PanelQ5_1, DType::Q5_1>(table);
    set_matmul<Tiles32, PanelQ8_0, DType::Q8_0>(table);
    set_matmul<Tiles32, PanelIQ4_NL, DType::IQ4_NL>(table);
    set_matmul<Tiles32, PanelMXFP4, DType::MXFP4>(table);
    set_matmul<Tiles256, PanelQ2_K, DType::Q2_K>(table);
    set_matmul<Tiles256, PanelQ3_K, DType::Q3_K>(table);
    set_matmul<Tiles256, PanelQ4_K, DType::Q4_K>(table);
    set_matmul<Tiles256, PanelQ5_K, DType::Q5_K>(table);
    set_matmul<Tiles256, PanelQ6_K, DType::Q6_K>(table);
    set_matmul<Tiles256, PanelIQ4_XS, DType::IQ4_XS>(table);
    set_matmul<Tiles256, PanelTQ2_0, DType::TQ2_0>(table);
    install_amx_fast(table);
}

}  // namespace hearth
