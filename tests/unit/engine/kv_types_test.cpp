// Quantised KV caches: smaller, near f16, and with everything that is done with blocks just the same.
#include <cmath>

#include "engine/engine_state.h"
#include "scheduler_support.h"

namespace hearth {
namespace {

using namespace test;

class KvTypes : public ::testing::TestWithParam<KvType> {
protected:
    std::string model_ = write_tiny_model("kv_" + std::string(kv_type_name(GetParam())));

    std::shared_ptr<Engine> load(std::size_t blocks = 40) {
        return load_engine(
            model_, {.threads = 2, .context = 512, .batch_rows = 128, .kv_type = GetParam(), .kv_blocks = blocks});
    }
};

TEST_P(KvTypes, BlocksAreSmallerAndMoreOfThemFitIntoTheSameMemory) {
    const std::size_t f16 = load_engine(model_, {.threads = 1})->kv_layout().block_bytes();
    const std::size_t own = load()->kv_layout().block_bytes();
    // 34 and 18 bytes for 32 values instead of 64.
    EXPECT_EQ(own * 64, f16 * (GetParam() == KvType::Q8 ? 34 : 18));
    EngineOptions options{.threads = 1, .kv_size = KvSize::FreeMemory, .kv_bytes = 100 * f16};
    EXPECT_EQ(load_engine(model_, options)->kv_block_count(), 100u);
    options.kv_type = GetParam();
    EXPECT_EQ(load_engine(model_, options)->kv_block_count(), 100 * f16 / own);
}

TEST_P(KvTypes, AreNearTheHalvesAndNotEqualToThem) {
    std::vector<std::vector<float>> logits;
    for (const KvType type : {KvType::F16, GetParam()}) {
        const std::shared_ptr<Engine> engine = load_engine(model_, {.threads = 1, .kv_type = type});
        Sequence sequence(engine, greedy());
        ASSERT_TRUE(sequence.append(make_prompt(150)).ok());
        const Result<Logits> last = forward_pending(*engine, sequence);
        ASSERT_TRUE(last.ok());
        logits.emplace_back(last->values.begin(), last->values.end());
    }
    double difference = 0;
    double size = 0;
    for (std::size_t i = 0; i < logits[0].size(); ++i) {
        difference += std::pow(static_cast<double>(logits[1][i]) - static_cast<double>(logits[0][i]), 2);
        size += std::pow(static_cast<double>(logits[0][i]), 2);
    }
    EXPECT_GT(difference, 0);
    EXPECT_LT(std::sqrt(difference / size), GetParam() == KvType::Q8 ? 0.05 : 0.3);
}

TEST_P(KvTypes, AParkedSequenceGoesOnTheSame) {
    const std::shared_ptr<Engine> engine = load();
    Sequence straight(engine, greedy());
    ASSERT_TRUE(straight.append(make_prompt(100)).ok());
    const Generation expected = generate(*engine, straight, 60);
    Sequence parked(engine, greedy());
    ASSERT_TRUE(parked.append(make_prompt(100)).ok());
    Generation run;
    for (int i = 0; i < 30; ++i) decode_one(*engine, parked, run);
    parked.park();
    ASSERT_TRUE(parked.unpark().ok());
    for (int i = 0; i < 30; ++i) decode_one(*engine, parked, run);
    EXPECT_EQ(run, expected);
}

TEST_P(KvTypes, AForkCopiesASharedBlockWhole) {
    const std::shared_ptr<Engine> engine = load();
    Sequence straight(engine, greedy());
    ASSERT_TRUE(straight.append(make_prompt(90)).ok());
    const Generation expected = generate(*engine, straight, 20);
    // Both write behind position 90 of the second block; whoever is second works on a copy.
    Sequence first(engine, greedy());
    ASSERT_TRUE(first.append(make_prompt(90)).ok());
    ASSERT_TRUE(forward_pending(*engine, first).ok());
    Sequence second = first.fork(Time{90}).value();
    const TokenId stray[] = {7};
    ASSERT_TRUE(first.append(stray).ok());
    ASSERT_TRUE(forward_pending(*engine, first).ok());
    EXPECT_EQ(generate(*engine, second, 20), expected);
}

TEST_P(KvTypes, AKnownPrefixSaysTheSame) {
    Scheduler scheduler(load(), {});
    const Submitted cold = submit(scheduler, make_request(make_prompt(200), 20, drawing(4)));
    const HeardChoice first = cold.sink->wait_one();
    const Submitted warm = submit(scheduler, make_request(make_prompt(200), 20, drawing(4)));
    EXPECT_EQ(warm.sink->wait_one().tokens, first.tokens);
    EXPECT_EQ(warm.sink->usage().cached_tokens, 199u);
}

// Too few blocks for all: the youngest gives way and computes again.
TEST_P(KvTypes, AnswersThatHadToGiveWaySayTheSame) {
    const std::shared_ptr<Engine> engine = load(9);
    std::vector<HeardChoice> alone;
    const auto request = [](std::uint32_t i) { return make_request(make_prompt(60 + i, i + 1), 100, drawing(i)); };
    for (std::uint32_t i = 0; i < 4; ++i) alone.push_back(answer_alone(engine, request(i)));
    StepGate gate;
    Scheduler scheduler(engine, {}, [&](const StepReport&) { gate.pass(); });
    std::vector<Submitted> submitted;
    submitted.push_back(submit(scheduler, request(0)));
    gate.stop_after(1);
    for (std::uint32_t i = 1; i < 4; ++i) submitted.push_back(submit(scheduler, request(i)));
    gate.open();
    for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(submitted[i].sink->wait_one().tokens, alone[i].tokens) << i;
    EXPECT_GT(scheduler.stats().preemptions, 0u);
}

INSTANTIATE_TEST_SUITE_P(Types, KvTypes, ::testing::Values(KvType::Q8, KvType::Q4),
                         [](const auto& type) { return std::string(kv_type_name(type.param)); });

}  // namespace
}  // namespace hearth
