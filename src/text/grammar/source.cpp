#include "text/grammar/source.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace hearth::grammar {

namespace {

constexpr std::uint32_t kLastCodePoint = 0x10ffff;
constexpr CodeRange kSurrogates{0xd800, 0xdfff};

// Splits where the lower `bits` bits do not run through all their values, so that each part is a product of ranges.
void split_aligned(std::uint32_t first, std::uint32_t last, std::uint32_t bits, std::vector<CodeRange>& out) {
    if (bits == 0) {
        out.push_back({first, last});
        return;
    }
    const std::uint32_t mask = (std::uint32_t{1} << bits) - 1;
    if ((first & ~mask) != (last & ~mask)) {
        if ((first & mask) != 0) {
            split_aligned(first, first | mask, bits - 6, out);
            first = (first | mask) + 1;
        }
        if ((last & mask) != mask) {
            const std::uint32_t cut = last & ~mask;
            if (first < cut) split_aligned(first, cut - 1, bits, out);
            split_aligned(cut, last, bits - 6, out);
            return;
        }
        if (first <= last) out.push_back({first, last});
        return;
    }
    split_aligned(first, last, bits - 6, out);
}

ByteSequence sequence_of(const CodeRange& range) {
    std::string first, last;
    append_utf8(first, range.first);
    append_utf8(last, range.last);
    ByteSequence out;
    out.length = first.size();
    for (std::size_t i = 0; i < first.size(); ++i) {
        out.bytes[i] = {static_cast<std::uint8_t>(first[i]), static_cast<std::uint8_t>(last[i])};
    }
    return out;
}

}  // namespace

RuleId Source::add_rule(std::string name, ExprId body) {
    rules_.push_back({std::move(name), body});
    return static_cast<RuleId>(rules_.size() - 1);
}

ExprId Source::add(Expr expr) {
    exprs_.push_back(std::move(expr));
    return static_cast<ExprId>(exprs_.size() - 1);
}

ExprId Source::literal(std::string_view bytes) {
    Expr expr;
    expr.kind = ExprKind::Literal;
    expr.bytes = bytes;
    return add(std::move(expr));
}

ExprId Source::character_class(std::vector<CodeRange> ranges) {
    Expr expr;
    expr.kind = ExprKind::Class;
    expr.ranges = normalise(std::move(ranges));
    return add(std::move(expr));
}

ExprId Source::sequence(std::vector<ExprId> children) {
    if (children.size() == 1) return children.front();
    Expr expr;
    expr.kind = ExprKind::Sequence;
    expr.children = std::move(children);
    return add(std::move(expr));
}

ExprId Source::choice(std::vector<ExprId> children) {
    if (children.size() == 1) return children.front();
    Expr expr;
    expr.kind = ExprKind::Choice;
    expr.children = std::move(children);
    return add(std::move(expr));
}

ExprId Source::repeat(ExprId child, std::uint32_t min, std::uint32_t max) {
    if (max == 0) return empty();
    Expr expr;
    expr.kind = ExprKind::Repeat;
    expr.min = min;
    expr.max = max;
    expr.children.push_back(child);
    return add(std::move(expr));
}

ExprId Source::reference(RuleId rule) {
    Expr expr;
    expr.kind = ExprKind::Reference;
    expr.rule = rule;
    return add(std::move(expr));
}

std::vector<CodeRange> normalise(std::vector<CodeRange> ranges) {
    std::sort(ranges.begin(), ranges.end(), [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
    std::vector<CodeRange> joined;
    for (const CodeRange& range : ranges) {
        if (!joined.empty() && range.first <= joined.back().last + 1) {
            joined.back().last = std::max(joined.back().last, range.last);
        } else {
            joined.push_back(range);
        }
    }
    std::vector<CodeRange> out;
    for (const CodeRange& range : joined) {
        if (range.last < kSurrogates.first || range.first > kSurrogates.last) {
            out.push_back(range);
            continue;
        }
        if (range.first < kSurrogates.first) out.push_back({range.first, kSurrogates.first - 1});
        if (range.last > kSurrogates.last) out.push_back({kSurrogates.last + 1, range.last});
    }
    return out;
}

std::vector<CodeRange> subtract(const std::vector<CodeRange>& ranges, const std::vector<CodeRange>& removed) {
    const std::vector<CodeRange> minus = normalise(removed);
    std::vector<CodeRange> out;
    for (const CodeRange& range : normalise(ranges)) {
        std::uint32_t next = range.first;
        for (const CodeRange& hole : minus) {
            if (hole.last < next) continue;
            if (hole.first > range.last) break;
            if (hole.first > next) out.push_back({next, hole.first - 1});
            next = hole.last + 1;
        }
        if (next <= range.last) out.push_back({next, range.last});
    }
    return out;
}

std::vector<CodeRange> complement(std::vector<CodeRange> ranges) {
    return subtract({{0, kLastCodePoint}}, ranges);
}

std::vector<ByteSequence> utf8_sequences(const CodeRange& range) {
    constexpr CodeRange kLengths[] = {{0, 0x7f}, {0x80, 0x7ff}, {0x800, 0xffff}, {0x10000, kLastCodePoint}};
    std::vector<ByteSequence> out;
    for (std::uint32_t length = 1; length <= 4; ++length) {
        const CodeRange& all = kLengths[length - 1];
        const std::uint32_t first = std::max(range.first, all.first);
        const std::uint32_t last = std::min(range.last, all.last);
        if (first > last) continue;
        std::vector<CodeRange> parts;
        split_aligned(first, last, 6 * (length - 1), parts);
        for (const CodeRange& part : parts) out.push_back(sequence_of(part));
    }
    return out;
}

}  // namespace hearth::grammar
