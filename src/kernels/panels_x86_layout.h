// The bytes of an x86 panel: sixteen rows, four columns of each in one 64-byte vector, so that a 32-bit lane is a row.
// AVX-512 reads a vector whole, AVX2 in two halves of eight rows. The nibbles, bits and bytes of GGUF keep their order:
// dword w of a row's field becomes lane `row` of vector w. Every block is a whole number of vectors.
#pragma once

#include <cstddef>

#include "tensor/blocks.h"

namespace hearth::x86 {

inline constexpr std::size_t kPanelRows = 16;
inline constexpr std::size_t kVectorBytes = 64;

// Types in blocks of 32 columns: two blocks together, d of both first (f16; MXFP4: the upper half of a float).
template <typename Block>
struct Layout32 {
    static constexpr bool kMinimum = requires(Block b) { b.m; };
    static constexpr bool kFifthBit = requires(Block b) { b.high; };
    static constexpr std::size_t kWords = sizeof(Block::q) / 4;  // vectors of q in a block
    static constexpr std::size_t kMinimumAt = 64;
    static constexpr std::size_t kHighAt = kMinimumAt + (kMinimum ? 64 : 0);
    static constexpr std::size_t kQuantsAt = kHighAt + (kFifthBit ? 2 * kVectorBytes : 0);
    static constexpr std::size_t kColumns = 64;
    static constexpr std::size_t kBytes = kQuantsAt + 2 * kWords * kVectorBytes;
};

// Types in blocks of 256: d, dmin, scales as whole bytes (pairs of neighbours where there is one for 16 columns),
// minimums, then the planes of bits.
template <typename Block>
struct Layout256;

template <>
struct Layout256<BlockQ4_K> {
    static constexpr std::size_t kScalesAt = 64;
    static constexpr std::size_t kMinimumsAt = 192;
    static constexpr std::size_t kLowAt = 320;
    static constexpr std::size_t kBytes = kLowAt + 2048;
};
template <>
struct Layout256<BlockQ5_K> {
    static constexpr std::size_t kScalesAt = 64;
    static constexpr std::size_t kMinimumsAt = 192;
    static constexpr std::size_t kHighAt = 320;
    static constexpr std::size_t kLowAt = kHighAt + 512;
    static constexpr std::size_t kBytes = kLowAt + 2048;
};
template <>
struct Layout256<BlockQ6_K> {
    static constexpr std::size_t kScalesAt = 64;
    static constexpr std::size_t kHighAt = 320;
    static constexpr std::size_t kLowAt = kHighAt + 1024;
    static constexpr std::size_t kBytes = kLowAt + 2048;
};
template <>
struct Layout256<BlockQ2_K> {
    static constexpr std::size_t kScalesAt = 64;
    static constexpr std::size_t kLowAt = 320;
    static constexpr std::size_t kBytes = kLowAt + 1024;
};
template <>
struct Layout256<BlockQ3_K> {
    static constexpr std::size_t kScalesAt = 64;
    static constexpr std::size_t kHighAt = 320;
    static constexpr std::size_t kLowAt = kHighAt + 512;
    static constexpr std::size_t kBytes = kLowAt + 1024;
};
template <>
struct Layout256<BlockIQ4_XS> {
    static constexpr std::size_t kScalesAt = 64;
    static constexpr std::size_t kLowAt = 192;
    static constexpr std::size_t kBytes = kLowAt + 2048;
};
template <>
struct Layout256<BlockTQ2_0> {
    static constexpr std::size_t kLowAt = 64;
    static constexpr std::size_t kBytes = kLowAt + 1024;
};

}  // namespace hearth::x86
