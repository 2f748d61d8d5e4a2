#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/rng.h"
#include "unit/text/tiny_vocabulary.h"

namespace hearth {
namespace {

using Tokens = std::vector<TokenId>;

Tokens encode(const tiny::Loaded& tokenizer, std::string_view text) {
    return tokenizer->encode(text, AddSpecial::No, ParseSpecial::No);
}

const std::string kSpace(kVisibleSpace);

// `words`: what the refusal must name.
void expect_refusal(const tiny::Metadata& metadata, const std::string& words) {
    const tiny::Loaded tokenizer(metadata);
    ASSERT_FALSE(tokenizer.tokenizer.ok()) << words;
    EXPECT_EQ(tokenizer.tokenizer.error().code, ErrorCode::InvalidModel);
    EXPECT_NE(tokenizer.tokenizer.error().message.find(words), std::string::npos)
        << tokenizer.tokenizer.error().message;
}

TEST(ByteLevelBpe, MergesByRankFromTheLeft) {
    // 256 he, 257 ll, 258 hell, 259 hello, 260 " w"
    const tiny::Loaded tokenizer(
        tiny::byte_level({{"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}, {" ", "w"}}).metadata());
    EXPECT_EQ(encode(tokenizer, "hello w"), (Tokens{259, 260}));
    EXPECT_EQ(encode(tokenizer, "helll"), (Tokens{258, 'l'}));
    EXPECT_EQ(encode(tokenizer, ""), Tokens{});
    EXPECT_EQ(tokenizer->bytes(260), " w");
    EXPECT_EQ(tokenizer->decode(Tokens{259, 260}), "hello w");
}

TEST(ByteLevelBpe, MergesNothingAcrossWords) {
    const tiny::Loaded tokenizer(tiny::byte_level({{"a", " "}, {"1", "2"}, {"a", "1"}}).metadata());
    EXPECT_EQ(encode(tokenizer, "a a12"), (Tokens{'a', ' ', 'a', 257}));
}

TEST(ByteLevelBpe, GivesAnyBytesBack) {
    const tiny::Loaded tokenizer(tiny::byte_level({{"\xff", "\xfe"}, {"\xc3", "\xa9"}, {"a", "b"}}).metadata());
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
        std::string text;
        for (std::uint64_t i = 0; i < seed % 60; ++i) text.push_back(static_cast<char>(random_bits(seed, i) % 256));
        EXPECT_EQ(tokenizer->decode(encode(tokenizer, text)), text);
    }
}

// Joins the pair of lowest rank, the leftmost of equals, until there is none.
std::vector<std::string> merge_naively(const std::string& word,
                                       const std::map<std::pair<std::string, std::string>, int>& ranks) {
    std::vector<std::string> parts;
    for (const char byte : word) parts.emplace_back(1, byte);
    for (;;) {
        std::size_t best = parts.size();
        int best_rank = 1 << 30;
        for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
            const auto found = ranks.find({parts[i], parts[i + 1]});
            if (found != ranks.end() && found->second < best_rank) {
                best = i;
                best_rank = found->second;
            }
        }
        if (best == parts.size()) return parts;
        parts[best] += parts[best + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
}

TEST(ByteLevelBpe, AgreesWithATrivialMergeOnShortAndLongWords) {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        std::vector<std::string> known = {"a", "b", "c"};
        std::vector<std::pair<std::string, std::string>> merges;
        std::map<std::pair<std::string, std::string>, int> ranks;
        for (std::uint64_t i = 0; i < 25; ++i) {
            const std::string left = known[random_bits(seed, i, 1) % known.size()];
            const std::string right = known[random_bits(seed, i, 2) % known.size()];
            if (std::find(known.begin(), known.end(), left + right) != known.end()) continue;
            ranks.emplace(std::pair(left, right), static_cast<int>(merges.size()));
            merges.emplace_back(left, right);
            known.push_back(left + right);
        }
        const tiny::Loaded tokenizer(tiny::byte_level(merges).metadata());
        for (const std::size_t length : {1u, 2u, 7u, 23u, 24u, 25u, 26u, 200u}) {
            std::string word;
            for (std::size_t i = 0; i < length; ++i) {
                word.push_back(static_cast<char>('a' + random_bits(seed, 1000 + i, length) % 3));
            }
            std::vector<std::string> parts;
            for (const TokenId token : encode(tokenizer, word)) parts.emplace_back(tokenizer->bytes(token));
            EXPECT_EQ(parts, merge_naively(word, ranks)) << "seed " << seed << ", length " << length;
        }
    }
}

TEST(ByteLevelBpe, AWordThatIsATokenSkipsTheMergesWhereTheModelSaysSo) {
    tiny::Vocabulary vocabulary = tiny::byte_level({{"a", "b"}});
    vocabulary.add("abc");
    EXPECT_EQ(encode(tiny::Loaded(vocabulary.metadata()), "abc"), (Tokens{256, 'c'}));
    vocabulary.pre = "llama-bpe";
    EXPECT_EQ(encode(tiny::Loaded(vocabulary.metadata()), "abc"), (Tokens{257}));
}

TEST(ByteLevelBpe, MergesOfWhatIsNoTokenAreIgnored) {
    tiny::Vocabulary vocabulary = tiny::byte_level({{"a", "b"}});
    vocabulary.merges.insert(vocabulary.merges.begin(), "b c");
    EXPECT_EQ(encode(tiny::Loaded(vocabulary.metadata()), "abc"), (Tokens{256, 'c'}));
}

TEST(ByteLevelBpe, FindsEveryOneOfManyMerges) {
    const std::vector<std::pair<std::string, std::string>> merges = tiny::many_merges();
    tiny::Vocabulary vocabulary = tiny::byte_level(merges);
    ASSERT_EQ(vocabulary.tokens[256 + 12345], "RgV");
    vocabulary.tokens[256 + 12345] = "RgV, but not as one word";  // which is no token then
    const tiny::Loaded tokenizer(vocabulary.metadata());
    for (std::size_t i = 0; i < merges.size(); ++i) {
        const TokenId token = static_cast<TokenId>(256 + i);
        const Tokens expected = i == 12345 ? Tokens{*tokenizer->find("Rg"), 'V'} : Tokens{token};
        ASSERT_EQ(encode(tokenizer, merges[i].first + merges[i].second), expected) << i;
    }
    vocabulary.merges[17000] = "ab";
    expect_refusal(vocabulary.metadata(), "element 17000 of key 'tokenizer.ggml.merges'");
}

// Merges are read quickest in the order of the tokens they make; any other order gives the same.
TEST(ByteLevelBpe, FindsTheTokensOfMergesInAnyOrder) {
    tiny::Vocabulary tidy = tiny::byte_level({{"a", "b"}, {"b", "c"}, {"ab", "c"}, {"d", "e"}, {"abc", "de"}});
    tidy.merges.insert(tidy.merges.begin() + 3, "a bc");  // another way to one token
    const Tokens expected = {260};
    EXPECT_EQ(encode(tiny::Loaded(tidy.metadata()), "abcde"), expected);
    tiny::Vocabulary untidy = tidy;
    std::reverse(untidy.merges.begin(), untidy.merges.end());
    EXPECT_EQ(encode(tiny::Loaded(untidy.metadata()), "abcde"), expected);
    std::swap(untidy.merges[0], untidy.merges[3]);
    EXPECT_EQ(encode(tiny::Loaded(untidy.metadata()), "abcde"), expected);
}

TEST(ByteLevelBpe, OfEqualTokensTheLastIsMade) {
    tiny::Vocabulary vocabulary = tiny::byte_level({{"a", "b"}, {"c", "d"}});
    vocabulary.add("cd");
    const tiny::Loaded tokenizer(vocabulary.metadata());
    EXPECT_EQ(encode(tokenizer, "abcd"), (Tokens{256, 258}));
}

// A quadratic merge would take hours here.
TEST(ByteLevelBpe, AMegabyteOfOneLetterOrOfSpacesIsQuick) {
    std::vector<std::pair<std::string, std::string>> merges;
    for (const char letter : {'a', ' '}) {
        for (std::size_t length = 1; length <= 16; length *= 2) {
            merges.emplace_back(std::string(length, letter), std::string(length, letter));
        }
    }
    const tiny::Loaded tokenizer(tiny::byte_level(merges).metadata());
    constexpr std::size_t kSize = 1 << 20;
    EXPECT_EQ(encode(tokenizer, std::string(kSize, 'a')), Tokens(kSize / 32, 260));
    EXPECT_EQ(encode(tokenizer, std::string(kSize, ' ')), Tokens(kSize / 32, 265));
}

TEST(SentencePiece, MergesIntoTheBestScoredToken) {
    // 259 "_", 260 "h", 261 "i", 262 "hi", 263 "_hi", 264 "_h" (worst score)
    const tiny::Loaded tokenizer(
        tiny::sentence_piece({kSpace, "h", "i", "hi", kSpace + "hi", kSpace + "h"}).metadata());
    EXPECT_EQ(encode(tokenizer, "hi hi"), (Tokens{263, 263}));
    EXPECT_EQ(encode(tokenizer, "h"), (Tokens{264}));
    EXPECT_EQ(encode(tokenizer, "ihi"), (Tokens{259, 261, 262}));
    EXPECT_EQ(tokenizer->decode(Tokens{263, 263}), "hi hi");
    EXPECT_EQ(encode(tokenizer, ""), Tokens{});
}

TEST(SentencePiece, WritesWhatTheVocabularyLacksAsBytes) {
    const tiny::Loaded tokenizer(tiny::sentence_piece({kSpace}).metadata());
    EXPECT_EQ(encode(tokenizer, "\xc3\xa9\xff"), (Tokens{259, 3 + 0xc3, 3 + 0xa9, 3 + 0xff}));
    EXPECT_EQ(tokenizer->decode(Tokens{259, 3 + 0xc3, 3 + 0xa9}), "\xc3\xa9");
}

TEST(SentencePiece, GemmaHasNoSpaceBeforeTheText) {
    tiny::Metadata metadata = tiny::sentence_piece({kSpace, "a", kSpace + "a"}).metadata();
    metadata.boolean("tokenizer.ggml.add_space_prefix", false);
    const tiny::Loaded tokenizer(metadata);
    EXPECT_EQ(encode(tokenizer, "a a"), (Tokens{260, 261}));
    EXPECT_EQ(tokenizer->decode(Tokens{261}), " a");
    EXPECT_FALSE(tokenizer->strips_leading_space());
}

// Characters joined into the best-scored token, the leftmost of equals, over the whole text at once.
std::vector<std::string> join_naively(std::vector<std::string> parts, const std::map<std::string, float>& scores) {
    for (;;) {
        std::size_t best = parts.size();
        float best_score = -1e30f;
        for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
            const auto found = scores.find(parts[i] + parts[i + 1]);
            if (found != scores.end() && found->second > best_score) {
                best = i;
                best_score = found->second;
            }
        }
        if (best == parts.size()) return parts;
        parts[best] += parts[best + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
}

TEST(SentencePiece, AgreesWithATrivialMergeOverTheWholeTextEvenWithSpacesInsideTokens) {
    const std::vector<std::string> letters = {kSpace, "a", "b"};
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        std::vector<std::string> pieces = letters;
        for (std::uint64_t i = 0; i < 14; ++i) {
            const std::string piece =
                pieces[random_bits(seed, i, 1) % pieces.size()] + pieces[random_bits(seed, i, 2) % pieces.size()];
            if (std::find(pieces.begin(), pieces.end(), piece) == pieces.end()) pieces.push_back(piece);
        }
        std::map<std::string, float> scores;
        for (std::size_t i = 0; i < pieces.size(); ++i) scores[pieces[i]] = -static_cast<float>(i);
        const tiny::Loaded tokenizer(tiny::sentence_piece(pieces).metadata());
        for (const std::size_t length : {1u, 5u, 20u, 100u}) {
            std::vector<std::string> characters = {kSpace};  // the space prefix
            std::string text;
            for (std::size_t i = 0; i < length; ++i) {
                characters.push_back(letters[random_bits(seed, 500 + i, length) % letters.size()]);
                text += characters.back() == kSpace ? " " : characters.back();
            }
            std::vector<std::string> parts;
            for (const TokenId token : encode(tokenizer, text)) parts.emplace_back(tokenizer->text(token));
            EXPECT_EQ(parts, join_naively(characters, scores)) << "seed " << seed << ", text '" << text << "'";
        }
    }
}

TEST(SentencePiece, AMegabyteOfOneLetterOrOfSpacesIsQuick) {
    std::vector<std::string> pieces;
    for (const std::string& letter : {std::string("a"), kSpace}) {
        std::string piece = letter;
        for (int i = 0; i < 5; ++i, piece += piece) pieces.push_back(piece);
    }
    tiny::Metadata metadata = tiny::sentence_piece(pieces).metadata();
    metadata.boolean("tokenizer.ggml.add_space_prefix", false);
    const tiny::Loaded tokenizer(metadata);
    constexpr std::size_t kSize = 1 << 20;
    EXPECT_EQ(encode(tokenizer, std::string(kSize, 'a')), Tokens(kSize / 16, 263));
    EXPECT_EQ(encode(tokenizer, std::string(kSize, ' ')), Tokens(kSize / 16, 268));
}

TEST(WordPiece, TakesTheLongestTokensOfEachNormalisedWord) {
    // 4 _hello, 5 _wor, 6 ld, 7 _!, 8 _cafe, 9 _U+4E2D, 10 _hell
    const tiny::Loaded tokenizer(
        tiny::word_piece_metadata({kSpace + "hello", kSpace + "wor", "ld", kSpace + "!", kSpace + "cafe",
                                   kSpace + "\xe4\xb8\xad", kSpace + "hell"}));
    EXPECT_EQ(encode(tokenizer, "  Hello   WORLD!"), (Tokens{4, 5, 6, 7}));
    EXPECT_EQ(encode(tokenizer, "Caf\xc3\xa9 cafe\xcc\x81"), (Tokens{8, 8}));
    EXPECT_EQ(encode(tokenizer, "hell\xe4\xb8\xadhello"), (Tokens{10, 9, 4}));
    EXPECT_EQ(encode(tokenizer, "he\xe2\x80\x8dllo\x01"), (Tokens{4}));
    EXPECT_EQ(tokenizer->decode(Tokens{4, 5, 6, 7}), "hello world !");
}

TEST(WordPiece, AWordThatCanNotBeMadeIsUnknownAsAWhole) {
    const tiny::Loaded tokenizer(tiny::word_piece_metadata({kSpace + "a", "b"}));
    EXPECT_EQ(encode(tokenizer, "abz a ab"), (Tokens{1, 4, 4, 5}));
    EXPECT_EQ(tokenizer->encode("a", AddSpecial::Yes, ParseSpecial::No), (Tokens{2, 4, 3}));
}

tiny::Vocabulary with_special_tokens() {
    tiny::Vocabulary vocabulary = tiny::byte_level({});
    vocabulary.add("<|im_end|>", tiny::kControl);  // 256
    vocabulary.add("<|im", tiny::kControl);        // 257
    vocabulary.add("<b>", tiny::kUserDefined);     // 258
    vocabulary.add("<s>", tiny::kControl);         // 259
    return vocabulary;
}

TEST(SpecialTokens, ControlTokensAreFoundOnlyWhenAskedForTheLongestFirst) {
    const tiny::Loaded tokenizer(with_special_tokens().metadata());
    EXPECT_EQ(tokenizer->encode("a<|im_end|><|im_", AddSpecial::No, ParseSpecial::Yes), (Tokens{'a', 256, 257, '_'}));
    EXPECT_EQ(tokenizer->encode("<|im", AddSpecial::No, ParseSpecial::No), (Tokens{'<', '|', 'i', 'm'}));
}

TEST(SpecialTokens, UserDefinedTokensAreAlwaysFound) {
    const tiny::Loaded tokenizer(with_special_tokens().metadata());
    EXPECT_EQ(encode(tokenizer, "x<b><b"), (Tokens{'x', 258, '<', 'b'}));
    EXPECT_EQ(tokenizer->decode(Tokens{'x', 258}), "x<b>");
}

TEST(SpecialTokens, ControlTokensAreWrittenOnlyOnRequest) {
    const tiny::Loaded tokenizer(with_special_tokens().metadata());
    EXPECT_EQ(tokenizer->decode(Tokens{259, 'a', 256}), "a");
    EXPECT_EQ(tokenizer->decode(Tokens{259, 'a', 256}, true), "<s>a<|im_end|>");
    EXPECT_EQ(tokenizer->decode(Tokens{-1, 1 << 30}), "");
}

TEST(SpecialTokens, Phi3SwallowsTheSpaceAfterThem) {
    tiny::Metadata metadata = with_special_tokens().metadata();
    metadata.string("general.name", "My Phi-3 mini");
    const tiny::Loaded tokenizer(metadata);
    EXPECT_EQ(tokenizer->encode("<|im_end|> \n a", AddSpecial::No, ParseSpecial::Yes), (Tokens{256, 'a'}));
    EXPECT_EQ(tokenizer->encode("<s> a", AddSpecial::No, ParseSpecial::Yes), (Tokens{259, ' ', 'a'}));
}

TEST(SpecialTokens, BeginAndEndAreAddedAsTheFileAsks) {
    tiny::Metadata metadata = with_special_tokens().metadata();
    metadata.number("tokenizer.ggml.bos_token_id", 259).number("tokenizer.ggml.eos_token_id", 256);
    EXPECT_EQ(tiny::Loaded(metadata)->encode("a", AddSpecial::Yes, ParseSpecial::No), (Tokens{'a'}));
    metadata.boolean("tokenizer.ggml.add_bos_token", true).boolean("tokenizer.ggml.add_eos_token", true);
    const tiny::Loaded tokenizer(metadata);
    EXPECT_TRUE(tokenizer->adds_bos());
    EXPECT_EQ(tokenizer->bos(), 259);
    EXPECT_EQ(tokenizer->eos(), 256);
    EXPECT_EQ(tokenizer->encode("a", AddSpecial::Yes, ParseSpecial::No), (Tokens{259, 'a', 256}));
    EXPECT_EQ(tokenizer->encode("a", AddSpecial::No, ParseSpecial::No), (Tokens{'a'}));
}

TEST(SpecialTokens, EndsOfGenerationComeFromTheFileAndFromUsualTexts) {
    tiny::Vocabulary vocabulary = tiny::byte_level({});
    for (const char* text : {"<|im_end|>", "<end_of_turn>", "<|file_sep|>", "<|fim_prefix|>", "stop", "over"})
        vocabulary.add(text);
    tiny::Metadata metadata = vocabulary.metadata();
    metadata.number("tokenizer.ggml.eos_token_id", 260).number("tokenizer.ggml.eot_token_id", 261);
    const tiny::Loaded tokenizer(metadata);
    for (const TokenId token : {256, 257, 258, 260, 261}) EXPECT_TRUE(tokenizer->ends_generation(token)) << token;
    for (const TokenId token : {0, 259, -1, 1 << 30}) EXPECT_FALSE(tokenizer->ends_generation(token)) << token;
    EXPECT_EQ(tokenizer->kind(256), TokenKind::Control);
    EXPECT_EQ(tokenizer->kind(259), TokenKind::Control);
    EXPECT_EQ(tokenizer->kind(260), TokenKind::Normal);
}

TEST(SpecialTokens, WhereAnAnswerHasSeveralMessagesTheirEndDoesNotEndIt) {
    tiny::Vocabulary vocabulary = tiny::byte_level({});
    for (const char* text : {"<|end|>", "<|return|>", "<|call|>", "<|channel|>"}) vocabulary.add(text, tiny::kControl);
    const tiny::Loaded tokenizer(vocabulary.metadata());
    EXPECT_FALSE(tokenizer->ends_generation(256));
    EXPECT_TRUE(tokenizer->ends_generation(257));
    EXPECT_TRUE(tokenizer->ends_generation(258));
    EXPECT_EQ(tokenizer->kind(259), TokenKind::UserDefined);
}

TEST(Tokenizer, FindsTokensByTheirTextTheLastOfEquals) {
    tiny::Vocabulary vocabulary = tiny::byte_level({});
    vocabulary.add("twice");
    vocabulary.add("twice");
    vocabulary.add("");
    const tiny::Loaded tokenizer(vocabulary.metadata());
    EXPECT_EQ(tokenizer->find("twice"), 257);
    EXPECT_EQ(tokenizer->find("thrice"), std::nullopt);
    EXPECT_EQ(tokenizer->find(""), std::nullopt);
    EXPECT_EQ(tokenizer->vocabulary_size(), 259u);
    EXPECT_TRUE(tokenizer->contains(258));
    EXPECT_FALSE(tokenizer->contains(259));
}

TEST(Tokenizer, TellsTextsOfEveryLengthApart) {
    tiny::Vocabulary vocabulary = tiny::byte_level({});
    std::vector<std::string> texts;
    for (std::size_t length = 2; length <= 20; ++length) {
        for (const char last : {'a', 'b', '\0'}) {
            texts.push_back(std::string(length - 1, 'a') + last);
            vocabulary.add(texts.back());
        }
    }
    const tiny::Loaded tokenizer(vocabulary.metadata());
    for (std::size_t i = 0; i < texts.size(); ++i) {
        EXPECT_EQ(tokenizer->find(texts[i]), static_cast<TokenId>(256 + i)) << texts[i].size();
        EXPECT_EQ(tokenizer->find(texts[i] + "c"), std::nullopt);
    }
}

TEST(Tokenizer, RefusesWhatItDoesNotKnowByName) {
    tiny::Vocabulary vocabulary = tiny::byte_level({});
    vocabulary.pre = "gpt-9";
    expect_refusal(vocabulary.metadata(), "'tokenizer.ggml.pre' is 'gpt-9'");
    vocabulary.model = "t5";
    expect_refusal(vocabulary.metadata(), "'tokenizer.ggml.model' is 't5'");
    expect_refusal(tiny::Metadata(), "tokenizer.ggml.model");
}

TEST(Tokenizer, RefusesDamagedMetadataByName) {
    expect_refusal(tiny::Metadata().string("tokenizer.ggml.model", "gpt2"), "tokenizer.ggml.tokens");
    expect_refusal(tiny::Metadata().string("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", {}),
                   "tokenizer.ggml.tokens");

    tiny::Vocabulary vocabulary = tiny::sentence_piece({"a"});
    vocabulary.scores.pop_back();
    expect_refusal(vocabulary.metadata(), "'tokenizer.ggml.scores' has 259 elements for 260 tokens");
    vocabulary = tiny::sentence_piece({"a"});
    vocabulary.kinds.pop_back();
    expect_refusal(vocabulary.metadata(), "'tokenizer.ggml.token_type' has 259 elements for 260 tokens");
    vocabulary = tiny::sentence_piece({"a"});
    vocabulary.kinds[259] = 7;
    expect_refusal(vocabulary.metadata(), "element 259 of key 'tokenizer.ggml.token_type' is 7");
    vocabulary.kinds[259] = tiny::kByte;
    expect_refusal(vocabulary.metadata(), "token 259");

    for (const char* key : {"bos", "eos", "unknown", "eot", "fim_pre"}) {
        const std::string name = std::string("tokenizer.ggml.") + key + "_token_id";
        expect_refusal(tiny::byte_level({}).metadata().number(name, 256), "'" + name + "' is 256");
    }

    vocabulary = tiny::byte_level({});
    for (const char* merge : {"ab", "a ", " b", ""}) {
        vocabulary.merges = {merge};
        expect_refusal(vocabulary.metadata(), "element 0 of key 'tokenizer.ggml.merges'");
    }
    vocabulary = tiny::byte_level({});
    vocabulary.add(std::string(600, 'x'), tiny::kControl);
    expect_refusal(vocabulary.metadata(), "token 256");
}

// Texts of two words of eight bytes, the second chosen so that hash_bytes gives the same for all.
TEST(Tokenizer, RefusesTextsMadeToCollide) {
    constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;
    tiny::Vocabulary vocabulary = tiny::byte_level({});
    std::vector<std::uint64_t> hashes;
    for (std::uint64_t i = 0; i < 1500; ++i) {
        const std::uint64_t first = i + 0x4141414141414141u;
        const std::uint64_t second = mix64((mix64(kStep + 16) ^ first) + kStep) ^ 12345u;
        std::string text(16, ' ');
        std::memcpy(text.data(), &first, 8);
        std::memcpy(text.data() + 8, &second, 8);
        hashes.push_back(hash_bytes(std::as_bytes(std::span(text.data(), text.size()))));
        vocabulary.add(text);
    }
    ASSERT_EQ(hashes.front(), hashes.back());
    expect_refusal(vocabulary.metadata(), "made to collide");
}

// The same with short texts, which are looked up without hash_bytes: all meet in the first of 4,096 places.
TEST(Tokenizer, RefusesShortTextsMadeToCollide) {
    tiny::Vocabulary vocabulary = tiny::byte_level({});
    for (std::uint64_t i = 0, found = 0; found < 1500; ++i) {
        std::string text(7, ' ');
        for (std::size_t at = 0; at < text.size(); ++at) text[at] = static_cast<char>('0' + ((i >> (6 * at)) & 63));
        const std::uint64_t tag = few_bytes(std::as_bytes(std::span(text)).data(), 7) | std::uint64_t{7} << 56;
        if (mix64(tag) % 4096 != 0) continue;
        vocabulary.add(text);
        ++found;
    }
    expect_refusal(vocabulary.metadata(), "made to collide");
}

TEST(Tokenizer, RefusesWordPieceTokensOfUnboundedLength) {
    expect_refusal(tiny::word_piece_metadata({std::string(513, 'x')}), "longer than 512 bytes");
}

TEST(Tokenizer, RefusesMergesAndScoresThatAreMissing) {
    const tiny::Vocabulary vocabulary = tiny::byte_level({});
    tiny::Metadata metadata;
    metadata.string("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", vocabulary.tokens);
    expect_refusal(metadata, "tokenizer.ggml.merges");
    tiny::Metadata without_scores;
    without_scores.string("tokenizer.ggml.model", "llama").strings("tokenizer.ggml.tokens", vocabulary.tokens);
    expect_refusal(without_scores, "tokenizer.ggml.scores");
}

}  // namespace
}  // namespace hearth
