// Quantised matmul with SMMLA: four weight rows by pairs of tokens, 2 x 2 sums an instruction. Activations of up to
// eight tokens are first paired up (eight bytes of one, eight of the other), some columns at a time, and then serve all
// rows. Include after simd_neon_types.h and simd_matmul.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace hearth {

namespace {

inline constexpr std::size_t kChunkColumns = 1024;  // columns paired up at a time
inline constexpr std::size_t kMaxPairs = 4;

// Thirty-two columns of two rows (or two tokens), eight bytes of each in turn.
struct PairedBytes {
    int8x16_t octets[4];
};

[[gnu::always_inline]] inline PairedBytes pair_up(Bytes32 a, Bytes32 b) {
    const auto first = [](int8x16_t x, int8x16_t y) {
        return vreinterpretq_s8_s64(vzip1q_s64(vreinterpretq_s64_s8(x), vreinterpretq_s64_s8(y)));
    };
    const auto second = [](int8x16_t x, int8x16_t y) {
        return vreinterpretq_s8_s64(vzip2q_s64(vreinterpretq_s64_s8(x), vreinterpretq_s64_s8(y)));
    };
    return {{first(a.low, b.low), second(a.low, b.low), first(a.high, b.high), second(a.high, b.high)}};
}

// Activations of one chunk of columns: [32 columns][pair of tokens].
struct PairedChunk {
    alignas(64) std::int8_t bytes[kChunkColumns / 32 * kMaxPairs * 64];

    [[gnu::always_inline]] PairedBytes load(std::size_t j, std::size_t pair) const {
        const std::int8_t* at = bytes + (j * kMaxPairs + pair) * 64;
        return {{vld1q_s8(at), vld1q_s8(at + 16), vld1q_s8(at + 32), vld1q_s8(at + 48)}};
    }
    [[gnu::always_inline]] void store(std::size_t j, std::size_t pair, PairedBytes paired) {
        std::int8_t* at = bytes + (j * kMaxPairs + pair) * 64;
        for (std::size_t i = 0; i < 4; ++i) vst1q_s8(at + 16 * i, paired.octets[i]);
    }
};

// Sums of (row 0, token 0), (row 0, token 1), (row 1, token 0), (row 1, token 1).
[[gnu::always_inline]] inline int32x4_t quad(PairedBytes w, PairedBytes x) {
    int32x4_t sums = vmmlaq_s32(vdupq_n_s32(0), w.octets[0], x.octets[0]);
    sums = vmmlaq_s32(sums, w.octets[1], x.octets[1]);
    sums = vmmlaq_s32(sums, w.octets[2], x.octets[2]);
    return vmmlaq_s32(sums, w.octets[3], x.octets[3]);
}
[[gnu::always_inline]] inline int32x4_t first_half_quad(PairedBytes w, PairedBytes x) {
    return vmmlaq_s32(vmmlaq_s32(vdupq_n_s32(0), w.octets[0], x.octets[0]), w.octets[1], x.octets[1]);
}
[[gnu::always_inline]] inline int32x4_t second_half_quad(PairedBytes w, PairedBytes x) {
    return vmmlaq_s32(vmmlaq_s32(vdupq_n_s32(0), w.octets[2], x.octets[2]), w.octets[3], x.octets[3]);
}

// Up to eight tokens and the columns of one chunk. Tokens past the end repeat the last one: computed, never stored.
struct PairTile {
    std::size_t token;  // first
    std::size_t tokens;
    std::size_t first_block;
    std::size_t last_block;  // exclusive
};

template <typename Activation>
[[gnu::always_inline]] inline const Activation* activation_row(const MatmulTask& task, const PairTile& tile,
                                                               std::size_t t) {
    const std::size_t token = tile.token + (t < tile.tokens ? t : tile.tokens - 1);
    return reinterpret_cast<const Activation*>(task.activations + token * task.activation_row_bytes);
}

template <typename Activation, std::size_t kBlock>
void pair_chunk(const MatmulTask& task, const PairTile& tile, PairedChunk& chunk) {
    for (std::size_t pair = 0; pair * 2 < tile.tokens; ++pair) {
        const Activation* a = activation_row<Activation>(task, tile, 2 * pair);
        const Activation* b = activation_row<Activation>(task, tile, 2 * pair + 1);
        std::size_t j = 0;
        for (std::size_t block = tile.first_block; block < tile.last_block; ++block) {
            for (std::size_t k = 0; k < kBlock; k += 32, ++j) {
                chunk.store(j, pair, pair_up(load_bytes32(a[block].q + k), load_bytes32(b[block].q + k)));
            }
        }
    }
}

// The accumulators between chunks live in the output: a float is the same after a store and a load.
[[gnu::always_inline]] inline Floats4 load_rows(const MatmulTask& task, std::size_t row, std::size_t token) {
    const float* out = task.out + token * task.out_stride + row;
    if (row + 4 <= task.rows) return load4(out);
    float buffer[4] = {};
    for (std::size_t i = 0; i < task.rows - row; ++i) buffer[i] = out[i];
    return load4(buffer);
}

template <std::size_t kTokens>
[[gnu::always_inline]] inline void load_accumulators(const MatmulTask& task, const PairTile& tile, std::size_t row,
                                                     Floats4 (&acc)[kTokens]) {
    for (std::size_t t = 0; t < kTokens; ++t) {
        acc[t] = tile.first_block == 0 || t >= tile.tokens ? zero4() : load_rows(task, row, tile.token + t);
    }
}

template <typename Type, std::size_t kPairs>
void pair_tile32(const MatmulTask& task, const PairTile& tile, const PairedChunk& chunk, std::size_t row) {
    const FourRows<typename Type::Block> rows(task, row);
    const ActivationBlock32* x[2 * kPairs];
    Floats4 acc[2 * kPairs];
    for (std::size_t t = 0; t < 2 * kPairs; ++t) x[t] = activation_row<ActivationBlock32>(task, tile, t);
    load_accumulators(task, tile, row, acc);
    for (std::size_t b = tile.first_block; b < tile.last_block; ++b) {
        const PairedBytes w01 = pair_up(Type::unpack(rows.at[0][b]), Type::unpack(rows.at[1][b]));
        const PairedBytes w23 = pair_up(Type::unpack(rows.at[2][b]), Type::unpack(rows.at[3][b]));
        const Floats4 d = scales4(rows, b);
        Floats4 m = zero4();
        if constexpr (Type::kMinimum)
            m = halves4(pack_bits(rows.at[0][b].m, rows.at[1][b].m, rows.at[2][b].m, rows.at[3][b].m));
        for (std::size_t pair = 0; pair < kPairs; ++pair) {
            const PairedBytes q = chunk.load(b - tile.first_block, pair);
            const int32x4_t q01 = quad(w01, q);
            const int32x4_t q23 = quad(w23, q);
            const Ints4 isum[2] = {vuzp1q_s32(q01, q23), vuzp2q_s32(q01, q23)};
            for (std::size_t i = 0; i < 2; ++i) {
                const ActivationBlock32& block = x[2 * pair + i][b];
                Floats4& sum = acc[2 * pair + i];
                sum = fma4(to_float4(isum[i]), mul4(d, block.scale), sum);
                if constexpr (Type::kMinimum) {
                    sum = fma4(set4(static_cast<float>(block.sum)), mul4(m, block.scale), sum);
                }
            }
        }
    }
    for (std::size_t t = 0; t < tile.tokens; ++t) store_rows(task, row, tile.token + t, acc[t]);
}

// Scale of element group k for the four sums of two rows.
[[gnu::always_inline]] inline int32x4_t pair_scales(const Scales256& a, const Scales256& b, std::size_t k) {
    return vcombine_s32(vld1_dup_s32(a.scales + k), vld1_dup_s32(b.scales + k));
}

template <typename Type>
[[gnu::always_inline]] inline int32x4_t add_scaled_quad(int32x4_t acc, PairedBytes w, PairedBytes x, int32x4_t scale,
                                                        int32x4_t second_scale) {
    if constexpr (Type::kSub16) {
        return vmlaq_s32(vmlaq_s32(acc, first_half_quad(w, x), scale), second_half_quad(w, x), second_scale);
    } else {
        return vmlaq_s32(acc, quad(w, x), scale);
    }
}

template <typename Type, std::size_t kPairs>
void pair_tile256(const MatmulTask& task, const PairTile& tile, const PairedChunk& chunk, std::size_t row) {
    const FourRows<typename Type::Block> rows(task, row);
    const ActivationBlock256* x[2 * kPairs];
    Floats4 acc[2 * kPairs];
    for (std::size_t t = 0; t < 2 * kPairs; ++t) x[t] = activation_row<ActivationBlock256>(task, tile, t);
    load_accumulators(task, tile, row, acc);
    for (std::size_t b = tile.first_block; b < tile.last_block; ++b) {
        Scales256 scales[4];
        for (std::size_t r = 0; r < 4; ++r) Type::scales(rows.at[r][b], scales[r]);
        int32x4_t sums[2][kPairs];
        for (std::size_t pair = 0; pair < kPairs; ++pair) sums[0][pair] = sums[1][pair] = vdupq_n_s32(0);
        for_each_sub_block<2 * kPairs>([&](auto sub_block) {
            constexpr std::size_t kJ = decltype(sub_block)::kIndex;
            for (std::size_t half = 0; half < 2; ++half) {
                const std::size_t r = 2 * half;
                const Bytes32 even = Type::template unpack<kJ>(rows.at[r][b]);
                const PairedBytes w = pair_up(even, Type::template unpack<kJ>(rows.at[r + 1][b]));
                const int32x4_t scale = pair_scales(scales[r], scales[r + 1], 2 * kJ);
                const int32x4_t second_scale = pair_scales(scales[r], scales[r + 1], 2 * kJ + 1);
                for (std::size_t pair = 0; pair < kPairs; ++pair) {
                    const PairedBytes q = chunk.load((b - tile.first_block) * 8 + kJ, pair);
                    sums[half][pair] = add_scaled_quad<Type>(sums[half][pair], w, q, scale, second_scale);
                }
            }
        });
        const Floats4 d = scales4(rows, b);
        Floats4 dmin = zero4();
        if constexpr (Type::kMinimum) {
            dmin = halves4(pack_bits(rows.at[0][b].dmin, rows.at[1][b].dmin, rows.at[2][b].dmin, rows.at[3][b].dmin));
        }
        for (std::size_t t = 0; t < 2 * kPairs; ++t) {
            const ActivationBlock256& block = x[t][b];
            const int32x4_t q01 = sums[0][t / 2];
            const int32x4_t q23 = sums[1][t / 2];
            const Ints4 isum = t % 2 == 0 ? vuzp1q_s32(q01, q23) : vuzp2q_s32(q01, q23);
            acc[t] = fma4(to_float4(isum), mul4(d, block.scale), acc[t]);
            if constexpr (Type::kMinimum) {
                const Ints4 minimums = minimum_sums(scales, block.sums);
                acc[t] = fma4(to_float4(minimums), neg4(mul4(dmin, block.scale)), acc[t]);
            }
        }
    }
    for (std::size_t t = 0; t < tile.tokens; ++t) store_rows(task, row, tile.token + t, acc[t]);
}

using PairTileFn = void (*)(const MatmulTask&, const PairTile&, const PairedChunk&, std::size_t);

// Groups of eight tokens, chunks of columns, then all rows.
template <typename Activation, std::size_t kBlock>
void walk_pairs(const MatmulTask& task, const PairTileFn (&tiles)[kMaxPairs]) {
    const std::size_t blocks = task.columns / kBlock;
    constexpr std::size_t kStep = kChunkColumns / kBlock;
    PairedChunk chunk;
    for (std::size_t token = 0; token < task.tokens; token += 2 * kMaxPairs) {
        const std::size_t left = task.tokens - token;
        PairTile tile = {token, left < 2 * kMaxPairs ? left : 2 * kMaxPairs, 0, 0};
        const PairTileFn run = tiles[(tile.tokens + 1) / 2 - 1];
        for (std::size_t block = 0; block < blocks; block += kStep) {
            tile.first_block = block;
            tile.last_block = block + kStep < blocks ? block + kStep : blocks;
            pair_chunk<Activation, kBlock>(task, tile, chunk);
            for (std::size_t row = 0; row < task.rows; row += 4) run(task, tile, chunk, row);
        }
    }
}

template <typename Type>
void pair_matmul32(const MatmulTask& task) {
    if (task.tokens < 2) return matmul32<Type>(task);
    constexpr PairTileFn kTiles[kMaxPairs] = {pair_tile32<Type, 1>, pair_tile32<Type, 2>, pair_tile32<Type, 3>,
                                              pair_tile32<Type, 4>};
    walk_pairs<ActivationBlock32, kBlock32>(task, kTiles);
}

template <typename Type>
void pair_matmul256(const MatmulTask& task) {
    if (task.tokens < 2) return matmul256<Type>(task);
    constexpr PairTileFn kTiles[kMaxPairs] = {pair_tile256<Type, 1>, pair_tile256<Type, 2>, pair_tile256<Type, 3>,
                                              pair_tile256<Type, 4>};
    walk_pairs<ActivationBlock256, kBlock256>(task, kTiles);
}

inline void install_paired_matmul(Kernels& table) {
    const auto set = [&table](DType type, MatmulFn function) {
        table.matmul[static_cast<std::size_t>(type)] = function;
    };
    set(DType::Q4_0, pair_matmul32<TypeQ4_0>);
    set(DType::Q4_1, pair_matmul32<TypeQ4_1>);
    set(DType::Q5_0, pair_matmul32<TypeQ5_0>);
    set(DType::Q5_1, pair_matmul32<TypeQ5_1>);
    set(DType::Q8_0, pair_matmul32<TypeQ8_0>);
    set(DType::IQ4_NL, pair_matmul32<TypeIQ4_NL>);
    set(DType::MXFP4, pair_matmul32<TypeMXFP4>);
    set(DType::Q2_K, pair_matmul256<TypeQ2_K>);
    set(DType::Q3_K, pair_matmul256<TypeQ3_K>);
    set(DType::Q4_K, pair_matmul256<TypeQ4_K>);
    set(DType::Q5_K, pair_matmul256<TypeQ5_K>);
    set(DType::Q6_K, pair_matmul256<TypeQ6_K>);
    set(DType::IQ4_XS, pair_matmul256<TypeIQ4_XS>);
    set(DType::TQ2_0, pair_matmul256<TypeTQ2_0>);
}

}  // namespace

}  // namespace hearth
