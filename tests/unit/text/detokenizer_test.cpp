#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "base/utf8.h"
#include "unit/text/tiny_vocabulary.h"

namespace hearth {
namespace {

TEST(Detokenizer, HoldsBytesUntilTheirCharacterIsComplete) {
    const tiny::Loaded tokenizer(tiny::byte_level({}).metadata());
    DetokenizerState state;
    std::string out;
    for (const TokenId byte : {0xf0, 0x9f, 0x98}) {
        detokenize(*tokenizer, byte, state, out);
        EXPECT_EQ(out, "");
    }
    EXPECT_EQ(state.pending_count, 3);
    detokenize(*tokenizer, 0x80, state, out);
    EXPECT_EQ(out, "\xf0\x9f\x98\x80");
    EXPECT_EQ(state.pending_count, 0);
}

TEST(Detokenizer, GivesAReplacementForEachByteThatCanNotBecomeACharacter) {
    const tiny::Loaded tokenizer(tiny::byte_level({}).metadata());
    DetokenizerState state;
    std::string out;
    for (const TokenId byte : {0xe2, 0x82, 0x41, 0xff, 0xe2}) detokenize(*tokenizer, byte, state, out);
    EXPECT_EQ(out,
              "\xef\xbf\xbd\xef\xbf\xbd"
              "A\xef\xbf\xbd");
    flush(state, out);
    EXPECT_EQ(out,
              "\xef\xbf\xbd\xef\xbf\xbd"
              "A\xef\xbf\xbd\xef\xbf\xbd");
    EXPECT_EQ(state.pending_count, 0);
}

TEST(Detokenizer, StripsTheSpaceBeforeTheFirstWordOnly) {
    const tiny::Loaded tokenizer(tiny::sentence_piece({"\xe2\x96\x81hi"}).metadata());
    DetokenizerState state;
    std::string out;
    detokenize(*tokenizer, 1, state, out);  // <s> gives nothing and does not begin the text
    detokenize(*tokenizer, 259, state, out);
    detokenize(*tokenizer, 259, state, out);
    EXPECT_EQ(out, "hi hi");
}

TEST(Detokenizer, AStateCopiedEarlierGoesOnAsIfNothingHadHappened) {
    const tiny::Loaded tokenizer(tiny::byte_level({}).metadata());
    DetokenizerState state;
    std::string out;
    detokenize(*tokenizer, 0xc3, state, out);
    const DetokenizerState mark = state;
    detokenize(*tokenizer, 0xa9, state, out);
    EXPECT_EQ(out, "\xc3\xa9");
    state = mark;
    detokenize(*tokenizer, 0xa8, state, out);
    EXPECT_EQ(out, "\xc3\xa9\xc3\xa8");
}

TEST(Detokenizer, TokensOutsideTheVocabularyGiveNothing) {
    const tiny::Loaded tokenizer(tiny::byte_level({}).metadata());
    DetokenizerState state;
    std::string out;
    detokenize(*tokenizer, -1, state, out);
    detokenize(*tokenizer, 1 << 30, state, out);
    EXPECT_EQ(out, "");
    EXPECT_EQ(state, DetokenizerState{});
}

TEST(Detokenizer, RandomTokensGiveTheWholeTextAndNeverHalfACharacter) {
    const tiny::Loaded byte_level(
        tiny::byte_level({{"\xf0", "\x9f"}, {"\x98", "\x80"}, {"a", "b"}, {"\xe2", "\x82"}}).metadata());
    const tiny::Loaded sentence_piece(tiny::sentence_piece({"\xe2\x96\x81",
                                                            "\xe2\x96\x81"
                                                            "a",
                                                            "\xc3\xa9", "b"})
                                          .metadata());
    for (const tiny::Loaded* tokenizer : {&byte_level, &sentence_piece}) {
        const std::vector<std::string> leads = {"\xf0", "\x9f", "\x98", "\x80", "\xc3", "\xa9", "\xe2", "\x82", "a"};
        for (std::uint64_t seed = 0; seed < 2000; ++seed) {
            std::vector<TokenId> tokens;
            for (std::uint64_t i = 0; i < 12; ++i) {
                const std::uint64_t size = (*tokenizer)->vocabulary_size();
                // Half of them from the end, where the interesting ones are, and bytes that make characters.
                const std::uint64_t draw = random_bits(seed, i);
                const unsigned char lead = static_cast<unsigned char>(leads[draw % leads.size()][0]);
                const TokenId offset = tokenizer == &byte_level ? 0 : 3;
                tokens.push_back((draw >> 40) % 2 == 0 ? static_cast<TokenId>(size - 1 - (draw >> 8) % 6)
                                                       : lead + offset);
            }
            DetokenizerState state;
            std::string out;
            for (const TokenId token : tokens) {
                detokenize(**tokenizer, token, state, out);
                ASSERT_EQ(repair_utf8(out), out);
                ASSERT_LE(state.pending_count, 3);
            }
            flush(state, out);
            ASSERT_EQ(out, repair_utf8((*tokenizer)->decode(tokens)));
        }
    }
}

}  // namespace
}  // namespace hearth
