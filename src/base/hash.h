// A fast 64-bit hash for runs, blocks and tables. Not cryptographic (see sha256.h); stable across machines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace hearth {

// Bijective mixing of 64 bits (the finaliser of SplitMix64).
constexpr std::uint64_t mix64(std::uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// Fewer than eight bytes as a number, by loads that overlap: texts are short, and copying them takes a call.
inline std::uint64_t few_bytes(const std::byte* bytes, std::size_t count) {
    if (count >= 4) {
        std::uint32_t first;
        std::uint32_t last;
        std::memcpy(&first, bytes, 4);
        std::memcpy(&last, bytes + count - 4, 4);
        return first | static_cast<std::uint64_t>(last) << (8 * (count - 4));
    }
    if (count == 0) return 0;
    const auto shifted = [&](std::size_t i) { return std::to_integer<std::uint64_t>(bytes[i]) << (8 * i); };
    return shifted(0) | shifted(count / 2) | shifted(count - 1);
}

// Chains `bytes` onto `seed`: hash(b, hash(a)) depends on both and on their order.
std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);

}  // namespace hearth
