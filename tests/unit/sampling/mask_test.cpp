// Sampling under a grammar's mask: what comes out is what a row with -Inf in the forbidden places gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.h"
#include "sampling/sampler.h"

namespace hearth {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

std::vector<float> random_logits(std::size_t count, std::uint64_t seed) {
    std::vector<float> logits(count);
    for (std::size_t i = 0; i < count; ++i) logits[i] = static_cast<float>(random_unit(seed, i) * 12.0 - 6.0);
    return logits;
}

bool is_set(const std::vector<std::uint64_t>& mask, std::size_t i) {
    return (mask[i / 64] >> (i % 64) & 1) != 0;
}

// Whole chunks allowed, whole chunks forbidden, and mixed ones.
std::vector<std::uint64_t> random_mask(std::size_t count, std::uint64_t seed) {
    std::vector<std::uint64_t> mask((count + 63) / 64);
    for (std::size_t i = 0; i < mask.size(); ++i) {
        const std::uint64_t kind = random_bits(seed, i) % 3;
        mask[i] = kind == 0 ? 0 : kind == 1 ? ~std::uint64_t{0} : random_bits(seed, i, 1) & random_bits(seed, i, 2);
    }
    mask[0] |= 2;  // something is always allowed
    return mask;
}

TEST(SamplingMask, GivesWhatMinusInfinityInTheForbiddenPlacesGives) {
    for (const std::size_t size : {3u, 63u, 64u, 65u, 1000u}) {
        SamplerScratch scratch(size);
        SamplerScratch other(size);
        for (std::uint64_t round = 0; round < 60; ++round) {
            SamplingOptions options;
            options.temperature = round % 3 == 0 ? 0.0f : 1.3f;
            options.top_k = round % 2 == 0 ? 0 : 7;
            options.top_p = round % 4 == 0 ? 1.0f : 0.9f;
            options.min_p = round % 5 == 0 ? 0.05f : 0.0f;
            options.repetition_penalty = 1.2f;
            options.seed = round;
            options.logit_bias = {{2, 3.0f}};
            const std::vector<TokenId> recent{0, 1, 2};
            const std::vector<float> logits = random_logits(size, round);
            const std::vector<std::uint64_t> mask = random_mask(size, round);
            std::vector<float> forbidden = logits;
            for (std::size_t i = 0; i < size; ++i) {
                if (!is_set(mask, i)) forbidden[i] = kLowest;
            }
            const Result<SampledToken> masked = sample(logits, options, recent, round, scratch, mask);
            const Result<SampledToken> expected = sample(forbidden, options, recent, round, other);
            ASSERT_TRUE(masked.ok()) << masked.error().message;
            ASSERT_TRUE(expected.ok());
            EXPECT_EQ(masked->token, expected->token) << size << " " << round;
            EXPECT_TRUE(is_set(mask, static_cast<std::size_t>(masked->token)));
        }
    }
}

TEST(SamplingMask, LogprobsStayThoseOfTheModel) {
    const std::vector<float> logits{3, 2, 1, 0};
    const std::vector<std::uint64_t> mask{0b1000};
    SamplerScratch scratch(4);
    SamplingOptions options;
    options.logprob = true;
    const SampledToken sampled = sample(logits, options, {}, 0, scratch, mask).value();
    EXPECT_EQ(sampled.token, 3);
    EXPECT_NEAR(static_cast<double>(sampled.logprob), 0.0 - log_sum_exp(logits), 1e-5);
}

TEST(SamplingMask, AllowingNothingIsAnError) {
    const std::vector<float> logits(130, 1.0f);
    const std::vector<std::uint64_t> mask(3, 0);
    SamplerScratch scratch(130);
    for (const float temperature : {0.0f, 1.0f}) {
        SamplingOptions options;
        options.temperature = temperature;
        const Result<SampledToken> sampled = sample(logits, options, {}, 9, scratch, mask);
        ASSERT_FALSE(sampled.ok());
        EXPECT_NE(sampled.error().message.find("position 9"), std::string::npos);
    }
    // The scratch is clean afterwards.
    EXPECT_TRUE(sample(logits, SamplingOptions{}, {}, 9, scratch).ok());
}

TEST(TopLogprobs, AreTheLikeliestInOrder) {
    const std::vector<float> logits = random_logits(500, 3);
    SamplerScratch scratch(500);
    std::vector<SampledToken> top;
    ASSERT_TRUE(top_logprobs(logits, 20, scratch, top).ok());
    ASSERT_EQ(top.size(), 20u);
    std::vector<float> sorted = logits;
    std::ranges::sort(sorted, std::greater<>());
    const double normaliser = log_sum_exp(logits);
    for (std::size_t i = 0; i < 20; ++i) {
        EXPECT_EQ(logits[static_cast<std::size_t>(top[i].token)], sorted[i]);
        EXPECT_NEAR(static_cast<double>(top[i].logprob), static_cast<double>(sorted[i]) - normaliser, 1e-5);
    }
    ASSERT_TRUE(top_logprobs(std::vector<float>{1, 2}, 20, scratch, top).ok());
    EXPECT_EQ(top.size(), 2u);
}

}  // namespace
}  // namespace hearth
