// quantize_model on a model of a few kilobytes: types per mix, metadata, importance, refusals, no traces of a failure.
#include "gguf/quantize.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <thread>

#include "base/rng.h"
#include "gguf/gguf_writer.h"
#include "tensor/codec.h"
#include "unit/gguf/allocation.h"

namespace hearth {
namespace {

constexpr std::size_t kEmbedding = 256;
constexpr std::size_t kFeedForward = 512;
constexpr std::uint32_t kLayers = 8;

struct Source {
    std::string name;
    Shape shape;
    DType type = DType::F32;
    float poison = 0.0f;  // written over the last element when not zero
};

std::vector<Source> tiny_model() {
    std::vector<Source> tensors = {{"token_embd.weight", {{kEmbedding, 48, 1, 1}}},
                                   {"output_norm.weight", {{kEmbedding, 1, 1, 1}}}};
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
        const std::string prefix = "blk." + std::to_string(layer) + ".";
        tensors.push_back({prefix + "attn_norm.weight", {{kEmbedding, 1, 1, 1}}});
        tensors.push_back({prefix + "attn_q.weight", {{kEmbedding, 8, 1, 1}}});
        tensors.push_back({prefix + "attn_k.weight", {{kEmbedding, 4, 1, 1}}});
        tensors.push_back({prefix + "attn_v.weight", {{kEmbedding, 4, 1, 1}}});
        tensors.push_back({prefix + "ffn_down.weight", {{kFeedForward, 6, 1, 1}}});
    }
    tensors.push_back({"output.weight", {{kEmbedding, 48, 1, 1}}});
    return tensors;
}

class Quantize : public ::testing::Test {
protected:
    void SetUp() override {
        folder_ = std::filesystem::path(::testing::TempDir()) /
                  ("hearth_quantize_" + std::to_string(::getpid()) + "_" +
                   ::testing::UnitTest::GetInstance()->current_test_info()->name());
        std::filesystem::create_directories(folder_);
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::string path(const std::string& name) const { return (folder_ / name).string(); }
    std::size_t files() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
    }

    GgufFile write_model(const std::string& name, const std::vector<Source>& tensors, std::uint32_t experts = 0) {
        Result<GgufWriter> writer = GgufWriter::create(path(name));
        EXPECT_TRUE(writer.ok());
        writer->set_string("general.architecture", "llama");
        writer->set_u32("general.file_type", 0);
        writer->set_u32("llama.block_count", kLayers);
        if (experts > 0) writer->set_u32("llama.expert_count", experts);
        const std::string_view words[] = {"one", "two"};
        writer->set_strings("tokenizer.ggml.tokens", words);
        for (const Source& tensor : tensors) writer->declare_tensor(tensor.name, tensor.type, tensor.shape);
        for (const Source& tensor : tensors) {
            std::vector<float> values(tensor.shape.elements());
            for (std::size_t i = 0; i < values.size(); ++i) {
                values[i] = static_cast<float>(random_unit(tensor.name.size(), i) + random_unit(99, i) - 1.0) * 0.05f;
            }
            if (tensor.poison != 0.0f) values.back() = tensor.poison;
            std::vector<std::byte> bytes(row_bytes(tensor.type, values.size()));
            if (tensor.type == DType::F32) {  // past the checks of encode_row, for the poison
                std::memcpy(bytes.data(), values.data(), bytes.size());
            } else {
                EXPECT_TRUE(encode_row(tensor.type, values, {}, bytes.data()));
            }
            EXPECT_TRUE(writer->append(bytes));
        }
        EXPECT_TRUE(writer->finish());
        return open(name);
    }

    GgufFile open(const std::string& name) const {
        Result<GgufFile> file = GgufFile::open(path(name));
        EXPECT_TRUE(file.ok()) << file.error().message;
        return std::move(file).value();
    }

    std::string bytes_of(const std::string& name) const {
        std::ifstream file(path(name), std::ios::binary);
        return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }

    std::map<std::string, DType> types_of(const GgufFile& file) const {
        std::map<std::string, DType> types;
        for (const GgufTensor& tensor : file.tensors()) types[std::string(tensor.name)] = tensor.view.type;
        return types;
    }

    std::filesystem::path folder_;
};

std::vector<float> decoded(const GgufFile& file, std::string_view name) {
    const TensorView& view = file.find_tensor(name)->view;
    std::vector<float> values(view.shape.elements());
    decode_row(view.type, view.data, values);
    return values;
}

QuantizeOptions with_mix(std::string mix) {
    QuantizeOptions options;
    options.mix = std::move(mix);
    return options;
}

TEST_F(Quantize, PlainMixesGiveEveryMatrixTheirTypeAndTheOutputMore) {
    const GgufFile in = write_model("in.gguf", tiny_model());
    const struct {
        const char* mix;
        std::uint32_t file_type;
        DType matrix;
        DType output;
    } cases[] = {{"Q4_0", 2, DType::Q4_0, DType::Q6_K},    {"Q4_1", 3, DType::Q4_1, DType::Q6_K},
                 {"Q5_0", 8, DType::Q5_0, DType::Q6_K},    {"Q5_1", 9, DType::Q5_1, DType::Q6_K},
                 {"Q8_0", 7, DType::Q8_0, DType::Q8_0},    {"Q6_K", 18, DType::Q6_K, DType::Q6_K},
                 {"Q5_K_S", 16, DType::Q5_K, DType::Q6_K}, {"F16", 1, DType::F16, DType::F16},
                 {"bf16", 32, DType::BF16, DType::BF16},   {"f32", 0, DType::F32, DType::F32}};
    for (const auto& expected : cases) {
        ASSERT_TRUE(quantize_model(in, path("out.gguf"), with_mix(expected.mix)).ok());
        const GgufFile out = open("out.gguf");
        EXPECT_EQ(out.u32("general.file_type").value(), expected.file_type);
        for (const auto& [name, type] : types_of(out)) {
            DType wanted = expected.matrix;
            if (name == "output.weight") wanted = expected.output;
            if (name.find("_norm") != std::string::npos) wanted = DType::F32;
            EXPECT_EQ(type, wanted) << expected.mix << " " << name;
        }
    }
}

TEST_F(Quantize, RunningOutOfMemoryInAWorkerIsAnError) {
    const GgufFile in = write_model("in.gguf", tiny_model());
    QuantizeOptions options = with_mix("Q8_0");
    options.parallel = [](std::size_t count, const std::function<void(std::size_t)>& work) {
        const gguf_test::NoMemory here;
        for (std::size_t i = 0; i < count; ++i) work(i);
    };
    const auto quantized = quantize_model(in, path("out.gguf"), options);
    ASSERT_FALSE(quantized.ok());
    EXPECT_EQ(quantized.error().code, ErrorCode::OutOfResources);
    EXPECT_EQ(files(), 1u);
}

TEST_F(Quantize, Q4KMGivesMoreBitsToValuesAndDownProjectionsOfChosenLayers) {
    const GgufFile in = write_model("in.gguf", tiny_model());
    ASSERT_TRUE(quantize_model(in, path("out.gguf"), with_mix("q4_k_m")).ok());
    std::map<std::string, DType> types = types_of(open("out.gguf"));
    for (const std::uint32_t layer : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u}) {
        const bool more = layer == 0 || layer == 3 || layer == 6 || layer == 7;
        const std::string prefix = "blk." + std::to_string(layer) + ".";
        EXPECT_EQ(types[prefix + "attn_v.weight"], more ? DType::Q6_K : DType::Q4_K) << layer;
        EXPECT_EQ(types[prefix + "ffn_down.weight"], more ? DType::Q6_K : DType::Q4_K) << layer;
        EXPECT_EQ(types[prefix + "attn_q.weight"], DType::Q4_K);
        EXPECT_EQ(types[prefix + "attn_norm.weight"], DType::F32);
    }
    EXPECT_EQ(types["token_embd.weight"], DType::Q4_K);
    EXPECT_EQ(types["output.weight"], DType::Q6_K);
}

TEST_F(Quantize, Q4KSGivesFiveBitsToTheFirstValuesAndDownProjections) {
    const GgufFile in = write_model("in.gguf", tiny_model());
    ASSERT_TRUE(quantize_model(in, path("out.gguf"), with_mix("Q4_K_S")).ok());
    std::map<std::string, DType> types = types_of(open("out.gguf"));
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
        const std::string prefix = "blk." + std::to_string(layer) + ".";
        EXPECT_EQ(types[prefix + "attn_v.weight"], layer < 4 ? DType::Q5_K : DType::Q4_K) << layer;
        EXPECT_EQ(types[prefix + "ffn_down.weight"], layer < 1 ? DType::Q5_K : DType::Q4_K) << layer;
    }
}

TEST_F(Quantize, TheTokenEmbeddingIsTreatedAsTheOutputWhenItIsBoth) {
    std::vector<Source> tensors = tiny_model();
    tensors.pop_back();
    const GgufFile in = write_model("in.gguf", tensors);
    const std::vector<DType> types = plan_quantization(in, with_mix("Q4_K_M")).value();
    EXPECT_EQ(types[0], DType::Q6_K);
}

TEST_F(Quantize, WithEightExpertsTheSmallAttentionMatricesStayAtEightBits) {
    const GgufFile in = write_model("in.gguf", tiny_model(), 8);
    ASSERT_TRUE(quantize_model(in, path("out.gguf"), with_mix("Q4_K_M")).ok());
    std::map<std::string, DType> types = types_of(open("out.gguf"));
    EXPECT_EQ(types["blk.1.attn_v.weight"], DType::Q8_0);
    EXPECT_EQ(types["blk.1.attn_k.weight"], DType::Q8_0);
    EXPECT_EQ(types["blk.1.attn_q.weight"], DType::Q4_K);
}

TEST_F(Quantize, RowsThatBlocksDoNotDivideFallBackAndSaySo) {
    const GgufFile in = write_model("in.gguf", {{"blk.1.attn_q.weight", {{96, 4, 1, 1}}},
                                                {"blk.0.attn_v.weight", {{96, 4, 1, 1}}},
                                                {"blk.2.attn_q.weight", {{40, 4, 1, 1}}},
                                                {"output.weight", {{96, 4, 1, 1}}}});
    std::map<std::string, std::string> warnings;
    const auto note = [&](const QuantizeEvent& event) {
        warnings[std::string(event.name)] = event.warning;
        return QuantizeNext::Continue;
    };
    ASSERT_TRUE(quantize_model(in, path("out.gguf"), with_mix("Q4_K_M"), note).ok());
    std::map<std::string, DType> types = types_of(open("out.gguf"));
    EXPECT_EQ(types["blk.1.attn_q.weight"], DType::Q5_0);
    EXPECT_EQ(types["blk.0.attn_v.weight"], DType::Q8_0);
    EXPECT_EQ(types["blk.2.attn_q.weight"], DType::F16);
    EXPECT_EQ(types["output.weight"], DType::Q8_0);
    EXPECT_EQ(warnings["blk.1.attn_q.weight"], "rows of 96 do not fit Q4_K");
    EXPECT_EQ(plan_quantization(in, with_mix("Q5_K_S")).value()[0], DType::Q5_1);
}

TEST_F(Quantize, KeepsMetadataShapesAndOrderAndTheValuesNearby) {
    const GgufFile in = write_model("in.gguf", tiny_model());
    ASSERT_TRUE(quantize_model(in, path("out.gguf"), with_mix("Q8_0")).ok());
    const GgufFile out = open("out.gguf");
    EXPECT_EQ(out.string("general.architecture").value(), "llama");
    EXPECT_EQ(out.u32("llama.block_count").value(), kLayers);
    EXPECT_EQ(out.strings("tokenizer.ggml.tokens").value(), (std::vector<std::string_view>{"one", "two"}));
    EXPECT_EQ(out.u32("general.quantization_version").value(), 2u);
    ASSERT_EQ(out.tensors().size(), in.tensors().size());
    for (std::size_t i = 0; i < in.tensors().size(); ++i) {
        EXPECT_EQ(out.tensors()[i].name, in.tensors()[i].name);
        EXPECT_EQ(out.tensors()[i].view.shape, in.tensors()[i].view.shape);
        const std::vector<float> before = decoded(in, in.tensors()[i].name);
        const std::vector<float> after = decoded(out, in.tensors()[i].name);
        for (std::size_t k = 0; k < before.size(); ++k) ASSERT_NEAR(after[k], before[k], 0.0003f);
    }
}

TEST_F(Quantize, IsTheSameFileWithAnyParallelism) {
    std::vector<Source> tensors = tiny_model();
    tensors.push_back({"blk.0.ffn_up.weight", {{kEmbedding, 600, 1, 1}}});  // several slices
    const GgufFile in = write_model("in.gguf", tensors);
    QuantizeOptions options = with_mix("Q4_K_M");
    ASSERT_TRUE(quantize_model(in, path("one.gguf"), options).ok());
    options.parallel = [](std::size_t count, const std::function<void(std::size_t)>& work) {
        std::vector<std::thread> threads;
        for (std::size_t i = count; i-- > 0;) threads.emplace_back([&work, i] { work(i); });
        for (std::thread& thread : threads) thread.join();
    };
    ASSERT_TRUE(quantize_model(in, path("many.gguf"), options).ok());
    EXPECT_EQ(bytes_of("one.gguf"), bytes_of("many.gguf"));
}

TEST_F(Quantize, WarnsWhenAQuantisedTensorIsQuantisedAgainAndCopiesWhatStays) {
    const GgufFile in = write_model("in.gguf", {{"blk.0.attn_q.weight", {{256, 4, 1, 1}}, DType::Q8_0},
                                                {"blk.0.attn_k.weight", {{256, 4, 1, 1}}, DType::Q5_0},
                                                {"blk.0.attn_output.weight", {{256, 4, 1, 1}}, DType::F16}});
    std::map<std::string, std::string> warnings;
    const auto note = [&](const QuantizeEvent& event) {
        warnings[std::string(event.name)] = event.warning;
        return QuantizeNext::Continue;
    };
    ASSERT_TRUE(quantize_model(in, path("out.gguf"), with_mix("Q5_0"), note).ok());
    EXPECT_NE(warnings["blk.0.attn_q.weight"].find("quantised before"), std::string::npos);
    EXPECT_EQ(warnings["blk.0.attn_k.weight"], "");
    EXPECT_EQ(warnings["blk.0.attn_output.weight"], "");
    const GgufFile out = open("out.gguf");
    EXPECT_EQ(decoded(out, "blk.0.attn_k.weight"), decoded(in, "blk.0.attn_k.weight"));
}

TEST_F(Quantize, RefusesToWriteOverItsInput) {
    const GgufFile in = write_model("in.gguf", tiny_model());
    std::filesystem::create_hard_link(path("in.gguf"), path("link.gguf"));
    const std::string before = bytes_of("in.gguf");
    for (const std::string& target : {path("in.gguf"), path("./in.gguf"), path("link.gguf")}) {
        const Status status = quantize_model(in, target, with_mix("Q8_0"));
        ASSERT_FALSE(status.ok());
        EXPECT_EQ(status.error().code, ErrorCode::Usage);
    }
    EXPECT_EQ(bytes_of("in.gguf"), before);
    EXPECT_EQ(files(), 2u);
}

TEST_F(Quantize, RefusesAnUnknownMixAndNamesTheKnownOnes) {
    const GgufFile in = write_model("in.gguf", tiny_model());
    const Status status = quantize_model(in, path("out.gguf"), with_mix("Q9_X"));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::Usage);
    EXPECT_NE(status.error().message.find("Q9_X"), std::string::npos);
    for (const std::string_view mix : quantize_mixes()) {
        EXPECT_NE(status.error().message.find(mix), std::string::npos) << mix;
    }
    EXPECT_EQ(files(), 1u);
}

TEST_F(Quantize, ABadValueIsNamedAndLeavesNoFile) {
    const GgufFile in = write_model(
        "in.gguf", {{"blk.0.attn_q.weight", {{256, 4, 1, 1}}},
                    {"blk.0.attn_k.weight", {{256, 4, 1, 1}}, DType::F32, std::numeric_limits<float>::infinity()}});
    const Status status = quantize_model(in, path("out.gguf"), with_mix("Q4_0"));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::InvalidModel);
    EXPECT_NE(status.error().message.find("tensor 'blk.0.attn_k.weight': row 3: element 255 is infinite"),
              std::string::npos)
        << status.error().message;
    EXPECT_EQ(files(), 1u);
}

TEST_F(Quantize, CancellingLeavesNoFile) {
    const GgufFile in = write_model("in.gguf", tiny_model());
    std::size_t calls = 0;
    const auto stop = [&](const QuantizeEvent& event) {
        EXPECT_EQ(event.index, calls);
        EXPECT_EQ(event.count, in.tensors().size());
        return ++calls == 3 ? QuantizeNext::Cancel : QuantizeNext::Continue;
    };
    const Status status = quantize_model(in, path("out.gguf"), with_mix("Q4_0"), stop);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::Cancelled);
    EXPECT_EQ(calls, 3u);
    EXPECT_EQ(files(), 1u);
}

class QuantizeImportance : public Quantize {
protected:
    // Sums and counts of one matrix with two experts of 256 columns.
    GgufFile write_importance(const std::vector<float>& sums, const std::vector<float>& counts) {
        Result<GgufWriter> writer = GgufWriter::create(path("imatrix.gguf"));
        EXPECT_TRUE(writer.ok());
        writer->set_string("general.type", "imatrix");
        writer->declare_tensor("blk.0.ffn_up_exps.weight.in_sum2", DType::F32, {{sums.size() / 2, 2, 1, 1}});
        writer->declare_tensor("blk.0.ffn_up_exps.weight.counts", DType::F32, {{1, counts.size(), 1, 1}});
        EXPECT_TRUE(writer->append(std::as_bytes(std::span(sums))));
        EXPECT_TRUE(writer->append(std::as_bytes(std::span(counts))));
        EXPECT_TRUE(writer->finish());
        return open("imatrix.gguf");
    }
    static std::vector<float> uneven_sums() {
        std::vector<float> sums(512);
        for (std::size_t i = 0; i < sums.size(); ++i)
            sums[i] = (i / 256 == 0 ? i % 2 == 0 : i % 2 == 1) ? 300.0f : 3.0f;
        return sums;
    }
};

TEST_F(QuantizeImportance, LowersTheErrorOfTheColumnsThatMatterPerExpert) {
    const GgufFile in = write_model(
        "in.gguf", {{"blk.0.ffn_up_exps.weight", {{256, 16, 2, 1}}}, {"blk.0.attn_q.weight", {{256, 4, 1, 1}}}});
    const GgufFile file = write_importance(uneven_sums(), {3.0f, 3.0f});
    const ImportanceMatrix matrix = ImportanceMatrix::read(file).value();
    EXPECT_EQ(matrix.size(), 1u);
    EXPECT_EQ(matrix.find("blk.0.ffn_up_exps.weight")[0], 100.0f);
    QuantizeOptions options = with_mix("Q4_K_S");
    ASSERT_TRUE(quantize_model(in, path("plain.gguf"), options).ok());
    options.importance = &matrix;
    std::string warning;
    const auto note = [&](const QuantizeEvent& event) {
        if (event.name == "blk.0.attn_q.weight") warning = event.warning;
        return QuantizeNext::Continue;
    };
    ASSERT_TRUE(quantize_model(in, path("weighted.gguf"), options, note).ok());
    EXPECT_EQ(warning, "no importance data");
    const std::vector<float> exact = decoded(in, "blk.0.ffn_up_exps.weight");
    const std::vector<float> plain = decoded(open("plain.gguf"), "blk.0.ffn_up_exps.weight");
    const std::vector<float> weighted = decoded(open("weighted.gguf"), "blk.0.ffn_up_exps.weight");
    for (std::size_t expert = 0; expert < 2; ++expert) {
        double before = 0.0;
        double after = 0.0;
        for (std::size_t i = expert * 4096; i < (expert + 1) * 4096; ++i) {
            if (i % 2 != expert) continue;
            before += std::pow(static_cast<double>(plain[i] - exact[i]), 2);
            after += std::pow(static_cast<double>(weighted[i] - exact[i]), 2);
        }
        EXPECT_LT(after, before * 0.9) << "expert " << expert;
    }
}

TEST_F(QuantizeImportance, OfAnotherModelIsRefused) {
    const GgufFile in = write_model("in.gguf", {{"blk.0.ffn_up_exps.weight", {{256, 16, 1, 1}}}});
    const GgufFile file = write_importance(uneven_sums(), {3.0f, 3.0f});
    const ImportanceMatrix matrix = ImportanceMatrix::read(file).value();
    QuantizeOptions options = with_mix("Q4_0");
    options.importance = &matrix;
    const Status status = quantize_model(in, path("out.gguf"), options);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("importance data is for 512 columns, not 256"), std::string::npos);
    EXPECT_EQ(files(), 2u);
}

TEST_F(QuantizeImportance, ThatWasNeverMeasuredIsEven) {
    const GgufFile file = write_importance(uneven_sums(), {3.0f, 0.0f});
    const ImportanceMatrix matrix = ImportanceMatrix::read(file).value();
    const std::span<const float> weights = matrix.find("blk.0.ffn_up_exps.weight");
    EXPECT_EQ(weights[1], 1.0f);
    EXPECT_EQ(weights[256], 1.0f);
    EXPECT_EQ(weights[257], 1.0f);
    EXPECT_TRUE(matrix.find("blk.1.ffn_up_exps.weight").empty());
}

TEST_F(QuantizeImportance, WithBadNumbersOrShapesIsRefused) {
    std::vector<float> negative = uneven_sums();
    negative[5] = -1.0f;
    EXPECT_FALSE(ImportanceMatrix::read(write_importance(negative, {3.0f, 3.0f})));
    std::vector<float> endless = uneven_sums();
    endless[5] = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(ImportanceMatrix::read(write_importance(endless, {3.0f, 3.0f})));
    EXPECT_FALSE(ImportanceMatrix::read(write_importance(uneven_sums(), {3.0f, 3.0f, 3.0f})));
    EXPECT_FALSE(ImportanceMatrix::read(write_model("in.gguf", tiny_model())));
}

}  // namespace
}  // namespace hearth
