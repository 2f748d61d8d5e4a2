#include <gtest/gtest.h>

#include <algorithm>

#include "cli/model_plan.h"
#include "support/tiny_model.h"

namespace hearth {
namespace {

// One layer, quantised, nothing packed; easy numbers.
ModelLoad round_model() {
    ModelLoad load;
    load.file_bytes = 1'000'000'000;
    load.parameters = 1'000'000'000;  // eight bits each
    load.activation_bytes = 10'000'000;
    load.kv_position_bytes = 100'000;
    load.weights = {{DType::Q8_0, 800'000'000, 800'000'000, 700'000'000}};
    load.attention = {AttentionShape{8, 2, 64, 1.0f, 0}};
    return load;
}

MeasuredSpeed round_speed() {
    MeasuredSpeed speed;
    speed.read_bytes_per_second = 10e9;
    speed.kernels.matmul = {{DType::Q8_0, 1e12, 1e12}};
    speed.kernels.attention_one_token = 1e12;
    speed.kernels.attention_many_tokens = 1e12;
    return speed;
}

TEST(PlanMemory, AddsUpTheParts) {
    const MemoryPlan plan = plan_memory(round_model(), {.context = 1000, .sequences = 2}, 4'000'000'000);
    EXPECT_TRUE(plan.fits);
    EXPECT_TRUE(plan.advice.empty());
    EXPECT_EQ(plan.weights, 1'000'000'000u);
    EXPECT_EQ(plan.packed, 0u);
    EXPECT_EQ(plan.kv, 2u * 16 * 64 * 100'000);  // whole blocks, one to spare
    EXPECT_EQ(plan.total(), plan.weights + plan.kv + 10'000'000u);
}

TEST(PlanMemory, APackedCopyStandsForItsPartOfTheFile) {
    ModelLoad load = round_model();
    load.packed_bytes = 950'000'000;
    load.replaced_bytes = 900'000'000;
    MemoryPlan plan = plan_memory(load, {.context = 64, .sequences = 1}, 4'000'000'000);
    EXPECT_EQ(plan.weights, 100'000'000u);
    EXPECT_EQ(plan.packed, 950'000'000u);
    // Where only the file itself fits, it is not packed.
    plan = plan_memory(load, {.context = 64, .sequences = 1}, 1'030'000'000);
    EXPECT_TRUE(plan.fits);
    EXPECT_FALSE(plan.packed_fits);
    EXPECT_EQ(plan.weights, 1'000'000'000u);
    EXPECT_EQ(plan.packed, 0u);
}

TEST(PlanMemory, AContextThatDoesNotFitIsAnsweredWithOneThatDoes) {
    const std::uint64_t available = 2'000'000'000;
    const MemoryPlan plan = plan_memory(round_model(), {.context = 100'000, .sequences = 1}, available);
    EXPECT_FALSE(plan.fits);
    ASSERT_FALSE(plan.advice.empty());
    const std::size_t at = plan.advice[0].find("--ctx ");
    ASSERT_NE(at, std::string::npos) << plan.advice[0];
    const std::size_t context = std::stoul(plan.advice[0].substr(at + 6));
    EXPECT_GT(context, 9000u);
    EXPECT_TRUE(plan_memory(round_model(), {.context = context, .sequences = 1}, available).fits);
}

TEST(PlanMemory, AModelThatDoesNotFitIsAnsweredWithASmallerQuantisation) {
    ModelLoad load = round_model();
    load.parameters = 500'000'000;  // sixteen bits each
    MemoryPlan plan = plan_memory(load, {.context = 64, .sequences = 1}, 600'000'000);
    EXPECT_FALSE(plan.fits);
    ASSERT_EQ(plan.advice.size(), 1u);
    EXPECT_NE(plan.advice[0].find("hearth quantize IN OUT Q8_0"), std::string::npos) << plan.advice[0];
    plan = plan_memory(load, {.context = 64, .sequences = 1}, 350'000'000);
    EXPECT_NE(plan.advice[0].find("Q4_K_M"), std::string::npos) << plan.advice[0];
    plan = plan_memory(load, {.context = 64, .sequences = 1}, 1'000'000);
    EXPECT_NE(plan.advice[0].find("smaller model"), std::string::npos) << plan.advice[0];
}

TEST(PredictStep, ReadsTheWeightsAtTheirShareOfTheBandwidth) {
    const double expected = 0.8e9 / (10e9 * kPlanShares.quantised);
    EXPECT_NEAR(predict_step(round_model(), round_speed(), 0, 1), expected, 0.01 * expected);
}

TEST(PredictStep, IsLimitedByComputingWhereThatIsSlower) {
    MeasuredSpeed speed = round_speed();
    speed.kernels.matmul[0].one_token = 1e9;
    const double expected = 0.8e9 / (1e9 * kPlanShares.compute);
    EXPECT_NEAR(predict_step(round_model(), speed, 0, 1), expected, 0.01 * expected);
}

TEST(PredictStep, GrowsWithTheDepthUntilTheWindow) {
    ModelLoad load = round_model();
    const MeasuredSpeed speed = round_speed();
    const double empty = predict_step(load, speed, 0, 1);
    const double deep = predict_step(load, speed, 8192, 1);
    const double deeper = predict_step(load, speed, 16384, 1);
    EXPECT_NEAR(deeper - empty, 2 * (deep - empty), 1e-3 * (deeper - empty));
    load.attention[0].window = 512;
    EXPECT_EQ(predict_step(load, speed, 8192, 1), predict_step(load, speed, 16384, 1));
    EXPECT_LT(predict_step(load, speed, 8192, 1), deep);
}

TEST(PredictStep, SequencesShareTheReadingOfWeights) {
    const double one = predict_step(round_model(), round_speed(), 0, 1);
    EXPECT_LT(predict_step(round_model(), round_speed(), 0, 8), 1.1 * one);
}

TEST(PredictPrompt, LeavesOutTheProjectionToTheVocabulary) {
    const double expected = 512 * 0.7e9 / (1e12 * kPlanShares.compute);
    EXPECT_NEAR(predict_prompt(round_model(), round_speed(), 512), expected, 0.01 * expected);
}

TEST(PredictStep, WithoutAnyMeasurementIsZeroAndNotInfinite) {
    EXPECT_EQ(predict_step(round_model(), MeasuredSpeed{}, 100, 1), 0.0);
    EXPECT_EQ(predict_prompt(round_model(), MeasuredSpeed{}, 100), 0.0);
}

TEST(PlanDepths, StayInsideTheContext) {
    EXPECT_EQ(plan_depths(1), (std::vector<std::size_t>{0}));
    EXPECT_EQ(plan_depths(512), (std::vector<std::size_t>{0, 511}));
    EXPECT_EQ(plan_depths(8192), (std::vector<std::size_t>{0, 1024, 4096}));
    EXPECT_EQ(plan_depths(16384), (std::vector<std::size_t>{0, 1024, 4096, 16383}));
    for (const std::size_t depth : plan_depths(std::size_t{1} << 24)) EXPECT_LT(depth, std::size_t{1} << 24);
}

TEST(ReadModelLoad, CountsWhatTheFileHolds) {
    test::TinyModelOptions options;
    options.type = DType::Q4_0;
    const GgufFile file = GgufFile::open(test::write_tiny_model("plan", options)).value();
    ThreadPool pool(2);
    const CpuBackend backend = CpuBackend::create("", pool).value();
    const ModelLoad load = read_model_load(file, backend, 0).value();
    EXPECT_EQ(load.file_bytes, file.file_bytes());
    EXPECT_EQ(load.attention.size(), options.layers);
    // K and V of every layer, two bytes an element.
    EXPECT_EQ(load.kv_position_bytes,
              options.layers * 2 * options.kv_heads * (options.dim / options.heads) * sizeof(std::uint16_t));
    // 34 bytes for 32 elements.
    EXPECT_EQ(read_model_load(file, backend, 0, KvType::Q8)->kv_position_bytes * 64, load.kv_position_bytes * 34);
    std::uint64_t multiplies = 0;
    for (const WeightLoad& weight : load.weights) multiplies += weight.multiplies;
    const std::size_t kv_dim = options.kv_heads * (options.dim / options.heads);
    const std::uint64_t layer = options.dim * (2 * options.dim + 2 * kv_dim + 3 * options.ffn_dim);
    EXPECT_EQ(multiplies, options.layers * layer + options.dim * load.info.vocabulary);
    EXPECT_GT(load.activation_bytes, 0u);
    // Every worker has memory of its own.
    ThreadPool larger_pool(3);
    const CpuBackend larger = CpuBackend::create("", larger_pool).value();
    EXPECT_GT(read_model_load(file, larger, 0)->activation_bytes, load.activation_bytes);
    EXPECT_LE(load.replaced_bytes, load.file_bytes);
    EXPECT_EQ(load.packed_bytes == 0, load.replaced_bytes == 0);
    // The reference level packs nothing.
    EXPECT_EQ(read_model_load(file, CpuBackend(supported_kernels().front(), pool), 0)->packed_bytes, 0u);
}

TEST(MeasureKernels, EveryLevelAndTypeHasASpeed) {
    ThreadPool pool(2);
    const DType types[] = {DType::Q4_0, DType::Q4_K, DType::F16};
    for (const Kernels& kernels : supported_kernels()) {
        const KernelSpeed speed = measure_kernels(kernels, pool, types, AttentionShape{6, 2, 64, 1.0f, 0});
        for (const DType type : types) {
            ASSERT_NE(speed.find(type), nullptr);
            EXPECT_GT(speed.find(type)->one_token, 0.0) << kernels.level;
            EXPECT_GT(speed.find(type)->many_tokens, 0.0) << kernels.level;
        }
        EXPECT_GT(speed.attention_one_token, 0.0) << kernels.level;
        EXPECT_GT(speed.attention_many_tokens, 0.0) << kernels.level;
        EXPECT_EQ(speed.find(DType::F32), nullptr);
    }
}

}  // namespace
}  // namespace hearth
