// What a Grammar holds: its automaton, and engines of answers that are over, warm for the next one.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "text/grammar.h"
#include "text/grammar/automaton.h"

namespace hearth {

namespace grammar {

class MaskEngine;

// Used by all answers of a grammar, from any thread.
class EnginePool {
public:
    EnginePool();
    ~EnginePool();
    // An idle engine for this vocabulary, or null.
    std::unique_ptr<MaskEngine> take(const TokenTrie& trie, std::size_t set_limit);
    void give_back(std::unique_ptr<MaskEngine> engine);

private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<MaskEngine>> idle_;
};

// The two front ends. Errors are of code Usage: what was asked for makes no sense.
Result<Source> parse_gbnf(std::string_view source, const GrammarLimits& limits);
Result<Source> source_of_schema(const Json& schema, const GrammarLimits& limits);
Source source_of_any_object();

}  // namespace grammar

struct Grammar::Impl {
    grammar::Automaton automaton;
    mutable grammar::EnginePool engines;
};

}  // namespace hearth
