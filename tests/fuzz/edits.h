// Fuzz input as edits of a file that is right: readers that check sizes and sums first are reached behind them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hearth {

// Each edit is five bytes: a place (modulo the size, little endian) and the byte to put there. What is left of the
// input says how much of the end to cut off.
inline std::vector<std::byte> edited(std::vector<std::byte> bytes, const std::uint8_t* data, std::size_t size) {
    for (; size >= 5; data += 5, size -= 5) {
        std::uint32_t place = 0;
        for (std::size_t i = 0; i < 4; ++i) place |= std::uint32_t{data[i]} << (8 * i);
        bytes[place % bytes.size()] = static_cast<std::byte>(data[4]);
    }
    std::size_t cut = 0;
    for (; size > 0; ++data, --size) cut = cut * 256 + *data;
    bytes.erase(bytes.end() - static_cast<std::ptrdiff_t>(cut % bytes.size()), bytes.end());
    return bytes;
}

}  // namespace hearth
