// GBNF, llama.cpp's dialect of BNF. One pass with a bounded depth; errors name line and column.
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "text/grammar/compiled.h"

namespace hearth::grammar {

namespace {

bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

class GbnfParser {
public:
    GbnfParser(std::string_view text, const GrammarLimits& limits) : text_(text), out_(limits) {}

    Result<Source> run() {
        if (text_.size() > out_.limits().source_bytes) return fail(0, "too long");
        rule_named("root", 0);
        skip_space(Newlines::Skip);
        while (!at_end()) TRY(rule());
        for (RuleId id = 0; id < out_.rules().size(); ++id) {
            if (out_.rules()[id].body != kNoExpr) continue;
            if (id == 0) return fail(0, "there is no rule 'root'");
            return fail(first_use_[id], "there is no rule '" + out_.rules()[id].name + "'");
        }
        return std::move(out_);
    }

private:
    enum class Newlines : bool { Keep, Skip };

    Error fail(std::size_t where, const std::string& reason) const {
        std::size_t line = 1, column = 1;
        for (std::size_t i = 0; i < where && i < text_.size(); ++i) {
            ++column;
            if (text_[i] == '\n') {
                ++line;
                column = 1;
            }
        }
        return Error{ErrorCode::Usage,
                     "grammar, line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + reason};
    }
    bool at_end() const { return at_ >= text_.size(); }
    char peek() const { return at_end() ? '\0' : text_[at_]; }

    void skip_space(Newlines newlines) {
        while (!at_end()) {
            const char c = text_[at_];
            if (c == '#') {
                while (!at_end() && text_[at_] != '\n' && text_[at_] != '\r') ++at_;
            } else if (c == ' ' || c == '\t' || (newlines == Newlines::Skip && (c == '\n' || c == '\r'))) {
                ++at_;
            } else {
                return;
            }
        }
    }

    // At the top level a rule goes on in the next line only when that begins with '|'.
    void skip_space_in(std::size_t depth) {
        skip_space(depth > 0 ? Newlines::Skip : Newlines::Keep);
        if (depth > 0) return;
        const std::size_t here = at_;
        skip_space(Newlines::Skip);
        if (peek() != '|') at_ = here;
    }

    RuleId rule_named(std::string_view name, std::size_t where) {
        const auto [found, added] = by_name_.try_emplace(std::string(name), static_cast<RuleId>(out_.rules().size()));
        if (added) {
            out_.add_rule(std::string(name));
            first_use_.push_back(where);
        }
        return found->second;
    }

    std::string_view name() {
        const std::size_t begin = at_;
        while (!at_end() && is_name(text_[at_])) ++at_;
        return text_.substr(begin, at_ - begin);
    }

    Status rule() {
        const std::size_t where = at_;
        const std::string_view called = name();
        if (called.empty()) return fail(where, "the name of a rule is expected");
        skip_space(Newlines::Keep);
        if (!text_.substr(at_).starts_with("::=")) return fail(at_, "'::=' is expected");
        at_ += 3;
        skip_space(Newlines::Skip);
        const RuleId id = rule_named(called, where);
        if (out_.rules()[id].body != kNoExpr) return fail(where, "rule '" + std::string(called) + "' is defined twice");
        out_.set_body(id, TRY(alternatives(0)));
        if (!at_end() && text_[at_] != '\n' && text_[at_] != '\r') return fail(at_, "the end of the rule is expected");
        skip_space(Newlines::Skip);
        return {};
    }

    Result<ExprId> alternatives(std::size_t depth) {
        if (depth >= out_.limits().depth) return fail(at_, "nested too deeply");
        std::vector<ExprId> choices{TRY(sequence(depth))};
        while (peek() == '|') {
            ++at_;
            skip_space(Newlines::Skip);
            choices.push_back(TRY(sequence(depth)));
        }
        return out_.choice(std::move(choices));
    }

    Result<ExprId> sequence(std::size_t depth) {
        std::vector<ExprId> parts;
        while (!at_end()) {
            if (out_.too_large()) return fail(at_, "too large");
            const std::size_t where = at_;
            const char c = text_[at_];
            ExprId part = kNoExpr;
            if (c == '"') {
                part = TRY(literal());
            } else if (c == '[') {
                part = TRY(character_class());
            } else if (c == '.') {
                ++at_;
                part = out_.character_class(complement({}));
            } else if (c == '(') {
                ++at_;
                skip_space(Newlines::Skip);
                part = TRY(alternatives(depth + 1));
                if (peek() != ')') return fail(where, "this '(' is not closed");
                ++at_;
            } else if (is_name(c)) {
                const RuleId id = rule_named(name(), where);
                part = out_.reference(id);
            } else if (c == '*' || c == '+' || c == '?' || c == '{') {
                return fail(where, "there is nothing to repeat");
            } else if (c == '<' || c == '!') {
                return fail(where, "tokens by name are not supported");
            } else {
                break;
            }
            parts.push_back(TRY(repeated(part)));
            skip_space_in(depth);
        }
        return out_.sequence(std::move(parts));
    }

    Result<ExprId> repeated(ExprId part) {
        for (int stacked = 0;; ++stacked) {
            if (stacked > 4) return fail(at_, "too many quantifiers in a row");
            // The quantifier stands in the same line as what it repeats.
            const std::size_t before = at_;
            skip_space(Newlines::Keep);
            switch (peek()) {
                case '*': part = out_.repeat(part, 0, kUnbounded); break;
                case '+': part = out_.repeat(part, 1, kUnbounded); break;
                case '?': part = out_.repeat(part, 0, 1); break;
                case '{': part = TRY(counted(part)); continue;
                default: at_ = before; return part;
            }
            ++at_;
        }
    }

    Result<std::uint32_t> number() {
        const std::size_t where = at_;
        std::uint64_t value = 0;
        while (!at_end() && text_[at_] >= '0' && text_[at_] <= '9') {
            value = value * 10 + static_cast<std::uint64_t>(text_[at_++] - '0');
            if (value > 1'000'000'000) return fail(where, "the number is too large");
        }
        if (at_ == where) return fail(where, "a number is expected");
        return static_cast<std::uint32_t>(value);
    }

    Result<ExprId> counted(ExprId part) {
        const std::size_t where = at_++;
        skip_space(Newlines::Keep);
        const std::uint32_t min = TRY(number());
        std::uint32_t max = min;
        skip_space(Newlines::Keep);
        if (peek() == ',') {
            ++at_;
            skip_space(Newlines::Keep);
            max = peek() == '}' ? kUnbounded : TRY(number());
            skip_space(Newlines::Keep);
        }
        if (peek() != '}') return fail(at_, "'}' is expected");
        ++at_;
        if (max < min) return fail(where, "the upper bound is below the lower one");
        return out_.repeat(part, min, max);
    }

    Result<std::uint32_t> hex(std::size_t digits) {
        std::uint32_t value = 0;
        for (std::size_t i = 0; i < digits; ++i) {
            const int digit = hex_value(peek());
            if (digit < 0) return fail(at_, std::to_string(digits) + " hex digits are expected");
            value = value * 16 + static_cast<std::uint32_t>(digit);
            ++at_;
        }
        return value;
    }

    // One character of a literal or a class.
    Result<std::uint32_t> character() {
        const std::size_t where = at_;
        if (peek() == '\n' || peek() == '\r') return fail(where, "it does not end in its line");
        if (peek() != '\\') {
            const CodePoint point = decode_utf8(text_, at_);
            if (point.length == 0) return fail(where, "invalid UTF-8");
            at_ += point.length;
            return point.value;
        }
        ++at_;
        if (at_end()) return fail(where, "the escape does not end");
        const char kind = text_[at_++];
        std::uint32_t value = 0;
        switch (kind) {
            case 'n': return std::uint32_t{'\n'};
            case 't': return std::uint32_t{'\t'};
            case 'r': return std::uint32_t{'\r'};
            case '"':
            case '\\':
            case '[':
            case ']':
            case '^':
            case '-': return static_cast<std::uint32_t>(kind);
            case 'x': value = TRY(hex(2)); break;
            case 'u': value = TRY(hex(4)); break;
            case 'U': value = TRY(hex(8)); break;
            default: return fail(where, "unknown escape");
        }
        if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) return fail(where, "this is no character");
        return value;
    }

    Result<ExprId> literal() {
        const std::size_t where = at_++;
        std::string bytes;
        while (peek() != '"' || at_end()) {
            if (at_end()) return fail(where, "this string is not closed");
            append_utf8(bytes, TRY(character()));
        }
        ++at_;
        return out_.literal(bytes);
    }

    Result<ExprId> character_class() {
        const std::size_t where = at_++;
        const bool negated = peek() == '^';
        if (negated) ++at_;
        std::vector<CodeRange> ranges;
        while (peek() != ']' || at_end()) {
            if (at_end()) return fail(where, "this class is not closed");
            const std::size_t from = at_;
            CodeRange range;
            range.first = TRY(character());
            range.last = range.first;
            if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
                ++at_;
                if (at_end()) return fail(where, "this class is not closed");
                range.last = TRY(character());
                if (range.last < range.first) return fail(from, "the range is in the wrong order");
            }
            ranges.push_back(range);
        }
        ++at_;
        return out_.character_class(negated ? complement(std::move(ranges)) : std::move(ranges));
    }

    std::string_view text_;
    std::size_t at_ = 0;
    Source out_;
    std::unordered_map<std::string, RuleId> by_name_;
    std::vector<std::size_t> first_use_;  // by rule: a place in the text
};

}  // namespace

Result<Source> parse_gbnf(std::string_view source, const GrammarLimits& limits) {
    return GbnfParser(source, limits).run();
}

}  // namespace hearth::grammar
