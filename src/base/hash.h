// A fast 64-bit hash for runs, blocks and tables. Not cryptographic (see sha256.h); stable across machines.
#pragma once

#include <cstddef>
#include <cstdint>
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

// Chains `bytes` onto `seed`: hash(b, hash(a)) depends on both and on their order.
std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);

}  // namespace hearth
