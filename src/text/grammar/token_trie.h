// A vocabulary's texts as a trie of bytes in walking order, and apart from it the tokens that are nothing but plain
// characters: inside a JSON string nearly the whole vocabulary is, and is then allowed at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/grammar.h"

namespace hearth {

class TokenTrie {
public:
    struct Node {
        std::uint32_t skip = 0;   // the first node after this one's descendants
        TokenId token = -1;       // that ends here; more of the same text: next_same()
        std::uint16_t depth = 0;  // 1 for a token's first byte
        std::uint8_t byte = 0;
    };
    // Plain: printable ASCII but " and \, and all characters past it.
    static constexpr std::size_t kPlainCharacters = 32;  // longer tokens are walked

    explicit TokenTrie(const Tokenizer& tokenizer);

    std::size_t vocabulary_size() const { return vocabulary_size_; }
    std::size_t mask_words() const { return (vocabulary_size_ + 63) / 64; }
    std::size_t max_depth() const { return max_depth_; }
    const std::vector<Node>& all() const { return all_; }
    const std::vector<Node>& not_plain() const { return not_plain_; }
    // Bits of the plain tokens of at most `characters`, up to kPlainCharacters.
    const std::vector<std::uint64_t>& plain_up_to(std::size_t characters) const { return plain_[characters]; }
    TokenId next_same(TokenId token) const { return next_same_[static_cast<std::size_t>(token)]; }
    const std::vector<std::uint64_t>& ends() const { return ends_; }
    bool ends_generation(TokenId token) const {
        const auto index = static_cast<std::size_t>(token);
        return ((ends_[index / 64] >> (index % 64)) & 1) != 0;
    }
    // What the grammar sees of a token; empty for those it never allows.
    std::string_view bytes(TokenId token) const;
    std::size_t size_bytes() const;

private:
    struct Text {
        std::string_view bytes;
        TokenId token = 0;
    };
    void build(const std::vector<Text>& sorted, std::vector<Node>& out);

    std::size_t vocabulary_size_ = 0;
    std::size_t max_depth_ = 0;
    std::vector<char> texts_;
    std::vector<std::uint32_t> text_begin_;  // by token, one more at the end
    std::vector<Node> all_;
    std::vector<Node> not_plain_;
    std::array<std::vector<std::uint64_t>, kPlainCharacters + 1> plain_;
    std::vector<TokenId> next_same_;
    std::vector<std::uint64_t> ends_;
};

}  // namespace hearth
