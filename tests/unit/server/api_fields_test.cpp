#include <gtest/gtest.h>

#include "server/api/answer_fields.h"
#include "server/api/fields.h"
#include "unit/text/tiny_vocabulary.h"

namespace hearth {
namespace {

// The fault a body brings about, as "param|message"; empty: none.
std::string fault_of(std::string_view body) {
    const tiny::Loaded loaded(tiny::byte_level({}).metadata());
    const Result<Json> json = Json::parse(body);
    EXPECT_TRUE(json.ok()) << body;
    Faults faults;
    Fields fields(json.value(), "", faults);
    AnswerSpec spec;
    read_sampling(fields, *loaded, spec);
    read_stops(fields, "stop", spec);
    read_choices_and_stream(fields, spec);
    fields.finish();
    return faults.any() ? faults.first().param + "|" + faults.first().message : "";
}

TEST(ApiFields, WhatIsInRangePasses) {
    for (const std::string_view body :
         {R"({})", R"({"temperature": 0})", R"({"temperature": 2, "top_p": 0.5, "top_k": 0, "min_p": 1})",
          R"({"seed": 9223372036854775807})", R"({"stop": "x"})", R"({"stop": ["x", "y"]})", R"({"stop": null})",
          R"({"n": 16})", R"({"stream": true, "stream_options": {"include_usage": true}})",
          R"({"logit_bias": {"5": -100, "6": 1.5}})", R"({"frequency_penalty": -2, "presence_penalty": 2})",
          R"({"top_p": 0})"}) {
        EXPECT_EQ(fault_of(body), "") << body;
    }
}

TEST(ApiFields, FaultsNameTheFieldAndTheRange) {
    const std::pair<std::string_view, std::string_view> kCases[] = {
        {R"({"temperature": "hot"})", "temperature|temperature: must be a number between 0 and 100, not a string"},
        {R"({"temperature": -0.1})", "temperature|temperature: must be a number between 0 and 100, not -0.1"},
        {R"({"temperature": 1e300})", "temperature|temperature: must be a number between 0 and 100, not 1e+300"},
        {R"({"top_k": -5})", "top_k|top_k: must be an integer between 0 and 2147483647, not -5"},
        {R"({"top_k": 1.5})", "top_k|top_k: must be an integer between 0 and 2147483647, not 1.5"},
        {R"({"n": "10"})", "n|n: must be an integer between 1 and 16, not a string"},
        {R"({"n": 0})", "n|n: must be an integer between 1 and 16, not 0"},
        {R"({"n": 17})", "n|n: must be an integer between 1 and 16, not 17"},
        {R"({"seed": -1})", "seed|seed: must be an integer between 0 and 9223372036854775807, not -1"},
        {R"({"seed": 9223372036854775808})",
         "seed|seed: must be an integer between 0 and 9223372036854775807, not 9223372036854775808"},
        {R"({"stream": 1})", "stream|stream: must be true or false, not an integer"},
        {R"({"stream_options": {}})", "stream_options|stream_options: is only allowed with \"stream\": true"},
        {R"({"stream": true, "stream_options": {"x": 1}})", "stream_options.x|stream_options.x: unknown field"},
        {R"({"stop": 3})", "stop|stop: must be a string or an array of strings, not an integer"},
        {R"({"stop": [""]})", "stop|stop: each must be a string of 1 to 1024 bytes"},
        {R"({"logit_bias": {"999999": 1}})", "logit_bias|logit_bias: '999999' is not a token id between 0 and 255"},
        {R"({"logit_bias": {"-1": 1}})", "logit_bias|logit_bias: '-1' is not a token id between 0 and 255"},
        {R"({"logit_bias": {"1": 101}})", "logit_bias.1|logit_bias.1: must be a number between -100 and 100, not 101"},
        {R"({"logit_bias": []})", "logit_bias|logit_bias: must be an object, not an array"},
        {R"({"temprature": 1})", "temprature|temprature: unknown field"},
        {R"({"seed": 1, "seed": 2})", "seed|seed: is given twice"},
        {R"([])", "body|body: must be an object, not an array"},
    };
    for (const auto& [body, fault] : kCases) EXPECT_EQ(fault_of(body), fault) << body;
}

TEST(ApiFields, TenThousandStopStringsAreRefusedWithTheLimit) {
    std::string body = R"({"stop": [)";
    for (int i = 0; i < 10'000; ++i) body += std::string(i > 0 ? "," : "") + "\"s\"";
    EXPECT_EQ(fault_of(body + "]}"), "stop|stop: holds 10000 strings, at most 16 are allowed");
}

TEST(ApiFields, WithoutASeedEachRequestDrawsItsOwn) {
    const tiny::Loaded loaded(tiny::byte_level({}).metadata());
    const Json empty = Json::Object{};
    Faults faults;
    AnswerSpec first;
    AnswerSpec second;
    Fields one(empty, "", faults);
    read_sampling(one, *loaded, first);
    Fields two(empty, "", faults);
    read_sampling(two, *loaded, second);
    EXPECT_NE(first.sampling.seed, second.sampling.seed);
}

TEST(ApiFields, AFormatThatIsNoSchemaNamesItsPath) {
    Faults faults;
    EXPECT_EQ(read_format(Json::Object{{"type", "json_schema"}}, "response_format", SchemaPlace::Nested, faults),
              nullptr);
    ASSERT_TRUE(faults.any());
    EXPECT_EQ(faults.first().param, "response_format.json_schema");
    Faults other;
    EXPECT_NE(read_format(Json::Object{{"type", "json_object"}}, "response_format", SchemaPlace::Nested, other),
              nullptr);
    EXPECT_FALSE(other.any());
}

TEST(ApiErrors, TellOpenAiAndAnthropicClientsTheSame) {
    const ApiError error{429, "full", "", "queue_full"};
    EXPECT_EQ(openai_error(error).dump(),
              R"({"error": {"message": "full", "type": "rate_limit_error", "param": null, "code": "queue_full"}})");
    EXPECT_EQ(anthropic_error(error).dump(),
              R"({"type": "error", "error": {"type": "rate_limit_error", "message": "full"}})");
    EXPECT_EQ(api_error({ErrorCode::Usage, "bad"}, "x").status, 400u);
    EXPECT_EQ(api_error({ErrorCode::Busy, "bad"}).status, 429u);
    EXPECT_EQ(api_error({ErrorCode::Failed, "bad"}).status, 500u);
}

}  // namespace
}  // namespace hearth
