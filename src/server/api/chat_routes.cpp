// /v1/chat/completions, /v1/responses, /v1/messages and its count_tokens: one conversation each.
#include <algorithm>

#include "server/api/api_state.h"
#include "server/api/chat_reply.h"

namespace hearth {

namespace {

// A required call is enforced by a grammar; it begins behind the format's opening, which is part of the prompt.
void force_call(const ServedModel& model, const ToolUse& tools, AnswerSpec& spec, std::string_view format_field,
                Faults& faults) {
    if (!tools.forced() || faults.any()) return;
    if (spec.grammar != nullptr) {
        faults.field("tool_choice", "demands a call, which cannot be combined with " + std::string(format_field));
        return;
    }
    spec.grammar = forced_call_grammar(tools, model.tool_format.arguments_key, faults);
}

// A conversation as the three APIs read it.
struct Chat {
    Json::Array messages;
    ToolUse tools;
    AnswerSpec spec;
};

// What the routes end with. `messages_field`: where the conversation stands in the request; `make_reply`: the reply in
// the words of the API.
void start_chat(ApiCall& call, ServedModel& model, Chat chat, std::string_view messages_field,
                const std::function<std::unique_ptr<Reply>(ChatReplySetup)>& make_reply) {
    if (call.refused()) return;
    std::vector<TokenId> prompt = encode_chat(model, chat.messages, chat.tools, messages_field, call.faults);
    if (call.refused()) return;
    const std::size_t length = prompt.size();
    std::vector<AnswerRequest> requests;
    requests.push_back(make_request(chat.spec, std::move(prompt), call.request.key_scope));
    start_job(call, model,
              make_reply({call.exchange, &model, std::move(chat.spec), std::move(chat.tools), length, epoch_seconds()}),
              std::move(requests));
}

// The fields of the request that a response object repeats.
Json::Object echo_of_response(const Json& body, const AnswerSpec& spec, Json format) {
    const auto given = [&](std::string_view key, Json otherwise) {
        const Json* value = body.find(key);
        return value == nullptr ? std::move(otherwise) : *value;
    };
    return {{"instructions", given("instructions", Json())},
            {"max_output_tokens", given("max_output_tokens", Json())},
            {"metadata", given("metadata", Json(Json::Object{}))},
            {"parallel_tool_calls", given("parallel_tool_calls", Json(true))},
            {"reasoning", Json::Object{{"effort", Json()}, {"summary", Json()}}},
            {"temperature", static_cast<double>(spec.sampling.temperature)},
            {"text", Json::Object{{"format", std::move(format)}}},
            {"tool_choice", given("tool_choice", Json("auto"))},
            {"tools", given("tools", Json(Json::Array{}))},
            {"top_p", static_cast<double>(spec.sampling.top_p)},
            {"user", given("user", Json())}};
}

std::size_t character_count(std::string_view text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// What a response repeats in each of its large events, though it changes nothing here: held to OpenAI's limits.
void check_labels(Fields& fields) {
    constexpr std::size_t kPairLimit = 16;
    constexpr std::size_t kKeyLimit = 64;
    constexpr std::size_t kValueLimit = 512;
    const auto user = fields.string("user");
    if (user && character_count(*user) > kValueLimit) {
        fields.fault("user", "may have " + std::to_string(kValueLimit) + " characters at most");
    }
    const Json::Object* metadata = fields.object("metadata");
    if (metadata == nullptr) return;
    bool fits = metadata->size() <= kPairLimit;
    for (const Json::Member& member : *metadata) {
        const std::string* value = member.second.as_string();
        fits = fits && character_count(member.first) <= kKeyLimit && value != nullptr &&
               character_count(*value) <= kValueLimit;
    }
    if (!fits) {
        fields.fault("metadata",
                     "may hold 16 pairs at most, with names of up to 64 and strings of up to 512 characters");
    }
}

// Fields of OpenAI's that change nothing here.
void ignore_common(Fields& fields) {
    fields.ignore({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
                   "prompt_cache_retention", "verbosity", "reasoning_effort"});
}

// Two names for one thing: alike when both are given.
std::size_t read_max_tokens(Fields& fields) {
    const auto older = fields.integer("max_tokens", 1, kMaxTokensLimit);
    const auto newer = fields.integer("max_completion_tokens", 1, kMaxTokensLimit);
    if (older && newer && *older != *newer) {
        fields.fault("max_tokens", "differs from max_completion_tokens: give one of them");
    }
    return static_cast<std::size_t>(newer ? *newer : older.value_or(0));
}

void read_chat_logprobs(Fields& fields, AnswerSpec& spec) {
    spec.logprobs = fields.boolean("logprobs").value_or(false);
    const auto top = fields.integer("top_logprobs", 0, kTopLogprobsLimit);
    if (top && *top > 0 && !spec.logprobs) fields.fault("top_logprobs", "needs \"logprobs\": true");
    spec.top_logprobs = static_cast<std::size_t>(top.value_or(0));
}

// What a client of Anthropic's sets to be answered otherwise: taken in silence it would be believed.
void refuse_thinking_and_output(Fields& fields) {
    if (const Json* thinking = fields.take("thinking")) {
        Fields parts(*thinking, "thinking", fields.faults());
        const std::string type = parts.required_string("type");
        if (fields.ok() && type != "disabled") {
            parts.fault("type", "must be disabled: models here have no thinking that could be set");
        }
        parts.finish();
    }
    fields.unsupported("output_config", "is not supported: a tool with a required call gives answers of a form");
}

}  // namespace

void post_chat_completions(ApiCall& call) {
    Fields fields(call.body, "", call.faults);
    ServedModel* model = call.model(fields);
    if (call.refused()) return;
    Chat chat;
    AnswerSpec& spec = chat.spec;
    if (const Json::Array* given = fields.array("messages", kMessageLimit)) {
        chat.messages = read_chat_messages(*given, "messages", call.faults);
    } else {
        fields.fault("messages", "is missing");
    }
    chat.tools = read_chat_tools(fields);
    read_sampling(fields, model->tokenizer(), spec);
    read_stops(fields, "stop", spec);
    read_choices_and_stream(fields, spec);
    spec.max_tokens = read_max_tokens(fields);
    read_chat_logprobs(fields, spec);
    ignore_common(fields);
    fields.ignore({"prediction", "modalities"});
    fields.unsupported("functions", "is obsolete: use tools");
    fields.unsupported("function_call", "is obsolete: use tool_choice");
    fields.unsupported("audio", "only text is supported");
    fields.unsupported("web_search_options", "there is no web search here");
    fields.ignore({"response_format", "grammar"});
    fields.finish();
    if (call.refused()) return;  // before grammars are compiled
    read_response_format(fields, spec);
    force_call(*model, chat.tools, spec, "response_format or grammar", call.faults);
    start_chat(call, *model, std::move(chat), "messages", make_openai_chat_reply);
}

void post_responses(ApiCall& call) {
    Fields fields(call.body, "", call.faults);
    ServedModel* model = call.model(fields);
    if (call.refused()) return;
    Chat chat;
    AnswerSpec& spec = chat.spec;
    chat.messages = read_response_input(fields);
    chat.tools = read_response_tools(fields);
    read_sampling(fields, model->tokenizer(), spec);
    spec.stream = fields.boolean("stream").value_or(false);
    spec.max_tokens = static_cast<std::size_t>(fields.integer("max_output_tokens", 1, kMaxTokensLimit).value_or(0));
    ignore_common(fields);
    check_labels(fields);
    fields.ignore({"include", "reasoning", "stream_options", "max_tool_calls"});
    fields.unsupported("previous_response_id", "responses are not kept: send the conversation as input");
    fields.unsupported("conversation", "conversations are not kept: send the conversation as input");
    fields.unsupported("background", "is not supported");
    fields.unsupported("prompt", "prompt templates are not supported: use instructions and input");
    fields.unsupported("top_logprobs", "is not supported here: use /v1/chat/completions", 0);
    if (fields.choice("truncation", {"disabled", "auto"}) == "auto") {
        fields.fault("truncation", "must be disabled: nothing is cut off in silence");
    }
    Json format_echo = Json::Object{{"type", "text"}};
    if (const Json* text = fields.take("text")) {
        Fields parts(*text, "text", call.faults);
        parts.ignore({"verbosity"});
        if (const Json* format = parts.take("format")) {
            spec.grammar = read_format(*format, "text.format", SchemaPlace::Flat, call.faults);
            format_echo = *format;
        }
        parts.finish();
    }
    fields.finish();
    force_call(*model, chat.tools, spec, "text.format", call.faults);
    start_chat(call, *model, std::move(chat), "input", [&](ChatReplySetup setup) {
        Json::Object echo = echo_of_response(call.body, setup.spec, std::move(format_echo));
        return make_response_reply(std::move(setup), std::move(echo));
    });
}

void post_messages(ApiCall& call) {
    Fields fields(call.body, "", call.faults);
    ServedModel* model = call.model(fields);
    if (call.refused()) return;
    Chat chat;
    AnswerSpec& spec = chat.spec;
    chat.messages = read_anthropic_messages(fields);
    chat.tools = read_anthropic_tools(fields);
    read_sampling(fields, model->tokenizer(), spec);
    read_stops(fields, "stop_sequences", spec);
    spec.stream = fields.boolean("stream").value_or(false);
    const auto max_tokens = fields.integer("max_tokens", 1, kMaxTokensLimit);
    if (!max_tokens) fields.fault("max_tokens", "is missing");
    spec.max_tokens = static_cast<std::size_t>(max_tokens.value_or(1));
    fields.ignore({"metadata", "service_tier", "cache_control", "inference_geo"});
    refuse_thinking_and_output(fields);
    fields.unsupported("mcp_servers", "is not supported");
    fields.unsupported("container", "is not supported");
    fields.finish();
    force_call(*model, chat.tools, spec, "another grammar", call.faults);
    start_chat(call, *model, std::move(chat), "messages", make_anthropic_reply);
}

void post_count_tokens(ApiCall& call) {
    Fields fields(call.body, "", call.faults);
    ServedModel* model = call.model(fields);
    if (call.refused()) return;
    const Json::Array messages = read_anthropic_messages(fields);
    const ToolUse tools = read_anthropic_tools(fields);
    fields.ignore({"cache_control", "mcp_servers", "context_management"});
    refuse_thinking_and_output(fields);
    fields.finish();
    if (call.refused()) return;
    const std::vector<TokenId> prompt = encode_chat(*model, messages, tools, "messages", call.faults);
    if (call.refused()) return;
    respond_json(*call.exchange, 200, Json::Object{{"input_tokens", std::uint64_t{prompt.size()}}});
}

}  // namespace hearth
