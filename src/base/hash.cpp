#include "base/hash.h"

#include <cstring>

namespace hearth {

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed) {
    constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;
    std::uint64_t state = mix64(seed + kStep + bytes.size());
    std::size_t offset = 0;
    for (; offset + 8 <= bytes.size(); offset += 8) {
        std::uint64_t word;
        std::memcpy(&word, bytes.data() + offset, 8);
        state = mix64((state ^ word) + kStep);
    }
    return mix64((state ^ few_bytes(bytes.data() + offset, bytes.size() - offset)) + kStep);
}

}  // namespace hearth
