// Byte-level BPE: words of bytes, merged by the ranks of the model's merge list.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary.h"

namespace hearth {

class ByteLevelBpe {
    using Rank = std::uint32_t;
    // Open addressing by the pair of tokens.
    struct Slot {
        TokenId left = -1;
        TokenId right = -1;
        Rank rank = 0;
        TokenId joined = -1;
    };

public:
    // The merge list as the file has it, and a table for it, empty yet: all that needs no vocabulary, so that both can
    // be read at once.
    struct MergeList {
        std::vector<std::string_view> texts;
        std::vector<Slot> slots;
    };
    static Result<MergeList> list_merges(const GgufFile& file);
    static Result<ByteLevelBpe> create(const GgufFile& file, const Vocabulary& vocabulary, Result<MergeList> merges);

    // Appends the tokens of `text`. A byte the vocabulary lacks gives the unknown token, or nothing without one.
    void encode(const Vocabulary& vocabulary, std::string_view text, std::vector<TokenId>& out) const;

    bool adds_bos() const { return pre_tokenizer_->adds_bos; }

private:
    Status load_merges(const GgufFile& file, const Vocabulary& vocabulary, std::span<const std::string_view> texts);
    static Result<std::vector<Slot>> read_merges(const GgufFile& file, const Vocabulary& vocabulary,
                                                 std::span<const std::string_view> merges, std::size_t first,
                                                 std::size_t merge_count);
    std::size_t first_slot(TokenId left, TokenId right) const;
    bool add_merges(std::span<const Slot> merges);  // false: the pairs are made to collide
    const Slot* find_merge(TokenId left, TokenId right) const;

    const PreTokenizer* pre_tokenizer_ = nullptr;  // of the static table
    std::array<TokenId, 256> byte_tokens_{};       // -1: the vocabulary lacks it
    std::vector<Slot> slots_;
};

}  // namespace hearth
