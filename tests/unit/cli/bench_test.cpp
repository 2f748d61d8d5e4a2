#include <gtest/gtest.h>

#include <cmath>

#include "cli/bench_peer.h"
#include "cli/bench_report.h"

namespace hearth {
namespace {

constexpr BenchTest kPrompt{BenchKind::Prompt, 512, 0, 0};
constexpr BenchTest kDeepDecode{BenchKind::Generate, 32, 2048, 0};

std::vector<std::string> names(const BenchPlan& plan) {
    std::vector<std::string> all;
    for (const BenchTest& test : list_tests(plan)) all.push_back(test.name());
    return all;
}

TEST(BenchTests, AreShorterAtADepthAndInABatch) {
    EXPECT_EQ(
        names({512, 128, {0, 2048}, {1, 2, 4}}),
        (std::vector<std::string>{"pp512", "tg128", "pp64@d2048", "tg32@d2048", "tg32@b1", "tg32@b2", "tg32@b4"}));
    EXPECT_EQ(names({5, 7, {9}, {}}), (std::vector<std::string>{"pp5@d9", "tg7@d9"}));
}

TEST(BenchTests, LeaveOutWhatIsZeroAndAddTheBatchOfOne) {
    EXPECT_EQ(names({0, 16, {0}, {4}}), (std::vector<std::string>{"tg16", "tg16@b1", "tg16@b4"}));
    EXPECT_EQ(names({16, 0, {0}, {1, 4}}), (std::vector<std::string>{"pp16"}));
    EXPECT_TRUE(names({0, 0, {0}, {1}}).empty());
}

TEST(ParseSizes, SortsAndDropsRepeats) {
    EXPECT_EQ(parse_sizes("--depth", "2048,0,8192,0", 0, 10000).value(), (std::vector<std::size_t>{0, 2048, 8192}));
    EXPECT_EQ(parse_sizes("--depth", "7", 0, 10).value(), (std::vector<std::size_t>{7}));
}

TEST(ParseSizes, NamesTheFault) {
    for (const char* bad : {"", ",", "1,", ",1", "1,,2", "x", "-1", "11", "1 ,2", "1;2", "99999999999999999999999"}) {
        const Result<std::vector<std::size_t>> sizes = parse_sizes("--batch", bad, 1, 10);
        ASSERT_FALSE(sizes.ok()) << bad;
        EXPECT_EQ(sizes.error().code, ErrorCode::Usage);
        EXPECT_TRUE(sizes.error().message.starts_with("--batch: '")) << sizes.error().message;
        EXPECT_TRUE(sizes.error().message.ends_with("from 1 to 10")) << sizes.error().message;
    }
}

TEST(BenchStatistics, AreTheMedianAndTheDeviationOfTheSample) {
    EXPECT_EQ(summarise({}).median, 0);
    EXPECT_EQ(summarise({5}).median, 5);
    EXPECT_EQ(summarise({5}).deviation, 0);
    EXPECT_EQ(summarise({9, 1, 2}).median, 2);
    EXPECT_EQ(summarise({4, 1, 3, 2}).median, 2.5);
    EXPECT_DOUBLE_EQ(summarise({2, 4, 4, 4, 5, 5, 7, 9}).deviation, std::sqrt(32.0 / 7.0));
}

TEST(BenchPeer, RunsTheSameTestOnce) {
    const BenchPeer peer{"llama-bench", "m.gguf", 3};
    EXPECT_EQ(peer_command(peer, kPrompt), (std::vector<std::string>{"llama-bench", "-m", "m.gguf", "-p", "512", "-n",
                                                                     "0", "-t", "3", "-r", "1", "-o", "json"}));
    EXPECT_EQ(peer_command(peer, kDeepDecode),
              (std::vector<std::string>{"llama-bench", "-m", "m.gguf", "-p", "0", "-n", "32", "-t", "3", "-r", "1",
                                        "-o", "json", "-d", "2048"}));
}

TEST(BenchPeer, TheFigureIsTheOneOfTheTest) {
    const BenchPeer peer{"llama-bench", "m.gguf", 3};
    const char* output = R"([{"n_prompt": 512, "n_gen": 0, "n_depth": 2048, "avg_ts": 1},
                             {"n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ts": 123.5},
                             {"n_prompt": 0, "n_gen": 32, "n_depth": 2048, "avg_ts": 40}])";
    EXPECT_EQ(parse_peer(peer, kPrompt, output).value(), 123.5);
    EXPECT_EQ(parse_peer(peer, kDeepDecode, output).value(), 40);
    EXPECT_EQ(parse_peer(peer, kPrompt, R"([{"n_prompt": 512, "n_gen": 0, "avg_ts": 2}])").value(), 2);
}

TEST(BenchPeer, AnythingElseIsAnErrorThatNamesTheProgram) {
    const BenchPeer peer{"some/llama-bench", "m.gguf", 3};
    for (const char* bad : {"", "error", "{}", "[]", "[1]", R"([{"n_prompt": 512, "n_gen": 0, "n_depth": 0}])",
                            R"([{"n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ts": "9"}])",
                            R"([{"n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ts": 0}])",
                            R"([{"n_prompt": 511, "n_gen": 0, "n_depth": 0, "avg_ts": 9}])",
                            R"([{"n_prompt": 512, "n_gen": 1, "n_depth": 0, "avg_ts": 9}])"}) {
        const Result<double> rate = parse_peer(peer, kPrompt, bad);
        ASSERT_FALSE(rate.ok()) << bad;
        EXPECT_TRUE(rate.error().message.starts_with("--against some/llama-bench: pp512: ")) << rate.error().message;
    }
    const Result<double> missing = measure_peer({"no-such-llama-bench", "m.gguf", 1}, kPrompt, [] {});
    ASSERT_FALSE(missing.ok());
    EXPECT_EQ(missing.error().message, "--against no-such-llama-bench: No such file or directory");
}

const std::vector<BenchResult> kResults = {
    {kPrompt, {1000, 12.5}, BenchStatistics{500, 1}, {}, {}},
    {kDeepDecode, {90, 0.25}, BenchStatistics{100, 2}, 0.456, 55.5},
    {{BenchKind::Generate, 32, 0, 1}, {100, 1}, {}, 0.5, {}},
    {{BenchKind::Generate, 32, 0, 4}, {200, 1}, {}, 0.25, {}},
};

TEST(BenchTable, AlignsFiguresAndLeavesOutEmptyColumns) {
    EXPECT_EQ(bench_table(kResults, "llama.cpp"),
              "test          tok/s      ±    roof  step time  llama.cpp     ±  ratio\n"
              "pp512       1000.00  12.50                        500.00  1.00  2.00×\n"
              "tg32@d2048    90.00   0.25  45.6 %                100.00  2.00  0.90×\n"
              "tg32@b1      100.00   1.00  50.0 %      1.00×\n"
              "tg32@b4      200.00   1.00  25.0 %      2.00×\n");
    const std::vector<BenchResult> alone = {{kPrompt, {1000, 12.5}, {}, {}, {}}};
    EXPECT_EQ(bench_table(alone, ""), "test     tok/s      ±\npp512  1000.00  12.50\n");
}

TEST(BenchJson, HasTheSameKeysInEveryObject) {
    EXPECT_EQ(
        bench_json(std::span(kResults).subspan(1), 2, "llama.cpp").dump(),
        R"([{"test": "tg32@d2048", "tok_s": 90.0, "stddev": 0.25, "threads": 2, "roof_share": 0.456, )"
        R"("roof_gb_s": 55.5, "relative_step_time": null, "peer_tok_s": 100.0, "peer_stddev": 2.0, "ratio": 0.9}, )"
        R"({"test": "tg32@b1", "tok_s": 100.0, "stddev": 1.0, "threads": 2, "roof_share": 0.5, )"
        R"("roof_gb_s": null, "relative_step_time": 1.0, "peer_tok_s": null, "peer_stddev": null, "ratio": null}, )"
        R"({"test": "tg32@b4", "tok_s": 200.0, "stddev": 1.0, "threads": 2, "roof_share": 0.25, )"
        R"("roof_gb_s": null, "relative_step_time": 2.0, "peer_tok_s": null, "peer_stddev": null, "ratio": null}])");
    EXPECT_EQ(bench_json(std::span(kResults).first(1), 2, "").dump(),
              R"([{"test": "pp512", "tok_s": 1000.0, "stddev": 12.5, "threads": 2, "roof_share": null, )"
              R"("roof_gb_s": null, "relative_step_time": null}])");
}

}  // namespace
}  // namespace hearth
