// Splits a template into text and tokens, with the white space rules of the model hubs: trim_blocks and lstrip_blocks
// on, one newline at the end of the template dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hearth::jinja {

enum class TokenKind : std::uint8_t {
    Text,
    VariableBegin,
    VariableEnd,
    BlockBegin,
    BlockEnd,
    Name,
    String,
    Integer,
    Float,
    Operator,
    End
};

struct Token {
    TokenKind kind = TokenKind::End;
    std::uint32_t line = 1;
    std::string text;  // text, name, decoded string, or the operator's characters
    std::int64_t integer = 0;
    double real = 0;
};

Error template_error(std::uint32_t line, std::string_view reason);

// The last token is always End.
Result<std::vector<Token>> tokenize_template(std::string_view source);

}  // namespace hearth::jinja
