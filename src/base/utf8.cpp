#include "base/utf8.h"

namespace hearth {

namespace {

// Length announced by a lead byte, 0 for a byte that cannot begin a character.
std::size_t announced_length(unsigned char lead) {
    if (lead < 0x80) return 1;
    if (lead >= 0xc2 && lead <= 0xdf) return 2;
    if (lead >= 0xe0 && lead <= 0xef) return 3;
    if (lead >= 0xf0 && lead <= 0xf4) return 4;
    return 0;
}

// Whether `second` may follow `lead`: rules out overlong forms, surrogates and values past U+10FFFF.
bool second_allowed(unsigned char lead, unsigned char second) {
    if ((second & 0xc0) != 0x80) return false;
    if (lead == 0xe0) return second >= 0xa0;
    if (lead == 0xed) return second < 0xa0;
    if (lead == 0xf0) return second >= 0x90;
    if (lead == 0xf4) return second < 0x90;
    return true;
}

}  // namespace

CodePoint decode_utf8(std::string_view text, std::size_t offset) {
    if (offset >= text.size()) return {};
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[offset + i]); };
    const std::size_t length = announced_length(byte(0));
    if (length == 0 || offset + length > text.size()) return {};
    if (length == 1) return {byte(0), 1};
    if (!second_allowed(byte(0), byte(1))) return {};
    std::uint32_t value = byte(0) & (0x7fu >> length);
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return {};
        value = (value << 6) | (byte(i) & 0x3fu);
    }
    return {value, length};
}

void append_utf8(std::string& out, std::uint32_t code_point) {
    const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
    if (code_point < 0x80) {
        put(code_point);
    } else if (code_point < 0x800) {
        put(0xc0 | (code_point >> 6));
        put(0x80 | (code_point & 0x3f));
    } else if (code_point < 0x10000) {
        put(0xe0 | (code_point >> 12));
        put(0x80 | ((code_point >> 6) & 0x3f));
        put(0x80 | (code_point & 0x3f));
    } else {
        put(0xf0 | (code_point >> 18));
        put(0x80 | ((code_point >> 12) & 0x3f));
        put(0x80 | ((code_point >> 6) & 0x3f));
        put(0x80 | (code_point & 0x3f));
    }
}

std::size_t incomplete_utf8_tail(std::string_view text) {
    for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
        const unsigned char lead = static_cast<unsigned char>(text[text.size() - back]);
        if ((lead & 0xc0) == 0x80) continue;
        if (announced_length(lead) <= back) return 0;
        if (back >= 2 && !second_allowed(lead, static_cast<unsigned char>(text[text.size() - back + 1]))) return 0;
        return back;
    }
    return 0;
}

std::string repair_utf8(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t offset = 0; offset < text.size();) {
        const CodePoint point = decode_utf8(text, offset);
        if (point.length == 0) {
            append_utf8(out, 0xfffd);
            ++offset;
        } else {
            out.append(text.substr(offset, point.length));
            offset += point.length;
        }
    }
    return out;
}

}  // namespace hearth
