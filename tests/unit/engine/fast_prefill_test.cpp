// Fast prefill: near the exact answer, the same for every thread count, and never seen by decoding.
#include <gtest/gtest.h>

#include <cmath>

#include "engine_support.h"
#include "kernels/kernels.h"

namespace hearth {
namespace {

using namespace test;

bool level_has_fast_kernels() {
    return supported_kernels().back().fast.tile_tokens != 0;
}

std::vector<float> last_logits(const std::string& model, const EngineOptions& options, std::size_t prompt_length) {
    const std::shared_ptr<Engine> engine = load_engine(model, options);
    Sequence sequence(engine, greedy());
    EXPECT_TRUE(sequence.append(make_prompt(prompt_length)).ok());
    const Result<Logits> logits = forward_pending(*engine, sequence, 0);
    EXPECT_TRUE(logits.ok());
    return {logits->values.begin(), logits->values.end()};
}

double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
    double difference = 0;
    double size = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
        size += std::pow(static_cast<double>(b[i]), 2);
    }
    return std::sqrt(difference / size);
}

class FastPrefill : public ::testing::TestWithParam<DType> {
protected:
    std::string model_ = write_tiny_model("fast_" + std::string(traits(GetParam()).name), {.type = GetParam()});
};

TEST_P(FastPrefill, IsNearTheExactAnswerAndNotEqualToIt) {
    if (!level_has_fast_kernels()) GTEST_SKIP() << "this CPU has no fast kernels";
    const std::vector<float> exact = last_logits(model_, {.threads = 1}, 150);
    const std::vector<float> fast = last_logits(model_, {.threads = 1, .prefill = Prefill::Fast}, 150);
    ASSERT_EQ(fast.size(), exact.size());
    EXPECT_LT(relative_error(fast, exact), 0.1);
    EXPECT_NE(fast, exact);
}

TEST_P(FastPrefill, IsTheSameWithAnyNumberOfThreads) {
    const std::vector<float> one = last_logits(model_, {.threads = 1, .prefill = Prefill::Fast}, 301);
    for (const std::size_t threads : {2u, 3u}) {
        EXPECT_EQ(last_logits(model_, {.threads = threads, .prefill = Prefill::Fast}, 301), one) << threads;
    }
}

TEST_P(FastPrefill, ShortPromptsAreExact) {
    EXPECT_EQ(last_logits(model_, {.threads = 2, .prefill = Prefill::Fast}, 31),
              last_logits(model_, {.threads = 2}, 31));
}

INSTANTIATE_TEST_SUITE_P(Types, FastPrefill, ::testing::Values(DType::Q4_0, DType::Q8_0, DType::Q4_K, DType::Q6_K),
                         [](const auto& parameter) { return std::string(traits(parameter.param).name); });

TEST(FastPrefillEngine, GoesOnDecodingAfterAFastPrompt) {
    const std::string model = write_tiny_model("fast_decode");
    const std::shared_ptr<Engine> engine = load_engine(model, {.threads = 2, .prefill = Prefill::Fast});
    Sequence sequence(engine, greedy());
    ASSERT_TRUE(sequence.append(make_prompt(100)).ok());
    const Generation generated = generate(*engine, sequence, 20);
    EXPECT_EQ(generated.tokens.size(), 20u);
}

TEST(FastPrefillEngine, ManySequencesThatDecodeTogetherAreExact) {
    const std::string model = write_tiny_model("fast_batch");
    constexpr std::size_t kSequences = 40;
    std::vector<std::vector<float>> answers;
    for (const Prefill prefill : {Prefill::Exact, Prefill::Fast}) {
        const std::shared_ptr<Engine> engine =
            load_engine(model, {.threads = 2, .kv_blocks = 2 * kSequences, .prefill = prefill});
        std::vector<std::unique_ptr<Sequence>> sequences;
        std::vector<Feed> feeds;
        for (std::uint32_t i = 0; i < kSequences; ++i) {
            sequences.push_back(std::make_unique<Sequence>(engine, greedy()));
            ASSERT_TRUE(sequences.back()->append(make_prompt(2, i + 1)).ok());
            feeds.push_back({sequences.back().get(), 2, Want::Last});
        }
        const Result<Logits> logits = engine->forward(feeds);
        ASSERT_TRUE(logits.ok()) << logits.error().message;
        answers.emplace_back(logits->values.begin(), logits->values.end());
    }
    EXPECT_EQ(answers[0], answers[1]);
}

TEST(FastPrefillEngine, SaysWhetherItIsFast) {
    const std::string model = write_tiny_model("fast_says");
    EXPECT_EQ(load_engine(model, {.threads = 1})->prefill(), Prefill::Exact);
    EXPECT_EQ(load_engine(model, {.threads = 1, .isa = "reference", .prefill = Prefill::Fast})->prefill(),
              Prefill::Exact);
    EXPECT_EQ(load_engine(model, {.threads = 1, .prefill = Prefill::Fast, .pack = PackMode::Off})->prefill(),
              Prefill::Exact);
    if (level_has_fast_kernels()) {
        EXPECT_EQ(load_engine(model, {.threads = 1, .prefill = Prefill::Fast})->prefill(), Prefill::Fast);
    }
}

}  // namespace
}  // namespace hearth
