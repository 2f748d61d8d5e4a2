// Random weights and activations for the kernel tests, and comparison by bits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/kernels.h"
#include "tensor/blocks.h"
#include "tensor/dtype.h"

namespace hearth::kernel_test {

inline constexpr DType kAllTypes[] = {
    DType::F32,    DType::F16,    DType::Q4_0, DType::Q4_1,  DType::Q5_0,  DType::Q5_1,
    DType::Q8_0,   DType::Q2_K,   DType::Q3_K, DType::Q4_K,  DType::Q5_K,  DType::Q6_K,
    DType::IQ4_NL, DType::IQ4_XS, DType::BF16, DType::TQ1_0, DType::TQ2_0, DType::MXFP4,
};

class Random {
public:
    explicit Random(std::uint64_t seed) : seed_(seed) {}
    std::uint64_t bits() { return random_bits(seed_, position_++); }
    // Roughly Gaussian, unit variance, with the odd outlier of twenty times that.
    float value() {
        double sum = -6.0;
        for (std::uint64_t draw = 0; draw < 12; ++draw) sum += random_unit(seed_, position_, draw + 1);
        return static_cast<float>(bits() % 97 == 0 ? sum * 20.0 : sum);
    }

private:
    std::uint64_t seed_;
    std::uint64_t position_ = 0;
};

inline std::vector<float> random_values(std::size_t n, std::uint64_t seed) {
    Random random(seed);
    std::vector<float> values(n);
    for (float& value : values) value = random.value();
    return values;
}

enum class Fill { Random, AllOnes, Zero };  // AllOnes: every packed bit set, the largest integers a type has

// Where a block keeps its f16 fields.
inline std::vector<std::size_t> half_offsets(DType type) {
    switch (type) {
        case DType::Q4_0:
        case DType::Q5_0:
        case DType::Q8_0:
        case DType::IQ4_NL:
        case DType::IQ4_XS: return {0};
        case DType::Q4_1:
        case DType::Q5_1:
        case DType::Q4_K:
        case DType::Q5_K: return {0, 2};
        case DType::Q2_K: return {offsetof(BlockQ2_K, d), offsetof(BlockQ2_K, dmin)};
        case DType::Q3_K: return {offsetof(BlockQ3_K, d)};
        case DType::Q6_K: return {offsetof(BlockQ6_K, d)};
        case DType::TQ1_0: return {offsetof(BlockTQ1_0, d)};
        case DType::TQ2_0: return {offsetof(BlockTQ2_0, d)};
        default: return {};
    }
}

// Largest: scales at the largest finite half. Otherwise scales around 0.02 of either sign.
enum class Scales { Usual, Largest, Subnormal };

inline std::vector<std::byte> random_weights(DType type, std::size_t elements, std::uint64_t seed,
                                             Fill fill = Fill::Random, Scales scales = Scales::Usual) {
    const DTypeTraits& t = traits(type);
    Random random(seed);
    std::vector<std::byte> bytes(row_bytes(type, elements));
    if (t.activation == ActivationFormat::F32) {
        for (std::size_t i = 0; i < elements; ++i) {
            const float value = random.value() * 0.05f;
            const Half half = to_half(value);
            const BFloat16 brain = to_bfloat16(value);
            const void* source = type == DType::F32   ? static_cast<const void*>(&value)
                                 : type == DType::F16 ? static_cast<const void*>(&half)
                                                      : static_cast<const void*>(&brain);
            std::memcpy(bytes.data() + i * t.block_bytes, source, t.block_bytes);
        }
        return bytes;
    }
    for (std::byte& byte : bytes) {
        byte = fill == Fill::Random    ? static_cast<std::byte>(random.bits())
               : fill == Fill::AllOnes ? std::byte{0xff}
                                       : std::byte{0};
    }
    for (std::size_t block = 0; block < elements / t.block_elements; ++block) {
        std::byte* at = bytes.data() + block * t.block_bytes;
        for (const std::size_t offset : half_offsets(type)) {
            Half half = to_half(random.value() * 0.02f);
            if (scales == Scales::Largest) half.bits = 0x7bff;
            if (scales == Scales::Subnormal) half.bits = static_cast<std::uint16_t>(random.bits() & 0x83ff);
            std::memcpy(at + offset, &half, sizeof half);
        }
        if (type == DType::MXFP4) {
            const std::uint64_t exponent = scales == Scales::Largest     ? 254
                                           : scales == Scales::Subnormal ? random.bits() % 3
                                                                         : 118 + random.bits() % 8;
            *at = static_cast<std::byte>(exponent);
        }
    }
    return bytes;
}

// `tokens` rows of `columns` floats in the activation format of `type`.
inline std::vector<std::byte> make_activations(const Kernels& kernels, DType type, const std::vector<float>& x,
                                               std::size_t columns) {
    const ActivationFormat format = traits(type).activation;
    const std::size_t tokens = x.size() / columns;
    const std::size_t row = activation_row_bytes(format, columns);
    std::vector<std::byte> bytes(tokens * row);
    for (std::size_t t = 0; t < tokens; ++t) {
        std::byte* out = bytes.data() + t * row;
        const float* in = x.data() + t * columns;
        switch (format) {
            case ActivationFormat::F32: std::memcpy(out, in, row); break;
            case ActivationFormat::Q8x32:
                kernels.quantize_q8x32(in, columns, reinterpret_cast<ActivationBlock32*>(out));
                break;
            case ActivationFormat::Q8x256:
                kernels.quantize_q8x256(in, columns, reinterpret_cast<ActivationBlock256*>(out));
                break;
        }
    }
    return bytes;
}

inline MatmulTask matmul_task(DType type, const std::vector<std::byte>& weights, std::size_t rows, std::size_t columns,
                              const std::vector<std::byte>& activations, std::size_t tokens, std::vector<float>& out) {
    return {.weights = weights.data(),
            .weight_row_bytes = row_bytes(type, columns),
            .rows = rows,
            .columns = columns,
            .activations = activations.data(),
            .activation_row_bytes = activation_row_bytes(traits(type).activation, columns),
            .tokens = tokens,
            .out = out.data(),
            .out_stride = rows};
}

inline void run_matmul(const Kernels& kernels, DType type, const MatmulTask& task) {
    kernels.matmul[static_cast<std::size_t>(type)](task);
}

// A matrix in panels; bytes that packing leaves unwritten show in the result.
inline std::vector<std::byte> packed(const PanelKernels& panels, DType type, const std::vector<std::byte>& weights,
                                     std::size_t rows, std::size_t columns) {
    const std::size_t bytes = panels.panel_bytes(columns);
    std::vector<std::byte> out((rows + panels.rows - 1) / panels.rows * bytes, std::byte{0xa5});
    for (std::size_t row = 0; row < rows; row += panels.rows) {
        panels.pack({.weights = weights.data() + row * row_bytes(type, columns),
                     .weight_row_bytes = row_bytes(type, columns),
                     .rows = std::min(panels.rows, rows - row),
                     .columns = columns,
                     .out = out.data() + row / panels.rows * bytes});
    }
    return out;
}

// Equal bits. All NaNs count as one: their payload is the processor's, not ours.
inline ::testing::AssertionResult same_bits(const std::vector<float>& actual, const std::vector<float>& expected) {
    if (actual.size() != expected.size()) return ::testing::AssertionFailure() << "sizes differ";
    for (std::size_t i = 0; i < actual.size(); ++i) {
        if (std::isnan(actual[i]) && std::isnan(expected[i])) continue;
        if (std::bit_cast<std::uint32_t>(actual[i]) != std::bit_cast<std::uint32_t>(expected[i])) {
            return ::testing::AssertionFailure()
                   << "element " << i << " is " << std::hexfloat << actual[i] << ", not " << expected[i];
        }
    }
    return ::testing::AssertionSuccess();
}

}  // namespace hearth::kernel_test
