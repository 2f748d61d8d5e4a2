// Questions about rules that the automaton's maker asks: which may be empty, which can end, which call themselves.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "text/grammar/source.h"

namespace hearth::grammar {

struct Analysis {
    std::vector<bool> nullable;       // by expression
    std::vector<bool> productive;     // by expression: matches some text
    std::vector<bool> inlined;        // by rule: small, and not part of a recursion
    std::vector<std::size_t> weight;  // by expression: about how many edges it makes
};

// A counted repetition of no more than this many edges is written out, a rule as small as this goes into its callers.
inline constexpr std::size_t kInlineWeight = 64;

// Left recursion and a root that matches nothing are errors.
Result<Analysis> analyse(const Source& source);

}  // namespace hearth::grammar
