// Filters of texts, numbers and single values.
#include "text/jinja/filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/ast.h"
#include "text/jinja/python_text.h"

namespace hearth::jinja {

namespace {

template <std::string (*convert)(std::string_view)>
Result<Value> converted(Runtime& runtime, const Value& input, const Arguments& arguments) {
    TRY(Bound::bind(runtime, "filter", arguments, {}));
    const std::string text = TRY(runtime.print(input));
    TRY(runtime.charge_work(4 * text.size()));
    return runtime.text(convert(text));
}

Result<Value> trim_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, "trim", arguments, {"chars"}));
    const std::string text = TRY(runtime.print(input));
    return runtime.text(std::string(strip(text, bound.text(0), true, true)));
}

Result<Value> string_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    TRY(Bound::bind(runtime, "string", arguments, {}));
    if (input.as_string() != nullptr) return input;
    return runtime.text(TRY(runtime.print(input)));
}

std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '&': out += "&amp;"; break;
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            case '\'': out += "&#39;"; break;
            case '"': out += "&#34;"; break;
            default: out.push_back(c);
        }
    }
    return out;
}

Result<Value> replace_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, "replace", arguments, {"old", "new", "count"}, 2));
    const std::string text = TRY(runtime.print(input));
    const std::string from = TRY(runtime.print(*bound[0]));
    const std::string to = TRY(runtime.print(*bound[1]));
    return runtime.text(TRY(runtime.replaced(text, from, to, bound.integer(2, -1))));
}

Result<Value> default_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, "default", arguments, {"default_value", "boolean"}));
    const bool absent = input.is_undefined() || (bound.flag(1, false) && !truthy(input));
    if (!absent) return input;
    return bound[0] == nullptr ? Value("") : *bound[0];
}

Result<Value> tojson_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Bound bound =
        TRY(Bound::bind(runtime, "tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}));
    Runtime::JsonStyle style;
    style.ascii_only = bound.flag(0, false);
    style.sort_keys = bound.flag(3, false);
    std::int64_t width = 0;
    if (bound[1] != nullptr && bound[1]->to_integer(width)) {
        style.indented = true;
        if (width > 64)
            return runtime.fail("tojson: an indent of " + std::to_string(width) + " is beyond the limit of 64");
        style.indent = std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
    } else if (const std::string* indent = bound.text(1)) {
        style.indented = true;
        style.indent = indent->substr(0, 64);
    }
    if (style.indented) style.item_separator = ",";
    if (bound.has(2) && !bound[2]->is_none()) {
        const std::shared_ptr<const Sequence> pair = TRY(runtime.iterate(*bound[2]));
        if (pair->items.size() != 2) return runtime.fail("tojson: separators are a pair of strings");
        style.item_separator = TRY(runtime.print(pair->items[0]));
        style.key_separator = TRY(runtime.print(pair->items[1]));
    }
    return runtime.text(TRY(runtime.to_json(input, style)));
}

// What int() and float() read: digits with a sign, spaces around them.
bool parse_integer(std::string_view text, int base, std::int64_t& out) {
    text = strip(text, nullptr, true, true);
    if (text.starts_with('+')) text.remove_prefix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
    return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}
bool parse_float(std::string_view text, double& out) {
    text = strip(text, nullptr, true, true);
    if (text.starts_with('+')) text.remove_prefix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

Result<Value> int_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, "int", arguments, {"default", "base"}));
    TRY(runtime.refuse_undefined(input));
    const Value otherwise = bound[0] == nullptr ? Value(std::int64_t{0}) : *bound[0];
    std::int64_t integer = 0;
    if (input.to_integer(integer)) return Value(integer);
    double real = 0;
    if (const std::string* text = input.as_string()) {
        const std::int64_t base = bound.integer(1, 10);
        if (base < 2 || base > 36) return runtime.fail("int() base must be >= 2 and <= 36");
        std::string_view digits = strip(*text, nullptr, true, true);
        const bool prefixed = base == 16 && (digits.starts_with("0x") || digits.starts_with("0X"));
        if (parse_integer(prefixed ? digits.substr(2) : digits, static_cast<int>(base), integer)) return Value(integer);
        if (!parse_float(*text, real)) return otherwise;
    } else if (!input.to_number(real)) {
        return otherwise;
    }
    if (!(std::abs(real) < 9.2e18)) return otherwise;
    return Value(static_cast<std::int64_t>(real));
}

Result<Value> float_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, "float", arguments, {"default"}));
    TRY(runtime.refuse_undefined(input));
    double real = 0;
    if (input.to_number(real)) return Value(real);
    if (const std::string* text = input.as_string(); text != nullptr && parse_float(*text, real)) return Value(real);
    return bound[0] == nullptr ? Value(0.0) : *bound[0];
}

Result<Value> abs_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    TRY(Bound::bind(runtime, "abs", arguments, {}));
    TRY(runtime.refuse_undefined(input));
    std::int64_t integer = 0;
    if (input.to_integer(integer)) return integer < 0 ? runtime.negative(input) : Result<Value>(Value(integer));
    if (const double* real = input.as_float()) return Value(std::abs(*real));
    return runtime.fail("bad operand type for abs(): " + quoted_type(input));
}

Result<Value> round_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, "round", arguments, {"precision", "method"}));
    TRY(runtime.refuse_undefined(input));
    const std::int64_t precision = std::clamp<std::int64_t>(bound.integer(0, 0), -300, 300);
    const std::string method = bound.text(1) == nullptr ? "common" : *bound.text(1);
    if (method != "common" && method != "ceil" && method != "floor")
        return runtime.fail("method must be common, ceil or floor");
    double real = 0;
    if (!input.to_number(real)) return runtime.fail("type " + std::string(type_name(input)) + " cannot be rounded");
    if (method == "common") {
        if (input.as_float() == nullptr && precision >= 0) return input;
        if (!std::isfinite(real)) return runtime.fail("cannot round a number that is not finite");
        if (precision < 0) {
            const double unit = std::pow(10.0, static_cast<double>(-precision));
            const double rounded = std::nearbyint(real / unit) * unit;
            if (input.as_float() == nullptr) return Value(static_cast<std::int64_t>(rounded));
            return Value(rounded);
        }
        // The decimal text of a float is exact, so its rounding is Python's: half to even of the true value.
        char digits[700];
        const auto [end, error] =
            std::to_chars(digits, digits + sizeof digits, real, std::chars_format::fixed, static_cast<int>(precision));
        double rounded = real;
        if (error == std::errc{}) std::from_chars(digits, end, rounded);
        return Value(rounded);
    }
    const double unit = std::pow(10.0, static_cast<double>(precision));
    return Value((method == "ceil" ? std::ceil(real * unit) : std::floor(real * unit)) / unit);
}

Result<Value> indent_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, "indent", arguments, {"width", "first", "blank"}));
    const std::int64_t width = bound.integer(0, 4);
    if (width > 1000)
        return runtime.fail("indent: a width of " + std::to_string(width) + " is beyond the limit of 1000");
    const std::string margin = bound.text(0) != nullptr
                                   ? *bound.text(0)
                                   : std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
    const std::string text = TRY(runtime.print(input)) + "\n";
    const std::vector<std::string_view> lines = split_lines(text, false);
    TRY(runtime.charge(lines.size()));
    TRY(runtime.charge_memory(lines.size() * margin.size()));
    std::string out = bound.flag(1, false) ? margin : "";
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (i > 0) out += '\n';
        if (i > 0 && (bound.flag(2, false) || !lines[i].empty())) out += margin;
        out += lines[i];
    }
    return runtime.text(std::move(out));
}

Result<Value> wordcount_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    TRY(Bound::bind(runtime, "wordcount", arguments, {}));
    const std::string text = TRY(runtime.print(input));
    std::size_t words = 0;
    bool inside = false;
    for (std::size_t at = 0; at < text.size(); at += code_point_at(text, at).length) {
        const std::uint32_t point = code_point_at(text, at).value;
        const bool word = is_letter(point) || point == '_' || (point >= '0' && point <= '9');
        if (word && !inside) ++words;
        inside = word;
    }
    return Value::integer(words);
}

Result<Value> format_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    if (!arguments.named.empty()) return runtime.fail("format() takes no keyword arguments");
    const std::string pattern = TRY(runtime.print(input));
    return runtime.text(TRY(runtime.format_percent(pattern, arguments.positional)));
}

Result<Value> center_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, "center", arguments, {"width"}));
    Arguments width;
    width.positional.emplace_back(bound.integer(0, 80));
    return runtime.method(Value(TRY(runtime.print(input))), "center", width);
}

Result<Value> length_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    TRY(Bound::bind(runtime, "length", arguments, {}));
    return Value::integer(TRY(runtime.length(input)));
}

Result<Value> attr_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, "attr", arguments, {"name"}, 1));
    // Unlike `.`, this filter never falls back to the items of a dict.
    const std::string name = TRY(runtime.print(*bound[0]));
    if (input.as_dict() != nullptr && find_method(input, name) == MethodKind::None) {
        return Value::undefined("'dict object' has no attribute " + quoted(name));
    }
    return runtime.attribute(input, name);
}

constexpr NamedFilter kTextFilters[] = {
    {"abs", abs_filter},
    {"attr", attr_filter},
    {"capitalize", converted<capitalize>},
    {"center", center_filter},
    {"count", length_filter},
    {"d", default_filter},
    {"default", default_filter},
    {"e", converted<escaped>},
    {"escape", converted<escaped>},
    {"float", float_filter},
    {"forceescape", converted<escaped>},
    {"format", format_filter},
    {"indent", indent_filter},
    {"int", int_filter},
    {"length", length_filter},
    {"lower", converted<to_lower>},
    {"replace", replace_filter},
    {"round", round_filter},
    {"safe", string_filter},
    {"string", string_filter},
    {"title", converted<title_words>},
    {"tojson", tojson_filter},
    {"trim", trim_filter},
    {"upper", converted<to_upper>},
    {"wordcount", wordcount_filter},
};

const NamedFilter* find_filter(std::string_view name) {
    for (const std::span<const NamedFilter> table : {text_filters(), sequence_filters()}) {
        for (const NamedFilter& filter : table) {
            if (filter.name == name) return &filter;
        }
    }
    return nullptr;
}

}  // namespace

std::span<const NamedFilter> text_filters() {
    return kTextFilters;
}

bool is_known_filter(std::string_view name) {
    return find_filter(name) != nullptr;
}

Result<Value> Runtime::filter(std::string_view name, const Value& input, const Arguments& arguments) {
    TRY(charge(1));
    const NamedFilter* found = find_filter(name);
    if (found == nullptr) return fail("No filter named " + quoted(name) + ".");
    return found->apply(*this, input, arguments);
}

Result<std::string> Runtime::replaced(std::string_view content, std::string_view from, std::string_view to,
                                      std::int64_t limit) {
    TRY(charge_work(content.size()));
    std::string out;
    std::size_t at = 0;
    for (std::int64_t done = 0; limit < 0 || done < limit; ++done) {
        if (out.size() > limits_.output_bytes) return fail("makes a text longer than the limit");
        if (from.empty()) {  // between all characters, as in Python
            out += to;
            if (at >= content.size()) return out;
            const std::size_t length = code_point_at(content, at).length;
            out += content.substr(at, length);
            at += length;
            continue;
        }
        const std::size_t found = find_text(content, from, at);
        if (found == std::string_view::npos) break;
        out += content.substr(at, found - at);
        out += to;
        at = found + from.size();
    }
    out += content.substr(at);
    return out;
}

}  // namespace hearth::jinja
