#include "server/api/chat_messages.h"

#include <algorithm>

namespace hearth {

namespace {

std::string indexed(const std::string& path, std::size_t index) {
    return path + "[" + std::to_string(index) + "]";
}

// Arguments are a JSON text in the APIs and an object in templates.
Json parse_arguments(const std::string& text) {
    if (text.empty()) return Json(Json::Object{});
    Result<Json> parsed = Json::parse(text);
    return parsed.ok() && parsed->as_object() != nullptr ? std::move(parsed).value() : Json(text);
}

Json call_for_template(std::string id, std::string name, Json arguments) {
    return Json::Object{{"id", std::move(id)},
                        {"type", "function"},
                        {"function", Json::Object{{"name", std::move(name)}, {"arguments", std::move(arguments)}}}};
}

Json::Array read_tool_calls(const Json::Array& calls, const std::string& path, Faults& faults) {
    Json::Array out;
    for (std::size_t i = 0; i < calls.size(); ++i) {
        Fields call(calls[i], indexed(path, i), faults);
        const std::string id = call.required_string("id");
        call.choice("type", {"function"});
        call.ignore({"index"});
        const Json* function = call.take("function");
        if (function == nullptr) {
            call.fault("function", "is missing");
            return out;
        }
        Fields parts(*function, call.path("function"), faults);
        const std::string name = parts.required_string("name");
        const std::string arguments = parts.string("arguments").value_or("");
        parts.finish();
        call.finish();
        out.push_back(call_for_template(id, name, parse_arguments(arguments)));
    }
    return out;
}

std::string_view template_role(std::string_view role) {
    return role == "developer" ? "system" : role;
}

Tool read_function(Fields& fields) {
    Tool tool;
    tool.name = fields.required_string("name");
    if (fields.ok()) check_tool_name(tool.name, fields.path("name"), fields.faults());
    tool.description = fields.string("description").value_or("");
    tool.path = fields.path("parameters");
    if (const Json* parameters = fields.take("parameters")) {
        if (parameters->as_object() == nullptr) fields.fault("parameters", "must be a JSON schema (an object)");
        tool.parameters = *parameters;
    }
    static_cast<void>(fields.boolean("strict"));
    return tool;
}

void check_choice(const ToolUse& use, Fields& fields) {
    if (use.mode == ToolMode::Required && use.tools.empty()) {
        fields.fault("tool_choice", "demands a call, but there are no tools");
    }
    if (use.only.empty()) return;
    const bool there =
        std::any_of(use.tools.begin(), use.tools.end(), [&](const Tool& tool) { return tool.name == use.only; });
    if (!there) fields.fault("tool_choice", "'" + use.only.substr(0, 64) + "' is not among the tools");
}

// OpenAI's tool_choice: a word, or an object that names a function: in the field `holder` of it, or without one
// directly.
void read_openai_choice(Fields& fields, std::string_view holder, ToolUse& use) {
    if (const Json* choice = fields.take("tool_choice")) {
        if (choice->as_string() != nullptr) {
            const auto word = fields.choice("tool_choice", {"none", "auto", "required"});
            if (word == "none") use.mode = ToolMode::None;
            if (word == "required") use.mode = ToolMode::Required;
        } else {
            Fields named(*choice, "tool_choice", fields.faults());
            named.choice("type", {"function"});
            if (holder.empty()) {
                use.only = named.required_string("name");
            } else if (const Json* held = named.take(holder)) {
                use.only = Fields(*held, named.path(holder), fields.faults()).required_string("name");
            } else {
                named.fault(holder, "is missing");
            }
            use.mode = ToolMode::Required;
            named.finish();
        }
    }
    use.parallel = fields.boolean("parallel_tool_calls").value_or(true);
    check_choice(use, fields);
}

}  // namespace

std::string content_text(const Json& value, const std::string& path, std::initializer_list<std::string_view> text_types,
                         Faults& faults) {
    if (const std::string* text = value.as_string()) return *text;
    const Json::Array* parts = value.as_array();
    if (parts == nullptr) {
        faults.field(path, "must be a string or an array of parts, not " + std::string(type_name(value)));
        return {};
    }
    std::string out;
    for (std::size_t i = 0; i < parts->size(); ++i) {
        Fields part((*parts)[i], indexed(path, i), faults);
        const std::string type = part.required_string("type");
        if (faults.any()) return {};
        if (std::find(text_types.begin(), text_types.end(), type) == text_types.end()) {
            part.fault("type", "'" + type.substr(0, 40) + "' is not supported: only text is");
            return {};
        }
        if (i > 0) out += "\n";
        out += part.required_string(type == "refusal" ? "refusal" : "text");
        part.ignore({"cache_control", "annotations", "citations", "logprobs"});
        part.finish();
    }
    return out;
}

Json::Array read_chat_messages(const Json::Array& messages, const std::string& path, Faults& faults) {
    Json::Array out;
    if (messages.empty()) faults.field(path, "must hold at least one message");
    for (std::size_t i = 0; i < messages.size() && !faults.any(); ++i) {
        Fields message(messages[i], indexed(path, i), faults);
        const std::optional<std::string> role =
            message.choice("role", {"system", "developer", "user", "assistant", "tool"});
        if (!role) message.fault("role", "is missing");
        Json::Object object;
        object.emplace_back("role", template_role(role.value_or("")));
        const Json* content = message.take("content");
        const Json::Array* calls = message.array("tool_calls", kToolLimit);
        if (content == nullptr && calls == nullptr && role != "assistant") message.fault("content", "is missing");
        object.emplace_back("content", content == nullptr ? Json("")
                                                          : Json(content_text(*content, message.path("content"),
                                                                              {"text", "refusal"}, faults)));
        if (calls != nullptr && !calls->empty()) {
            if (role != "assistant") message.fault("tool_calls", "only an assistant's message may have them");
            object.emplace_back("tool_calls", read_tool_calls(*calls, message.path("tool_calls"), faults));
        }
        if (const auto id = message.string("tool_call_id")) object.emplace_back("tool_call_id", *id);
        if (role == "tool" && message.ok() && message.take("tool_call_id") == nullptr) {
            message.fault("tool_call_id", "is missing");
        }
        if (const auto name = message.string("name")) object.emplace_back("name", *name);
        if (const auto reasoning = message.string("reasoning_content")) {
            object.emplace_back("reasoning_content", *reasoning);
        }
        message.ignore({"refusal", "audio", "annotations", "function_call"});
        message.finish();
        out.push_back(Json(std::move(object)));
    }
    return out;
}

ToolUse read_chat_tools(Fields& fields) {
    ToolUse use;
    if (const Json::Array* tools = fields.array("tools", kToolLimit)) {
        for (std::size_t i = 0; i < tools->size() && fields.ok(); ++i) {
            Fields tool((*tools)[i], indexed("tools", i), fields.faults());
            if (!tool.choice("type", {"function"})) tool.fault("type", "is missing");
            const Json* function = tool.take("function");
            if (function == nullptr) {
                tool.fault("function", "is missing");
                return use;
            }
            Fields parts(*function, tool.path("function"), fields.faults());
            use.tools.push_back(read_function(parts));
            parts.finish();
            tool.finish();
        }
    }
    read_openai_choice(fields, "function", use);
    return use;
}

Json::Array read_anthropic_messages(Fields& fields) {
    Json::Array out;
    Faults& faults = fields.faults();
    if (const Json* system = fields.take("system")) {
        out.push_back(Json::Object{{"role", "system"}, {"content", content_text(*system, "system", {"text"}, faults)}});
    }
    const Json::Array* messages = fields.array("messages", kMessageLimit);
    if (messages == nullptr || messages->empty()) {
        fields.fault("messages", "must hold at least one message");
        return out;
    }
    for (std::size_t i = 0; i < messages->size() && !faults.any(); ++i) {
        Fields message((*messages)[i], indexed("messages", i), faults);
        const std::string role = message.choice("role", {"user", "assistant"}).value_or("");
        if (role.empty()) message.fault("role", "is missing");
        const Json* content = message.take("content");
        message.finish();
        if (content == nullptr) {
            message.fault("content", "is missing");
            return out;
        }
        const Json::Array* blocks = content->as_array();
        if (blocks == nullptr) {
            out.push_back(Json::Object{{"role", role},
                                       {"content", content_text(*content, message.path("content"), {"text"}, faults)}});
            continue;
        }
        std::string text;
        Json::Array calls;
        for (std::size_t b = 0; b < blocks->size() && !faults.any(); ++b) {
            const std::string path = indexed(message.path("content"), b);
            Fields block((*blocks)[b], path, faults);
            const std::string type = block.required_string("type");
            block.ignore({"cache_control"});
            if (type == "text") {
                if (!text.empty()) text += "\n";
                text += block.required_string("text");
                block.ignore({"citations"});
            } else if (type == "tool_use" && role == "assistant") {
                const std::string id = block.required_string("id");
                const std::string name = block.required_string("name");
                const Json* input = block.take("input");
                block.ignore({"caller"});
                calls.push_back(call_for_template(id, name, input == nullptr ? Json(Json::Object{}) : *input));
            } else if (type == "tool_result" && role == "user") {
                const std::string id = block.required_string("tool_use_id");
                const Json* result = block.take("content");
                static_cast<void>(block.boolean("is_error"));
                out.push_back(Json::Object{
                    {"role", "tool"},
                    {"content", result == nullptr ? "" : content_text(*result, path + ".content", {"text"}, faults)},
                    {"tool_call_id", id}});
            } else if (type == "thinking" || type == "redacted_thinking") {
                block.ignore({"thinking", "signature", "data"});
            } else if (!faults.any()) {
                block.fault("type", "'" + type.substr(0, 40) + "' is not supported in a message of the " + role);
            }
            block.finish();
        }
        if (text.empty() && calls.empty()) continue;
        Json::Object object{{"role", role}, {"content", text}};
        if (!calls.empty()) object.emplace_back("tool_calls", std::move(calls));
        out.push_back(Json(std::move(object)));
    }
    return out;
}

ToolUse read_anthropic_tools(Fields& fields) {
    ToolUse use;
    if (const Json::Array* tools = fields.array("tools", kToolLimit)) {
        for (std::size_t i = 0; i < tools->size() && fields.ok(); ++i) {
            Fields parts((*tools)[i], indexed("tools", i), fields.faults());
            parts.choice("type", {"custom"});
            Tool tool;
            tool.name = parts.required_string("name");
            if (parts.ok()) check_tool_name(tool.name, parts.path("name"), fields.faults());
            tool.description = parts.string("description").value_or("");
            tool.path = parts.path("input_schema");
            if (const Json* schema = parts.take("input_schema")) {
                if (schema->as_object() == nullptr) parts.fault("input_schema", "must be a JSON schema (an object)");
                tool.parameters = *schema;
            } else {
                parts.fault("input_schema", "is missing");
            }
            parts.ignore({"cache_control", "strict", "input_examples", "eager_input_streaming"});
            parts.finish();
            use.tools.push_back(std::move(tool));
        }
    }
    if (const Json* choice = fields.take("tool_choice")) {
        Fields named(*choice, "tool_choice", fields.faults());
        const auto type = named.choice("type", {"auto", "any", "tool", "none"});
        if (type == "none") use.mode = ToolMode::None;
        if (type == "any" || type == "tool") use.mode = ToolMode::Required;
        if (type == "tool") use.only = named.required_string("name");
        use.parallel = !named.boolean("disable_parallel_tool_use").value_or(false);
        named.finish();
    }
    check_choice(use, fields);
    return use;
}

Json::Array read_response_input(Fields& fields) {
    Json::Array out;
    Faults& faults = fields.faults();
    if (const auto instructions = fields.string("instructions")) {
        out.push_back(Json::Object{{"role", "system"}, {"content", *instructions}});
    }
    const Json* input = fields.take("input");
    if (input == nullptr) {
        fields.fault("input", "is missing");
        return out;
    }
    if (const std::string* text = input->as_string()) {
        out.push_back(Json::Object{{"role", "user"}, {"content", *text}});
        return out;
    }
    const Json::Array* items = fields.array("input", kMessageLimit);
    if (items == nullptr || items->empty()) {
        fields.fault("input", "must be a string or at least one item");
        return out;
    }
    for (std::size_t i = 0; i < items->size() && !faults.any(); ++i) {
        Fields item((*items)[i], indexed("input", i), faults);
        const std::string type = item.string("type").value_or("message");
        item.ignore({"status"});
        if (type == "message") {
            item.ignore({"id", "phase"});
            const auto role = item.choice("role", {"system", "developer", "user", "assistant"});
            const Json* content = item.take("content");
            if (!role) item.fault("role", "is missing");
            if (content == nullptr) {
                item.fault("content", "is missing");
                return out;
            }
            out.push_back(Json::Object{{"role", template_role(role.value_or(""))},
                                       {"content", content_text(*content, item.path("content"),
                                                                {"input_text", "output_text", "text"}, faults)}});
        } else if (type == "function_call") {
            item.ignore({"id"});
            const std::string id = item.required_string("call_id");
            const std::string name = item.required_string("name");
            Json call = call_for_template(id, name, parse_arguments(item.string("arguments").value_or("")));
            out.push_back(
                Json::Object{{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::Array{std::move(call)}}});
        } else if (type == "function_call_output") {
            item.ignore({"id"});
            const std::string id = item.required_string("call_id");
            const Json* output = item.take("output");
            out.push_back(Json::Object{
                {"role", "tool"},
                {"content",
                 output == nullptr ? "" : content_text(*output, item.path("output"), {"input_text", "text"}, faults)},
                {"tool_call_id", id}});
        } else if (type == "reasoning") {
            item.ignore({"id", "summary", "content", "encrypted_content"});
        } else {
            item.fault("type", "'" + type.substr(0, 40) + "' is not supported");
        }
        item.finish();
    }
    return out;
}

ToolUse read_response_tools(Fields& fields) {
    ToolUse use;
    if (const Json::Array* tools = fields.array("tools", kToolLimit)) {
        for (std::size_t i = 0; i < tools->size() && fields.ok(); ++i) {
            Fields parts((*tools)[i], indexed("tools", i), fields.faults());
            if (!parts.choice("type", {"function"})) parts.fault("type", "is missing");
            use.tools.push_back(read_function(parts));
            parts.finish();
        }
    }
    read_openai_choice(fields, "", use);
    return use;
}

Json::Array without_tool_messages(const Json::Array& messages, const ToolUse& use) {
    Json::Array out;
    if (use.active()) out.push_back(Json::Object{{"role", "system"}, {"content", describe_tools(use)}});
    for (const Json& message : messages) {
        const std::string role = *message.find("role")->as_string();
        const std::string content = *message.find("content")->as_string();
        if (role == "system" && out.size() == 1 && use.active() && &message == &messages.front()) {
            // One system message: templates take no second one.
            out[0] = Json::Object{{"role", "system"}, {"content", content + "\n\n" + describe_tools(use)}};
        } else if (role == "tool") {
            out.push_back(
                Json::Object{{"role", "user"}, {"content", "<tool_response>\n" + content + "\n</tool_response>"}});
        } else if (const Json* calls = message.find("tool_calls")) {
            std::string text = content;
            for (const Json& call : *calls->as_array()) {
                const Json* function = call.find("function");
                if (!text.empty()) text += "\n";
                text += call_as_text(*function->find("name")->as_string(), *function->find("arguments"));
            }
            out.push_back(Json::Object{{"role", role}, {"content", text}});
        } else {
            out.push_back(message);
        }
    }
    return out;
}

}  // namespace hearth
