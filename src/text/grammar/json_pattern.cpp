// Strings by regular expression and by format. The expression becomes grammar, so it costs no backtracking; what it
// says of characters is turned into how JSON writes them.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "text/grammar/json_rules.h"

namespace hearth::grammar {

namespace {

const std::vector<CodeRange> kDigit = {{'0', '9'}};
const std::vector<CodeRange> kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const std::vector<CodeRange> kSpace = {{'\t', '\r'}, {' ', ' '}, {0xa0, 0xa0}, {0x2028, 0x2029}};
const std::vector<CodeRange> kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
const std::vector<CodeRange> kWritten = {{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x10ffff}};  // as themselves

constexpr std::uint32_t kLargestCount = 100'000;
constexpr int kDepth = 32;

class PatternParser {
public:
    PatternParser(Source& source, std::string_view text) : source_(source), text_(text) {}

    Result<ExprId> run() {
        if (text_.size() < 2 || text_.front() != '^' || text_.back() != '$' || ends_in_escape()) {
            return Error{ErrorCode::Usage, "a pattern must be anchored at both ends: ^...$"};
        }
        text_ = text_.substr(1, text_.size() - 2);
        const ExprId all = TRY(alternatives(0));
        if (at_ < text_.size()) return fail("unexpected ')'");
        // ^a|b$ anchors each branch at one end only.
        if (top_level_choice_) return fail("alternatives need a group between the anchors: ^(?:a|b)$");
        return all;
    }

private:
    // The last '$' is a letter when an odd number of backslashes stands before it.
    bool ends_in_escape() const {
        std::size_t backslashes = 0;
        for (std::size_t i = text_.size() - 1; i > 0 && text_[i - 1] == '\\'; --i) ++backslashes;
        return backslashes % 2 == 1;
    }
    Error fail(const std::string& reason) const {
        return Error{ErrorCode::Usage, "pattern, character " + std::to_string(at_ + 1) + ": " + reason};
    }
    bool at_end() const { return at_ >= text_.size(); }
    char peek() const { return at_end() ? '\0' : text_[at_]; }

    // How JSON writes one character of the class.
    ExprId written(const std::vector<CodeRange>& ranges) {
        const std::vector<CodeRange> held = normalise(ranges);
        std::vector<ExprId> ways{source_.character_class(subtract(held, complement(kWritten)))};
        constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t";
        constexpr std::string_view kLetters = "\"\\bfnrt";
        for (std::size_t i = 0; i < kEscaped.size(); ++i) {
            const auto code = static_cast<std::uint32_t>(kEscaped[i]);
            for (const CodeRange& range : held) {
                if (range.first <= code && code <= range.last) {
                    ways.push_back(source_.literal(std::string("\\") + kLetters[i]));
                }
            }
        }
        return source_.choice(std::move(ways));
    }

    Result<ExprId> alternatives(int depth) {
        if (depth > kDepth) return fail("nested too deeply");
        std::vector<ExprId> ways{TRY(sequence(depth))};
        while (peek() == '|') {
            if (depth == 0) top_level_choice_ = true;
            ++at_;
            ways.push_back(TRY(sequence(depth)));
        }
        return source_.choice(std::move(ways));
    }

    Result<ExprId> sequence(int depth) {
        std::vector<ExprId> parts;
        while (!at_end() && peek() != '|' && peek() != ')') {
            if (source_.too_large()) return too_large_error();
            const ExprId part = TRY(atom(depth));
            parts.push_back(TRY(repeated(part)));
        }
        return source_.sequence(std::move(parts));
    }

    Result<ExprId> atom(int depth) {
        const char c = peek();
        if (c == '(') {
            ++at_;
            if (peek() == '?') {
                if (!text_.substr(at_).starts_with("?:")) return fail("only (...) and (?:...) groups are supported");
                at_ += 2;
            }
            const ExprId group = TRY(alternatives(depth + 1));
            if (peek() != ')') return fail("')' is expected");
            ++at_;
            return group;
        }
        if (c == '[') return written(TRY(character_class()));
        if (c == '.') {
            ++at_;
            return written(complement(kLineEnds));
        }
        if (c == '*' || c == '+' || c == '?' || c == '{') return fail("there is nothing to repeat");
        if (c == '^' || c == '$') return fail("anchors are supported at the ends only");
        if (c == '\\') return written(TRY(escape(/*in_class=*/false)));
        const CodePoint point = decode_utf8(text_, at_);
        if (point.length == 0) return fail("invalid UTF-8");
        at_ += point.length;
        return written({{point.value, point.value}});
    }

    Result<std::uint32_t> hex(std::size_t digits) {
        std::uint32_t value = 0;
        for (std::size_t i = 0; i < digits; ++i, ++at_) {
            const char c = peek();
            const bool digit = c >= '0' && c <= '9';
            const bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
            if (!digit && !letter) return fail("hex digits are expected");
            value = value * 16 + static_cast<std::uint32_t>(digit ? c - '0' : (c | 0x20) - 'a' + 10);
        }
        if (value >= 0xd800 && value <= 0xdfff) return fail("this is no character");
        return value;
    }

    Result<std::vector<CodeRange>> escape(bool in_class) {
        ++at_;
        if (at_end()) return fail("the escape does not end");
        const char kind = text_[at_++];
        const auto one = [](std::uint32_t value) { return std::vector<CodeRange>{{value, value}}; };
        switch (kind) {
            case 'd': return kDigit;
            case 'D': return complement(kDigit);
            case 'w': return kWord;
            case 'W': return complement(kWord);
            case 's': return kSpace;
            case 'S': return complement(kSpace);
            case 'n': return one('\n');
            case 'r': return one('\r');
            case 't': return one('\t');
            case 'f': return one('\f');
            case 'x': return one(TRY(hex(2)));
            case 'u': return one(TRY(hex(4)));
            default: break;
        }
        if (kind == 'b' && in_class) return one('\b');
        constexpr std::string_view kMarks = "^$\\.*+?()[]{}|/-\"'#@:,;=<>!&~% `";
        if (kMarks.find(kind) == std::string_view::npos) return fail("unsupported escape");
        return one(static_cast<std::uint32_t>(kind));
    }

    Result<std::vector<CodeRange>> class_atom() {
        if (peek() == '\\') return escape(/*in_class=*/true);
        const CodePoint point = decode_utf8(text_, at_);
        if (point.length == 0) return fail("invalid UTF-8");
        at_ += point.length;
        return std::vector<CodeRange>{{point.value, point.value}};
    }

    Result<std::vector<CodeRange>> character_class() {
        ++at_;
        const bool negated = peek() == '^';
        if (negated) ++at_;
        std::vector<CodeRange> ranges;
        while (peek() != ']') {
            if (at_end()) return fail("']' is expected");
            std::vector<CodeRange> part = TRY(class_atom());
            const bool single = part.size() == 1 && part[0].first == part[0].last;
            if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
                ++at_;
                const std::vector<CodeRange> end = TRY(class_atom());
                if (!single || end.size() != 1 || end[0].first != end[0].last || end[0].first < part[0].first) {
                    return fail("invalid range");
                }
                part[0].last = end[0].first;
            }
            ranges.insert(ranges.end(), part.begin(), part.end());
        }
        ++at_;
        return negated ? complement(std::move(ranges)) : ranges;
    }

    Result<std::uint32_t> number() {
        std::uint32_t value = 0;
        const std::size_t begin = at_;
        while (peek() >= '0' && peek() <= '9') {
            value = value * 10 + static_cast<std::uint32_t>(text_[at_++] - '0');
            if (value > kLargestCount) return fail("the count is too large");
        }
        if (at_ == begin) return fail("a number is expected");
        return value;
    }

    Result<ExprId> repeated(ExprId part) {
        std::uint32_t min = 0;
        std::uint32_t max = kUnbounded;
        switch (peek()) {
            case '*': ++at_; break;
            case '+':
                ++at_;
                min = 1;
                break;
            case '?':
                ++at_;
                max = 1;
                break;
            case '{':
                ++at_;
                min = TRY(number());
                max = min;
                if (peek() == ',') {
                    ++at_;
                    max = peek() == '}' ? kUnbounded : TRY(number());
                }
                if (peek() != '}') return fail("'}' is expected");
                ++at_;
                if (max < min) return fail("the upper bound is below the lower one");
                break;
            default: return part;
        }
        if (peek() == '?') ++at_;  // lazy: the same texts
        if (peek() == '+' || peek() == '*' || peek() == '{') return fail("this quantifier is not supported");
        return source_.repeat(part, min, max);
    }

    Source& source_;
    std::string_view text_;
    std::size_t at_ = 0;
    bool top_level_choice_ = false;
};

constexpr std::string_view kTime =
    "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:0\\d|1[0-4]):[0-5]\\d)";
// Years 1000 to 2999; February 29 in leap years only.
constexpr std::string_view kDate =
    "(?:[12]\\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|"
    "02-(?:0[1-9]|1\\d|2[0-8]))|(?:[12]\\d(?:0[48]|[2468][048]|[13579][26])|(?:1[26]|2[048])00)-02-29)";

}  // namespace

Result<ExprId> string_of_pattern(Source& source, std::string_view pattern) {
    return PatternParser(source, pattern).run();
}

Result<ExprId> string_of_format(Source& source, std::string_view format) {
    std::string pattern;
    if (format == "date") {
        pattern = kDate;
    } else if (format == "time") {
        pattern = kTime;
    } else if (format == "date-time") {
        pattern = std::string(kDate) + "T" + std::string(kTime);
    } else if (format == "uuid") {
        pattern = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
    } else if (format == "ipv4") {
        const std::string part = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
        pattern = part + "(?:\\." + part + "){3}";
    } else {
        return Error{ErrorCode::Usage, "the format '" + std::string(format) + "' is not supported"};
    }
    return PatternParser(source, "^" + pattern + "$").run();
}

}  // namespace hearth::grammar
