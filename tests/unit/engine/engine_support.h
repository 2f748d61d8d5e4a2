// What the engine tests share: greedy runs with one hash over all their logits.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "engine/sequence.h"
#include "support/tiny_model.h"

namespace hearth::test {

inline std::shared_ptr<Engine> load_engine(const std::string& path, const EngineOptions& options = {}) {
    Result<std::shared_ptr<Engine>> engine = Engine::load(path, options);
    EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
    return engine.ok() ? std::move(engine).value() : nullptr;
}

inline std::shared_ptr<const SamplingOptions> greedy() {
    SamplingOptions options;
    options.temperature = 0;
    return std::make_shared<const SamplingOptions>(options);
}

struct Generation {
    std::vector<TokenId> tokens;
    std::uint64_t hash = 0;  // over the logits of every generated token, in order
    std::string text;
    bool operator==(const Generation&) const = default;
};

inline std::uint64_t hash_logits(std::span<const float> logits, std::uint64_t seed) {
    return hash_bytes(std::as_bytes(logits), seed);
}

// One generated token: logits of the pending tokens, hashed, sampled, accepted.
inline void decode_one(Engine& engine, Sequence& sequence, Generation& run, std::size_t chunk = 0) {
    const Result<Logits> logits = forward_pending(engine, sequence, chunk);
    ASSERT_TRUE(logits.ok()) << logits.error().message;
    run.hash = hash_logits(logits->values, run.hash);
    const Result<SampledToken> sampled = sequence.sample(logits->sampler_row(0));
    ASSERT_TRUE(sampled.ok()) << sampled.error().message;
    run.tokens.push_back(sampled->token);
    ASSERT_TRUE(sequence.accept(sampled->token, run.text).ok());
}

inline Generation generate(Engine& engine, Sequence& sequence, std::size_t count, std::size_t chunk = 0) {
    Generation run;
    for (std::size_t i = 0; i < count && !::testing::Test::HasFatalFailure(); ++i)
        decode_one(engine, sequence, run, chunk);
    return run;
}

// A prompt of plain tokens that depends on `seed`.
inline std::vector<TokenId> make_prompt(std::size_t length, std::uint32_t seed = 1) {
    std::vector<TokenId> prompt{1};
    for (std::uint32_t x = seed; prompt.size() < length;) {
        x = x * 1664525u + 1013904223u;
        prompt.push_back(static_cast<TokenId>(3 + (x >> 8) % 300));
    }
    return prompt;
}

}  // namespace hearth::test
