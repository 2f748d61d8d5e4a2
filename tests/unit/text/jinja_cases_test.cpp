// Small templates against what Python's jinja2 makes of them (tests/templates/cases.json, see make_cases.py there).
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "text/chat_template.h"

namespace hearth {
namespace {

Result<std::string> render(const std::string& source, const Json& context, double now_seconds) {
    const ChatTemplate parsed = TRY(ChatTemplate::parse(source));
    return parsed.render(context, now_seconds);
}

TEST(JinjaCases, RenderAsTheReferenceDoes) {
    std::ifstream file(std::string(HEARTH_SOURCE_DIR) + "/tests/templates/cases.json");
    std::stringstream content;
    content << file.rdbuf();
    const Result<Json> document = Json::parse(content.str());
    ASSERT_TRUE(document.ok()) << document.error().message;
    const Json* cases = document->find("cases");
    const Json* context = document->find("context");
    const Json* now = document->find("now");
    ASSERT_TRUE(cases != nullptr && cases->as_array() != nullptr && context != nullptr && now != nullptr);
    ASSERT_GE(cases->as_array()->size(), 150u);
    for (const Json& item : *cases->as_array()) {
        const std::string& source = *item.find("template")->as_string();
        const Result<std::string> ours = render(source, *context, *now->as_double());
        if (const Json* text = item.find("text")) {
            ASSERT_TRUE(ours.ok()) << source << "\n" << ours.error().message;
            EXPECT_EQ(ours.value(), *text->as_string()) << source;
            continue;
        }
        ASSERT_FALSE(ours.ok()) << source << "\n" << ours.value();
        EXPECT_TRUE(ours.error().message.starts_with("chat template, line ")) << ours.error().message;
        if (const Json* raised = item.find("raises")) {
            EXPECT_TRUE(ours.error().message.ends_with(": " + *raised->as_string())) << ours.error().message;
        }
    }
}

}  // namespace
}  // namespace hearth
