// What float weights on x86 are to the kernels: the sixteen virtual lanes of the reference, one register with AVX-512
// and two with AVX2, and how each type becomes them.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace hearth {

namespace {

inline constexpr std::size_t kLaneCount = 16;

#if defined(__AVX512F__)

using Lanes = __m512;

[[gnu::always_inline]] inline Lanes zero_lanes() {
    return _mm512_setzero_ps();
}
[[gnu::always_inline]] inline Lanes load_lanes(const float* x) {
    return _mm512_loadu_ps(x);
}
[[gnu::always_inline]] inline void store_lanes(float* to, Lanes x) {
    _mm512_storeu_ps(to, x);
}
[[gnu::always_inline]] inline Lanes load_halves(const std::uint16_t* x) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
}
[[gnu::always_inline]] inline Lanes load_upper_halves(const std::uint16_t* x) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
[[gnu::always_inline]] inline Lanes multiply_add(Lanes a, Lanes b, Lanes c) {
    return _mm512_fmadd_ps(a, b, c);
}
// Into the first n lanes and no other: an added zero could turn -0 into +0.
[[gnu::always_inline]] inline Lanes multiply_add_first(Lanes a, Lanes b, Lanes c, std::size_t n) {
    return _mm512_mask3_fmadd_ps(a, b, c, static_cast<__mmask16>((1u << n) - 1));
}
// The tree: 8, 4, 2, 1.
[[gnu::always_inline]] inline __m256 fold_lanes(Lanes x) {
    return _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
}

#else

struct Lanes {
    __m256 low;
    __m256 high;
};

[[gnu::always_inline]] inline Lanes zero_lanes() {
    return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
[[gnu::always_inline]] inline Lanes load_lanes(const float* x) {
    return {_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)};
}
[[gnu::always_inline]] inline void store_lanes(float* to, Lanes x) {
    _mm256_storeu_ps(to, x.low);
    _mm256_storeu_ps(to + 8, x.high);
}
[[gnu::always_inline]] inline Lanes load_halves(const std::uint16_t* x) {
    const auto* from = reinterpret_cast<const __m128i*>(x);
    return {_mm256_cvtph_ps(_mm_loadu_si128(from)), _mm256_cvtph_ps(_mm_loadu_si128(from + 1))};
}
[[gnu::always_inline]] inline __m256 to_upper_halves(__m128i x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
[[gnu::always_inline]] inline Lanes load_upper_halves(const std::uint16_t* x) {
    const auto* from = reinterpret_cast<const __m128i*>(x);
    return {to_upper_halves(_mm_loadu_si128(from)), to_upper_halves(_mm_loadu_si128(from + 1))};
}
[[gnu::always_inline]] inline Lanes multiply_add(Lanes a, Lanes b, Lanes c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
[[gnu::always_inline]] inline __m256 select_first(__m256 yes, __m256 no, int n) {
    const __m256i index = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    return _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), index)));
}
// Into the first n lanes and no other: an added zero could turn -0 into +0.
[[gnu::always_inline]] inline Lanes multiply_add_first(Lanes a, Lanes b, Lanes c, std::size_t n) {
    const Lanes all = multiply_add(a, b, c);
    const int first = static_cast<int>(n);
    return {select_first(all.low, c.low, first), select_first(all.high, c.high, first - 8)};
}
// The tree: 8, 4, 2, 1.
[[gnu::always_inline]] inline __m256 fold_lanes(Lanes x) {
    return _mm256_add_ps(x.low, x.high);
}

#endif

[[gnu::always_inline]] inline float sum_of_lanes(Lanes x) {
    const __m256 eight = fold_lanes(x);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

struct WeightF32 {
    using Element = float;
    [[gnu::always_inline]] static Lanes load(const Element* w) { return load_lanes(w); }
};
struct WeightF16 {
    using Element = std::uint16_t;
    [[gnu::always_inline]] static Lanes load(const Element* w) { return load_halves(w); }
};
struct WeightBF16 {
    using Element = std::uint16_t;
    [[gnu::always_inline]] static Lanes load(const Element* w) { return load_upper_halves(w); }
};

template <typename Weight>
[[gnu::always_inline]] inline const typename Weight::Element* weight_row(const MatmulTask& task, std::size_t row) {
    return reinterpret_cast<const typename Weight::Element*>(task.weights + row * task.weight_row_bytes);
}
[[gnu::always_inline]] inline const float* activation_row(const MatmulTask& task, std::size_t token) {
    return reinterpret_cast<const float*>(task.activations + token * task.activation_row_bytes);
}

}  // namespace

}  // namespace hearth
