#include "text/grammar/token_trie.h"

#include <algorithm>
#include <limits>

#include "base/utf8.h"

namespace hearth {

namespace {

bool is_text(TokenKind kind) {
    return kind == TokenKind::Normal || kind == TokenKind::UserDefined || kind == TokenKind::Byte;
}

// How many plain characters the token is; 0 when it is something else.
std::size_t plain_characters(std::string_view bytes) {
    std::size_t count = 0;
    for (std::size_t at = 0; at < bytes.size(); ++count) {
        const CodePoint point = decode_utf8(bytes, at);
        if (point.length == 0 || point.value < 0x20 || point.value == 0x7f || point.value == '"' ||
            point.value == '\\') {
            return 0;
        }
        at += point.length;
    }
    return count;
}

}  // namespace

TokenTrie::TokenTrie(const Tokenizer& tokenizer) : vocabulary_size_(tokenizer.vocabulary_size()) {
    next_same_.assign(vocabulary_size_, -1);
    ends_.assign(mask_words(), 0);
    for (std::vector<std::uint64_t>& bits : plain_) bits.assign(mask_words(), 0);
    text_begin_.reserve(vocabulary_size_ + 1);
    text_begin_.push_back(0);
    for (std::size_t i = 0; i < vocabulary_size_; ++i) {
        const auto token = static_cast<TokenId>(i);
        const std::string_view bytes = tokenizer.bytes(token);
        if (tokenizer.ends_generation(token)) {
            ends_[i / 64] |= std::uint64_t{1} << (i % 64);
        } else if (is_text(tokenizer.kind(token)) && bytes.size() <= std::numeric_limits<std::uint16_t>::max() &&
                   texts_.size() + bytes.size() < std::numeric_limits<std::uint32_t>::max()) {
            texts_.insert(texts_.end(), bytes.begin(), bytes.end());
        }
        text_begin_.push_back(static_cast<std::uint32_t>(texts_.size()));
    }
    std::vector<Text> every;
    for (std::size_t i = 0; i < vocabulary_size_; ++i) {
        const auto token = static_cast<TokenId>(i);
        if (!bytes(token).empty()) every.push_back({bytes(token), token});
    }
    std::sort(every.begin(), every.end(),
              [](const Text& a, const Text& b) { return a.bytes != b.bytes ? a.bytes < b.bytes : a.token < b.token; });
    std::vector<Text> rest;
    for (const Text& text : every) {
        const std::size_t characters = plain_characters(text.bytes);
        if (characters == 0 || characters > kPlainCharacters) {
            rest.push_back(text);
            continue;
        }
        const auto index = static_cast<std::size_t>(text.token);
        for (std::size_t n = characters; n <= kPlainCharacters; ++n) {
            plain_[n][index / 64] |= std::uint64_t{1} << (index % 64);
        }
    }
    build(every, all_);
    build(rest, not_plain_);
}

void TokenTrie::build(const std::vector<Text>& sorted, std::vector<Node>& out) {
    std::vector<std::size_t> path;  // nodes of the current text
    std::string_view last;
    TokenId same = -1;  // the latest token with the text `last`
    const auto leave = [&](std::size_t depth) {
        for (; path.size() > depth; path.pop_back()) out[path.back()].skip = static_cast<std::uint32_t>(out.size());
    };
    for (const Text& text : sorted) {
        if (text.bytes == last) {
            next_same_[static_cast<std::size_t>(same)] = text.token;
            same = text.token;
            continue;
        }
        const auto [differ, unused] = std::mismatch(last.begin(), last.end(), text.bytes.begin(), text.bytes.end());
        const auto common = static_cast<std::size_t>(differ - last.begin());
        leave(common);
        for (std::size_t i = common; i < text.bytes.size(); ++i) {
            Node node;
            node.depth = static_cast<std::uint16_t>(i + 1);
            node.byte = static_cast<std::uint8_t>(text.bytes[i]);
            path.push_back(out.size());
            out.push_back(node);
        }
        out.back().token = text.token;
        last = text.bytes;
        same = text.token;
        max_depth_ = std::max(max_depth_, text.bytes.size());
    }
    leave(0);
}

std::string_view TokenTrie::bytes(TokenId token) const {
    const auto index = static_cast<std::size_t>(token);
    return {texts_.data() + text_begin_[index], text_begin_[index + 1] - text_begin_[index]};
}

std::size_t TokenTrie::size_bytes() const {
    return texts_.size() + (all_.size() + not_plain_.size()) * sizeof(Node) +
           (plain_.size() + 1) * mask_words() * sizeof(std::uint64_t) +
           (next_same_.size() + text_begin_.size()) * sizeof(std::uint32_t);
}

std::shared_ptr<const TokenTrie> make_token_trie(const Tokenizer& tokenizer) {
    return std::make_shared<const TokenTrie>(tokenizer);
}

}  // namespace hearth
