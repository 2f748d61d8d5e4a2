// The AVX2 vocabulary of panels_x86_types.h and panels_x86_matmul.h: a vector is half a panel, eight rows. Products are
// summed in int16 for as long as a type's integers allow (PMADDUBSW), then scaled and widened by PMADDWD.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/panels_x86_layout.h"

namespace hearth {

namespace {

using Ints = __m256i;
using Floats = __m256;

inline constexpr std::size_t kVectorRows = 8;
inline constexpr std::size_t kDirectTokens = 4;  // that share weights as they come from memory
inline constexpr std::size_t kWalkedPanels = 4;  // at a time by one token, of blocks of 32
inline constexpr bool kSignedBytes = true;       // types with integers beyond +-31 keep their sign (PSIGNB)

[[gnu::always_inline]] inline Ints load_ints(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
[[gnu::always_inline]] inline void store_ints(void* to, Ints x) {
    _mm256_storeu_si256(static_cast<__m256i*>(to), x);
}
[[gnu::always_inline]] inline Ints zero_ints() {
    return _mm256_setzero_si256();
}
[[gnu::always_inline]] inline Ints set_bytes(int x) {
    return _mm256_set1_epi8(static_cast<char>(x));
}
[[gnu::always_inline]] inline Ints set_ints(std::int32_t x) {
    return _mm256_set1_epi32(x);
}
[[gnu::always_inline]] inline Ints and_ints(Ints a, Ints b) {
    return _mm256_and_si256(a, b);
}
[[gnu::always_inline]] inline Ints or_ints(Ints a, Ints b) {
    return _mm256_or_si256(a, b);
}
[[gnu::always_inline]] inline Ints xor_ints(Ints a, Ints b) {
    return _mm256_xor_si256(a, b);
}
[[gnu::always_inline]] inline Ints subtract_ints(Ints a, Ints b) {
    return _mm256_sub_epi32(a, b);
}
// Bits up (positive) or down inside 16-bit words; the bits that come from the neighbour byte are masked by the caller.
template <int kUp>
[[gnu::always_inline]] inline Ints shift_words(Ints x) {
    if constexpr (kUp > 0) return _mm256_slli_epi16(x, kUp);
    if constexpr (kUp < 0) return _mm256_srli_epi16(x, -kUp);
    return x;
}
[[gnu::always_inline]] inline Ints shift_words_down(Ints x, std::size_t bits) {
    return _mm256_srl_epi16(x, _mm_cvtsi32_si128(static_cast<int>(bits)));
}
template <int kUp>
[[gnu::always_inline]] inline Ints shift_ints_up(Ints x) {
    return _mm256_slli_epi32(x, kUp);
}
[[gnu::always_inline]] inline Ints look_up(const std::int8_t* table, Ints index) {
    const __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(sixteen), index);
}
// The same four bytes for every row.
[[gnu::always_inline]] inline Ints broadcast4(const void* from) {
    std::int32_t word;
    __builtin_memcpy(&word, from, 4);
    return _mm256_set1_epi32(word);
}
// One byte a row to int32 lanes.
[[gnu::always_inline]] inline Ints bytes_to_ints(const void* from) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(from)));
}
// Two bytes a row to int16 pairs.
[[gnu::always_inline]] inline Ints bytes_to_pairs(const void* from) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(from)));
}
// Pairs: even in the lower half of a lane, odd in the upper.
[[gnu::always_inline]] inline Ints pair_twice(Ints lower) {
    return _mm256_or_si256(_mm256_and_si256(lower, _mm256_set1_epi32(0xffff)), _mm256_slli_epi32(lower, 16));
}
// Ends the compiler's view of a sum: GCC turns long integer sums into trees, for which sixteen registers are too few.
[[gnu::always_inline]] inline void keep_order(Ints& sum) {
    __asm__("" : "+x"(sum));
}

// acc + even * even + odd * odd
[[gnu::always_inline]] inline Ints add_pair_products(Ints acc, Ints a, Ints b) {
    acc = _mm256_add_epi32(acc, _mm256_madd_epi16(a, b));
    keep_order(acc);
    return acc;
}

// A scale in the form in which add_products wants it, from pairs or from ints: (s, s).
template <typename Type>
[[gnu::always_inline]] inline Ints even_scale(Ints pairs) {
    return pair_twice(pairs);
}
template <typename Type>
[[gnu::always_inline]] inline Ints odd_scale(Ints pairs) {
    return _mm256_or_si256(_mm256_srli_epi32(pairs, 16), _mm256_and_si256(pairs, _mm256_set1_epi32(-65536)));
}
template <typename Type>
[[gnu::always_inline]] inline Ints int_scale(Ints ints) {
    return pair_twice(ints);
}

// Two neighbouring products of each 16-bit word. Exact: unsigned weights are at most 63, signed ones 128, |x| <= 127.
template <typename Type>
[[gnu::always_inline]] inline Ints word_products(Ints w, Ints x) {
    if constexpr (Type::kSigned) return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_maddubs_epi16(w, x);
}

// Sums of one sub-block of 32 columns, fed its eight vectors in order.
struct Sum {
    Ints words;  // Type::kGroup vectors of products
    Ints ints;
};

template <typename Type>
[[gnu::always_inline]] inline Sum start_sum(std::int32_t) {
    return {zero_ints(), zero_ints()};
}
template <typename Type, std::size_t kV>
[[gnu::always_inline]] inline void add_products(Sum& sum, Ints w, Ints x) {
    constexpr std::size_t kGroup = Type::kGroup;
    const Ints products = word_products<Type>(w, x);
    sum.words = kV % kGroup == 0 ? products : _mm256_add_epi16(sum.words, products);
    if constexpr (kGroup > 1) keep_order(sum.words);
    if constexpr (kV % kGroup == kGroup - 1) {
        const Ints ints = _mm256_madd_epi16(sum.words, _mm256_set1_epi16(1));
        sum.ints = kV < kGroup ? ints : _mm256_add_epi32(sum.ints, ints);
        if constexpr (kGroup < 8) keep_order(sum.ints);
    }
}
template <typename Type>
[[gnu::always_inline]] inline Ints finish_sum(const Sum& sum, std::int32_t activations) {
    if constexpr (Type::kOffset == 0) return sum.ints;
    return _mm256_sub_epi32(sum.ints, _mm256_set1_epi32(Type::kOffset * activations));
}

// The same, times the sub-block's scale (that of the vector's sixteen columns), added to the block's integer.
template <typename Type, std::size_t kV>
[[gnu::always_inline]] inline void add_scaled_products(Sum& sum, Ints& block, Ints w, Ints x, Ints scale) {
    constexpr std::size_t kGroup = Type::kGroup;
    const Ints products = word_products<Type>(w, x);
    sum.words = kV % kGroup == 0 ? products : _mm256_add_epi16(sum.words, products);
    if constexpr (kGroup > 1) keep_order(sum.words);
    if constexpr (kV % kGroup == kGroup - 1) {
        block = _mm256_add_epi32(block, _mm256_madd_epi16(sum.words, scale));
        keep_order(block);
    }
}

[[gnu::always_inline]] inline Floats zero_floats() {
    return _mm256_setzero_ps();
}
[[gnu::always_inline]] inline Floats load_floats(const float* from) {
    return _mm256_loadu_ps(from);
}
[[gnu::always_inline]] inline void store_floats(float* to, Floats x) {
    _mm256_storeu_ps(to, x);
}
[[gnu::always_inline]] inline Floats set_floats(float x) {
    return _mm256_set1_ps(x);
}
[[gnu::always_inline]] inline Floats halves_to_floats(const void* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(from)));
}
[[gnu::always_inline]] inline Floats upper_halves_to_floats(const void* from) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
[[gnu::always_inline]] inline Floats ints_to_floats(Ints x) {
    return _mm256_cvtepi32_ps(x);
}
[[gnu::always_inline]] inline Floats multiply(Floats a, Floats b) {
    return _mm256_mul_ps(a, b);
}
[[gnu::always_inline]] inline Floats multiply_add(Floats a, Floats b, Floats c) {
    return _mm256_fmadd_ps(a, b, c);
}
// c - a * b, rounded once
[[gnu::always_inline]] inline Floats multiply_subtract(Floats a, Floats b, Floats c) {
    return _mm256_fnmadd_ps(a, b, c);
}

}  // namespace

}  // namespace hearth
