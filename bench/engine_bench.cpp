// What a sequence's time travel costs at short and long contexts, replay against eager execution, and the scheduler's
// steps.
// The model is a random one of SmolLM2-135M's shape, written to a temporary file: speed does not depend on the weights.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "support/tiny_model.h"

namespace hearth {
namespace {

std::shared_ptr<Engine> load(Execution execution) {
    static const std::string path = test::write_tiny_model(
        "bench",
        {.type = DType::Q4_0, .layers = 30, .dim = 768, .ffn_dim = 1536, .heads = 12, .kv_heads = 3, .context = 8448});
    EngineOptions options;
    options.context = 8448;
    options.execution = execution;
    options.kv_blocks = 400;
    Result<std::shared_ptr<Engine>> engine = Engine::load(path, options);
    CHECK(engine.ok());
    return std::move(engine).value();
}

std::shared_ptr<const SamplingOptions> greedy() {
    SamplingOptions options;
    options.temperature = 0;
    return std::make_shared<const SamplingOptions>(options);
}

// A sequence of `length` tokens. Their K and V are not computed: neither fork nor regress looks at them.
Sequence make_sequence(const std::shared_ptr<Engine>& engine, std::size_t length) {
    Sequence sequence(engine, greedy());
    const std::vector<TokenId> tokens(length, 7);
    CHECK(sequence.append(tokens).ok());
    return sequence;
}

void regress(benchmark::State& state) {
    static const std::shared_ptr<Engine> engine = load(Execution::Replay);
    const std::size_t length = static_cast<std::size_t>(state.range(0));
    const std::size_t back = static_cast<std::size_t>(state.range(1));
    Sequence sequence = make_sequence(engine, length);
    const Time target{static_cast<std::uint32_t>(length - back)};
    const std::vector<TokenId> tokens(back, 7);
    for (auto _ : state) {
        benchmark::DoNotOptimize(sequence.regress(target).ok());
        state.PauseTiming();
        CHECK(sequence.append(tokens).ok());
        state.ResumeTiming();
    }
}
BENCHMARK(regress)
    ->ArgNames({"context", "back"})
    ->Args({128, 10})
    ->Args({8192, 10})
    ->Args({128, 128})
    ->Args({8192, 8192})
    ->Iterations(2000);

void fork(benchmark::State& state) {
    static const std::shared_ptr<Engine> engine = load(Execution::Replay);
    const Sequence sequence = make_sequence(engine, static_cast<std::size_t>(state.range(0)));
    const Time target{static_cast<std::uint32_t>(state.range(0)) - 10};
    for (auto _ : state) {
        Result<Sequence> sibling = sequence.fork(target);
        benchmark::DoNotOptimize(sibling.ok());
    }
}
BENCHMARK(fork)->ArgName("context")->Arg(128)->Arg(8192);

// One decoded token with 64 tokens before it.
void decode(benchmark::State& state) {
    const std::shared_ptr<Engine> engine = load(state.range(0) == 0 ? Execution::Replay : Execution::Eager);
    Sequence sequence = make_sequence(engine, 64);
    CHECK(forward_pending(*engine, sequence).ok());
    for (auto _ : state) {
        benchmark::DoNotOptimize(forward_pending(*engine, sequence).ok());  // computes the last token again
    }
    state.SetLabel(state.range(0) == 0 ? "replay" : "eager");
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(decode)->ArgName("eager")->Arg(0)->Arg(1)->Repetitions(7)->ReportAggregatesOnly()->UseRealTime();

// A prompt of 512 tokens.
void prefill(benchmark::State& state) {
    const std::shared_ptr<Engine> engine = load(state.range(0) == 0 ? Execution::Replay : Execution::Eager);
    for (auto _ : state) {
        Sequence sequence = make_sequence(engine, 512);
        benchmark::DoNotOptimize(forward_pending(*engine, sequence).ok());
    }
    state.SetLabel(state.range(0) == 0 ? "replay" : "eager");
    state.SetItemsProcessed(state.iterations() * 512);
}
BENCHMARK(prefill)->ArgName("eager")->Arg(0)->Arg(1)->Repetitions(5)->ReportAggregatesOnly()->UseRealTime()->Unit(
    benchmark::kMillisecond);

// One decode step of `batch` answers through the scheduler, over Qwen's number of tokens: the whole step, and the part
// of it that is not the forward pass (choosing tokens, their text, the sinks).
class CountingSink : public AnswerSink {
public:
    void token(const TokenEvent& event) override { bytes += event.text.size(); }
    void choice_finished(std::size_t, FinishReason, std::string_view) override {}
    void finished(const Usage&, const std::optional<Error>&) override {}
    std::size_t bytes = 0;
};

SamplingOptions chain_of(std::int64_t kind) {
    SamplingOptions options;
    options.temperature = kind == 0 ? 0.0f : 0.8f;
    options.top_k = kind == 2 ? 0 : 50;
    if (kind == 1) options.repetition_penalty = 1.1f;
    return options;
}

void scheduler_step(benchmark::State& state) {
    static const std::shared_ptr<Engine> engine = [] {
        Result<std::shared_ptr<Engine>> loaded = Engine::load(test::write_tiny_model("lane", {.type = DType::Q4_0,
                                                                                              .layers = 30,
                                                                                              .dim = 768,
                                                                                              .ffn_dim = 1536,
                                                                                              .heads = 12,
                                                                                              .kv_heads = 3,
                                                                                              .context = 512,
                                                                                              .vocabulary = 151'936}),
                                                              {.kv_blocks = 200});
        CHECK(loaded.ok());
        return std::move(loaded).value();
    }();
    const std::size_t batch = static_cast<std::size_t>(state.range(0));
    const auto sampling = std::make_shared<const SamplingOptions>(chain_of(state.range(1)));
    const SamplingPlace place = state.range(2) == 0 ? SamplingPlace::Scheduler : SamplingPlace::Pool;
    double seconds = 0;
    double rest = 0;
    double steps = 0;
    for (auto _ : state) {
        Scheduler scheduler(engine, {.sampling = place}, [&](const StepReport& report) {
            if (report.prompt_rows != 0 || report.rows != batch) return;
            seconds += report.seconds;
            rest += report.seconds - report.forward_seconds;
            ++steps;
        });
        for (std::size_t i = 0; i < batch; ++i) {
            AnswerRequest request;
            request.prompt = {1, static_cast<TokenId>(10 + i), 7};
            request.sampling = sampling;
            request.max_tokens = 24;
            request.ignore_end = true;
            request.sink = std::make_shared<CountingSink>();
            CHECK(scheduler.submit(std::move(request)).ok());
        }
        CHECK(scheduler.drain(SchedulerClock::now() + std::chrono::seconds(60)));
    }
    state.counters["step_ms"] = 1e3 * seconds / steps;
    state.counters["rest_us"] = 1e6 * rest / steps;
}
BENCHMARK(scheduler_step)
    ->ArgNames({"batch", "chain", "pool"})
    ->ArgsProduct({{1, 4, 16}, {0, 1, 2}, {0, 1}})
    ->Iterations(1)
    ->Repetitions(3)
    ->UseRealTime();

}  // namespace
}  // namespace hearth

BENCHMARK_MAIN();
