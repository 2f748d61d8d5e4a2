// A counter-based random number: the same (seed, position, draw) gives the same number on every path that leads there.
#pragma once

#include <cstdint>

#include "base/hash.h"

namespace hearth {

constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t position, std::uint64_t draw = 0) {
    std::uint64_t x = mix64(seed + 0x9e3779b97f4a7c15u);
    x = mix64(x ^ (position + 0xd1b54a32d192ed03u));
    return mix64(x ^ (draw + 0x8cb92ba72f3d8dd7u));
}

// Uniform in [0, 1), 53 bits.
constexpr double random_unit(std::uint64_t seed, std::uint64_t position, std::uint64_t draw = 0) {
    return static_cast<double>(random_bits(seed, position, draw) >> 11) * 0x1p-53;
}

}  // namespace hearth
