// Samples of the generated tables, and the alphabet of bytes.
#include <gtest/gtest.h>

#include <set>

#include "text/unicode.h"
#include "text/vocabulary.h"

namespace hearth {
namespace {

TEST(Unicode, ClassesOfKnownCharacters) {
    EXPECT_TRUE(classify('a') & kLowerLetter);
    EXPECT_TRUE(classify('A') & kUpperLetter);
    EXPECT_TRUE(classify(0x4e2d) & kCaselessLetter);
    EXPECT_TRUE(classify('7') & kNumber);
    EXPECT_TRUE(classify(0xbd) & kNumber);
    EXPECT_TRUE(classify(0x301) & kMark);
    EXPECT_TRUE(classify('!') & kPunctuation);
    EXPECT_TRUE(classify('$') & kSymbol);
    EXPECT_TRUE(classify(0x1f600) & kSymbol);
    EXPECT_TRUE(classify(0x200d) & kControl);
    EXPECT_EQ(classify(0x10ffff), bit_of(Category::Cn));
    EXPECT_EQ(classify(0xe000), bit_of(Category::Co));
}

TEST(Unicode, WhiteSpaceIsAPropertyAndNoCategory) {
    for (const std::uint32_t space :
         {0x09u, 0x0au, 0x0du, 0x20u, 0x85u, 0xa0u, 0x1680u, 0x2000u, 0x200au, 0x2028u, 0x3000u}) {
        EXPECT_TRUE(classify(space) & kSpace) << space;
    }
    for (const std::uint32_t other : {0x00u, 0x1cu, 0x200bu, 0xfeffu, 0x180eu})
        EXPECT_FALSE(classify(other) & kSpace) << other;
    EXPECT_TRUE(classify('\n') & kNewline);
    EXPECT_FALSE(classify(0x85) & kNewline);
}

TEST(Unicode, LowerCaseAndBaseCharacters) {
    EXPECT_EQ(to_lower('Q'), std::uint32_t{'q'});
    EXPECT_EQ(to_lower('q'), std::uint32_t{'q'});
    EXPECT_EQ(to_lower(0x100), 0x101u);
    EXPECT_EQ(to_lower(0x101), 0x101u);
    EXPECT_EQ(to_lower(0x416), 0x436u);
    EXPECT_EQ(to_lower(0), 0u);
    EXPECT_EQ(to_lower(0x10ffff), 0x10ffffu);
    EXPECT_EQ(base_character(0xe9), std::uint32_t{'e'});
    EXPECT_EQ(base_character('e'), std::uint32_t{'e'});
    EXPECT_EQ(base_character(0x1ea4), std::uint32_t{'A'});
    EXPECT_EQ(base_character(0), 0u);
    EXPECT_EQ(base_character(0x10ffff), 0x10ffffu);
}

TEST(ByteAlphabet, IsOneToOneAndOfVisibleCharacters) {
    std::set<std::uint32_t> seen;
    for (int byte = 0; byte < 256; ++byte) {
        const std::uint32_t character = character_of_byte(static_cast<std::uint8_t>(byte));
        EXPECT_EQ(byte_of_character(character), byte);
        EXPECT_FALSE(classify(character) & (kSpace | kControl)) << byte;
        seen.insert(character);
    }
    EXPECT_EQ(seen.size(), 256u);
    EXPECT_EQ(character_of_byte(' '), 0x120u);
    EXPECT_EQ(character_of_byte('\n'), 0x10au);
    EXPECT_EQ(byte_of_character(' '), -1);
    EXPECT_EQ(byte_of_character(0x4e2d), -1);
}

}  // namespace
}  // namespace hearth
