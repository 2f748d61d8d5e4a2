// Chat templates: the interface, errors with their line, and templates written to do harm.
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <string>

namespace hearth {
namespace {

std::string repeated(std::string_view piece, std::size_t count) {
    std::string out;
    for (std::size_t i = 0; i < count; ++i) out += piece;
    return out;
}

Json context(std::string_view text = "{}") {
    return Json::parse(text).value();
}

// The text, or the message of the error in angle brackets.
std::string outcome(const std::string& source, const Json& variables = context(), TemplateLimits limits = {}) {
    const Result<ChatTemplate> parsed = ChatTemplate::parse(source, limits);
    if (!parsed.ok()) return "<" + parsed.error().message + ">";
    const Result<std::string> text = parsed->render(variables, 0);
    return text.ok() ? text.value() : "<" + text.error().message + ">";
}

testing::AssertionResult hits_a_limit(const std::string& source) {
    const std::string result = outcome(source);
    if (result.starts_with("<chat template, line ") && result.find("limit") != std::string::npos) {
        return testing::AssertionSuccess();
    }
    return testing::AssertionFailure() << result.substr(0, 300);
}

TEST(ChatTemplate, RendersMessagesWithTheGenerationPrompt) {
    const Result<ChatTemplate> parsed = ChatTemplate::parse(
        "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m['content'] }}{{ eos_token }}\n{% endfor %}"
        "{% if tools %}{{ tools | tojson }}{% endif %}{% if add_generation_prompt %}<assistant>{% endif %}\n");
    ASSERT_TRUE(parsed.ok());
    const Json messages = context(R"([{"role": "user", "content": "Hi"}])");
    EXPECT_EQ(render_chat(parsed.value(), messages, Json(), true, "<s>", "</s>", 0).value(),
              "<s><user>Hi</s>\n<assistant>");
    EXPECT_EQ(render_chat(parsed.value(), messages, context(R"([{"a": "ü"}])"), false, "", "", 0).value(),
              "<user>Hi\n[{\"a\": \"ü\"}]");
}

TEST(ChatTemplate, RendersTheSameTwiceFromOneParse) {
    const Result<ChatTemplate> parsed =
        ChatTemplate::parse("{% set ns = namespace(n=1) %}{% set ns.n = ns.n + x %}{{ ns.n }}");
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed->render(context(R"({"x": 2})"), 0).value(), "3");
    EXPECT_EQ(parsed->render(context(R"({"x": 2})"), 0).value(), "3");
}

TEST(ChatTemplate, NamesTheLineOfAnError) {
    EXPECT_EQ(outcome("a\nb\n{{ missing.name }}"), "<chat template, line 3: 'missing' is undefined>");
    EXPECT_EQ(outcome("a\n{% if x %}\n{{ 1 +\n }}{% endif %}"),
              "<chat template, line 4: unexpected end of print statement>");
    EXPECT_EQ(outcome("\n\n{% for i in [1] %}\n{{ raise_exception('two\nlines') }}{% endfor %}"),
              "<chat template, line 4: two lines>");
}

TEST(ChatTemplate, RefusesAContextThatIsNoObject) {
    const Result<ChatTemplate> parsed = ChatTemplate::parse("x");
    ASSERT_TRUE(parsed.ok());
    EXPECT_FALSE(parsed->render(Json(1), 0).ok());
}

TEST(ChatTemplate, RefusesOtherFilesAndUnknownTags) {
    for (const char* tag :
         {"include 'x'", "import 'x' as y", "from 'x' import y", "extends 'x'", "block b", "nonsense"}) {
        EXPECT_TRUE(outcome("{% " + std::string(tag) + " %}").starts_with("<chat template, line 1: ")) << tag;
    }
}

TEST(ChatTemplate, FormatsTheGivenTimeInUtc) {
    const Result<ChatTemplate> parsed = ChatTemplate::parse("{{ strftime_now('%d %b %Y %H:%M:%S %A %j %-d') }}");
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed->render(context(), 0).value(), "01 Jan 1970 00:00:00 Thursday 001 1");
    EXPECT_EQ(parsed->render(context(), 951782399).value(), "28 Feb 2000 23:59:59 Monday 059 28");
    EXPECT_EQ(parsed->render(context(), 951782400).value(), "29 Feb 2000 00:00:00 Tuesday 060 29");
    EXPECT_EQ(parsed->render(context(), -1).value(), "31 Dec 1969 23:59:59 Wednesday 365 31");
}

TEST(ChatTemplate, KeepsUnderscoreAttributesOutOfReach) {
    EXPECT_EQ(outcome("{{ ''.__class__ }}|{{ [].__len__ }}"), "|");
    EXPECT_TRUE(outcome("{{ ''.__class__.__mro__ }}").starts_with("<chat template"));
}

TEST(HostileTemplate, DeepNestingIsAnError) {
    constexpr std::size_t kDeep = 10'000;
    EXPECT_TRUE(hits_a_limit(repeated("{% if x %}", kDeep) + repeated("{% endif %}", kDeep)));
    EXPECT_TRUE(hits_a_limit(repeated("{% if x %}", kDeep)));
    EXPECT_TRUE(hits_a_limit(repeated("{% for x in y %}", kDeep)));
    EXPECT_TRUE(hits_a_limit(repeated("{% macro m() %}", kDeep)));
    EXPECT_TRUE(hits_a_limit(repeated("{% set x %}", kDeep)));
    EXPECT_TRUE(hits_a_limit("{{ " + repeated("(", kDeep) + "1" + repeated(")", kDeep) + " }}"));
    EXPECT_TRUE(hits_a_limit("{{ " + repeated("[", kDeep) + repeated("]", kDeep) + " }}"));
    EXPECT_TRUE(hits_a_limit("{{ " + repeated("{1:", kDeep) + "1" + repeated("}", kDeep) + " }}"));
    EXPECT_TRUE(hits_a_limit("{{ " + repeated("-", kDeep) + "1 }}"));
    EXPECT_TRUE(hits_a_limit("{{ " + repeated("f(", kDeep) + repeated(")", kDeep) + " }}"));
    EXPECT_TRUE(hits_a_limit("{{ " + repeated("1 if x else ", kDeep) + "1 }}"));
    EXPECT_TRUE(hits_a_limit("{{ x" + repeated("[x", kDeep) + repeated("]", kDeep) + " }}"));
    EXPECT_TRUE(hits_a_limit("{{ " + repeated("1 is eq [", kDeep) + repeated("]", kDeep) + " }}"));
    EXPECT_TRUE(hits_a_limit("{% for " + repeated("(", kDeep) + "x" + repeated(")", kDeep) + " in y %}{% endfor %}"));
    EXPECT_TRUE(hits_a_limit("{{ 'a'" + repeated("|upper", kDeep) + " }}"));
    EXPECT_TRUE(hits_a_limit("{{ x" + repeated(".upper()", kDeep) + " }}"));
}

TEST(HostileTemplate, LongButFlatIsFine) {
    EXPECT_EQ(outcome("{{ " + repeated("not ", 10'001) + "1 }}"), "False");
    EXPECT_EQ(outcome("{{ " + repeated("1 + ", 10'000) + "1 }}"), "10001");
    EXPECT_EQ(outcome("{{ " + repeated("0 or ", 10'000) + "1 }}"), "1");
    EXPECT_EQ(outcome("{{ (" + repeated("'a' ~ ", 10'000) + "'a')|length }}"), "10001");
    EXPECT_EQ(outcome("{% if 0 %}" + repeated("{% elif 0 %}", 10'000) + "{% else %}x{% endif %}"), "x");
}

TEST(HostileTemplate, EndlessRecursionIsAnError) {
    EXPECT_TRUE(hits_a_limit("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"));
    EXPECT_TRUE(
        hits_a_limit("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{{ a() }}{% endmacro %}{{ a() }}"));
    EXPECT_TRUE(hits_a_limit(
        "{% macro m() %}{{ caller() }}{% call m() %}x{% endcall %}{% endmacro %}{% call m() %}{% endcall %}"));
    EXPECT_TRUE(hits_a_limit("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"));
    EXPECT_TRUE(hits_a_limit("{% macro m(x=m()) %}{% endmacro %}{{ m() }}"));
}

TEST(HostileTemplate, EndlessLoopsAreAnError) {
    const std::string loop = "{% for i in range(100000) %}";
    EXPECT_TRUE(hits_a_limit(loop + loop + loop + "{% endfor %}{% endfor %}{% endfor %}"));
    EXPECT_TRUE(hits_a_limit(loop + loop + "x{% endfor %}{% endfor %}"));
    EXPECT_NE(outcome("{{ range(10**12) }}").find("Range too big"), std::string::npos);
    EXPECT_NE(outcome("{{ range(-9223372036854775807, 9223372036854775807) }}").find("Range too big"),
              std::string::npos);
    EXPECT_EQ(outcome("{{ range(9223372036854775800, 9223372036854775807, 9223372036854775807)|length }}"), "1");
}

TEST(HostileTemplate, HugeTextsAndListsAreAnError) {
    EXPECT_TRUE(hits_a_limit("{{ 'a' * 10**9 }}"));
    EXPECT_TRUE(hits_a_limit("{{ 'aaaa' * 9223372036854775807 }}"));
    EXPECT_TRUE(hits_a_limit("{{ [1] * 10**9 }}"));
    EXPECT_TRUE(hits_a_limit("{{ [[1] * 1000] * 9223372036854775807 }}"));
    EXPECT_TRUE(hits_a_limit("{{ 'a'.center(10**12) }}"));
    EXPECT_TRUE(hits_a_limit("{{ 'a'|indent(10**12) }}"));
    EXPECT_TRUE(hits_a_limit("{{ [[1]]|tojson(indent=10**12) }}"));
    EXPECT_TRUE(hits_a_limit("{{ [1]|batch(10**6, 0)|list * 1000 }}"));
    const std::string doubled = "{% set ns = namespace(v='ab') %}{% for i in range(99) %}{% set ns.v = ";
    EXPECT_TRUE(hits_a_limit(doubled + "ns.v ~ ns.v %}{% endfor %}"));
    EXPECT_TRUE(hits_a_limit(doubled + "[ns.v, ns.v]|join(ns.v) %}{% endfor %}"));
    EXPECT_TRUE(hits_a_limit(doubled + "ns.v|replace('', ns.v) %}{% endfor %}"));
    EXPECT_TRUE(hits_a_limit(doubled + "'%s%s' % (ns.v, ns.v) %}{% endfor %}"));
    EXPECT_TRUE(hits_a_limit(doubled + "'{0}{0}'.format(ns.v) %}{% endfor %}"));
    EXPECT_TRUE(hits_a_limit(doubled + "ns.v|list|string %}{% endfor %}"));
    EXPECT_TRUE(hits_a_limit("{% for i in range(100000) %}{{ 'a' * 1000 }}{% endfor %}"));
    EXPECT_NE(outcome("{{ 2 ** 64 }}").find("out of range"), std::string::npos);
    EXPECT_NE(outcome("{{ '%2000000000d' % 1 }}").find("too wide"), std::string::npos);
}

TEST(HostileTemplate, SharedDataThatIsExponentialWhenWalkedIsAnError) {
    const std::string build = "{% set ns = namespace(v=1) %}{% for i in range(100) %}{% set ns.v = ";
    EXPECT_TRUE(hits_a_limit(build + "[ns.v, ns.v] %}{% endfor %}{{ ns.v }}"));
    EXPECT_TRUE(hits_a_limit(build + "[ns.v, ns.v] %}{% endfor %}{{ ns.v|tojson }}"));
    EXPECT_TRUE(hits_a_limit(build + "{'a': ns.v, 'b': ns.v} %}{% endfor %}{{ ns.v|tojson(indent=4) }}"));
    EXPECT_TRUE(hits_a_limit(build +
                             "[ns.v, ns.v] %}{% endfor %}{% set a = ns.v %}{% set ns.v = 1 %}"
                             "{% for i in range(100) %}{% set ns.v = [ns.v, ns.v] %}{% endfor %}{{ a == ns.v }}"));
    EXPECT_TRUE(outcome(build + "(ns.v, ns.v) %}{% endfor %}{{ {ns.v: 1} }}").starts_with("<chat template"));
}

TEST(HostileTemplate, ValuesNestedWithoutEndAreAnError) {
    const std::string build = "{% set ns = namespace(v=1) %}{% for i in range(100000) %}{% set ns.v = ";
    EXPECT_TRUE(hits_a_limit(build + "[ns.v] %}{% endfor %}"));
    EXPECT_TRUE(hits_a_limit(build + "{'a': ns.v} %}{% endfor %}"));
    EXPECT_EQ(outcome(build + "namespace(v=ns.v) %}{% endfor %}ok"), "ok");
    EXPECT_TRUE(hits_a_limit("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}"));
    EXPECT_TRUE(
        hits_a_limit("{% set ns = namespace(v=[1]) %}{% for i in range(1000) %}{% for j in ns.v %}"
                     "{% set ns.v = [loop] %}{% endfor %}{% endfor %}"));
}

TEST(HostileTemplate, SlowTextSearchesAreBounded) {
    const std::string setup =
        "{% set a = 'a' * 2000000 %}{% set b = 'a' * 1000000 ~ 'b' %}{% for i in range(100000) %}";
    EXPECT_TRUE(hits_a_limit(setup + "{{ b in a }}{% endfor %}"));
    EXPECT_TRUE(hits_a_limit(setup + "{{ a.rfind(b) }}{% endfor %}"));
    EXPECT_TRUE(hits_a_limit(setup + "{{ a.rsplit(b, 1)|length }}{% endfor %}"));
    EXPECT_TRUE(hits_a_limit(setup + "{{ a == b ~ b }}{% endfor %}"));
    EXPECT_TRUE(hits_a_limit(setup + "{{ a[1000000] }}{% endfor %}"));
    EXPECT_TRUE(hits_a_limit(setup + "{{ a|length }}{% endfor %}"));
    EXPECT_TRUE(hits_a_limit(setup + "{{ a.split('a')|length }}{% endfor %}"));
}

TEST(HostileTemplate, TooLongASourceIsRefused) {
    EXPECT_TRUE(hits_a_limit(repeated("{{x}}", 200'000)));
}

TEST(HostileTemplate, InvalidUtf8IsRepairedNotFollowed) {
    EXPECT_EQ(outcome("\xff{{ 'a\xc3' }}\xe2\x82"),
              "\xef\xbf\xbd"
              "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    Json::Object variables;
    variables.emplace_back("x", Json(std::string("\xff\xc3z")));
    EXPECT_EQ(outcome("{{ x|length }}{{ x[2] }}", Json(std::move(variables))), "3z");
}

TEST(HostileTemplate, OddNumbersDoNotTrap) {
    EXPECT_EQ(outcome("{{ (0 - 9223372036854775807 - 1) // -1 }}"), "<chat template, line 1: integer out of range>");
    EXPECT_EQ(outcome("{{ -(0 - 9223372036854775807 - 1) }}"), "<chat template, line 1: integer out of range>");
    EXPECT_EQ(outcome("{{ 'abc'[9223372036854775807:] }}{{ 'abc'[-9223372036854775807:][::-9223372036854775807] }}"),
              "c");
    EXPECT_EQ(outcome("{{ 1e308 * 10 }} {{ (1e308 * 10)|int }} {{ [3, 1e308 * 0 * 1e308, 1]|sort|length }}"),
              "inf 0 3");
}

TEST(HostileTemplate, LimitsCanBeNarrowed) {
    TemplateLimits limits;
    limits.output_bytes = 10;
    EXPECT_EQ(outcome("0123456789", context(), limits), "0123456789");
    EXPECT_NE(outcome("0123456789a", context(), limits).find("output longer than the limit of 10 bytes"),
              std::string::npos);
    limits.steps = 5;
    EXPECT_NE(outcome("{{1}}{{2}}{{3}}", context(), limits).find("more steps than the limit of 5"), std::string::npos);
}

}  // namespace
}  // namespace hearth
