#include "server/api/chat_reply.h"

#include <algorithm>

namespace hearth {

ChatReply::ChatReply(ChatReplySetup setup) : setup_(std::move(setup)), choices_(setup_.spec.choices) {
    if (!setup_.tools.active()) return;
    std::vector<std::string> names;
    for (const Tool& tool : setup_.tools.tools) names.push_back(tool.name);
    for (ChatChoice& choice : choices_) {
        choice.parser.emplace(setup_.model->tool_format, names,
                              setup_.tools.forced() ? ToolCallParser::Start::Call : ToolCallParser::Start::Text);
    }
}

std::string ChatReply::next_call_id() {
    return random_id("", 9);
}

void ChatReply::feed(std::string_view text) {
    if (text.empty()) return;
    if (choices_[current_].parser) {
        choices_[current_].parser->feed(text, *this);
    } else {
        content(text);
    }
}

void ChatReply::token(const TokenEvent& event) {
    current_ = event.choice;
    ChatChoice& choice = choices_[current_];
    choice.tokens.push_back(event.token);
    Json::Array logprobs;
    if (setup_.spec.logprobs) {
        const Tokenizer& tokenizer = setup_.model->tokenizer();
        Json::Object entry = logprob_entry(tokenizer, event.token, event.logprob);
        Json::Array top;
        for (const TokenLogprob& other : event.top) {
            top.push_back(Json(logprob_entry(tokenizer, other.token, other.logprob)));
        }
        entry.emplace_back("top_logprobs", Json(std::move(top)));
        logprobs.push_back(Json(std::move(entry)));
        if (!streams()) choice.logprobs.push_back(logprobs.back());
    }
    feed(event.text);
    on_token_done(current_, std::move(logprobs));
}

void ChatReply::choice_finished(std::size_t choice, FinishReason reason, std::string_view text) {
    current_ = choice;
    choices_[choice].reason = reason;
    feed(text);
    if (choices_[choice].parser) choices_[choice].parser->finish(*this);
    on_token_done(choice, {});
    on_choice_finished(choice);
}

std::size_t ChatReply::choices_with_calls() const {
    return static_cast<std::size_t>(std::count_if(choices_.begin(), choices_.end(),
                                                  [](const ChatChoice& choice) { return !choice.calls.empty(); }));
}

void ChatReply::content(std::string_view text) {
    choices_[current_].content += text;
    on_content(current_, text);
}

void ChatReply::call_begins(std::string_view name) {
    std::vector<ToolCall>& calls = choices_[current_].calls;
    choices_[current_].unwanted_call = !setup_.tools.parallel && !calls.empty();
    if (choices_[current_].unwanted_call) return;
    calls.push_back({next_call_id(), std::string(name), {}});
    on_call_begins(current_, calls.size() - 1);
}

void ChatReply::call_arguments(std::string_view json) {
    if (choices_[current_].unwanted_call) return;
    std::vector<ToolCall>& calls = choices_[current_].calls;
    calls.back().arguments += json;
    on_call_arguments(current_, calls.size() - 1, json);
}

void ChatReply::call_ends() {
    if (choices_[current_].unwanted_call) return;
    on_call_ends(current_, choices_[current_].calls.size() - 1);
}

}  // namespace hearth
