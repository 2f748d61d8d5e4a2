// The engine's edges: limits, errors that name both figures, stop strings, state of the text across time.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include "engine_support.h"

namespace hearth {
namespace {

using namespace test;

class EngineTest : public ::testing::Test {
protected:
    std::shared_ptr<Engine> engine_ = load_engine(write_tiny_model("engine"), {.threads = 2, .context = 256});
};

TEST_F(EngineTest, APromptOfExactlyTheContextFitsAndOneMoreIsRefusedWithBothCounts) {
    Sequence fits(engine_, greedy());
    EXPECT_TRUE(fits.append(make_prompt(256)).ok());
    EXPECT_TRUE(forward_pending(*engine_, fits).ok());
    std::string text;
    const Status full = fits.accept(5, text);
    ASSERT_FALSE(full.ok());
    EXPECT_NE(full.error().message.find("256"), std::string::npos);
    Sequence over(engine_, greedy());
    const Status refused = over.append(make_prompt(257));
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("257"), std::string::npos);
    EXPECT_NE(refused.error().message.find("256"), std::string::npos);
    EXPECT_EQ(over.length(), 0u);
}

TEST_F(EngineTest, ATokenOutsideTheVocabularyIsRefusedAndNothingIsAdded) {
    Sequence sequence(engine_, greedy());
    const TokenId tokens[] = {1, 5, 99'999};
    EXPECT_FALSE(sequence.append(tokens).ok());
    EXPECT_EQ(sequence.length(), 0u);
    const TokenId negative[] = {-1};
    EXPECT_FALSE(sequence.append(negative).ok());
}

TEST_F(EngineTest, AnEmptySequenceHasNothingToCompute) {
    Sequence sequence(engine_, greedy());
    EXPECT_FALSE(forward_pending(*engine_, sequence).ok());
}

TEST_F(EngineTest, RegressingIntoTheFutureIsAnError) {
    Sequence sequence(engine_, greedy());
    ASSERT_TRUE(sequence.append(make_prompt(10)).ok());
    EXPECT_FALSE(sequence.regress(Time{11}).ok());
    EXPECT_FALSE(sequence.fork(Time{11}).ok());
    EXPECT_TRUE(sequence.regress(Time{0}).ok());
    EXPECT_EQ(sequence.length(), 0u);
}

TEST_F(EngineTest, AFeedLargerThanAStepIsRefused) {
    const std::shared_ptr<Engine> small =
        load_engine(write_tiny_model("small_steps"), {.threads = 1, .batch_rows = 16, .wanted_rows = 4});
    Sequence sequence(small, greedy());
    ASSERT_TRUE(sequence.append(make_prompt(100)).ok());
    const Feed too_long{&sequence, 17, Want::Last};
    EXPECT_FALSE(small->forward({&too_long, 1}).ok());
    const Feed too_wanted{&sequence, 5, Want::All};
    EXPECT_FALSE(small->forward({&too_wanted, 1}).ok());
    EXPECT_EQ(sequence.computed(), 0u);
    EXPECT_TRUE(forward_pending(*small, sequence).ok());  // in steps of 16
}

TEST_F(EngineTest, LogitsOfAllRowsAreThoseOfEachRowAlone) {
    Sequence together(engine_, greedy());
    ASSERT_TRUE(together.append(make_prompt(20)).ok());
    const Feed feed{&together, 20, Want::All};
    const Logits all = engine_->forward({&feed, 1}).value();
    ASSERT_EQ(all.rows(), 20u);
    const std::vector<float> kept(all.values.begin(), all.values.end());
    Sequence single(engine_, greedy());
    ASSERT_TRUE(single.append(make_prompt(20)).ok());
    for (std::size_t i = 0; i < 20; ++i) {
        const Feed one{&single, 1, Want::Last};
        const Logits row = engine_->forward({&one, 1}).value();
        ASSERT_EQ(hash_logits(row.values, 0),
                  hash_logits(std::span(kept).subspan(i * all.vocabulary, all.vocabulary), 0))
            << i;
    }
}

TEST_F(EngineTest, RecomputingTheLastTokenGivesTheSameLogits) {
    Sequence sequence(engine_, greedy());
    ASSERT_TRUE(sequence.append(make_prompt(70)).ok());
    const std::uint64_t once = hash_logits(forward_pending(*engine_, sequence)->values, 0);
    const std::uint64_t again = hash_logits(forward_pending(*engine_, sequence)->values, 0);
    EXPECT_EQ(once, again);
}

TEST_F(EngineTest, StopStringsAreCutOutAndSurviveRegression) {
    auto stops = std::make_shared<const StopStrings>(std::vector<std::string>{"bcd"});
    const Tokenizer& tokenizer = engine_->tokenizer();
    const auto letter = [&](const char* text) { return tokenizer.find(text).value(); };
    Sequence sequence(engine_, greedy(), stops);
    const TokenId bos[] = {1};
    ASSERT_TRUE(sequence.append(bos).ok());
    std::string text;
    ASSERT_TRUE(sequence.accept(letter("a"), text).ok());
    EXPECT_EQ(text, "a");
    ASSERT_TRUE(sequence.accept(letter("b"), text).ok());
    EXPECT_EQ(text, "a");  // held back: it may become the stop
    const Time held = sequence.mark();
    ASSERT_TRUE(sequence.accept(letter("x"), text).ok());
    EXPECT_EQ(text, "abx");
    ASSERT_TRUE(sequence.regress(held).ok());
    text = "a";
    ASSERT_TRUE(sequence.accept(letter("c"), text).ok());
    ASSERT_TRUE(sequence.accept(letter("d"), text).ok());
    EXPECT_TRUE(sequence.stopped());
    EXPECT_EQ(text, "a");
    ASSERT_TRUE(sequence.regress(held).ok());
    EXPECT_FALSE(sequence.stopped());
    text = "a";
    sequence.finish_text(text);
    EXPECT_EQ(text, "ab");
}

TEST_F(EngineTest, AHalfCharacterIsHeldBackAcrossAFork) {
    const auto byte = [&](const char* text) { return engine_->tokenizer().find(text).value(); };
    Sequence sequence(engine_, greedy());
    const TokenId bos[] = {1};
    ASSERT_TRUE(sequence.append(bos).ok());
    std::string text;
    ASSERT_TRUE(sequence.accept(byte("<0xC3>"), text).ok());
    EXPECT_EQ(text, "");
    Sequence sibling = sequence.fork(sequence.mark()).value();
    ASSERT_TRUE(sequence.accept(byte("<0xA9>"), text).ok());
    EXPECT_EQ(text, "\xc3\xa9");
    std::string other;
    ASSERT_TRUE(sibling.accept(byte("<0xA8>"), other).ok());
    EXPECT_EQ(other, "\xc3\xa8");
}

TEST_F(EngineTest, SamplingDoesNotDependOnThePath) {
    SamplingOptions options;
    options.seed = 42;
    options.temperature = 1.0f;
    options.repetition_penalty = 1.1f;
    const auto shared = std::make_shared<const SamplingOptions>(options);
    Sequence straight(engine_, shared);
    ASSERT_TRUE(straight.append(make_prompt(30)).ok());
    const Generation expected = generate(*engine_, straight, 40);
    Sequence wandering(engine_, shared);
    ASSERT_TRUE(wandering.append(make_prompt(30)).ok());
    const Time start = wandering.mark();
    generate(*engine_, wandering, 11);
    ASSERT_TRUE(wandering.regress(start).ok());
    EXPECT_EQ(generate(*engine_, wandering, 40), expected);
}

TEST(Engine, ANanWeightEndsTheSequenceWithAnError) {
    const std::shared_ptr<Engine> engine = load_engine(write_tiny_model("nan", {.nan_weight = true}), {.threads = 1});
    Sequence sequence(engine, greedy());
    ASSERT_TRUE(sequence.append(make_prompt(5)).ok());
    const Result<Logits> logits = forward_pending(*engine, sequence);
    ASSERT_TRUE(logits.ok());
    const Result<SampledToken> sampled = sequence.sample(logits->sampler_row(0));
    ASSERT_FALSE(sampled.ok());
    EXPECT_NE(sampled.error().message.find("NaN"), std::string::npos);
}

TEST(Engine, MoreThanTheMemoryIsRefusedUpFrontWithBothFigures) {
    const Result<std::shared_ptr<Engine>> engine =
        Engine::load(write_tiny_model("huge"), {.threads = 1, .context = std::size_t{1} << 34});
    ASSERT_FALSE(engine.ok());
    EXPECT_EQ(engine.error().code, ErrorCode::OutOfResources);
    EXPECT_NE(engine.error().message.find("needs"), std::string::npos);
    EXPECT_NE(engine.error().message.find("available"), std::string::npos);
}

TEST(Engine, WithoutAFreeBlockAppendingFailsAndTheOthersGoOn) {
    const std::shared_ptr<Engine> engine = load_engine(write_tiny_model("few_blocks"), {.threads = 1, .kv_blocks = 3});
    Sequence first(engine, greedy());
    ASSERT_TRUE(first.append(make_prompt(128)).ok());
    Sequence second(engine, greedy());
    const Status status = second.append(make_prompt(65));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::OutOfResources);
    EXPECT_EQ(second.length(), 0u);
    EXPECT_TRUE(forward_pending(*engine, first).ok());
    ASSERT_TRUE(second.append(make_prompt(64)).ok());
    EXPECT_TRUE(forward_pending(*engine, second).ok());
}

}  // namespace
}  // namespace hearth
