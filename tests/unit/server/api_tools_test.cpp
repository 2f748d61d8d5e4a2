#include <gtest/gtest.h>

#include "server/api/chat_messages.h"
#include "server/api/tools.h"

namespace hearth {
namespace {

constexpr std::string_view kHermes = "... <tool_call> ... tools ...";
constexpr std::string_view kMistral = "... [TOOL_CALLS] ... tools";
constexpr std::string_view kLlama = "{% if tools %} {\"name\": ..., \"parameters\": ...} {% endif %}";

// What came, written down: text as it is, calls as <name(arguments)>.
class Notes final : public AnswerParts {
public:
    void content(std::string_view text) override { all += text; }
    void call_begins(std::string_view name) override { all += "<" + std::string(name) + "("; }
    void call_arguments(std::string_view json) override { all += json; }
    void call_ends() override { all += ")>"; }
    std::string all;
};

std::string parse(std::string_view source, std::string_view answer, std::size_t piece,
                  ToolCallParser::Start start = ToolCallParser::Start::Text) {
    ToolCallParser parser(choose_tool_format(source), {"add", "get_time"}, start);
    Notes notes;
    for (std::size_t at = 0; at < answer.size(); at += piece) parser.feed(answer.substr(at, piece), notes);
    parser.finish(notes);
    return notes.all;
}

struct Case {
    std::string_view source;
    std::string_view answer;
    std::string_view parts;
};

TEST(ToolCallParser, FindsCallsHoweverTheAnswerIsCut) {
    const Case kCases[] = {
        {kHermes, "plain text", "plain text"},
        {kHermes, "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>", "<add({\"a\": 1})>"},
        {kHermes, "Let me see.\n<tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call>", "Let me see.<add({})>"},
        {kHermes,
         "<tool_call>{\"name\":\"add\",\"arguments\":{\"a\":\"}\\\"{\"}}</tool_call>\n<tool_call>\n{\"name\":"
         "\"get_time\"}\n</tool_call>",
         "<add({\"a\":\"}\\\"{\"})><get_time({})>"},
        {kHermes, "<tool_call>{\"arguments\": {\"x\": [1, 2]}, \"name\": \"add\"}</tool_call>",
         "<add({\"x\": [1, 2]})>"},
        {kHermes, "<tool_call>{\"name\": \"add\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>", "<add({\"a\": 1})>"},
        {kHermes, "{\"name\": \"add\", \"arguments\": {}}", "<add({})>"},
        {kHermes, "{\"name\": \"Ada\", \"age\": 36}", "{\"name\": \"Ada\", \"age\": 36}"},
        {kHermes, "  {\"a\": 1} and more", "  {\"a\": 1} and more"},
        {kHermes, "<tool_call>no json</tool_call>", "<tool_call>no json</tool_call>"},
        {kHermes, "a <tool_ b <", "a <tool_ b <"},
        {kHermes, "trailing space  ", "trailing space  "},
        {kHermes, "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1", "<add({\"a\": 1)>"},
        {kHermes, "<tool_call>{\"na", "<tool_call>{\"na"},
        {kHermes, "<tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call> done", "<add({})> done"},
        {kMistral, "[TOOL_CALLS][{\"name\": \"add\", \"arguments\": {\"a\": 1}}, {\"name\": \"get_time\"}]",
         "<add({\"a\": 1})><get_time({})>"},
        {kMistral, "[{\"name\": \"add\", \"arguments\": {\"a\": 1}}]", "<add({\"a\": 1})>"},
        {kLlama, "{\"name\": \"add\", \"parameters\": {\"a\": 1}}", "<add({\"a\": 1})>"},
        {kLlama, "<|python_tag|>{\"name\": \"add\", \"parameters\": {}}; {\"name\": \"get_time\", \"parameters\": {}}",
         "<add({})><get_time({})>"},
        {kHermes, "", ""},
        {kHermes, "[1, 2]", "[1, 2]"},
        {kHermes, "so: <tool_call>\n", "so: <tool_call>\n"},
        {kHermes, " [ ", " [ "},
        {kHermes, "<tool_call>{\"name\": \"add\" arguments", "<add({})>rguments"},
        {kHermes, "<tool_call>{\"a\": ], \"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>",
         "<add({\"a\": 1})>"},
    };
    for (const Case& one : kCases) {
        for (std::size_t piece = 1; piece <= one.answer.size() + 1; ++piece) {
            EXPECT_EQ(parse(one.source, one.answer, piece), one.parts) << one.answer << " in pieces of " << piece;
        }
    }
}

TEST(ToolCallParser, AForcedCallBeginsInsideTheCall) {
    EXPECT_EQ(parse(kHermes, "{\"name\": \"add\", \"arguments\": {\"a\": 2}}", 3, ToolCallParser::Start::Call),
              "<add({\"a\": 2})>");
}

TEST(ToolFormat, IsChosenByWhatTheTemplateMentions) {
    EXPECT_EQ(choose_tool_format(kHermes).open, "<tool_call>");
    EXPECT_TRUE(choose_tool_format(kHermes).native);
    EXPECT_EQ(choose_tool_format(kMistral).open, "[TOOL_CALLS]");
    EXPECT_EQ(choose_tool_format(kLlama).arguments_key, "parameters");
    EXPECT_FALSE(choose_tool_format("{{ messages }}").native);
}

ToolUse two_tools() {
    ToolUse use;
    use.mode = ToolMode::Required;
    use.tools = {{"add", "adds",
                  Json::parse(R"({"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}},
        "required": ["a"], "$defs": {"n": {"type": "integer"}}})")
                      .value(),
                  "tools[0].function.parameters"},
                 {"get_time", "", Json(), "tools[1].function.parameters"}};
    return use;
}

TEST(ForcedCalls, ReferencesStillPointIntoTheirOwnSchema) {
    ToolUse use = two_tools();
    const std::string schema = forced_call_schema(use, "arguments").dump();
    EXPECT_NE(schema.find(R"("$ref": "#/$defs/0/$defs/n")"), std::string::npos) << schema;
    Faults faults;
    EXPECT_NE(forced_call_grammar(use, "arguments", faults), nullptr) << (faults.any() ? faults.first().message : "");
    use.only = "get_time";
    EXPECT_EQ(forced_call_schema(use, "parameters").find("anyOf"), nullptr);
}

TEST(ForcedCalls, ASchemaThatIsNotUnderstoodNamesItsTool) {
    ToolUse use = two_tools();
    use.tools[1].parameters = Json::parse(R"({"type": "nonsense"})").value();
    Faults faults;
    EXPECT_EQ(forced_call_grammar(use, "arguments", faults), nullptr);
    ASSERT_TRUE(faults.any());
    EXPECT_EQ(faults.first().param, "tools[1].function.parameters");
}

Json::Array chat(std::string_view text, Faults& faults) {
    return read_chat_messages(*Json::parse(text).value().as_array(), "messages", faults);
}

TEST(ChatMessages, AreBroughtIntoTheTemplatesForm) {
    Faults faults;
    const Json::Array messages = chat(R"([
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 1}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "2"}])",
                                      faults);
    ASSERT_FALSE(faults.any()) << faults.first().message;
    EXPECT_EQ(Json(messages).dump(),
              R"([{"role": "system", "content": "be brief"}, {"role": "user", "content": "a\nb"}, )"
              R"({"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": )"
              R"({"name": "add", "arguments": {"a": 1}}}]}, {"role": "tool", "content": "2", "tool_call_id": "c1"}])");
}

TEST(ChatMessages, FaultsNameTheMessageAndThePart) {
    const std::pair<std::string_view, std::string_view> kCases[] = {
        {R"([])", "messages"},
        {R"([{"content": "x"}])", "messages[0].role"},
        {R"([{"role": "king", "content": "x"}])", "messages[0].role"},
        {R"([{"role": "user"}])", "messages[0].content"},
        {R"([{"role": "user", "content": 3}])", "messages[0].content"},
        {R"([{"role": "user", "content": "x", "colour": 1}])", "messages[0].colour"},
        {R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])",
         "messages[0].content[0].type"},
        {R"([{"role": "tool", "content": "x"}])", "messages[0].tool_call_id"},
        {R"([{"role": "user", "content": "x", "tool_calls": [{"id": "1", "function": {"name": "f"}}]}])",
         "messages[0].tool_calls"},
        {R"([{"role": "user", "content": "x"}, 7])", "messages[1]"},
    };
    for (const auto& [text, param] : kCases) {
        Faults faults;
        static_cast<void>(chat(text, faults));
        ASSERT_TRUE(faults.any()) << text;
        EXPECT_EQ(faults.first().param, param) << text;
    }
}

TEST(ChatMessages, ToolsAreExplainedWhereATemplateKnowsNone) {
    Faults faults;
    const Json::Array messages = chat(R"([{"role": "system", "content": "S"}, {"role": "user", "content": "U"},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "add", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "3"}])",
                                      faults);
    ASSERT_FALSE(faults.any()) << faults.first().message;
    const Json::Array plain = without_tool_messages(messages, two_tools());
    ASSERT_EQ(plain.size(), 4u);
    EXPECT_TRUE(plain[0].find("content")->as_string()->starts_with("S\n\nYou may call"));
    EXPECT_EQ(plain[2].find("tool_calls"), nullptr);
    EXPECT_EQ(*plain[3].find("role")->as_string(), "user");
    EXPECT_EQ(*plain[3].find("content")->as_string(), "<tool_response>\n3\n</tool_response>");
}

TEST(AnthropicMessages, BecomeTheSameForm) {
    const Json body = Json::parse(R"({"system": [{"type": "text", "text": "S"}], "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "t"},
            {"type": "tool_use", "id": "u1", "name": "add", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "u1", "content": "2"},
            {"type": "text", "text": "go on"}]}],
        "tools": [{"name": "add", "input_schema": {"type": "object"}}], "tool_choice": {"type": "any"}})")
                          .value();
    Faults faults;
    Fields fields(body, "", faults);
    const Json::Array messages = read_anthropic_messages(fields);
    const ToolUse use = read_anthropic_tools(fields);
    ASSERT_FALSE(faults.any()) << faults.first().message;
    ASSERT_EQ(messages.size(), 5u);
    EXPECT_EQ(*messages[2].find("tool_calls")->as_array()->at(0).find("id")->as_string(), "u1");
    EXPECT_EQ(*messages[3].find("role")->as_string(), "tool");
    EXPECT_EQ(*messages[4].find("content")->as_string(), "go on");
    EXPECT_TRUE(use.forced());
    EXPECT_TRUE(use.parallel);
}

TEST(AnthropicMessages, OneCallMayBeAllThatIsWanted) {
    const Json body = Json::parse(R"({"tools": [{"name": "add", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}})")
                          .value();
    Faults faults;
    Fields fields(body, "", faults);
    EXPECT_FALSE(read_anthropic_tools(fields).parallel);
    EXPECT_FALSE(faults.any());
}

TEST(ResponseInput, ItemsBecomeMessages) {
    const Json body = Json::parse(R"({"instructions": "I", "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "q"}]},
        {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{\"a\": 1}"},
        {"type": "function_call_output", "call_id": "c", "output": "2"}]})")
                          .value();
    Faults faults;
    Fields fields(body, "", faults);
    const Json::Array messages = read_response_input(fields);
    ASSERT_FALSE(faults.any()) << faults.first().message;
    ASSERT_EQ(messages.size(), 4u);
    EXPECT_EQ(*messages[0].find("role")->as_string(), "system");
    EXPECT_EQ(*messages[1].find("content")->as_string(), "q");
    EXPECT_EQ(*messages[3].find("tool_call_id")->as_string(), "c");
}

}  // namespace
}  // namespace hearth
