#include "base/hash.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace hearth {
namespace {

std::uint64_t hash_of(std::string_view text, std::uint64_t seed = 0) {
    return hash_bytes(std::as_bytes(std::span(text)), seed);
}

// Word by word, the last one filled up with zeros.
std::uint64_t by_words(std::string_view text, std::uint64_t seed) {
    constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;
    std::uint64_t state = mix64(seed + kStep + text.size());
    for (; text.size() >= 8; text.remove_prefix(8)) {
        std::uint64_t word;
        std::memcpy(&word, text.data(), 8);
        state = mix64((state ^ word) + kStep);
    }
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        word |= static_cast<std::uint64_t>(static_cast<unsigned char>(text[i])) << (8 * i);
    }
    return mix64((state ^ word) + kStep);
}

TEST(Hash, TakesTextsOfEveryLengthWordByWord) {
    std::string text;
    for (int i = 0; i < 40; ++i) text.push_back(static_cast<char>(255 - 5 * i));
    for (std::size_t length = 0; length <= text.size(); ++length) {
        const std::string exact = text.substr(0, length);  // nothing to read behind its end
        EXPECT_EQ(hash_of(exact), by_words(exact, 0)) << length;
        EXPECT_EQ(hash_of(exact, 77), by_words(exact, 77)) << length;
    }
}

TEST(Hash, IsTheSameOnEveryMachine) {
    EXPECT_EQ(hash_of(""), 0xa706dd2f4d197e6fu);
    EXPECT_EQ(hash_of("abc"), 0x347774c605d70c76u);
    EXPECT_EQ(hash_of("the same everywhere"), 0x0ec5c86a8cfd7616u);
}

TEST(Hash, ChainedHashesDependOnTheOrder) {
    EXPECT_NE(hash_of("b", hash_of("a")), hash_of("a", hash_of("b")));
    EXPECT_NE(hash_of("ab"), hash_of("b", hash_of("a")));
}

}  // namespace
}  // namespace hearth
