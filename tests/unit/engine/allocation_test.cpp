// A decoded token costs no heap allocation and no system call: operator new is counted here, for this whole test
// binary.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "engine/engine_state.h"
#include "scheduler_support.h"

namespace {
std::atomic<std::size_t> allocations{0};
thread_local std::size_t fails_in = 0;  // one allocation of this thread fails: the next (1), the one after it (2)
}  // namespace

// Not inlined: GCC warns of a pair of which it sees only one half.
[[gnu::noinline]] void* operator new(std::size_t size) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    const bool fails = fails_in == 1;
    if (fails_in > 0) --fails_in;
    void* memory = fails ? nullptr : std::malloc(size);
    if (memory != nullptr) return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    allocations.fetch_add(1, std::memory_order_relaxed);
    return std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace hearth {
namespace {

using namespace test;

class QuietSink : public AnswerSink {
public:
    void token(const TokenEvent& event) override { bytes += event.text.size(); }
    void choice_finished(std::size_t, FinishReason, std::string_view) override {}
    void finished(const Usage&, const std::optional<Error>& error) override { failed = error.has_value(); }
    std::size_t bytes = 0;
    bool failed = false;
};

class Allocations : public ::testing::TestWithParam<KvType> {};

TEST_P(Allocations, ADecodedTokenAllocatesNothing) {
    const std::shared_ptr<Engine> engine =
        load_engine(write_tiny_model("allocations"), {.threads = 2, .kv_type = GetParam()});
    SamplingOptions options;
    options.repetition_penalty = 1.1f;
    options.top_k = 0;
    Sequence sequence(engine, std::make_shared<const SamplingOptions>(options),
                      std::make_shared<const StopStrings>(std::vector<std::string>{"never said"}));
    ASSERT_TRUE(sequence.append(make_prompt(50)).ok());
    Generation run;
    run.tokens.reserve(1000);
    run.text.reserve(100'000);
    decode_one(*engine, sequence, run);  // the first step sizes what is sized once
    const std::size_t before = allocations.load();
    for (int i = 0; i < 200; ++i) decode_one(*engine, sequence, run);  // crosses three block boundaries
    EXPECT_EQ(allocations.load() - before, 0u);
    EXPECT_EQ(run.tokens.size(), 201u);
}

INSTANTIATE_TEST_SUITE_P(Kv, Allocations, ::testing::Values(KvType::F16, KvType::Q8, KvType::Q4),
                         [](const auto& type) { return std::string(kv_type_name(type.param)); });

long voluntary_switches() {
    rusage usage = {};
    EXPECT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_nvcsw;
}

TEST(Sleeps, ADecodedTokenPutsNoThreadToSleep) {
    if (allowed_cpus().size() < 2) GTEST_SKIP() << "with one CPU two threads can only take turns";
    const std::shared_ptr<Engine> engine = load_engine(write_tiny_model("sleeps"), {.threads = 2});
    Sequence sequence(engine, greedy());
    ASSERT_TRUE(sequence.append(make_prompt(50)).ok());
    Generation run;
    decode_one(*engine, sequence, run);
    const Time start = sequence.mark();
    // Another program may put a thread aside at any time, and the others then sleep: some token must go through.
    // Regions that do nothing tell whether the machine lets two threads run at all.
    ThreadPool& pool = engine->impl().pool;
    const auto disturbs = [&](const auto& body) {
        const ThreadPool::Sleeps before = pool.sleeps();
        const long switches = voluntary_switches();
        body();
        const ThreadPool::Sleeps after = pool.sleeps();
        return after.parks != before.parks || after.wakes != before.wakes || voluntary_switches() != switches;
    };
    const std::vector<std::size_t> items(50, 8);
    const auto nothing = [](std::size_t, std::size_t, std::size_t, std::size_t) {};
    bool undisturbed = false;
    int quiet = 0;
    for (int i = 0; i < 20'000 && !undisturbed; ++i) {
        quiet += disturbs([&] { pool.for_each_phase(items, nothing); }) ? 0 : 1;
        undisturbed = !disturbs([&] { ASSERT_TRUE(forward_pending(*engine, sequence).ok()); });
        ASSERT_TRUE(sequence.regress(start).ok());
    }
    if (!undisturbed && quiet < 1000) GTEST_SKIP() << "this machine is too busy for two threads";
    EXPECT_TRUE(undisturbed);
}

// Runs out of memory at one of its tokens, and once more when it is told of the failure.
class StarvedSink : public AnswerSink {
public:
    explicit StarvedSink(std::size_t at) : at_(at) {}
    void token(const TokenEvent&) override {
        if (++tokens_ == at_) starve();
    }
    void choice_finished(std::size_t, FinishReason reason, std::string_view) override {
        if (reason == FinishReason::Failed) starve();
    }
    void finished(const Usage&, const std::optional<Error>& error) override {
        code = error ? error->code : ErrorCode::Failed;
        ++ends;
        ends.notify_all();
    }
    std::optional<ErrorCode> code;
    std::atomic<std::size_t> ends{0};

private:
    static void starve() {
        fails_in = 1;
        ::operator delete(::operator new(1));  // a call, which no compiler may leave out
    }
    std::size_t at_;
    std::size_t tokens_ = 0;
};

TEST(OutOfMemory, EndsTheAnswersBeingComputedAndNotTheProcess) {
    const std::shared_ptr<Engine> engine =
        load_engine(write_tiny_model("out_of_memory"), {.threads = 2, .context = 512, .kv_blocks = 60});
    const std::size_t blocks = engine->kv_blocks_free();
    {
        Scheduler scheduler(engine, {});
        const auto request = [&](const std::shared_ptr<AnswerSink>& sink, std::size_t tokens) {
            AnswerRequest made;
            made.prompt = make_prompt(100);
            made.sampling = greedy();
            made.max_tokens = tokens;
            made.ignore_end = true;
            made.sink = sink;
            ASSERT_TRUE(scheduler.submit(std::move(made)).ok());
        };
        const auto starved = std::make_shared<StarvedSink>(30);
        const auto later = std::make_shared<ListeningSink>();
        request(std::make_shared<QuietSink>(), 10);  // leaves something in the prefix tree
        request(starved, 100);
        starved->ends.wait(0);
        request(later, 20);
        EXPECT_EQ(later->wait_one().tokens.size(), 20u);
        EXPECT_FALSE(later->error().has_value());
        ASSERT_TRUE(scheduler.drain(SchedulerClock::now() + std::chrono::seconds(60)));
        EXPECT_EQ(starved->ends, 1u);
        EXPECT_EQ(starved->code, ErrorCode::OutOfResources);
    }
    EXPECT_EQ(engine->kv_blocks_free(), blocks);
}

// Writes its tokens down without allocating.
class FrugalSink : public AnswerSink {
public:
    FrugalSink() { tokens.reserve(1000); }
    void token(const TokenEvent& event) override { tokens.push_back(event.token); }
    void choice_finished(std::size_t, FinishReason, std::string_view) override {}
    void finished(const Usage&, const std::optional<Error>& error) override {
        failed = error.has_value();
        ended = true;
        ended.notify_all();
    }
    std::vector<TokenId> tokens;
    bool failed = false;
    std::atomic<bool> ended{false};
};

TEST(OutOfMemory, AContinuedTimelineThatDoesNotFailHasItsWholeHistory) {
    const std::shared_ptr<Engine> engine =
        load_engine(write_tiny_model("out_of_memory_from"), {.threads = 2, .context = 512, .kv_blocks = 60});
    const std::size_t blocks = engine->kv_blocks_free();
    std::vector<TokenId> whole = make_prompt(100);
    const std::vector<TokenId> more = make_prompt(30, 2);
    whole.insert(whole.end(), more.begin(), more.end());
    const std::vector<TokenId> expected = answer_alone(engine, make_request(whole, 10)).tokens;
    std::size_t failures = 0;
    for (std::size_t allocation = 1; allocation < 24; ++allocation) {
        SCOPED_TRACE(allocation);
        const auto beside = std::make_shared<FrugalSink>();
        const auto continued = std::make_shared<FrugalSink>();
        AnswerRequest request = make_request(more, 10);
        request.sink = continued;
        request.from.emplace(engine, greedy());
        ASSERT_TRUE(request.from->append(make_prompt(100)).ok());
        {
            Scheduler scheduler(engine, {});
            AnswerRequest other = make_request(make_prompt(50, 3), 300);
            other.sink = beside;
            ASSERT_TRUE(scheduler.submit(std::move(other)).ok());
            scheduler.run_between_steps([&] {
                EXPECT_TRUE(scheduler.submit(std::move(request)).ok());
                fails_in = allocation;
            });
            continued->ended.wait(false);
            scheduler.run_between_steps([] { fails_in = 0; });
        }
        failures += continued->failed ? 1 : 0;
        if (!continued->failed) {
            EXPECT_EQ(continued->tokens, expected);
        }
        EXPECT_EQ(engine->kv_blocks_free(), blocks);
    }
    EXPECT_GT(failures, 0u);
}

TEST(StepAllocations, AStepOfManyAnswersAllocatesNothing) {
    const std::shared_ptr<Engine> engine =
        load_engine(write_tiny_model("step_allocations"), {.threads = 2, .kv_blocks = 200});
    std::size_t steps = 0;
    std::size_t before = 0;
    std::size_t after = 0;
    auto sink = std::make_shared<QuietSink>();
    Scheduler scheduler(engine, {}, [&](const StepReport&) {
        ++steps;
        if (steps == 40) before = allocations.load();
        if (steps == 190) after = allocations.load();
    });
    std::atomic<bool> submitted{false};
    scheduler.run_between_steps([&] {  // all at once: one that came late would allocate
        for (std::uint32_t i = 0; i < 6; ++i) {
            AnswerRequest request;
            request.prompt = make_prompt(20 + i, i + 1);
            SamplingOptions options;
            options.repetition_penalty = 1.1f;
            options.top_k = i % 2 == 0 ? 0 : 40;
            request.sampling = std::make_shared<const SamplingOptions>(options);
            request.max_tokens = 200;
            request.ignore_end = true;
            request.sink = sink;
            EXPECT_TRUE(scheduler.submit(std::move(request)).ok());
        }
        submitted = true;
        submitted.notify_one();
    });
    submitted.wait(false);
    ASSERT_TRUE(scheduler.drain(SchedulerClock::now() + std::chrono::seconds(60)));
    EXPECT_FALSE(sink->failed);
    EXPECT_GE(steps, 190u);
    EXPECT_EQ(after - before, 0u);
}

}  // namespace
}  // namespace hearth
