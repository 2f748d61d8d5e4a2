#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/text/grammar_testing.h"

namespace hearth {
namespace {

using namespace testing_grammar;

struct Case {
    const char* schema;
    std::vector<std::string> accepted;
    std::vector<std::string> rejected;
};

const Case kCases[] = {
    {R"({"type": "boolean"})", {"true", "false"}, {"null", "1", "\""}},
    {R"({"type": "null", "description": "d", "default": 1})", {"null"}, {"t"}},
    {R"({"type": ["integer", "null"]})", {"-12", "0", "null"}, {"1.", "01", "-0", "\""}},
    {R"({"type": "number"})", {"0", "-1.5", "2e10", "1.25E-3"}, {"+", "01", "1e123", ".5"}},
    {R"({"type": "integer", "minimum": 7, "maximum": 123})",
     {"7", "9", "10", "99", "100", "123"},
     {"0", "124", "130", "60000", "-"}},
    {R"({"type": "integer", "minimum": -15, "exclusiveMaximum": 3})",
     {"-15", "-9", "-1", "0", "2"},
     {"-16", "-20", "3", "-0"}},
    {R"({"type": "integer", "minimum": 0})", {"0", "999"}, {"-"}},
    {R"({"type": "integer", "minimum": 1.5, "maximum": 2.5})", {"2"}, {"1", "3"}},
    {R"({"type": "number", "minimum": 0, "maximum": 1})", {"0", "1", "0.5", "1.0", "1.00"}, {"1.1", "-", "2"}},
    {R"({"type": "number", "exclusiveMinimum": 0})", {"0.001", "1", "12.5"}, {"-", "00"}},
    {R"({"type": "number", "minimum": -2, "exclusiveMaximum": 0})",
     {"-2", "-1.5", "-0.1", "-2.0"},
     {"0", "-2.1", "-3"}},
    {R"({"type": "string"})",
     {R"("")", R"("a b")", R"("\n\"\\\/\u00e9\ud83d\udc4d")", "\"\xf0\x9f\x91\x8d\"", "\"\x7f\""},
     {"\"\n", "\"\\x", "\"\\ud83d\"", "\"\\udc00", "\"\xff", "\"\xc0\x80", "a"}},
    {R"({"type": "string", "minLength": 2, "maxLength": 3})",
     {R"("ab")", R"("abc")", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x91\x8d\"", R"("\n\ud83d\udc4d")"},
     {R"("a")", R"("abcd)"}},
    {R"({"type": "string", "maxLength": 1000000000})", {R"("ab")"}, {"\"\n"}},
    {R"({"enum": ["red", "green", 3, null]})", {"\"red\"", "\"green\"", "3", "null"}, {"\"blue", "4", "\"redd"}},
    {R"({"type": "string", "enum": ["a", 1]})", {"\"a\""}, {"1"}},
    {R"({"const": {"a": [1, "x"]}})", {R"({"a":[1,"x"]})", R"({"a": [1, "x"]})"}, {"{\"b", "[", "{\"a\":[2"}},
    {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]})",
     {R"({"a":1})", R"({"a": 1, "b": "x"})", "{\n  \"a\": 1,\n  \"b\": \"x\"\n}", "{ \"a\": 1 }", "{\n\t\"a\": 1}"},
     {"{}", R"({"b)", R"({"a": 1,"a)", R"({"a": 1, "c)", "{  ", R"({"a":  )", "{\"a\" "}},
    {R"({"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "c": {"type": "integer"}}})",
     {"{}", R"({"a":1})", R"({"b":1})", R"({"c":1})", R"({"a":1,"c":1})", R"({"b":1,"c":1})", R"({"a":1,"b":2,"c":3})"},
     {R"({"b":1,"a)", R"({,)", R"({"a":1,})", R"({"d)"}},
    {R"({"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "required": ["b"], "additionalProperties": false})",
     {R"({"b":null})", R"({"a":null,"b":null})"},
     {"{}", R"({"a":null})", R"({"b":null,)"}},
    {R"({"type": "object", "additionalProperties": {"type": "integer"}})",
     {"{}", R"({"x":1})", R"({"x":1, "y":2})"},
     {R"({"x":")", R"({"x":1,})"}},
    {R"({"type": "object", "properties": {"ab": {"type": "null"}, "ac": {"type": "null"}}, "required": ["ab"], "additionalProperties": {"type": "integer"}})",
     {R"({"ab":null})", R"({"ab":null,"ac":null,"a":1,"abc":2})", R"({"ab":null,"":1})", R"({"ab":null,"b":1})"},
     {R"({"ab":1)", R"({"ab":null,"ac":1)", R"({"ab":null,"ab")", R"({"x)", R"({"ab":null,"a\)"}},
    {R"({"type": "object", "required": ["k"]})", {R"({"k":[1,{}]})", R"({"k":1,"l":2})"}, {"{}", R"({"l)"}},
    {R"({"type": "object"})", {"{}", R"({"a": {"b": [1, 2, {}]}, "c": "\u0041"})"}, {"[", "1"}},
    {"true", {"1", "\"a\"", "[[], {}]", "{\"a\": null}"}, {"x"}},
    {"{}", {"1", "[1]"}, {"x"}},
    {R"({"type": "array"})", {"[]", "[1, \"a\", []]", "[\n  1,\n  2\n]"}, {"[,", "[1,]", "{"}},
    {R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3})",
     {"[1,2]", "[1, 2, 3]"},
     {"[]", "[1]", "[1,2,3,"}},
    {R"({"type": "array", "items": {"type": "boolean"}, "maxItems": 0})", {"[]"}, {"[t"}},
    {R"({"type": "array", "minItems": 1})", {"[1]", "[[],{}]"}, {"[]"}},
    {R"({"type": "array", "items": {"enum": [1, 2]}, "minItems": 3})", {"[1,2,1]", "[1,2,1,2]"}, {"[1,2]", "[3"}},
    {R"({"prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 1})",
     {"[1]", "[1, \"a\"]"},
     {"[]", "[\"", "[1,2", "[1,\"a\","}},
    {R"({"prefixItems": [{"const": 1}], "items": {"const": 2}})", {"[]", "[1]", "[1,2,2]"}, {"[2", "[1,1"}},
    {R"({"prefixItems": [{"const": 1}], "items": false, "minItems": 1, "maxItems": 1})", {"[1]"}, {"[]", "[1,"}},
    {R"({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "null"}}]})",
     {"5", "[null]"},
     {"\"", "[1"}},
    {R"({"oneOf": [{"const": "a"}, {"const": "b"}], "description": "x"})", {"\"a\"", "\"b\""}, {"\"c"}},
    {R"({"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"], "anyOf": [{"properties": {"x": {"const": 1}}, "required": ["x"]}, {"properties": {"y": {"const": 2}}, "required": ["y"]}]})",
     {R"({"k":"","x":1})", R"({"k":"","y":2})"},
     {R"({"k":""})", R"({"k":"","x":2)"}},
    {R"({"allOf": [{"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}, {"$ref": "#/$defs/b"}], "$defs": {"b": {"properties": {"b": {"const": 2}, "a": {"type": "integer"}}, "required": ["b"]}}})",
     {R"({"a":1,"b":2})"},
     {"{}", R"({"a":1})", R"({"b)", R"({"a":2)"}},
    {R"({"allOf": [{"type": "number", "minimum": 3}, {"type": "integer", "maximum": 5, "minimum": 4}]})",
     {"4", "5"},
     {"3", "6"}},
    {R"({"$ref": "#/definitions/n", "definitions": {"n": {"type": "integer"}}})", {"1"}, {"\""}},
    {R"({"$ref": "#/$defs/a~1b/items", "$defs": {"a/b": {"items": {"const": 7}}}})", {"7"}, {"8"}},
    {R"({"$ref": "#/$defs/list", "$defs": {"list": {"type": "object", "properties": {"v": {"const": 1}, "next": {"anyOf": [{"$ref": "#/$defs/list"}, {"type": "null"}]}}, "required": ["v", "next"], "additionalProperties": false}}})",
     {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":1,"next":{"v":1,"next":null}}})"},
     {R"({"v":1})", R"({"v":1,"next":{}})"}},
    {R"({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}})",
     {"{}", R"({"children":[{},{"children":[]}]})"},
     {R"({"children":[1)"}},
    {R"({"type": "string", "pattern": "^[a-c]{2,3}-\\d+$"})", {"\"ab-1\"", "\"abc-42\""}, {"\"a-", "\"abca", "\"ab-x"}},
    {R"({"pattern": "^(?:x|\"|\\\\|\\n)*y?$"})", {"\"\"", "\"xy\"", R"("\"\\\nx")"}, {"\"a", "\"\n", "\"yy"}},
    {R"({"pattern": "^\\$\\w\\s[^a]\\.é.$"})", {"\"$_ b.\xc3\xa9!\"", R"("$a\t\".é\t")"}, {"\"$_ a", "\"$-"}},
    {R"({"type": "string", "format": "date"})",
     {"\"2024-02-29\"", "\"2023-12-31\"", "\"2000-02-29\""},
     {"\"2023-02-29", "\"1900-02-29", "\"2023-13", "\"2023-04-31"}},
    {R"({"type": "string", "format": "time"})", {"\"23:59:59Z\"", "\"00:00:00.123+02:00\""}, {"\"24", "\"12:60"}},
    {R"({"type": "string", "format": "date-time"})", {"\"2024-02-29T12:00:00Z\""}, {"\"2024-02-29 "}},
    {R"({"type": "string", "format": "uuid"})", {"\"123e4567-e89b-12d3-a456-426614174000\""}, {"\"123e4567e"}},
    {R"({"type": "string", "format": "ipv4"})", {"\"127.0.0.1\"", "\"255.255.255.255\""}, {"\"256", "\"01"}},
};

TEST(Schema, AcceptsAndRejects) {
    for (const Case& each : kCases) {
        const Result<GrammarPointer> grammar = try_schema(each.schema);
        ASSERT_TRUE(grammar.ok()) << each.schema << "\n" << grammar.error().message;
        for (const std::string& text : each.accepted) {
            EXPECT_EQ(judge(grammar.value(), text), Outcome::Accepted) << each.schema << " with " << text;
        }
        for (const std::string& text : each.rejected) {
            EXPECT_EQ(judge(grammar.value(), text), Outcome::Rejected) << each.schema << " with " << text;
        }
    }
}

TEST(Schema, RefusesWhatItDoesNotSupportByName) {
    const std::pair<const char*, const char*> kWrong[] = {
        {R"({"type": "object", "properties": {"a": {"type": "string", "contentEncoding": "base64"}}})",
         "schema at #/properties/a: the keyword 'contentEncoding' is not supported"},
        {R"({"type": "object", "patternProperties": {}})", "'patternProperties'"},
        {R"({"type": "array", "uniqueItems": true})", "'uniqueItems'"},
        {R"({"not": {}})", "'not'"},
        {R"({"if": {}, "then": {}})", "'if'"},
        {R"({"type": "number", "multipleOf": 2})", "'multipleOf'"},
        {R"({"type": "number", "minimum": 0.5})", "'minimum' must be whole"},
        {R"({"type": "integer", "minimum": 5, "maximum": 4})", "no number lies between"},
        {R"({"type": "integer", "minimum": "5"})", "'minimum'"},
        {R"({"type": "text"})", "the type 'text' does not exist"},
        {R"({"type": 3})", "'type' must be"},
        {R"({"type": []})", "'type' must be"},
        {R"({"type": "string", "format": "email"})", "'format': the format 'email' is not supported"},
        {R"({"type": "string", "pattern": "abc"})", "'pattern': a pattern must be anchored"},
        {R"({"type": "string", "pattern": "^abc\\$"})", "anchored"},
        {R"({"type": "string", "pattern": "^a|b$"})", "alternatives need a group"},
        {R"({"type": "string", "pattern": "^(?=a)b$"})", "groups are supported"},
        {R"({"type": "string", "pattern": "^(a)\\1$"})", "unsupported escape"},
        {R"({"type": "string", "pattern": "^(a$"})", "')' is expected"},
        {R"({"type": "string", "pattern": "^a{3,2}$"})", "upper bound"},
        {R"({"type": "string", "pattern": "^a$", "maxLength": 3})", "exclude each other"},
        {R"({"type": "string", "minLength": 3, "maxLength": 2})", "'maxLength' is below"},
        {R"({"type": "string", "maxLength": -1})", "'maxLength' must be"},
        {R"({"type": "array", "minItems": 3, "maxItems": 2})", "'maxItems' is below"},
        {R"({"enum": []})", "'enum' must be a list"},
        {R"({"type": "string", "const": 3})", "has the right type"},
        {R"({"anyOf": []})", "'anyOf' must be a list"},
        {R"({"$ref": "http://example.com/x"})", "does not point into this schema"},
        {R"({"$ref": "#/$defs/x"})", "there is no '#/$defs/x'"},
        {R"({"$ref": "#"})", "left-recursive"},
        {R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})",
         "left-recursive"},
        {R"({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}}})",
         "left-recursive"},
        {R"({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}})",
         "nested too deeply"},
        {R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})", "can match no text"},
        {R"({"type": "object", "properties": {"a": {}}, "required": ["b"], "additionalProperties": false})",
         "not among the properties"},
        {R"({"type": "object", "properties": {"a": false}})", "schema at #/properties/a: a schema of 'false'"},
        {R"({"type": "object", "properties": {"a": 5}})", "must be an object"},
        {R"({"allOf": [{"type": "string"}, {"type": "integer"}]})", "no 'type' in common"},
        {R"({"allOf": [{"properties": {"a": {}}, "additionalProperties": false}, {"properties": {"b": {}}}]})",
         "excludes 'b'"},
        {"[]", "must be an object"},
    };
    for (const auto& [schema, message] : kWrong) {
        const Result<GrammarPointer> grammar = try_schema(schema);
        ASSERT_FALSE(grammar.ok()) << schema;
        EXPECT_NE(grammar.error().message.find(message), std::string::npos)
            << schema << ": " << grammar.error().message;
        EXPECT_EQ(grammar.error().code, ErrorCode::Usage) << schema;
    }
}

TEST(Schema, CountsIntegersExactly) {
    const std::pair<int, int> kRanges[] = {{0, 0},    {0, 9},    {5, 17},    {-3, 4},   {-120, -7},
                                           {99, 101}, {1, 1000}, {-10, 105}, {200, 299}};
    for (const auto& [low, high] : kRanges) {
        const Result<GrammarPointer> grammar = try_schema("{\"type\":\"integer\",\"minimum\":" + std::to_string(low) +
                                                          ",\"maximum\":" + std::to_string(high) + "}");
        ASSERT_TRUE(grammar.ok());
        for (int value = -1300; value <= 1300; ++value) {
            EXPECT_EQ(judge(grammar.value(), std::to_string(value)) == Outcome::Accepted, value >= low && value <= high)
                << value << " in " << low << " to " << high;
        }
    }
}

TEST(Schema, BoundsWhatAModelCouldRepeatForEver) {
    const GrammarPointer grammar = Grammar::json_object();
    EXPECT_EQ(judge(grammar, "{\n" + std::string(24, ' ')), Outcome::Prefix);
    EXPECT_EQ(judge(grammar, "{\n" + std::string(25, ' ')), Outcome::Rejected);
    EXPECT_EQ(judge(grammar, "{  "), Outcome::Rejected);
    EXPECT_EQ(judge(grammar, "{\n\n"), Outcome::Rejected);
    EXPECT_EQ(judge(grammar, "{\"a\":" + std::string(11, '[')), Outcome::Prefix);
    EXPECT_EQ(judge(grammar, "{\"a\":" + std::string(12, '[')), Outcome::Rejected);
    EXPECT_EQ(judge(grammar, "{\"a\":1" + std::string(16, '0')), Outcome::Rejected);
    EXPECT_EQ(judge(grammar, "{\"a\":[{},[]], \"b\":{\"c\":-0.5}}"), Outcome::Accepted);
    EXPECT_EQ(judge(grammar, "{} "), Outcome::Rejected);
}

}  // namespace
}  // namespace hearth
