// The token list of a model file: texts, kinds, scores and special ids, checked once when it is loaded. Texts are views
// of the file's bytes, which must outlive the vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "text/tokenizer.h"

namespace hearth {

enum class VocabularyFamily : std::uint8_t { ByteLevelBpe, SentencePiece, WordPiece };

// U+2581, which stands for a space in SentencePiece and begins a word in converted WordPiece vocabularies.
inline constexpr std::string_view kVisibleSpace = "\xe2\x96\x81";

// Tokens by text: open addressing over ids, the texts themselves stay where they are.
class TokenIndex {
public:
    // Of equal texts the last one is found; empty ones never. Nothing when the texts are made to collide: a search
    // would not be quick any more.
    static std::optional<TokenIndex> create(const std::vector<std::string_view>& texts);

    // -1 when absent. `texts` are those it was made of.
    TokenId find(const std::vector<std::string_view>& texts, std::string_view text) const;
    // Many at once, several times as fast: memory is asked for all of them before the first is looked at.
    void find_all(const std::vector<std::string_view>& texts, std::span<const std::string_view> wanted,
                  std::span<TokenId> found) const;
    std::size_t longest() const { return longest_; }
    bool texts_differ() const { return texts_differ_; }  // no two of them are equal

private:
    // A short text is its own tag, so that it is found without a look at the texts; of a long one the tag is a hash.
    using Tag = std::uint64_t;
    struct Slot {
        Tag tag = 0;
        TokenId token = -1;
    };
    // Where a text may be: the slot is the next that has its tag, or a free one.
    struct Search {
        std::size_t slot;
        Tag tag;
    };
    static Tag tag_of(std::string_view text);
    static bool is_text(Tag tag);  // not a hash
    Search begin_search(std::string_view text) const;
    void skip_other_tags(Search& search) const;
    TokenId end_search(const std::vector<std::string_view>& texts, std::string_view text, Search search) const;

    std::vector<Slot> slots_;
    std::size_t longest_ = 0;
    bool texts_differ_ = true;
};

struct SpecialIds {
    std::optional<TokenId> bos;
    std::optional<TokenId> eos;
    std::optional<TokenId> unknown;
    std::optional<TokenId> separator;
};

class Vocabulary {
public:
    static Result<Vocabulary> load(const GgufFile& file, VocabularyFamily family);

    std::size_t size() const { return texts_.size(); }
    std::string_view text(TokenId token) const { return texts_[static_cast<std::size_t>(token)]; }
    TokenKind kind(TokenId token) const { return kinds_[static_cast<std::size_t>(token)]; }
    float score(TokenId token) const { return scores_.empty() ? 0.0f : scores_[static_cast<std::size_t>(token)]; }
    std::string_view bytes(TokenId token) const;
    TokenId find(std::string_view text) const { return index_.find(texts_, text); }  // -1 when absent
    void find_all(std::span<const std::string_view> texts, std::span<TokenId> found) const {
        index_.find_all(texts_, texts, found);
    }
    std::size_t longest_text() const { return index_.longest(); }
    bool texts_differ() const { return index_.texts_differ(); }
    const SpecialIds& special() const { return special_; }
    bool ends_generation(TokenId token) const;

private:
    Status check_count(const GgufFile& file, std::string_view key) const;
    Status load_kinds(const GgufFile& file);
    Status load_scores(const GgufFile& file, VocabularyFamily family);
    Status load_special(const GgufFile& file, VocabularyFamily family);
    Status load_ends(const GgufFile& file);
    Status load_bytes(const GgufFile& file, VocabularyFamily family);
    Result<std::optional<TokenId>> load_id(const GgufFile& file, std::string_view key) const;
    void make(TokenKind kind, TokenId token) { kinds_[static_cast<std::size_t>(token)] = kind; }

    std::vector<std::string_view> texts_;
    std::vector<TokenKind> kinds_;
    std::vector<float> scores_;  // empty: all 0
    TokenIndex index_;
    std::string bytes_;                       // what the tokens stand for, one after the other
    std::vector<std::uint32_t> bytes_begin_;  // [tokens + 1]
    SpecialIds special_;
    std::vector<TokenId> ends_generation_;  // sorted
};

// GPT-2's alphabet: every byte as a visible character. The code point of a byte, and back (-1: not of the alphabet).
std::uint32_t character_of_byte(std::uint8_t byte);
int byte_of_character(std::uint32_t code_point);

}  // namespace hearth
