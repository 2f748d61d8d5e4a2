// What inspect shows of a model.
#include "gguf/describe.h"

#include <gtest/gtest.h>

#include <limits>

#include "unit/gguf/model_bytes.h"

namespace hearth {
namespace {

using namespace gguf_test;

struct Opened {
    explicit Opened(const ModelBytes& model) : bytes(model.build()), file(GgufFile::parse(bytes.span(), "tiny.gguf")) {
        EXPECT_TRUE(file.ok()) << file.error().message;
    }
    ExactBytes bytes;
    Result<GgufFile> file;
};

// Follows keys down into an object.
const Json& at(const Json& json, std::initializer_list<std::string_view> path) {
    static const Json kNull;
    const Json* here = &json;
    for (const std::string_view key : path) {
        here = here->find(key);
        if (here == nullptr) {
            ADD_FAILURE() << "no '" << key << "'";
            return kNull;
        }
    }
    return *here;
}

TEST(GgufDescribe, TellsTheFactsAsJson) {
    const Opened tiny(tiny_model());
    const Json json = describe(tiny.file.value());
    EXPECT_EQ(at(json, {"architecture"}).dump(), "\"tiny\"");
    EXPECT_EQ(at(json, {"parameters"}).dump(), "48");
    EXPECT_EQ(at(json, {"tensor_bytes"}).dump(), "98");
    EXPECT_EQ(at(json, {"context_length"}).dump(), "128");
    EXPECT_EQ(at(json, {"layers"}).dump(), "2");
    EXPECT_EQ(at(json, {"vocabulary"}).dump(), "3");
    EXPECT_TRUE(at(json, {"embedding_length"}).is_null());
    EXPECT_EQ(at(json, {"types", "Q8_0", "tensors"}).dump(), "1");
    EXPECT_EQ(at(json, {"types", "F32", "bytes"}).dump(), "64");
    EXPECT_EQ(at(json, {"metadata", "a.u64"}).dump(), "\"18446744073709551615\"");
    EXPECT_EQ(at(json, {"metadata", "a.i16"}).dump(), "-300");
    EXPECT_EQ(at(json, {"metadata", "a.bool"}).dump(), "true");
    EXPECT_EQ(at(json, {"metadata", "b.empty"}).dump(), "[]");
    const Json::Array* tensors = at(json, {"tensors"}).as_array();
    ASSERT_NE(tensors, nullptr);
    ASSERT_EQ(tensors->size(), 2u);
    EXPECT_EQ(at((*tensors)[1], {"shape"}).as_array()->size(), 2u);
    EXPECT_TRUE(Json::parse(json.dump()).ok());
}

TEST(GgufDescribe, AbbreviatesLongArraysAndStrings) {
    ModelBytes model = vocabulary_model();
    model.key("long", GgufType::String, raw_string(std::string(300, 'x')));
    const Opened opened(model);
    const Json json = describe(opened.file.value());
    EXPECT_EQ(at(json, {"metadata", "tokenizer.ggml.tokens", "count"}).dump(), "20");
    EXPECT_EQ(at(json, {"metadata", "tokenizer.ggml.tokens", "first"}).as_array()->size(), 6u);
    EXPECT_EQ(at(json, {"metadata", "long"}).as_string()->size(), 300u);
    const std::string text = summary_text(opened.file.value());
    EXPECT_NE(text.find("[20 strings] \"token0\" \"token1\""), std::string::npos) << text;
    EXPECT_NE(text.find("\"token5\" ..."), std::string::npos) << text;
    EXPECT_NE(text.find("x... (300 bytes)"), std::string::npos) << text;
}

TEST(GgufDescribe, PrintsASummaryWithEveryKeyAndTensor) {
    const Opened tiny(tiny_model());
    const std::string text = summary_text(tiny.file.value());
    for (const std::string_view line :
         {"architecture    tiny\n", "name            Tiny \xc3\xa9\n", "parameters      48 (48)\n",
          "context         128\n", "layers          2\n", "vocabulary      3\n", "bits per weight 16.33\n",
          "Q8_0            1 tensor, 34 B\n"}) {
        EXPECT_NE(text.find(line), std::string::npos) << line << text;
    }
    for (const std::string_view key : tiny.file->keys()) EXPECT_NE(text.find(key), std::string::npos) << key;
    EXPECT_NE(text.find("output_norm.weight  F32   [8, 2]  64\n"), std::string::npos) << text;
}

TEST(GgufDescribe, ShowsFloatsAsTheyWereWritten) {
    ModelBytes model;
    model.key("eps", GgufType::F32, raw(1e-5f)).key("odd", GgufType::F32, raw(std::numeric_limits<float>::infinity()));
    const Opened opened(model);
    EXPECT_EQ(at(describe(opened.file.value()), {"metadata", "eps"}).dump(), "1e-05");
    EXPECT_EQ(at(describe(opened.file.value()), {"metadata", "odd"}).dump(), "null");
}

TEST(GgufDescribe, KeepsForeignTextFromSteeringTheTerminal) {
    ModelBytes model;
    model.key("general.name", GgufType::String, raw_string("a\x1b[31m\nb\xc2\x9b\xff"));
    const Opened opened(model);
    const std::string text = summary_text(opened.file.value());
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_NE(text.find("a\\u001b[31m\\nb\\u009b\xef\xbf\xbd"), std::string::npos) << text;
}

TEST(GgufDescribe, LeavesOutWhatTheFileSaysInTheWrongType) {
    ModelBytes model;
    model.key("general.architecture", GgufType::U32, raw(7))
        .key("tokenizer.ggml.tokens", GgufType::String, raw_string("x"));
    const Opened opened(model);
    const Json json = describe(opened.file.value());
    EXPECT_TRUE(at(json, {"architecture"}).is_null());
    EXPECT_TRUE(at(json, {"vocabulary"}).is_null());
    EXPECT_EQ(at(json, {"bits_per_weight"}).dump(), "0.0");
    EXPECT_EQ(summary_text(opened.file.value()).find("architecture    "), std::string::npos);
}

}  // namespace
}  // namespace hearth
