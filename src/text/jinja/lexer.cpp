#include "text/jinja/lexer.h"

#include <algorithm>
#include <charconv>

#include "base/utf8.h"
#include "text/jinja/python_text.h"

namespace hearth::jinja {

Error template_error(std::uint32_t line, std::string_view reason) {
    return Error{ErrorCode::Failed, "chat template, line " + std::to_string(line) + ": " + one_line(reason)};
}

namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_part(char c) {
    return is_name_start(c) || is_digit(c);
}

// Line ends become \n, and a single one at the end of the template is dropped.
std::string normalized(std::string_view source) {
    std::string out;
    out.reserve(source.size());
    const std::string repaired = repair_utf8(source);
    for (std::size_t i = 0; i < repaired.size(); ++i) {
        if (repaired[i] != '\r') {
            out.push_back(repaired[i]);
        } else {
            out.push_back('\n');
            if (i + 1 < repaired.size() && repaired[i + 1] == '\n') ++i;
        }
    }
    if (!out.empty() && out.back() == '\n') out.pop_back();
    return out;
}

class Lexer {
public:
    explicit Lexer(std::string_view source) : source_(source) {}

    Result<std::vector<Token>> run() {
        while (at_ < source_.size()) {
            const std::size_t open = find_opening();
            if (open == std::string_view::npos) {
                add_text(source_.substr(at_));
                break;
            }
            const char kind = source_[open + 1];
            std::size_t inner = open + 2;
            const char sign =
                inner < source_.size() && (source_[inner] == '-' || source_[inner] == '+') ? source_[inner] : '\0';
            if (sign != '\0') ++inner;
            add_text(before_tag(source_.substr(at_, open - at_), sign, kind != '{'));
            count_lines(open);
            at_ = inner;
            if (kind == '#') {
                TRY(comment());
            } else if (kind == '{') {
                TRY(tag(TokenKind::VariableBegin, TokenKind::VariableEnd, "}}"));
            } else if (!TRY(raw())) {
                TRY(tag(TokenKind::BlockBegin, TokenKind::BlockEnd, "%}"));
            }
            line_starting_ = at_ > 0 && source_[at_ - 1] == '\n';
        }
        add(TokenKind::End, "");
        return std::move(tokens_);
    }

private:
    void add(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text), 0, 0}); }
    void add_text(std::string_view text) {
        if (!text.empty()) add(TokenKind::Text, std::string(text));
    }
    Error fail(std::string_view reason) const { return template_error(line_, reason); }

    // Lines are counted lazily: everything up to `offset` that has not been counted yet.
    void count_lines(std::size_t offset) {
        offset = std::min(offset, source_.size());
        if (offset <= counted_) return;
        line_ += static_cast<std::uint32_t>(std::count(source_.data() + counted_, source_.data() + offset, '\n'));
        counted_ = offset;
    }

    std::size_t find_opening() const {
        for (std::size_t i = source_.find('{', at_); i != std::string_view::npos; i = source_.find('{', i + 1)) {
            if (i + 1 < source_.size() && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#'))
                return i;
        }
        return std::string_view::npos;
    }

    std::string_view before_tag(std::string_view text, char sign, bool may_lstrip) const {
        if (sign == '-') return text.substr(0, text.size() - trailing_space(text));
        if (sign == '+' || !may_lstrip) return text;
        const std::size_t newline = text.rfind('\n');
        if (newline == std::string_view::npos && !line_starting_) return text;
        const std::size_t start = newline == std::string_view::npos ? 0 : newline + 1;
        return leading_space(text.substr(start)) == text.size() - start ? text.substr(0, start) : text;
    }

    // Takes `-close`, `+close` or `close` at the current place, with the white space it swallows.
    bool take_close(std::string_view close, bool block) {
        std::size_t end = at_;
        const char sign = end < source_.size() ? source_[end] : '\0';
        if (sign == '-' || (sign == '+' && block)) ++end;
        if (!source_.substr(end).starts_with(close)) return false;
        const bool plain = end == at_;
        end += close.size();
        if (sign == '-') {
            end += leading_space(source_.substr(end));
        } else if (plain && block && end < source_.size() && source_[end] == '\n') {
            ++end;
        }
        at_ = end;
        return true;
    }

    Status comment() {
        const std::size_t close = source_.find("#}", at_);
        if (close == std::string_view::npos) return fail("missing end of comment tag");
        const bool sign = close > at_ && (source_[close - 1] == '-' || source_[close - 1] == '+');
        at_ = sign ? close - 1 : close;
        take_close("#}", true);
        count_lines(at_);
        return {};
    }

    bool skip_word(std::size_t& at, std::string_view word) const {
        at += leading_space(source_.substr(at));
        if (!source_.substr(at).starts_with(word)) return false;
        at += word.size();
        at += leading_space(source_.substr(at));
        return true;
    }

    // `{% raw %}`: everything up to endraw is text. False when the tag at this place is another one.
    Result<bool> raw() {
        std::size_t inner = at_;
        if (!skip_word(inner, "raw")) return false;
        if (source_.substr(inner).starts_with("-%}")) {
            inner += 3;
            inner += leading_space(source_.substr(inner));
        } else if (source_.substr(inner).starts_with("%}")) {
            inner += 2;
        } else {
            return false;
        }
        for (std::size_t open = source_.find("{%", inner); open != std::string_view::npos;
             open = source_.find("{%", open + 2)) {
            std::size_t end = open + 2;
            const char sign =
                end < source_.size() && (source_[end] == '-' || source_[end] == '+') ? source_[end] : '\0';
            if (sign != '\0') ++end;
            if (!skip_word(end, "endraw")) continue;
            const std::size_t content = inner;
            at_ = end;
            if (!take_close("%}", true)) continue;
            line_starting_ = source_[content - 1] == '\n';
            add_text(before_tag(source_.substr(content, open - content), sign, true));
            count_lines(at_);
            return true;
        }
        return fail("missing end of raw directive");
    }

    Status tag(TokenKind begin, TokenKind end, std::string_view close) {
        add(begin, "");
        std::string open_brackets;
        for (;;) {
            at_ += leading_space(source_.substr(at_));
            count_lines(at_);
            if (at_ >= source_.size()) return fail("unexpected end of template");
            if (open_brackets.empty() && take_close(close, end == TokenKind::BlockEnd)) {
                add(end, "");
                count_lines(at_);
                return {};
            }
            TRY(token(open_brackets));
        }
    }

    Status token(std::string& open_brackets) {
        const char c = source_[at_];
        if (is_digit(c)) return number();
        if (c == '\'' || c == '"') return string();
        if (is_name_start(c)) {
            const std::size_t start = at_;
            while (at_ < source_.size() && is_name_part(source_[at_])) ++at_;
            add(TokenKind::Name, std::string(source_.substr(start, at_ - start)));
            return {};
        }
        constexpr std::string_view kDouble[] = {"//", "**", "==", "!=", ">=", "<="};
        for (const std::string_view sign : kDouble) {
            if (source_.substr(at_).starts_with(sign)) {
                at_ += sign.size();
                add(TokenKind::Operator, std::string(sign));
                return {};
            }
        }
        if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos) {
            return fail("unexpected character " + quoted(source_.substr(at_, code_point_at(source_, at_).length)));
        }
        if (c == '(' || c == '[' || c == '{') open_brackets.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
        if (c == ')' || c == ']' || c == '}') {
            if (open_brackets.empty()) return fail(std::string("unexpected '") + c + "'");
            if (open_brackets.back() != c) {
                return fail(std::string("unexpected '") + c + "', expected '" + open_brackets.back() + "'");
            }
            open_brackets.pop_back();
        }
        ++at_;
        add(TokenKind::Operator, std::string(1, c));
        return {};
    }

    Status string() {
        const char quote = source_[at_];
        std::size_t end = at_ + 1;
        while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
        if (end >= source_.size()) return fail("the string does not end");
        std::string decoded = TRY(unescape(source_.substr(at_ + 1, end - at_ - 1)));
        add(TokenKind::String, std::move(decoded));
        at_ = end + 1;
        return {};
    }

    Result<std::string> unescape(std::string_view body) const {
        std::string out;
        for (std::size_t i = 0; i < body.size(); ++i) {
            if (body[i] != '\\' || i + 1 >= body.size()) {
                out.push_back(body[i]);
                continue;
            }
            const char kind = body[++i];
            constexpr std::string_view kFrom = "\\'\"nrtabfv";
            constexpr std::string_view kTo = "\\'\"\n\r\t\a\b\f\v";
            if (const std::size_t index = kFrom.find(kind); index != std::string_view::npos) {
                out.push_back(kTo[index]);
            } else if (kind == '\n') {
                continue;
            } else if (kind >= '0' && kind <= '7') {
                std::size_t length = 1;
                while (length < 3 && i + length < body.size() && body[i + length] >= '0' && body[i + length] <= '7')
                    ++length;
                append_utf8(out, TRY(code(body.substr(i, length), length, 8)));
                i += length - 1;
            } else if (kind == 'x' || kind == 'u' || kind == 'U') {
                const std::size_t length = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
                append_utf8(out, TRY(code(body.substr(i + 1), length, 16)));
                i += length;
            } else {
                out += {'\\', kind};
            }
        }
        return out;
    }

    Result<std::uint32_t> code(std::string_view digits, std::size_t length, int base) const {
        std::uint32_t value = 0;
        const char* end = digits.data() + std::min(length, digits.size());
        const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
        if (digits.size() < length || error != std::errc{} || stop != end) return fail("damaged escape in a string");
        if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return fail("escape is not a Unicode character");
        return value;
    }

    Status number() {
        const std::size_t start = at_;
        if (source_[at_] == '0' && at_ + 1 < source_.size()) {
            const char kind = static_cast<char>(source_[at_ + 1] | 0x20);
            const int base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
            if (base != 0) {
                at_ += 2;
                const std::size_t digits = at_;
                while (at_ < source_.size() && (is_name_part(source_[at_]))) ++at_;
                return integer(source_.substr(digits, at_ - digits), base);
            }
        }
        const auto skip_digits = [&](std::size_t from) {
            while (from < source_.size() && (is_digit(source_[from]) || (source_[from] == '_' && from > start))) ++from;
            return from;
        };
        at_ = skip_digits(at_);
        const auto digit_at = [&](std::size_t i) { return i < source_.size() && is_digit(source_[i]); };
        // After a dot (`list.0.5`) only integers are read, as in the original.
        const bool may_be_float = start == 0 || source_[start - 1] != '.';
        bool real = false;
        if (may_be_float && at_ < source_.size() && source_[at_] == '.' && digit_at(at_ + 1)) {
            real = true;
            at_ = skip_digits(at_ + 1);
        }
        if (may_be_float && at_ < source_.size() && (source_[at_] | 0x20) == 'e') {
            const std::size_t sign =
                at_ + 1 < source_.size() && (source_[at_ + 1] == '+' || source_[at_ + 1] == '-') ? 1 : 0;
            if (digit_at(at_ + 1 + sign)) {
                real = true;
                at_ = skip_digits(at_ + 1 + sign);
            }
        }
        const std::string_view written = source_.substr(start, at_ - start);
        if (!real) return integer(written, 10);
        std::string digits(written);
        std::erase(digits, '_');
        Token token{TokenKind::Float, line_, "", 0, 0};
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), token.real);
        if (error != std::errc{}) return fail("the number is out of range");
        tokens_.push_back(std::move(token));
        return {};
    }

    Status integer(std::string_view written, int base) {
        std::string digits(written);
        std::erase(digits, '_');
        Token token{TokenKind::Integer, line_, digits, 0, 0};
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), token.integer, base);
        if (error != std::errc{} || end != digits.data() + digits.size())
            return fail("the integer is out of range or damaged");
        tokens_.push_back(std::move(token));
        return {};
    }

    std::string_view source_;
    std::size_t at_ = 0;
    std::size_t counted_ = 0;
    std::uint32_t line_ = 1;
    bool line_starting_ = true;
    std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokenize_template(std::string_view source) {
    const std::string text = normalized(source);
    return Lexer(text).run();
}

}  // namespace hearth::jinja
