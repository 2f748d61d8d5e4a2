// SentencePiece BPE: characters merged into the best-scored token of the vocabulary, bytes for what it lacks.
#pragma once

#include <array>
#include <bitset>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/vocabulary.h"

namespace hearth {

class SentencePiece {
public:
    static Result<SentencePiece> create(const GgufFile& file, const Vocabulary& vocabulary);

    // A space before a text makes its first word look like any other.
    bool adds_space_prefix() const { return adds_space_prefix_; }

    // Appends the tokens of `text`, with a space before it when `space_prefix`.
    void encode(const Vocabulary& vocabulary, std::string_view text, bool space_prefix,
                std::vector<TokenId>& out) const;

private:
    bool adds_space_prefix_ = true;
    std::array<TokenId, 256> byte_tokens_{};  // -1: the vocabulary lacks it
    // Bytes after which a space stands inside some token. Anywhere else no merge reaches over the beginning of a word,
    // so that words can be merged one by one.
    std::bitset<256> before_inner_space_;
};

}  // namespace hearth
