#include "cli/toml.h"

#include <charconv>

namespace hearth {

namespace {

constexpr std::size_t kTextLimit = 1 << 20;
constexpr std::size_t kTableLimit = 4096;

class Parser {
public:
    Parser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

    Result<std::vector<TomlTable>> document() {
        if (text_.size() > kTextLimit) return fail("larger than 1 MiB");
        std::vector<TomlTable> tables(1);
        for (;;) {
            skip_blank_lines();
            if (at_ == text_.size()) return tables;
            if (peek() == '[') {
                ++at_;
                if (peek() == '[') return fail("arrays of tables are not supported");
                TomlTable table;
                table.path = TRY(path());
                if (!take(']')) return fail("']' is expected");
                for (const TomlTable& other : tables) {
                    if (other.path == table.path) return fail("the table is there twice");
                }
                if (tables.size() == kTableLimit) return fail("too many tables");
                tables.push_back(std::move(table));
            } else {
                std::string key = TRY(this->key());
                skip_space();
                if (!take('=')) return fail("'=' is expected after '" + key + "'");
                skip_space();
                if (tables.back().find(key) != nullptr) return fail("'" + key + "' is there twice");
                tables.back().entries.emplace_back(std::move(key), TRY(value()));
            }
            TRY(end_of_line());
        }
    }

private:
    Error fail(const std::string& reason) const {
        std::size_t line = 1;
        for (std::size_t i = 0; i < at_ && i < text_.size(); ++i) line += text_[i] == '\n' ? 1 : 0;
        return Error{ErrorCode::Failed, name_ + ", line " + std::to_string(line) + ": " + reason};
    }
    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    bool take(char c) {
        if (at_ >= text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }
    void skip_space() {
        while (peek() == ' ' || peek() == '\t') ++at_;
    }
    void skip_comment() {
        if (peek() != '#') return;
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    }
    void skip_blank_lines() {
        for (;;) {
            skip_space();
            skip_comment();
            if (!take('\n') && !take('\r')) return;
        }
    }
    Status end_of_line() {
        skip_space();
        skip_comment();
        static_cast<void>(take('\r'));
        if (at_ != text_.size() && !take('\n')) return fail("the end of the line is expected");
        return {};
    }

    static bool is_bare(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    }

    Result<std::string> key() {
        if (peek() == '"' || peek() == '\'') return string();
        const std::size_t begin = at_;
        while (is_bare(peek())) ++at_;
        if (at_ == begin) return fail("a key is expected");
        return std::string(text_.substr(begin, at_ - begin));
    }

    Result<std::vector<std::string>> path() {
        std::vector<std::string> parts;
        for (;;) {
            skip_space();
            parts.push_back(TRY(key()));
            skip_space();
            if (!take('.')) return parts;
        }
    }

    Result<std::string> string() {
        const char quote = text_[at_++];
        std::string out;
        for (;;) {
            const char c = peek();
            if (at_ >= text_.size() || c == '\n') return fail("the string does not end");
            ++at_;
            if (c == quote) return out;
            if (c != '\\' || quote == '\'') {
                out.push_back(c);
                continue;
            }
            constexpr std::string_view kFrom = "\"\\nt";
            constexpr std::string_view kTo = "\"\\\n\t";
            const std::size_t index = kFrom.find(peek());
            if (at_ >= text_.size() || index == std::string_view::npos) return fail("unknown escape in a string");
            out.push_back(kTo[index]);
            ++at_;
        }
    }

    Result<TomlValue> value() {
        if (peek() == '"' || peek() == '\'') return TomlValue(TRY(string()));
        if (peek() == '[') return TomlValue(TRY(strings()));
        const std::size_t begin = at_;
        while (is_bare(peek()) || peek() == '+') ++at_;
        const std::string_view word = text_.substr(begin, at_ - begin);
        if (word == "true") return TomlValue(true);
        if (word == "false") return TomlValue(false);
        std::string digits;
        for (const char c : word) {
            if (c != '_') digits.push_back(c);
        }
        std::int64_t number = 0;
        const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
        if (digits.empty() || code != std::errc{} || end != digits.data() + digits.size()) {
            return fail("a string, a whole number, true, false or an array of strings is expected");
        }
        return TomlValue(number);
    }

    Result<std::vector<std::string>> strings() {
        ++at_;
        std::vector<std::string> items;
        for (;;) {
            skip_blank_lines();
            if (take(']')) return items;
            if (peek() != '"' && peek() != '\'') return fail("a string or ']' is expected");
            items.push_back(TRY(string()));
            skip_blank_lines();
            if (take(']')) return items;
            if (!take(',')) return fail("',' or ']' is expected");
        }
    }

    std::string_view text_;
    const std::string& name_;
    std::size_t at_ = 0;
};

}  // namespace

const TomlValue* TomlTable::find(std::string_view key) const {
    for (const auto& [name, value] : entries) {
        if (name == key) return &value;
    }
    return nullptr;
}

Result<std::vector<TomlTable>> parse_toml(std::string_view text, const std::string& name) {
    return Parser(text, name).document();
}

}  // namespace hearth
