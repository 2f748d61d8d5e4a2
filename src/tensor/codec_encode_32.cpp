// Quantisers of the 32-element blocks. Each searches its scale, stores it as a half, and rounds against what was
// stored.
#include "tensor/codec_encode.h"
#include "tensor/codec_fit.h"

namespace hearth::codec {

namespace {

// The integers of a block against its stored scale and offset.
template <int Low, int High>
void quantise(const float* x, float scale, float offset, std::uint8_t (&q)[kBlock32]) {
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    for (std::size_t i = 0; i < kBlock32; ++i) {
        const float level = round_clamped((x[i] - offset) * inverse, static_cast<float>(Low), static_cast<float>(High));
        q[i] = static_cast<std::uint8_t>(static_cast<int>(level) - Low);
    }
}

void pack_nibbles(const std::uint8_t (&q)[kBlock32], std::uint8_t (&out)[16]) {
    for (std::size_t i = 0; i < 16; ++i) out[i] = static_cast<std::uint8_t>((q[i] & 15) | (q[i + 16] & 15) << 4);
}

void pack_fifth_bits(const std::uint8_t (&q)[kBlock32], std::uint8_t (&out)[4]) {
    for (std::size_t byte = 0; byte < 4; ++byte) {
        int bits = 0;
        for (std::size_t i = 0; i < 8; ++i) bits |= (q[byte * 8 + i] >> 4) << i;
        out[byte] = static_cast<std::uint8_t>(bits);
    }
}

// With both numbers of a Linear as halves. The offset is refitted after the scale was rounded.
template <int High, typename Block>
void encode_linear(const float* x, const float* w, Block& block, std::uint8_t (&q)[kBlock32]) {
    const Linear fit = fit_linear<kBlock32, High, Offset::Any>(x, w);
    block.d = finite_half(fit.scale);
    const float scale = to_float(block.d);
    quantise<0, High>(x, scale, fit.offset, q);
    double total = 0.0;
    double rest = 0.0;
    for (std::size_t i = 0; i < kBlock32; ++i) {
        total += static_cast<double>(w[i]);
        rest += static_cast<double>(w[i]) * static_cast<double>(x[i] - scale * static_cast<float>(q[i]));
    }
    block.m = finite_half(static_cast<float>(rest / total));
    quantise<0, High>(x, scale, to_float(block.m), q);
}

}  // namespace

void encode(const float* x, const float* w, BlockQ4_0& block) {
    std::uint8_t q[kBlock32];
    block.d = finite_half(fit_scale<kBlock32, -8, 7, 10>(x, w));
    quantise<-8, 7>(x, to_float(block.d), 0.0f, q);
    pack_nibbles(q, block.q);
}

void encode(const float* x, const float* w, BlockQ5_0& block) {
    std::uint8_t q[kBlock32];
    block.d = finite_half(fit_scale<kBlock32, -16, 15, 10>(x, w));
    quantise<-16, 15>(x, to_float(block.d), 0.0f, q);
    pack_nibbles(q, block.q);
    pack_fifth_bits(q, block.high);
}

void encode(const float* x, const float* w, BlockQ4_1& block) {
    std::uint8_t q[kBlock32];
    encode_linear<15>(x, w, block, q);
    pack_nibbles(q, block.q);
}

void encode(const float* x, const float* w, BlockQ5_1& block) {
    std::uint8_t q[kBlock32];
    encode_linear<31>(x, w, block, q);
    pack_nibbles(q, block.q);
    pack_fifth_bits(q, block.high);
}

// -128 stays unused: kernels may take absolute values of the integers.
void encode(const float* x, const float* w, BlockQ8_0& block) {
    block.d = finite_half(fit_scale<kBlock32, -127, 127, 3>(x, w));
    const float scale = to_float(block.d);
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    for (std::size_t i = 0; i < kBlock32; ++i) {
        block.q[i] = static_cast<std::int8_t>(round_clamped(x[i] * inverse, -127.0f, 127.0f));
    }
}

}  // namespace hearth::codec
