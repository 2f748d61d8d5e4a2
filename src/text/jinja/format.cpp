// "%s %d" % values and "{} {name}".format(values), in the forms templates use.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/jinja/python_text.h"
#include "text/jinja/runtime.h"

namespace hearth::jinja {

namespace {

struct Conversion {
    bool left = false;
    bool zero = false;
    bool plus = false;
    std::size_t width = 0;
    int precision = -1;
    char kind = 's';
};

constexpr int kWidest = 1000;

bool read_number(std::string_view pattern, std::size_t& at, int& out) {
    const auto [end, error] = std::from_chars(pattern.data() + at, pattern.data() + pattern.size(), out);
    at = static_cast<std::size_t>(end - pattern.data());
    return error == std::errc{} && out >= 0 && out <= kWidest;
}

// Reads what follows '%'; false when it is damaged or too wide.
bool read_conversion(std::string_view pattern, std::size_t& at, Conversion& out) {
    for (; at < pattern.size(); ++at) {
        if (pattern[at] == '-') {
            out.left = true;
        } else if (pattern[at] == '0') {
            out.zero = true;
        } else if (pattern[at] == '+') {
            out.plus = true;
        } else if (pattern[at] != ' ' && pattern[at] != '#') {
            break;
        }
    }
    const auto at_digit = [&] { return at < pattern.size() && pattern[at] >= '0' && pattern[at] <= '9'; };
    int number = 0;
    if (at_digit()) {
        if (!read_number(pattern, at, number)) return false;
        out.width = static_cast<std::size_t>(number);
    }
    if (at < pattern.size() && pattern[at] == '.') {
        ++at;
        out.precision = 0;
        if (at_digit() && !read_number(pattern, at, out.precision)) return false;
    }
    if (at >= pattern.size()) return false;
    out.kind = pattern[at++];
    return true;
}

Result<std::string> number_text(const Runtime& runtime, const Value& value, const Conversion& how) {
    double real = 0;
    if (!value.to_number(real)) {
        return runtime.fail(std::string("%") + how.kind + " format: a real number is required, not " +
                            std::string(type_name(value)));
    }
    char buffer[1500];
    const int precision = std::min(how.precision < 0 ? 6 : how.precision, kWidest);
    if (how.kind == 'd' || how.kind == 'i' || how.kind == 'u' || how.kind == 'x' || how.kind == 'X' ||
        how.kind == 'o') {
        std::int64_t integer = 0;
        if (!value.to_integer(integer)) {
            if (!(std::abs(real) < 9.2e18)) return runtime.fail("the number is out of range");
            integer = static_cast<std::int64_t>(real);
        }
        const int base = how.kind == 'o' ? 8 : (how.kind | 0x20) == 'x' ? 16 : 10;
        const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, integer, base);
        std::string digits(buffer, end);
        return how.kind == 'X' ? to_upper(digits) : digits;
    }
    const char format[] = {'%', '.', '*', how.kind, '\0'};
    const int length = std::snprintf(buffer, sizeof buffer, format, precision, real);
    if (length < 0 || static_cast<std::size_t>(length) >= sizeof buffer)
        return runtime.fail("the number is out of range");
    return std::string(buffer, static_cast<std::size_t>(length));
}

std::string with_width(std::string text, const Conversion& how) {
    const bool number = how.kind != 's' && how.kind != 'r' && how.kind != 'c';
    if (number && how.plus && !text.starts_with('-')) text.insert(0, 1, '+');
    const std::size_t length = code_point_count(text);
    if (length >= how.width) return text;
    const std::size_t missing = how.width - length;
    if (how.left) return text + std::string(missing, ' ');
    if (!how.zero || !number) return std::string(missing, ' ') + text;
    text.insert(text.starts_with('-') || text.starts_with('+') ? 1 : 0, missing, '0');
    return text;
}

}  // namespace

Result<std::string> Runtime::format_percent(std::string_view pattern, const Values& values) {
    TRY(charge_work(pattern.size()));
    std::string out;
    std::size_t used = 0;
    for (std::size_t at = 0; at < pattern.size();) {
        if (pattern[at] != '%') {
            out.push_back(pattern[at++]);
            continue;
        }
        if (++at < pattern.size() && pattern[at] == '%') {
            out.push_back(pattern[at++]);
            continue;
        }
        Conversion how;
        if (!read_conversion(pattern, at, how))
            return fail("damaged or too wide format in " + quoted(pattern.substr(0, 40)));
        if (used >= values.size()) return fail("not enough arguments for format string");
        const Value& value = values[used++];
        std::string piece;
        if (how.kind == 's' || how.kind == 'r') {
            piece = how.kind == 's' ? TRY(print(value)) : TRY(repr(value));
            if (how.precision >= 0) {
                std::size_t end = 0;
                for (int i = 0; i < how.precision && end < piece.size(); ++i) end += code_point_at(piece, end).length;
                piece.resize(end);
            }
        } else if (std::string_view("diuxXofFeEgG").find(how.kind) != std::string_view::npos) {
            piece = TRY(number_text(*this, value, how));
        } else {
            return fail(std::string("unsupported format character '") + how.kind + "'");
        }
        TRY(charge(1));
        out += with_width(std::move(piece), how);
        if (out.size() > limits_.output_bytes) return fail("makes a text longer than the limit");
    }
    if (used < values.size()) return fail("not all arguments converted during string formatting");
    return out;
}

Result<std::string> Runtime::format_braces(std::string_view pattern, const Arguments& arguments) {
    TRY(charge_work(pattern.size()));
    std::string out;
    std::size_t automatic = 0;
    for (std::size_t at = 0; at < pattern.size();) {
        const char c = pattern[at];
        if ((c == '{' || c == '}') && at + 1 < pattern.size() && pattern[at + 1] == c) {
            out.push_back(c);
            at += 2;
            continue;
        }
        if (c == '}') return fail("Single '}' encountered in format string");
        if (c != '{') {
            out.push_back(c);
            ++at;
            continue;
        }
        const std::size_t close = pattern.find('}', at);
        if (close == std::string_view::npos) return fail("expected '}' before end of string");
        const std::string_view field = pattern.substr(at + 1, close - at - 1);
        at = close + 1;
        const Value* value = nullptr;
        std::size_t index = automatic;
        const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), index);
        if (field.empty() || (error == std::errc{} && end == field.data() + field.size())) {
            if (field.empty()) ++automatic;
            if (index < arguments.positional.size()) value = &arguments.positional[index];
        } else {
            for (const auto& [name, named] : arguments.named) {
                if (name == field) value = &named;
            }
        }
        if (value == nullptr)
            return fail("format() has no value for the field '{" + std::string(field.substr(0, 40)) + "}'");
        TRY(charge(1));
        out += TRY(print(*value));
        if (out.size() > limits_.output_bytes) return fail("makes a text longer than the limit");
    }
    return out;
}

}  // namespace hearth::jinja
