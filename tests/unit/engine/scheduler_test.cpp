// The scheduler: an answer is the same whoever it shares the engine with, and every order takes effect at once.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/engine_state.h"
#include "scheduler_support.h"

namespace hearth {
namespace {

using namespace test;
using namespace std::chrono_literals;

SchedulerClock::time_point soon() {
    return SchedulerClock::now() + 60s;
}

class SchedulerTest : public ::testing::Test {
protected:
    static constexpr std::size_t kContext = 512;
    std::string model_ = write_tiny_model("scheduler");
    std::shared_ptr<Engine> engine_ = load(300);

    std::shared_ptr<Engine> load(std::size_t blocks) {
        return load_engine(model_, {.threads = 2, .context = kContext, .batch_rows = 128, .kv_blocks = blocks});
    }
};

TEST_F(SchedulerTest, SixteenRaggedAnswersSayWhatEachSaysAlone) {
    constexpr std::size_t kAnswers = 16;
    std::vector<AnswerRequest> requests;
    std::vector<HeardChoice> alone;
    for (std::size_t i = 0; i < kAnswers; ++i) {
        const std::uint32_t seed = static_cast<std::uint32_t>(i + 1);
        AnswerRequest request =
            make_request(make_prompt(1 + i * 23, seed), 5 + i * 5, i % 2 == 0 ? greedy() : drawing(seed));
        if (i % 3 == 0) request.stops = std::make_shared<const StopStrings>(std::vector<std::string>{"e", "th"});
        alone.push_back(answer_alone(engine_, request));
        requests.push_back(std::move(request));
    }
    Scheduler scheduler(engine_, {});
    std::vector<Submitted> submitted;
    for (AnswerRequest& request : requests) submitted.push_back(submit(scheduler, std::move(request)));
    for (std::size_t i = 0; i < kAnswers; ++i) {
        const HeardChoice& heard = submitted[i].sink->wait_one();
        EXPECT_EQ(heard.tokens, alone[i].tokens) << i;
        EXPECT_EQ(heard.text, alone[i].text) << i;
        EXPECT_FALSE(submitted[i].sink->error()) << submitted[i].sink->error()->message;
        EXPECT_EQ(submitted[i].sink->usage().prompt_tokens, 1 + i * 23);
        EXPECT_EQ(submitted[i].sink->usage().generated_tokens, alone[i].tokens.size());
    }
    EXPECT_EQ(scheduler.stats().preemptions, 0u);
}

TEST_F(SchedulerTest, PreemptedAnswersSayWhatTheySayAlone) {
    const std::shared_ptr<Engine> small = load(14);
    std::vector<AnswerRequest> requests;
    std::vector<HeardChoice> alone;
    for (std::uint32_t i = 0; i < 6; ++i) {
        requests.push_back(make_request(make_prompt(50 + 7 * i, i + 1), 150, i % 2 == 0 ? greedy() : drawing(i)));
        requests.back().stops = std::make_shared<const StopStrings>(std::vector<std::string>{"never said"});
        alone.push_back(answer_alone(engine_, requests.back()));
    }
    {
        Scheduler scheduler(small, {});
        std::vector<Submitted> submitted;
        for (AnswerRequest& request : requests) submitted.push_back(submit(scheduler, std::move(request)));
        for (std::size_t i = 0; i < submitted.size(); ++i) {
            const HeardChoice& heard = submitted[i].sink->wait_one();
            EXPECT_FALSE(submitted[i].sink->error()) << submitted[i].sink->error()->message;
            EXPECT_EQ(heard.tokens, alone[i].tokens) << i;
            EXPECT_EQ(heard.text, alone[i].text) << i;
        }
        EXPECT_GT(scheduler.stats().preemptions, 0u);
    }
    EXPECT_EQ(small->kv_blocks_free(), 14u);
}

TEST_F(SchedulerTest, AnAnswerThatOutgrowsAllBlocksFailsAndTheNextRuns) {
    const std::shared_ptr<Engine> small = load(3);
    Scheduler scheduler(small, {});
    const Submitted big = submit(scheduler, make_request(make_prompt(150), 200));
    big.sink->wait();
    ASSERT_TRUE(big.sink->error());
    EXPECT_EQ(big.sink->error()->code, ErrorCode::OutOfResources);
    EXPECT_EQ(big.sink->wait_one().reason, FinishReason::Failed);
    const Submitted next = submit(scheduler, make_request(make_prompt(100), 20));
    EXPECT_EQ(next.sink->wait_one().tokens.size(), 20u);
    EXPECT_FALSE(next.sink->error());
}

TEST_F(SchedulerTest, FourChoicesAreFourRequestsWithTheirSeeds) {
    std::vector<HeardChoice> alone;
    for (std::uint64_t seed = 7; seed < 11; ++seed) {
        alone.push_back(answer_alone(engine_, make_request(make_prompt(100), 80, drawing(seed))));
    }
    Scheduler scheduler(engine_, {});
    AnswerRequest request = make_request(make_prompt(100), 80, drawing(7));
    request.choices = 4;
    const Submitted submitted = submit(scheduler, std::move(request));
    const auto& choices = submitted.sink->wait();
    ASSERT_EQ(choices.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(choices.at(i).tokens, alone[i].tokens) << i;
        EXPECT_EQ(choices.at(i).text, alone[i].text) << i;
        EXPECT_EQ(choices.at(i).reason, FinishReason::Length);
    }
    EXPECT_EQ(submitted.sink->usage().prompt_tokens, 100u);
    EXPECT_EQ(submitted.sink->usage().generated_tokens, 320u);
    EXPECT_EQ(scheduler.stats().prompt_tokens, 100u);  // computed once
}

TEST_F(SchedulerTest, ChoicesThatArePreemptedAreStillTheSame) {
    const std::shared_ptr<Engine> small = load(9);
    std::vector<HeardChoice> alone;
    for (std::uint64_t seed = 7; seed < 11; ++seed) {
        alone.push_back(answer_alone(engine_, make_request(make_prompt(100), 150, drawing(seed))));
    }
    Scheduler scheduler(small, {});
    AnswerRequest request = make_request(make_prompt(100), 150, drawing(7));
    request.choices = 4;
    const Submitted submitted = submit(scheduler, std::move(request));
    const auto& choices = submitted.sink->wait();
    EXPECT_FALSE(submitted.sink->error());
    EXPECT_GT(scheduler.stats().preemptions, 0u);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(choices.at(i).tokens, alone[i].tokens) << i;
}

TEST_F(SchedulerTest, LogprobsAreTheModelsOwn) {
    Scheduler scheduler(engine_, {});
    AnswerRequest request = make_request(make_prompt(20), 10, drawing(3));
    request.logprobs = true;
    request.top_logprobs = 5;
    const HeardChoice heard = submit(scheduler, std::move(request)).sink->wait_one();
    ASSERT_TRUE(scheduler.drain(soon()));
    Sequence sequence(engine_, greedy());
    ASSERT_TRUE(sequence.append(make_prompt(20)).ok());
    for (std::size_t i = 0; i < heard.tokens.size(); ++i) {
        const Logits logits = forward_pending(*engine_, sequence).value();
        const double normaliser = log_sum_exp(logits.row(0));
        const auto logprob = [&](TokenId token) {
            return static_cast<double>(logits.row(0)[static_cast<std::size_t>(token)]) - normaliser;
        };
        EXPECT_NEAR(static_cast<double>(heard.logprobs[i]), logprob(heard.tokens[i]), 1e-4);
        ASSERT_EQ(heard.top[i].size(), 5u);
        const float highest = *std::ranges::max_element(logits.row(0));
        EXPECT_EQ(logits.row(0)[static_cast<std::size_t>(heard.top[i][0].token)], highest);
        for (std::size_t k = 0; k < 5; ++k) {
            EXPECT_NEAR(static_cast<double>(heard.top[i][k].logprob), logprob(heard.top[i][k].token), 1e-4);
            EXPECT_LE(heard.top[i][k].logprob, heard.top[i][k == 0 ? 0 : k - 1].logprob);
        }
        std::string text;
        ASSERT_TRUE(sequence.accept(heard.tokens[i], text).ok());
    }
}

TEST_F(SchedulerTest, ACancelledAnswerTakesPartInNoFurtherStep) {
    for (const std::size_t cancelled_after : {1u, 2u, 6u}) {  // in the prompt (300 rows, 128 a step) twice, decoding
        StepGate gate;
        std::vector<std::size_t> rows;
        Scheduler scheduler(engine_, {}, [&](const StepReport& report) {
            rows.push_back(report.choices);
            gate.pass();
        });
        const Submitted victim = submit(scheduler, make_request(make_prompt(300, 77), 100));
        gate.stop_after(cancelled_after);
        scheduler.cancel(victim.id);
        gate.open();
        EXPECT_EQ(victim.sink->wait_one().reason, FinishReason::Cancelled);
        EXPECT_EQ(gate.steps(), cancelled_after);
        EXPECT_FALSE(victim.sink->error());
        ASSERT_TRUE(scheduler.drain(soon()));
        EXPECT_EQ(scheduler.stats().steps, cancelled_after);
        EXPECT_EQ(scheduler.stats().cancellations, 1u);
        EXPECT_EQ(scheduler.stats().running, 0u);
    }
}

TEST_F(SchedulerTest, AQueuedAnswerIsCancelledWithoutAStep) {
    StepGate gate;
    Scheduler scheduler(engine_, {.running_limit = 1}, [&](const StepReport&) { gate.pass(); });
    const Submitted first = submit(scheduler, make_request(make_prompt(10), 50));
    gate.stop_after(1);
    const Submitted queued = submit(scheduler, make_request(make_prompt(10, 2), 50));
    EXPECT_EQ(scheduler.stats().waiting, 1u);
    scheduler.cancel(queued.id);
    gate.stop_after(2);
    EXPECT_TRUE(queued.sink->done());
    EXPECT_EQ(queued.sink->wait_one().reason, FinishReason::Cancelled);
    EXPECT_EQ(queued.sink->tokens(), 0u);
    gate.open();
    EXPECT_EQ(first.sink->wait_one().tokens.size(), 50u);
    EXPECT_EQ(scheduler.stats().waiting, 0u);
}

TEST_F(SchedulerTest, ADeadlineEndsAnAnswerWhereverItIs) {
    StepGate gate;
    Scheduler scheduler(engine_, {.running_limit = 1}, [&](const StepReport&) { gate.pass(); });
    AnswerRequest late = make_request(make_prompt(10), 100);
    late.deadline = SchedulerClock::now() - 1ms;
    const Submitted never = submit(scheduler, std::move(late));
    EXPECT_EQ(never.sink->wait_one().reason, FinishReason::Deadline);
    EXPECT_EQ(gate.steps(), 0u);

    AnswerRequest request = make_request(make_prompt(10), 100);
    request.deadline = SchedulerClock::now() + 30ms;
    const SchedulerClock::time_point deadline = *request.deadline;
    const Submitted running = submit(scheduler, std::move(request));
    gate.stop_after(1);
    while (SchedulerClock::now() < deadline) std::this_thread::yield();
    gate.open();
    EXPECT_EQ(running.sink->wait_one().reason, FinishReason::Deadline);
    EXPECT_EQ(gate.steps(), 1u);
    EXPECT_FALSE(running.sink->error());
}

TEST_F(SchedulerTest, ADeadlineEndsAPausedAnswerWithoutBeingWoken) {
    Scheduler scheduler(engine_, {});
    auto sink = std::make_shared<ListeningSink>();
    AnswerRequest request = make_request(make_prompt(10), 400);
    request.deadline = SchedulerClock::now() + 1s;
    AnswerId id = 0;
    sink->on_token = [&](const TokenEvent&) { scheduler.pause(id); };
    scheduler.run_between_steps([&] {
        request.sink = sink;
        id = scheduler.submit(std::move(request)).value();
    });
    EXPECT_EQ(sink->wait_one().reason, FinishReason::Deadline);
    EXPECT_EQ(sink->tokens(), 1u);
}

TEST_F(SchedulerTest, APausedAnswerWaitsWhileOthersGoOn) {
    StepGate gate;
    Scheduler scheduler(engine_, {}, [&](const StepReport&) { gate.pass(); });
    const AnswerRequest reference = make_request(make_prompt(10), 30);
    const Submitted paused = submit(scheduler, make_request(make_prompt(10), 30));
    gate.stop_after(3);
    scheduler.pause(paused.id);
    const std::size_t before = paused.sink->tokens();
    gate.open();
    const Submitted other = submit(scheduler, make_request(make_prompt(20, 2), 20));
    other.sink->wait();
    EXPECT_EQ(paused.sink->tokens(), before);
    scheduler.resume(paused.id);
    const HeardChoice heard = paused.sink->wait_one();
    ASSERT_TRUE(scheduler.drain(soon()));
    EXPECT_EQ(heard.tokens, answer_alone(engine_, reference).tokens);
}

TEST_F(SchedulerTest, DrainingLetsEverythingAcceptedEndAndTakesNothingNew) {
    Scheduler scheduler(engine_, {.running_limit = 2});
    std::vector<Submitted> submitted;
    for (std::uint32_t i = 0; i < 5; ++i) submitted.push_back(submit(scheduler, make_request(make_prompt(30, i), 20)));
    EXPECT_TRUE(scheduler.drain(soon()));
    for (const Submitted& one : submitted) {
        EXPECT_TRUE(one.sink->done());
        EXPECT_EQ(one.sink->wait_one().tokens.size(), 20u);
    }
    AnswerRequest late = make_request(make_prompt(3), 5);
    late.sink = std::make_shared<ListeningSink>();
    const Result<AnswerId> refused = scheduler.submit(std::move(late));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::Busy);
}

TEST_F(SchedulerTest, DrainingGivesUpAtItsDeadline) {
    StepGate gate;
    Scheduler scheduler(engine_, {}, [&](const StepReport&) { gate.pass(); });
    const Submitted running = submit(scheduler, make_request(make_prompt(10), 50));
    gate.stop_after(1);
    EXPECT_FALSE(scheduler.drain(SchedulerClock::now()));
    gate.open();
    running.sink->wait();
}

TEST_F(SchedulerTest, DestroyingTheSchedulerCancelsWhatIsLeft) {
    StepGate gate;
    std::vector<Submitted> submitted;
    {
        Scheduler scheduler(engine_, {.running_limit = 1}, [&](const StepReport&) { gate.pass(); });
        for (std::uint32_t i = 0; i < 3; ++i) {
            submitted.push_back(submit(scheduler, make_request(make_prompt(300, i), 100)));
        }
        gate.stop_after(1);
        std::thread opener([&] { gate.open(); });
        opener.join();
    }
    for (const Submitted& one : submitted) EXPECT_TRUE(one.sink->done());
    EXPECT_EQ(submitted.back().sink->wait_one().reason, FinishReason::Cancelled);
    EXPECT_EQ(engine_->kv_blocks_free(), 300u);
}

TEST_F(SchedulerTest, AFullQueueIsBusy) {
    StepGate gate;
    Scheduler scheduler(engine_, {.queue_limit = 2, .running_limit = 1}, [&](const StepReport&) { gate.pass(); });
    const Submitted running = submit(scheduler, make_request(make_prompt(10), 5));
    gate.stop_after(1);
    const Submitted second = submit(scheduler, make_request(make_prompt(10), 5));
    const Submitted third = submit(scheduler, make_request(make_prompt(10), 5));
    AnswerRequest fourth = make_request(make_prompt(10), 5);
    fourth.sink = std::make_shared<ListeningSink>();
    const Result<AnswerId> refused = scheduler.submit(std::move(fourth));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::Busy);
    gate.open();
    EXPECT_EQ(third.sink->wait_one().tokens.size(), 5u);
}

TEST_F(SchedulerTest, APromptOfExactlyTheContextRunsAndOneMoreIsRefusedWithBothCounts) {
    Scheduler scheduler(engine_, {});
    const Submitted fits = submit(scheduler, make_request(make_prompt(kContext), 5));
    EXPECT_EQ(fits.sink->wait_one().reason, FinishReason::Length);
    EXPECT_EQ(fits.sink->tokens(), 0u);
    const Submitted nearly = submit(scheduler, make_request(make_prompt(kContext - 3), 0));
    EXPECT_EQ(nearly.sink->wait_one().reason, FinishReason::Length);
    EXPECT_EQ(nearly.sink->tokens(), 3u);
    AnswerRequest over = make_request(make_prompt(kContext + 1), 5);
    over.sink = std::make_shared<ListeningSink>();
    const Result<AnswerId> refused = scheduler.submit(std::move(over));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::Usage);
    EXPECT_NE(refused.error().message.find("513"), std::string::npos);
    EXPECT_NE(refused.error().message.find("512"), std::string::npos);
}

TEST_F(SchedulerTest, WhatMakesNoSenseIsRefused) {
    Scheduler scheduler(engine_, {.running_limit = 4});
    const auto code = [&](AnswerRequest request) {
        request.sink = std::make_shared<ListeningSink>();
        const Result<AnswerId> id = scheduler.submit(std::move(request));
        return id.ok() ? std::optional<ErrorCode>() : id.error().code;
    };
    EXPECT_EQ(code(make_request({}, 5)), ErrorCode::Usage);
    EXPECT_EQ(code(make_request({1, 99'999}, 5)), ErrorCode::Usage);
    AnswerRequest many = make_request({1}, 5);
    many.choices = 5;
    EXPECT_EQ(code(std::move(many)), ErrorCode::Usage);
    AnswerRequest curious = make_request({1}, 5);
    curious.top_logprobs = 21;
    EXPECT_EQ(code(std::move(curious)), ErrorCode::Usage);
}

TEST_F(SchedulerTest, ASinkMayCallTheSchedulerFromInside) {
    Scheduler scheduler(engine_, {});
    auto outer = std::make_shared<ListeningSink>();
    auto inner = std::make_shared<ListeningSink>();
    auto task_ran = std::make_shared<std::atomic<bool>>(false);
    AnswerId outer_id = 0;
    outer->on_token = [&](const TokenEvent&) {
        if (outer->tokens() != 3) return;
        AnswerRequest request = make_request(make_prompt(10, 5), 4);
        request.sink = inner;
        EXPECT_TRUE(scheduler.submit(std::move(request)).ok());
        scheduler.run_between_steps([task_ran] { *task_ran = true; });
        scheduler.pause(outer_id);
        scheduler.resume(outer_id);
        EXPECT_EQ(scheduler.stats().kv_blocks, 300u);
        scheduler.cancel(outer_id);
    };
    scheduler.run_between_steps([&] {
        AnswerRequest request = make_request(make_prompt(10), 100);
        request.sink = outer;
        outer_id = scheduler.submit(std::move(request)).value();
    });
    EXPECT_EQ(outer->wait_one().reason, FinishReason::Cancelled);
    EXPECT_EQ(outer->tokens(), 3u);  // not one more: the order came between two steps
    EXPECT_EQ(inner->wait_one().tokens.size(), 4u);
    EXPECT_TRUE(*task_ran);
}

TEST_F(SchedulerTest, DecodingGoesOnWhileALongPromptIsComputed) {
    StepGate gate;
    std::vector<StepReport> reports;
    Scheduler scheduler(engine_, {}, [&](const StepReport& report) {
        reports.push_back(report);
        gate.pass();
    });
    const Submitted decoding = submit(scheduler, make_request(make_prompt(10), 60));
    gate.stop_after(2);
    const Submitted prompt = submit(scheduler, make_request(make_prompt(500, 9), 1));
    gate.open();
    prompt.sink->wait();
    decoding.sink->wait();
    ASSERT_TRUE(scheduler.drain(soon()));
    std::size_t mixed = 0;
    for (const StepReport& report : reports) {
        if (report.prompt_rows == 0 || report.rows == report.prompt_rows) continue;
        ++mixed;
        EXPECT_EQ(report.rows, report.prompt_rows + 1);
    }
    EXPECT_GE(mixed, 3u);  // 500 rows and at most 127 beside the decode row
}

TEST_F(SchedulerTest, APromptAloneTakesWholeSteps) {
    std::vector<StepReport> reports;
    Scheduler scheduler(engine_, {}, [&](const StepReport& report) { reports.push_back(report); });
    submit(scheduler, make_request(make_prompt(300), 1)).sink->wait();
    ASSERT_TRUE(scheduler.drain(soon()));
    ASSERT_EQ(reports.size(), 3u);
    EXPECT_EQ(reports[0].rows, 128u);
    EXPECT_EQ(reports[1].rows, 128u);
    EXPECT_EQ(reports[2].rows, 44u);
}

TEST_F(SchedulerTest, AKeptTimelineContinuesWhereItEnded) {
    const HeardChoice whole = answer_alone(engine_, make_request(make_prompt(40), 60, drawing(5)));
    Scheduler scheduler(engine_, {});
    std::optional<Sequence> node;
    AnswerRequest first = make_request(make_prompt(40), 25, drawing(5));
    first.keep = true;
    auto sink = std::make_shared<ListeningSink>();
    sink->on_kept = [&](std::size_t, Sequence sequence) { node.emplace(std::move(sequence)); };
    HeardChoice heard = submit(scheduler, std::move(first), sink).sink->wait_one();
    ASSERT_TRUE(node);
    EXPECT_EQ(node->length(), 65u);
    AnswerRequest second = make_request({}, 35, drawing(5));
    second.from = std::move(node);
    const Submitted rest = submit(scheduler, std::move(second));
    const HeardChoice& more = rest.sink->wait_one();
    heard.tokens.insert(heard.tokens.end(), more.tokens.begin(), more.tokens.end());
    EXPECT_EQ(heard.tokens, whole.tokens);
    EXPECT_EQ(rest.sink->usage().prompt_tokens, 65u);
    EXPECT_EQ(rest.sink->usage().cached_tokens, 64u);  // the last token's logits are needed
}

TEST_F(SchedulerTest, AnEmbeddingIsTheMeanOfTheNormalisedHiddenStates) {
    constexpr std::size_t kLength = 150;
    const std::size_t dim = engine_->info().dim;
    std::vector<double> expected(dim);
    {
        // Row by row, from the whole forward pass: what goes into the last norm, and its weights in the file.
        const Graph& graph = engine_->plan().graph();
        const auto producer = [&](Handle value) {
            return *std::ranges::find_if(graph.nodes(), [&](const Node& node) { return node.output == value; });
        };
        const Node norm = producer(producer(graph.logits()).input);
        const TensorView weight = engine_->file().tensor("output_norm.weight", Shape{{dim, 1, 1, 1}}).value();
        const float* weights = reinterpret_cast<const float*>(weight.data);
        Sequence sequence(engine_, greedy());
        ASSERT_TRUE(sequence.append(make_prompt(kLength)).ok());
        for (std::size_t i = 0; i < kLength; ++i) {
            const Feed feed{&sequence, 1, Want::Last};
            ASSERT_TRUE(engine_->forward({&feed, 1}).ok());
            const std::vector<float> x = engine_->backend()
                                             .read_back(engine_->plan(), norm.input, engine_->plan().steps().size(),
                                                        engine_->impl().step_inputs())
                                             .value();
            ASSERT_EQ(x.size(), dim);
            double squares = 0;
            for (const float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
            const double scale = 1 / std::sqrt(squares / static_cast<double>(dim) + 1e-5) / kLength;
            for (std::size_t k = 0; k < dim; ++k) {
                expected[k] += static_cast<double>(x[k]) * scale * static_cast<double>(weights[k]);
            }
        }
    }
    std::vector<float> got;
    {
        Scheduler scheduler(engine_, {});
        EmbeddingRequest request{make_prompt(kLength), [&](Result<std::vector<float>> result) {
                                     ASSERT_TRUE(result.ok());
                                     got = std::move(result).value();
                                 }};
        ASSERT_TRUE(scheduler.submit_embedding(std::move(request)).ok());
        ASSERT_TRUE(scheduler.drain(soon()));
    }
    ASSERT_EQ(got.size(), dim);
    for (std::size_t k = 0; k < dim; ++k) EXPECT_NEAR(static_cast<double>(got[k]), expected[k], 1e-5) << k;
    EXPECT_EQ(engine_->kv_blocks_free(), 300u);
}

}  // namespace
}  // namespace hearth
