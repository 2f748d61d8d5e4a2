// Nothing computed twice: prompts that begin alike share what was computed, and the text does not show it.
#include <gtest/gtest.h>

#include "scheduler_support.h"

namespace hearth {
namespace {

using namespace test;
using namespace std::chrono_literals;

class PrefixReuse : public ::testing::Test {
protected:
    std::string model_ = write_tiny_model("prefix_reuse");
    std::shared_ptr<Engine> engine_ = load(200);

    std::shared_ptr<Engine> load(std::size_t blocks) {
        return load_engine(model_, {.threads = 2, .context = 512, .batch_rows = 128, .kv_blocks = blocks});
    }
    static AnswerRequest scoped(std::vector<TokenId> prompt, const std::string& scope, std::size_t tokens = 20) {
        AnswerRequest request = make_request(std::move(prompt), tokens, drawing(4));
        request.scope = scope;
        return request;
    }
};

TEST_F(PrefixReuse, TheSamePromptIsComputedOnceAndSaysTheSame) {
    Scheduler scheduler(engine_, {});
    const Submitted cold = submit(scheduler, scoped(make_prompt(200), "a"));
    const HeardChoice first = cold.sink->wait_one();
    EXPECT_EQ(cold.sink->usage().cached_tokens, 0u);
    EXPECT_EQ(cold.sink->usage().cache_note, "no prompt with this beginning in this scope");
    const Submitted warm = submit(scheduler, scoped(make_prompt(200), "a"));
    EXPECT_EQ(warm.sink->wait_one().text, first.text);
    EXPECT_EQ(warm.sink->wait_one().tokens, first.tokens);
    EXPECT_EQ(warm.sink->usage().cached_tokens, 199u);  // the last token's logits are needed
    EXPECT_EQ(warm.sink->usage().cache_note, "found whole");
    const Submitted stranger = submit(scheduler, scoped(make_prompt(200), "b"));
    EXPECT_EQ(stranger.sink->wait_one().text, first.text);
    EXPECT_EQ(stranger.sink->usage().cached_tokens, 0u);
    EXPECT_EQ(scheduler.stats().cached_tokens, 199u);
}

TEST_F(PrefixReuse, AConversationGoesOnFromItsOwnAnswer) {
    Scheduler scheduler(engine_, {});
    std::vector<TokenId> conversation = make_prompt(70);
    for (std::uint32_t turn = 0; turn < 4; ++turn) {
        const AnswerRequest reference = scoped(conversation, "a");
        const std::size_t known = conversation.size();
        const Submitted answer = submit(scheduler, scoped(conversation, "a"));
        const HeardChoice heard = answer.sink->wait_one();
        if (turn > 0) {
            // Everything up to the last generated token, whose K and V nobody needed, and the new words.
            EXPECT_EQ(answer.sink->usage().cached_tokens, known - 12) << turn;
            EXPECT_EQ(answer.sink->usage().cache_note,
                      "differs from the nearest at token " + std::to_string(known - 12));
        }
        HeardChoice alone;
        scheduler.run_between_steps([&] { alone = answer_alone(engine_, reference); });
        submit(scheduler, scoped(make_prompt(2, 999), "other", 1)).sink->wait();  // after the task
        EXPECT_EQ(heard.tokens, alone.tokens);
        EXPECT_EQ(heard.text, alone.text);
        conversation.insert(conversation.end(), heard.tokens.begin(), heard.tokens.end());
        const std::vector<TokenId> words = make_prompt(12, 100 + turn);
        conversation.insert(conversation.end(), words.begin() + 1, words.end());
    }
}

TEST_F(PrefixReuse, PromptsThatComeTogetherComputeTheirCommonBeginningOnce) {
    std::vector<TokenId> shared = make_prompt(400);
    StepGate gate;
    std::size_t prompt_rows = 0;
    std::vector<Submitted> submitted;
    {
        Scheduler scheduler(engine_, {}, [&](const StepReport& report) {
            prompt_rows += report.prompt_rows;
            gate.pass();
        });
        for (std::uint32_t i = 0; i < 3; ++i) {
            std::vector<TokenId> prompt = shared;
            const std::vector<TokenId> rest = make_prompt(21, 50 + i);
            prompt.insert(prompt.end(), rest.begin() + 1, rest.end());
            submitted.push_back(submit(scheduler, scoped(std::move(prompt), "a")));
            if (i == 0) gate.stop_after(1);  // the others arrive while the first is at work
        }
        gate.open();
        for (const Submitted& one : submitted) one.sink->wait();
        EXPECT_EQ(submitted[0].sink->usage().cached_tokens, 0u);
        EXPECT_GE(submitted[1].sink->usage().cached_tokens, 384u);
        EXPECT_GE(submitted[2].sink->usage().cached_tokens, 384u);
        ASSERT_TRUE(scheduler.drain(SchedulerClock::now() + 60s));
    }
    EXPECT_LE(prompt_rows, 420u + 2 * 36u);
    for (std::uint32_t i = 0; i < 3; ++i) {
        std::vector<TokenId> prompt = shared;
        const std::vector<TokenId> rest = make_prompt(21, 50 + i);
        prompt.insert(prompt.end(), rest.begin() + 1, rest.end());
        EXPECT_EQ(submitted[i].sink->wait_one().tokens, answer_alone(engine_, scoped(prompt, "a")).tokens) << i;
    }
}

TEST_F(PrefixReuse, OldPrefixesGiveWayToNewPrompts) {
    const std::shared_ptr<Engine> small = load(12);
    {
        Scheduler scheduler(small, {});
        for (std::uint32_t i = 0; i < 10; ++i) {
            const Submitted one = submit(scheduler, scoped(make_prompt(256, i + 1), "a", 5));
            one.sink->wait();
            EXPECT_FALSE(one.sink->error());
        }
        const Submitted oldest = submit(scheduler, scoped(make_prompt(256, 1), "a", 5));
        oldest.sink->wait();
        EXPECT_EQ(oldest.sink->usage().cached_tokens, 1u);  // the token every prompt begins with
        EXPECT_EQ(oldest.sink->usage().cache_note, "evicted from token 1 on");
        EXPECT_EQ(scheduler.stats().preemptions, 0u);
        const SchedulerStats stats = scheduler.stats();
        EXPECT_EQ(stats.kv_blocks, 12u);
    }
    EXPECT_EQ(small->kv_blocks_free(), 12u);
}

TEST_F(PrefixReuse, AllBlocksAreFreeOrCachedWhenNothingRuns) {
    Scheduler scheduler(engine_, {});
    for (std::uint32_t i = 0; i < 6; ++i) {
        AnswerRequest request = scoped(make_prompt(30 * i + 1, i % 2), "a", 10);
        request.choices = 1 + i % 3;
        submit(scheduler, std::move(request)).sink->wait();
    }
    ASSERT_TRUE(scheduler.drain(SchedulerClock::now() + 60s));
    const SchedulerStats stats = scheduler.stats();
    EXPECT_GT(stats.kv_blocks_cached, 0u);
    EXPECT_EQ(stats.kv_blocks_free + stats.kv_blocks_cached, stats.kv_blocks);
}

TEST_F(PrefixReuse, NoMoreIsKeptThanTheOptionAllows) {
    const std::size_t block_bytes = engine_->info().kv_layout().block_bytes();
    Scheduler scheduler(engine_, {.prefix_bytes = 3 * block_bytes});
    for (std::uint32_t i = 0; i < 4; ++i) submit(scheduler, scoped(make_prompt(150, i + 1), "a", 5)).sink->wait();
    ASSERT_TRUE(scheduler.drain(SchedulerClock::now() + 60s));
    EXPECT_LE(scheduler.stats().kv_blocks_cached, 3u);
}

}  // namespace
}  // namespace hearth
