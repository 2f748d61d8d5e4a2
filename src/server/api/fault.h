// What is wrong with a request, as the API says it: OpenAI's error object (or Anthropic's) names the field.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/result.h"

namespace hearth {

struct ApiError {
    unsigned status = 400;
    std::string message;
    std::string param;  // the field, e.g. "messages[2].content"; empty: none
    std::string code;   // e.g. "context_length_exceeded"; empty: none
};

// The first fault of a request; later ones are not kept.
class Faults {
public:
    void add(ApiError error) {
        if (!first_) first_ = std::move(error);
    }
    void field(std::string_view path, std::string_view reason) {
        add({400, std::string(path) + ": " + std::string(reason), std::string(path), "invalid_value"});
    }
    bool any() const { return first_.has_value(); }
    const ApiError& first() const { return *first_; }

private:
    std::optional<ApiError> first_;
};

// From what the rooms below report: Usage is the caller's fault, Busy asks to come back later.
ApiError api_error(const Error& error, std::string_view param = {});

// {"error": {"message", "type", "param", "code"}}
Json openai_error(const ApiError& error);
// {"type": "error", "error": {"type", "message"}}
Json anthropic_error(const ApiError& error);

}  // namespace hearth
