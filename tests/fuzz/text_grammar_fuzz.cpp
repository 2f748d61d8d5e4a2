// Grammars and schemas from foreign bytes, then random walks through their masks: a token is allowed exactly when it
// can be taken, and a finished text of a schema is JSON. The first byte selects the kind and seeds the walk.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "../unit/text/grammar_testing.h"
#include "base/json.h"
#include "base/rng.h"
#include "text/grammar.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using namespace hearth;
using namespace hearth::testing_grammar;

void require(bool condition) {
    if (!condition) std::abort();
}

const Words& words() {
    static const Words* const kWords = new Words({"aa", "ab", "{\"", "\":", "\": ", "\",", "\"}", "[[", "]]", "12",
                                                  "\xc3\xa9", "\xa9\xc3", "\n  ", "true", "abc", std::string(40, 'a')});
    return *kWords;
}

// The text of a walk of at most so many tokens; whether it is finished.
std::pair<std::string, bool> walk(TokenGrammar& tokens, std::uint64_t seed, int length) {
    std::string text;
    TokenGrammar::State state = TokenGrammar::kStart;
    for (int i = 0; i < length; ++i) {
        const Result<std::span<const std::uint64_t>> found = tokens.mask(state);
        if (!found.ok()) return {text, false};
        const std::vector<std::uint64_t> mask(found->begin(), found->end());
        std::vector<TokenId> allowed;
        for (TokenId token = 0; token < static_cast<TokenId>(words().tokenizer->vocabulary_size()); ++token) {
            const Result<TokenGrammar::State> next = tokens.advance(state, token);
            if (next.ok() || next.error().code != ErrorCode::OutOfResources) require(next.ok() == allows(mask, token));
            if (allows(mask, token)) allowed.push_back(token);
        }
        require(allows(mask, words().end()) == tokens.may_end(state));
        require(tokens.must_end(state) == (allowed.size() == 1 && allowed[0] == words().end()));
        const TokenId token = allowed[random_bits(seed, static_cast<std::uint64_t>(i)) % allowed.size()];
        if (token == words().end()) return {text, true};
        text += words().tokenizer->bytes(token);
        const Result<TokenGrammar::State> next = tokens.advance(state, token);
        if (!next.ok()) return {text, false};
        state = next.value();
    }
    return {text, tokens.may_end(state)};
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view source(reinterpret_cast<const char*>(data) + 1, size - 1);
    const bool is_schema = (data[0] & 1) != 0;
    GrammarLimits limits;
    limits.nodes = 5'000;
    limits.rules = 1'000;
    limits.states = 5'000;
    Result<GrammarPointer> grammar = Error{};
    if (is_schema) {
        const Result<Json> schema = Json::parse(source);
        if (!schema.ok()) return 0;
        grammar = Grammar::from_json_schema(schema.value(), limits);
    } else {
        grammar = Grammar::from_gbnf(source, limits);
    }
    if (!grammar.ok()) {
        require(!grammar.error().message.empty());
        return 0;
    }
    TokenGrammar tokens(grammar.value(), words().trie, limits);
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
        const auto [text, finished] = walk(tokens, seed * 256 + data[0], 24);
        if (finished && is_schema) require(Json::parse(text).ok());
    }
    return 0;
}
