// What a grammar says, before it becomes an automaton: rules made of expressions. GBNF and JSON Schema both come here.
// Expressions are numbered and may be shared; only a Reference leads back to a rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar.h"

namespace hearth::grammar {

using ExprId = std::uint32_t;
using RuleId = std::uint32_t;
inline constexpr std::uint32_t kUnbounded = 0xffffffff;
inline constexpr std::uint32_t kNoExpr = 0xffffffff;

struct CodeRange {
    std::uint32_t first = 0;
    std::uint32_t last = 0;  // inclusive
};

enum class ExprKind : std::uint8_t { Literal, Class, Sequence, Choice, Repeat, Reference };

struct Expr {
    ExprKind kind = ExprKind::Sequence;
    std::uint32_t min = 0;          // Repeat
    std::uint32_t max = 0;          // Repeat; kUnbounded has no end
    RuleId rule = 0;                // Reference
    std::string bytes;              // Literal
    std::vector<CodeRange> ranges;  // Class: sorted and disjoint
    std::vector<ExprId> children;   // Sequence, Choice; one for Repeat
};

struct Rule {
    std::string name;
    ExprId body = kNoExpr;
};

// Rule 0 is the whole text.
class Source {
public:
    explicit Source(const GrammarLimits& limits) : limits_(limits) {}

    RuleId add_rule(std::string name, ExprId body = kNoExpr);
    void set_body(RuleId rule, ExprId body) { rules_[rule].body = body; }

    ExprId literal(std::string_view bytes);
    ExprId character_class(std::vector<CodeRange> ranges);  // any order
    ExprId sequence(std::vector<ExprId> children);
    ExprId choice(std::vector<ExprId> children);  // of nothing: matches nothing at all
    ExprId repeat(ExprId child, std::uint32_t min, std::uint32_t max);
    ExprId optional(ExprId child) { return repeat(child, 0, 1); }
    ExprId reference(RuleId rule);
    ExprId empty() { return sequence({}); }

    const std::vector<Expr>& exprs() const { return exprs_; }
    const std::vector<Rule>& rules() const { return rules_; }
    const GrammarLimits& limits() const { return limits_; }
    // Adding never fails by itself: makers ask from time to time.
    bool too_large() const { return rules_.size() > limits_.rules || exprs_.size() > limits_.nodes; }

private:
    ExprId add(Expr expr);

    GrammarLimits limits_;
    std::vector<Expr> exprs_;
    std::vector<Rule> rules_;
};

// Code points that `ranges` does not hold, without the surrogates.
std::vector<CodeRange> complement(std::vector<CodeRange> ranges);
// Sorted, joined, without the surrogates, which UTF-8 cannot write.
std::vector<CodeRange> normalise(std::vector<CodeRange> ranges);
// What `ranges` holds and `removed` does not.
std::vector<CodeRange> subtract(const std::vector<CodeRange>& ranges, const std::vector<CodeRange>& removed);

struct ByteRange {
    std::uint8_t first = 0;
    std::uint8_t last = 0;
};
struct ByteSequence {
    ByteRange bytes[4];
    std::size_t length = 0;
};
// UTF-8 of all code points of the range, as products of byte ranges.
std::vector<ByteSequence> utf8_sequences(const CodeRange& range);

inline Error too_large_error() {
    return Error{ErrorCode::Usage, "grammar: too large"};
}

}  // namespace hearth::grammar
