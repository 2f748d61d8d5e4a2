// Replies of /v1/responses: a response object, or the events that build it up.
#include "server/api/chat_reply.h"

namespace hearth {

namespace {

class ResponseReply final : public ChatReply {
public:
    ResponseReply(ChatReplySetup setup, Json::Object echo)
        : ChatReply(std::move(setup)), id_(random_id("resp_", 32)), echo_(std::move(echo)) {}

    void begin() override {
        if (!streams()) return;
        begun_ = true;
        exchange().begin_stream();
        send("response.created", {{"response", response("in_progress", Json())}});
        send("response.in_progress", {{"response", response("in_progress", Json())}});
    }

    void finished(const Usage& usage) override {
        const bool cut = choices_[0].reason == FinishReason::Length || choices_[0].reason == FinishReason::Deadline;
        Json whole = response(cut ? "incomplete" : "completed", usage_json(usage));
        if (!streams()) {
            respond_json(exchange(), 200, whole);
            return;
        }
        send(cut ? "response.incomplete" : "response.completed", {{"response", std::move(whole)}});
        exchange().end_stream();
    }

    void failed(const ApiError& error) override {
        if (!begun_) {
            respond_error(exchange(), error);
            return;
        }
        send("error", {{"code", error.code}, {"message", error.message}, {"param", Json()}});
        exchange().end_stream();
    }

private:
    enum class Item : std::uint8_t { None, Message, Call };

    static Json usage_json(const Usage& usage) {
        const std::uint64_t input = usage.prompt_tokens;
        const std::uint64_t output = usage.generated_tokens;
        return Json::Object{
            {"input_tokens", input},
            {"input_tokens_details", Json::Object{{"cached_tokens", std::uint64_t{usage.cached_tokens}}}},
            {"output_tokens", output},
            {"output_tokens_details", Json::Object{{"reasoning_tokens", 0}}},
            {"total_tokens", input + output}};
    }

    Json response(std::string_view status, Json usage) const {
        Json::Object object{{"id", id_},
                            {"object", "response"},
                            {"created_at", setup_.created},
                            {"status", status},
                            {"error", Json()},
                            {"incomplete_details",
                             status == "incomplete" ? Json(Json::Object{{"reason", "max_output_tokens"}}) : Json()},
                            {"model", setup_.model->name},
                            {"output", Json(output_)},
                            {"previous_response_id", Json()},
                            {"store", false},
                            {"truncation", "disabled"},
                            {"usage", std::move(usage)}};
        object.insert(object.end(), echo_.begin(), echo_.end());
        return Json(std::move(object));
    }

    void send(std::string_view type, Json::Object fields) {
        if (!streams()) return;
        fields.insert(fields.begin(), Json::Member("type", Json(type)));
        fields.emplace_back("sequence_number", sequence_++);
        write(sse_event(type, Json(std::move(fields))));
    }

    std::uint64_t item_index() const { return output_.size(); }

    Json part(std::string_view text) const {
        return Json::Object{{"type", "output_text"},
                            {"text", text},
                            {"annotations", Json(Json::Array{})},
                            {"logprobs", Json(Json::Array{})}};
    }
    Json message(std::string_view status, Json::Array content) const {
        return Json::Object{{"id", item_id_},
                            {"type", "message"},
                            {"status", status},
                            {"role", "assistant"},
                            {"content", Json(std::move(content))}};
    }
    Json call_item(std::string_view status, const ToolCall& call) const {
        return Json::Object{{"id", item_id_},     {"type", "function_call"}, {"status", status},
                            {"call_id", call.id}, {"name", call.name},       {"arguments", call.arguments}};
    }

    void close_message() {
        if (open_ != Item::Message) return;
        const std::uint64_t index = item_index();
        const Json::Object place{{"item_id", item_id_}, {"output_index", index}, {"content_index", 0}};
        Json::Object done = place;
        done.emplace_back("text", text_);
        done.emplace_back("logprobs", Json(Json::Array{}));
        send("response.output_text.done", std::move(done));
        Json::Object part_done = place;
        part_done.emplace_back("part", part(text_));
        send("response.content_part.done", std::move(part_done));
        Json item = message("completed", Json::Array{part(text_)});
        send("response.output_item.done", {{"output_index", index}, {"item", item}});
        output_.push_back(std::move(item));
        open_ = Item::None;
    }

    void on_content(std::size_t, std::string_view text) override {
        const std::uint64_t index = item_index();
        if (open_ != Item::Message) {
            open_ = Item::Message;
            item_id_ = random_id("msg_", 32);
            text_.clear();
            send("response.output_item.added", {{"output_index", index}, {"item", message("in_progress", {})}});
            send("response.content_part.added",
                 {{"item_id", item_id_}, {"output_index", index}, {"content_index", 0}, {"part", part("")}});
        }
        text_ += text;
        send("response.output_text.delta", {{"item_id", item_id_},
                                            {"output_index", index},
                                            {"content_index", 0},
                                            {"delta", text},
                                            {"logprobs", Json(Json::Array{})}});
    }

    void on_call_begins(std::size_t choice, std::size_t call) override {
        close_message();
        open_ = Item::Call;
        item_id_ = random_id("fc_", 32);
        send("response.output_item.added",
             {{"output_index", item_index()}, {"item", call_item("in_progress", choices_[choice].calls[call])}});
    }

    void on_call_arguments(std::size_t, std::size_t, std::string_view json) override {
        send("response.function_call_arguments.delta",
             {{"item_id", item_id_}, {"output_index", item_index()}, {"delta", json}});
    }

    void on_call_ends(std::size_t choice, std::size_t call) override {
        const ToolCall& made = choices_[choice].calls[call];
        send("response.function_call_arguments.done", {{"item_id", item_id_},
                                                       {"output_index", item_index()},
                                                       {"name", made.name},
                                                       {"arguments", made.arguments}});
        Json item = call_item("completed", made);
        send("response.output_item.done", {{"output_index", item_index()}, {"item", item}});
        output_.push_back(std::move(item));
        open_ = Item::None;
    }

    void on_token_done(std::size_t, Json::Array) override {}

    void on_choice_finished(std::size_t) override {
        if (open_ == Item::None && output_.empty()) on_content(0, "");  // an empty answer is an empty message
        close_message();
    }

    std::string id_;
    Json::Object echo_;
    bool begun_ = false;  // a stream
    std::uint64_t sequence_ = 0;
    Json::Array output_;  // finished items
    Item open_ = Item::None;
    std::string item_id_;
    std::string text_;  // of the open message
};

}  // namespace

std::unique_ptr<Reply> make_response_reply(ChatReplySetup setup, Json::Object echo) {
    return std::make_unique<ResponseReply>(std::move(setup), std::move(echo));
}

}  // namespace hearth
