#include "server/api/completion_reply.h"

#include <cmath>

#include "server/api/reply_parts.h"

namespace hearth {

namespace {

struct Logprobs {
    Json::Array tokens;
    Json::Array values;
    Json::Array top;
    Json::Array offsets;

    Json json() {
        return Json::Object{{"tokens", Json(std::move(tokens))},
                            {"token_logprobs", Json(std::move(values))},
                            {"top_logprobs", Json(std::move(top))},
                            {"text_offset", Json(std::move(offsets))}};
    }
};

struct Choice {
    std::string text;
    Logprobs logprobs;
    std::size_t offset = 0;  // of the next token in the text
    bool begun = false;      // something of it was sent
    TextEvent piece;         // of the stream, without logprobs
    FinishReason reason = FinishReason::EndOfText;
};

double shown(float logprob) {
    return std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0;
}

class CompletionReply final : public Reply {
public:
    explicit CompletionReply(CompletionReplySetup setup)
        : setup_(std::move(setup)), id_(random_id("cmpl-", 29)), choices_(setup_.echoes.size()) {}

    void begin() override {
        for (std::size_t i = 0; i < choices_.size(); ++i) {
            choices_[i].text = setup_.echoes[i];
            choices_[i].offset = setup_.echoes[i].size();
        }
        if (!setup_.spec.stream) return;
        begun_ = true;
        setup_.exchange->begin_stream();
    }

    void token(const TokenEvent& event) override {
        Choice& choice = choices_[event.choice];
        choice.text += event.text;
        if (setup_.spec.logprobs) note_logprobs(choice, event);
        const bool silent = event.text.empty() && !setup_.spec.logprobs && !echo_is_due(event.choice);
        if (!setup_.spec.stream || silent) return;
        if (choice.begun && !setup_.spec.logprobs) return send_text(event.choice, event.text);
        send(event.choice, event.text, setup_.spec.logprobs ? choice.logprobs.json() : Json(), Json());
        choice.logprobs = {};
    }

    void choice_finished(std::size_t index, FinishReason reason, std::string_view text) override {
        Choice& choice = choices_[index];
        choice.text += text;
        choice.reason = reason;
        if (setup_.spec.stream) send(index, text, Json(), Json(openai_finish(reason, false)));
    }

    void finished(const Usage& usage) override {
        if (setup_.spec.stream) {
            if (setup_.spec.include_usage) {
                Json::Object chunk = head();
                chunk.emplace_back("choices", Json(Json::Array{}));
                chunk.emplace_back("usage", openai_usage(usage));
                setup_.exchange->write(sse_data(Json(std::move(chunk))));
            }
            setup_.exchange->write(std::string(kSseDone));
            setup_.exchange->end_stream();
            return;
        }
        Json::Array list;
        for (std::size_t i = 0; i < choices_.size(); ++i) {
            Choice& choice = choices_[i];
            list.push_back(choice_json(i, choice.text, setup_.spec.logprobs ? choice.logprobs.json() : Json(),
                                       Json(openai_finish(choice.reason, false))));
        }
        Json::Object reply = head();
        reply.emplace_back("choices", Json(std::move(list)));
        reply.emplace_back("usage", openai_usage(usage));
        respond_json(*setup_.exchange, 200, Json(std::move(reply)));
    }

    void failed(const ApiError& error) override {
        if (!begun_) {
            respond_error(*setup_.exchange, error);
            return;
        }
        setup_.exchange->write(sse_data(openai_error(error)));
        setup_.exchange->end_stream();
    }

private:
    Json::Object head() const {
        return Json::Object{{"id", id_},
                            {"object", "text_completion"},
                            {"created", setup_.created},
                            {"model", setup_.model->name},
                            {"system_fingerprint", setup_.model->fingerprint}};
    }

    static Json choice_json(std::size_t index, std::string_view text, Json logprobs, Json finish_reason) {
        return Json::Object{{"index", std::uint64_t{index}},
                            {"text", text},
                            {"logprobs", std::move(logprobs)},
                            {"finish_reason", std::move(finish_reason)}};
    }

    bool echo_is_due(std::size_t index) const { return !choices_[index].begun && !setup_.echoes[index].empty(); }

    Json chunk(std::size_t index, std::string_view text, Json logprobs, Json finish_reason) const {
        Json::Object object = head();
        object.emplace_back("choices",
                            Json::Array{choice_json(index, text, std::move(logprobs), std::move(finish_reason))});
        if (setup_.spec.include_usage) object.emplace_back("usage", Json());
        return Json(std::move(object));
    }

    // Each choice begins with its echo, not all of them when the stream begins: many long ones would overflow it.
    void send(std::size_t index, std::string_view text, Json logprobs, Json finish_reason) {
        std::string shown = echo_is_due(index) ? setup_.echoes[index] : std::string();
        shown += text;
        choices_[index].begun = true;
        setup_.exchange->write(sse_data(chunk(index, shown, std::move(logprobs), std::move(finish_reason))));
    }

    void send_text(std::size_t index, std::string_view text) {
        TextEvent& piece = choices_[index].piece;
        if (!piece.made()) piece = TextEvent(chunk(index, TextEvent::kText, Json(), Json()));
        setup_.exchange->write(piece.with(text));
    }

    void note_logprobs(Choice& choice, const TokenEvent& event) const {
        const Tokenizer& tokenizer = setup_.model->tokenizer();
        const std::string text = token_text(tokenizer, event.token);
        choice.logprobs.tokens.push_back(text);
        choice.logprobs.values.push_back(shown(event.logprob));
        Json::Object top;
        for (const TokenLogprob& other : event.top) {
            const std::string name = token_text(tokenizer, other.token);
            // Different broken characters may look alike; an object takes a name once.
            if (Json(top).find(name) == nullptr) top.emplace_back(name, shown(other.logprob));
        }
        choice.logprobs.top.push_back(Json(std::move(top)));
        choice.logprobs.offsets.push_back(std::uint64_t{choice.offset});
        choice.offset += text.size();
    }

    CompletionReplySetup setup_;
    std::string id_;
    bool begun_ = false;  // a stream
    std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<Reply> make_completion_reply(CompletionReplySetup setup) {
    return std::make_unique<CompletionReply>(std::move(setup));
}

}  // namespace hearth
