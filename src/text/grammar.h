// Grammars that the model's output must follow. A Grammar is what the text may be (from GBNF or a JSON schema); a
// TokenGrammar says, for a vocabulary, which tokens may come next. Whatever cannot be decided within the limits is an
// error: an answer is never left unconstrained.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace hearth {

struct GrammarLimits {
    std::size_t source_bytes = 256 << 10;
    std::size_t depth = 128;       // nesting of groups, schemas and references
    std::size_t rules = 20'000;    // after expansion
    std::size_t nodes = 100'000;   // expressions, and nodes of the automaton
    std::size_t states = 200'000;  // distinct states one answer may pass through
};

// What a text may be. Immutable.
class Grammar {
public:
    // llama.cpp's GBNF; the rule `root` is the whole text. Left recursion is an error.
    static Result<std::shared_ptr<const Grammar>> from_gbnf(std::string_view source, const GrammarLimits& limits = {});
    // The subset of JSON Schema that structured outputs use. An unsupported keyword is an error that names it.
    static Result<std::shared_ptr<const Grammar>> from_json_schema(const Json& schema,
                                                                   const GrammarLimits& limits = {});
    // Any JSON object.
    static std::shared_ptr<const Grammar> json_object();
    ~Grammar();

    struct Impl;
    const Impl& impl() const { return *impl_; }
    explicit Grammar(std::unique_ptr<const Impl> impl);

private:
    std::unique_ptr<const Impl> impl_;
};

// The vocabulary as a trie of bytes, made once per model and shared by all its answers.
class TokenTrie;
std::shared_ptr<const TokenTrie> make_token_trie(const Tokenizer& tokenizer);

// One constrained answer and its forks. States are small numbers that stay valid, so a sequence can go back in time;
// masks are computed once per state and kept up to a number of bytes. Used by one thread at a time.
class TokenGrammar {
public:
    using State = std::uint32_t;
    static constexpr State kStart = 0;

    TokenGrammar(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie,
                 const GrammarLimits& limits = {});
    ~TokenGrammar();

    // One bit per token: may come next. Tokens that end generation are allowed when the text may end here. Valid until
    // the next call. An error when the limits are reached.
    Result<std::span<const std::uint64_t>> mask(State state);
    // The state after a token; an error when it is not allowed here.
    Result<State> advance(State state, TokenId token);
    bool may_end(State state) const;
    // Nothing but the end may come.
    bool must_end(State state);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace hearth
