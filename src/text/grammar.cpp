#include "text/grammar.h"

#include <utility>

#include "base/check.h"
#include "text/grammar/compiled.h"
#include "text/grammar/mask_engine.h"

namespace hearth {

namespace grammar {

namespace {

constexpr std::size_t kIdleEngines = 2;

Result<std::shared_ptr<const Grammar>> make_grammar(const Source& source) {
    auto impl = std::make_unique<Grammar::Impl>();
    impl->automaton = TRY(compile(source));
    return std::make_shared<const Grammar>(std::move(impl));
}

}  // namespace

EnginePool::EnginePool() = default;
EnginePool::~EnginePool() = default;

std::unique_ptr<MaskEngine> EnginePool::take(const TokenTrie& trie, std::size_t set_limit) {
    const std::lock_guard lock(mutex_);
    for (std::unique_ptr<MaskEngine>& engine : idle_) {
        if (&engine->trie() != &trie || engine->set_limit() != set_limit) continue;
        std::swap(engine, idle_.back());
        std::unique_ptr<MaskEngine> taken = std::move(idle_.back());
        idle_.pop_back();
        return taken;
    }
    return nullptr;
}

void EnginePool::give_back(std::unique_ptr<MaskEngine> engine) {
    if (!engine->is_reusable()) return;
    engine->release_grammar();
    const std::lock_guard lock(mutex_);
    if (idle_.size() >= kIdleEngines) idle_.erase(idle_.begin());
    idle_.push_back(std::move(engine));
}

}  // namespace grammar

Grammar::Grammar(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Grammar::~Grammar() = default;

Result<std::shared_ptr<const Grammar>> Grammar::from_gbnf(std::string_view source, const GrammarLimits& limits) {
    return grammar::make_grammar(TRY(grammar::parse_gbnf(source, limits)));
}

Result<std::shared_ptr<const Grammar>> Grammar::from_json_schema(const Json& schema, const GrammarLimits& limits) {
    return grammar::make_grammar(TRY(grammar::source_of_schema(schema, limits)));
}

std::shared_ptr<const Grammar> Grammar::json_object() {
    Result<std::shared_ptr<const Grammar>> made = grammar::make_grammar(grammar::source_of_any_object());
    CHECK(made.ok());
    return std::move(made).value();
}

struct TokenGrammar::Impl {
    std::shared_ptr<const Grammar> grammar;
    std::unique_ptr<grammar::MaskEngine> engine;
};

TokenGrammar::TokenGrammar(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie,
                           const GrammarLimits& limits)
    : impl_(std::make_unique<Impl>()) {
    std::unique_ptr<grammar::MaskEngine> engine = grammar->impl().engines.take(*trie, limits.states);
    if (engine != nullptr) {
        engine->attach_grammar(grammar);
    } else {
        engine = std::make_unique<grammar::MaskEngine>(grammar, std::move(trie), limits.states);
    }
    impl_->engine = std::move(engine);
    impl_->grammar = std::move(grammar);
}

TokenGrammar::~TokenGrammar() {
    if (impl_ != nullptr) impl_->grammar->impl().engines.give_back(std::move(impl_->engine));
}

Result<std::span<const std::uint64_t>> TokenGrammar::mask(State state) {
    return impl_->engine->mask(state);
}
Result<TokenGrammar::State> TokenGrammar::advance(State state, TokenId token) {
    return impl_->engine->advance(state, token);
}
bool TokenGrammar::may_end(State state) const {
    return impl_->engine->may_end(state);
}
bool TokenGrammar::must_end(State state) {
    return impl_->engine->must_end(state);
}

}  // namespace hearth
