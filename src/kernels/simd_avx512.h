// The AVX-512 vocabulary of simd_float.h and the attention: the sixteen virtual lanes are one register.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace hearth {

namespace {

using Vec = __m512;
using Floats4 = __m128;
inline constexpr std::size_t kWidth = 16;

[[gnu::always_inline]] inline void store4(float* out, Floats4 x) {
    _mm_storeu_ps(out, x);
}
[[gnu::always_inline]] inline Floats4 mul4(Floats4 a, float b) {
    return _mm_mul_ps(a, _mm_set1_ps(b));
}

[[gnu::always_inline]] inline Vec v_set(float x) {
    return _mm512_set1_ps(x);
}
[[gnu::always_inline]] inline Vec v_load(const float* x) {
    return _mm512_loadu_ps(x);
}
[[gnu::always_inline]] inline void v_store(float* out, Vec x) {
    _mm512_storeu_ps(out, x);
}
[[gnu::always_inline]] inline __m256i load_halves(const std::uint16_t* x) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
}
[[gnu::always_inline]] inline Vec v_load_f16(const std::uint16_t* x) {
    return _mm512_cvtph_ps(load_halves(x));
}
[[gnu::always_inline]] inline Vec v_load_bf16(const std::uint16_t* x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_halves(x)), 16));
}
[[gnu::always_inline]] inline void v_store_f16(std::uint16_t* out, Vec x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                        _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
[[gnu::always_inline]] inline Vec v_add(Vec a, Vec b) {
    return _mm512_add_ps(a, b);
}
[[gnu::always_inline]] inline Vec v_sub(Vec a, Vec b) {
    return _mm512_sub_ps(a, b);
}
[[gnu::always_inline]] inline Vec v_mul(Vec a, Vec b) {
    return _mm512_mul_ps(a, b);
}
[[gnu::always_inline]] inline Vec v_div(Vec a, Vec b) {
    return _mm512_div_ps(a, b);
}
[[gnu::always_inline]] inline Vec v_neg(Vec a) {
    return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f));
}
[[gnu::always_inline]] inline Vec v_fma(Vec a, Vec b, Vec c) {
    return _mm512_fmadd_ps(a, b, c);
}
// MAXPS and MINPS return their second operand when one is NaN: x has to be that one.
[[gnu::always_inline]] inline Vec v_clamp(Vec x, Vec low, Vec high) {
    return _mm512_min_ps(high, _mm512_max_ps(low, x));
}
// a < b ? yes : no
[[gnu::always_inline]] inline Vec v_select_less(Vec a, Vec b, Vec yes, Vec no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}
// NaN when either is (MAXPS alone returns b then); which zero comes out is the machine's choice.
[[gnu::always_inline]] inline Vec v_max(Vec a, Vec b) {
    return _mm512_mask_mov_ps(_mm512_max_ps(a, b), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a);
}

// Lanes l and l + 8 of one vector, or of two.
[[gnu::always_inline]] inline __m256 v_lower(Vec a) {
    return _mm512_castps512_ps256(a);
}
[[gnu::always_inline]] inline __m256 v_upper(Vec a) {
    return _mm512_extractf32x8_ps(a, 1);
}

// The same over the elements of one vector.
[[gnu::always_inline]] inline float v_largest(Vec a) {
    if (_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q) != 0) return __builtin_nanf("");
    const __m256 eight = _mm256_max_ps(v_lower(a), v_upper(a));
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
}
// The low bits of n, in two's complement, to the exponent of p.
[[gnu::always_inline]] inline Vec v_add_to_exponent(Vec p, Vec n) {
    const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(n), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), exponent));
}

// The tree: l + (l + 8), + 4, + 2, + 1.
[[gnu::always_inline]] inline float v_sum_tree(const Vec (&lanes)[1]) {
    const __m256 eight = _mm256_add_ps(v_lower(lanes[0]), v_upper(lanes[0]));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// Sixteen signed bytes times a scale, as halves.
[[gnu::always_inline]] inline void widen_bytes16(__m128i q, Vec scale, std::uint16_t* out) {
    v_store_f16(out, v_mul(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q)), scale));
}

// Attention. Sixteen sums, four keys and a query leave registers to spare.

inline constexpr std::size_t kAttentionRows = 4;  // rows of the largest tile
template <std::size_t kRows>
inline constexpr std::size_t kScoreKeys = 4;  // keys scored together
template <std::size_t kRows>
inline constexpr std::size_t kValueParts = kRows < 3 ? 8 : 4;  // vectors of values summed together

// A constant to which a product is added.
[[gnu::always_inline]] inline Vec v_addend(const float (&x)[4]) {
    return _mm512_set1_ps(x[0]);
}
// The bits of each lane, 23 places up: where a float keeps its exponent.
[[gnu::always_inline]] inline Vec v_low_bits_to_exponent(Vec a) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a), 23));
}
// Four trees at once.
[[gnu::always_inline]] inline Floats4 v_sum_folded(const Vec* sums) {
    // The 256-bit halves of two sums at once: l and l + 8.
    const Vec ab =
        _mm512_add_ps(_mm512_shuffle_f32x4(sums[0], sums[1], 0x44), _mm512_shuffle_f32x4(sums[0], sums[1], 0xee));
    const Vec cd =
        _mm512_add_ps(_mm512_shuffle_f32x4(sums[2], sums[3], 0x44), _mm512_shuffle_f32x4(sums[2], sums[3], 0xee));
    // Then the 128-bit halves, l and l + 4: a, b, c, d.
    const Vec four = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    const Vec two = _mm512_add_ps(four, _mm512_shuffle_ps(four, four, 0xee));
    const Vec one = _mm512_add_ps(two, _mm512_shuffle_ps(two, two, 0x55));
    const __m512i firsts = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0);
    return _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, one));
}

// Pairs (0, 1), (2, 3), ... of two vectors to their first and second members, and back.
struct VecPair {
    Vec first;
    Vec second;
};
[[gnu::always_inline]] inline VecPair v_load_pairs(const float* x) {
    const Vec a = _mm512_loadu_ps(x);
    const Vec b = _mm512_loadu_ps(x + 16);
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return {_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b)};
}
[[gnu::always_inline]] inline void v_store_pairs(float* out, VecPair pair) {
    const __m512i lower = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i upper = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
    _mm512_storeu_ps(out, _mm512_permutex2var_ps(pair.first, lower, pair.second));
    _mm512_storeu_ps(out + 16, _mm512_permutex2var_ps(pair.first, upper, pair.second));
}

// Quantiser.

// The largest |x| as an integer over n floats, a multiple of 32.
inline std::uint32_t largest_magnitude(const float* x, std::size_t n) {
    const __m512i mask = _mm512_set1_epi32(0x7fffffff);
    __m512i first = _mm512_setzero_si512();
    __m512i second = _mm512_setzero_si512();
    for (std::size_t i = 0; i < n; i += 32) {
        first = _mm512_max_epu32(first, _mm512_and_si512(_mm512_loadu_si512(x + i), mask));
        second = _mm512_max_epu32(second, _mm512_and_si512(_mm512_loadu_si512(x + i + 16), mask));
    }
    return _mm512_reduce_max_epu32(_mm512_max_epu32(first, second));
}

// Sixteen floats to int8; returns the sum of these. Nothing needs clamping: |x * inverse| < 127.5.
[[gnu::always_inline]] inline std::int32_t quantize16(const float* x, float inverse, std::int8_t* q) {
    const __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), _mm512_set1_ps(inverse)));
    const __m128i bytes = _mm512_cvtepi32_epi8(whole);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q), bytes);
    // PSADBW sums unsigned bytes: shift them up by 128 and take sixteen times that back.
    const __m128i sums = _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8(-128)), _mm_setzero_si128());
    return _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 16 * 128;
}

}  // namespace

}  // namespace hearth

#include "kernels/simd_x86.h"
