// SHA-256 (FIPS 180-4), streaming: the checksum of downloaded files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace hearth {

class Sha256 {
public:
    void update(std::span<const std::byte> bytes);
    // The digest of all bytes so far as 64 lower-case hex digits. Ends the stream.
    std::string finish();

private:
    void compress(const std::byte* block);
    std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                           0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<std::byte, 64> block_ = {};
    std::uint64_t total_bytes_ = 0;
};

}  // namespace hearth
