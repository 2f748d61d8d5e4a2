// Microseconds a token costs to choose, over a vocabulary of 151 936 (Qwen's) on one thread. "maxima": they come with
// the row, as the engine gives them; otherwise the sampler finds them itself.
#include <benchmark/benchmark.h>

#include <vector>

#include "base/rng.h"
#include "sampling/sampler.h"

namespace hearth {
namespace {

constexpr std::size_t kVocabulary = 151'936;

struct Row {
    std::vector<float> logits = std::vector<float>(kVocabulary);
    std::vector<float> maxima = std::vector<float>(logit_chunks(kVocabulary));
    std::vector<TokenId> recent;

    Row() {
        for (std::size_t i = 0; i < kVocabulary; ++i) {
            double sum = -6.0;  // roughly Gaussian: as wide as a model's
            for (std::uint64_t draw = 0; draw < 12; ++draw) sum += random_unit(1, i, draw);
            logits[i] = static_cast<float>(3.0 * sum);
        }
        const std::span<const float> all(logits);
        for (std::size_t c = 0; c < maxima.size(); ++c) {
            maxima[c] =
                largest_logit(all.subspan(c * kLogitChunk, std::min(kLogitChunk, kVocabulary - c * kLogitChunk)));
        }
        for (std::uint64_t i = 0; i < 64; ++i) {
            recent.push_back(static_cast<TokenId>(random_bits(2, i) % kVocabulary));
        }
    }
};

SamplingOptions greedy() {
    SamplingOptions options;
    options.temperature = 0.0f;
    return options;
}
// top-k 50, top-p, temperature and all penalties.
SamplingOptions usual() {
    SamplingOptions options;
    options.top_k = 50;
    options.repetition_penalty = 1.1f;
    options.frequency_penalty = 0.2f;
    options.presence_penalty = 0.1f;
    return options;
}
SamplingOptions everything(float top_p, float min_p, float typical_p) {
    SamplingOptions options;
    options.top_k = 0;
    options.top_p = top_p;
    options.min_p = min_p;
    options.typical_p = typical_p;
    return options;
}
SamplingOptions with_logprob(SamplingOptions options) {
    options.logprob = true;
    return options;
}

enum class Maxima { Given, Found };

void run(benchmark::State& state, const SamplingOptions& options, Maxima maxima) {
    static const Row row;
    SamplerScratch scratch(kVocabulary);
    std::uint64_t position = 0;
    for (auto _ : state) {
        const LogitRow given = maxima == Maxima::Given ? LogitRow{row.logits, row.maxima} : LogitRow{row.logits};
        benchmark::DoNotOptimize(sample(given, options, row.recent, ++position, scratch));
    }
}

BENCHMARK_CAPTURE(run, greedy_maxima, greedy(), Maxima::Given)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, greedy, greedy(), Maxima::Found)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, top_k_50_maxima, usual(), Maxima::Given)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, top_k_50, usual(), Maxima::Found)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, top_p_over_all_maxima, everything(0.95f, 0, 1), Maxima::Given)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, min_p_over_all_maxima, everything(1, 0.05f, 1), Maxima::Given)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, typical_over_all_maxima, everything(1, 0, 0.9f), Maxima::Given)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, unfiltered_maxima, everything(1, 0, 1), Maxima::Given)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, greedy_maxima_logprob, with_logprob(greedy()), Maxima::Given)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace hearth

BENCHMARK_MAIN();
