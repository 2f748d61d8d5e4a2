// The AVX-512 VNNI vocabulary of panels_x86_types.h and panels_x86_matmul.h: a vector is a panel, sixteen rows.
// VPDPBUSD takes weights as unsigned bytes; their offset is taken back through the sum of the activations.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/panels_x86_layout.h"

namespace hearth {

namespace {

using Ints = __m512i;
using Floats = __m512;

inline constexpr std::size_t kVectorRows = 16;
inline constexpr std::size_t kDirectTokens = 8;  // that share weights as they come from memory
inline constexpr std::size_t kWalkedPanels = 8;  // at a time by one token, of blocks of 32
inline constexpr bool kSignedBytes = false;

[[gnu::always_inline]] inline Ints load_ints(const void* from) {
    return _mm512_loadu_si512(from);
}
[[gnu::always_inline]] inline void store_ints(void* to, Ints x) {
    _mm512_storeu_si512(to, x);
}
[[gnu::always_inline]] inline Ints zero_ints() {
    return _mm512_setzero_si512();
}
[[gnu::always_inline]] inline Ints set_bytes(int x) {
    return _mm512_set1_epi8(static_cast<char>(x));
}
[[gnu::always_inline]] inline Ints set_ints(std::int32_t x) {
    return _mm512_set1_epi32(x);
}
[[gnu::always_inline]] inline Ints and_ints(Ints a, Ints b) {
    return _mm512_and_si512(a, b);
}
[[gnu::always_inline]] inline Ints or_ints(Ints a, Ints b) {
    return _mm512_or_si512(a, b);
}
[[gnu::always_inline]] inline Ints xor_ints(Ints a, Ints b) {
    return _mm512_xor_si512(a, b);
}
[[gnu::always_inline]] inline Ints subtract_ints(Ints a, Ints b) {
    return _mm512_sub_epi32(a, b);
}
// Bits up (positive) or down inside 16-bit words; the bits that come from the neighbour byte are masked by the caller.
template <int kUp>
[[gnu::always_inline]] inline Ints shift_words(Ints x) {
    if constexpr (kUp > 0) return _mm512_slli_epi16(x, kUp);
    if constexpr (kUp < 0) return _mm512_srli_epi16(x, -kUp);
    return x;
}
[[gnu::always_inline]] inline Ints shift_words_down(Ints x, std::size_t bits) {
    return _mm512_srl_epi16(x, _mm_cvtsi32_si128(static_cast<int>(bits)));
}
template <int kUp>
[[gnu::always_inline]] inline Ints shift_ints_up(Ints x) {
    return _mm512_slli_epi32(x, kUp);
}
[[gnu::always_inline]] inline Ints look_up(const std::int8_t* table, Ints index) {
    const __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(sixteen), index);
}
// The same four bytes for every row.
[[gnu::always_inline]] inline Ints broadcast4(const void* from) {
    std::int32_t word;
    __builtin_memcpy(&word, from, 4);
    return _mm512_set1_epi32(word);
}
// One byte a row to int32 lanes.
[[gnu::always_inline]] inline Ints bytes_to_ints(const void* from) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from)));
}
// Two bytes a row to int16 pairs.
[[gnu::always_inline]] inline Ints bytes_to_pairs(const void* from) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
}
// Pairs: even in the lower half of a lane, odd in the upper.
[[gnu::always_inline]] inline Ints pair_twice(Ints lower) {
    return _mm512_or_si512(_mm512_and_si512(lower, _mm512_set1_epi32(0xffff)), _mm512_slli_epi32(lower, 16));
}
// acc + even * even + odd * odd
[[gnu::always_inline]] inline Ints add_pair_products(Ints acc, Ints a, Ints b) {
    return _mm512_dpwssd_epi32(acc, a, b);
}

// How a sum is scaled. One of sixteen columns that fits int16 is multiplied by VPDPWSSD with the scale in the lower
// word and nothing in the upper; others by VPMULLD.
template <typename Type>
inline constexpr bool kFitsWord = Type::kLargest * 127 * 16 <= 32767;

template <typename Type>
[[gnu::always_inline]] inline Ints even_scale(Ints pairs) {
    if constexpr (kFitsWord<Type>) return _mm512_and_si512(pairs, _mm512_set1_epi32(0xffff));
    return _mm512_srai_epi32(_mm512_slli_epi32(pairs, 16), 16);
}
template <typename Type>
[[gnu::always_inline]] inline Ints odd_scale(Ints pairs) {
    if constexpr (kFitsWord<Type>) return _mm512_srli_epi32(pairs, 16);
    return _mm512_srai_epi32(pairs, 16);
}
template <typename Type>
[[gnu::always_inline]] inline Ints int_scale(Ints ints) {
    if constexpr (kFitsWord<Type>) return _mm512_and_si512(ints, _mm512_set1_epi32(0xffff));
    return ints;
}

// Sums of one sub-block of 32 columns, fed its eight vectors in order.
struct Sum {
    Ints ints;
};

template <typename Type>
[[gnu::always_inline]] inline Sum start_sum(std::int32_t activations) {
    if constexpr (Type::kOffset == 0) return {_mm512_setzero_si512()};
    return {_mm512_set1_epi32(-Type::kOffset * activations)};
}
template <typename Type, std::size_t kV>
[[gnu::always_inline]] inline void add_products(Sum& sum, Ints w, Ints x) {
    sum.ints = _mm512_dpbusd_epi32(sum.ints, w, x);
}
template <typename Type>
[[gnu::always_inline]] inline Ints finish_sum(const Sum& sum, std::int32_t) {
    return sum.ints;
}

// The same, times the sub-block's scale (that of the vector's sixteen columns), added to the block's integer.
template <typename Type, std::size_t kV>
[[gnu::always_inline]] inline void add_scaled_products(Sum& sum, Ints& block, Ints w, Ints x, Ints scale) {
    constexpr std::size_t kGroup = Type::kPairScales || (kFitsWord<Type> && !Type::kUnitScales) ? 4 : 8;
    sum.ints = _mm512_dpbusd_epi32(kV % kGroup == 0 ? _mm512_setzero_si512() : sum.ints, w, x);
    if constexpr (kV % kGroup != kGroup - 1) return;
    if constexpr (Type::kUnitScales) {
        block = _mm512_add_epi32(block, sum.ints);
    } else if constexpr (kFitsWord<Type>) {
        block = _mm512_dpwssd_epi32(block, sum.ints, scale);
    } else {
        block = _mm512_add_epi32(block, _mm512_mullo_epi32(sum.ints, scale));
    }
}

[[gnu::always_inline]] inline Floats zero_floats() {
    return _mm512_setzero_ps();
}
[[gnu::always_inline]] inline Floats load_floats(const float* from) {
    return _mm512_loadu_ps(from);
}
[[gnu::always_inline]] inline void store_floats(float* to, Floats x) {
    _mm512_storeu_ps(to, x);
}
[[gnu::always_inline]] inline Floats set_floats(float x) {
    return _mm512_set1_ps(x);
}
[[gnu::always_inline]] inline Floats halves_to_floats(const void* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
}
[[gnu::always_inline]] inline Floats upper_halves_to_floats(const void* from) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
[[gnu::always_inline]] inline Floats ints_to_floats(Ints x) {
    return _mm512_cvtepi32_ps(x);
}
[[gnu::always_inline]] inline Floats multiply(Floats a, Floats b) {
    return _mm512_mul_ps(a, b);
}
[[gnu::always_inline]] inline Floats multiply_add(Floats a, Floats b, Floats c) {
    return _mm512_fmadd_ps(a, b, c);
}
// c - a * b, rounded once
[[gnu::always_inline]] inline Floats multiply_subtract(Floats a, Floats b, Floats c) {
    return _mm512_fnmadd_ps(a, b, c);
}

}  // namespace

}  // namespace hearth
