#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/rng.h"
#include "unit/sampling/allocation_count.h"

namespace hearth {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Everything off: plain sampling from the model's distribution.
SamplingOptions plain() {
    SamplingOptions options;
    options.temperature = 1.0f;
    options.top_k = 0;
    options.top_p = 1.0f;
    options.min_p = 0.0f;
    return options;
}

std::vector<float> random_logits(std::size_t count, std::uint64_t seed, double spread = 8.0) {
    std::vector<float> logits(count);
    for (std::size_t i = 0; i < count; ++i) {
        logits[i] = static_cast<float>((random_unit(seed, i) + random_unit(seed, i, 1) - 1.0) * spread);
    }
    return logits;
}

SampledToken pick(std::span<const float> logits, const SamplingOptions& options, std::uint64_t position = 0,
                  std::span<const TokenId> recent = {}) {
    SamplerScratch scratch(logits.size());
    const Result<SampledToken> result = sample(logits, options, recent, position, scratch);
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    return result.ok() ? result.value() : SampledToken{-1, 0};
}

// The chain as its definition reads: full sorts, libm, no cleverness.
struct Naive {
    struct Item {
        double logit;
        TokenId token;
        double probability;
    };

    static void normalise(std::vector<Item>& items) {
        double highest = -INFINITY;
        for (const Item& item : items) highest = std::max(highest, item.logit);
        double total = 0;
        for (Item& item : items) total += item.probability = std::exp(item.logit - highest);
        for (Item& item : items) item.probability /= total;
    }
    static bool likelier(const Item& a, const Item& b) {
        return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
    }
    static void keep_mass(std::vector<Item>& items, double mass) {
        double sum = 0;
        for (std::size_t i = 0; i < items.size(); ++i) {
            sum += items[i].probability;
            if (sum >= mass) {
                items.resize(i + 1);
                return;
            }
        }
    }

    static TokenId pick(std::span<const float> logits, const SamplingOptions& options, std::uint64_t position,
                        std::span<const TokenId> recent) {
        std::vector<float> adjusted(logits.begin(), logits.end());
        for (const auto& [token, bias] : options.logit_bias) adjusted[static_cast<std::size_t>(token)] += bias;
        const std::span<const TokenId> window = recent.last(std::min<std::size_t>(recent.size(), options.penalty_last));
        for (std::size_t i = 0; i < adjusted.size(); ++i) {
            const auto count = std::count(window.begin(), window.end(), static_cast<TokenId>(i));
            if (count == 0) continue;
            adjusted[i] =
                adjusted[i] > 0 ? adjusted[i] / options.repetition_penalty : adjusted[i] * options.repetition_penalty;
            adjusted[i] -= static_cast<float>(count) * options.frequency_penalty + options.presence_penalty;
        }
        std::vector<Item> items;
        for (std::size_t i = 0; i < adjusted.size(); ++i) {
            items.push_back({static_cast<double>(adjusted[i]), static_cast<TokenId>(i), 0});
        }
        std::sort(items.begin(), items.end(), likelier);
        if (options.temperature == 0.0f) return items[0].token;
        if (options.top_k > 0 && options.top_k < items.size()) items.resize(options.top_k);
        if (options.typical_p < 1.0f) {
            normalise(items);
            double entropy = 0;
            for (const Item& item : items) entropy -= item.probability * std::log(item.probability);
            std::sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
                return std::fabs(-std::log(a.probability) - entropy) < std::fabs(-std::log(b.probability) - entropy);
            });
            keep_mass(items, static_cast<double>(options.typical_p));
            std::sort(items.begin(), items.end(), likelier);
        }
        if (options.top_p < 1.0f) {
            normalise(items);
            keep_mass(items, static_cast<double>(options.top_p));
        }
        normalise(items);
        std::erase_if(items, [&, first = items[0].probability](const Item& item) {
            return item.probability < static_cast<double>(options.min_p) * first;
        });
        for (Item& item : items) item.logit /= static_cast<double>(options.temperature);
        normalise(items);
        const double unit = random_unit(options.seed, position);
        double sum = 0;
        for (const Item& item : items) {
            sum += item.probability;
            if (sum > unit) return item.token;
        }
        return items.back().token;
    }
};

// Two hundred draws over vocabularies of odd sizes must equal the naive chain.
void expect_as_naive(SamplingOptions options) {
    std::size_t differences = 0;
    for (std::uint64_t round = 0; round < 200; ++round) {
        const std::size_t size = 2 + random_bits(77, round) % 700;
        const std::vector<float> logits = random_logits(size, round, 4.0 + static_cast<double>(round % 12));
        std::vector<TokenId> recent;
        for (std::uint64_t i = 0; i < 100; ++i) {
            recent.push_back(static_cast<TokenId>(random_bits(round, i, 5) % size));
        }
        options.seed = round * 31 + 7;
        const TokenId expected = Naive::pick(logits, options, round, recent);
        if (pick(logits, options, round, recent).token != expected) ++differences;
    }
    EXPECT_EQ(differences, 0u);
}

TEST(Sampler, GreedyTakesTheHighestLogitAndTheLowerIdOnATie) {
    SamplingOptions options;
    options.temperature = 0.0f;
    EXPECT_EQ(pick(std::vector<float>{1.0f, 3.0f, 2.0f, 3.0f}, options).token, 1);
    EXPECT_EQ(pick(std::vector<float>{-kInfinity, -2.0f}, options).token, 1);
    EXPECT_EQ(pick(std::vector<float>{5.0f}, options).token, 0);
    std::vector<float> wide(1037, 0.25f);
    EXPECT_EQ(pick(wide, options).token, 0);
    wide[1036] = 0.5f;
    EXPECT_EQ(pick(wide, options).token, 1036);
}

TEST(Sampler, PlainSamplingAgreesWithTheNaiveChain) {
    expect_as_naive(plain());
}

TEST(Sampler, TemperatureAgreesWithTheNaiveChain) {
    for (const float temperature : {0.05f, 0.5f, 0.8f, 1.7f, 20.0f}) {
        SamplingOptions options = plain();
        options.temperature = temperature;
        expect_as_naive(options);
    }
}

TEST(Sampler, TopKAgreesWithTheNaiveChain) {
    for (const std::uint32_t top_k : {1u, 2u, 15u, 16u, 17u, 40u, 300u, 100000u}) {
        SamplingOptions options = plain();
        options.top_k = top_k;
        expect_as_naive(options);
    }
}

TEST(Sampler, TopPAgreesWithTheNaiveChain) {
    for (const float top_p : {0.01f, 0.5f, 0.9f, 0.999f}) {
        SamplingOptions options = plain();
        options.top_p = top_p;
        expect_as_naive(options);
        options.top_k = 50;
        expect_as_naive(options);
    }
}

TEST(Sampler, MinPAgreesWithTheNaiveChain) {
    for (const float min_p : {0.001f, 0.05f, 0.5f}) {
        SamplingOptions options = plain();
        options.min_p = min_p;
        expect_as_naive(options);
    }
}

TEST(Sampler, TypicalPAgreesWithTheNaiveChain) {
    for (const float typical_p : {0.1f, 0.5f, 0.95f}) {
        SamplingOptions options = plain();
        options.typical_p = typical_p;
        expect_as_naive(options);
        options.top_k = 60;
        options.top_p = 0.9f;
        options.min_p = 0.02f;
        expect_as_naive(options);
    }
}

TEST(Sampler, PenaltiesAndBiasAgreeWithTheNaiveChain) {
    SamplingOptions options = plain();
    options.repetition_penalty = 1.3f;
    expect_as_naive(options);
    options.frequency_penalty = 0.7f;
    expect_as_naive(options);
    options.presence_penalty = -0.4f;
    options.penalty_last = 10;
    expect_as_naive(options);
    options.logit_bias = {{0, 4.5f}, {1, -3.0f}, {0, 0.5f}};
    expect_as_naive(options);
    options.temperature = 0.0f;
    expect_as_naive(options);
}

TEST(Sampler, TheDefaultChainAgreesWithTheNaiveChain) {
    expect_as_naive(SamplingOptions{});
}

TEST(Sampler, RepetitionPenaltyDividesPositiveAndMultipliesNegativeLogits) {
    SamplingOptions options;
    options.temperature = 0.0f;
    options.repetition_penalty = 2.0f;
    const std::vector<TokenId> recent = {0};
    EXPECT_EQ(pick(std::vector<float>{3.0f, 1.6f}, options, 0, recent).token, 1);
    EXPECT_EQ(pick(std::vector<float>{3.0f, 1.4f}, options, 0, recent).token, 0);
    EXPECT_EQ(pick(std::vector<float>{-1.0f, -1.9f}, options, 0, recent).token, 1);
    EXPECT_EQ(pick(std::vector<float>{-1.0f, -2.1f}, options, 0, recent).token, 0);
}

TEST(Sampler, PenaltiesForgetWhatLiesBeforeTheWindow) {
    SamplingOptions options;
    options.temperature = 0.0f;
    options.presence_penalty = 2.0f;
    options.penalty_last = 2;
    const std::vector<float> logits = {3.0f, 2.0f, 0.0f};
    EXPECT_EQ(pick(logits, options, 0, std::vector<TokenId>{0, 2, 2}).token, 0);
    EXPECT_EQ(pick(logits, options, 0, std::vector<TokenId>{2, 0, 2}).token, 1);
    options.penalty_last = 0;
    EXPECT_EQ(pick(logits, options, 0, std::vector<TokenId>{0, 0, 0}).token, 0);
}

TEST(Sampler, EqualSeedAndPositionGiveTheEqualToken) {
    const std::vector<float> logits = random_logits(5000, 3);
    SamplingOptions options = plain();
    options.seed = 99;
    std::size_t changes = 0;
    for (std::uint64_t position = 0; position < 50; ++position) {
        const SampledToken first = pick(logits, options, position);
        EXPECT_EQ(pick(logits, options, position).token, first.token);
        if (position > 0 && first.token != pick(logits, options, position - 1).token) ++changes;
    }
    EXPECT_GT(changes, 40u);
    SamplingOptions other = options;
    other.seed = 100;
    EXPECT_NE(pick(logits, options, 7).token, pick(logits, other, 7).token);
}

TEST(Sampler, DrawsFollowTheDistribution) {
    // Chi-square with 7 degrees of freedom: 24.3 is passed once in a thousand; the seed is fixed, so it is pass or
    // fail.
    const std::vector<double> probabilities = {0.3, 0.2, 0.15, 0.12, 0.1, 0.08, 0.04, 0.01};
    std::vector<float> logits;
    for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)) + 2.5f);
    SamplingOptions options = plain();
    options.seed = 2024;
    SamplerScratch scratch(logits.size());
    std::vector<double> seen(probabilities.size());
    constexpr int kDraws = 200000;
    for (std::uint64_t position = 0; position < kDraws; ++position) {
        const Result<SampledToken> result = sample(logits, options, {}, position, scratch);
        ASSERT_TRUE(result.ok());
        seen[static_cast<std::size_t>(result->token)] += 1;
    }
    double chi_square = 0;
    for (std::size_t i = 0; i < seen.size(); ++i) {
        const double expected = probabilities[i] * kDraws;
        chi_square += (seen[i] - expected) * (seen[i] - expected) / expected;
    }
    EXPECT_LT(chi_square, 24.3);
}

TEST(Sampler, TemperatureReshapesTheDistribution) {
    // At temperature 0.5 probabilities are squared: 0.8 : 0.2 becomes 16 : 1.
    const std::vector<float> logits = {static_cast<float>(std::log(0.8)), static_cast<float>(std::log(0.2))};
    SamplingOptions options = plain();
    options.temperature = 0.5f;
    SamplerScratch scratch(logits.size());
    int first = 0;
    for (std::uint64_t position = 0; position < 100000; ++position) {
        const Result<SampledToken> result = sample(logits, options, {}, position, scratch);
        ASSERT_TRUE(result.ok());
        first += result->token == 0 ? 1 : 0;
    }
    EXPECT_NEAR(first / 100000.0, 16.0 / 17.0, 0.003);
}

TEST(Sampler, LogprobIsTheModelsOwnWhateverTheOptions) {
    std::vector<float> logits = random_logits(1003, 5);
    logits[17] = -kInfinity;
    double total = 0;
    for (const float logit : logits) total += std::exp(static_cast<double>(logit));
    SamplingOptions options;
    options.temperature = 0.3f;
    options.logit_bias = {{4, 50.0f}};
    options.logprob = true;
    const SampledToken biased = pick(logits, options);
    EXPECT_EQ(biased.token, 4);
    EXPECT_NEAR(static_cast<double>(biased.logprob), static_cast<double>(logits[4]) - std::log(total), 1e-5);
}

std::vector<float> chunk_maxima_of(std::span<const float> logits) {
    std::vector<float> maxima(logit_chunks(logits.size()));
    for (std::size_t c = 0; c < maxima.size(); ++c) {
        maxima[c] =
            largest_logit(logits.subspan(c * kLogitChunk, std::min(kLogitChunk, logits.size() - c * kLogitChunk)));
    }
    return maxima;
}

// Draws over vocabularies of hundreds of chunks, with maxima and without, must equal the naive chain. Logits rounded to
// quarters have ties everywhere, within chunks and across them.
void expect_as_naive_in_many_chunks(SamplingOptions options) {
    std::size_t differences = 0;
    for (std::uint64_t round = 0; round < 12; ++round) {
        const std::size_t size = 20000 + random_bits(78, round) % 300;
        std::vector<float> logits = random_logits(size, round, 9.0 + static_cast<double>(round));
        if (round % 2 == 0) {
            for (float& logit : logits) logit = std::round(logit * 4.0f) / 4.0f;
        }
        if (round % 3 == 0) std::fill(logits.begin() + 640, logits.begin() + 1280, -kInfinity);
        std::vector<TokenId> recent;
        for (std::uint64_t i = 0; i < 40; ++i) {
            recent.push_back(static_cast<TokenId>(random_bits(round, i, 5) % size));
        }
        // Those the penalties matter for: the likeliest.
        SamplingOptions greedy;
        greedy.temperature = 0.0f;
        for (int i = 0; i < 20; ++i) {
            recent.push_back(pick(logits, greedy).token);
            greedy.logit_bias.emplace_back(recent.back(), -100.0f);
        }
        options.seed = round * 31 + 7;
        const TokenId expected = Naive::pick(logits, options, round, recent);
        const std::vector<float> maxima = chunk_maxima_of(logits);
        SamplerScratch scratch(size + 100);
        const Result<SampledToken> with = sample(LogitRow{logits, maxima}, options, recent, round, scratch);
        const Result<SampledToken> without = sample(logits, options, recent, round, scratch);
        if (!with.ok() || !without.ok() || with->token != expected || without->token != expected) ++differences;
    }
    EXPECT_EQ(differences, 0u);
}

TEST(Sampler, ManyChunksAgreeWithTheNaiveChain) {
    for (const float temperature : {0.0f, 1.0f, 3.0f}) {
        SamplingOptions options = plain();
        options.temperature = temperature;
        expect_as_naive_in_many_chunks(options);  // nothing filtered
        for (const std::uint32_t top_k : {1u, 2u, 50u, 312u, 313u, 314u, 5000u}) {
            options.top_k = top_k;
            expect_as_naive_in_many_chunks(options);
        }
    }
}

TEST(Sampler, FiltersOverManyChunksAgreeWithTheNaiveChain) {
    for (const std::uint32_t top_k : {0u, 50u}) {
        SamplingOptions options = plain();
        options.top_k = top_k;
        options.top_p = 0.9f;
        expect_as_naive_in_many_chunks(options);
        options.min_p = 0.1f;
        expect_as_naive_in_many_chunks(options);
        options.top_p = 1.0f;
        expect_as_naive_in_many_chunks(options);
    }
}

TEST(Sampler, PenaltiesAndBiasOverManyChunksAgreeWithTheNaiveChain) {
    for (const std::uint32_t top_k : {0u, 1u, 50u, 4000u}) {
        for (const float presence : {1.5f, -1.5f}) {  // tokens fall, tokens rise
            SamplingOptions options = plain();
            options.top_k = top_k;
            options.repetition_penalty = 1.3f;
            options.frequency_penalty = 0.5f;
            options.presence_penalty = presence;
            expect_as_naive_in_many_chunks(options);
            options.logit_bias = {{700, 9.0f}, {19999, 12.0f}, {700, 2.0f}, {5, -4.0f}};
            expect_as_naive_in_many_chunks(options);
            options.temperature = 0.0f;
            expect_as_naive_in_many_chunks(options);
        }
    }
}

TEST(Sampler, ReadsOnlyTheChunksWhoseMaximaMatter) {
    // Maxima that leave most chunks out: what these hold is then not looked at, not even to find it broken.
    std::vector<float> logits(64 * 200, std::numeric_limits<float>::quiet_NaN());
    std::vector<float> maxima(200, -1.0f);
    for (const std::size_t chunk : {std::size_t{7}, std::size_t{150}}) {
        std::fill_n(logits.begin() + static_cast<std::ptrdiff_t>(64 * chunk), 64, -2.0f);
        logits[64 * chunk + 5] = 3.0f;
        maxima[chunk] = 3.0f;
    }
    SamplingOptions options = plain();
    options.top_k = 2;
    SamplerScratch scratch(logits.size());
    bool first = false;
    bool second = false;
    for (std::uint64_t position = 0; position < 64; ++position) {
        const Result<SampledToken> result = sample(LogitRow{logits, maxima}, options, {}, position, scratch);
        ASSERT_TRUE(result.ok());
        first = first || result->token == 64 * 7 + 5;
        second = second || result->token == 64 * 150 + 5;
        ASSERT_TRUE(result->token == 64 * 7 + 5 || result->token == 64 * 150 + 5) << result->token;
    }
    EXPECT_TRUE(first && second);
    options.temperature = 0.0f;
    EXPECT_EQ(sample(LogitRow{logits, maxima}, options, {}, 0, scratch)->token, 64 * 7 + 5);
}

TEST(Sampler, TheTwoZerosAreATie) {
    std::vector<float> logits(200, -1.0f);
    logits[70] = -0.0f;
    logits[130] = 0.0f;
    SamplingOptions options = plain();
    options.temperature = 0.0f;
    EXPECT_EQ(pick(logits, options).token, 70);
    options.temperature = 1.0f;
    options.top_k = 1;
    EXPECT_EQ(pick(logits, options).token, 70);
    options.top_k = 0;
    options.top_p = 0.001f;
    EXPECT_EQ(pick(logits, options).token, 70);
}

TEST(Sampler, APenaltyThatOverflowsIsAnErrorAndLeavesTheScratchUsable) {
    std::vector<float> logits(300, 1.0f);
    logits[80] = -3e38f;
    SamplingOptions options;
    options.repetition_penalty = 10.0f;
    SamplerScratch scratch(logits.size());
    const std::vector<TokenId> recent = {80, 81, -1, 300};
    // -Inf is a token nobody draws; only when nothing is left is it an error.
    EXPECT_TRUE(sample(logits, options, recent, 0, scratch).ok());
    const std::vector<float> alone = {-3e38f};
    EXPECT_FALSE(sample(alone, options, std::vector<TokenId>{0}, 0, scratch).ok());
    options.temperature = 0.0f;
    EXPECT_EQ(sample(logits, options, {}, 0, scratch)->token, 0);
}

TEST(Sampler, LogprobIsNanUnlessAskedFor) {
    EXPECT_TRUE(std::isnan(pick(random_logits(100, 1), SamplingOptions{}).logprob));
}

TEST(LogSumExp, IsRightToFloatPrecisionAndNanWhenALogitIs) {
    for (const std::size_t size : {1u, 63u, 64u, 65u, 1003u, 151936u}) {
        for (const double spread : {0.1, 10.0, 120.0}) {
            const std::vector<float> logits = random_logits(size, size, spread);
            double total = 0;
            for (const float logit : logits) total += std::exp(static_cast<double>(logit));
            EXPECT_NEAR(log_sum_exp(logits), std::log(total), 4e-7) << size << " " << spread;
        }
    }
    std::vector<float> broken(130, 1.0f);
    for (const std::uint32_t bits : {0x7fc00000u, 0x7fc00001u, 0xffc12345u}) {
        broken[77] = std::bit_cast<float>(bits);
        EXPECT_TRUE(std::isnan(log_sum_exp(broken)));
    }
    EXPECT_EQ(log_sum_exp(std::vector<float>(70, -kInfinity)), -static_cast<double>(kInfinity));
}

TEST(Sampler, MinusInfinityIsNeverDrawn) {
    std::vector<float> logits(100, -kInfinity);
    logits[42] = -5.0f;
    for (std::uint64_t position = 0; position < 100; ++position) {
        EXPECT_EQ(pick(logits, plain(), position).token, 42);
        EXPECT_EQ(pick(logits, SamplingOptions{}, position).token, 42);
    }
}

TEST(Sampler, BrokenLogitsAreAnErrorThatNamesThePosition) {
    std::vector<float> logits(37, 1.0f);
    SamplerScratch scratch(logits.size());
    for (const std::size_t place : {std::size_t{0}, std::size_t{20}, std::size_t{36}}) {
        std::vector<float> broken = logits;
        broken[place] = std::numeric_limits<float>::quiet_NaN();
        Result<SampledToken> result = sample(broken, SamplingOptions{}, {}, 123, scratch);
        ASSERT_FALSE(result.ok());
        EXPECT_EQ(result.error().code, ErrorCode::Failed);
        EXPECT_TRUE(result.error().message.starts_with("the model produced NaN logits at position 123"))
            << result.error().message;
        broken[place] = kInfinity;
        EXPECT_FALSE(sample(broken, SamplingOptions{}, {}, 0, scratch).ok());
    }
    EXPECT_FALSE(sample(std::vector<float>(37, -kInfinity), SamplingOptions{}, {}, 0, scratch).ok());
    EXPECT_FALSE(sample({}, SamplingOptions{}, {}, 0, scratch).ok());
    EXPECT_FALSE(sample(std::vector<float>(38, 1.0f), SamplingOptions{}, {}, 0, scratch).ok());
    EXPECT_TRUE(sample(logits, SamplingOptions{}, {}, 0, scratch).ok());
}

TEST(Sampler, AllocatesNothingOnceTheScratchIsBuilt) {
    const std::vector<float> logits = random_logits(50021, 11);
    std::vector<SamplingOptions> chains(4, plain());
    chains[0].temperature = 0.0f;
    chains[1].typical_p = 0.5f;
    chains[1].top_p = 0.9f;
    chains[2] = SamplingOptions{};
    chains[2].repetition_penalty = 1.1f;
    chains[2].logit_bias = {{3, 1.0f}};
    std::vector<TokenId> recent(100, 7);
    SamplerScratch scratch(logits.size());
    const std::size_t before = allocation_count();
    for (std::uint64_t position = 0; position < 20; ++position) {
        for (const SamplingOptions& options : chains) {
            if (!sample(logits, options, recent, position, scratch).ok()) std::abort();
        }
    }
    EXPECT_EQ(allocation_count(), before);
}

TEST(SamplingOptions, ValidateNamesTheOptionAndItsRange) {
    const auto message = [](auto change) {
        SamplingOptions options;
        change(options);
        const Status status = options.validate(100);
        if (status.ok()) return std::string("ok");
        EXPECT_EQ(status.error().code, ErrorCode::Usage);
        return status.error().message;
    };
    EXPECT_EQ(message([](SamplingOptions&) {}), "ok");
    EXPECT_EQ(message([](SamplingOptions& o) { o.temperature = -1.0f; }), "temperature: -1 is outside [0, 100]");
    EXPECT_EQ(message([](SamplingOptions& o) { o.temperature = NAN; }), "temperature: nan is outside [0, 100]");
    EXPECT_EQ(message([](SamplingOptions& o) { o.top_p = 0.0f; }), "top_p: 0 is outside (0, 1]");
    EXPECT_EQ(message([](SamplingOptions& o) { o.min_p = 1.5f; }), "min_p: 1.5 is outside [0, 1]");
    EXPECT_EQ(message([](SamplingOptions& o) { o.typical_p = 0.0f; }), "typical_p: 0 is outside (0, 1]");
    EXPECT_EQ(message([](SamplingOptions& o) { o.repetition_penalty = 0.0f; }),
              "repetition_penalty: 0 is outside (0, 10]");
    EXPECT_EQ(message([](SamplingOptions& o) { o.frequency_penalty = 3.0f; }),
              "frequency_penalty: 3 is outside [-2, 2]");
    EXPECT_EQ(message([](SamplingOptions& o) { o.presence_penalty = kInfinity; }),
              "presence_penalty: inf is outside [-2, 2]");
    EXPECT_EQ(message([](SamplingOptions& o) {
                  o.logit_bias = {{100, 1.0f}};
              }),
              "logit_bias: token 100 is outside [0, 100)");
    EXPECT_EQ(message([](SamplingOptions& o) {
                  o.logit_bias = {{-1, 1.0f}};
              }),
              "logit_bias: token -1 is outside [0, 100)");
    EXPECT_EQ(message([](SamplingOptions& o) {
                  o.logit_bias = {{1, 200.0f}};
              }),
              "logit_bias: 200 is outside [-100, 100]");
}

}  // namespace
}  // namespace hearth
