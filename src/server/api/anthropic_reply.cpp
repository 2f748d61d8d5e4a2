// Replies of /v1/messages, in Anthropic's form.
#include "server/api/chat_reply.h"

namespace hearth {

namespace {

class AnthropicReply final : public ChatReply {
public:
    explicit AnthropicReply(ChatReplySetup setup) : ChatReply(std::move(setup)), id_(random_id("msg_", 24)) {}

    void begin() override {
        if (!streams()) return;
        begun_ = true;
        exchange().begin_stream();
        Json::Object message = head();
        message.emplace_back("content", Json(Json::Array{}));
        message.emplace_back("stop_reason", Json());
        message.emplace_back("stop_sequence", Json());
        message.emplace_back("usage",
                             Json::Object{{"input_tokens", std::uint64_t{setup_.prompt_tokens}}, {"output_tokens", 0}});
        send("message_start", {{"message", Json(std::move(message))}});
        send("ping", {});
    }

    void finished(const Usage& usage) override {
        const ChatChoice& choice = choices_[0];
        const Json stop = stop_sequence();
        const Json reason = stop_reason(!stop.is_null());
        if (streams()) {
            send("message_delta", {{"delta", Json::Object{{"stop_reason", reason}, {"stop_sequence", stop}}},
                                   {"usage", usage_json(usage)}});
            send("message_stop", {});
            exchange().end_stream();
            return;
        }
        Json::Array blocks;
        if (!choice.content.empty() || choice.calls.empty()) {
            blocks.push_back(Json::Object{{"type", "text"}, {"text", choice.content}, {"citations", Json()}});
        }
        for (const ToolCall& call : choice.calls) {
            Result<Json> input = Json::parse(call.arguments);
            blocks.push_back(Json::Object{{"type", "tool_use"},
                                          {"id", call.id},
                                          {"name", call.name},
                                          {"input", input.ok() ? std::move(input).value() : Json(Json::Object{})}});
        }
        Json::Object message = head();
        message.emplace_back("content", Json(std::move(blocks)));
        message.emplace_back("stop_reason", reason);
        message.emplace_back("stop_sequence", stop);
        message.emplace_back("usage", usage_json(usage));
        respond_json(exchange(), 200, Json(std::move(message)));
    }

    void failed(const ApiError& error) override {
        if (!begun_) {
            respond_error(exchange(), error, ApiStyle::Anthropic);
            return;
        }
        write(sse_event("error", anthropic_error(error)));
        exchange().end_stream();
    }

private:
    Json::Object head() const {
        return Json::Object{{"id", id_}, {"type", "message"}, {"role", "assistant"}, {"model", setup_.model->name}};
    }

    static Json usage_json(const Usage& usage) {
        // Anthropic counts cached prompt tokens apart.
        return Json::Object{{"input_tokens", std::uint64_t{usage.prompt_tokens - usage.cached_tokens}},
                            {"cache_creation_input_tokens", 0},
                            {"cache_read_input_tokens", std::uint64_t{usage.cached_tokens}},
                            {"output_tokens", std::uint64_t{usage.generated_tokens}}};
    }

    // The stop string that ended the answer: the one that comes first in its whole text.
    Json stop_sequence() const {
        if (choices_[0].reason != FinishReason::StopString) return Json();
        const std::string text = setup_.model->tokenizer().decode(choices_[0].tokens);
        const std::string* found = nullptr;
        std::size_t where = std::string::npos;
        for (const std::string& stop : setup_.spec.stops) {
            const std::size_t at = text.find(stop);
            if (at < where) {
                where = at;
                found = &stop;
            }
        }
        return found == nullptr ? Json() : Json(*found);
    }

    Json stop_reason(bool stopped) const {
        const ChatChoice& choice = choices_[0];
        if (choice.reason == FinishReason::Length || choice.reason == FinishReason::Deadline) return Json("max_tokens");
        if (!choice.calls.empty()) return Json("tool_use");
        return Json(stopped ? "stop_sequence" : "end_turn");
    }

    void send(std::string_view type, Json::Object fields) {
        fields.insert(fields.begin(), Json::Member("type", Json(type)));
        write(sse_event(type, Json(std::move(fields))));
    }

    enum class Block : std::uint8_t { None, Text, Call };

    void open_block(Block kind, Json::Object block) {
        close_block();
        open_ = kind;
        send("content_block_start", {{"index", std::uint64_t{index_}}, {"content_block", Json(std::move(block))}});
    }

    void close_block() {
        if (open_ == Block::None) return;
        send("content_block_stop", {{"index", std::uint64_t{index_}}});
        open_ = Block::None;
        ++index_;
    }

    void on_content(std::size_t, std::string_view text) override {
        if (!streams()) return;
        if (open_ != Block::Text) open_block(Block::Text, {{"type", "text"}, {"text", ""}});
        send("content_block_delta",
             {{"index", std::uint64_t{index_}}, {"delta", Json::Object{{"type", "text_delta"}, {"text", text}}}});
    }

    void on_call_begins(std::size_t choice, std::size_t call) override {
        if (!streams()) return;
        const ToolCall& made = choices_[choice].calls[call];
        open_block(Block::Call,
                   {{"type", "tool_use"}, {"id", made.id}, {"name", made.name}, {"input", Json(Json::Object{})}});
    }

    void on_call_arguments(std::size_t, std::size_t, std::string_view json) override {
        if (!streams()) return;
        send("content_block_delta", {{"index", std::uint64_t{index_}},
                                     {"delta", Json::Object{{"type", "input_json_delta"}, {"partial_json", json}}}});
    }

    void on_call_ends(std::size_t, std::size_t) override {
        if (streams()) close_block();
    }
    void on_token_done(std::size_t, Json::Array) override {}
    void on_choice_finished(std::size_t) override {
        if (streams()) close_block();
    }

    std::string id_;
    bool begun_ = false;  // a stream
    Block open_ = Block::None;
    std::size_t index_ = 0;  // of the block that is open or comes next
};

}  // namespace

std::unique_ptr<Reply> make_anthropic_reply(ChatReplySetup setup) {
    return std::make_unique<AnthropicReply>(std::move(setup));
}

}  // namespace hearth
