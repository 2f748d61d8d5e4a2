#include "server/api/reply_parts.h"

#include <cmath>
#include <random>

#include "base/utf8.h"

namespace hearth {

std::string random_id(std::string_view prefix, std::size_t length) {
    constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    std::random_device device;
    std::string id(prefix);
    for (std::size_t i = 0; i < length; ++i) id += kLetters[device() % kLetters.size()];
    return id;
}

std::string sse_data(const Json& json) {
    return "data: " + json.dump() + "\n\n";
}

std::string sse_event(std::string_view name, const Json& json) {
    return "event: " + std::string(name) + "\n" + sse_data(json);
}

TextEvent::TextEvent(const Json& example) {
    const std::string whole = sse_data(example);
    const std::string mark = json_quote(kText);
    const std::size_t at = whole.rfind(mark);
    before_ = whole.substr(0, at);
    after_ = whole.substr(at + mark.size());
}

void respond_json(HttpExchange& exchange, unsigned status, const Json& json) {
    exchange.respond(status, "application/json", json.dump());
}

void respond_error(HttpExchange& exchange, const ApiError& error, ApiStyle style, HttpExchange::Headers extra) {
    if (error.status == 429 || error.status == 503) extra.emplace_back("Retry-After", "1");
    const Json json = style == ApiStyle::OpenAi ? openai_error(error) : anthropic_error(error);
    exchange.respond(error.status, "application/json", json.dump(), std::move(extra));
}

Json openai_usage(const Usage& usage) {
    const std::uint64_t prompt = usage.prompt_tokens;
    const std::uint64_t completion = usage.generated_tokens;
    return Json::Object{{"prompt_tokens", prompt},
                        {"completion_tokens", completion},
                        {"total_tokens", prompt + completion},
                        {"prompt_tokens_details", Json::Object{{"cached_tokens", std::uint64_t{usage.cached_tokens}}}},
                        {"completion_tokens_details", Json::Object{{"reasoning_tokens", 0}}}};
}

std::string_view openai_finish(FinishReason reason, bool called_tool) {
    if (reason == FinishReason::Length || reason == FinishReason::Deadline) return "length";
    return called_tool ? "tool_calls" : "stop";
}

std::string token_text(const Tokenizer& tokenizer, TokenId token) {
    const bool control = tokenizer.kind(token) == TokenKind::Control;
    return repair_utf8(control ? tokenizer.text(token) : tokenizer.bytes(token));
}

Json::Object logprob_entry(const Tokenizer& tokenizer, TokenId token, float logprob) {
    Json::Array bytes;
    for (const char c : tokenizer.bytes(token)) bytes.push_back(static_cast<int>(static_cast<unsigned char>(c)));
    // JSON has no infinity; OpenAI's lowest value stands for it.
    const double shown = std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0;
    return Json::Object{{"token", token_text(tokenizer, token)}, {"logprob", shown}, {"bytes", Json(std::move(bytes))}};
}

}  // namespace hearth
