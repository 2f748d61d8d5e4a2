#include "server/api/tools.h"

#include <algorithm>

namespace hearth {

namespace {

constexpr std::size_t kQuickNodes = 4'000;  // of a tool's schema alone, when its fault is looked for

bool mentions(std::string_view source, std::string_view word) {
    return source.find(word) != std::string_view::npos;
}

// Local references of a tool's schema, which moves from the root to "#/$defs/<index>".
Json moved(const Json& schema, const std::string& base) {
    if (const Json::Array* items = schema.as_array()) {
        Json::Array out;
        for (const Json& item : *items) out.push_back(moved(item, base));
        return Json(std::move(out));
    }
    const Json::Object* members = schema.as_object();
    if (members == nullptr) return schema;
    Json::Object out;
    for (const auto& [key, value] : *members) {
        const std::string* target = value.as_string();
        if (key == "$ref" && target != nullptr && target->starts_with('#')) {
            out.emplace_back(key, Json(base + target->substr(1)));
        } else {
            out.emplace_back(key, moved(value, base));
        }
    }
    return Json(std::move(out));
}

bool has_reference(const Json& schema) {
    if (const Json::Array* items = schema.as_array()) return std::any_of(items->begin(), items->end(), has_reference);
    const Json::Object* members = schema.as_object();
    if (members == nullptr) return false;
    return std::any_of(members->begin(), members->end(), [](const Json::Member& member) {
        return member.first == "$ref" || has_reference(member.second);
    });
}

Json parameters_or_default(const Tool& tool) {
    if (tool.parameters.as_object() != nullptr && !tool.parameters.as_object()->empty()) return tool.parameters;
    return Json::Object{{"type", "object"}, {"properties", Json(Json::Object{})}, {"additionalProperties", false}};
}

// Why a call of any of the tools cannot be asked for. Each is tried alone, so that a fault names its tool, unless they
// are too large together. Many tools that are large, but not too large, must not take as many times as long: what is
// not decided quickly is no fault of that tool.
void report_tools(const ToolUse& use, const Error& error, Faults& faults) {
    const auto is_too_large = [](const Error& fault) { return mentions(fault.message, "too large"); };
    GrammarLimits quick;
    quick.nodes = kQuickNodes;
    if (!is_too_large(error)) {
        for (const Tool& tool : use.tools) {
            if (tool.parameters.is_null()) continue;
            const auto alone = Grammar::from_json_schema(parameters_or_default(tool), quick);
            if (alone.ok() || is_too_large(alone.error())) continue;
            return faults.field(tool.path, alone.error().message);
        }
    }
    faults.field("tools", error.message);
}

}  // namespace

void check_tool_name(std::string_view name, std::string_view path, Faults& faults) {
    const bool good = !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    });
    if (!good) faults.field(path, "must be 1 to 64 letters, digits, '_' or '-'");
}

ToolFormat choose_tool_format(std::string_view source) {
    if (mentions(source, "[TOOL_CALLS]")) return {"[TOOL_CALLS]", "", "[TOOL_CALLS][", "arguments", true};
    if (mentions(source, "<|tool_call|>")) return {"<|tool_call|>", "", "<|tool_call|>[", "arguments", true};
    if (mentions(source, "<tool_call>")) return {"<tool_call>", "</tool_call>", "<tool_call>\n", "arguments", true};
    if (mentions(source, "tools") && mentions(source, "\"parameters\"")) {
        return {"<|python_tag|>", "", "", "parameters", true};
    }
    return {"<tool_call>", "</tool_call>", "<tool_call>\n", "arguments", false};
}

Json tools_for_template(const ToolUse& use) {
    Json::Array list;
    for (const Tool& tool : use.tools) {
        Json::Object function{{"name", tool.name}, {"description", tool.description}};
        function.emplace_back("parameters", parameters_or_default(tool));
        list.push_back(Json::Object{{"type", "function"}, {"function", Json(std::move(function))}});
    }
    return Json(std::move(list));
}

std::string describe_tools(const ToolUse& use) {
    const Json tools = tools_for_template(use);
    std::string text =
        "You may call one or more functions to help with the user's request. They are, as JSON:\n<tools>\n";
    for (const Json& tool : *tools.as_array()) text += tool.dump() + "\n";
    return text +
           "</tools>\n\nTo call a function, answer with its name and arguments as JSON:\n<tool_call>\n"
           "{\"name\": \"...\", \"arguments\": {...}}\n</tool_call>";
}

std::string call_as_text(std::string_view name, const Json& arguments) {
    return "<tool_call>\n" + Json(Json::Object{{"name", name}, {"arguments", arguments}}).dump() + "\n</tool_call>";
}

Json forced_call_schema(const ToolUse& use, std::string_view arguments_key) {
    Json::Array calls;
    Json::Object definitions;
    for (std::size_t i = 0; i < use.tools.size(); ++i) {
        const Tool& tool = use.tools[i];
        if (!use.only.empty() && tool.name != use.only) continue;
        Json parameters = parameters_or_default(tool);
        if (has_reference(parameters)) {
            const std::string base = "#/$defs/" + std::to_string(i);
            definitions.emplace_back(std::to_string(i), moved(parameters, base));
            parameters = Json::Object{{"$ref", base}};
        }
        Json::Object properties{{"name", Json::Object{{"type", "string"}, {"enum", Json::Array{tool.name}}}}};
        properties.emplace_back(arguments_key, std::move(parameters));
        calls.push_back(Json::Object{{"type", "object"},
                                     {"properties", Json(std::move(properties))},
                                     {"required", Json::Array{"name", arguments_key}},
                                     {"additionalProperties", false}});
    }
    Json::Object schema;
    if (calls.size() == 1) {
        schema = *calls[0].as_object();
    } else {
        schema.emplace_back("anyOf", std::move(calls));
    }
    if (!definitions.empty()) schema.emplace_back("$defs", std::move(definitions));
    return Json(std::move(schema));
}

std::shared_ptr<const Grammar> forced_call_grammar(const ToolUse& use, std::string_view arguments_key, Faults& faults) {
    auto grammar = Grammar::from_json_schema(forced_call_schema(use, arguments_key));
    if (grammar.ok()) return std::move(grammar).value();
    report_tools(use, grammar.error(), faults);
    return nullptr;
}

}  // namespace hearth
