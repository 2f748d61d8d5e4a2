// The panels of AArch64, layouts "aarch64-8x8.2" and, with another Q4_0, "aarch64-i8mm-8x8.1", and in another order,
// with another Q4_K too, "aarch64-dotprod-8x4.1": per weight type the bytes of a block of eight rows and how they are
// read. A block is a header (scales and minimums of the eight rows) and then its units of 32 columns.
#pragma once

#include "kernels/panels_arm_units.h"
#include "tensor/blocks.h"

namespace hearth {

namespace {

struct Floats8 {
    float32x4_t low;  // rows 0 to 3
    float32x4_t high;
};

// The last panel may have fewer rows.
inline void store_rows8(float* out, std::size_t rows, Floats8 values) {
    if (rows >= kPanelRows) {
        vst1q_f32(out, values.low);
        vst1q_f32(out + 4, values.high);
        return;
    }
    float buffer[kPanelRows];
    vst1q_f32(buffer, values.low);
    vst1q_f32(buffer + 4, values.high);
    for (std::size_t i = 0; i < rows; ++i) out[i] = buffer[i];
}

[[gnu::always_inline]] inline Floats8 load_halves8(const std::byte* from) {
    const float16x8_t halves = vreinterpretq_f16_u16(vld1q_u16(reinterpret_cast<const std::uint16_t*>(from)));
    return {vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
}

// The codes of two rows of nibbles: element i of 32 is the low nibble of byte i, element i + 16 its high one.
inline Words32 nibble_words(const std::uint8_t* q) {
    const std::uint64_t a = load_word(q);
    const std::uint64_t b = load_word(q + 8);
    return {{a & every_byte(15), b & every_byte(15), (a >> 4) & every_byte(15), (b >> 4) & every_byte(15)}};
}
// A field of `mask` at `shift` in each of 32 bytes.
inline Words32 field_words(const std::uint8_t* q, std::size_t shift, std::uint8_t mask) {
    Words32 out;
    for (std::size_t s = 0; s < 4; ++s) out.word[s] = (load_word(q + 8 * s) >> shift) & every_byte(mask);
    return out;
}
inline Words32 join(const Words32& low, const Words32& high, std::size_t shift) {
    Words32 out;
    for (std::size_t s = 0; s < 4; ++s) out.word[s] = low.word[s] | high.word[s] << shift;
    return out;
}
// Bit i of four bytes as byte i.
inline Words32 bit_words(const std::uint8_t* bits) {
    Words32 out;
    for (std::size_t s = 0; s < 4; ++s) {
        const std::uint64_t each = every_byte(bits[s]) & 0x8040201008040201u;
        out.word[s] = ((each + every_byte(0x7f)) >> 7) & every_byte(1);
    }
    return out;
}

// Blocks of 32: eight f16 scales, with minimums eight f16 of those, one unit.

template <typename GgufBlock, typename UnitType, std::uint8_t kFlipped, bool kHasMinimum>
struct Panel32 {
    using Block = GgufBlock;
    using Unit = UnitType;
    static constexpr std::size_t kColumns = kBlock32;
    static constexpr std::uint8_t kFlip = kFlipped;  // turns the code of the file into two's complement
    static constexpr bool kMinimum = kHasMinimum;
    static constexpr bool kUnsigned = kHasMinimum;
    static constexpr std::size_t kUnitsAt = kHasMinimum ? 32 : 16;
    static constexpr std::size_t kBlockBytes = kUnitsAt + Unit::kBytes;

    static void pack_header(const Block* const (&rows)[kPanelRows], std::byte* out) {
        for (std::size_t r = 0; r < kPanelRows; ++r) {
            __builtin_memset(out + 2 * r, 0, 2);
            if (rows[r] != nullptr) __builtin_memcpy(out + 2 * r, &rows[r]->d, 2);
            if constexpr (kMinimum) {
                __builtin_memset(out + 16 + 2 * r, 0, 2);
                if (rows[r] != nullptr) __builtin_memcpy(out + 16 + 2 * r, &rows[r]->m, 2);
            }
        }
    }
    [[gnu::always_inline]] static Floats8 scales(const std::byte* block) { return load_halves8(block); }
    [[gnu::always_inline]] static Floats8 minimums(const std::byte* block) { return load_halves8(block + 16); }
};

struct PanelQ4_0 : Panel32<BlockQ4_0, UnitSignedNibbles, 8, false> {
    static Words32 codes(const Block& b, std::size_t) { return nibble_words(b.q); }
};
// With the int8 matrix multiply extension.
struct PanelMixedQ4_0 : Panel32<BlockQ4_0, UnitMixedNibbles, 8, false> {
    static Words32 codes(const Block& b, std::size_t) { return nibble_words(b.q); }
};
// With the dot product extension.
struct PanelQuadQ4_0 : Panel32<BlockQ4_0, UnitQuadNibbles<true>, 0, false> {
    static Words32 codes(const Block& b, std::size_t) { return nibble_words(b.q); }
};
struct PanelQ4_1 : Panel32<BlockQ4_1, UnitUnsignedNibbles, 0, true> {
    static Words32 codes(const Block& b, std::size_t) { return nibble_words(b.q); }
};
struct PanelQ5_0 : Panel32<BlockQ5_0, UnitFiveBits, 16, false> {
    static Words32 codes(const Block& b, std::size_t) { return join(nibble_words(b.q), bit_words(b.high), 4); }
};
struct PanelQ5_1 : Panel32<BlockQ5_1, UnitFiveBits, 0, true> {
    static Words32 codes(const Block& b, std::size_t) { return join(nibble_words(b.q), bit_words(b.high), 4); }
};
struct PanelQ8_0 : Panel32<BlockQ8_0, UnitBytes, 0, false> {
    static Words32 codes(const Block& b, std::size_t) {
        return {{load_word(b.q), load_word(b.q + 8), load_word(b.q + 16), load_word(b.q + 24)}};
    }
};
struct PanelIQ4_NL : Panel32<BlockIQ4_NL, UnitTableNibbles<kPanelIQ4Values>, 0, false> {
    static Words32 codes(const Block& b, std::size_t) { return nibble_words(b.q); }
};
// The header is eight exponents: 2^(exponent - 128), of which the two smallest are subnormal.
struct PanelMXFP4 {
    using Block = BlockMXFP4;
    using Unit = UnitTableNibbles<kPanelMXFP4Values>;
    static constexpr std::size_t kColumns = kBlock32;
    static constexpr std::uint8_t kFlip = 0;
    static constexpr bool kMinimum = false;
    static constexpr bool kUnsigned = false;
    static constexpr std::size_t kUnitsAt = 8;
    static constexpr std::size_t kBlockBytes = kUnitsAt + Unit::kBytes;

    static Words32 codes(const Block& b, std::size_t) { return nibble_words(b.q); }
    static void pack_header(const Block* const (&rows)[kPanelRows], std::byte* out) {
        for (std::size_t r = 0; r < kPanelRows; ++r) {
            out[r] = rows[r] != nullptr ? static_cast<std::byte>(rows[r]->exponent) : std::byte{0};
        }
    }
    [[gnu::always_inline]] static float32x4_t power_of_two(uint32x4_t exponent) {
        const uint32x4_t normal = vshlq_n_u32(vsubq_u32(exponent, vdupq_n_u32(1)), 23);
        const uint32x4_t subnormal = vshlq_u32(vdupq_n_u32(0x00200000), vreinterpretq_s32_u32(exponent));
        return vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(exponent, vdupq_n_u32(2)), subnormal, normal));
    }
    [[gnu::always_inline]] static Floats8 scales(const std::byte* block) {
        const uint16x8_t wide = vmovl_u8(vld1_u8(reinterpret_cast<const std::uint8_t*>(block)));
        return {power_of_two(vmovl_u16(vget_low_u16(wide))), power_of_two(vmovl_high_u16(wide))};
    }
    [[gnu::always_inline]] static Floats8 minimums(const std::byte* block) { return scales(block); }
};

// Blocks of 256: eight f16 scales d, perhaps eight of dmin, the integer scales of each unit for the eight rows (one
// byte a sub-block), perhaps the integer minimums for the eight rows as SMMLA wants them, eight units.

struct SubScales {
    int16x8_t first;   // of a unit's sub-block, or its first sixteen columns, per row
    int16x8_t second;  // of the other sixteen
};
// Sum over sub-blocks of minimum * sum of activations = `whole` . sums of 32 + `even` . sums of the even sixteens.
struct MinimumVectors {
    int8x16_t whole;  // row 2p, row 2p + 1
    int8x16_t even;
};

enum class Minimums { None, Per32, Per16 };

template <typename GgufBlock, typename UnitType, std::uint8_t kFlipped, std::size_t kScaleBytesAUnit, bool kSixteens,
          Minimums kMinimumKind, bool kUnsignedWeights>
struct Panel256 {
    using Block = GgufBlock;
    using Unit = UnitType;
    static constexpr std::size_t kColumns = kBlock256;
    static constexpr std::uint8_t kFlip = kFlipped;
    static constexpr Minimums kMinimums = kMinimumKind;
    static constexpr bool kMinimum = kMinimumKind != Minimums::None;
    static constexpr bool kUnsigned = kUnsignedWeights;
    static constexpr bool kSub16 = kSixteens;
    static constexpr bool kScaled = kScaleBytesAUnit > 0;
    static constexpr std::size_t kScaleBytes = kScaleBytesAUnit;
    static constexpr std::size_t kScalesAt = kMinimum ? 32 : 16;
    static constexpr std::size_t kMinimumsAt = kScalesAt + 8 * kScaleBytes;
    static constexpr std::size_t kUnitsAt = kMinimumsAt + (kMinimum ? 64 : 0);
    static constexpr std::size_t kBlockBytes = kUnitsAt + 8 * Unit::kBytes;

    [[gnu::always_inline]] static Floats8 scales(const std::byte* block) { return load_halves8(block); }
    [[gnu::always_inline]] static Floats8 minimums(const std::byte* block) { return load_halves8(block + 16); }
    // Rows in ascending order.
    [[gnu::always_inline]] static SubScales sub_scales(const std::byte* block, std::size_t unit) {
        const auto* at = reinterpret_cast<const std::int8_t*>(block + kScalesAt + unit * kScaleBytes);
        if constexpr (!kScaled) return {vdupq_n_s16(1), vdupq_n_s16(1)};
        if constexpr (!kSub16) {
            const int16x8_t scale = vmovl_s8(vld1_s8(at));
            return {scale, scale};
        }
        return halves(load_scales16(at));
    }
    // Rows in the order 0, 2, 1, 3, 4, 6, 5, 7; for sub-blocks of sixteen columns.
    [[gnu::always_inline]] static SubScales crossed_scales(const std::byte* block, std::size_t unit) {
        alignas(16) static constexpr std::uint8_t kCrossed[16] = {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15};
        const auto* at = reinterpret_cast<const std::int8_t*>(block + kScalesAt + unit * kScaleBytes);
        return halves(vqtbl1q_s8(load_scales16(at), vld1q_u8(kCrossed)));
    }
    [[gnu::always_inline]] static MinimumVectors minimum_vectors(const std::byte* block, std::size_t pair) {
        const uint8x16_t bytes = load_plane(block + kMinimumsAt, pair);
        if constexpr (kMinimums == Minimums::Per16) {
            const uint8x16_t odd = vshrq_n_u8(bytes, 4);
            return {vreinterpretq_s8_u8(odd), vreinterpretq_s8_u8(vsubq_u8(vandq_u8(bytes, vdupq_n_u8(15)), odd))};
        }
        return {vreinterpretq_s8_u8(bytes), vdupq_n_s8(0)};
    }

private:
    // Two sub-blocks of sixteen columns, eight rows each.
    [[gnu::always_inline]] static int8x16_t load_scales16(const std::int8_t* at) {
        if constexpr (kScaleBytes == 16) return vld1q_s8(at);
        const uint8x8_t nibbles = vreinterpret_u8_s8(vld1_s8(at));
        return vreinterpretq_s8_u8(vcombine_u8(vand_u8(nibbles, vdup_n_u8(15)), vshr_n_u8(nibbles, 4)));
    }
    [[gnu::always_inline]] static SubScales halves(int8x16_t both) {
        return {vmovl_s8(vget_low_s8(both)), vmovl_high_s8(both)};
    }

protected:
    static void set_halves(std::byte* out, std::size_t row, Half d) { __builtin_memcpy(out + 2 * row, &d, 2); }
    // Scale of sub-block j (of 32, or of 16 columns), one byte.
    static void set_scale(std::byte* out, std::size_t j, std::size_t row, int scale) {
        out[kScalesAt + 8 * j + row] = static_cast<std::byte>(scale);
    }
    static void set_minimum(std::byte* out, std::size_t j, std::size_t row, int minimum) {
        out[kMinimumsAt + 8 * row + j] = static_cast<std::byte>(minimum);
    }
};

// Eight 6-bit scales and eight 6-bit minimums in 12 bytes: the first four whole in bytes 0-3 (scales) and 4-7
// (minimums), the others with four bits in bytes 8-11 and their top two above the first four.
inline int packed_scale_k(const std::uint8_t* packed, std::size_t j) {
    return j < 4 ? packed[j] & 63 : (packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4);
}
inline int packed_minimum_k(const std::uint8_t* packed, std::size_t j) {
    return j < 4 ? packed[j + 4] & 63 : (packed[j + 4] >> 4) | ((packed[j] >> 6) << 4);
}

template <typename GgufBlock, typename UnitType>
struct PanelScalesK : Panel256<GgufBlock, UnitType, 0, 8, false, Minimums::Per32, true> {
    static void pack_row_header(const GgufBlock& b, std::size_t row, std::byte* out) {
        PanelScalesK::set_halves(out, row, b.d);
        PanelScalesK::set_halves(out + 16, row, b.dmin);
        for (std::size_t j = 0; j < 8; ++j) {
            PanelScalesK::set_scale(out, j, row, packed_scale_k(b.scales, j));
            PanelScalesK::set_minimum(out, j, row, packed_minimum_k(b.scales, j));
        }
    }
};
template <typename UnitType>
struct PanelNibblesK : PanelScalesK<BlockQ4_K, UnitType> {
    static Words32 codes(const BlockQ4_K& b, std::size_t unit) {
        return field_words(b.q + unit / 2 * 32, unit % 2 * 4, 15);
    }
};
struct PanelQ4_K : PanelNibblesK<UnitUnsignedNibbles> {};
struct PanelQuadQ4_K : PanelNibblesK<UnitQuadNibbles<false>> {};  // with the dot product extension
template <typename UnitType>
struct PanelFiveBitsK : PanelScalesK<BlockQ5_K, UnitType> {
    static Words32 codes(const BlockQ5_K& b, std::size_t unit) {
        return join(field_words(b.q + unit / 2 * 32, unit % 2 * 4, 15), field_words(b.high, unit, 1), 4);
    }
};
struct PanelQ5_K : PanelFiveBitsK<UnitFiveBits> {};
struct PanelQuadQ5_K : PanelFiveBitsK<UnitLessSixteen> {};  // with the dot product extension
struct PanelQ6_K : Panel256<BlockQ6_K, UnitSixBits, 32, 16, true, Minimums::None, false> {
    static Words32 codes(const Block& b, std::size_t unit) {
        const std::size_t half = unit / 4;
        return join(field_words(b.low + half * 64 + unit % 2 * 32, unit % 4 / 2 * 4, 15),
                    field_words(b.high + half * 32, unit % 4 * 2, 3), 4);
    }
    static void pack_row_header(const Block& b, std::size_t row, std::byte* out) {
        set_halves(out, row, b.d);
        for (std::size_t j = 0; j < 16; ++j) set_scale(out, j, row, b.scales[j]);
    }
};
struct PanelQ3_K : Panel256<BlockQ3_K, UnitThreeBits, 4, 16, true, Minimums::None, false> {
    static Words32 codes(const Block& b, std::size_t unit) {
        return join(field_words(b.q + unit / 4 * 32, unit % 4 * 2, 3), field_words(b.high, unit, 1), 2);
    }
    static void pack_row_header(const Block& b, std::size_t row, std::byte* out) {
        set_halves(out, row, b.d);
        for (std::size_t j = 0; j < 16; ++j) {
            const int low = j < 8 ? b.scales[j] & 15 : b.scales[j - 8] >> 4;
            set_scale(out, j, row, (low | (((b.scales[8 + j % 4] >> (j / 4 * 2)) & 3) << 4)) - 32);
        }
    }
};
// Scales and minimums have four bits: two sub-blocks a byte.
struct PanelQ2_K : Panel256<BlockQ2_K, UnitTwoBits<0>, 0, 8, true, Minimums::Per16, true> {
    static Words32 codes(const Block& b, std::size_t unit) { return field_words(b.q + unit / 4 * 32, unit % 4 * 2, 3); }
    static void pack_row_header(const Block& b, std::size_t row, std::byte* out) {
        set_halves(out, row, b.d);
        set_halves(out + 16, row, b.dmin);
        for (std::size_t j = 0; j < 8; ++j) {
            const int first = b.scales[2 * j];
            const int second = b.scales[2 * j + 1];
            set_scale(out, j, row, (first & 15) | (second & 15) << 4);
            set_minimum(out, j, row, first >> 4 | (second >> 4) << 4);
        }
    }
};
struct PanelIQ4_XS : Panel256<BlockIQ4_XS, UnitTableNibbles<kPanelIQ4Values>, 0, 8, false, Minimums::None, false> {
    static Words32 codes(const Block& b, std::size_t unit) { return nibble_words(b.q + unit * 16); }
    static void pack_row_header(const Block& b, std::size_t row, std::byte* out) {
        set_halves(out, row, b.d);
        for (std::size_t j = 0; j < 8; ++j) {
            const int low = (b.scales_low[j / 2] >> (j % 2 * 4)) & 15;
            set_scale(out, j, row, (low | (((b.scales_high >> (j * 2)) & 3) << 4)) - 32);
        }
    }
};
struct PanelTQ2_0 : Panel256<BlockTQ2_0, UnitTwoBits<1>, 0, 0, false, Minimums::None, false> {
    static Words32 codes(const Block& b, std::size_t unit) { return field_words(b.q + unit / 4 * 32, unit % 4 * 2, 3); }
    static void pack_row_header(const Block& b, std::size_t row, std::byte* out) { set_halves(out, row, b.d); }
};

// The codes of a unit as numbers, vector 4 * s + p as it is packed.
template <typename Panel>
[[gnu::always_inline]] inline void widen_weights(const std::byte* unit, int8x16_t (&out)[16]) {
    constexpr int kFraction = Panel::Unit::kFraction;
    for_each_row_pair([&](auto pair) {
        constexpr std::size_t kP = decltype(pair)::kIndex;
        const RowPair w = Panel::Unit::template row_pair<kP>(unit);
        for (std::size_t s = 0; s < 4; ++s) {
            if constexpr (kFraction == 0) {
                out[4 * s + kP] = w.at[s];
            } else if constexpr (Panel::kUnsigned) {
                out[4 * s + kP] = vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(w.at[s]), kFraction));
            } else {
                out[4 * s + kP] = vshrq_n_s8(w.at[s], kFraction);
            }
        }
    });
}

}  // namespace

}  // namespace hearth
