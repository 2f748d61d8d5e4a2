#include "base/hash.h"

#include <cstring>

namespace hearth {

namespace {

// Fewer than eight bytes as a number, by loads that overlap: texts are short, and copying them takes a call.
std::uint64_t few_bytes(const std::byte* bytes, std::size_t count) {
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

}  // namespace

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
