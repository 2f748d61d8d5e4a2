// Blocks to floats: the meaning of every type, in the plain float arithmetic of its format and in that order, so that
// the bits equal those of any other faithful decoder.
#include <bit>
#include <cstring>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/codec.h"

namespace hearth {

namespace {

constexpr int kLow = 0x0f;

float as_float(int value) {
    return static_cast<float>(value);
}

// Elements 0..15 are the low nibbles of sixteen bytes, 16..31 the high ones.
int nibble(const std::uint8_t* q, std::size_t element) {
    return element < 16 ? q[element] & kLow : q[element - 16] >> 4;
}

void decode(const BlockQ4_0& block, float* out) {
    const float d = to_float(block.d);
    for (std::size_t i = 0; i < 16; ++i) {
        out[i] = d * as_float((block.q[i] & kLow) - 8);
        out[i + 16] = d * as_float((block.q[i] >> 4) - 8);
    }
}

void decode(const BlockQ4_1& block, float* out) {
    const float d = to_float(block.d);
    const float m = to_float(block.m);
    for (std::size_t i = 0; i < 16; ++i) {
        out[i] = d * as_float(block.q[i] & kLow) + m;
        out[i + 16] = d * as_float(block.q[i] >> 4) + m;
    }
}

void decode(const BlockQ5_0& block, float* out) {
    const float d = to_float(block.d);
    for (std::size_t i = 0; i < kBlock32; ++i) {
        const int high = (block.high[i / 8] >> (i % 8)) & 1;
        out[i] = d * as_float((nibble(block.q, i) | high << 4) - 16);
    }
}

void decode(const BlockQ5_1& block, float* out) {
    const float d = to_float(block.d);
    const float m = to_float(block.m);
    for (std::size_t i = 0; i < kBlock32; ++i) {
        const int high = (block.high[i / 8] >> (i % 8)) & 1;
        out[i] = d * as_float(nibble(block.q, i) | high << 4) + m;
    }
}

void decode(const BlockQ8_0& block, float* out) {
    const float d = to_float(block.d);
    for (std::size_t i = 0; i < kBlock32; ++i) out[i] = as_float(block.q[i]) * d;
}

void decode(const BlockIQ4_NL& block, float* out) {
    const float d = to_float(block.d);
    for (std::size_t i = 0; i < 16; ++i) {
        out[i] = d * as_float(kIQ4Values[block.q[i] & kLow]);
        out[i + 16] = d * as_float(kIQ4Values[block.q[i] >> 4]);
    }
}

void decode(const BlockMXFP4& block, float* out) {
    // 2^(exponent - 128): half of the E8M0 scale, since the table holds doubled values. The two smallest are subnormal.
    const std::uint32_t exponent = block.exponent;
    const float d = std::bit_cast<float>(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
    for (std::size_t i = 0; i < 16; ++i) {
        out[i] = d * as_float(kMXFP4Values[block.q[i] & kLow]);
        out[i + 16] = d * as_float(kMXFP4Values[block.q[i] >> 4]);
    }
}

// Two-bit quants: each run of 32 bytes holds four groups of 32 elements, group g in bits 2g and 2g + 1.
void decode(const BlockQ2_K& block, float* out) {
    const float d = to_float(block.d);
    const float dmin = to_float(block.dmin);
    for (std::size_t sub = 0; sub < 16; ++sub) {
        const float scale = d * as_float(block.scales[sub] & kLow);
        const float min = dmin * as_float(block.scales[sub] >> 4);
        const std::uint8_t* q = block.q + sub / 8 * 32 + sub % 2 * 16;
        const std::size_t shift = sub / 2 % 4 * 2;
        for (std::size_t i = 0; i < 16; ++i) out[sub * 16 + i] = scale * as_float((q[i] >> shift) & 3) - min;
    }
}

void decode(const BlockQ3_K& block, float* out) {
    const float d = to_float(block.d);
    for (std::size_t sub = 0; sub < 16; ++sub) {
        const int low = sub < 8 ? block.scales[sub] & kLow : block.scales[sub - 8] >> 4;
        const int high = (block.scales[8 + sub % 4] >> (sub / 4 * 2)) & 3;
        const float scale = d * as_float((low | high << 4) - 32);
        const std::uint8_t* q = block.q + sub / 8 * 32 + sub % 2 * 16;
        const std::uint8_t* third = block.high + sub % 2 * 16;
        const std::size_t shift = sub / 2 % 4 * 2;
        for (std::size_t i = 0; i < 16; ++i) {
            const int bit = (third[i] >> (sub / 2)) & 1;
            out[sub * 16 + i] = scale * as_float(((q[i] >> shift) & 3) + bit * 4 - 4);
        }
    }
}

struct ScaleMin {
    int scale;
    int min;
};

// Sub-blocks 0..3 keep their six bits in the low end of a byte; the others split theirs over two bytes.
ScaleMin scale_min(const std::uint8_t* scales, std::size_t sub) {
    if (sub < 4) return {scales[sub] & 63, scales[sub + 4] & 63};
    return {(scales[sub + 4] & kLow) | (scales[sub - 4] >> 6 << 4), (scales[sub + 4] >> 4) | (scales[sub] >> 6 << 4)};
}

void decode(const BlockQ4_K& block, float* out) {
    const float d = to_float(block.d);
    const float dmin = to_float(block.dmin);
    for (std::size_t sub = 0; sub < 8; ++sub) {
        const ScaleMin packed = scale_min(block.scales, sub);
        const float scale = d * as_float(packed.scale);
        const float min = dmin * as_float(packed.min);
        const std::uint8_t* q = block.q + sub / 2 * 32;
        const std::size_t shift = sub % 2 * 4;
        for (std::size_t i = 0; i < 32; ++i) out[sub * 32 + i] = scale * as_float((q[i] >> shift) & kLow) - min;
    }
}

void decode(const BlockQ5_K& block, float* out) {
    const float d = to_float(block.d);
    const float dmin = to_float(block.dmin);
    for (std::size_t sub = 0; sub < 8; ++sub) {
        const ScaleMin packed = scale_min(block.scales, sub);
        const float scale = d * as_float(packed.scale);
        const float min = dmin * as_float(packed.min);
        const std::uint8_t* q = block.q + sub / 2 * 32;
        const std::size_t shift = sub % 2 * 4;
        for (std::size_t i = 0; i < 32; ++i) {
            const int high = (block.high[i] >> sub) & 1;
            out[sub * 32 + i] = scale * as_float(((q[i] >> shift) & kLow) | high << 4) - min;
        }
    }
}

// Per half of 128: 64 bytes of low nibbles (groups of 32: low 0, low 1, high 0, high 1) and 32 bytes with two bits a
// group.
void decode(const BlockQ6_K& block, float* out) {
    const float d = to_float(block.d);
    for (std::size_t sub = 0; sub < 16; ++sub) {
        const float scale = d * as_float(block.scales[sub]);
        const std::size_t half = sub / 8;
        const std::size_t group = sub / 2 % 4;
        const std::uint8_t* low = block.low + half * 64 + group % 2 * 32 + sub % 2 * 16;
        const std::uint8_t* high = block.high + half * 32 + sub % 2 * 16;
        const std::size_t low_shift = group / 2 * 4;
        const std::size_t high_shift = group * 2;
        for (std::size_t i = 0; i < 16; ++i) {
            const int q = ((low[i] >> low_shift) & kLow) | ((high[i] >> high_shift) & 3) << 4;
            out[sub * 16 + i] = scale * as_float(q - 32);
        }
    }
}

void decode(const BlockIQ4_XS& block, float* out) {
    const float d = to_float(block.d);
    for (std::size_t sub = 0; sub < 8; ++sub) {
        const int low = (block.scales_low[sub / 2] >> (sub % 2 * 4)) & kLow;
        const int high = (block.scales_high >> (sub * 2)) & 3;
        const float scale = d * as_float((low | high << 4) - 32);
        const std::uint8_t* q = block.q + sub * 16;
        for (std::size_t i = 0; i < 16; ++i) {
            out[sub * 32 + i] = scale * as_float(kIQ4Values[q[i] & kLow]);
            out[sub * 32 + 16 + i] = scale * as_float(kIQ4Values[q[i] >> 4]);
        }
    }
}

// A byte is a fraction in base 3: multiplying by 3^digit (mod 256) brings that digit to the front, times 3 / 256 reads
// it.
void decode_digits(const std::uint8_t* bytes, std::size_t byte_count, std::size_t digits, float d, float* out) {
    std::uint8_t power = 1;
    for (std::size_t digit = 0; digit < digits; ++digit) {
        for (std::size_t i = 0; i < byte_count; ++i) {
            const std::uint8_t shifted = static_cast<std::uint8_t>(bytes[i] * power);
            out[digit * byte_count + i] = d * as_float((shifted * 3 >> 8) - 1);
        }
        power = static_cast<std::uint8_t>(power * 3);
    }
}

void decode(const BlockTQ1_0& block, float* out) {
    const float d = to_float(block.d);
    decode_digits(block.q, 32, 5, d, out);
    decode_digits(block.q + 32, 16, 5, d, out + 160);
    decode_digits(block.high, 4, 4, d, out + 240);
}

void decode(const BlockTQ2_0& block, float* out) {
    const float d = to_float(block.d);
    for (std::size_t group = 0; group < 8; ++group) {
        const std::uint8_t* q = block.q + group / 4 * 32;
        const std::size_t shift = group % 4 * 2;
        for (std::size_t i = 0; i < 32; ++i) out[group * 32 + i] = d * as_float(((q[i] >> shift) & 3) - 1);
    }
}

// Copies each block first: rows need no alignment then.
template <typename Block>
void decode_blocks(const std::byte* row, std::span<float> out, std::size_t block_elements) {
    for (std::size_t at = 0; at < out.size(); at += block_elements, row += sizeof(Block)) {
        Block block;
        std::memcpy(&block, row, sizeof(Block));
        decode(block, out.data() + at);
    }
}

template <typename Element>
void decode_elements(const std::byte* row, std::span<float> out) {
    for (std::size_t i = 0; i < out.size(); ++i) {
        Element element;
        std::memcpy(&element, row + i * sizeof(Element), sizeof(Element));
        out[i] = to_float(element);
    }
}

}  // namespace

void decode_row(DType type, const std::byte* row, std::span<float> out) {
    const std::size_t block_elements = traits(type).block_elements;
    CHECK(out.size() % block_elements == 0);
    if (out.empty()) return;
    switch (type) {
        case DType::F32: std::memcpy(out.data(), row, out.size_bytes()); return;
        case DType::F16: return decode_elements<Half>(row, out);
        case DType::BF16: return decode_elements<BFloat16>(row, out);
        case DType::Q4_0: return decode_blocks<BlockQ4_0>(row, out, block_elements);
        case DType::Q4_1: return decode_blocks<BlockQ4_1>(row, out, block_elements);
        case DType::Q5_0: return decode_blocks<BlockQ5_0>(row, out, block_elements);
        case DType::Q5_1: return decode_blocks<BlockQ5_1>(row, out, block_elements);
        case DType::Q8_0: return decode_blocks<BlockQ8_0>(row, out, block_elements);
        case DType::Q2_K: return decode_blocks<BlockQ2_K>(row, out, block_elements);
        case DType::Q3_K: return decode_blocks<BlockQ3_K>(row, out, block_elements);
        case DType::Q4_K: return decode_blocks<BlockQ4_K>(row, out, block_elements);
        case DType::Q5_K: return decode_blocks<BlockQ5_K>(row, out, block_elements);
        case DType::Q6_K: return decode_blocks<BlockQ6_K>(row, out, block_elements);
        case DType::IQ4_NL: return decode_blocks<BlockIQ4_NL>(row, out, block_elements);
        case DType::IQ4_XS: return decode_blocks<BlockIQ4_XS>(row, out, block_elements);
        case DType::TQ1_0: return decode_blocks<BlockTQ1_0>(row, out, block_elements);
        case DType::TQ2_0: return decode_blocks<BlockTQ2_0>(row, out, block_elements);
        case DType::MXFP4: return decode_blocks<BlockMXFP4>(row, out, block_elements);
    }
    CHECK(false);
}

}  // namespace hearth
