// Dot products of the weight types in blocks of 32. Inside a block an exact integer, across blocks one f32 accumulator
// from +0 in ascending order:
//   acc = fma(isum, d * s, acc), and for the types with a minimum then acc = fma(sum of activations, m * s, acc).
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/reference.h"
#include "kernels/reference_fast.h"

namespace hearth {

namespace {

// A block as w = scale * q + minimum.
struct Integers32 {
    float scale;
    float minimum;
    std::int32_t q[kBlock32];
};

template <typename Block>
inline constexpr bool kHasMinimum = false;
template <>
inline constexpr bool kHasMinimum<BlockQ4_1> = true;
template <>
inline constexpr bool kHasMinimum<BlockQ5_1> = true;

// Element i < 16 is the low nibble of byte i, element i + 16 its high nibble.
std::int32_t nibble(const std::uint8_t* q, std::size_t i) {
    return i < 16 ? q[i] & 15 : q[i - 16] >> 4;
}

std::int32_t fifth_bit(const std::uint8_t* high, std::size_t i) {
    return ((high[i / 8] >> (i % 8)) & 1) << 4;
}

Integers32 integers(const BlockQ4_0& block) {
    Integers32 w{to_float(block.d), 0.0f, {}};
    for (std::size_t i = 0; i < kBlock32; ++i) w.q[i] = nibble(block.q, i) - 8;
    return w;
}

Integers32 integers(const BlockQ4_1& block) {
    Integers32 w{to_float(block.d), to_float(block.m), {}};
    for (std::size_t i = 0; i < kBlock32; ++i) w.q[i] = nibble(block.q, i);
    return w;
}

Integers32 integers(const BlockQ5_0& block) {
    Integers32 w{to_float(block.d), 0.0f, {}};
    for (std::size_t i = 0; i < kBlock32; ++i) w.q[i] = (nibble(block.q, i) | fifth_bit(block.high, i)) - 16;
    return w;
}

Integers32 integers(const BlockQ5_1& block) {
    Integers32 w{to_float(block.d), to_float(block.m), {}};
    for (std::size_t i = 0; i < kBlock32; ++i) w.q[i] = nibble(block.q, i) | fifth_bit(block.high, i);
    return w;
}

Integers32 integers(const BlockQ8_0& block) {
    Integers32 w{to_float(block.d), 0.0f, {}};
    for (std::size_t i = 0; i < kBlock32; ++i) w.q[i] = block.q[i];
    return w;
}

Integers32 integers(const BlockIQ4_NL& block) {
    Integers32 w{to_float(block.d), 0.0f, {}};
    for (std::size_t i = 0; i < kBlock32; ++i) w.q[i] = kIQ4Values[nibble(block.q, i)];
    return w;
}

Integers32 integers(const BlockMXFP4& block) {
    // 2^(exponent - 128): the two smallest are subnormal, the rest are an exponent field alone.
    const std::uint32_t exponent = block.exponent;
    const std::uint32_t bits = exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23;
    Integers32 w{std::bit_cast<float>(bits), 0.0f, {}};
    for (std::size_t i = 0; i < kBlock32; ++i) w.q[i] = kMXFP4Values[nibble(block.q, i)];
    return w;
}

template <typename Block>
float dot(const Block* weights, const ActivationBlock32* activations, std::size_t blocks) {
    float accumulator = 0.0f;
    for (std::size_t b = 0; b < blocks; ++b) {
        const Integers32 w = integers(weights[b]);
        const ActivationBlock32& x = activations[b];
        std::int32_t isum = 0;
        for (std::size_t i = 0; i < kBlock32; ++i) isum += w.q[i] * x.q[i];
        accumulator = std::fma(static_cast<float>(isum), w.scale * x.scale, accumulator);
        if (kHasMinimum<Block>) accumulator = std::fma(static_cast<float>(x.sum), w.minimum * x.scale, accumulator);
    }
    return accumulator;
}

template <typename Block, std::int32_t kLargestCode>
void fast_matmul(const MatmulTask& task) {
    for (std::size_t r = 0; r < task.rows; ++r) {
        const auto* row = reinterpret_cast<const Block*>(task.weights + r * task.weight_row_bytes);
        fast_row(task, r, [&](std::size_t first) {
            LinearWeights out;
            out.columns = std::min(task.columns - first, kBlock256);
            out.largest_code = kLargestCode;
            out.has_minimum = kHasMinimum<Block>;
            for (std::size_t b = 0; b < out.columns / kBlock32; ++b) {
                const Integers32 w = integers(row[first / kBlock32 + b]);
                for (std::size_t j = 2 * b; j < 2 * b + 2; ++j) {
                    out.scale[j] = w.scale;
                    out.minimum[j] = w.minimum;
                }
                for (std::size_t i = 0; i < kBlock32; ++i) out.q[b * kBlock32 + i] = w.q[i];
            }
            return out;
        });
    }
}

template <typename Block>
void matmul(const MatmulTask& task) {
    for (std::size_t t = 0; t < task.tokens; ++t) {
        const auto* x = reinterpret_cast<const ActivationBlock32*>(task.activations + t * task.activation_row_bytes);
        for (std::size_t r = 0; r < task.rows; ++r) {
            const auto* w = reinterpret_cast<const Block*>(task.weights + r * task.weight_row_bytes);
            task.out[t * task.out_stride + r] = dot(w, x, task.columns / kBlock32);
        }
    }
}

}  // namespace

void install_reference_matmul32(Kernels& table) {
    const auto set = [&table](DType type, MatmulFn function) {
        table.matmul[static_cast<std::size_t>(type)] = function;
    };
    set(DType::Q4_0, matmul<BlockQ4_0>);
    set(DType::Q4_1, matmul<BlockQ4_1>);
    set(DType::Q5_0, matmul<BlockQ5_0>);
    set(DType::Q5_1, matmul<BlockQ5_1>);
    set(DType::Q8_0, matmul<BlockQ8_0>);
    set(DType::IQ4_NL, matmul<BlockIQ4_NL>);
    set(DType::MXFP4, matmul<BlockMXFP4>);
    const auto set_fast = [&table](DType type, MatmulFn function) {
        table.fast.rows_matmul[static_cast<std::size_t>(type)] = function;
    };
    set_fast(DType::Q4_0, fast_matmul<BlockQ4_0, 8>);
    set_fast(DType::Q4_1, fast_matmul<BlockQ4_1, 15>);
    set_fast(DType::Q5_0, fast_matmul<BlockQ5_0, 16>);
    set_fast(DType::Q5_1, fast_matmul<BlockQ5_1, 31>);
    set_fast(DType::Q8_0, fast_matmul<BlockQ8_0, 127>);
    set_fast(DType::IQ4_NL, fast_matmul<BlockIQ4_NL, 127>);
    set_fast(DType::MXFP4, fast_matmul<BlockMXFP4, 12>);
}

}  // namespace hearth
