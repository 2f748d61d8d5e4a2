// A trained model: stories260K must tell, greedily and in f32, exactly the story llama2.c tells.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/mapped_file.h"
#include "engine/engine.h"
#include "engine/sequence.h"

namespace hearth {
namespace {

constexpr std::size_t kSteps = 200;

// llama2.c's loop: 200 steps in all, the first of which reads BOS; a second BOS ends the story.
std::string tell_story(const std::shared_ptr<Engine>& engine, std::size_t steps) {
    SamplingOptions options;
    options.temperature = 0;
    Sequence sequence(engine, std::make_shared<SamplingOptions>(options));
    const TokenId bos = engine->tokenizer().bos().value_or(1);
    EXPECT_TRUE(sequence.append(std::span(&bos, 1)).ok());
    std::string text;
    for (std::size_t step = 0; step < steps; ++step) {
        const Result<Logits> logits = forward_pending(*engine, sequence, 64);
        EXPECT_TRUE(logits.ok()) << logits.error().message;
        if (!logits.ok()) return text;
        const Result<SampledToken> next = sequence.sample(logits->sampler_row(logits->rows() - 1));
        EXPECT_TRUE(next.ok()) << next.error().message;
        if (!next.ok() || next->token == bos) return text;
        EXPECT_TRUE(sequence.accept(next->token, text).ok());
    }
    return text;
}

TEST(Stories260K, TellsTheStoryOfTheOriginal) {
    const std::string model = HEARTH_STORIES_GGUF;
    if (model.empty()) GTEST_SKIP() << "HEARTH_SHARED_DATA is not set: the trained model is not here";
    const Result<std::shared_ptr<Engine>> engine = Engine::load(model, EngineOptions{});
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    const Result<std::string> expected = read_file(HEARTH_SHARED_DATA "/stories260K/expected.txt", 1 << 16);
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    EXPECT_EQ(tell_story(engine.value(), kSteps), expected.value());
}

}  // namespace
}  // namespace hearth
