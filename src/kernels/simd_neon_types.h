// How NEON unpacks each weight type to signed int8. SDOT and SMULL are signed, so offsets are taken off the weights
// here.
#pragma once

#include "kernels/simd_neon.h"

namespace hearth {

namespace {

[[gnu::always_inline]] inline Bytes32 nibbles32(const std::uint8_t* q) {
    const uint8x16_t bytes = vld1q_u8(q);
    return {vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15))), vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4))};
}

[[gnu::always_inline]] inline Bytes32 minus(Bytes32 w, std::int8_t offset) {
    return {vsubq_s8(w.low, vdupq_n_s8(offset)), vsubq_s8(w.high, vdupq_n_s8(offset))};
}

[[gnu::always_inline]] inline Bytes32 bitwise_or(Bytes32 a, Bytes32 b) {
    return {vorrq_s8(a.low, b.low), vorrq_s8(a.high, b.high)};
}

[[gnu::always_inline]] inline Bytes32 look_up(const std::int8_t* table, Bytes32 index) {
    const int8x16_t values = vld1q_s8(table);
    return {vqtbl1q_s8(values, vreinterpretq_u8_s8(index.low)), vqtbl1q_s8(values, vreinterpretq_u8_s8(index.high))};
}

// Bit i of four bytes to 16 in byte i.
[[gnu::always_inline]] inline Bytes32 fifth_bits(const std::uint8_t* high) {
    alignas(16) static constexpr std::uint8_t kBits[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    alignas(16) static constexpr std::uint8_t kFirst[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    alignas(16) static constexpr std::uint8_t kSecond[16] = {2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3};
    std::uint32_t packed;
    __builtin_memcpy(&packed, high, 4);
    const uint8x16_t all = vreinterpretq_u8_u32(vdupq_n_u32(packed));
    const uint8x16_t bits = vld1q_u8(kBits);
    const uint8x16_t sixteen = vdupq_n_u8(16);
    return {vreinterpretq_s8_u8(vandq_u8(vtstq_u8(vqtbl1q_u8(all, vld1q_u8(kFirst)), bits), sixteen)),
            vreinterpretq_s8_u8(vandq_u8(vtstq_u8(vqtbl1q_u8(all, vld1q_u8(kSecond)), bits), sixteen))};
}

// Thirty-two bytes shifted right, masked.
template <std::size_t kShift, std::uint8_t kMask>
[[gnu::always_inline]] inline Bytes32 plane32(const std::uint8_t* q) {
    const auto field = [](uint8x16_t bytes) {
        if constexpr (kShift > 0) bytes = vshrq_n_u8(bytes, kShift);
        if constexpr ((255u >> kShift) > kMask) bytes = vandq_u8(bytes, vdupq_n_u8(kMask));
        return vreinterpretq_s8_u8(bytes);
    };
    return {field(vld1q_u8(q)), field(vld1q_u8(q + 16))};
}

template <int kBits>
[[gnu::always_inline]] inline Bytes32 shift_left(Bytes32 w) {
    return {vshlq_n_s8(w.low, kBits), vshlq_n_s8(w.high, kBits)};
}

alignas(16) constexpr std::int8_t kIQ4Table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                   1,    13,   25,  38,  53,  69,  89,  113};
alignas(16) constexpr std::int8_t kMXFP4Table[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Blocks of 32.

struct TypeQ4_0 {
    using Block = BlockQ4_0;
    static constexpr bool kMinimum = false;
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) { return minus(nibbles32(b.q), 8); }
};
struct TypeQ4_1 {
    using Block = BlockQ4_1;
    static constexpr bool kMinimum = true;
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) { return nibbles32(b.q); }
};
struct TypeQ5_0 {
    using Block = BlockQ5_0;
    static constexpr bool kMinimum = false;
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) {
        return minus(bitwise_or(nibbles32(b.q), fifth_bits(b.high)), 16);
    }
};
struct TypeQ5_1 {
    using Block = BlockQ5_1;
    static constexpr bool kMinimum = true;
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) {
        return bitwise_or(nibbles32(b.q), fifth_bits(b.high));
    }
};
struct TypeQ8_0 {
    using Block = BlockQ8_0;
    static constexpr bool kMinimum = false;
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) { return load_bytes32(b.q); }
};
struct TypeIQ4_NL {
    using Block = BlockIQ4_NL;
    static constexpr bool kMinimum = false;
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) { return look_up(kIQ4Table, nibbles32(b.q)); }
};
struct TypeMXFP4 {
    using Block = BlockMXFP4;
    static constexpr bool kMinimum = false;
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) { return look_up(kMXFP4Table, nibbles32(b.q)); }
};

// Blocks of 256, 32 elements at a time.

// Sixteen bytes to the 32-bit and 16-bit forms the dot products want.
[[gnu::always_inline]] inline void widen_scales(int8x16_t bytes, std::int32_t* out) {
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes));
    const int16x8_t high = vmovl_s8(vget_high_s8(bytes));
    vst1q_s32(out, vmovl_s16(vget_low_s16(low)));
    vst1q_s32(out + 4, vmovl_s16(vget_high_s16(low)));
    vst1q_s32(out + 8, vmovl_s16(vget_low_s16(high)));
    vst1q_s32(out + 12, vmovl_s16(vget_high_s16(high)));
}
[[gnu::always_inline]] inline void widen_minimums(uint8x16_t bytes, std::int16_t* out) {
    vst1q_s16(out, vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes))));
    vst1q_s16(out + 8, vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(bytes))));
}

// Twelve bytes of 6-bit scales and minimums (Q4_K, Q5_K), each for 32 elements: doubled, to stand for 16.
[[gnu::always_inline]] inline void unpack_scales_k(const std::uint8_t* packed, Scales256& out) {
    std::uint32_t a;
    std::uint32_t b;
    std::uint32_t c;
    __builtin_memcpy(&a, packed, 4);
    __builtin_memcpy(&b, packed + 4, 4);
    __builtin_memcpy(&c, packed + 8, 4);
    const std::uint32_t scales_high = (c & 0x0f0f0f0fu) | ((a >> 2) & 0x30303030u);
    const std::uint32_t minimums_high = ((c >> 4) & 0x0f0f0f0fu) | ((b >> 2) & 0x30303030u);
    const uint8x8_t scales = vcreate_u8((a & 0x3f3f3f3fu) | (static_cast<std::uint64_t>(scales_high) << 32));
    const uint8x8_t minimums = vcreate_u8((b & 0x3f3f3f3fu) | (static_cast<std::uint64_t>(minimums_high) << 32));
    widen_scales(vreinterpretq_s8_u8(vcombine_u8(vzip1_u8(scales, scales), vzip2_u8(scales, scales))), out.scales);
    widen_minimums(vcombine_u8(vzip1_u8(minimums, minimums), vzip2_u8(minimums, minimums)), out.minimums);
}

struct TypeQ4_K {
    using Block = BlockQ4_K;
    static constexpr bool kMinimum = true;
    static constexpr bool kSub16 = false;
    [[gnu::always_inline]] static void scales(const Block& b, Scales256& out) { unpack_scales_k(b.scales, out); }
    template <std::size_t kJ>
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) {
        return plane32<kJ % 2 * 4, 15>(b.q + kJ / 2 * 32);
    }
};
struct TypeQ5_K {
    using Block = BlockQ5_K;
    static constexpr bool kMinimum = true;
    static constexpr bool kSub16 = false;
    [[gnu::always_inline]] static void scales(const Block& b, Scales256& out) { unpack_scales_k(b.scales, out); }
    template <std::size_t kJ>
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) {
        return bitwise_or(plane32<kJ % 2 * 4, 15>(b.q + kJ / 2 * 32), shift_left<4>(plane32<kJ, 1>(b.high)));
    }
};
struct TypeQ6_K {
    using Block = BlockQ6_K;
    static constexpr bool kMinimum = false;
    static constexpr bool kSub16 = true;
    [[gnu::always_inline]] static void scales(const Block& b, Scales256& out) {
        widen_scales(vld1q_s8(b.scales), out.scales);
    }
    template <std::size_t kJ>
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) {
        constexpr std::size_t kHalf = kJ / 4;
        const Bytes32 low = plane32<kJ % 4 / 2 * 4, 15>(b.low + kHalf * 64 + kJ % 2 * 32);
        return minus(bitwise_or(low, shift_left<4>(plane32<kJ % 4 * 2, 3>(b.high + kHalf * 32))), 32);
    }
};
struct TypeQ2_K {
    using Block = BlockQ2_K;
    static constexpr bool kMinimum = true;
    static constexpr bool kSub16 = true;
    [[gnu::always_inline]] static void scales(const Block& b, Scales256& out) {
        const uint8x16_t bytes = vld1q_u8(b.scales);
        widen_scales(vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15))), out.scales);
        widen_minimums(vshrq_n_u8(bytes, 4), out.minimums);
    }
    template <std::size_t kJ>
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) {
        return plane32<kJ % 4 * 2, 3>(b.q + kJ / 4 * 32);
    }
};
struct TypeQ3_K {
    using Block = BlockQ3_K;
    static constexpr bool kMinimum = false;
    static constexpr bool kSub16 = true;
    [[gnu::always_inline]] static void scales(const Block& b, Scales256& out) {
        for (std::size_t j = 0; j < 16; ++j) {
            const int low = j < 8 ? b.scales[j] & 15 : b.scales[j - 8] >> 4;
            out.scales[j] = (low | (((b.scales[8 + j % 4] >> (j / 4 * 2)) & 3) << 4)) - 32;
        }
    }
    template <std::size_t kJ>
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) {
        const Bytes32 low = plane32<kJ % 4 * 2, 3>(b.q + kJ / 4 * 32);
        return minus(bitwise_or(low, shift_left<2>(plane32<kJ, 1>(b.high))), 4);
    }
};
struct TypeIQ4_XS {
    using Block = BlockIQ4_XS;
    static constexpr bool kMinimum = false;
    static constexpr bool kSub16 = false;
    [[gnu::always_inline]] static void scales(const Block& b, Scales256& out) {
        for (std::size_t k = 0; k < 8; ++k) {
            const int low = (b.scales_low[k / 2] >> (k % 2 * 4)) & 15;
            out.scales[2 * k] = out.scales[2 * k + 1] = (low | (((b.scales_high >> (k * 2)) & 3) << 4)) - 32;
        }
    }
    template <std::size_t kJ>
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) {
        return look_up(kIQ4Table, nibbles32(b.q + kJ * 16));
    }
};
struct TypeTQ2_0 {
    using Block = BlockTQ2_0;
    static constexpr bool kMinimum = false;
    static constexpr bool kSub16 = false;
    [[gnu::always_inline]] static void scales(const Block&, Scales256& out) {
        for (std::int32_t& scale : out.scales) scale = 1;
    }
    template <std::size_t kJ>
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) {
        return minus(plane32<kJ % 4 * 2, 3>(b.q + kJ / 4 * 32), 1);
    }
};

}  // namespace

}  // namespace hearth
