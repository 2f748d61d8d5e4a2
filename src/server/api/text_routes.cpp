// /v1/completions, /v1/tokenize, /v1/detokenize.
#include "server/api/api_state.h"
#include "server/api/completion_reply.h"

namespace hearth {

namespace {

constexpr std::size_t kPromptLimit = 64;
constexpr std::size_t kTokenLimit = std::size_t{1} << 20;

bool all_integers(const Json::Array& items) {
    for (const Json& item : items) {
        if (item.as_int() == nullptr) return false;
    }
    return !items.empty();
}

// A string, token ids, or an array of either.
std::vector<std::vector<TokenId>> read_prompts(Fields& fields, const ServedModel& model, ParseSpecial parse_special) {
    std::vector<std::vector<TokenId>> prompts;
    const Json* value = fields.take("prompt");
    if (value == nullptr) {
        fields.fault("prompt", "is missing");
        return prompts;
    }
    const auto add = [&](const Json& one, const std::string& path) {
        if (const std::string* text = one.as_string()) {
            prompts.push_back(encode_text(model.tokenizer(), *text, parse_special));
        } else if (const Json::Array* ids = one.as_array(); ids != nullptr && ids->size() <= kTokenLimit) {
            prompts.push_back(read_tokens(*ids, path, model.tokenizer(), fields.faults()));
        } else {
            fields.faults().field(path, "must be a string or an array of token ids");
        }
        if (fields.ok() && prompts.back().empty())
            fields.faults().field(path, "is empty: there is nothing to continue");
        if (fields.ok()) check_length(model, prompts.back().size(), path, fields.faults());
    };
    const Json::Array* list = value->as_array();
    if (list == nullptr || all_integers(*list)) {
        add(*value, "prompt");
        return prompts;
    }
    if (list->empty() || list->size() > kPromptLimit) {
        fields.fault("prompt", "holds " + std::to_string(list->size()) + " prompts, 1 to " +
                                   std::to_string(kPromptLimit) + " are allowed");
        return prompts;
    }
    for (std::size_t i = 0; i < list->size() && fields.ok(); ++i) {
        add((*list)[i], "prompt[" + std::to_string(i) + "]");
    }
    return prompts;
}

}  // namespace

void post_completions(ApiCall& call) {
    Fields fields(call.body, "", call.faults);
    ServedModel* model = call.model(fields);
    if (call.refused()) return;
    AnswerSpec spec;
    const bool parse_special = fields.boolean("parse_special").value_or(false);
    read_sampling(fields, model->tokenizer(), spec);
    read_stops(fields, "stop", spec);
    read_choices_and_stream(fields, spec);
    // OpenAI's default; there the context may be longer than anyone wants to wait for.
    spec.max_tokens = static_cast<std::size_t>(fields.integer("max_tokens", 1, kMaxTokensLimit).value_or(16));
    const bool echo = fields.boolean("echo").value_or(false);
    if (const auto top = fields.integer("logprobs", 0, kTopLogprobsLimit)) {
        spec.logprobs = true;
        spec.top_logprobs = static_cast<std::size_t>(*top);
        if (echo) fields.fault("logprobs", "is not available for an echoed prompt");
    }
    const auto best_of = fields.integer("best_of", 1, kChoiceLimit);
    if (best_of && static_cast<std::size_t>(*best_of) != spec.choices) {
        fields.fault("best_of", "must be equal to n: answers are not ranked");
    }
    if (const auto suffix = fields.string("suffix"); suffix && !suffix->empty()) {
        fields.fault("suffix", "is not supported: write the model's own infilling tokens into the prompt");
    }
    fields.ignore({"user", "metadata"});
    const std::vector<std::vector<TokenId>> prompts =
        fields.ok() ? read_prompts(fields, *model, parse_special ? ParseSpecial::Yes : ParseSpecial::No)
                    : std::vector<std::vector<TokenId>>();
    if (call.refused()) return;
    read_response_format(fields, spec);
    fields.ignore({"prompt", "response_format", "grammar"});
    fields.finish();
    if (call.refused()) return;
    std::vector<std::string> echoes;
    std::vector<AnswerRequest> requests;
    for (const std::vector<TokenId>& prompt : prompts) {
        const std::string text = echo ? model->tokenizer().decode(prompt) : std::string();
        for (std::size_t i = 0; i < spec.choices; ++i) echoes.push_back(text);
        requests.push_back(make_request(spec, prompt, call.request.key_scope));
    }
    start_job(call, *model,
              make_completion_reply({call.exchange, model, std::move(spec), std::move(echoes), epoch_seconds()}),
              std::move(requests));
}

void post_tokenize(ApiCall& call) {
    Fields fields(call.body, "", call.faults);
    ServedModel* model = call.model(fields);
    if (call.refused()) return;
    const std::optional<std::string> text = fields.string("text");
    const Json::Array* given = fields.array("messages", kMessageLimit);
    const bool add_special = fields.boolean("add_special").value_or(false);
    const bool parse_special = fields.boolean("parse_special").value_or(false);
    const bool pieces = fields.boolean("with_pieces").value_or(false);
    const ToolUse tools = read_chat_tools(fields);
    if (text.has_value() == (given != nullptr)) fields.fault("text", "give either text or messages");
    fields.finish();
    Json::Array messages;
    if (given != nullptr) messages = read_chat_messages(*given, "messages", call.faults);
    if (call.refused()) return;
    const Tokenizer& tokenizer = model->tokenizer();
    const std::vector<TokenId> tokens = text ? tokenizer.encode(*text, add_special ? AddSpecial::Yes : AddSpecial::No,
                                                                parse_special ? ParseSpecial::Yes : ParseSpecial::No)
                                             : encode_chat(*model, messages, tools, "messages", call.faults);
    if (tokens.size() > kTokenLimit) {
        fields.fault("text", "has " + std::to_string(tokens.size()) + " tokens, at most " +
                                 std::to_string(kTokenLimit) + " are told");
    }
    if (call.refused()) return;
    Json::Object reply{{"model", model->name},
                       {"count", std::uint64_t{tokens.size()}},
                       {"context", std::uint64_t{model->engine->context()}},
                       {"tokens", Json(Json::Array(tokens.begin(), tokens.end()))}};
    if (pieces) {
        Json::Array texts;
        for (const TokenId token : tokens) texts.push_back(token_text(tokenizer, token));
        reply.emplace_back("pieces", Json(std::move(texts)));
    }
    respond_json(*call.exchange, 200, Json(std::move(reply)));
}

void post_detokenize(ApiCall& call) {
    Fields fields(call.body, "", call.faults);
    ServedModel* model = call.model(fields);
    if (call.refused()) return;
    const bool with_control = fields.boolean("with_control").value_or(false);
    const Json::Array* items = fields.array("tokens", kTokenLimit);
    if (items == nullptr) fields.fault("tokens", "is missing");
    fields.finish();
    if (call.refused()) return;
    const std::vector<TokenId> tokens = read_tokens(*items, "tokens", model->tokenizer(), call.faults);
    if (call.refused()) return;
    respond_json(*call.exchange, 200,
                 Json::Object{{"model", model->name}, {"text", model->tokenizer().decode(tokens, with_control)}});
}

}  // namespace hearth
