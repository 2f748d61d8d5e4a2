// UTF-8: strict decoding (no overlong forms, surrogates or values past U+10FFFF) and encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hearth {

struct CodePoint {
    std::uint32_t value = 0;
    std::size_t length = 0;  // bytes consumed; 0 when the bytes at this place are not valid UTF-8
};

CodePoint decode_utf8(std::string_view text, std::size_t offset);
void append_utf8(std::string& out, std::uint32_t code_point);

// How many bytes at the end of `text` are a valid but unfinished character (0 to 3).
std::size_t incomplete_utf8_tail(std::string_view text);

// `text` with every invalid byte replaced by U+FFFD.
std::string repair_utf8(std::string_view text);

}  // namespace hearth
