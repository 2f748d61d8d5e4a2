// Words are merged apart where the vocabulary proves that this cannot change the result, which keeps the heaps small.
#include "text/sentence_piece.h"

#include <algorithm>
#include <string>

#include "base/utf8.h"
#include "text/merger.h"

namespace hearth {

namespace {

std::string escape_of(unsigned byte) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    return std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">";
}

}  // namespace

Result<SentencePiece> SentencePiece::create(const GgufFile& file, const Vocabulary& vocabulary) {
    SentencePiece model;
    model.adds_space_prefix_ = TRY(file.find_boolean("tokenizer.ggml.add_space_prefix")).value_or(true);
    for (unsigned byte = 0; byte < model.byte_tokens_.size(); ++byte) {
        TokenId token = vocabulary.find(escape_of(byte));
        if (token < 0) token = vocabulary.find(std::string(1, static_cast<char>(static_cast<unsigned char>(byte))));
        model.byte_tokens_[byte] = token;
    }
    for (std::size_t i = 0; i < vocabulary.size(); ++i) {
        const std::string_view text = vocabulary.text(static_cast<TokenId>(i));
        for (std::size_t at = text.find(kVisibleSpace, 1); at < text.size(); at = text.find(kVisibleSpace, at + 1)) {
            if (!text.substr(0, at).ends_with(kVisibleSpace)) {
                model.before_inner_space_.set(static_cast<unsigned char>(text[at - 1]));
            }
        }
    }
    return model;
}

void SentencePiece::encode(const Vocabulary& vocabulary, std::string_view text, bool space_prefix,
                           std::vector<TokenId>& out) const {
    std::string escaped;
    escaped.reserve(text.size() + text.size() / 2 + kVisibleSpace.size());
    if (space_prefix) escaped.append(kVisibleSpace);
    for (const char byte : text) {
        if (byte == ' ') {
            escaped.append(kVisibleSpace);
        } else {
            escaped.push_back(byte);
        }
    }

    const auto merge_of = [&](const Symbol& left, const Symbol& right) -> Merge<float> {
        const TokenId token = vocabulary.find(std::string_view(escaped).substr(left.begin, left.length + right.length));
        return token < 0 ? Merge<float>{} : Merge<float>{-vocabulary.score(token), token};
    };
    Merger<float> merger;
    std::vector<Symbol> symbols;
    const auto finish_word = [&] {
        merger.run(symbols, merge_of);
        for (const Symbol& symbol : symbols) {
            const std::string_view piece = std::string_view(escaped).substr(symbol.begin, symbol.length);
            if (symbol.token >= 0) {
                out.push_back(symbol.token);
                continue;
            }
            for (const char byte : piece) {
                const TokenId token = byte_tokens_[static_cast<unsigned char>(byte)];
                if (token >= 0) {
                    out.push_back(token);
                } else if (vocabulary.special().unknown) {
                    out.push_back(*vocabulary.special().unknown);
                }
            }
        }
        symbols.clear();
    };

    bool after_space = true;
    for (std::size_t offset = 0; offset < escaped.size();) {
        const std::size_t length = std::max<std::size_t>(decode_utf8(escaped, offset).length, 1);
        const std::string_view character = std::string_view(escaped).substr(offset, length);
        const bool is_space = character == kVisibleSpace;
        if (is_space && !after_space && !before_inner_space_[static_cast<unsigned char>(escaped[offset - 1])]) {
            finish_word();
        }
        after_space = is_space;
        symbols.push_back(
            {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(length), vocabulary.find(character)});
        offset += length;
    }
    finish_word();
}

}  // namespace hearth
