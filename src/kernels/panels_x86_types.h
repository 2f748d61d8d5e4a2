// How each weight type is read from its x86 panel. Include after a vocabulary (panels_x86_avx2.h or
// panels_x86_avx512.h).
//   kOffset   weights come this much too large, so that they are unsigned
//   kLargest  the largest weight as it comes
//   kSigned   weights come signed (AVX2 alone)
//   kPeriod   sub-blocks of 32 columns after which the places of their bits repeat
//   kGroup    vectors whose products fit an int16 together (AVX2): two products a vector, each at most kLargest * 127
#pragma once

#include "kernels/panels_x86_layout.h"

namespace hearth {

namespace {

using x86::kVectorBytes;
using x86::Layout256;
using x86::Layout32;

// Vectors begin at a row: 0, or 8 for the second half of a panel with AVX2.
[[gnu::always_inline]] inline Ints vector_at(const std::byte* field, std::size_t index, std::size_t row) {
    return load_ints(field + index * kVectorBytes + 4 * row);
}

// kBits bits of every byte, from bit kFrom to bit kTo.
template <int kFrom, int kTo, int kBits>
[[gnu::always_inline]] inline Ints move_bits(Ints x) {
    return and_ints(shift_words<kTo - kFrom>(x), set_bytes(((1 << kBits) - 1) << kTo));
}

alignas(16) inline constexpr std::int8_t kIQ4Signed[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                           1,    13,   25,  38,  53,  69,  89,  113};
// The same, 128 larger, as unsigned bytes.
alignas(16) inline constexpr std::int8_t kIQ4Unsigned[16] = {1,    24,   45,   63,  79,  93,  106, 118,
                                                             -127, -115, -103, -90, -75, -59, -39, -15};
// 16 larger than kMXFP4Values.
alignas(16) inline constexpr std::int8_t kMXFP4Unsigned[16] = {16, 17, 18, 19, 20, 22, 24, 28,
                                                               16, 15, 14, 13, 12, 10, 8,  4};

[[gnu::always_inline]] inline Ints iq4_values(Ints nibbles) {
    return look_up(kSignedBytes ? kIQ4Signed : kIQ4Unsigned, nibbles);
}

// Blocks of 32. weight<v>: columns 4v .. 4v+3 of block `which` of a pair.

template <typename Block, std::size_t kV>
[[gnu::always_inline]] inline Ints nibbles_of(const std::byte* pair, std::size_t which, std::size_t row) {
    using Layout = Layout32<Block>;
    return move_bits<kV / 4 * 4, 0, 4>(vector_at(pair + Layout::kQuantsAt, which * Layout::kWords + kV % 4, row));
}
template <typename Block, int kV>
[[gnu::always_inline]] inline Ints fifth_bits_of(const std::byte* pair, std::size_t which, std::size_t row) {
    return move_bits<kV, 4, 1>(vector_at(pair + Layout32<Block>::kHighAt, which, row));
}

// What most types have in common.
template <typename BlockType>
struct Panel32 {
    using Block = BlockType;
    using Layout = Layout32<Block>;
    static constexpr bool kSigned = false;
    [[gnu::always_inline]] static Floats scale(const std::byte* pair, std::size_t which, std::size_t row) {
        return halves_to_floats(pair + which * 32 + 2 * row);
    }
};

struct PanelQ4_0 : Panel32<BlockQ4_0> {
    static constexpr std::int32_t kOffset = 8;
    static constexpr std::size_t kGroup = 8;
    template <std::size_t kV>
    [[gnu::always_inline]] static Ints weight(const std::byte* pair, std::size_t which, std::size_t row) {
        return nibbles_of<Block, kV>(pair, which, row);
    }
};
struct PanelQ4_1 : Panel32<BlockQ4_1> {
    static constexpr std::int32_t kOffset = 0;
    static constexpr std::size_t kGroup = 8;
    template <std::size_t kV>
    [[gnu::always_inline]] static Ints weight(const std::byte* pair, std::size_t which, std::size_t row) {
        return nibbles_of<Block, kV>(pair, which, row);
    }
};
struct PanelQ5_0 : Panel32<BlockQ5_0> {
    static constexpr std::int32_t kOffset = 16;
    static constexpr std::size_t kGroup = 4;
    template <std::size_t kV>
    [[gnu::always_inline]] static Ints weight(const std::byte* pair, std::size_t which, std::size_t row) {
        return or_ints(nibbles_of<Block, kV>(pair, which, row), fifth_bits_of<Block, kV>(pair, which, row));
    }
};
struct PanelQ5_1 : Panel32<BlockQ5_1> {
    static constexpr std::int32_t kOffset = 0;
    static constexpr std::size_t kGroup = 4;
    template <std::size_t kV>
    [[gnu::always_inline]] static Ints weight(const std::byte* pair, std::size_t which, std::size_t row) {
        return or_ints(nibbles_of<Block, kV>(pair, which, row), fifth_bits_of<Block, kV>(pair, which, row));
    }
};
struct PanelQ8_0 : Panel32<BlockQ8_0> {
    static constexpr bool kSigned = kSignedBytes;
    static constexpr std::int32_t kOffset = kSignedBytes ? 0 : 128;
    static constexpr std::size_t kGroup = 1;
    template <std::size_t kV>
    [[gnu::always_inline]] static Ints weight(const std::byte* pair, std::size_t which, std::size_t row) {
        const Ints bytes = vector_at(pair + Layout::kQuantsAt, which * Layout::kWords + kV, row);
        return kSignedBytes ? xor_ints(bytes, set_bytes(-128)) : bytes;
    }
};
struct PanelIQ4_NL : Panel32<BlockIQ4_NL> {
    static constexpr bool kSigned = kSignedBytes;
    static constexpr std::int32_t kOffset = kSignedBytes ? 0 : 128;
    static constexpr std::size_t kGroup = 1;
    template <std::size_t kV>
    [[gnu::always_inline]] static Ints weight(const std::byte* pair, std::size_t which, std::size_t row) {
        return iq4_values(nibbles_of<Block, kV>(pair, which, row));
    }
};
struct PanelMXFP4 : Panel32<BlockMXFP4> {
    static constexpr std::int32_t kOffset = 16;
    static constexpr std::size_t kGroup = 4;
    [[gnu::always_inline]] static Floats scale(const std::byte* pair, std::size_t which, std::size_t row) {
        return upper_halves_to_floats(pair + which * 32 + 2 * row);
    }
    template <std::size_t kV>
    [[gnu::always_inline]] static Ints weight(const std::byte* pair, std::size_t which, std::size_t row) {
        return look_up(kMXFP4Unsigned, nibbles_of<Block, kV>(pair, which, row));
    }
};

template <typename Type>
[[gnu::always_inline]] inline Floats minimum_of(const std::byte* pair, std::size_t which, std::size_t row) {
    if constexpr (!Type::Layout::kMinimum) return zero_floats();
    return halves_to_floats(pair + Type::Layout::kMinimumAt + which * 32 + 2 * row);
}

// Blocks of 256. weight<j, v>: columns 4v .. 4v+3 of sub-block group * kPeriod + j of 32 columns.

// Scales of two sub-blocks of 16 columns (pairs) or one of 32 (ints), as signed bytes.
template <typename Layout>
[[gnu::always_inline]] inline Ints scale_pairs(const std::byte* block, std::size_t j, std::size_t row) {
    return bytes_to_pairs(block + Layout::kScalesAt + (j * x86::kPanelRows + row) * 2);
}
template <typename Layout>
[[gnu::always_inline]] inline Ints scale_ints(const std::byte* block, std::size_t j, std::size_t row) {
    return bytes_to_ints(block + Layout::kScalesAt + j * x86::kPanelRows + row);
}

template <typename BlockType>
struct Panel256 {
    using Block = BlockType;
    using Layout = Layout256<Block>;
    static constexpr bool kSigned = false;
    static constexpr bool kMinimum = false;
    static constexpr bool kUnitScales = false;
    static constexpr std::int32_t kOffset = 0;
    [[gnu::always_inline]] static Ints minimum_pairs(const std::byte*, std::size_t, std::size_t) { return zero_ints(); }
};

// kPairScales: scales(j) are pairs of two sub-blocks of 16; otherwise ints of one sub-block of 32.
template <typename BlockType>
struct PanelK32 : Panel256<BlockType> {
    static constexpr bool kPairScales = false;
    [[gnu::always_inline]] static Ints scales(const std::byte* block, std::size_t j, std::size_t row) {
        return scale_ints<Layout256<BlockType>>(block, j, row);
    }
};
template <typename BlockType>
struct PanelK16 : Panel256<BlockType> {
    static constexpr bool kPairScales = true;
    [[gnu::always_inline]] static Ints scales(const std::byte* block, std::size_t j, std::size_t row) {
        return scale_pairs<Layout256<BlockType>>(block, j, row);
    }
};

struct PanelQ4_K : PanelK32<BlockQ4_K> {
    static constexpr bool kMinimum = true;
    static constexpr std::int32_t kLargest = 15;
    static constexpr std::size_t kPeriod = 2;
    static constexpr std::size_t kGroup = 8;
    [[gnu::always_inline]] static Ints minimum_pairs(const std::byte* block, std::size_t j, std::size_t row) {
        return pair_twice(bytes_to_ints(block + Layout::kMinimumsAt + j * x86::kPanelRows + row));
    }
    template <std::size_t kJ, std::size_t kV>
    [[gnu::always_inline]] static Ints weight(const std::byte* block, std::size_t group, std::size_t row) {
        return move_bits<kJ * 4, 0, 4>(vector_at(block + Layout::kLowAt, group * 8 + kV, row));
    }
};
struct PanelQ5_K : PanelK32<BlockQ5_K> {
    static constexpr bool kMinimum = true;
    static constexpr std::int32_t kLargest = 31;
    static constexpr std::size_t kPeriod = 2;
    static constexpr std::size_t kGroup = 4;
    [[gnu::always_inline]] static Ints minimum_pairs(const std::byte* block, std::size_t j, std::size_t row) {
        return pair_twice(bytes_to_ints(block + Layout::kMinimumsAt + j * x86::kPanelRows + row));
    }
    template <std::size_t kJ, std::size_t kV>
    [[gnu::always_inline]] static Ints weight(const std::byte* block, std::size_t group, std::size_t row) {
        const Ints low = move_bits<kJ * 4, 0, 4>(vector_at(block + Layout::kLowAt, group * 8 + kV, row));
        return or_ints(low,
                       move_bits<kJ, 4, 1>(shift_words_down(vector_at(block + Layout::kHighAt, kV, row), 2 * group)));
    }
};
struct PanelQ6_K : PanelK16<BlockQ6_K> {
    static constexpr std::int32_t kOffset = 32;
    static constexpr std::int32_t kLargest = 63;
    static constexpr std::size_t kPeriod = 4;
    static constexpr std::size_t kGroup = 2;
    template <std::size_t kJ, std::size_t kV>
    [[gnu::always_inline]] static Ints weight(const std::byte* block, std::size_t group, std::size_t row) {
        const Ints low = vector_at(block + Layout::kLowAt, group * 16 + kJ % 2 * 8 + kV, row);
        const Ints high = vector_at(block + Layout::kHighAt, group * 8 + kV, row);
        return or_ints(move_bits<kJ / 2 * 4, 0, 4>(low), move_bits<kJ * 2, 4, 2>(high));
    }
};
struct PanelQ2_K : PanelK16<BlockQ2_K> {
    static constexpr bool kMinimum = true;
    static constexpr std::int32_t kLargest = 3;
    static constexpr std::size_t kPeriod = 4;
    static constexpr std::size_t kGroup = 4;
    // A byte is scale and minimum, four bits each.
    [[gnu::always_inline]] static Ints scales(const std::byte* block, std::size_t j, std::size_t row) {
        return and_ints(scale_pairs<Layout>(block, j, row), set_ints(0x000f000f));
    }
    [[gnu::always_inline]] static Ints minimum_pairs(const std::byte* block, std::size_t j, std::size_t row) {
        return and_ints(shift_words<-4>(scale_pairs<Layout>(block, j, row)), set_ints(0x000f000f));
    }
    template <std::size_t kJ, std::size_t kV>
    [[gnu::always_inline]] static Ints weight(const std::byte* block, std::size_t group, std::size_t row) {
        return move_bits<kJ * 2, 0, 2>(vector_at(block + Layout::kLowAt, group * 8 + kV, row));
    }
};
struct PanelQ3_K : PanelK16<BlockQ3_K> {
    static constexpr std::int32_t kOffset = 4;
    static constexpr std::int32_t kLargest = 7;
    static constexpr std::size_t kPeriod = 4;
    static constexpr std::size_t kGroup = 4;
    template <std::size_t kJ, std::size_t kV>
    [[gnu::always_inline]] static Ints weight(const std::byte* block, std::size_t group, std::size_t row) {
        const Ints low = move_bits<kJ * 2, 0, 2>(vector_at(block + Layout::kLowAt, group * 8 + kV, row));
        return or_ints(low,
                       move_bits<kJ, 2, 1>(shift_words_down(vector_at(block + Layout::kHighAt, kV, row), 4 * group)));
    }
};
struct PanelIQ4_XS : PanelK32<BlockIQ4_XS> {
    static constexpr bool kSigned = kSignedBytes;
    static constexpr std::int32_t kOffset = kSignedBytes ? 0 : 128;
    static constexpr std::int32_t kLargest = 241;
    static constexpr std::size_t kPeriod = 1;
    static constexpr std::size_t kGroup = 1;
    template <std::size_t kJ, std::size_t kV>
    [[gnu::always_inline]] static Ints weight(const std::byte* block, std::size_t group, std::size_t row) {
        return iq4_values(move_bits<kV / 4 * 4, 0, 4>(vector_at(block + Layout::kLowAt, group * 4 + kV % 4, row)));
    }
};
struct PanelTQ2_0 : Panel256<BlockTQ2_0> {
    static constexpr bool kPairScales = false;
    static constexpr bool kUnitScales = true;
    static constexpr std::int32_t kOffset = 1;
    static constexpr std::int32_t kLargest = 3;
    static constexpr std::size_t kPeriod = 4;
    static constexpr std::size_t kGroup = 8;
    [[gnu::always_inline]] static Ints scales(const std::byte*, std::size_t, std::size_t) { return set_ints(1); }
    template <std::size_t kJ, std::size_t kV>
    [[gnu::always_inline]] static Ints weight(const std::byte* block, std::size_t group, std::size_t row) {
        return move_bits<kJ * 2, 0, 2>(vector_at(block + Layout::kLowAt, group * 8 + kV, row));
    }
};

}  // namespace

}  // namespace hearth
