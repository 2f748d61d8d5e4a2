#include "base/sha256.h"

#include <gtest/gtest.h>

#include <string_view>

namespace hearth {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

std::string digest(std::string_view text) {
    Sha256 hash;
    hash.update(bytes_of(text));
    return hash.finish();
}

TEST(Sha256, GivesTheDigestsOfTheStandard) {
    EXPECT_EQ(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, GivesTheDigestOfAMillionLetters) {
    Sha256 hash;
    const std::string thousand(1000, 'a');
    for (int i = 0; i < 1000; ++i) hash.update(bytes_of(thousand));
    EXPECT_EQ(hash.finish(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowTheBytesAreCut) {
    std::string text;
    for (int i = 0; i < 200; ++i) text.push_back(static_cast<char>(i));
    for (std::size_t length = 0; length <= text.size(); ++length) {
        const std::string_view whole = std::string_view(text).substr(0, length);
        for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{63}, std::size_t{65}}) {
            Sha256 hash;
            for (std::size_t at = 0; at < length; at += piece) hash.update(bytes_of(whole.substr(at, piece)));
            EXPECT_EQ(hash.finish(), digest(whole)) << length << " in pieces of " << piece;
        }
    }
}

}  // namespace
}  // namespace hearth
