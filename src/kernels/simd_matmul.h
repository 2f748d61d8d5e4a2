// Quantised matmul for any vector ISA: four weight rows at a time, one row a lane, and a tile of tokens that shares the
// unpacked weights. Include after the ISA's vocabulary (simd_neon_types.h or simd_avx2_types.h), once in an ISA file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace hearth {

namespace {

// Four rows from row `first` on. Rows past the end repeat the last one: computed, never stored.
template <typename Block>
struct FourRows {
    const Block* at[4];

    FourRows(const MatmulTask& task, std::size_t first) {
        for (std::size_t i = 0; i < 4; ++i) {
            const std::size_t row = first + i < task.rows ? first + i : task.rows - 1;
            at[i] = reinterpret_cast<const Block*>(task.weights + row * task.weight_row_bytes);
        }
    }
};

[[gnu::always_inline]] inline std::uint64_t pack_bits(Half a, Half b, Half c, Half d) {
    return static_cast<std::uint64_t>(a.bits) | static_cast<std::uint64_t>(b.bits) << 16 |
           static_cast<std::uint64_t>(c.bits) << 32 | static_cast<std::uint64_t>(d.bits) << 48;
}

template <typename Block>
[[gnu::always_inline]] inline Floats4 scales4(const FourRows<Block>& rows, std::size_t b) {
    return halves4(pack_bits(rows.at[0][b].d, rows.at[1][b].d, rows.at[2][b].d, rows.at[3][b].d));
}

template <>
[[gnu::always_inline]] inline Floats4 scales4(const FourRows<BlockMXFP4>& rows, std::size_t b) {
    float scales[4];
    for (std::size_t i = 0; i < 4; ++i) {
        const std::uint32_t exponent = rows.at[i][b].exponent;
        const std::uint32_t bits = exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23;
        __builtin_memcpy(scales + i, &bits, 4);
    }
    return load4(scales);
}

inline void store_rows(const MatmulTask& task, std::size_t row, std::size_t token, Floats4 values) {
    float* out = task.out + token * task.out_stride + row;
    if (row + 4 <= task.rows) return store4(out, values);
    float buffer[4];
    store4(buffer, values);
    for (std::size_t i = 0; i < task.rows - row; ++i) out[i] = buffer[i];
}

template <typename Type, std::size_t kTokens>
void tile32(const MatmulTask& task, std::size_t row, std::size_t token) {
    const FourRows<typename Type::Block> rows(task, row);
    const ActivationBlock32* x[kTokens];
    Floats4 acc[kTokens];
    for (std::size_t t = 0; t < kTokens; ++t) {
        x[t] = reinterpret_cast<const ActivationBlock32*>(task.activations + (token + t) * task.activation_row_bytes);
        acc[t] = zero4();
    }
    const std::size_t blocks = task.columns / kBlock32;
    for (std::size_t b = 0; b < blocks; ++b) {
        const Bytes32 w0 = Type::unpack(rows.at[0][b]);
        const Bytes32 w1 = Type::unpack(rows.at[1][b]);
        const Bytes32 w2 = Type::unpack(rows.at[2][b]);
        const Bytes32 w3 = Type::unpack(rows.at[3][b]);
        const Floats4 d = scales4(rows, b);
        Floats4 m = zero4();
        if constexpr (Type::kMinimum)
            m = halves4(pack_bits(rows.at[0][b].m, rows.at[1][b].m, rows.at[2][b].m, rows.at[3][b].m));
        for (std::size_t t = 0; t < kTokens; ++t) {
            const ActivationBlock32& block = x[t][b];
            const Bytes32 q = load_bytes32(block.q);
            const Ints4 reduced =
                reduce4(dot32_of<Type>(w0, q), dot32_of<Type>(w1, q), dot32_of<Type>(w2, q), dot32_of<Type>(w3, q));
            const Ints4 isum = without_offset<Type>(reduced, block.sum);
            acc[t] = fma4(to_float4(isum), mul4(d, block.scale), acc[t]);
            if constexpr (Type::kMinimum) {
                acc[t] = fma4(set4(static_cast<float>(block.sum)), mul4(m, block.scale), acc[t]);
            }
        }
    }
    for (std::size_t t = 0; t < kTokens; ++t) store_rows(task, row, token + t, acc[t]);
}

// Calls with SubBlock<0> to SubBlock<7>: the shifts of an unpack have to be constants. The barriers keep the compiler
// from gathering the loads of all sub-blocks at the front, where they would not fit in the registers.
template <std::size_t kJ>
struct SubBlock {
    static constexpr std::size_t kIndex = kJ;
};
template <std::size_t kTokens, typename Function, std::size_t kJ = 0>
[[gnu::always_inline]] inline void for_each_sub_block(const Function& function, SubBlock<kJ> sub_block = {}) {
    function(sub_block);
    if constexpr (kTokens > 1) __asm__ volatile("" ::: "memory");
    if constexpr (kJ + 1 < 8) for_each_sub_block<kTokens>(function, SubBlock<kJ + 1>{});
}

template <typename Type, std::size_t kTokens>
void tile256(const MatmulTask& task, std::size_t row, std::size_t token) {
    const FourRows<typename Type::Block> rows(task, row);
    const ActivationBlock256* x[kTokens];
    Floats4 acc[kTokens];
    for (std::size_t t = 0; t < kTokens; ++t) {
        x[t] = reinterpret_cast<const ActivationBlock256*>(task.activations + (token + t) * task.activation_row_bytes);
        acc[t] = zero4();
    }
    const std::size_t blocks = task.columns / kBlock256;
    for (std::size_t b = 0; b < blocks; ++b) {
        Scales256 scales[4];
        Partial sums[kTokens][4];
        for (std::size_t r = 0; r < 4; ++r) {
            Type::scales(rows.at[r][b], scales[r]);
            for (std::size_t t = 0; t < kTokens; ++t) sums[t][r] = zero_partial();
        }
        for_each_sub_block<kTokens>([&](auto sub_block) {
            constexpr std::size_t kJ = decltype(sub_block)::kIndex;
            for (std::size_t r = 0; r < 4; ++r) {
                const Bytes32 w = Type::template unpack<kJ>(rows.at[r][b]);
                for (std::size_t t = 0; t < kTokens; ++t) {
                    sums[t][r] =
                        add_scaled_dot_of<Type>(sums[t][r], w, load_bytes32(x[t][b].q + 32 * kJ), scales[r], kJ);
                }
            }
        });
        const Floats4 d = scales4(rows, b);
        Floats4 dmin = zero4();
        if constexpr (Type::kMinimum) {
            dmin = halves4(pack_bits(rows.at[0][b].dmin, rows.at[1][b].dmin, rows.at[2][b].dmin, rows.at[3][b].dmin));
        }
        for (std::size_t t = 0; t < kTokens; ++t) {
            const ActivationBlock256& block = x[t][b];
            const Ints4 reduced = reduce4(sums[t][0], sums[t][1], sums[t][2], sums[t][3]);
            const Ints4 isum = without_offset<Type>(reduced, scales, block.sums);
            acc[t] = fma4(to_float4(isum), mul4(d, block.scale), acc[t]);
            if constexpr (Type::kMinimum) {
                const Ints4 minimums = minimum_sums(scales, block.sums);
                acc[t] = fma4(to_float4(minimums), neg4(mul4(dmin, block.scale)), acc[t]);
            }
        }
    }
    for (std::size_t t = 0; t < kTokens; ++t) store_rows(task, row, token + t, acc[t]);
}

// Walks the tiles: weights in the outer loop, so that a group of rows stays in the cache for all tokens.
template <typename Type>
void matmul32(const MatmulTask& task) {
    for (std::size_t row = 0; row < task.rows; row += 4) {
        std::size_t token = 0;
        for (; token + kTileTokens32 <= task.tokens; token += kTileTokens32)
            tile32<Type, kTileTokens32>(task, row, token);
        switch (task.tokens - token) {
            case 3: tile32<Type, 3>(task, row, token); break;
            case 2: tile32<Type, 2>(task, row, token); break;
            case 1: tile32<Type, 1>(task, row, token); break;
            default: break;
        }
    }
}

template <typename Type>
void matmul256(const MatmulTask& task) {
    for (std::size_t row = 0; row < task.rows; row += 4) {
        std::size_t token = 0;
        for (; token + kTileTokens256 <= task.tokens; token += kTileTokens256) {
            tile256<Type, kTileTokens256>(task, row, token);
        }
        for (; token + 2 <= task.tokens; token += 2) tile256<Type, 2>(task, row, token);
        if (token < task.tokens) tile256<Type, 1>(task, row, token);
    }
}

inline void install_quantised_matmul(Kernels& table) {
    const auto set = [&table](DType type, MatmulFn function) {
        table.matmul[static_cast<std::size_t>(type)] = function;
    };
    set(DType::Q4_0, matmul32<TypeQ4_0>);
    set(DType::Q4_1, matmul32<TypeQ4_1>);
    set(DType::Q5_0, matmul32<TypeQ5_0>);
    set(DType::Q5_1, matmul32<TypeQ5_1>);
    set(DType::Q8_0, matmul32<TypeQ8_0>);
    set(DType::IQ4_NL, matmul32<TypeIQ4_NL>);
    set(DType::MXFP4, matmul32<TypeMXFP4>);
    set(DType::Q2_K, matmul256<TypeQ2_K>);
    set(DType::Q3_K, matmul256<TypeQ3_K>);
    set(DType::Q4_K, matmul256<TypeQ4_K>);
    set(DType::Q5_K, matmul256<TypeQ5_K>);
    set(DType::Q6_K, matmul256<TypeQ6_K>);
    set(DType::IQ4_XS, matmul256<TypeIQ4_XS>);
    set(DType::TQ2_0, matmul256<TypeTQ2_0>);
}

}  // namespace

}  // namespace hearth
