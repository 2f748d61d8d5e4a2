// What the three chat APIs share: an answer's text and tool calls as they come, and all of it in the end.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/api/answer_fields.h"
#include "server/api/answer_job.h"
#include "server/api/reply_parts.h"
#include "server/api/tools.h"

namespace hearth {

struct ToolCall {
    std::string id;  // nine letters and digits: some templates accept no other
    std::string name;
    std::string arguments;  // JSON text
};

struct ChatChoice {
    std::string content;
    std::vector<ToolCall> calls;
    bool unwanted_call = false;  // the call being read: one is enough
    Json::Array logprobs;        // of an answer that is given whole
    std::vector<TokenId> tokens;
    FinishReason reason = FinishReason::EndOfText;
    std::optional<ToolCallParser> parser;  // when tools are in play
};

struct ChatReplySetup {
    std::shared_ptr<HttpExchange> exchange;
    ServedModel* model;
    AnswerSpec spec;
    ToolUse tools;
    std::size_t prompt_tokens = 0;
    std::int64_t created = 0;  // seconds since the epoch
};

class ChatReply : public Reply, private AnswerParts {
public:
    explicit ChatReply(ChatReplySetup setup);

    void token(const TokenEvent& event) final;
    void choice_finished(std::size_t choice, FinishReason reason, std::string_view text) final;
    std::size_t choices_with_calls() const final;

protected:
    // What has just come; the choice already holds it.
    virtual void on_content(std::size_t choice, std::string_view text) = 0;
    virtual void on_call_begins(std::size_t choice, std::size_t call) = 0;
    virtual void on_call_arguments(std::size_t choice, std::size_t call, std::string_view json) = 0;
    virtual void on_call_ends(std::size_t choice, std::size_t call) = 0;
    virtual void on_token_done(std::size_t choice, Json::Array logprobs) = 0;
    virtual void on_choice_finished(std::size_t choice) = 0;

    bool streams() const { return setup_.spec.stream; }
    HttpExchange& exchange() { return *setup_.exchange; }
    void write(std::string piece) { setup_.exchange->write(std::move(piece)); }
    std::string next_call_id();

    ChatReplySetup setup_;
    std::vector<ChatChoice> choices_;

private:
    void content(std::string_view text) final;
    void call_begins(std::string_view name) final;
    void call_arguments(std::string_view json) final;
    void call_ends() final;
    void feed(std::string_view text);

    std::size_t current_ = 0;  // the choice being fed
};

std::unique_ptr<Reply> make_openai_chat_reply(ChatReplySetup setup);
std::unique_ptr<Reply> make_anthropic_reply(ChatReplySetup setup);
// `echo`: the fields of the request that the response object repeats.
std::unique_ptr<Reply> make_response_reply(ChatReplySetup setup, Json::Object echo);

}  // namespace hearth
