// Every golden model, as a graph: it builds, has the shape it should have, and means what the original code means.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "golden/golden_model.h"
#include "models/model.h"
#include "unit/models/edited_model.h"
#include "unit/models/graph_interpreter.h"

namespace hearth {
namespace {

class Family : public testing::TestWithParam<std::string_view> {};

// ||difference|| / ||reference|| of the worst position.
double worst_relative_error(const GoldenModel& golden, const std::vector<double>& logits) {
    double worst = 0;
    for (std::size_t position = 0; position < golden.tokens.size(); ++position) {
        double difference = 0;
        double reference = 0;
        for (std::size_t token = 0; token < golden.vocabulary; ++token) {
            const double expected = static_cast<double>(golden.logits[position * golden.vocabulary + token]);
            const double delta = logits[position * golden.vocabulary + token] - expected;
            difference += delta * delta;
            reference += expected * expected;
        }
        const double relative = std::sqrt(difference / reference);
        if (!(relative <= worst)) worst = relative;  // a NaN stays the worst
    }
    return worst;
}

TEST_P(Family, GivesTheLogitsOfTheOriginalWhenInterpretedInDouble) {
    const GoldenModel golden = load_golden(GetParam());
    const Result<GgufFile> file = GgufFile::open(golden.path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    Arena arena;
    Graph graph(arena);
    const Result<ModelInfo> info = build_model(file.value(), BuildRequest{golden.context}, graph);
    ASSERT_TRUE(info.ok()) << info.error().message;
    EXPECT_EQ(info->vocabulary, golden.vocabulary);
    const std::vector<double> logits = interpret(graph, golden.tokens);
    ASSERT_EQ(logits.size(), golden.logits.size());
    const double worst = worst_relative_error(golden, logits);
    EXPECT_LT(worst, 1e-5);  // the original computes in float
}

std::string test_name(const testing::TestParamInfo<std::string_view>& info) {
    return std::string(info.param);
}

INSTANTIATE_TEST_SUITE_P(Golden, Family, testing::ValuesIn(kGoldenNames), test_name);

// How often each operation occurs.
std::map<Op, std::size_t> count_operations(std::string_view name) {
    const GoldenModel golden = load_golden(name);
    const Result<GgufFile> file = GgufFile::open(golden.path);
    CHECK(file.ok());
    Arena arena;
    Graph graph(arena);
    CHECK(build_model(file.value(), BuildRequest{}, graph).ok());
    std::map<Op, std::size_t> counts;
    for (const Node& node : graph.nodes()) ++counts[node.op];
    return counts;
}

TEST(FamilyGraph, OfLlamaHasSevenMatricesAndTwoNormsALayer) {
    const std::map<Op, std::size_t> expected{
        {Op::Embed, 1}, {Op::RopeAngles, 1}, {Op::RmsNorm, 2 * 2 + 1}, {Op::Matmul, 2 * 7 + 1}, {Op::Add, 4},
        {Op::Gate, 2},  {Op::Rope, 4},       {Op::StoreKv, 2},         {Op::Attend, 2},         {Op::SelectRows, 2},
    };
    EXPECT_EQ(count_operations("llama"), expected);
}

TEST(FamilyGraph, OfQwen2AddsThreeBiasesALayer) {
    std::map<Op, std::size_t> expected = count_operations("llama");
    expected[Op::AddBias] = 2 * 3;
    EXPECT_EQ(count_operations("qwen2"), expected);
}

TEST(FamilyGraph, OfQwen3NormsTheHeadsOfQAndK) {
    std::map<Op, std::size_t> expected = count_operations("llama");
    expected[Op::RmsNorm] += 2 * 2;
    EXPECT_EQ(count_operations("qwen3"), expected);
}

TEST(FamilyGraph, OfPhi3TakesTheFusedMatricesApart) {
    EXPECT_EQ(count_operations("phi3"), count_operations("llama"));
}

TEST(FamilyGraph, OfGemma3HasSixNormsALayerAndTwoRopes) {
    const std::map<Op, std::size_t> counts = count_operations("gemma3");
    EXPECT_EQ(counts.at(Op::RmsNorm), 7U * 6 + 1);
    EXPECT_EQ(counts.at(Op::RopeAngles), 2U);
    EXPECT_EQ(counts.at(Op::Matmul), 7U * 7 + 1);
}

TEST(FamilyGraph, OfGemma3SeesEverythingOnlyInEverySixthLayer) {
    const GoldenModel golden = load_golden("gemma3");
    const Result<GgufFile> file = GgufFile::open(golden.path);
    ASSERT_TRUE(file.ok());
    Arena arena;
    Graph graph(arena);
    ASSERT_TRUE(build_model(file.value(), BuildRequest{}, graph).ok());
    std::vector<std::size_t> windows;
    for (const Node& node : graph.nodes()) {
        if (node.op == Op::Attend) windows.push_back(node.attention.window);
    }
    EXPECT_EQ(windows, (std::vector<std::size_t>{16, 16, 16, 16, 16, 0, 16}));
}

TEST(FamilyGraph, OfPhi3RefersToTheRowsOfTheFileWithoutACopy) {
    const GoldenModel golden = load_golden("phi3");
    const Result<GgufFile> file = GgufFile::open(golden.path);
    ASSERT_TRUE(file.ok());
    Arena arena;
    Graph graph(arena);
    const Result<ModelInfo> info = build_model(file.value(), BuildRequest{}, graph);
    ASSERT_TRUE(info.ok());
    const TensorView fused = file->find_tensor("blk.0.ffn_up.weight")->view;
    for (const Node& node : graph.nodes()) {
        if (node.op != Op::Gate) continue;
        // The matmul before the gate made `up`: the second half of the fused matrix.
        const Node& up = *(&node - 1);
        ASSERT_EQ(up.op, Op::Matmul);
        EXPECT_EQ(arena.constant(up.constant).data, fused.row(info->ffn_dim));
        break;
    }
}

float second_frequency(const GgufFile& file, std::size_t context) {
    Arena arena;
    Graph graph(arena);
    CHECK(build_model(file, BuildRequest{context}, graph).ok());
    return graph.rope_tables().front().inverse_frequencies.at(1);
}

TEST(FamilyGraph, OfPhi3TakesTheLongFactorsOnlyBeyondTheOriginalContext) {
    const GoldenModel golden = load_golden("phi3_short");
    const Result<GgufFile> file = GgufFile::open(golden.path);
    ASSERT_TRUE(file.ok());
    const float within = second_frequency(file.value(), 128);
    const float beyond = second_frequency(file.value(), 129);
    EXPECT_NEAR(within / beyond, 2.25F / 1.05F, 1e-5F);
    EXPECT_EQ(second_frequency(file.value(), 0), beyond);  // the trained context is 256
}

TEST(FamilyGraph, OfPhi3HasTheSameRopeByDefaultAsWithTheDefaultContextAskedFor) {
    const std::string path = testing::TempDir() + "/phi3_default_context.gguf";
    EditedModel("phi3_short")
        .metadata([&](GgufWriter& writer) {
            writer.set_u32("phi3.context_length", 131072);
            writer.set_u32("phi3.rope.scaling.original_context_length", 8192);
        })
        .write(path);
    const Result<GgufFile> file = GgufFile::open(path);
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(second_frequency(file.value(), 0), second_frequency(file.value(), 8192));
    EXPECT_NE(second_frequency(file.value(), 0), second_frequency(file.value(), 8193));
    std::remove(path.c_str());
}

}  // namespace
}  // namespace hearth
