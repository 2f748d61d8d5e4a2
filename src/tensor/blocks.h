// The quantisation blocks as they lie in GGUF files (little endian, packed), and the two activation blocks of our own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/half.h"

namespace hearth {

inline constexpr std::size_t kBlock32 = 32;
inline constexpr std::size_t kBlock256 = 256;

struct BlockQ4_0 {  // w = d * (q - 8); byte i: low nibble = element i, high nibble = element i + 16
    Half d;
    std::uint8_t q[16];
};
struct BlockQ4_1 {  // w = d * q + m
    Half d;
    Half m;
    std::uint8_t q[16];
};
struct BlockQ5_0 {  // w = d * (q - 16); bit i of `high` is the fifth bit of element i
    Half d;
    std::uint8_t high[4];
    std::uint8_t q[16];
};
struct BlockQ5_1 {  // w = d * q + m
    Half d;
    Half m;
    std::uint8_t high[4];
    std::uint8_t q[16];
};
struct BlockQ8_0 {  // w = d * q
    Half d;
    std::int8_t q[32];
};
struct BlockQ2_K {  // w = d * (scale & 15) * q - dmin * (scale >> 4), sub-blocks of 16
    std::uint8_t scales[16];
    std::uint8_t q[64];
    Half d;
    Half dmin;
};
struct BlockQ3_K {  // w = d * (scale - 32) * (q - 4), sub-blocks of 16, third bit of q in `high`
    std::uint8_t high[32];
    std::uint8_t q[64];
    std::uint8_t scales[12];  // sixteen 6-bit scales
    Half d;
};
struct BlockQ4_K {  // w = d * scale * q - dmin * min, sub-blocks of 32
    Half d;
    Half dmin;
    std::uint8_t scales[12];  // eight 6-bit scales and eight 6-bit mins
    std::uint8_t q[128];
};
struct BlockQ5_K {
    Half d;
    Half dmin;
    std::uint8_t scales[12];
    std::uint8_t high[32];
    std::uint8_t q[128];
};
struct BlockQ6_K {  // w = d * scale * (q - 32), sub-blocks of 16
    std::uint8_t low[128];
    std::uint8_t high[64];
    std::int8_t scales[16];
    Half d;
};
struct BlockIQ4_NL {  // w = d * table[q]
    Half d;
    std::uint8_t q[16];
};
struct BlockIQ4_XS {  // w = d * (scale - 32) * table[q], sub-blocks of 32
    Half d;
    std::uint16_t scales_high;
    std::uint8_t scales_low[4];
    std::uint8_t q[128];
};
struct BlockTQ1_0 {  // ternary, five elements a byte in base 3 (fixed point), then four a byte
    std::uint8_t q[48];
    std::uint8_t high[4];
    Half d;
};
struct BlockTQ2_0 {  // ternary, two bits an element
    std::uint8_t q[64];
    Half d;
};
struct BlockMXFP4 {  // E2M1 elements with one E8M0 exponent per 32
    std::uint8_t exponent;
    std::uint8_t q[16];
};

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockQ2_K) == 84);
static_assert(sizeof(BlockQ3_K) == 110 && sizeof(BlockQ4_K) == 144 && sizeof(BlockQ5_K) == 176);
static_assert(sizeof(BlockQ6_K) == 210 && sizeof(BlockIQ4_NL) == 18 && sizeof(BlockIQ4_XS) == 136);
static_assert(sizeof(BlockTQ1_0) == 54 && sizeof(BlockTQ2_0) == 66 && sizeof(BlockMXFP4) == 17);

// The sixteen values of IQ4_NL and IQ4_XS.
inline constexpr std::int8_t kIQ4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};
// E2M1 times two, so that they are integers; the block scale is halved to match.
inline constexpr std::int8_t kMXFP4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Activations for the 32-element weight types.
//   scale = round11(max|x| / 127)  (11 significant bits: its product with an f16 weight scale is exact in f32)
//   q     = clamp(rint(x / scale)), in [-127, 127]
struct ActivationBlock32 {
    float scale;
    std::int32_t sum;  // of q
    std::int8_t q[kBlock32];
};
// Activations for the 256-element weight types.
struct ActivationBlock256 {
    float scale;
    std::int16_t sums[16];  // of q, per 16 elements
    std::int8_t q[kBlock256];
};
static_assert(sizeof(ActivationBlock32) == 40 && sizeof(ActivationBlock256) == 292);

}  // namespace hearth
