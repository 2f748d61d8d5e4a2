// Packed weights on AArch64: thirty-two columns of the eight rows of a panel, and how they become sixteen vectors of
// int8. Vector 4 * s + p holds columns 8s to 8s + 7 of row 2p, then of row 2p + 1: the order of SMMLA, which SMULL can
// read as well (what SDOT reads are the same vectors with other weights in them, Order::Quads). A unit's integers come
// out shifted left by kFraction bits, which the conversion to float takes back exactly: so one operation less an
// unpacked vector.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace hearth {

namespace {

inline constexpr std::size_t kPanelRows = 8;
inline constexpr std::size_t kUnitColumns = 32;

// Codes of 32 columns of one row, a byte each; word s holds columns 8s to 8s + 7.
struct Words32 {
    std::uint64_t word[4];
};

[[gnu::always_inline]] inline constexpr std::uint64_t every_byte(std::uint8_t value) {
    return 0x0101010101010101u * value;
}
[[gnu::always_inline]] inline std::uint64_t load_word(const void* from) {
    std::uint64_t word;
    __builtin_memcpy(&word, from, sizeof word);
    return word;
}
// Word s of row r is half of vector 4 * s + p.
[[gnu::always_inline]] inline void store_word(std::byte* unit, std::size_t vector, std::size_t row,
                                              std::uint64_t word) {
    __builtin_memcpy(unit + 16 * vector + 8 * (row % 2), &word, sizeof word);
}
[[gnu::always_inline]] inline void merge_word(std::byte* unit, std::size_t vector, std::size_t row,
                                              std::uint64_t word) {
    store_word(unit, vector, row, word | load_word(unit + 16 * vector + 8 * (row % 2)));
}

[[gnu::always_inline]] inline uint8x16_t load_plane(const std::byte* unit, std::size_t vector) {
    return vld1q_u8(reinterpret_cast<const std::uint8_t*>(unit) + 16 * vector);
}
template <int kShift>
[[gnu::always_inline]] inline uint8x16_t shift_up(uint8x16_t x) {
    if constexpr (kShift == 0) return x;
    return vshlq_n_u8(x, kShift);
}
// The bits of `bits` where the mask is set, else those of `base`.
[[gnu::always_inline]] inline uint8x16_t insert_bits(uint8x16_t base, uint8x16_t bits, std::uint8_t mask) {
    return vbslq_u8(vdupq_n_u8(mask), bits, base);
}

// One token's 32 columns for bytes 16 h + c, h times the columns a from 16 on and c times the columns b before: a, then
// (-a, b) for eight columns of each, and for the other eight. (16 h + c) a - c a is 16 h a without taking h out of the
// bytes; so as they are they meet (a, 0), and what was masked out of them (-a, b): a row's two sums are 16 h a and c b.
[[gnu::always_inline]] inline void arrange_for_nibbles(const std::int8_t* x, std::int8_t* out) {
    const int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(x));
    const int8x16_t a = vld1q_s8(x + 16);
    const int64x2_t minus_a = vreinterpretq_s64_s8(vnegq_s8(a));
    vst1q_s8(out, a);
    vst1q_s8(out + 16, vreinterpretq_s8_s64(vzip1q_s64(minus_a, b)));
    vst1q_s8(out + 32, vreinterpretq_s8_s64(vzip2q_s64(minus_a, b)));
}

// The four vectors of row pair p, ascending columns.
struct RowPair {
    int8x16_t at[4];
};

// Row pairs as constants: the shifts of an unpack have to be constants.
template <std::size_t kP>
struct PairIndex {
    static constexpr std::size_t kIndex = kP;
};
template <typename Function>
[[gnu::always_inline]] inline void for_each_row_pair(const Function& function) {
    function(PairIndex<0>{});
    function(PairIndex<1>{});
    function(PairIndex<2>{});
    function(PairIndex<3>{});
}

[[gnu::always_inline]] inline RowPair signed_row_pair(uint8x16_t a, uint8x16_t b, uint8x16_t c, uint8x16_t d) {
    return {{vreinterpretq_s8_u8(a), vreinterpretq_s8_u8(b), vreinterpretq_s8_u8(c), vreinterpretq_s8_u8(d)}};
}

// Eight bits: as they are.
struct UnitBytes {
    static constexpr std::size_t kBytes = 256;
    static constexpr int kFraction = 0;
    static void pack(const Words32& codes, std::size_t row, std::byte* unit) {
        for (std::size_t s = 0; s < 4; ++s) store_word(unit, 4 * s + row / 2, row, codes.word[s]);
    }
    template <std::size_t kP>
    [[gnu::always_inline]] static RowPair row_pair(const std::byte* unit) {
        return signed_row_pair(load_plane(unit, kP), load_plane(unit, 4 + kP), load_plane(unit, 8 + kP),
                               load_plane(unit, 12 + kP));
    }
};

// Four bits: a byte of vector v < 8 holds the code of vector v below that of vector v + 8.
struct UnitNibbles {
    static constexpr std::size_t kBytes = 128;
    static void pack(const Words32& codes, std::size_t row, std::byte* unit) {
        for (std::size_t s = 0; s < 2; ++s) {
            store_word(unit, 4 * s + row / 2, row, codes.word[s] | (codes.word[s + 2] << 4));
        }
    }
};
struct UnitSignedNibbles : UnitNibbles {  // two's complement
    static constexpr int kFraction = 4;
    template <std::size_t kP>
    [[gnu::always_inline]] static RowPair row_pair(const std::byte* unit) {
        const uint8x16_t first = load_plane(unit, kP);
        const uint8x16_t second = load_plane(unit, 4 + kP);
        const uint8x16_t mask = vdupq_n_u8(0xf0);
        return signed_row_pair(vshlq_n_u8(first, 4), vshlq_n_u8(second, 4), vandq_u8(first, mask),
                               vandq_u8(second, mask));
    }
};
// The high one in two's complement, the low one eight too large: so a byte is sixteen times the first plus the second.
struct UnitMixedNibbles {
    static constexpr std::size_t kBytes = 128;
    static constexpr int kFraction = 4;
    static void pack(const Words32& codes, std::size_t row, std::byte* unit) {  // two's complement
        Words32 mixed = codes;
        for (std::size_t s = 0; s < 2; ++s) mixed.word[s] ^= every_byte(8);
        UnitNibbles::pack(mixed, row, unit);
    }
    template <std::size_t kP>
    [[gnu::always_inline]] static RowPair row_pair(const std::byte* unit) {
        const uint8x16_t first = load_plane(unit, kP);
        const uint8x16_t second = load_plane(unit, 4 + kP);
        const uint8x16_t mask = vdupq_n_u8(0xf0);
        const uint8x16_t eight = vdupq_n_u8(0x80);
        return signed_row_pair(veorq_u8(vshlq_n_u8(first, 4), eight), veorq_u8(vshlq_n_u8(second, 4), eight),
                               vandq_u8(first, mask), vandq_u8(second, mask));
    }
};
struct UnitUnsignedNibbles : UnitNibbles {
    static constexpr int kFraction = 0;
    template <std::size_t kP>
    [[gnu::always_inline]] static RowPair row_pair(const std::byte* unit) {
        const uint8x16_t first = load_plane(unit, kP);
        const uint8x16_t second = load_plane(unit, 4 + kP);
        const uint8x16_t mask = vdupq_n_u8(15);
        return signed_row_pair(vandq_u8(first, mask), vandq_u8(second, mask), vshrq_n_u8(first, 4),
                               vshrq_n_u8(second, 4));
    }
};
// For SDOT, in the order of Quads: a byte of vector g holds the code of a column of rows 0 to 3 below that of rows 4 to
// 7, which is less eight and in two's complement. So it is 16 (h - 8) + c, and meets activations as it is: less what c
// alone makes of them (and they are the same for both), that is sixteen times the sum of h - 8.
template <bool kLessEight>  // of the weights themselves
struct UnitQuadNibbles {
    static constexpr std::size_t kBytes = 128;
    static constexpr int kFraction = kLessEight ? 4 : 0;
    static void pack(const Words32& codes, std::size_t row, std::byte* unit) {
        const std::size_t p = row / 2;
        for (std::size_t s = 0; s < 4; ++s) {
            const std::size_t vector = 2 * s + p / 2;
            if (p % 2 == 0) {
                store_word(unit, vector, row, codes.word[s]);
            } else {
                merge_word(unit, vector, row, (codes.word[s] ^ every_byte(8)) << 4);
            }
        }
    }
    template <std::size_t kP>
    [[gnu::always_inline]] static uint8x16_t weights(uint8x16_t bytes) {
        if constexpr (kLessEight && kP % 2 == 0) return veorq_u8(vshlq_n_u8(bytes, 4), vdupq_n_u8(0x80));
        if constexpr (kLessEight && kP % 2 == 1) return vandq_u8(bytes, vdupq_n_u8(0xf0));
        if constexpr (!kLessEight && kP % 2 == 0) return vandq_u8(bytes, vdupq_n_u8(15));
        if constexpr (!kLessEight && kP % 2 == 1) return veorq_u8(vshrq_n_u8(bytes, 4), vdupq_n_u8(8));
    }
    template <std::size_t kP>
    [[gnu::always_inline]] static RowPair row_pair(const std::byte* unit) {
        return signed_row_pair(weights<kP>(load_plane(unit, kP / 2)), weights<kP>(load_plane(unit, 2 + kP / 2)),
                               weights<kP>(load_plane(unit, 4 + kP / 2)), weights<kP>(load_plane(unit, 6 + kP / 2)));
    }
};
alignas(16) inline constexpr std::int8_t kPanelIQ4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                                1,    13,   25,  38,  53,  69,  89,  113};
alignas(16) inline constexpr std::int8_t kPanelMXFP4Values[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                                                  0, -1, -2, -3, -4, -6, -8, -12};
template <const std::int8_t (&kTable)[16]>
struct UnitTableNibbles : UnitNibbles {
    static constexpr int kFraction = 0;
    template <std::size_t kP>
    [[gnu::always_inline]] static RowPair row_pair(const std::byte* unit) {
        const RowPair codes = UnitUnsignedNibbles::row_pair<kP>(unit);
        const int8x16_t table = vld1q_s8(kTable);
        RowPair out;
        for (std::size_t s = 0; s < 4; ++s) out.at[s] = vqtbl1q_s8(table, vreinterpretq_u8_s8(codes.at[s]));
        return out;
    }
};

// Five bits. Vectors 0 to 7 keep their top bit in the plane of bits, vectors 8 to 15 their lowest: then both need two
// operations, with the wanted plane bit at 7 or at 3 and one shift for both.
struct UnitFiveBits {
    static constexpr std::size_t kBytes = 160;
    static constexpr int kFraction = 3;
    static void pack(const Words32& codes, std::size_t row, std::byte* unit) {
        const std::size_t p = row / 2;
        for (std::size_t s = 0; s < 2; ++s) {
            const std::uint64_t first = codes.word[s];
            const std::uint64_t second = codes.word[s + 2];
            store_word(unit, 4 * s + p, row, (first & every_byte(15)) | ((second >> 1) & every_byte(15)) << 4);
            const std::uint64_t bits = ((first >> 4) & every_byte(1)) << (7 - p) | (second & every_byte(1)) << (3 - p);
            if (p == 0) {
                store_word(unit, 8 + s, row, bits);
            } else {
                merge_word(unit, 8 + s, row, bits);
            }
        }
    }
    template <std::size_t kP>
    [[gnu::always_inline]] static RowPair row_pair(const std::byte* unit) {
        const uint8x16_t first = load_plane(unit, kP);
        const uint8x16_t second = load_plane(unit, 4 + kP);
        const uint8x16_t first_bits = shift_up<kP>(load_plane(unit, 8));
        const uint8x16_t second_bits = shift_up<kP>(load_plane(unit, 9));
        const uint8x16_t mask = vdupq_n_u8(0xf0);
        return signed_row_pair(insert_bits(vshlq_n_u8(first, 3), first_bits, 0x80),
                               insert_bits(vshlq_n_u8(second, 3), second_bits, 0x80),
                               insert_bits(vandq_u8(first, mask), first_bits, 0x08),
                               insert_bits(vandq_u8(second, mask), second_bits, 0x08));
    }
};

// For SDOT, which is signed: five bits without a sign, kept as what they are less sixteen.
struct UnitLessSixteen : UnitFiveBits {
    static void pack(const Words32& codes, std::size_t row, std::byte* unit) {
        Words32 less = codes;
        for (std::uint64_t& word : less.word) word ^= every_byte(16);
        UnitFiveBits::pack(less, row, unit);
    }
    template <std::size_t kP>
    [[gnu::always_inline]] static RowPair row_pair(const std::byte* unit) {
        RowPair out = UnitFiveBits::row_pair<kP>(unit);
        for (int8x16_t& w : out.at) w = veorq_s8(w, vdupq_n_s8(-128));
        return out;
    }
};

// Six bits: three vectors of a row pair hold the codes of the first 24 columns in their upper six bits, and below each
// two bits of the fourth vector.
struct UnitSixBits {
    static constexpr std::size_t kBytes = 192;
    static constexpr int kFraction = 2;
    static void pack(const Words32& codes, std::size_t row, std::byte* unit) {
        for (std::size_t s = 0; s < 3; ++s) {
            const std::uint64_t shared = (codes.word[3] >> (2 * s)) & every_byte(3);
            store_word(unit, 3 * (row / 2) + s, row, codes.word[s] << 2 | shared);
        }
    }
    template <std::size_t kP>
    [[gnu::always_inline]] static RowPair row_pair(const std::byte* unit) {
        const uint8x16_t first = load_plane(unit, 3 * kP);
        const uint8x16_t second = load_plane(unit, 3 * kP + 1);
        const uint8x16_t third = load_plane(unit, 3 * kP + 2);
        const uint8x16_t mask = vdupq_n_u8(0xfc);
        const uint8x16_t fourth = vshlq_n_u8(vsliq_n_u8(vsliq_n_u8(first, second, 2), third, 4), 2);
        return signed_row_pair(vandq_u8(first, mask), vandq_u8(second, mask), vandq_u8(third, mask), fourth);
    }
};

// Two bits: field s of vector p is vector 4 * s + p. kOffset is taken off.
template <std::uint8_t kOffset>
struct UnitTwoBits {
    static constexpr std::size_t kBytes = 64;
    static constexpr int kFraction = 0;
    static void pack(const Words32& codes, std::size_t row, std::byte* unit) {
        const std::uint64_t* w = codes.word;
        store_word(unit, row / 2, row, w[0] | w[1] << 2 | w[2] << 4 | w[3] << 6);
    }
    [[gnu::always_inline]] static uint8x16_t without_offset(uint8x16_t x) {
        if constexpr (kOffset == 0) return x;
        return vsubq_u8(x, vdupq_n_u8(kOffset));
    }
    template <std::size_t kP>
    [[gnu::always_inline]] static RowPair row_pair(const std::byte* unit) {
        const uint8x16_t bytes = load_plane(unit, kP);
        const uint8x16_t three = vdupq_n_u8(3);
        return signed_row_pair(
            without_offset(vandq_u8(bytes, three)), without_offset(vandq_u8(vshrq_n_u8(bytes, 2), three)),
            without_offset(vandq_u8(vshrq_n_u8(bytes, 4), three)), without_offset(vshrq_n_u8(bytes, 6)));
    }
};

// Three bits, two's complement: the two low ones as above, the top ones in two planes.
struct UnitThreeBits {
    static constexpr std::size_t kBytes = 96;
    static constexpr int kFraction = 5;
    static void pack(const Words32& codes, std::size_t row, std::byte* unit) {
        Words32 low;
        std::uint64_t high[2] = {};
        const std::size_t p = row / 2;
        for (std::size_t s = 0; s < 4; ++s) {
            low.word[s] = codes.word[s] & every_byte(3);
            const std::size_t vector = 4 * s + p;
            high[vector / 8] |= ((codes.word[s] >> 2) & every_byte(1)) << (7 - vector % 8);
        }
        UnitTwoBits<0>::pack(low, row, unit);
        for (std::size_t i = 0; i < 2; ++i) {
            if (p == 0) {
                store_word(unit, 4 + i, row, high[i]);
            } else {
                merge_word(unit, 4 + i, row, high[i]);
            }
        }
    }
    template <std::size_t kP>
    [[gnu::always_inline]] static RowPair row_pair(const std::byte* unit) {
        const uint8x16_t bytes = load_plane(unit, kP);
        const uint8x16_t first = load_plane(unit, 4);
        const uint8x16_t second = load_plane(unit, 5);
        const uint8x16_t mask = vdupq_n_u8(0x60);  // each field goes to bits 6 and 5, its top bit to 7
        return signed_row_pair(insert_bits(vandq_u8(vshlq_n_u8(bytes, 5), mask), shift_up<kP>(first), 0x80),
                               insert_bits(vandq_u8(vshlq_n_u8(bytes, 3), mask), shift_up<kP + 4>(first), 0x80),
                               insert_bits(vandq_u8(vshlq_n_u8(bytes, 1), mask), shift_up<kP>(second), 0x80),
                               insert_bits(vandq_u8(vshrq_n_u8(bytes, 1), mask), shift_up<kP + 4>(second), 0x80));
    }
};

}  // namespace

}  // namespace hearth
