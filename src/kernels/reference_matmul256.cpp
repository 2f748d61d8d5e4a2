// Dot products of the weight types in blocks of 256. All of a block is one exact int32 (or two, with minimums):
//   I = sum of scale_j * isum_j, M = sum of min_j * S_j over sixteen sub-blocks of 16,
//   acc = fma(I, d * s, acc), then with minimums acc = fma(M, -(dmin * s), acc).
// I reaches 1.4e8 in magnitude: its conversion to f32 rounds, once, to nearest even.
#include <cmath>

#include "kernels/reference.h"
#include "kernels/reference_fast.h"

namespace hearth {

namespace {

constexpr std::size_t kSubBlocks = 16;  // of 16 elements; types with sub-blocks of 32 repeat their scale

// A block as w = scale * scales[i / 16] * q[i] - minimum * minimums[i / 16].
struct Integers256 {
    float scale = 0.0f;
    float minimum = 0.0f;
    std::int32_t scales[kSubBlocks] = {};
    std::int32_t minimums[kSubBlocks] = {};
    std::int32_t q[kBlock256] = {};
};

template <typename Block>
inline constexpr bool kHasMinimum = false;
template <>
inline constexpr bool kHasMinimum<BlockQ2_K> = true;
template <>
inline constexpr bool kHasMinimum<BlockQ4_K> = true;
template <>
inline constexpr bool kHasMinimum<BlockQ5_K> = true;

// Two-bit planes of Q2_K, Q3_K and TQ2_0: 32 bytes hold elements l, l + 32, l + 64 and l + 96 of a half block.
std::int32_t two_bits(const std::uint8_t* q, std::size_t i) {
    return (q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
}

// Four-bit planes of Q4_K and Q5_K: 32 bytes hold elements l and l + 32 of a quarter block.
std::int32_t four_bits(const std::uint8_t* q, std::size_t i) {
    return (q[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4)) & 15;
}

// Eight 6-bit scales and eight 6-bit minimums in 12 bytes: the first four whole in bytes 0-3 (scales) and 4-7
// (minimums), the others with four bits in bytes 8-11 and their top two above the first four.
void unpack_scales(const std::uint8_t* packed, Integers256& w) {
    for (std::size_t j = 0; j < 8; ++j) {
        const int scale = j < 4 ? packed[j] & 63 : (packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4);
        const int minimum = j < 4 ? packed[j + 4] & 63 : (packed[j + 4] >> 4) | ((packed[j] >> 6) << 4);
        w.scales[2 * j] = w.scales[2 * j + 1] = scale;
        w.minimums[2 * j] = w.minimums[2 * j + 1] = minimum;
    }
}

void integers(const BlockQ2_K& block, Integers256& w) {
    w.scale = to_float(block.d);
    w.minimum = to_float(block.dmin);
    for (std::size_t j = 0; j < kSubBlocks; ++j) {
        w.scales[j] = block.scales[j] & 15;
        w.minimums[j] = block.scales[j] >> 4;
    }
    for (std::size_t i = 0; i < kBlock256; ++i) w.q[i] = two_bits(block.q, i);
}

void integers(const BlockQ3_K& block, Integers256& w) {
    w.scale = to_float(block.d);
    for (std::size_t j = 0; j < kSubBlocks; ++j) {
        const int low = j < 8 ? block.scales[j] & 15 : block.scales[j - 8] >> 4;
        const int high = (block.scales[8 + j % 4] >> (j / 4 * 2)) & 3;
        w.scales[j] = (low | (high << 4)) - 32;
    }
    for (std::size_t i = 0; i < kBlock256; ++i) {
        const int third = (block.high[i % 32] >> (i / 32)) & 1;
        w.q[i] = two_bits(block.q, i) + third * 4 - 4;
    }
}

void integers(const BlockQ4_K& block, Integers256& w) {
    w.scale = to_float(block.d);
    w.minimum = to_float(block.dmin);
    unpack_scales(block.scales, w);
    for (std::size_t i = 0; i < kBlock256; ++i) w.q[i] = four_bits(block.q, i);
}

void integers(const BlockQ5_K& block, Integers256& w) {
    w.scale = to_float(block.d);
    w.minimum = to_float(block.dmin);
    unpack_scales(block.scales, w);
    for (std::size_t i = 0; i < kBlock256; ++i) {
        w.q[i] = four_bits(block.q, i) | (((block.high[i % 32] >> (i / 32)) & 1) << 4);
    }
}

void integers(const BlockQ6_K& block, Integers256& w) {
    w.scale = to_float(block.d);
    for (std::size_t j = 0; j < kSubBlocks; ++j) w.scales[j] = block.scales[j];
    for (std::size_t i = 0; i < kBlock256; ++i) {
        // Each half: 64 bytes of low nibbles (elements l, l + 64), 32 bytes of high pairs (l, l + 32, l + 64, l + 96).
        const std::size_t half = i / 128;
        const int low = (block.low[half * 64 + i % 64] >> (i % 128 / 64 * 4)) & 15;
        const int high = (block.high[half * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
        w.q[i] = (low | (high << 4)) - 32;
    }
}

void integers(const BlockIQ4_XS& block, Integers256& w) {
    w.scale = to_float(block.d);
    for (std::size_t j = 0; j < kSubBlocks; ++j) {
        const std::size_t k = j / 2;
        const int low = (block.scales_low[k / 2] >> (k % 2 * 4)) & 15;
        const int high = (block.scales_high >> (k * 2)) & 3;
        w.scales[j] = (low | (high << 4)) - 32;
    }
    for (std::size_t i = 0; i < kBlock256; ++i) {
        w.q[i] = kIQ4Values[(block.q[i / 32 * 16 + i % 16] >> (i % 32 / 16 * 4)) & 15];
    }
}

void integers(const BlockTQ1_0& block, Integers256& w) {
    // A byte is the fixed-point fraction of five (or four) base-3 digits: digit n is the whole part of 3 * frac(b *
    // 3^n).
    static constexpr std::uint8_t kPowers[5] = {1, 3, 9, 27, 81};
    const auto digit = [](std::uint8_t byte, std::size_t n) {
        const auto fraction = static_cast<std::uint8_t>(byte * kPowers[n]);
        return ((fraction * 3) >> 8) - 1;
    };
    w.scale = to_float(block.d);
    for (std::size_t j = 0; j < kSubBlocks; ++j) w.scales[j] = 1;
    for (std::size_t i = 0; i < 160; ++i) w.q[i] = digit(block.q[i % 32], i / 32);
    for (std::size_t i = 0; i < 80; ++i) w.q[160 + i] = digit(block.q[32 + i % 16], i / 16);
    for (std::size_t i = 0; i < 16; ++i) w.q[240 + i] = digit(block.high[i % 4], i / 4);
}

void integers(const BlockTQ2_0& block, Integers256& w) {
    w.scale = to_float(block.d);
    for (std::size_t j = 0; j < kSubBlocks; ++j) w.scales[j] = 1;
    for (std::size_t i = 0; i < kBlock256; ++i) w.q[i] = two_bits(block.q, i) - 1;
}

template <typename Block>
float dot(const Block* weights, const ActivationBlock256* activations, std::size_t blocks) {
    float accumulator = 0.0f;
    for (std::size_t b = 0; b < blocks; ++b) {
        const ActivationBlock256& x = activations[b];
        Integers256 w;
        integers(weights[b], w);
        std::int32_t scaled = 0;
        std::int32_t minimums = 0;
        for (std::size_t j = 0; j < kSubBlocks; ++j) {
            std::int32_t isum = 0;
            for (std::size_t i = 16 * j; i < 16 * j + 16; ++i) isum += w.q[i] * x.q[i];
            scaled += w.scales[j] * isum;
            minimums += w.minimums[j] * x.sums[j];
        }
        accumulator = std::fma(static_cast<float>(scaled), w.scale * x.scale, accumulator);
        if (kHasMinimum<Block>) {
            accumulator = std::fma(static_cast<float>(minimums), -(w.minimum * x.scale), accumulator);
        }
    }
    return accumulator;
}

template <typename Block, std::int32_t kLargestCode>
void fast_matmul(const MatmulTask& task) {
    for (std::size_t r = 0; r < task.rows; ++r) {
        const auto* row = reinterpret_cast<const Block*>(task.weights + r * task.weight_row_bytes);
        fast_row(task, r, [&](std::size_t first) {
            Integers256 w;
            integers(row[first / kBlock256], w);
            LinearWeights out;
            out.columns = kBlock256;
            out.largest_code = kLargestCode;
            out.has_minimum = kHasMinimum<Block>;
            for (std::size_t j = 0; j < kSubBlocks; ++j) {
                out.scale[j] = w.scale * static_cast<float>(w.scales[j]);
                out.minimum[j] = kHasMinimum<Block> ? -(w.minimum * static_cast<float>(w.minimums[j])) : 0.0f;
            }
            for (std::size_t i = 0; i < kBlock256; ++i) out.q[i] = w.q[i];
            return out;
        });
    }
}

template <typename Block>
void matmul(const MatmulTask& task) {
    for (std::size_t t = 0; t < task.tokens; ++t) {
        const auto* x = reinterpret_cast<const ActivationBlock256*>(task.activations + t * task.activation_row_bytes);
        for (std::size_t r = 0; r < task.rows; ++r) {
            const auto* w = reinterpret_cast<const Block*>(task.weights + r * task.weight_row_bytes);
            task.out[t * task.out_stride + r] = dot(w, x, task.columns / kBlock256);
        }
    }
}

}  // namespace

void install_reference_matmul256(Kernels& table) {
    const auto set = [&table](DType type, MatmulFn function) {
        table.matmul[static_cast<std::size_t>(type)] = function;
    };
    set(DType::Q2_K, matmul<BlockQ2_K>);
    set(DType::Q3_K, matmul<BlockQ3_K>);
    set(DType::Q4_K, matmul<BlockQ4_K>);
    set(DType::Q5_K, matmul<BlockQ5_K>);
    set(DType::Q6_K, matmul<BlockQ6_K>);
    set(DType::IQ4_XS, matmul<BlockIQ4_XS>);
    set(DType::TQ1_0, matmul<BlockTQ1_0>);
    set(DType::TQ2_0, matmul<BlockTQ2_0>);
    const auto set_fast = [&table](DType type, MatmulFn function) {
        table.fast.rows_matmul[static_cast<std::size_t>(type)] = function;
    };
    set_fast(DType::Q2_K, fast_matmul<BlockQ2_K, 3>);
    set_fast(DType::Q3_K, fast_matmul<BlockQ3_K, 4>);
    set_fast(DType::Q4_K, fast_matmul<BlockQ4_K, 15>);
    set_fast(DType::Q5_K, fast_matmul<BlockQ5_K, 31>);
    set_fast(DType::Q6_K, fast_matmul<BlockQ6_K, 32>);
    set_fast(DType::IQ4_XS, fast_matmul<BlockIQ4_XS, 127>);
    set_fast(DType::TQ2_0, fast_matmul<BlockTQ2_0, 1>);
}

}  // namespace hearth
