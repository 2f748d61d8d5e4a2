// Who gets KV blocks when there are few: paused answers give theirs, and what waits takes nothing in the meantime.
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <utility>
#include <vector>

#include "scheduler_support.h"

namespace hearth {
namespace {

using namespace test;

class SchedulerBlocksTest : public ::testing::Test {
protected:
    std::string model_ = write_tiny_model("scheduler_blocks");
    std::shared_ptr<Engine> engine_ = load(100);
    std::shared_ptr<Engine> small_ = load(10);

    std::shared_ptr<Engine> load(std::size_t blocks) {
        return load_engine(model_, {.threads = 2, .context = 512, .batch_rows = 128, .kv_blocks = blocks});
    }
};

// An answer that holds most of ten blocks and whose reader does not read.
class PausedAnswer {
public:
    explicit PausedAnswer(Scheduler& scheduler) : scheduler_(&scheduler) {
        sink->on_token = [this](const TokenEvent&) {
            if (!resumed_) scheduler_->pause(id);
        };
        scheduler.run_between_steps([this] {
            AnswerRequest request = make_request(make_prompt(300), kTokens);
            request.sink = sink;
            id = scheduler_->submit(std::move(request)).value();
        });
        sink->wait_for_tokens(1);
    }
    const HeardChoice& resume() {
        scheduler_->run_between_steps([this] {
            resumed_ = true;
            scheduler_->resume(id);
        });
        return sink->wait_one();
    }
    static constexpr std::size_t kTokens = 50;
    std::shared_ptr<ListeningSink> sink = std::make_shared<ListeningSink>();
    AnswerId id = 0;

private:
    Scheduler* scheduler_;
    bool resumed_ = false;  // on the scheduler's thread
};

TEST_F(SchedulerBlocksTest, ANewAnswerTakesTheBlocksOfAPausedOne) {
    const HeardChoice long_alone = answer_alone(engine_, make_request(make_prompt(300), PausedAnswer::kTokens));
    const HeardChoice alone = answer_alone(engine_, make_request(make_prompt(400, 2), 20));
    Scheduler scheduler(small_, {});
    PausedAnswer paused(scheduler);
    const Submitted next = submit(scheduler, make_request(make_prompt(400, 2), 20));
    EXPECT_EQ(next.sink->wait_one().tokens, alone.tokens);
    EXPECT_FALSE(next.sink->error()) << next.sink->error()->message;
    EXPECT_EQ(scheduler.stats().preemptions, 1u);
    EXPECT_EQ(paused.resume().tokens, long_alone.tokens);
}

TEST_F(SchedulerBlocksTest, AContinuedTimelineTakesTheBlocksOfAPausedAnswer) {
    std::vector<TokenId> whole = make_prompt(100, 2);
    const std::vector<TokenId> more = make_prompt(300, 3);
    whole.insert(whole.end(), more.begin(), more.end());
    const HeardChoice long_alone = answer_alone(engine_, make_request(make_prompt(300), PausedAnswer::kTokens));
    const HeardChoice alone = answer_alone(engine_, make_request(whole, 20));
    AnswerRequest request = make_request(more, 20);
    request.from.emplace(small_, greedy());
    ASSERT_TRUE(request.from->append(make_prompt(100, 2)).ok());
    Scheduler scheduler(small_, {});
    PausedAnswer paused(scheduler);
    const Submitted next = submit(scheduler, std::move(request));
    EXPECT_EQ(next.sink->wait_one().tokens, alone.tokens);
    EXPECT_FALSE(next.sink->error()) << next.sink->error()->message;
    EXPECT_EQ(paused.resume().tokens, long_alone.tokens);
}

TEST_F(SchedulerBlocksTest, AnEmbeddingTakesTheBlocksOfAPausedAnswer) {
    const HeardChoice long_alone = answer_alone(engine_, make_request(make_prompt(300), PausedAnswer::kTokens));
    Scheduler scheduler(small_, {});
    PausedAnswer paused(scheduler);
    std::promise<Result<std::vector<float>>> embedding;
    EmbeddingRequest request{make_prompt(400, 2),
                             [&](Result<std::vector<float>> result) { embedding.set_value(std::move(result)); }};
    ASSERT_TRUE(scheduler.submit_embedding(std::move(request)).ok());
    const Result<std::vector<float>> mean = embedding.get_future().get();
    EXPECT_TRUE(mean.ok()) << mean.error().message;
    EXPECT_EQ(paused.resume().tokens, long_alone.tokens);
}

TEST_F(SchedulerBlocksTest, AnEmbeddingThatWaitsForBlocksLeavesThePrefixTreeAlone) {
    StepGate gate;
    const std::shared_ptr<Engine> twelve = load(12);
    Scheduler scheduler(twelve, {}, [&](const StepReport&) { gate.pass(); });
    const Submitted first = submit(scheduler, make_request(make_prompt(120, 2), 5));
    gate.stop_after(4);
    const Submitted running = submit(scheduler, make_request(make_prompt(300), 10));
    gate.stop_after(9);  // 5 of the first; the prompt takes 3; and a token
    const std::size_t cached = scheduler.stats().kv_blocks_cached;
    EXPECT_GT(cached, 0u);
    Result<std::vector<float>> embedding = Error{ErrorCode::Failed, "never called"};
    ASSERT_TRUE(scheduler
                    .submit_embedding(EmbeddingRequest{
                        make_prompt(510, 3),
                        [&](Result<std::vector<float>> result) { embedding = std::move(result); },
                    })
                    .ok());
    gate.stop_after(12);
    EXPECT_EQ(scheduler.stats().kv_blocks_cached, cached);
    gate.open();
    running.sink->wait();
    ASSERT_TRUE(scheduler.drain(SchedulerClock::now() + std::chrono::seconds(60)));
    EXPECT_TRUE(embedding.ok());
}

TEST_F(SchedulerBlocksTest, CancellingAQueuedEmbeddingKeepsTheOrderOfTheOthers) {
    StepGate gate;
    Scheduler scheduler(engine_, {}, [&](const StepReport&) { gate.pass(); });
    std::vector<std::string> ends;
    const auto embed = [&](const std::string& name) {
        const auto done = [&ends, name](const Result<std::vector<float>>& result) {
            ends.push_back(name + (result.ok() ? "" : " " + result.error().message));
        };
        return scheduler.submit_embedding(EmbeddingRequest{make_prompt(300), done}).value();
    };
    embed("first");
    embed("second");
    const AnswerId third = embed("third");
    gate.stop_after(1);
    scheduler.cancel(third);
    gate.open();
    ASSERT_TRUE(scheduler.drain(SchedulerClock::now() + std::chrono::seconds(60)));
    EXPECT_EQ(ends, (std::vector<std::string>{"third cancelled", "first", "second"}));
}

}  // namespace
}  // namespace hearth
