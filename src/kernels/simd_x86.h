// What the vocabularies of AVX2 and AVX-512 say alike, each over its own Vec. Included by both, at their end.
#pragma once

namespace hearth {

namespace {

[[gnu::always_inline]] inline Vec v_load_key(const std::uint16_t* x) {
    return v_load_f16(x);
}
[[gnu::always_inline]] inline Vec v_load_value(const std::uint16_t* x) {
    return v_load_f16(x);
}

// Quantised K and V to halves: 32 signed bytes, or 32 nibbles 8 too large, times a scale.
[[gnu::always_inline]] inline Vec scale_of_half(std::uint16_t scale) {
    return v_set(_cvtsh_ss(scale));
}
[[gnu::always_inline]] inline __m128i load_group16(const void* q) {
    return _mm_loadu_si128(static_cast<const __m128i*>(q));
}
[[gnu::always_inline]] inline void widen_bytes32(const std::int8_t* q, std::uint16_t scale, std::uint16_t* out) {
    widen_bytes16(load_group16(q), scale_of_half(scale), out);
    widen_bytes16(load_group16(q + 16), scale_of_half(scale), out + 16);
}
[[gnu::always_inline]] inline void widen_nibbles32(const std::uint8_t* q, std::uint16_t scale, std::uint16_t* out) {
    const __m128i bytes = load_group16(q);
    const __m128i mask = _mm_set1_epi8(15);
    const __m128i offset = _mm_set1_epi8(8);
    widen_bytes16(_mm_sub_epi8(_mm_and_si128(bytes, mask), offset), scale_of_half(scale), out);
    widen_bytes16(_mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(bytes, 4), mask), offset), scale_of_half(scale), out + 16);
}

// Four neighbouring factors, and one of them times a vector. A broadcast from memory costs no more than a load.
using Factors = const float*;
[[gnu::always_inline]] inline Factors load_factors(const float* factors) {
    return factors;
}
[[gnu::always_inline]] inline Factors load_factor(const float* factor) {
    return factor;
}
template <int kIndex>
[[gnu::always_inline]] inline Vec v_fma_factor(Factors factors, Vec x, Vec sum) {
    return v_fma(v_set(factors[kIndex]), x, sum);
}

}  // namespace

}  // namespace hearth
