#include "text/jinja/python_text.h"

#include <string.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

namespace hearth::jinja {

CodePoint code_point_at(std::string_view text, std::size_t offset) {
    const unsigned char lead = static_cast<unsigned char>(text[offset]);
    if (lead < 0x80) return {lead, 1};
    const CodePoint point = decode_utf8(text, offset);
    return point.length == 0 ? CodePoint{0xfffd, 1} : point;
}

std::size_t code_point_count(std::string_view text) {
    if (is_ascii(text)) return text.size();
    std::size_t count = 0;
    for (std::size_t at = 0; at < text.size(); at += code_point_at(text, at).length) ++count;
    return count;
}

std::vector<std::string_view> code_points(std::string_view text) {
    std::vector<std::string_view> points;
    points.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = code_point_at(text, at).length;
        points.push_back(text.substr(at, length));
        at += length;
    }
    return points;
}

bool is_ascii(std::string_view text) {
    unsigned char seen = 0;  // without an early exit this runs at the speed of memory
    for (const char c : text) seen = static_cast<unsigned char>(seen | static_cast<unsigned char>(c));
    return seen < 0x80;
}

bool is_space(std::uint32_t point) {
    if (point <= 0x20) return point == 0x20 || (point >= 0x09 && point <= 0x0d) || (point >= 0x1c && point <= 0x1f);
    return point == 0x85 || point == 0xa0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200a) ||
           point == 0x2028 || point == 0x2029 || point == 0x202f || point == 0x205f || point == 0x3000;
}

bool is_letter(std::uint32_t point) {
    if (point < 0x80) return (point | 0x20) >= 'a' && (point | 0x20) <= 'z';
    if (point < 0xc0) return point == 0xaa || point == 0xb5 || point == 0xba;
    if (point == 0xd7 || point == 0xf7) return false;
    // General punctuation, symbols, arrows, box drawing, dingbats; CJK punctuation; private use; emoji planes.
    return !(point >= 0x2000 && point <= 0x2bff) && !(point >= 0x3000 && point <= 0x3004) &&
           !(point >= 0x3008 && point <= 0x3030) && !(point >= 0xe000 && point <= 0xf8ff) &&
           !(point >= 0xff00 && point <= 0xff20) && !(point >= 0x1f000 && point <= 0x1faff) && point != 0xfffd;
}

std::size_t leading_space(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
        const CodePoint point = code_point_at(text, at);
        if (!is_space(point.value)) break;
        at += point.length;
    }
    return at;
}

namespace {

// Start of the code point that ends at `end`.
std::size_t previous_start(std::string_view text, std::size_t end) {
    for (std::size_t back = 2; back <= 4 && back <= end; ++back) {
        if (code_point_at(text, end - back).length == back) return end - back;
    }
    return end - 1;
}

template <typename Predicate>
std::string_view strip_where(std::string_view text, bool left, bool right, Predicate drop) {
    std::size_t begin = 0;
    std::size_t end = text.size();
    while (left && begin < end) {
        const CodePoint point = code_point_at(text, begin);
        if (!drop(text.substr(begin, point.length), point.value)) break;
        begin += point.length;
    }
    while (right && begin < end) {
        const std::size_t start = previous_start(text, end);
        if (!drop(text.substr(start, end - start), code_point_at(text, start).value)) break;
        end = start;
    }
    return text.substr(begin, end - begin);
}

}  // namespace

std::size_t trailing_space(std::string_view text) {
    return text.size() - strip(text, nullptr, false, true).size();
}

std::string_view strip(std::string_view text, const std::string* chars, bool left, bool right) {
    if (chars == nullptr) {
        return strip_where(text, left, right, [](std::string_view, std::uint32_t point) { return is_space(point); });
    }
    std::vector<std::uint32_t> dropped;
    for (std::size_t at = 0; at < chars->size();) {
        const CodePoint point = code_point_at(*chars, at);
        dropped.push_back(point.value);
        at += point.length;
    }
    std::sort(dropped.begin(), dropped.end());
    return strip_where(text, left, right, [&](std::string_view, std::uint32_t point) {
        return std::binary_search(dropped.begin(), dropped.end(), point);
    });
}

std::size_t find_text(std::string_view text, std::string_view needle, std::size_t from) {
    if (from > text.size()) return std::string_view::npos;
    if (needle.empty()) return from;
    // memmem is linear in the worst case; std::string_view::find is not.
    const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
    if (found == nullptr) return std::string_view::npos;
    return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::size_t rfind_text(std::string_view text, std::string_view needle) {
    const std::string reversed_text(text.rbegin(), text.rend());
    const std::string reversed_needle(needle.rbegin(), needle.rend());
    const std::size_t at = find_text(reversed_text, reversed_needle);
    return at == std::string_view::npos ? at : text.size() - at - needle.size();
}

std::vector<std::string_view> split(std::string_view text, const std::string* separator, std::int64_t limit) {
    std::vector<std::string_view> parts;
    const auto more = [&] { return limit < 0 || static_cast<std::int64_t>(parts.size()) < limit; };
    if (separator != nullptr) {
        std::size_t from = 0;
        while (more()) {
            const std::size_t at = find_text(text, *separator, from);
            if (at == std::string_view::npos) break;
            parts.push_back(text.substr(from, at - from));
            from = at + separator->size();
        }
        parts.push_back(text.substr(from));
        return parts;
    }
    text.remove_prefix(leading_space(text));
    while (!text.empty() && more()) {
        std::size_t end = 0;
        while (end < text.size() && !is_space(code_point_at(text, end).value)) end += code_point_at(text, end).length;
        parts.push_back(text.substr(0, end));
        text.remove_prefix(end);
        text.remove_prefix(leading_space(text));
    }
    if (!text.empty()) parts.push_back(strip(text, nullptr, false, true));
    return parts;
}

std::vector<std::string_view> rsplit(std::string_view text, const std::string* separator, std::int64_t limit) {
    if (limit < 0) return split(text, separator, limit);
    std::vector<std::string_view> parts;
    if (separator != nullptr) {
        const std::string reversed(text.rbegin(), text.rend());
        const std::string needle(separator->rbegin(), separator->rend());
        std::size_t from = 0;  // in the reversed text
        while (static_cast<std::int64_t>(parts.size()) < limit) {
            const std::size_t at = find_text(reversed, needle, from);
            if (at == std::string_view::npos) break;
            parts.push_back(text.substr(text.size() - at, at - from));
            from = at + needle.size();
        }
        parts.push_back(text.substr(0, text.size() - from));
    } else {
        text.remove_suffix(trailing_space(text));
        while (!text.empty() && static_cast<std::int64_t>(parts.size()) < limit) {
            std::size_t start = text.size();
            while (start > 0 && !is_space(code_point_at(text, previous_start(text, start)).value)) {
                start = previous_start(text, start);
            }
            parts.push_back(text.substr(start));
            text = text.substr(0, start);
            text.remove_suffix(trailing_space(text));
        }
        text.remove_prefix(leading_space(text));
        if (!text.empty()) parts.push_back(text);
    }
    std::reverse(parts.begin(), parts.end());
    return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
    std::vector<std::string_view> lines;
    std::size_t start = 0;
    for (std::size_t at = 0; at < text.size();) {
        const CodePoint point = code_point_at(text, at);
        const std::uint32_t c = point.value;
        const bool breaks =
            (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
        std::size_t next = at + point.length;
        if (breaks) {
            if (c == '\r' && next < text.size() && text[next] == '\n') ++next;
            lines.push_back(text.substr(start, (keep_ends ? next : at) - start));
            start = next;
        }
        at = next;
    }
    if (start < text.size()) lines.push_back(text.substr(start));
    return lines;
}

std::uint32_t upper_point(std::uint32_t c) {
    if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
    if (c == 0xb5) return 0x39c;
    if (c == 0xff) return 0x178;
    if (c >= 0xe0 && c <= 0xfe && c != 0xf7) return c - 32;
    if ((c >= 0x100 && c <= 0x137 && c != 0x131) || (c >= 0x14a && c <= 0x177)) return c & ~1u;
    if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e)) return c % 2 == 0 ? c - 1 : c;
    if (c == 0x131) return 'I';
    if (c >= 0x3b1 && c <= 0x3c9) return c == 0x3c2 ? 0x3a3 : c - 32;
    if (c == 0x3ac) return 0x386;
    if (c >= 0x3ad && c <= 0x3af) return c - 37;
    if (c == 0x3cc) return 0x38c;
    if (c >= 0x430 && c <= 0x44f) return c - 32;
    if (c >= 0x450 && c <= 0x45f) return c - 80;
    return c;
}

std::uint32_t lower_point(std::uint32_t c) {
    if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
    if (c >= 0xc0 && c <= 0xde && c != 0xd7) return c + 32;
    if ((c >= 0x100 && c <= 0x137 && c != 0x130) || (c >= 0x14a && c <= 0x177)) return c | 1u;
    if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e)) return c % 2 == 1 ? c + 1 : c;
    if (c == 0x178) return 0xff;
    if (c == 0x386) return 0x3ac;
    if (c >= 0x388 && c <= 0x38a) return c + 37;
    if (c == 0x38c) return 0x3cc;
    if (c >= 0x391 && c <= 0x3a9 && c != 0x3a2) return c + 32;
    if (c >= 0x410 && c <= 0x42f) return c + 32;
    if (c >= 0x400 && c <= 0x40f) return c + 80;
    return c;
}

namespace {

void append_upper(std::string& out, std::uint32_t point) {
    if (point == 0xdf) {
        out += "SS";  // the one letter of these scripts whose upper case is longer
    } else {
        append_utf8(out, upper_point(point));
    }
}

// Each code point through `choose`, which says whether it is to be upper (1), lower (0) or kept (-1).
template <typename Choose>
std::string map_case(std::string_view text, Choose choose) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const CodePoint point = code_point_at(text, at);
        const int wanted = choose(point.value);
        if (wanted > 0) {
            append_upper(out, point.value);
        } else {
            append_utf8(out, wanted == 0 ? lower_point(point.value) : point.value);
        }
        at += point.length;
    }
    return out;
}

}  // namespace

std::string to_upper(std::string_view text) {
    return map_case(text, [](std::uint32_t) { return 1; });
}

std::string to_lower(std::string_view text) {
    return map_case(text, [](std::uint32_t) { return 0; });
}

std::string capitalize(std::string_view text) {
    bool first = true;
    return map_case(text, [&](std::uint32_t) { return std::exchange(first, false) ? 1 : 0; });
}

std::string title(std::string_view text) {
    bool inside = false;
    return map_case(text, [&](std::uint32_t point) { return std::exchange(inside, is_letter(point)) ? 0 : 1; });
}

std::string title_words(std::string_view text) {
    bool start = true;
    return map_case(text, [&](std::uint32_t point) {
        const bool divides =
            is_space(point) || point == '-' || point == '(' || point == '{' || point == '[' || point == '<';
        return std::exchange(start, divides) ? 1 : 0;
    });
}

std::string float_text(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    char buffer[64];
    const auto [end, code] = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
    const std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
    const std::size_t mark = text.find('e');
    int exponent = 0;
    const char* digits_of_exponent = text.data() + mark + (text[mark + 1] == '+' ? 2 : 1);
    std::from_chars(digits_of_exponent, end, exponent);
    if (exponent < -4 || exponent >= 16) return std::string(text);
    std::string out = text[0] == '-' ? "-" : "";
    std::string digits;
    for (const char c : text.substr(0, mark)) {
        if (c >= '0' && c <= '9') digits.push_back(c);
    }
    if (exponent < 0) {
        return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
    }
    const std::size_t whole = static_cast<std::size_t>(exponent) + 1;
    if (digits.size() < whole) digits.append(whole - digits.size(), '0');
    out += digits.substr(0, whole) + ".";
    out += digits.size() > whole ? digits.substr(whole) : "0";
    return out;
}

std::string quoted(std::string_view text) {
    const bool has_single = text.find('\'') != std::string_view::npos;
    const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
    std::string out(1, quote);
    for (std::size_t at = 0; at < text.size();) {
        const CodePoint point = code_point_at(text, at);
        const std::uint32_t c = point.value;
        char escaped[16];
        if (c == static_cast<unsigned char>(quote) || c == '\\') {
            out += {'\\', static_cast<char>(c)};
        } else if (c == '\n' || c == '\r' || c == '\t') {
            out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
        } else if (c < 0x20 || (c >= 0x7f && c <= 0xa0) || c == 0xad) {
            std::snprintf(escaped, sizeof escaped, "\\x%02x", c);
            out += escaped;
        } else if (c != 0x20 && (is_space(c) || (c >= 0x200b && c <= 0x200f) || c == 0xfeff)) {
            std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
            out += escaped;
        } else {
            append_utf8(out, c);
        }
        at += point.length;
    }
    out.push_back(quote);
    return out;
}

std::string one_line(std::string_view text) {
    constexpr std::size_t kLongest = 1000;
    std::string out(text.substr(0, kLongest));
    if (text.size() > kLongest) {
        out.resize(out.size() - incomplete_utf8_tail(out));
        out += "...";
    }
    for (char& c : out) {
        if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    }
    return out;
}

}  // namespace hearth::jinja
