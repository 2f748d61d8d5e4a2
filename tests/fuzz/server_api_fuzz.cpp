// Request bodies of all chat APIs, and answers searched for tool calls however they are cut.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "server/api/answer_fields.h"
#include "server/api/chat_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using namespace hearth;

class Length final : public AnswerParts {
public:
    void content(std::string_view text) override { content_bytes += text.size(); }
    void call_begins(std::string_view name) override {
        CHECK(!in_call && !name.empty());
        in_call = true;
    }
    void call_arguments(std::string_view) override { CHECK(in_call); }
    void call_ends() override {
        CHECK(in_call);
        in_call = false;
    }
    std::size_t content_bytes = 0;
    bool in_call = false;
};

void search_calls(std::string_view answer, std::size_t piece, std::string_view source) {
    ToolCallParser parser(choose_tool_format(source), {"f"}, ToolCallParser::Start::Text);
    Length length;
    for (std::size_t at = 0; at < answer.size(); at += piece) parser.feed(answer.substr(at, piece), length);
    parser.finish(length);
    CHECK(!length.in_call);
    CHECK(length.content_bytes <= answer.size());
    // Without a call every byte comes out as text.
    CHECK(parser.found_call() || length.content_bytes == answer.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 1) return 0;
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    const std::size_t piece = 1 + data[0] % 16;
    search_calls(text, piece, "tools <tool_call>");
    search_calls(text, piece, "tools [TOOL_CALLS]");
    search_calls(text, piece, "tools \"parameters\"");
    const Result<Json> body = Json::parse(text);
    if (!body.ok()) return 0;
    {
        Faults faults;
        Fields fields(body.value(), "", faults);
        if (const Json::Array* messages = fields.array("messages", kMessageLimit)) {
            const Json::Array read = read_chat_messages(*messages, "messages", faults);
            if (!faults.any()) static_cast<void>(without_tool_messages(read, {}));
        }
        static_cast<void>(read_chat_tools(fields));
        AnswerSpec spec;
        read_stops(fields, "stop", spec);
        read_choices_and_stream(fields, spec);
        read_response_format(fields, spec);
        fields.finish();
    }
    {
        Faults faults;
        Fields fields(body.value(), "", faults);
        static_cast<void>(read_anthropic_messages(fields));
        static_cast<void>(read_anthropic_tools(fields));
    }
    {
        Faults faults;
        Fields fields(body.value(), "", faults);
        static_cast<void>(read_response_input(fields));
        static_cast<void>(read_response_tools(fields));
    }
    return 0;
}
