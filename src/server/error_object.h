// Error objects of the two APIs. OpenAI's names the field; Anthropic's names only the kind of fault.
#pragma once

#include <string>

#include "base/json.h"

namespace hearth {

struct ApiError {
    unsigned status = 400;
    std::string message;
    std::string param;  // the field, e.g. "messages[2].content"; empty: none
    std::string code;   // e.g. "context_length_exceeded"; empty: none
};

// {"error": {"message", "type", "param", "code"}}
Json openai_error(const ApiError& error);
// {"type": "error", "error": {"type", "message"}}
Json anthropic_error(const ApiError& error);

}  // namespace hearth
