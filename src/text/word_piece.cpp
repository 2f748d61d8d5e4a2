// The normaliser and the greedy matching of WordPiece.
#include "text/word_piece.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/unicode.h"

namespace hearth {

namespace {

// Bounds the work at one place of a word; real tokens have a few dozen bytes.
constexpr std::size_t kLongest = 512;

// Characters that are words of their own. 0x2b920 is 0x2b820 in Unicode, but not in the tokenisers models are trained
// with.
bool is_ideograph(std::uint32_t code_point) {
    const auto in = [code_point](std::uint32_t first, std::uint32_t last) {
        return code_point >= first && code_point <= last;
    };
    return in(0x4e00, 0x9fff) || in(0x3400, 0x4dbf) || in(0x20000, 0x2a6df) || in(0x2a700, 0x2b73f) ||
           in(0x2b740, 0x2b81f) || in(0x2b920, 0x2ceaf) || in(0xf900, 0xfaff) || in(0x2f800, 0x2fa1f);
}

bool stands_alone(std::uint32_t code_point, ClassBits bits) {
    return (bits & kPunctuation) != 0 || (code_point < 0x7f && (bits & kSymbol) != 0) || is_ideograph(code_point);
}

bool continues_character(char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

}  // namespace

Result<WordPiece> WordPiece::create(const GgufFile& file, const Vocabulary& vocabulary) {
    WordPiece model;
    if (vocabulary.longest_text() > kLongest) {
        return Error{ErrorCode::InvalidModel, file.name() + ": key 'tokenizer.ggml.tokens' has a text longer than " +
                                                  std::to_string(kLongest) + " bytes"};
    }
    model.lower_cases_ = TRY(file.find_boolean("tokenizer.ggml.normalizer.lowercase")).value_or(true);
    model.strips_accents_ =
        TRY(file.find_boolean("tokenizer.ggml.normalizer.strip_accents")).value_or(model.lower_cases_);
    return model;
}

void WordPiece::encode(const Vocabulary& vocabulary, std::string_view text, std::vector<TokenId>& out) const {
    std::string word(kVisibleSpace);
    const auto finish_word = [&] {
        if (word.size() > kVisibleSpace.size()) append_word(vocabulary, word, out);
        word.resize(kVisibleSpace.size());
    };
    for (std::size_t offset = 0; offset < text.size();) {
        const CodePoint point = decode_utf8(text, offset);
        offset += std::max<std::size_t>(point.length, 1);
        if (point.length == 0) continue;
        const std::uint32_t code_point = strips_accents_ ? base_character(point.value) : point.value;
        const ClassBits bits = classify(code_point);
        if ((bits & kSpace) != 0) {
            finish_word();
            continue;
        }
        if (code_point == 0xfffd || (bits & kControl) != 0) continue;
        if (strips_accents_ && (bits & kMark) != 0) continue;
        const bool alone = stands_alone(code_point, bits);
        if (alone) finish_word();
        append_utf8(word, lower_cases_ ? to_lower(code_point) : code_point);
        if (alone) finish_word();
    }
    finish_word();
}

void WordPiece::append_word(const Vocabulary& vocabulary, std::string_view word, std::vector<TokenId>& out) const {
    const std::size_t tokens_before = out.size();
    for (std::size_t begin = 0; begin < word.size();) {
        std::size_t end = std::min(word.size(), begin + vocabulary.longest_text());
        TokenId token = -1;
        for (; end > begin; --end) {
            if (end < word.size() && continues_character(word[end])) continue;
            token = vocabulary.find(word.substr(begin, end - begin));
            if (token >= 0) break;
        }
        if (token < 0) {
            out.resize(tokens_before);
            if (vocabulary.special().unknown) out.push_back(*vocabulary.special().unknown);
            return;
        }
        out.push_back(token);
        begin = end;
    }
}

}  // namespace hearth
