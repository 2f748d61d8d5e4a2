// Pieces that the replies of all APIs are made of.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "engine/scheduler.h"
#include "server/api/fault.h"
#include "server/http_server.h"

namespace hearth {

enum class ApiStyle : std::uint8_t { OpenAi, Anthropic };

// `prefix` and so many random letters and digits.
std::string random_id(std::string_view prefix, std::size_t length);

// Server-sent events. The JSON is one line, so it needs no escaping.
std::string sse_data(const Json& json);
std::string sse_event(std::string_view name, const Json& json);
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

// An event that is sent for each token and differs in its text alone: the rest is written once.
class TextEvent {
public:
    static constexpr std::string_view kText = "\x01";  // stands for the text in the example, where it comes last
    TextEvent() = default;
    explicit TextEvent(const Json& example);
    bool made() const { return !before_.empty(); }
    std::string with(std::string_view text) const { return before_ + json_quote(text) + after_; }

private:
    std::string before_;
    std::string after_;
};

void respond_json(HttpExchange& exchange, unsigned status, const Json& json);
// 429 and 503 ask to come back in a second.
void respond_error(HttpExchange& exchange, const ApiError& error, ApiStyle style = ApiStyle::OpenAi,
                   HttpExchange::Headers extra = {});

Json openai_usage(const Usage& usage);
std::string_view openai_finish(FinishReason reason, bool called_tool);

// {"token", "logprob", "bytes"} of a token; control tokens show their names.
Json::Object logprob_entry(const Tokenizer& tokenizer, TokenId token, float logprob);
std::string token_text(const Tokenizer& tokenizer, TokenId token);

}  // namespace hearth
