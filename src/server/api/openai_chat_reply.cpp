// Replies of /v1/chat/completions.
#include "server/api/chat_reply.h"

namespace hearth {

namespace {

class OpenAiChatReply final : public ChatReply {
public:
    explicit OpenAiChatReply(ChatReplySetup setup)
        : ChatReply(std::move(setup)),
          id_(random_id("chatcmpl-", 29)),
          pending_(choices_.size()),
          pieces_(choices_.size()) {}

    void begin() override {
        if (!streams()) return;
        exchange().begin_stream();
        for (std::size_t i = 0; i < choices_.size(); ++i) {
            send(i, Json::Object{{"role", "assistant"}, {"content", ""}}, Json(), Json());
        }
    }

    void finished(const Usage& usage) override {
        if (streams()) {
            if (setup_.spec.include_usage) {
                Json::Object chunk = head("chat.completion.chunk");
                chunk.emplace_back("choices", Json(Json::Array{}));
                chunk.emplace_back("usage", openai_usage(usage));
                write(sse_data(Json(std::move(chunk))));
            }
            write(std::string(kSseDone));
            exchange().end_stream();
            return;
        }
        Json::Array list;
        for (std::size_t i = 0; i < choices_.size(); ++i) list.push_back(whole_choice(i));
        Json::Object reply = head("chat.completion");
        reply.emplace_back("choices", Json(std::move(list)));
        reply.emplace_back("usage", openai_usage(usage));
        respond_json(exchange(), 200, Json(std::move(reply)));
    }

    void failed(const ApiError& error) override {
        if (!begun_) {
            respond_error(exchange(), error);
            return;
        }
        write(sse_data(openai_error(error)));
        exchange().end_stream();
    }

private:
    Json::Object head(std::string_view object) const {
        return Json::Object{{"id", id_},
                            {"object", object},
                            {"created", setup_.created},
                            {"model", setup_.model->name},
                            {"system_fingerprint", setup_.model->fingerprint}};
    }

    Json chunk(std::size_t choice, Json::Object delta, Json logprobs, Json finish_reason) const {
        Json::Object object = head("chat.completion.chunk");
        object.emplace_back("choices", Json::Array{Json::Object{{"index", std::uint64_t{choice}},
                                                                {"delta", Json(std::move(delta))},
                                                                {"logprobs", std::move(logprobs)},
                                                                {"finish_reason", std::move(finish_reason)}}});
        if (setup_.spec.include_usage) object.emplace_back("usage", Json());
        return Json(std::move(object));
    }

    void send(std::size_t choice, Json::Object delta, Json logprobs, Json finish_reason) {
        begun_ = true;
        write(sse_data(chunk(choice, std::move(delta), std::move(logprobs), std::move(finish_reason))));
    }

    void send_text(std::size_t choice, std::string_view text) {
        TextEvent& piece = pieces_[choice];
        if (!piece.made())
            piece = TextEvent(chunk(choice, Json::Object{{"content", TextEvent::kText}}, Json(), Json()));
        write(piece.with(text));
    }

    void on_content(std::size_t choice, std::string_view text) override { pending_[choice] += text; }

    void flush(std::size_t choice, Json::Array logprobs) {
        if (!streams() || (pending_[choice].empty() && logprobs.empty())) return;
        if (logprobs.empty()) {
            send_text(choice, pending_[choice]);
        } else {
            Json entry = Json::Object{{"content", Json(std::move(logprobs))}, {"refusal", Json()}};
            send(choice, Json::Object{{"content", pending_[choice]}}, std::move(entry), Json());
        }
        pending_[choice].clear();
    }

    void on_token_done(std::size_t choice, Json::Array logprobs) override { flush(choice, std::move(logprobs)); }

    void on_call_begins(std::size_t choice, std::size_t call) override {
        if (!streams()) return;
        flush(choice, {});
        const ToolCall& made = choices_[choice].calls[call];
        Json::Object delta{{"index", std::uint64_t{call}},
                           {"id", made.id},
                           {"type", "function"},
                           {"function", Json::Object{{"name", made.name}, {"arguments", ""}}}};
        send(choice, Json::Object{{"tool_calls", Json::Array{Json(std::move(delta))}}}, Json(), Json());
    }

    void on_call_arguments(std::size_t choice, std::size_t call, std::string_view json) override {
        if (!streams()) return;
        Json::Object delta{{"index", std::uint64_t{call}}, {"function", Json::Object{{"arguments", json}}}};
        send(choice, Json::Object{{"tool_calls", Json::Array{Json(std::move(delta))}}}, Json(), Json());
    }

    void on_call_ends(std::size_t, std::size_t) override {}

    void on_choice_finished(std::size_t choice) override {
        if (!streams()) return;
        const ChatChoice& made = choices_[choice];
        send(choice, {}, Json(), Json(openai_finish(made.reason, !made.calls.empty())));
    }

    Json whole_choice(std::size_t index) const {
        const ChatChoice& choice = choices_[index];
        const bool called = !choice.calls.empty();
        Json::Object message{{"role", "assistant"},
                             {"content", called && choice.content.empty() ? Json() : Json(choice.content)},
                             {"refusal", Json()}};
        if (called) {
            Json::Array calls;
            for (const ToolCall& call : choice.calls) {
                calls.push_back(
                    Json::Object{{"id", call.id},
                                 {"type", "function"},
                                 {"function", Json::Object{{"name", call.name}, {"arguments", call.arguments}}}});
            }
            message.emplace_back("tool_calls", Json(std::move(calls)));
        }
        return Json::Object{{"index", std::uint64_t{index}},
                            {"message", Json(std::move(message))},
                            {"logprobs", setup_.spec.logprobs ? Json(Json::Object{{"content", Json(choice.logprobs)},
                                                                                  {"refusal", Json()}})
                                                              : Json()},
                            {"finish_reason", openai_finish(choice.reason, called)}};
    }

    std::string id_;
    bool begun_ = false;                // a stream
    std::vector<std::string> pending_;  // by choice: content not sent yet
    std::vector<TextEvent> pieces_;     // and its event
};

}  // namespace

std::unique_ptr<Reply> make_openai_chat_reply(ChatReplySetup setup) {
    return std::make_unique<OpenAiChatReply>(std::move(setup));
}

}  // namespace hearth
