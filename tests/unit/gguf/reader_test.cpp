// The reader on good files: every type, every accessor, and wrong types refused by name.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gguf/gguf.h"
#include "unit/gguf/allocation.h"
#include "unit/gguf/model_bytes.h"

namespace hearth {
namespace {

using namespace gguf_test;

template <typename T>
std::string message(const Result<T>& result) {
    return result.ok() ? "no error" : result.error().message;
}

class GgufReader : public testing::Test {
protected:
    GgufFile open(const ModelBytes& model) {
        text_ = model.build();
        const std::byte* bytes = reinterpret_cast<const std::byte*>(text_.data());
        Result<GgufFile> file = GgufFile::parse({bytes, text_.size()}, "tiny.gguf");
        EXPECT_TRUE(file.ok()) << file.error().message;
        return std::move(file).value();
    }
    std::string text_;
};

TEST_F(GgufReader, TellsVersionAlignmentAndSize) {
    const GgufFile tiny = open(tiny_model());
    EXPECT_EQ(tiny.version(), 3u);
    EXPECT_EQ(tiny.alignment(), 32u);
    EXPECT_EQ(tiny.file_bytes(), text_.size());
    EXPECT_EQ(tiny.part_count(), 1u);
    EXPECT_EQ(tiny.name(), "tiny.gguf");
    const GgufFile wide = open(aligned_model());
    EXPECT_EQ(wide.version(), 2u);
    EXPECT_EQ(wide.alignment(), 64u);
}

TEST_F(GgufReader, ListsKeysInFileOrder) {
    const GgufFile file = open(tiny_model());
    ASSERT_EQ(file.keys().size(), 19u);
    EXPECT_EQ(file.keys()[0], "general.architecture");
    EXPECT_EQ(file.keys()[18], "b.empty");
}

TEST_F(GgufReader, ReadsEveryIntegerWidthThatFits) {
    const GgufFile file = open(tiny_model());
    EXPECT_EQ(file.u32("tiny.context_length").value(), 128u);
    EXPECT_EQ(file.u32("tiny.block_count").value(), 2u);
    EXPECT_EQ(file.u32("a.u16").value(), 65535u);
    EXPECT_EQ(file.u32("a.i64").value(), 7u);
    EXPECT_EQ(file.find_u32("a.i64").value(), std::optional<std::uint32_t>(7));
}

TEST_F(GgufReader, RefusesIntegersThatDoNotFitWithTheirValue) {
    const GgufFile file = open(tiny_model());
    EXPECT_NE(message(file.u32("a.u64")).find("'a.u64' is 18446744073709551615"), std::string::npos);
    EXPECT_NE(message(file.u32("a.i8")).find("'a.i8' is -3"), std::string::npos);
    EXPECT_NE(message(file.find_u32("a.i32")).find("'a.i32' is -70000"), std::string::npos);
    EXPECT_NE(message(file.integers("b.wide")).find("element 0 of key 'b.wide'"), std::string::npos);
}

TEST_F(GgufReader, ReadsFloatsBooleansAndStrings) {
    const GgufFile file = open(tiny_model());
    EXPECT_EQ(file.f32("a.f32").value(), 1.5f);
    EXPECT_EQ(file.f32("a.f64").value(), 0.25f);
    EXPECT_TRUE(file.boolean("a.bool").value());
    EXPECT_EQ(file.string("general.name").value(), "Tiny \xc3\xa9");
    EXPECT_EQ(file.find_f32("a.f32").value(), std::optional<float>(1.5f));
    EXPECT_EQ(file.find_boolean("a.bool").value(), std::optional<bool>(true));
    EXPECT_EQ(file.find_string("general.architecture").value(), std::optional<std::string_view>("tiny"));
}

TEST_F(GgufReader, ReadsArrays) {
    const GgufFile file = open(tiny_model());
    EXPECT_EQ(file.strings("tokenizer.ggml.tokens").value(), (std::vector<std::string_view>{"<s>", "", "b"}));
    EXPECT_EQ(file.floats("tokenizer.ggml.scores").value(), (std::vector<float>{0.0f, -1.0f, 2.5f}));
    EXPECT_EQ(file.integers("tokenizer.ggml.token_type").value(), (std::vector<std::int32_t>{3, 1, -1}));
    EXPECT_EQ(file.integers("b.flags").value(), (std::vector<std::int32_t>{0, 1, 1, 0}));
    EXPECT_TRUE(file.strings("b.empty").value().empty());
}

TEST_F(GgufReader, TellsAbsentFromWrong) {
    const GgufFile file = open(tiny_model());
    EXPECT_EQ(message(file.u32("nobody")), "tiny.gguf: key 'nobody' is missing");
    EXPECT_EQ(message(file.strings("nobody")), "tiny.gguf: key 'nobody' is missing");
    EXPECT_EQ(file.find("nobody"), nullptr);
    EXPECT_EQ(file.find_u32("nobody").value(), std::nullopt);
    EXPECT_EQ(file.find_f32("nobody").value(), std::nullopt);
    EXPECT_EQ(file.find_boolean("nobody").value(), std::nullopt);
    EXPECT_EQ(file.find_string("nobody").value(), std::nullopt);
}

TEST_F(GgufReader, RefusesWrongTypesNamingTheKeyAndBothTypes) {
    const GgufFile file = open(tiny_model());
    const auto says = [](const std::string& text, std::string_view part) {
        return text.starts_with("tiny.gguf: ") && text.find(part) != std::string::npos &&
               text.find(", at byte ") != std::string::npos;
    };
    EXPECT_TRUE(says(message(file.u32("general.name")), "'general.name' is of type string, not u32"));
    EXPECT_TRUE(says(message(file.u32("a.f32")), "'a.f32' is of type f32, not u32"));
    EXPECT_TRUE(says(message(file.u32("a.bool")), "'a.bool' is of type bool, not u32"));
    EXPECT_TRUE(says(message(file.u32("b.wide")), "'b.wide' is of type array of u64, not u32"));
    EXPECT_TRUE(says(message(file.f32("a.i32")), "'a.i32' is of type i32, not f32"));
    EXPECT_TRUE(says(message(file.boolean("tiny.block_count")), "is of type u8, not bool"));
    EXPECT_TRUE(says(message(file.string("a.i8")), "is of type i8, not string"));
    EXPECT_TRUE(says(message(file.find_u32("general.name")), "is of type string, not u32"));
    EXPECT_TRUE(says(message(file.find_string("a.u16")), "is of type u16, not string"));
    EXPECT_TRUE(says(message(file.strings("a.u16")), "is of type u16, not array"));
    EXPECT_TRUE(says(message(file.strings("b.wide")), "is of type array of u64, not array of string"));
    EXPECT_TRUE(says(message(file.floats("b.flags")), "is of type array of bool, not array of f32"));
    EXPECT_TRUE(says(message(file.integers("tokenizer.ggml.scores")), "is of type array of f32, not array of i32"));
    EXPECT_TRUE(says(message(file.integers("tokenizer.ggml.tokens")), "is of type array of string, not array of i32"));
}

TEST_F(GgufReader, RefusesToCopyAnArrayBeyondAnyVocabulary) {
    constexpr std::size_t kMost = 1U << 24;
    ModelBytes model;
    model.key("most", GgufType::Array, raw_array(GgufType::Bool, kMost, std::string(kMost, '\1')))
        .key("more", GgufType::Array, raw_array(GgufType::Bool, kMost + 1, std::string(kMost + 1, '\1')));
    const GgufFile file = open(model);
    EXPECT_EQ(file.integers("most").value().size(), kMost);
    const std::size_t before = allocated_bytes();
    const std::string refusal = message(file.integers("more"));
    EXPECT_NE(refusal.find("key 'more' has 16777217 elements, at most 16777216 are supported"), std::string::npos)
        << refusal;
    EXPECT_LT(allocated_bytes() - before, 4096u);
}

TEST_F(GgufReader, RefusesScoresWrittenAsBytes) {
    ModelBytes model;
    model.key("tokenizer.ggml.scores", GgufType::Array, raw_array(GgufType::U8, 2, "ab"));
    const GgufFile file = open(model);
    EXPECT_NE(message(file.floats("tokenizer.ggml.scores")).find("'tokenizer.ggml.scores' is of type array of u8"),
              std::string::npos);
}

TEST_F(GgufReader, RefusesFloatsThatAreNotFinite) {
    const float infinity = std::numeric_limits<float>::infinity();
    ModelBytes model;
    model.key("rope.nan", GgufType::F32, raw(std::nanf("")))
        .key("rope.inf", GgufType::F32, raw(-infinity))
        .key("rope.nan64", GgufType::F64, raw(std::nan("")))
        .key("rope.large64", GgufType::F64, raw(1e300))
        .key("rope.list", GgufType::Array, raw_array(GgufType::F32, 2, raw(1.0f) + raw(infinity)));
    const GgufFile file = open(model);
    for (const std::string key : {"rope.nan", "rope.inf", "rope.nan64", "rope.large64"}) {
        EXPECT_NE(message(file.f32(key)).find("'" + key + "' is not a finite f32"), std::string::npos) << key;
        EXPECT_FALSE(file.find_f32(key).ok()) << key;
    }
    EXPECT_NE(message(file.floats("rope.list")).find("element 1 of key 'rope.list' is not finite"), std::string::npos);
}

TEST_F(GgufReader, PlacesTensors) {
    const GgufFile file = open(tiny_model());
    ASSERT_EQ(file.tensors().size(), 2u);
    const GgufTensor* embedding = file.find_tensor("token_embd.weight");
    ASSERT_NE(embedding, nullptr);
    EXPECT_EQ(embedding->view.type, DType::Q8_0);
    EXPECT_EQ(embedding->view.shape, (Shape{{32, 1, 1, 1}}));
    EXPECT_EQ(embedding->view.size_bytes(), 34u);
    EXPECT_EQ(embedding->view.data[33], std::byte{0x11});
    EXPECT_EQ(embedding->file_offset % 32, 0u);
    EXPECT_EQ(embedding->split, 0u);
    const GgufTensor* norm = file.find_tensor("output_norm.weight");
    ASSERT_NE(norm, nullptr);
    EXPECT_EQ(norm->file_offset, embedding->file_offset + 64);
    EXPECT_EQ(norm->view.data + 64, reinterpret_cast<const std::byte*>(text_.data()) + text_.size());
    EXPECT_EQ(file.find_tensor("output.weight"), nullptr);
}

TEST_F(GgufReader, ChecksTheShapeOfATensor) {
    const GgufFile file = open(tiny_model());
    EXPECT_TRUE(file.tensor("output_norm.weight", Shape{{8, 2, 1, 1}}).ok());
    EXPECT_NE(message(file.tensor("output_norm.weight", Shape{{8, 1, 1, 1}}))
                  .find("tensor 'output_norm.weight' has the shape [8, 2], [8] is expected"),
              std::string::npos);
    EXPECT_EQ(message(file.tensor("output.weight", Shape{})), "tiny.gguf: tensor 'output.weight' is missing");
}

TEST_F(GgufReader, MovesWithoutLosingItsViews) {
    GgufFile first = open(tiny_model());
    const GgufFile second = std::move(first);
    EXPECT_EQ(second.string("general.architecture").value(), "tiny");
    EXPECT_NE(second.find_tensor("token_embd.weight"), nullptr);
}

}  // namespace
}  // namespace hearth
