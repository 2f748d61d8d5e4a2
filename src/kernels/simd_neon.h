// The NEON vocabulary of the shared drivers (simd_matmul.h, simd_float.h, simd_attention.h). Everything here is in an
// anonymous namespace: each ISA file gets its own copy, built with its own flags, and shares no symbol with the
// program.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace hearth {

namespace {

// Integers. Thirty-two weights or activations of one row, and the partial sums of their products.

inline constexpr std::size_t kTileTokens32 = 4;   // tokens that share unpacked weights: blocks of 32
inline constexpr std::size_t kTileTokens256 = 4;  // and blocks of 256

struct Bytes32 {
    int8x16_t low;
    int8x16_t high;
};
using Partial = int32x4_t;
using Ints4 = int32x4_t;      // one integer for each of four rows
using Floats4 = float32x4_t;  // one float for each of four rows

[[gnu::always_inline]] inline Bytes32 load_bytes32(const std::int8_t* q) {
    return {vld1q_s8(q), vld1q_s8(q + 16)};
}

[[gnu::always_inline]] inline Partial zero_partial() {
    return vdupq_n_s32(0);
}

[[gnu::always_inline]] inline Partial dot16(int8x16_t w, int8x16_t x) {
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_s32(vdupq_n_s32(0), w, x);
#else
    // Two products of int8 fit in int16, even -128 * 127 twice.
    const int16x8_t pairs = vmlal_s8(vmull_s8(vget_low_s8(w), vget_low_s8(x)), vget_high_s8(w), vget_high_s8(x));
    return vpaddlq_s16(pairs);
#endif
}

// Type matters to ISAs whose dot product wants one operand unsigned; here all weights are signed.
template <typename Type>
[[gnu::always_inline]] inline Partial dot32_of(Bytes32 w, Bytes32 x) {
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_s32(vdotq_s32(vdupq_n_s32(0), w.low, x.low), w.high, x.high);
#else
    const int16x8_t low =
        vmlal_s8(vmull_s8(vget_low_s8(w.low), vget_low_s8(x.low)), vget_high_s8(w.low), vget_high_s8(x.low));
    const int16x8_t high =
        vmlal_s8(vmull_s8(vget_low_s8(w.high), vget_low_s8(x.high)), vget_high_s8(w.high), vget_high_s8(x.high));
    return vpadalq_s16(vpaddlq_s16(low), high);
#endif
}

// The partial sums of four rows to one integer a row.
[[gnu::always_inline]] inline Ints4 reduce4(Partial a, Partial b, Partial c, Partial d) {
    return vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d));
}

// Takes back an offset left in the weights; none is left here.
template <typename Type>
[[gnu::always_inline]] inline Ints4 without_offset(Ints4 isum, std::int32_t) {
    return isum;
}

// The scales and minimums of one block of 256, per 16 elements.
struct Scales256 {
    std::int32_t scales[16];
    std::int16_t minimums[16];
};

// acc + sum over the 32 elements of sub-block j of scale * w * x, still spread over the lanes.
template <typename Type>
[[gnu::always_inline]] inline Partial add_scaled_dot_of(Partial acc, Bytes32 w, Bytes32 x, const Scales256& s,
                                                        std::size_t j) {
    if constexpr (Type::kSub16) {
        acc = vmlaq_s32(acc, dot16(w.low, x.low), vld1q_dup_s32(s.scales + 2 * j));
        return vmlaq_s32(acc, dot16(w.high, x.high), vld1q_dup_s32(s.scales + 2 * j + 1));
    } else {
        return vmlaq_s32(acc, dot32_of<Type>(w, x), vld1q_dup_s32(s.scales + 2 * j));
    }
}

// Sum of sixteen products of int16, spread over the lanes.
[[gnu::always_inline]] inline Partial dot_int16(const std::int16_t* a, const std::int16_t* b) {
    const int16x8_t a0 = vld1q_s16(a);
    const int16x8_t a1 = vld1q_s16(a + 8);
    const int16x8_t b0 = vld1q_s16(b);
    const int16x8_t b1 = vld1q_s16(b + 8);
    int32x4_t sum = vmull_s16(vget_low_s16(a0), vget_low_s16(b0));
    sum = vmlal_s16(sum, vget_high_s16(a0), vget_high_s16(b0));
    sum = vmlal_s16(sum, vget_low_s16(a1), vget_low_s16(b1));
    return vmlal_s16(sum, vget_high_s16(a1), vget_high_s16(b1));
}

// For each of four rows the sum of minimum times activation sum.
[[gnu::always_inline]] inline Ints4 minimum_sums(const Scales256 (&s)[4], const std::int16_t* sums) {
    return reduce4(dot_int16(s[0].minimums, sums), dot_int16(s[1].minimums, sums), dot_int16(s[2].minimums, sums),
                   dot_int16(s[3].minimums, sums));
}

template <typename Type>
[[gnu::always_inline]] inline Ints4 without_offset(Ints4 isum, const Scales256 (&)[4], const std::int16_t*) {
    return isum;
}

// Floats, four rows.

[[gnu::always_inline]] inline Floats4 zero4() {
    return vdupq_n_f32(0.0f);
}
[[gnu::always_inline]] inline Floats4 set4(float x) {
    return vdupq_n_f32(x);
}
[[gnu::always_inline]] inline Floats4 load4(const float* x) {
    return vld1q_f32(x);
}
[[gnu::always_inline]] inline void store4(float* out, Floats4 x) {
    vst1q_f32(out, x);
}
[[gnu::always_inline]] inline Floats4 to_float4(Ints4 x) {
    return vcvtq_f32_s32(x);
}
[[gnu::always_inline]] inline Floats4 mul4(Floats4 a, float b) {
    return vmulq_n_f32(a, b);
}
[[gnu::always_inline]] inline Floats4 neg4(Floats4 a) {
    return vnegq_f32(a);
}
[[gnu::always_inline]] inline Floats4 fma4(Floats4 a, Floats4 b, Floats4 c) {
    return vfmaq_f32(c, a, b);
}
// Four halves, packed low to high.
[[gnu::always_inline]] inline Floats4 halves4(std::uint64_t bits) {
    return vcvt_f32_f16(vreinterpret_f16_u64(vcreate_u64(bits)));
}

// Floats, the native vector; sixteen virtual lanes are 16 / kWidth of them.

using Vec = float32x4_t;
inline constexpr std::size_t kWidth = 4;

[[gnu::always_inline]] inline Vec v_set(float x) {
    return vdupq_n_f32(x);
}
[[gnu::always_inline]] inline Vec v_load(const float* x) {
    return vld1q_f32(x);
}
[[gnu::always_inline]] inline void v_store(float* out, Vec x) {
    vst1q_f32(out, x);
}
[[gnu::always_inline]] inline Vec v_load_f16(const std::uint16_t* x) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x)));
}
[[gnu::always_inline]] inline Vec v_load_bf16(const std::uint16_t* x) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(x), 16));
}
[[gnu::always_inline]] inline void v_store_f16(std::uint16_t* out, Vec x) {
    vst1_u16(out, vreinterpret_u16_f16(vcvt_f16_f32(x)));
}
[[gnu::always_inline]] inline Vec v_add(Vec a, Vec b) {
    return vaddq_f32(a, b);
}
[[gnu::always_inline]] inline Vec v_sub(Vec a, Vec b) {
    return vsubq_f32(a, b);
}
[[gnu::always_inline]] inline Vec v_mul(Vec a, Vec b) {
    return vmulq_f32(a, b);
}
[[gnu::always_inline]] inline Vec v_div(Vec a, Vec b) {
    return vdivq_f32(a, b);
}
[[gnu::always_inline]] inline Vec v_neg(Vec a) {
    return vnegq_f32(a);
}
[[gnu::always_inline]] inline Vec v_fma(Vec a, Vec b, Vec c) {
    return vfmaq_f32(c, a, b);
}
[[gnu::always_inline]] inline Vec v_clamp(Vec x, Vec low, Vec high) {
    return vminq_f32(vmaxq_f32(x, low), high);
}
// a < b ? yes : no
[[gnu::always_inline]] inline Vec v_select_less(Vec a, Vec b, Vec yes, Vec no) {
    return vbslq_f32(vcltq_f32(a, b), yes, no);
}
// NaN when either is; which zero comes out is the machine's choice.
[[gnu::always_inline]] inline Vec v_max(Vec a, Vec b) {
    return vmaxq_f32(a, b);
}
// The same over the elements of one vector.
[[gnu::always_inline]] inline float v_largest(Vec a) {
    return vmaxvq_f32(a);
}
// The low bits of n, in two's complement, to the exponent of p.
[[gnu::always_inline]] inline Vec v_add_to_exponent(Vec p, Vec n) {
    return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(p), vshlq_n_u32(vreinterpretq_u32_f32(n), 23)));
}

// The tree over sixteen lanes held in four vectors: l + (l + 8), + 4, + 2, + 1.
[[gnu::always_inline]] inline Vec v_fold(const Vec (&lanes)[4]) {
    return vaddq_f32(vaddq_f32(lanes[0], lanes[2]), vaddq_f32(lanes[1], lanes[3]));
}
[[gnu::always_inline]] inline float v_sum_tree(const Vec (&lanes)[4]) {
    const Vec four = v_fold(lanes);
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
// Four trees at once.
[[gnu::always_inline]] inline Floats4 v_sum_trees(const Vec (&a)[4], const Vec (&b)[4], const Vec (&c)[4],
                                                  const Vec (&d)[4]) {
    const float64x2_t fa = vreinterpretq_f64_f32(v_fold(a));
    const float64x2_t fb = vreinterpretq_f64_f32(v_fold(b));
    const float64x2_t fc = vreinterpretq_f64_f32(v_fold(c));
    const float64x2_t fd = vreinterpretq_f64_f32(v_fold(d));
    const Vec ab = vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(fa, fb)), vreinterpretq_f32_f64(vzip2q_f64(fa, fb)));
    const Vec cd = vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(fc, fd)), vreinterpretq_f32_f64(vzip2q_f64(fc, fd)));
    return vpaddq_f32(ab, cd);
}

// Four halves of K or V to floats. FCVTL takes two of the four pipes for a cycle. FMLAL by one takes a single pipe,
// onto a zero that costs none: made by an instruction that register renaming removes, which turns -0 into +0 (in K no
// softmax can see that), or loaded, -0, which changes nothing.
#if defined(__ARM_FEATURE_FP16_FML)
alignas(16) constexpr float kMinusZeros[4] = {-0.0f, -0.0f, -0.0f, -0.0f};
[[gnu::always_inline]] inline Vec v_load_key(const std::uint16_t* x) {
    Vec wide;
    __asm__("movi %0.4s, #0\n\tfmlal %0.4s, %1.4h, %2.4h" : "=&w"(wide) : "w"(vld1_u16(x)), "w"(vdup_n_u16(0x3c00)));
    return wide;
}
[[gnu::always_inline]] inline Vec v_load_value(const std::uint16_t* x) {
    Vec wide;
    __asm__("ldr %q0, %3\n\tfmlal %0.4s, %1.4h, %2.4h"
            : "=&w"(wide)
            : "w"(vld1_u16(x)), "w"(vdup_n_u16(0x3c00)), "m"(kMinusZeros));
    return wide;
}
#else
[[gnu::always_inline]] inline Vec v_load_key(const std::uint16_t* x) {
    return v_load_f16(x);
}
[[gnu::always_inline]] inline Vec v_load_value(const std::uint16_t* x) {
    return v_load_f16(x);
}
#endif

// Quantised K and V to halves: 32 signed bytes, or 32 nibbles 8 too large, times a scale. One multiplication of halves
// rounds as the exact product in f32 does when it is narrowed.
#if defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
[[gnu::always_inline]] inline void widen_bytes8(int8x8_t q, std::uint16_t scale, std::uint16_t* out) {
    const float16x8_t scales = vreinterpretq_f16_u16(vdupq_n_u16(scale));
    vst1q_u16(out, vreinterpretq_u16_f16(vmulq_f16(vcvtq_f16_s16(vmovl_s8(q)), scales)));
}
#else
[[gnu::always_inline]] inline void widen_bytes8(int8x8_t q, std::uint16_t scale, std::uint16_t* out) {
    const float32x4_t scales = vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(scale)));
    const int16x8_t wide = vmovl_s8(q);
    v_store_f16(out, vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), scales));
    v_store_f16(out + 4, vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_high_s16(wide))), scales));
}
#endif
[[gnu::always_inline]] inline void widen_bytes16(int8x16_t q, std::uint16_t scale, std::uint16_t* out) {
    widen_bytes8(vget_low_s8(q), scale, out);
    widen_bytes8(vget_high_s8(q), scale, out + 8);
}
[[gnu::always_inline]] inline void widen_bytes32(const std::int8_t* q, std::uint16_t scale, std::uint16_t* out) {
    widen_bytes16(vld1q_s8(q), scale, out);
    widen_bytes16(vld1q_s8(q + 16), scale, out + 16);
}
[[gnu::always_inline]] inline void widen_nibbles32(const std::uint8_t* q, std::uint16_t scale, std::uint16_t* out) {
    const uint8x16_t bytes = vld1q_u8(q);
    const int8x16_t offset = vdupq_n_s8(8);
    widen_bytes16(vsubq_s8(vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15))), offset), scale, out);
    widen_bytes16(vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4)), offset), scale, out + 16);
}

// Attention. Registers are 32 and an FMA takes four cycles of four pipes: sixteen sums and more keep them busy.

inline constexpr std::size_t kAttentionRows = 4;  // rows of the largest tile
template <std::size_t kRows>
inline constexpr std::size_t kScoreKeys = kRows < 4 ? 4 : 2;  // keys scored together
template <std::size_t kRows>
inline constexpr std::size_t kValueParts = kRows < 4 ? 8 : 4;  // vectors of values summed together

// A constant that a fused multiply-add is to overwrite. Loaded each time: a copy of a register would take a vector
// pipe.
[[gnu::always_inline]] inline Vec v_addend(const float (&x)[4]) {
    Vec addend;
    __asm__ volatile("ldr %q0, %1" : "=w"(addend) : "m"(x));
    return addend;
}
// The bits of each lane, 23 places up: where a float keeps its exponent.
[[gnu::always_inline]] inline Vec v_low_bits_to_exponent(Vec a) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(a), 23));
}
// The rest of the tree for four sums whose lanes l and l + 8, then l + 4, are already added.
[[gnu::always_inline]] inline Floats4 v_sum_folded(const Vec* sums) {
    const float64x2_t a = vreinterpretq_f64_f32(sums[0]);
    const float64x2_t b = vreinterpretq_f64_f32(sums[1]);
    const float64x2_t c = vreinterpretq_f64_f32(sums[2]);
    const float64x2_t d = vreinterpretq_f64_f32(sums[3]);
    const Vec ab = vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(a, b)), vreinterpretq_f32_f64(vzip2q_f64(a, b)));
    const Vec cd = vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(c, d)), vreinterpretq_f32_f64(vzip2q_f64(c, d)));
    return vpaddq_f32(ab, cd);
}
// Four neighbouring factors, and one of them times a vector.
using Factors = float32x4_t;
[[gnu::always_inline]] inline Factors load_factors(const float* factors) {
    return vld1q_f32(factors);
}
[[gnu::always_inline]] inline Factors load_factor(const float* factor) {
    return vld1q_dup_f32(factor);
}
template <int kIndex>
[[gnu::always_inline]] inline Vec v_fma_factor(Factors factors, Vec x, Vec sum) {
    // GCC would make a vector of the factor first.
    __asm__("fmla %0.4s, %1.4s, %2.s[%c3]" : "+w"(sum) : "w"(x), "w"(factors), "i"(kIndex));
    return sum;
}

// Pairs (0, 1), (2, 3), ... of two vectors to their first and second members, and back.
struct VecPair {
    Vec first;
    Vec second;
};
[[gnu::always_inline]] inline VecPair v_load_pairs(const float* x) {
    const float32x4x2_t pairs = vld2q_f32(x);
    return {pairs.val[0], pairs.val[1]};
}
[[gnu::always_inline]] inline void v_store_pairs(float* out, VecPair pair) {
    const float32x4x2_t both = {{pair.first, pair.second}};
    vst2q_f32(out, both);
}

// Quantiser.

// The largest |x| as an integer over n floats, a multiple of 32.
inline std::uint32_t largest_magnitude(const float* x, std::size_t n) {
    uint32x4_t largest[4] = {vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0)};
    const uint32x4_t mask = vdupq_n_u32(0x7fffffffu);
    for (std::size_t i = 0; i < n; i += 16) {
        for (std::size_t j = 0; j < 4; ++j) {
            largest[j] = vmaxq_u32(largest[j], vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x + i + 4 * j)), mask));
        }
    }
    return vmaxvq_u32(vmaxq_u32(vmaxq_u32(largest[0], largest[1]), vmaxq_u32(largest[2], largest[3])));
}

// Sixteen floats to int8; returns the sum of these. Nothing needs clamping: |x * inverse| < 127.5.
[[gnu::always_inline]] inline std::int32_t quantize16(const float* x, float inverse, std::int8_t* q) {
    int32x4_t rounded[4];
    for (std::size_t j = 0; j < 4; ++j) rounded[j] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * j), inverse));
    const int16x8_t low = vcombine_s16(vqmovn_s32(rounded[0]), vqmovn_s32(rounded[1]));
    const int16x8_t high = vcombine_s16(vqmovn_s32(rounded[2]), vqmovn_s32(rounded[3]));
    const int8x16_t bytes = vcombine_s8(vqmovn_s16(low), vqmovn_s16(high));
    vst1q_s8(q, bytes);
    return vaddlvq_s8(bytes);
}

}  // namespace

}  // namespace hearth
