// The AVX2 vocabulary of the shared drivers (simd_matmul.h, simd_float.h, simd_attention.h); with AVX-512 VNNI flags
// the dot products use it. Everything here is in an anonymous namespace: each ISA file gets its own copy, built with
// its own flags, and shares no symbol with the program.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace hearth {

namespace {

// Integers. Thirty-two weights or activations of one row, and the partial sums of their products.

inline constexpr std::size_t kTileTokens32 = 4;   // tokens that share unpacked weights: blocks of 32
inline constexpr std::size_t kTileTokens256 = 2;  // and blocks of 256, whose eight sums fill half the registers

struct Bytes32 {
    __m256i bytes;
};
using Partial = __m256i;
using Ints4 = __m128i;   // one integer for each of four rows
using Floats4 = __m128;  // one float for each of four rows

[[gnu::always_inline]] inline __m256i load256(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
[[gnu::always_inline]] inline __m128i load128(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

[[gnu::always_inline]] inline Bytes32 load_bytes32(const std::int8_t* q) {
    return {load256(q)};
}
[[gnu::always_inline]] inline Partial zero_partial() {
    return _mm256_setzero_si256();
}

// Sums of two neighbouring products in int16. Exact: |w| <= 128 when signed and <= 63 when not, |x| <= 127.
template <typename Type>
[[gnu::always_inline]] inline __m256i pair_products(Bytes32 w, Bytes32 x) {
    if constexpr (Type::kSigned) {
        return _mm256_maddubs_epi16(_mm256_abs_epi8(w.bytes), _mm256_sign_epi8(x.bytes, w.bytes));
    } else {
        return _mm256_maddubs_epi16(w.bytes, x.bytes);
    }
}

template <typename Type>
[[gnu::always_inline]] inline Partial dot32_of(Bytes32 w, Bytes32 x) {
#if defined(__AVX512VNNI__)
    static_assert(!Type::kSigned, "with VNNI an offset makes every weight unsigned");
    return _mm256_dpbusd_epi32(_mm256_setzero_si256(), w.bytes, x.bytes);
#else
    return _mm256_madd_epi16(pair_products<Type>(w, x), _mm256_set1_epi16(1));
#endif
}

// The partial sums of four rows to one integer a row.
[[gnu::always_inline]] inline Ints4 reduce4(Partial a, Partial b, Partial c, Partial d) {
    const __m256i sums = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    return _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
}

// The scales and minimums of one block of 256, per 16 elements.
struct Scales256 {
    std::int16_t scales[16];
    std::int16_t minimums[16];
};

// acc + sum over the 32 elements of sub-block j of scale * w * x, still spread over the lanes.
template <typename Type>
[[gnu::always_inline]] inline Partial add_scaled_dot_of(Partial acc, Bytes32 w, Bytes32 x, const Scales256& s,
                                                        std::size_t j) {
    std::int32_t pair;
    __builtin_memcpy(&pair, s.scales + 2 * j, 4);
    // The first scale over the first sixteen elements, the second over the others.
    const __m256i spread =
        _mm256_set_epi8(3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0);
    const __m256i scales = _mm256_shuffle_epi8(_mm256_set1_epi32(pair), spread);
#if defined(__AVX512VNNI__)
    return _mm256_dpwssd_epi32(acc, pair_products<Type>(w, x), scales);
#else
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pair_products<Type>(w, x), scales));
#endif
}

// Sum of sixteen products of int16, spread over the lanes.
[[gnu::always_inline]] inline Partial dot_int16(const std::int16_t* a, const std::int16_t* b) {
    return _mm256_madd_epi16(load256(a), load256(b));
}

// For each of four rows the sum of minimum times activation sum.
[[gnu::always_inline]] inline Ints4 minimum_sums(const Scales256 (&s)[4], const std::int16_t* sums) {
    return reduce4(dot_int16(s[0].minimums, sums), dot_int16(s[1].minimums, sums), dot_int16(s[2].minimums, sums),
                   dot_int16(s[3].minimums, sums));
}

// Takes back the offset left in unsigned weights: w * x = (w + offset) * x - offset * x.
template <typename Type>
[[gnu::always_inline]] inline Ints4 without_offset(Ints4 isum, std::int32_t sum) {
    if constexpr (Type::kOffset == 0) return isum;
    return _mm_sub_epi32(isum, _mm_set1_epi32(Type::kOffset * sum));
}
template <typename Type>
[[gnu::always_inline]] inline Ints4 without_offset(Ints4 isum, const Scales256 (&s)[4], const std::int16_t* sums) {
    if constexpr (Type::kOffset == 0) return isum;
    const Ints4 scaled = reduce4(dot_int16(s[0].scales, sums), dot_int16(s[1].scales, sums),
                                 dot_int16(s[2].scales, sums), dot_int16(s[3].scales, sums));
    return _mm_sub_epi32(isum, _mm_mullo_epi32(scaled, _mm_set1_epi32(Type::kOffset)));
}

// Floats, four rows.

[[gnu::always_inline]] inline Floats4 zero4() {
    return _mm_setzero_ps();
}
[[gnu::always_inline]] inline Floats4 set4(float x) {
    return _mm_set1_ps(x);
}
[[gnu::always_inline]] inline Floats4 load4(const float* x) {
    return _mm_loadu_ps(x);
}
[[gnu::always_inline]] inline void store4(float* out, Floats4 x) {
    _mm_storeu_ps(out, x);
}
[[gnu::always_inline]] inline Floats4 to_float4(Ints4 x) {
    return _mm_cvtepi32_ps(x);
}
[[gnu::always_inline]] inline Floats4 mul4(Floats4 a, float b) {
    return _mm_mul_ps(a, _mm_set1_ps(b));
}
[[gnu::always_inline]] inline Floats4 neg4(Floats4 a) {
    return _mm_xor_ps(a, _mm_set1_ps(-0.0f));
}
[[gnu::always_inline]] inline Floats4 fma4(Floats4 a, Floats4 b, Floats4 c) {
    return _mm_fmadd_ps(a, b, c);
}
// Four halves, packed low to high.
[[gnu::always_inline]] inline Floats4 halves4(std::uint64_t bits) {
    return _mm_cvtph_ps(_mm_cvtsi64_si128(static_cast<long long>(bits)));
}

// Floats, the native vector; sixteen virtual lanes are 16 / kWidth of them.

using Vec = __m256;
inline constexpr std::size_t kWidth = 8;

[[gnu::always_inline]] inline Vec v_set(float x) {
    return _mm256_set1_ps(x);
}
[[gnu::always_inline]] inline Vec v_load(const float* x) {
    return _mm256_loadu_ps(x);
}
[[gnu::always_inline]] inline void v_store(float* out, Vec x) {
    _mm256_storeu_ps(out, x);
}
[[gnu::always_inline]] inline Vec v_load_f16(const std::uint16_t* x) {
    return _mm256_cvtph_ps(load128(x));
}
[[gnu::always_inline]] inline Vec v_load_bf16(const std::uint16_t* x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load128(x)), 16));
}
[[gnu::always_inline]] inline void v_store_f16(std::uint16_t* out, Vec x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out),
                     _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
[[gnu::always_inline]] inline Vec v_add(Vec a, Vec b) {
    return _mm256_add_ps(a, b);
}
[[gnu::always_inline]] inline Vec v_sub(Vec a, Vec b) {
    return _mm256_sub_ps(a, b);
}
[[gnu::always_inline]] inline Vec v_mul(Vec a, Vec b) {
    return _mm256_mul_ps(a, b);
}
[[gnu::always_inline]] inline Vec v_div(Vec a, Vec b) {
    return _mm256_div_ps(a, b);
}
[[gnu::always_inline]] inline Vec v_neg(Vec a) {
    return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f));
}
[[gnu::always_inline]] inline Vec v_fma(Vec a, Vec b, Vec c) {
    return _mm256_fmadd_ps(a, b, c);
}
// MAXPS and MINPS return their second operand when one is NaN: x has to be that one.
[[gnu::always_inline]] inline Vec v_clamp(Vec x, Vec low, Vec high) {
    return _mm256_min_ps(high, _mm256_max_ps(low, x));
}
// a < b ? yes : no
[[gnu::always_inline]] inline Vec v_select_less(Vec a, Vec b, Vec yes, Vec no) {
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
// NaN when either is (MAXPS alone returns b then); which zero comes out is the machine's choice.
[[gnu::always_inline]] inline Vec v_max(Vec a, Vec b) {
    return _mm256_blendv_ps(_mm256_max_ps(a, b), a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}
// The same over the elements of one vector.
[[gnu::always_inline]] inline float v_largest(Vec a) {
    if (_mm256_movemask_ps(_mm256_cmp_ps(a, a, _CMP_UNORD_Q)) != 0) return __builtin_nanf("");
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
}
// The low bits of n, in two's complement, to the exponent of p.
[[gnu::always_inline]] inline Vec v_add_to_exponent(Vec p, Vec n) {
    const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
}

// The tree over sixteen lanes held in two vectors: l + (l + 8), + 4, + 2, + 1.
[[gnu::always_inline]] inline __m128 v_fold(const Vec (&lanes)[2]) {
    const Vec eight = _mm256_add_ps(lanes[0], lanes[1]);
    return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
}
[[gnu::always_inline]] inline float v_sum_tree(const Vec (&lanes)[2]) {
    const __m128 four = v_fold(lanes);
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
// Four trees at once.
[[gnu::always_inline]] inline Floats4 v_sum_trees(const Vec (&a)[2], const Vec (&b)[2], const Vec (&c)[2],
                                                  const Vec (&d)[2]) {
    const __m128 fa = v_fold(a);
    const __m128 fb = v_fold(b);
    const __m128 fc = v_fold(c);
    const __m128 fd = v_fold(d);
    const __m128 ab = _mm_add_ps(_mm_movelh_ps(fa, fb), _mm_movehl_ps(fb, fa));
    const __m128 cd = _mm_add_ps(_mm_movelh_ps(fc, fd), _mm_movehl_ps(fd, fc));
    return _mm_hadd_ps(ab, cd);
}

// Sixteen signed bytes times a scale, as halves.
[[gnu::always_inline]] inline void widen_bytes16(__m128i q, Vec scale, std::uint16_t* out) {
    v_store_f16(out, v_mul(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)), scale));
    v_store_f16(out + 8, v_mul(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(q, 8))), scale));
}

// Attention. Registers are 16 and an FMA takes four cycles of two pipes: eight sums and more keep them busy.

inline constexpr std::size_t kAttentionRows = 3;  // rows of the largest tile
template <std::size_t kRows>
inline constexpr std::size_t kScoreKeys = 2;  // keys scored together
template <std::size_t kRows>
inline constexpr std::size_t kValueParts = 4;  // vectors of values summed together

// A constant to which a product is added.
[[gnu::always_inline]] inline Vec v_addend(const float (&x)[4]) {
    return _mm256_set1_ps(x[0]);
}
// The bits of each lane, 23 places up: where a float keeps its exponent.
[[gnu::always_inline]] inline Vec v_low_bits_to_exponent(Vec a) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 23));
}
// The rest of the tree for four sums whose lanes l and l + 8 are already added.
[[gnu::always_inline]] inline Floats4 v_sum_folded(const Vec* sums) {
    // The 128-bit halves of two sums at once: l and l + 4.
    const Vec ac =
        _mm256_add_ps(_mm256_permute2f128_ps(sums[0], sums[2], 0x20), _mm256_permute2f128_ps(sums[0], sums[2], 0x31));
    const Vec bd =
        _mm256_add_ps(_mm256_permute2f128_ps(sums[1], sums[3], 0x20), _mm256_permute2f128_ps(sums[1], sums[3], 0x31));
    const Vec two = _mm256_add_ps(_mm256_shuffle_ps(ac, bd, 0x44), _mm256_shuffle_ps(ac, bd, 0xee));
    const Vec one = _mm256_hadd_ps(two, two);  // a b a b, c d c d
    return _mm_movelh_ps(_mm256_castps256_ps128(one), _mm256_extractf128_ps(one, 1));
}

// Pairs (0, 1), (2, 3), ... of two vectors to their first and second members, and back.
struct VecPair {
    Vec first;
    Vec second;
};
[[gnu::always_inline]] inline Vec middle_swapped(Vec x) {
    return _mm256_castsi256_ps(_mm256_permute4x64_epi64(_mm256_castps_si256(x), 0xd8));
}
[[gnu::always_inline]] inline VecPair v_load_pairs(const float* x) {
    const Vec a = _mm256_loadu_ps(x);
    const Vec b = _mm256_loadu_ps(x + 8);
    return {middle_swapped(_mm256_shuffle_ps(a, b, 0x88)), middle_swapped(_mm256_shuffle_ps(a, b, 0xdd))};
}
[[gnu::always_inline]] inline void v_store_pairs(float* out, VecPair pair) {
    const Vec low = _mm256_unpacklo_ps(pair.first, pair.second);
    const Vec high = _mm256_unpackhi_ps(pair.first, pair.second);
    _mm256_storeu_ps(out, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(out + 8, _mm256_permute2f128_ps(low, high, 0x31));
}

// Quantiser.

// The largest |x| as an integer over n floats, a multiple of 32.
inline std::uint32_t largest_magnitude(const float* x, std::size_t n) {
    __m256i largest[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                          _mm256_setzero_si256()};
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    for (std::size_t i = 0; i < n; i += 32) {
        for (std::size_t j = 0; j < 4; ++j) {
            largest[j] = _mm256_max_epu32(largest[j], _mm256_and_si256(load256(x + i + 8 * j), mask));
        }
    }
    const __m256i eight =
        _mm256_max_epu32(_mm256_max_epu32(largest[0], largest[1]), _mm256_max_epu32(largest[2], largest[3]));
    __m128i four = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0xb1));
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(four));
}

// Sixteen floats to int8; returns the sum of these. Nothing needs clamping: |x * inverse| < 127.5.
[[gnu::always_inline]] inline std::int32_t quantize16(const float* x, float inverse, std::int8_t* q) {
    const Vec factor = _mm256_set1_ps(inverse);
    const __m256i low = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), factor));
    const __m256i high = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8), factor));
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q), bytes);
    // PSADBW sums unsigned bytes: shift them up by 128 and take sixteen times that back.
    const __m128i sums = _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8(-128)), _mm_setzero_si128());
    return _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 16 * 128;
}

}  // namespace

}  // namespace hearth

#include "kernels/simd_x86.h"
