// The engine against the original code of each family: logits at every position, fed at once and token by token.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "engine/sequence.h"
#include "golden/golden_model.h"

namespace hearth {
namespace {

// The engine keeps K and V in half precision, which alone moves a position's logits by 2e-4 to 7e-4 of their norm.
constexpr double kTolerance = 1e-3;

struct Comparison {
    double relative = 0;         // ||difference|| / ||reference|| of the worst position
    double largest = 0;          // largest difference of one logit
    std::size_t other_best = 0;  // positions whose best token is another one
    std::size_t positions = 0;

    void add(std::span<const float> logits, std::span<const float> expected) {
        double difference = 0;
        double reference = 0;
        for (std::size_t token = 0; token < logits.size(); ++token) {
            const double delta = static_cast<double>(logits[token]) - static_cast<double>(expected[token]);
            difference += delta * delta;
            reference += static_cast<double>(expected[token]) * static_cast<double>(expected[token]);
            if (!(std::abs(delta) <= largest)) largest = std::abs(delta);  // a NaN stays the largest
        }
        const double error = std::sqrt(difference / reference);
        if (!(error <= relative)) relative = error;
        const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
        const auto expected_best = std::max_element(expected.begin(), expected.end()) - expected.begin();
        if (best != expected_best) ++other_best;
        ++positions;
    }
};

class GoldenFamily : public testing::TestWithParam<std::string_view> {
protected:
    void SetUp() override {
        EngineOptions options;
        options.context = golden_.context;
        options.threads = 2;
        options.wanted_rows = golden_.tokens.size();
        Result<std::shared_ptr<Engine>> engine = Engine::load(golden_.path, options);
        ASSERT_TRUE(engine.ok()) << engine.error().message;
        engine_ = std::move(engine).value();
        ASSERT_EQ(engine_->info().vocabulary, golden_.vocabulary);
    }

    std::span<const float> expected(std::size_t position) const {
        return std::span(golden_.logits).subspan(position * golden_.vocabulary, golden_.vocabulary);
    }

    void expect_close(const char* how, const Comparison& found) const {
        std::printf("%-13s %-15s worst position %.2e of its norm, worst logit %.2e, other best token at %zu of %zu\n",
                    std::string(GetParam()).c_str(), how, found.relative, found.largest, found.other_best,
                    found.positions);
        EXPECT_EQ(found.positions, golden_.tokens.size());
        EXPECT_LE(found.relative, kTolerance);
        EXPECT_EQ(found.other_best, 0U);
    }

    GoldenModel golden_ = load_golden(GetParam());
    std::shared_ptr<Engine> engine_;
    std::shared_ptr<const SamplingOptions> options_ = std::make_shared<SamplingOptions>();
};

TEST_P(GoldenFamily, GivesTheOriginalsLogitsForAPromptFedAtOnce) {
    Sequence sequence(engine_, options_);
    ASSERT_TRUE(sequence.append(golden_.tokens).ok());
    const Feed feed{&sequence, golden_.tokens.size(), Want::All};
    const Result<Logits> logits = engine_->forward(std::span(&feed, 1));
    ASSERT_TRUE(logits.ok()) << logits.error().message;
    ASSERT_EQ(logits->rows(), golden_.tokens.size());
    Comparison found;
    for (std::size_t position = 0; position < golden_.tokens.size(); ++position) {
        found.add(logits->row(position), expected(position));
    }
    expect_close("at once", found);
}

TEST_P(GoldenFamily, GivesTheOriginalsLogitsTokenByToken) {
    Sequence sequence(engine_, options_);
    Comparison found;
    for (std::size_t position = 0; position < golden_.tokens.size(); ++position) {
        ASSERT_TRUE(sequence.append(std::span(golden_.tokens).subspan(position, 1)).ok());
        const Feed feed{&sequence, 1, Want::Last};
        const Result<Logits> logits = engine_->forward(std::span(&feed, 1));
        ASSERT_TRUE(logits.ok()) << logits.error().message;
        found.add(logits->row(0), expected(position));
    }
    expect_close("token by token", found);
}

std::string test_name(const testing::TestParamInfo<std::string_view>& info) {
    return std::string(info.param);
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenFamily, testing::ValuesIn(kGoldenNames), test_name);

}  // namespace
}  // namespace hearth
