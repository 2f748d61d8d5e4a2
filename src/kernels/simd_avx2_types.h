// How AVX2 unpacks each weight type. PMADDUBSW and VPDPBUSD want one operand unsigned: types with an offset keep it in
// the weights (kOffset, taken back from the sum), and tables and Q8_0 are signed by PSIGNB, or with VNNI shifted by
// 128.
#pragma once

#include "kernels/simd_avx2.h"

namespace hearth {

namespace {

#if defined(__AVX512VNNI__)
inline constexpr bool kPlainSigned = false;
inline constexpr std::int32_t kPlainOffset = 128;
#else
inline constexpr bool kPlainSigned = true;
inline constexpr std::int32_t kPlainOffset = 0;
#endif

// Signed bytes in the form of kPlainSigned and kPlainOffset.
[[gnu::always_inline]] inline Bytes32 plain(__m256i bytes) {
#if defined(__AVX512VNNI__)
    return {_mm256_xor_si256(bytes, _mm256_set1_epi8(-128))};
#else
    return {bytes};
#endif
}

[[gnu::always_inline]] inline __m256i nibbles32(const std::uint8_t* q) {
    const __m128i bytes = load128(q);
    const __m256i both = _mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

[[gnu::always_inline]] inline __m256i look_up(const std::int8_t* table, __m256i index) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load128(table)), index);
}

// Bit i of four bytes to 16 in byte i.
[[gnu::always_inline]] inline __m256i fifth_bits(const std::uint8_t* high) {
    std::int32_t packed;
    __builtin_memcpy(&packed, high, 4);
    const __m256i order =
        _mm256_set_epi8(3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m256i bits = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
    const __m256i spread = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(packed), order), bits);
    return _mm256_and_si256(_mm256_cmpeq_epi8(spread, bits), _mm256_set1_epi8(16));
}

// Thirty-two bytes shifted right, masked.
template <int kShift, char kMask>
[[gnu::always_inline]] inline __m256i plane32(const std::uint8_t* q) {
    return _mm256_and_si256(_mm256_srli_epi16(load256(q), kShift), _mm256_set1_epi8(kMask));
}

alignas(16) constexpr std::int8_t kIQ4Table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                   1,    13,   25,  38,  53,  69,  89,  113};
alignas(16) constexpr std::int8_t kMXFP4Table[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Blocks of 32.

struct TypeQ4_0 {
    using Block = BlockQ4_0;
    static constexpr bool kMinimum = false;
    static constexpr bool kSigned = false;
    static constexpr std::int32_t kOffset = 8;
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) { return {nibbles32(b.q)}; }
};
struct TypeQ4_1 {
    using Block = BlockQ4_1;
    static constexpr bool kMinimum = true;
    static constexpr bool kSigned = false;
    static constexpr std::int32_t kOffset = 0;
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) { return {nibbles32(b.q)}; }
};
struct TypeQ5_0 {
    using Block = BlockQ5_0;
    static constexpr bool kMinimum = false;
    static constexpr bool kSigned = false;
    static constexpr std::int32_t kOffset = 16;
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) {
        return {_mm256_or_si256(nibbles32(b.q), fifth_bits(b.high))};
    }
};
struct TypeQ5_1 {
    using Block = BlockQ5_1;
    static constexpr bool kMinimum = true;
    static constexpr bool kSigned = false;
    static constexpr std::int32_t kOffset = 0;
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) {
        return {_mm256_or_si256(nibbles32(b.q), fifth_bits(b.high))};
    }
};
struct TypeQ8_0 {
    using Block = BlockQ8_0;
    static constexpr bool kMinimum = false;
    static constexpr bool kSigned = kPlainSigned;
    static constexpr std::int32_t kOffset = kPlainOffset;
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) { return plain(load256(b.q)); }
};
struct TypeIQ4_NL {
    using Block = BlockIQ4_NL;
    static constexpr bool kMinimum = false;
    static constexpr bool kSigned = kPlainSigned;
    static constexpr std::int32_t kOffset = kPlainOffset;
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) { return plain(look_up(kIQ4Table, nibbles32(b.q))); }
};
struct TypeMXFP4 {
    using Block = BlockMXFP4;
    static constexpr bool kMinimum = false;
    static constexpr bool kSigned = kPlainSigned;
    static constexpr std::int32_t kOffset = kPlainOffset;
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) { return plain(look_up(kMXFP4Table, nibbles32(b.q))); }
};

// Blocks of 256, 32 elements at a time.

[[gnu::always_inline]] inline void store_scales(__m128i bytes, std::int16_t* out) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_cvtepi8_epi16(bytes));
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
    const __m128i scales = _mm_set_epi32(0, 0, static_cast<int>(scales_high), static_cast<int>(a & 0x3f3f3f3fu));
    const __m128i minimums = _mm_set_epi32(0, 0, static_cast<int>(minimums_high), static_cast<int>(b & 0x3f3f3f3fu));
    store_scales(_mm_unpacklo_epi8(scales, scales), out.scales);
    store_scales(_mm_unpacklo_epi8(minimums, minimums), out.minimums);
}

struct TypeQ4_K {
    using Block = BlockQ4_K;
    static constexpr bool kMinimum = true;
    static constexpr bool kSigned = false;
    static constexpr std::int32_t kOffset = 0;
    [[gnu::always_inline]] static void scales(const Block& b, Scales256& out) { unpack_scales_k(b.scales, out); }
    template <std::size_t kJ>
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) {
        return {plane32<kJ % 2 * 4, 15>(b.q + kJ / 2 * 32)};
    }
};
struct TypeQ5_K {
    using Block = BlockQ5_K;
    static constexpr bool kMinimum = true;
    static constexpr bool kSigned = false;
    static constexpr std::int32_t kOffset = 0;
    [[gnu::always_inline]] static void scales(const Block& b, Scales256& out) { unpack_scales_k(b.scales, out); }
    template <std::size_t kJ>
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) {
        const __m256i high = _mm256_slli_epi16(plane32<kJ, 1>(b.high), 4);
        return {_mm256_or_si256(plane32<kJ % 2 * 4, 15>(b.q + kJ / 2 * 32), high)};
    }
};
struct TypeQ6_K {
    using Block = BlockQ6_K;
    static constexpr bool kMinimum = false;
    static constexpr bool kSigned = false;
    static constexpr std::int32_t kOffset = 32;
    [[gnu::always_inline]] static void scales(const Block& b, Scales256& out) {
        store_scales(load128(b.scales), out.scales);
    }
    template <std::size_t kJ>
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) {
        constexpr std::size_t kHalf = kJ / 4;
        const __m256i low = plane32<kJ % 4 / 2 * 4, 15>(b.low + kHalf * 64 + kJ % 2 * 32);
        return {_mm256_or_si256(low, _mm256_slli_epi16(plane32<kJ % 4 * 2, 3>(b.high + kHalf * 32), 4))};
    }
};
struct TypeQ2_K {
    using Block = BlockQ2_K;
    static constexpr bool kMinimum = true;
    static constexpr bool kSigned = false;
    static constexpr std::int32_t kOffset = 0;
    [[gnu::always_inline]] static void scales(const Block& b, Scales256& out) {
        const __m128i bytes = load128(b.scales);
        const __m128i mask = _mm_set1_epi8(15);
        store_scales(_mm_and_si128(bytes, mask), out.scales);
        store_scales(_mm_and_si128(_mm_srli_epi16(bytes, 4), mask), out.minimums);
    }
    template <std::size_t kJ>
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) {
        return {plane32<kJ % 4 * 2, 3>(b.q + kJ / 4 * 32)};
    }
};
struct TypeQ3_K {
    using Block = BlockQ3_K;
    static constexpr bool kMinimum = false;
    static constexpr bool kSigned = false;
    static constexpr std::int32_t kOffset = 4;
    [[gnu::always_inline]] static void scales(const Block& b, Scales256& out) {
        for (std::size_t j = 0; j < 16; ++j) {
            const int low = j < 8 ? b.scales[j] & 15 : b.scales[j - 8] >> 4;
            out.scales[j] = static_cast<std::int16_t>((low | (((b.scales[8 + j % 4] >> (j / 4 * 2)) & 3) << 4)) - 32);
        }
    }
    template <std::size_t kJ>
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) {
        const __m256i low = plane32<kJ % 4 * 2, 3>(b.q + kJ / 4 * 32);
        return {_mm256_or_si256(low, _mm256_slli_epi16(plane32<kJ, 1>(b.high), 2))};
    }
};
struct TypeIQ4_XS {
    using Block = BlockIQ4_XS;
    static constexpr bool kMinimum = false;
    static constexpr bool kSigned = true;
    static constexpr std::int32_t kOffset = 0;
    [[gnu::always_inline]] static void scales(const Block& b, Scales256& out) {
        for (std::size_t k = 0; k < 8; ++k) {
            const int low = (b.scales_low[k / 2] >> (k % 2 * 4)) & 15;
            const int scale = (low | (((b.scales_high >> (k * 2)) & 3) << 4)) - 32;
            out.scales[2 * k] = out.scales[2 * k + 1] = static_cast<std::int16_t>(scale);
        }
    }
    template <std::size_t kJ>
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) {
        return {look_up(kIQ4Table, nibbles32(b.q + kJ * 16))};
    }
};
struct TypeTQ2_0 {
    using Block = BlockTQ2_0;
    static constexpr bool kMinimum = false;
    static constexpr bool kSigned = false;
    static constexpr std::int32_t kOffset = 1;
    [[gnu::always_inline]] static void scales(const Block&, Scales256& out) {
        for (std::int16_t& scale : out.scales) scale = 1;
    }
    template <std::size_t kJ>
    [[gnu::always_inline]] static Bytes32 unpack(const Block& b) {
        return {plane32<kJ % 4 * 2, 3>(b.q + kJ / 4 * 32)};
    }
};

}  // namespace

}  // namespace hearth
