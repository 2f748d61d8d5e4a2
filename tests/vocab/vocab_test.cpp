// Every text of the published vocabularies must give exactly the published tokens, and the tokens the text again.
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace hearth {
namespace {

constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";

enum class Decoding { Exact, Normalised };

struct Case {
    std::string name;
    std::string folder;
    Decoding decoding = Decoding::Exact;
};

std::vector<std::string> split(const std::string& text, std::string_view separator) {
    std::vector<std::string> parts;
    std::size_t begin = 0;
    while (begin < text.size()) {
        const std::size_t end = std::min(text.find(separator, begin), text.size());
        parts.push_back(text.substr(begin, end - begin));
        begin = end + separator.size();
    }
    return parts;
}

std::vector<TokenId> numbers_of(const std::string& line) {
    std::vector<TokenId> numbers;
    const char* at = line.data();
    const char* const end = line.data() + line.size();
    while (at < end) {
        if (*at == ' ') {
            ++at;
            continue;
        }
        TokenId number = -1;
        const auto [next, error] = std::from_chars(at, end, number);
        EXPECT_EQ(error, std::errc()) << line;
        if (error != std::errc()) break;
        numbers.push_back(number);
        at = next;
    }
    return numbers;
}

std::string read(const std::string& path) {
    Result<std::string> content = read_file(path, 1 << 20);
    EXPECT_TRUE(content.ok()) << path;
    return content.ok() ? std::move(content).value() : std::string();
}

class Vocabularies : public testing::TestWithParam<Case> {
protected:
    void SetUp() override {
        const std::string path = GetParam().folder + "/" + GetParam().name + ".gguf";
        Result<GgufFile> file = GgufFile::open(path);
        ASSERT_TRUE(file.ok()) << file.error().message;
        file_.emplace(std::move(file).value());
        Result<Tokenizer> tokenizer = Tokenizer::load(*file_);
        ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
        tokenizer_.emplace(std::move(tokenizer).value());
        const std::string data = std::string(HEARTH_SHARED_DATA) + "/vocab/" + GetParam().name;
        texts_ = split(read(data + ".inp"), kSeparator);
        lines_ = split(read(data + ".out"), "\n");
        ASSERT_EQ(texts_.size(), lines_.size());
        ASSERT_GT(texts_.size(), 40u);
    }

    std::optional<GgufFile> file_;
    std::optional<Tokenizer> tokenizer_;
    std::vector<std::string> texts_;
    std::vector<std::string> lines_;
};

TEST_P(Vocabularies, GiveThePublishedTokens) {
    for (std::size_t i = 0; i < texts_.size(); ++i) {
        EXPECT_EQ(tokenizer_->encode(texts_[i], AddSpecial::No, ParseSpecial::No), numbers_of(lines_[i]))
            << "text " << i << ": '" << texts_[i] << "'";
    }
}

// Without white space, in small letters.
std::string compact(const std::string& text) {
    std::string out;
    for (const char byte : text) {
        if (byte == ' ' || (byte >= '\t' && byte <= '\r')) continue;
        out.push_back(byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte - 'A' + 'a') : byte);
    }
    return out;
}

TEST_P(Vocabularies, GiveTheTextBackFromThePublishedTokens) {
    for (std::size_t i = 0; i < texts_.size(); ++i) {
        const std::string text = tokenizer_->decode(numbers_of(lines_[i]));
        if (GetParam().decoding == Decoding::Exact) {
            EXPECT_EQ(text, texts_[i]) << "text " << i;
        } else if (std::all_of(texts_[i].begin(), texts_[i].end(), [](unsigned char byte) { return byte < 0x80; })) {
            EXPECT_EQ(compact(text), compact(texts_[i])) << "text " << i;
        }
    }
}

TEST_P(Vocabularies, GiveTheSameTokensFromTheTextTheyGive) {
    for (std::size_t i = 0; i < texts_.size(); ++i) {
        const std::vector<TokenId> tokens = numbers_of(lines_[i]);
        const std::string text = tokenizer_->decode(tokens, /*with_control=*/true);
        EXPECT_EQ(tokenizer_->encode(text, AddSpecial::No, ParseSpecial::Yes), tokens) << "text " << i << ": " << text;
    }
}

TEST_P(Vocabularies, DetokeniseOneByOneToTheSameText) {
    for (const std::string& line : lines_) {
        const std::vector<TokenId> tokens = numbers_of(line);
        DetokenizerState state;
        std::string text;
        for (const TokenId token : tokens) detokenize(*tokenizer_, token, state, text);
        flush(state, text);
        EXPECT_EQ(text, tokenizer_->decode(tokens));
    }
}

const std::string kShared = std::string(HEARTH_SHARED_DATA) + "/vocab";
const std::string kConverted = HEARTH_VOCAB_FOLDER;

INSTANTIATE_TEST_SUITE_P(Published, Vocabularies,
                         testing::Values(Case{"gpt-2", kShared}, Case{"starcoder", kShared}, Case{"qwen2", kConverted},
                                         Case{"llama-bpe", kConverted}, Case{"llama-spm", kShared},
                                         Case{"phi-3", kShared}, Case{"bert-bge", kShared, Decoding::Normalised}),
                         [](const testing::TestParamInfo<Case>& tested) {
                             std::string name = tested.param.name;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

}  // namespace
}  // namespace hearth
