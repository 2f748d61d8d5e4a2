#include "base/json.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/utf8.h"

namespace hearth {

namespace {

class Parser {
public:
    Parser(std::string_view text, std::size_t depth_limit) : text_(text), depth_limit_(depth_limit) {}

    Result<Json> document() {
        Json value = TRY(this->value(0));
        skip_space();
        if (at_ != text_.size()) return fail("unexpected text after the value");
        return value;
    }

private:
    Error fail(const std::string& reason) const {
        return Error{ErrorCode::Failed, "JSON, byte " + std::to_string(at_) + ": " + reason};
    }
    void skip_space() {
        while (at_ < text_.size() &&
               (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
            ++at_;
        }
    }
    bool take(std::string_view word) {
        if (!text_.substr(at_).starts_with(word)) return false;
        at_ += word.size();
        return true;
    }

    Result<Json> value(std::size_t depth) {
        skip_space();
        if (at_ >= text_.size()) return fail("a value is missing");
        if (depth >= depth_limit_ && (text_[at_] == '[' || text_[at_] == '{')) return fail("nested too deeply");
        switch (text_[at_]) {
            case '{': return object(depth);
            case '[': return array(depth);
            case '"': return Json(TRY(string()));
            default: break;
        }
        if (take("true")) return Json(true);
        if (take("false")) return Json(false);
        if (take("null")) return Json();
        return number();
    }

    Result<Json> object(std::size_t depth) {
        Json::Object members;
        ++at_;
        skip_space();
        if (take("}")) return Json(std::move(members));
        for (;;) {
            skip_space();
            if (at_ >= text_.size() || text_[at_] != '"') return fail("a key in quotes is expected");
            std::string key = TRY(string());
            skip_space();
            if (!take(":")) return fail("':' is expected");
            members.emplace_back(std::move(key), TRY(value(depth + 1)));
            skip_space();
            if (take("}")) return Json(std::move(members));
            if (!take(",")) return fail("',' or '}' is expected");
        }
    }

    Result<Json> array(std::size_t depth) {
        Json::Array items;
        ++at_;
        skip_space();
        if (take("]")) return Json(std::move(items));
        for (;;) {
            items.push_back(TRY(value(depth + 1)));
            skip_space();
            if (take("]")) return Json(std::move(items));
            if (!take(",")) return fail("',' or ']' is expected");
        }
    }

    Result<std::uint32_t> hex4() {
        std::uint32_t unit = 0;
        const std::string_view digits = text_.substr(at_, 4);
        const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
        if (digits.size() != 4 || code != std::errc{} || end != digits.data() + 4)
            return fail("\\u needs four hex digits");
        at_ += 4;
        return unit;
    }

    Status escape(std::string& out) {
        if (at_ >= text_.size()) return fail("the string does not end");
        const char kind = text_[at_++];
        constexpr std::string_view kFrom = "\"\\/bfnrt";
        constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
        if (const std::size_t index = kFrom.find(kind); index != std::string_view::npos) {
            out.push_back(kTo[index]);
            return {};
        }
        if (kind != 'u') return fail("unknown escape");
        std::uint32_t unit = TRY(hex4());
        if (unit >= 0xd800 && unit < 0xdc00) {
            if (!take("\\u")) return fail("lone surrogate");
            const std::uint32_t low = TRY(hex4());
            if (low < 0xdc00 || low > 0xdfff) return fail("lone surrogate");
            unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        } else if (unit >= 0xdc00 && unit < 0xe000) {
            return fail("lone surrogate");
        }
        append_utf8(out, unit);
        return {};
    }

    Result<std::string> string() {
        std::string out;
        ++at_;
        for (;;) {
            if (at_ >= text_.size()) return fail("the string does not end");
            const char c = text_[at_];
            if (c == '"') {
                ++at_;
                return out;
            }
            if (static_cast<unsigned char>(c) < 0x20) return fail("control character in a string");
            if (c == '\\') {
                ++at_;
                TRY(escape(out));
                continue;
            }
            const CodePoint point = decode_utf8(text_, at_);
            if (point.length == 0) return fail("invalid UTF-8");
            out.append(text_.substr(at_, point.length));
            at_ += point.length;
        }
    }

    Result<Json> number() {
        std::size_t end = at_;
        bool integral = true;
        const auto digits = [&] {
            const std::size_t begin = end;
            while (end < text_.size() && text_[end] >= '0' && text_[end] <= '9') ++end;
            return end > begin;
        };
        if (end < text_.size() && text_[end] == '-') ++end;
        const std::size_t first = end;
        if (!digits()) return fail("unexpected character");
        if (text_[first] == '0' && end > first + 1) return fail("a number may not begin with 0");
        if (end < text_.size() && text_[end] == '.') {
            integral = false;
            ++end;
            if (!digits()) return fail("digits are expected after '.'");
        }
        if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
            integral = false;
            ++end;
            if (end < text_.size() && (text_[end] == '+' || text_[end] == '-')) ++end;
            if (!digits()) return fail("digits are expected in the exponent");
        }
        const char* begin = text_.data() + at_;
        const char* stop = text_.data() + end;
        at_ = end;
        if (integral) {
            std::int64_t value = 0;
            if (std::from_chars(begin, stop, value).ec == std::errc{}) return Json(value);
        }
        double value = 0;
        if (std::from_chars(begin, stop, value).ec != std::errc{}) return fail("the number is out of range");
        return Json(value);
    }

    std::string_view text_;
    std::size_t depth_limit_;
    std::size_t at_ = 0;
};

void write_number(std::string& out, double value) {
    if (!std::isfinite(value)) {
        out += "null";
        return;
    }
    char digits[32];
    const auto [end, code] = std::to_chars(digits, digits + sizeof digits, value);
    out.append(digits, static_cast<std::size_t>(end - digits));
    if (std::string_view(digits, static_cast<std::size_t>(end - digits)).find_first_of(".e") ==
        std::string_view::npos) {
        out += ".0";
    }
}

void new_line(std::string& out, int indent, int level) {
    if (indent <= 0) return;
    out.push_back('\n');
    out.append(static_cast<std::size_t>(indent * level), ' ');
}

void write(std::string& out, const Json& json, int indent, int level) {
    if (const bool* flag = json.as_bool()) {
        out += *flag ? "true" : "false";
    } else if (const std::int64_t* integer = json.as_int()) {
        out += std::to_string(*integer);
    } else if (const double* real = json.as_double()) {
        write_number(out, *real);
    } else if (const std::string* text = json.as_string()) {
        out += json_quote(*text);
    } else if (const Json::Array* array = json.as_array()) {
        out.push_back('[');
        for (std::size_t i = 0; i < array->size(); ++i) {
            if (i > 0) out += indent > 0 ? "," : ", ";
            new_line(out, indent, level + 1);
            write(out, (*array)[i], indent, level + 1);
        }
        if (!array->empty()) new_line(out, indent, level);
        out.push_back(']');
    } else if (const Json::Object* object = json.as_object()) {
        out.push_back('{');
        for (std::size_t i = 0; i < object->size(); ++i) {
            if (i > 0) out += indent > 0 ? "," : ", ";
            new_line(out, indent, level + 1);
            out += json_quote((*object)[i].first) + ": ";
            write(out, (*object)[i].second, indent, level + 1);
        }
        if (!object->empty()) new_line(out, indent, level);
        out.push_back('}');
    } else {
        out += "null";
    }
}

}  // namespace

Result<Json> Json::parse(std::string_view text, std::size_t depth_limit) {
    return Parser(text, depth_limit).document();
}

const Json* Json::find(std::string_view key) const {
    if (const Object* object = as_object()) {
        for (const Member& member : *object) {
            if (member.first == key) return &member.second;
        }
    }
    return nullptr;
}

std::string Json::dump(int indent) const {
    std::string out;
    write(out, *this, indent, 0);
    return out;
}

std::string json_quote(std::string_view text) {
    std::string out = "\"";
    for (const char c : repair_utf8(text)) {
        switch (c) {
            case '"': out += "\\\""; break;
            case '\\': out += "\\\\"; break;
            case '\n': out += "\\n"; break;
            case '\r': out += "\\r"; break;
            case '\t': out += "\\t"; break;
            default:
                if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
                    char escaped[8];
                    std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
                    out += escaped;
                } else {
                    out.push_back(c);
                }
        }
    }
    out.push_back('"');
    return out;
}

}  // namespace hearth
