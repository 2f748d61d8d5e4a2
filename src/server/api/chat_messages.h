// Chat messages of the three APIs, checked and brought into the one form templates read: role, content as text, tool
// calls with their arguments as objects.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "server/api/fields.h"
#include "server/api/tools.h"

namespace hearth {

inline constexpr std::size_t kMessageLimit = 4096;

// The text of a string or of parts [{"type": "text", "text": ...}]; parts of other types are faults.
std::string content_text(const Json& value, const std::string& path, std::initializer_list<std::string_view> text_types,
                         Faults& faults);

// OpenAI chat messages.
Json::Array read_chat_messages(const Json::Array& messages, const std::string& path, Faults& faults);
// OpenAI chat `tools`, `tool_choice`.
ToolUse read_chat_tools(Fields& fields);

// Anthropic `system` and `messages`; `tools`, `tool_choice`.
Json::Array read_anthropic_messages(Fields& fields);
ToolUse read_anthropic_tools(Fields& fields);

// Responses API: `instructions` and `input`; `tools`, `tool_choice`.
Json::Array read_response_input(Fields& fields);
ToolUse read_response_tools(Fields& fields);

// For templates that know no tools: tells of the tools in the system message, and writes calls and results as text.
Json::Array without_tool_messages(const Json::Array& messages, const ToolUse& use);

}  // namespace hearth
