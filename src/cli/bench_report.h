// What `hearth bench` measures and how it is told: the list of tests, their statistics, the table and the JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace hearth {

enum class BenchKind : std::uint8_t { Prompt, Generate };

struct BenchTest {
    BenchKind kind = BenchKind::Prompt;
    std::size_t tokens = 0;  // timed, of each sequence
    std::size_t depth = 0;   // tokens that stand before them, not timed
    std::size_t batch = 0;   // sequences that decode together; 0: one, and no batch test

    std::string name() const;  // "pp512", "tg32@d2048", "tg32@b4"
    std::size_t rows() const { return batch == 0 ? 1 : batch; }
    std::size_t positions() const { return depth + tokens; }
};

// What was asked for. At a depth and in a batch the tests are shorter: at most 64 prompt and 32 generated tokens.
struct BenchPlan {
    std::size_t prompt = 512;    // 0: none
    std::size_t generate = 128;  // 0: none
    std::vector<std::size_t> depths;
    std::vector<std::size_t> batches;  // ascending; 1 is measured with any other, which are told relative to it
};

std::vector<BenchTest> list_tests(const BenchPlan& plan);

// "0,2048" to numbers, ascending and each once. An error names `what`, the number and the range.
Result<std::vector<std::size_t>> parse_sizes(std::string_view what, std::string_view text, std::size_t lowest,
                                             std::size_t highest);

struct BenchStatistics {
    double median = 0;
    double deviation = 0;  // standard deviation of the sample; 0 for a single one
};

BenchStatistics summarise(std::vector<double> samples);

struct BenchResult {
    BenchTest test;
    BenchStatistics rate;                 // tokens of all sequences a second
    std::optional<BenchStatistics> peer;  // the same of the engine compared with
    std::optional<double> roof_share;     // of the memory bandwidth, 1 being all of it; none for prompts
    std::optional<double> roof_gb_per_s;  // that bandwidth

    std::optional<double> ratio() const;
};

// How long a step of a batch test takes, a step of one row being 1. None for other tests, or without a test of one row.
std::optional<double> relative_step_time(const BenchResult& result, std::span<const BenchResult> results);

// `peer`: what the columns of the engine compared with are called; empty: there is none.
std::string bench_table(std::span<const BenchResult> results, std::string_view peer);
Json bench_json(std::span<const BenchResult> results, std::size_t threads, std::string_view peer);

}  // namespace hearth
