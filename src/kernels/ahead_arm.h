// What to ask of memory while weights are multiplied. They are read once and in one sequence, yet on a Neoverse-V1 a
// quarter more comes when they are asked for some pages ahead, into the third cache: from there the core fetches a lone
// sequence by itself. Into the second cache it is a tenth less. Less than a page ahead it slows: what the core fetches
// by itself seems to end with the page.
#pragma once

#include <cstddef>

#include "base/memory.h"

namespace hearth {

namespace {

inline constexpr std::size_t kAheadBytes = std::size_t{12} << 10;

// Past the end of the weights there may be others, or nothing; asking does no harm.
template <std::size_t kBytes>
[[gnu::always_inline]] inline void fetch_ahead(const std::byte* weights) {
    for (std::size_t i = 0; i < kBytes; i += kCacheLine) fetch_line(weights + kAheadBytes + i);
}

}  // namespace

}  // namespace hearth
