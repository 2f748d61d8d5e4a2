// json.dumps as the model hubs call it: plain UTF-8, ", " and ": " between parts unless an indent is asked for.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja/python_text.h"
#include "text/jinja/runtime.h"

namespace hearth::jinja {

namespace {

void append_unit(std::string& out, std::uint32_t unit) {
    char escaped[16];
    std::snprintf(escaped, sizeof escaped, "\\u%04x", unit);
    out += escaped;
}

void append_json_text(std::string& out, std::string_view text, bool ascii_only) {
    out.push_back('"');
    for (std::size_t at = 0; at < text.size();) {
        const CodePoint point = code_point_at(text, at);
        const std::uint32_t c = point.value;
        constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b";
        constexpr std::string_view kLetters = "\"\\nrtfb";
        const std::size_t index = c < 0x80 ? kEscaped.find(static_cast<char>(c)) : std::string_view::npos;
        if (index != std::string_view::npos) {
            out += {'\\', kLetters[index]};
        } else if (c < 0x20 || (ascii_only && c > 0x7e && c < 0x10000)) {
            append_unit(out, c);
        } else if (ascii_only && c >= 0x10000) {
            append_unit(out, 0xd800 + ((c - 0x10000) >> 10));
            append_unit(out, 0xdc00 + ((c - 0x10000) & 0x3ff));
        } else {
            append_utf8(out, c);
        }
        at += point.length;
    }
    out.push_back('"');
}

std::string json_float(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return float_text(value);
}

void new_line(std::string& out, const Runtime::JsonStyle& style, std::size_t level) {
    if (!style.indented) return;
    out.push_back('\n');
    for (std::size_t i = 0; i < level; ++i) out += style.indent;
}

// The text of a key, or false for a type json.dumps refuses.
bool json_key(const Value& key, std::string& out) {
    if (const std::string* text = key.as_string()) {
        out = *text;
    } else if (key.is_none()) {
        out = "null";
    } else if (const bool* flag = key.as_bool()) {
        out = *flag ? "true" : "false";
    } else if (const std::int64_t* integer = key.as_int()) {
        out = std::to_string(*integer);
    } else if (const double* real = key.as_float()) {
        out = json_float(*real);
    } else {
        return false;
    }
    return true;
}

}  // namespace

Status Runtime::write_json(std::string& out, const Value& value, const JsonStyle& style, std::size_t level) {
    TRY(charge(1));
    if (out.size() > limits_.output_bytes) return fail("makes a text longer than the limit");
    const Sequence* sequence = value.as_sequence();
    if (const std::string* content = value.as_string()) {
        TRY(charge_work(content->size()));
        append_json_text(out, *content, style.ascii_only);
    } else if (value.is_none()) {
        out += "null";
    } else if (const bool* flag = value.as_bool()) {
        out += *flag ? "true" : "false";
    } else if (const std::int64_t* integer = value.as_int()) {
        out += std::to_string(*integer);
    } else if (const double* real = value.as_float()) {
        out += json_float(*real);
    } else if (sequence != nullptr && (sequence->kind == SequenceKind::List || sequence->kind == SequenceKind::Tuple)) {
        out.push_back('[');
        for (std::size_t i = 0; i < sequence->items.size(); ++i) {
            if (i > 0) out += style.item_separator;
            new_line(out, style, level + 1);
            TRY(write_json(out, sequence->items[i], style, level + 1));
        }
        if (!sequence->items.empty()) new_line(out, style, level);
        out.push_back(']');
    } else if (value.as_dict() != nullptr) {
        TRY(write_json_dict(out, *value.as_dict(), style, level));
    } else {
        return fail("Object of type " + std::string(type_name(value)) + " is not JSON serializable");
    }
    return {};
}

Status Runtime::write_json_dict(std::string& out, const Dict& dict, const JsonStyle& style, std::size_t level) {
    std::vector<const std::pair<Value, Value>*> entries;
    entries.reserve(dict.entries.size());
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style.sort_keys) {
        const bool texts =
            std::all_of(entries.begin(), entries.end(), [](const auto* e) { return e->first.as_string() != nullptr; });
        if (!texts) return fail("only keys that are strings can be sorted");
        std::sort(entries.begin(), entries.end(),
                  [](const auto* a, const auto* b) { return *a->first.as_string() < *b->first.as_string(); });
    }
    out.push_back('{');
    bool first = true;
    for (const auto* entry : entries) {
        if (!first) out += style.item_separator;
        first = false;
        new_line(out, style, level + 1);
        std::string key;
        if (!json_key(entry->first, key)) {
            return fail("keys must be str, int, float, bool or None, not " + std::string(type_name(entry->first)));
        }
        append_json_text(out, key, style.ascii_only);
        out += style.key_separator;
        TRY(write_json(out, entry->second, style, level + 1));
    }
    if (!first) new_line(out, style, level);
    out.push_back('}');
    return {};
}

Result<std::string> Runtime::to_json(const Value& value, const JsonStyle& style) {
    std::string out;
    TRY(write_json(out, value, style, 0));
    return out;
}

}  // namespace hearth::jinja
