// Activations to int8 blocks. The scale has 11 significant bits, so its product with any normal f16 weight scale is
// exact in f32: a kernel may form the product in whatever order suits it.
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/reference.h"

namespace hearth {

namespace {

constexpr std::uint32_t kInfinityBits = 0x7f800000u;
// Below 2^-100 a block counts as zero: its inverse scale would come near the end of the exponent range.
constexpr std::uint32_t kSmallestBits = (127u - 100u) << 23;

// Rounds the mantissa to 11 significant bits, nearest even.
float round11(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    return std::bit_cast<float>((bits + 0xfffu + ((bits >> 13) & 1u)) & ~0x1fffu);
}

// Quantises one block of n elements and returns its scale.
float quantize_block(const float* x, std::size_t n, std::int8_t* q) {
    std::uint32_t largest = 0;  // |x| ordered as integers: a NaN is larger than everything, and cannot hide
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu;
        if (magnitude > largest) largest = magnitude;
    }
    if (largest >= kInfinityBits || largest < kSmallestBits) {
        for (std::size_t i = 0; i < n; ++i) q[i] = 0;
        return largest >= kInfinityBits ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
    }
    const float scale = round11(std::bit_cast<float>(largest) / 127.0f);
    const float inverse = 1.0f / scale;
    for (std::size_t i = 0; i < n; ++i) {
        const float rounded = std::nearbyint(x[i] * inverse);
        const float clamped = rounded > 127.0f ? 127.0f : rounded < -127.0f ? -127.0f : rounded;
        q[i] = static_cast<std::int8_t>(clamped);
    }
    return scale;
}

std::int32_t sum_of(const std::int8_t* q, std::size_t n) {
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += q[i];
    return sum;
}

}  // namespace

void reference_quantize_q8x32(const float* x, std::size_t n, ActivationBlock32* out) {
    for (std::size_t block = 0; block < n / kBlock32; ++block) {
        out[block].scale = quantize_block(x + block * kBlock32, kBlock32, out[block].q);
        out[block].sum = sum_of(out[block].q, kBlock32);
    }
}

void reference_quantize_q8x256(const float* x, std::size_t n, ActivationBlock256* out) {
    for (std::size_t block = 0; block < n / kBlock256; ++block) {
        out[block].scale = quantize_block(x + block * kBlock256, kBlock256, out[block].q);
        for (std::size_t j = 0; j < 16; ++j) {
            out[block].sums[j] = static_cast<std::int16_t>(sum_of(out[block].q + 16 * j, 16));
        }
    }
}

}  // namespace hearth
