// Texts through grammars, for tests: over a vocabulary of all bytes, some longer tokens and one that ends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/grammar.h"
#include "unit/text/tiny_vocabulary.h"

namespace hearth::testing_grammar {

using GrammarPointer = std::shared_ptr<const Grammar>;

inline tiny::Vocabulary bytes_and(const std::vector<std::string>& longer) {
    tiny::Vocabulary out = tiny::byte_level({});
    for (const std::string& token : longer) out.add(tiny::in_alphabet(token));
    out.add("<|im_end|>", tiny::kControl);
    out.add("<|other|>", tiny::kControl);
    return out;
}

// A vocabulary with its trie. The last token but one ends an answer.
struct Words {
    tiny::Loaded tokenizer;
    std::shared_ptr<const TokenTrie> trie;

    explicit Words(const std::vector<std::string>& longer = {})
        : tokenizer(bytes_and(longer).metadata()), trie(make_token_trie(*tokenizer)) {}
    TokenId end() const { return static_cast<TokenId>(tokenizer->vocabulary_size() - 2); }
};

inline const Words& single_bytes() {
    static const Words* const kWords = new Words();
    return *kWords;
}

inline bool allows(std::span<const std::uint64_t> mask, TokenId token) {
    const auto index = static_cast<std::size_t>(token);
    return ((mask[index / 64] >> (index % 64)) & 1) != 0;
}

enum class Outcome { Rejected, Prefix, Accepted };

// Byte by byte. A prefix could still become a text of the grammar.
inline Outcome judge(const GrammarPointer& grammar, std::string_view text) {
    TokenGrammar words(grammar, single_bytes().trie);
    TokenGrammar::State state = TokenGrammar::kStart;
    for (const char byte : text) {
        const Result<TokenGrammar::State> next = words.advance(state, static_cast<std::uint8_t>(byte));
        if (!next.ok()) return Outcome::Rejected;
        state = next.value();
    }
    return words.may_end(state) ? Outcome::Accepted : Outcome::Prefix;
}

inline GrammarPointer gbnf(std::string_view source) {
    Result<GrammarPointer> made = Grammar::from_gbnf(source);
    CHECK(made.ok());
    return std::move(made).value();
}

inline Result<GrammarPointer> try_schema(std::string_view source) {
    return Grammar::from_json_schema(TRY(Json::parse(source)));
}

}  // namespace hearth::testing_grammar
