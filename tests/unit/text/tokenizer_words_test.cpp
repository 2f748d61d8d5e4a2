// The words each pre-tokeniser cuts, against what the published regular expressions match.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "text/pre_tokenizer.h"

namespace hearth {
namespace {

std::vector<std::string> words(std::string_view name, std::string_view text) {
    const PreTokenizer* pre_tokenizer = find_pre_tokenizer(name);
    if (pre_tokenizer == nullptr) return {"no such pre-tokeniser"};
    std::vector<std::size_t> ends;
    split_words(text, *pre_tokenizer, ends);
    std::vector<std::string> out;
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
        out.emplace_back(text.substr(begin, end - begin));
        begin = end;
    }
    EXPECT_EQ(begin, text.size());
    return out;
}

using Words = std::vector<std::string>;

TEST(PreTokenizer, Gpt2KeepsTheLastSpaceForTheNextWord) {
    EXPECT_EQ(words("gpt-2", "Hello world's  12 !?\n\n x"),
              (Words{"Hello", " world", "'s", " ", " 12", " !?", "\n\n", " x"}));
    EXPECT_EQ(words("gpt-2", "end  \n "), (Words{"end", "  \n "}));
    EXPECT_EQ(words("gpt-2", "a\nb"), (Words{"a", "\n", "b"}));
    EXPECT_EQ(words("gpt-2", "It'S we'll"), (Words{"It", "'", "S", " we", "'ll"}));
}

TEST(PreTokenizer, Llama3GroupsThreeDigitsAndEndsLinesAtTheLastBreak) {
    EXPECT_EQ(words("llama-bpe", "I'M 12345 a\r\n\n  b"),
              (Words{"I", "'M", " ", "123", "45", " a", "\r\n\n", " ", " b"}));
    EXPECT_EQ(words("llama-bpe", "(x) ...\n\ny"), (Words{"(x", ")", " ...\n\n", "y"}));
}

TEST(PreTokenizer, Qwen2TakesDigitsOneByOne) {
    EXPECT_EQ(words("qwen2", "we'VE 123\t$x"), (Words{"we", "'VE", " ", "1", "2", "3", "\t", "$x"}));
    EXPECT_EQ(words("qwen2", "\xe0\xa4\xb9\xe0\xa4\xbf\xe0\xa4\xa8"),
              (Words{"\xe0\xa4\xb9", "\xe0\xa4\xbf\xe0\xa4\xa8"}));
}

TEST(PreTokenizer, Qwen35KeepsMarksWithTheirLetters) {
    EXPECT_EQ(words("qwen35", "\xe0\xa4\xb9\xe0\xa4\xbf\xe0\xa4\xa8 a"),
              (Words{"\xe0\xa4\xb9\xe0\xa4\xbf\xe0\xa4\xa8", " a"}));
    EXPECT_EQ(words("qwen35", "\xcc\x81"), (Words{"\xcc\x81"}));
}

TEST(PreTokenizer, StarcoderIsolatesDigitsBeforeAnythingElse) {
    EXPECT_EQ(words("starcoder", "a1b22 33"), (Words{"a", "1", "b", "2", "2", " ", "3", "3"}));
    EXPECT_EQ(words("smollm", " 7x"), (Words{" ", "7", "x"}));
}

TEST(PreTokenizer, FalconAndTheDefaultIsolatePunctuationAndGroupDigits) {
    EXPECT_EQ(words("falcon", "a,`b 1234"), (Words{"a", ",`", "b", " ", "123", "4"}));
    EXPECT_EQ(words("default", "x=1234`"), (Words{"x", "=", "123", "4", "`"}));
    EXPECT_EQ(words("default", "a 12345678"), (Words{"a", " ", "123", "456", "78"}));
}

TEST(PreTokenizer, Gpt4oEndsWordsWhereACapitalFollows) {
    EXPECT_EQ(words("gpt-4o", "HelloWorld isn't ABCdef ABC"), (Words{"Hello", "World", " isn't", " ABCdef", " ABC"}));
    EXPECT_EQ(words("gpt-4o",
                    "\xe4\xb8\xad\xe6\x96\x87"
                    "ABC"),
              (Words{"\xe4\xb8\xad\xe6\x96\x87", "ABC"}));
    EXPECT_EQ(words("gpt-4o",
                    "\xe4\xb8\xad\xe6\x96\x87"
                    "Abc"),
              (Words{"\xe4\xb8\xad\xe6\x96\x87"
                     "Abc"}));
    EXPECT_EQ(words("gpt-4o", "a//\n/ 1234"), (Words{"a", "//\n/", " ", "123", "4"}));
    EXPECT_EQ(words("gpt-4o", "\xcc\x81"), (Words{"\xcc\x81"}));
}

TEST(PreTokenizer, TekkenHasNoContractionsAndSingleDigits) {
    EXPECT_EQ(words("tekken", "isn't 12"), (Words{"isn", "'t", " ", "1", "2"}));
}

TEST(PreTokenizer, DeepseekV3ReadsNumbersAndHanFirst) {
    EXPECT_EQ(words("deepseek-v3", "abc.def 1234 \xe4\xb8\xad\xe6\x96\x87 x"),
              (Words{"abc", ".def", " ", "123", "4", " ", "\xe4\xb8\xad\xe6\x96\x87", " x"}));
    EXPECT_EQ(words("deepseek-v3", "a\xe2\x80\x8d\xe2\x80\x8d!\n"), (Words{"a", "\xe2\x80\x8d\xe2\x80\x8d", "!\n"}));
}

TEST(PreTokenizer, OlderDeepseeksCutInSteps) {
    EXPECT_EQ(words("deepseek-llm", "ab, 12  \n"), (Words{"ab", ",", " ", "12", "  ", "\n"}));
    EXPECT_EQ(words("deepseek-coder", "a\nb c12"), (Words{"a", "\n", "b", " c", "1", "2"}));
}

TEST(PreTokenizer, TheSmallerFamilies) {
    EXPECT_EQ(words("bloom", "a b, (c) d1"), (Words{"a", " b", ", (", "c", ")", " d1"}));
    EXPECT_EQ(words("viking", "d12"), (Words{"d", "1", "2"}));
    EXPECT_EQ(words("jais-2", "       x"), (Words{"    ", "  ", " x"}));
    EXPECT_EQ(words("jais-2", std::string(700, ' ')),
              (Words{std::string(512, ' '), std::string(128, ' '), std::string(32, ' '), std::string(16, ' '),
                     std::string(8, ' '), std::string(4, ' ')}));
    EXPECT_EQ(words("youtu", "\xec\x95\x88 World\xe4\xb8\xad"), (Words{"\xec\x95\x88", " World", "\xe4\xb8\xad"}));
    EXPECT_EQ(words("seed-coder", "a !\nb"), (Words{"a", " !", "\n", "b"}));
    EXPECT_EQ(words("minicpm5", "a1234"), (Words{"a", "123", "4"}));
    EXPECT_EQ(words("laguna", "a!\n\nb"), (Words{"a", "!", "\n\n", "b"}));
}

TEST(PreTokenizer, AnUnknownNameIsNoGuess) {
    EXPECT_EQ(find_pre_tokenizer("gpt-5"), nullptr);
    EXPECT_EQ(find_pre_tokenizer(""), nullptr);
    EXPECT_EQ(find_pre_tokenizer("Qwen2"), nullptr);
}

constexpr std::string_view kEveryRecipe[] = {
    "default",     "gpt-2",        "starcoder",      "falcon", "llama-bpe", "dbrx",   "qwen2",
    "qwen35",      "minicpm5",     "seed-coder",     "jais-2", "gpt-4o",    "tekken", "youtu",
    "deepseek-v3", "deepseek-llm", "deepseek-coder", "bloom",  "viking",    "laguna",
};

TEST(PreTokenizer, WordsCoverAnyBytesExactly) {
    constexpr std::string_view kAtoms[] = {
        "a",    "B",        "1",           " ",        "\n",           "\r\n",
        "\t",   "'s",       "'LL",         "!",        "\xff",         "\xe4\xb8\xad",
        "/",    "\xc2\xa0", "\xcc\x81",    "\xc3\xa9", "\xe3\x80\x80", "\xf0\x9f\x98\x80",
        "\xe2", "\xc3\x89", "\xe2\x80\x8d"};
    for (const std::string_view name : kEveryRecipe) {
        for (std::uint64_t seed = 0; seed < 200; ++seed) {
            std::string text;
            for (std::uint64_t i = 0; i < 12; ++i) text += kAtoms[random_bits(seed, i) % std::size(kAtoms)];
            std::string joined;
            for (const std::string& word : words(name, text)) {
                EXPECT_FALSE(word.empty()) << name;
                joined += word;
            }
            EXPECT_EQ(joined, text) << name;
        }
    }
}

// A quadratic rule would take minutes here.
TEST(PreTokenizer, LongRunsAreCutInLinearTime) {
    constexpr std::size_t kSize = 1 << 18;
    for (const std::string_view name : kEveryRecipe) {
        for (const std::string_view atom : {"a", "A", " ", "\n", "1", "!", "\n ", " 1",
                                            "\xe4\xb8\xad"
                                            "A",
                                            "\xcc\x81", "'"}) {
            std::string text;
            while (text.size() < kSize) text += atom;
            text += "x";
            EXPECT_FALSE(words(name, text).empty()) << name;
        }
    }
}

}  // namespace
}  // namespace hearth
