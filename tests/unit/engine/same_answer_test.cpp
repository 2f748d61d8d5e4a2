// P1, the same answer everywhere: one hash over 256 greedy tokens' logits, equal in every configuration.
#include <gtest/gtest.h>

#include <random>

#include "engine_support.h"
#include "kernels/kernels.h"

namespace hearth {
namespace {

using namespace test;

constexpr std::size_t kTokens = 256;
constexpr std::size_t kPromptLength = 150;

// The type of the matrices, and of the KV cache.
struct Types {
    DType weights;
    KvType kv = KvType::F16;
};

std::string name_of(const Types& types) {
    return std::string(traits(types.weights).name) +
           (types.kv == KvType::F16 ? "" : "_kv_" + std::string(kv_type_name(types.kv)));
}

class SameAnswer : public ::testing::TestWithParam<Types> {
protected:
    std::string model_ = write_tiny_model("same_" + name_of(GetParam()), {.type = GetParam().weights});

    std::shared_ptr<Engine> load(EngineOptions options) {
        options.kv_type = GetParam().kv;
        return load_engine(model_, options);
    }
    Generation run_with(const EngineOptions& options, std::size_t chunk = 0) {
        const std::shared_ptr<Engine> engine = load(options);
        Sequence sequence(engine, greedy());
        EXPECT_TRUE(sequence.append(make_prompt(kPromptLength)).ok());
        return generate(*engine, sequence, kTokens, chunk);
    }
    const Generation& expected() {
        if (!expected_) expected_ = std::make_unique<Generation>(run_with({.threads = 1}));
        return *expected_;
    }

private:
    std::unique_ptr<Generation> expected_;
};

// Written down once: aarch64 and x86-64, whatever the compiler, must reach the same hash.
struct KnownHash {
    Types types;
    std::uint64_t hash;
};
constexpr KnownHash kKnownHashes[] = {
    {{DType::Q4_0}, 0xcbee029e8bc881f5},
    {{DType::Q4_1}, 0x9e2910f24e3ab471},
    {{DType::Q8_0}, 0x8a4e1cc8cb2f7faf},
    {{DType::Q4_K}, 0x28e0d1525facbde0},
    {{DType::Q6_K}, 0x4a2e51fb5845c3e6},
    {{DType::Q8_0, KvType::Q8}, 0x98be026d6c980604},
    {{DType::Q8_0, KvType::Q4}, 0xc4e62788228199ed},
};

TEST_P(SameAnswer, OnEveryMachine) {
    for (const KnownHash& known : kKnownHashes) {
        if (known.types.weights != GetParam().weights || known.types.kv != GetParam().kv) continue;
        EXPECT_EQ(known.hash, expected().hash) << std::hex << expected().hash;
    }
}

TEST_P(SameAnswer, WithAnyNumberOfThreads) {
    for (const std::size_t threads : {2u, 3u, 4u}) EXPECT_EQ(run_with({.threads = threads}), expected()) << threads;
}

TEST_P(SameAnswer, WithOtherThreadsForPromptsThanForDecoding) {
    EXPECT_EQ(run_with({.threads = 1, .threads_prefill = 3}), expected());
    EXPECT_EQ(run_with({.threads = 3, .threads_prefill = 2}), expected());
}

TEST_P(SameAnswer, WhetherThreadsAreKeptOnCoresOrNot) {
    for (const Pinning pinning : {Pinning::Off, Pinning::Core}) {
        EXPECT_EQ(run_with({.threads = 2, .pinning = pinning}), expected());
    }
}

TEST_P(SameAnswer, WithAnyPrefillChunk) {
    for (const std::size_t chunk : {1u, 7u, 64u, 512u}) EXPECT_EQ(run_with({.threads = 2}, chunk), expected()) << chunk;
}

TEST_P(SameAnswer, EagerOrReplayed) {
    EXPECT_EQ(run_with({.threads = 2, .execution = Execution::Eager}), expected());
}

TEST_P(SameAnswer, OnEveryIsaLevelOfThisCpu) {
    for (const Kernels& level : supported_kernels()) {
        EXPECT_EQ(run_with({.threads = 2, .isa = std::string(level.level)}), expected()) << level.level;
    }
}

TEST_P(SameAnswer, AloneOrInARaggedBatchOfSeven) {
    const std::shared_ptr<Engine> engine = load({.threads = 2, .kv_blocks = 200});
    constexpr std::size_t kSequences = 7;
    const std::size_t lengths[kSequences] = {3, 64, kPromptLength, 1, 65, 200, 17};
    std::vector<Sequence> sequences;
    std::vector<Generation> runs(kSequences);
    for (std::size_t i = 0; i < kSequences; ++i) {
        sequences.emplace_back(engine, greedy());
        ASSERT_TRUE(sequences[i].append(make_prompt(lengths[i], i == 2 ? 1 : static_cast<std::uint32_t>(i + 10))).ok());
    }
    // Prompt chunks of 40 rows and decode rows mixed: a sequence decodes as soon as its own prompt is done.
    while (runs[2].tokens.size() < kTokens) {
        std::vector<Feed> feeds;
        std::vector<std::size_t> ready;
        for (std::size_t i = 0; i < kSequences; ++i) {
            const std::size_t rows = std::min<std::size_t>(sequences[i].pending(), 40);
            const bool last = rows == sequences[i].pending();
            feeds.push_back({&sequences[i], rows, last ? Want::Last : Want::None});
            if (last) ready.push_back(i);
        }
        const Result<Logits> logits = engine->forward(feeds);
        ASSERT_TRUE(logits.ok()) << logits.error().message;
        for (std::size_t k = 0; k < ready.size(); ++k) {
            Generation& run = runs[ready[k]];
            run.hash = hash_logits(logits->row(k), run.hash);
            const SampledToken sampled = sequences[ready[k]].sample(logits->sampler_row(k)).value();
            run.tokens.push_back(sampled.token);
            ASSERT_TRUE(sequences[ready[k]].accept(sampled.token, run.text).ok());
        }
    }
    EXPECT_EQ(runs[2], expected());
    // The others are what they are alone, too.
    for (const std::size_t i : {0u, 5u}) {
        Sequence alone(engine, greedy());
        ASSERT_TRUE(alone.append(make_prompt(lengths[i], static_cast<std::uint32_t>(i + 10))).ok());
        const Generation run = generate(*engine, alone, runs[i].tokens.size());
        EXPECT_EQ(run, runs[i]) << "sequence " << i;
    }
}

TEST_P(SameAnswer, AfterAThousandRandomForksAndRegressions) {
    const std::shared_ptr<Engine> engine = load({.threads = 2});
    const std::size_t blocks = engine->kv_blocks_free();
    {
        Sequence sequence(engine, greedy());
        ASSERT_TRUE(sequence.append(make_prompt(kPromptLength)).ok());
        Generation truth;  // hashes[i] belongs to the token at kPromptLength + i
        std::vector<std::uint64_t> hashes;
        std::mt19937 random(3);
        for (int step = 0; step < 1000; ++step) {
            const std::size_t generated = sequence.length() - kPromptLength;
            switch (random() % 3) {
                case 0: {  // back, sometimes into the prompt, once in a while to the very beginning
                    const std::size_t back = random() % 50 == 0 ? sequence.length() : random() % (generated + 10);
                    const std::size_t to = sequence.length() - std::min(back, sequence.length());
                    ASSERT_TRUE(sequence.regress(Time{static_cast<std::uint32_t>(to)}).ok());
                    if (to < kPromptLength) {
                        const std::vector<TokenId> prompt = make_prompt(kPromptLength);
                        ASSERT_TRUE(sequence.append(std::span(prompt).subspan(to)).ok());
                    }
                    break;
                }
                case 1: {  // a sibling goes elsewhere; it or the original continues
                    const std::uint32_t at = static_cast<std::uint32_t>(kPromptLength + random() % (generated + 1));
                    Sequence sibling = sequence.fork(Time{at}).value();
                    const TokenId stray[] = {static_cast<TokenId>(5 + random() % 200)};
                    if (random() % 2 == 0) {
                        ASSERT_TRUE(sibling.append(stray).ok());
                        ASSERT_TRUE(forward_pending(*engine, sibling).ok());
                    } else {
                        sequence = std::move(sibling);
                    }
                    break;
                }
                default:
                    for (std::size_t i = random() % 4; i > 0 && sequence.length() < kPromptLength + kTokens; --i) {
                        const std::size_t index = sequence.length() - kPromptLength;
                        const Result<Logits> logits = forward_pending(*engine, sequence, 1 + random() % 64);
                        ASSERT_TRUE(logits.ok()) << logits.error().message;
                        const std::uint64_t hash = hash_logits(logits->values, 0);
                        if (index < hashes.size()) {
                            ASSERT_EQ(hash, hashes[index]) << "token " << index << " in step " << step;
                        } else {
                            hashes.push_back(hash);
                        }
                        const SampledToken sampled = sequence.sample(logits->sampler_row(0)).value();
                        ASSERT_EQ(sampled.token, expected().tokens[index]);
                        std::string text;
                        ASSERT_TRUE(sequence.accept(sampled.token, text).ok());
                    }
            }
        }
        // Continue to the end: the whole is the run that never went anywhere.
        ASSERT_TRUE(sequence.regress(Time{kPromptLength}).ok());
        EXPECT_EQ(generate(*engine, sequence, kTokens), expected());
    }
    EXPECT_EQ(engine->kv_blocks_free(), blocks);
}

INSTANTIATE_TEST_SUITE_P(Types, SameAnswer,
                         ::testing::Values(Types{DType::Q4_0}, Types{DType::Q4_1}, Types{DType::Q8_0},
                                           Types{DType::Q4_K}, Types{DType::Q6_K}, Types{DType::Q8_0, KvType::Q8},
                                           Types{DType::Q8_0, KvType::Q4}),
                         [](const auto& types) { return name_of(types.param); });

}  // namespace
}  // namespace hearth
