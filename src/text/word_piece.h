// WordPiece as BERT has it: text is normalised and cut into words, each word into the longest tokens from the left.
// Converted vocabularies mark the beginning of a word by U+2581 instead of its continuation by "##".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/vocabulary.h"

namespace hearth {

class WordPiece {
public:
    static Result<WordPiece> create(const GgufFile& file, const Vocabulary& vocabulary);

    // Appends the tokens of `text`; a word that cannot be made of tokens is the unknown token.
    void encode(const Vocabulary& vocabulary, std::string_view text, std::vector<TokenId>& out) const;

private:
    void append_word(const Vocabulary& vocabulary, std::string_view word, std::vector<TokenId>& out) const;

    bool lower_cases_ = true;
    bool strips_accents_ = true;
};

}  // namespace hearth
