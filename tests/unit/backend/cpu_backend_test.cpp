// The CPU backend: replay equals eager bit for bit, windows compose, values can be read back, threads change nothing.
#include "backend/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "tensor/codec.h"

namespace hearth {
namespace {

// A one-layer model with every op in it, weights of several types, two sequences in the batch.
struct TinyShape {
    DType after_attention = DType::F16;
    std::size_t hidden = 96;
    std::size_t beside = 0;  // rows of another matrix over the input of the gate; 0: there is none
};
class TinyModel {
public:
    explicit TinyModel(TinyShape tiny = {}) {
        Handle x = graph.embed(random_weight(DType::Q8_0, kDim, kVocabulary), 2.0f);
        embedded = x;
        const Handle angles = graph.rope_angles({{1.0f, 0.1f, 0.01f, 0.001f}, 1.0f});
        const Handle normed = graph.rms_norm(x, random_weight(DType::F32, kDim, 1), 1e-5f);
        Handle q = graph.matmul(normed, random_weight(DType::Q4_0, kDim, 64));
        q = graph.add_bias(q, random_weight(DType::F32, 64, 1));
        q = graph.rms_norm_heads(q, random_weight(DType::F32, 16, 1), 1e-6f, 16);
        q = graph.rope(q, angles, RopeStyle::Halves, 16);
        query = q;
        const Handle k =
            graph.rope(graph.matmul(normed, random_weight(DType::Q4_1, kDim, 32)), angles, RopeStyle::Adjacent, 16);
        const Handle v = graph.matmul(normed, random_weight(DType::Q6_K, kDim, 32));
        const AttentionShape shape{4, 2, 16, 0.25f, 5};
        const Handle mixed = graph.attention(q, k, v, 0, shape);
        x = graph.add(x, graph.matmul(mixed, random_weight(tiny.after_attention, 64, kDim)));
        const Handle gate = graph.matmul(x, random_weight(DType::Q5_0, kDim, tiny.hidden));
        const Handle up = graph.matmul(x, random_weight(DType::Q4_K, kDim, tiny.hidden));
        const Handle beside =
            tiny.beside == 0 ? Handle{} : graph.matmul(x, random_weight(DType::Q4_0, kDim, tiny.beside));
        const Handle gated = graph.gate(Activation::GeluTanh, gate, up);
        x = graph.add(x, graph.matmul(gated, random_weight(DType::Q8_0, tiny.hidden, kDim)));
        if (beside) x = graph.add(x, graph.matmul(beside, random_weight(DType::Q8_0, tiny.beside, kDim)));
        graph.set_logits(graph.matmul(graph.wanted_rows(x), random_weight(DType::BF16, kDim, kVocabulary)));
        plan = Plan::compile(graph, {512, 8}).value();
        pool.resize(8 * layout.block_bytes());
    }

    // Both sequences from their beginning, as long as their blocks allow at most.
    void give_tokens_each(std::uint32_t count) {
        tokens.clear();
        positions.clear();
        row_sequences.clear();
        for (std::uint32_t row = 0; row < 2 * count; ++row) {
            tokens.push_back(static_cast<std::int32_t>(row * 7 % kVocabulary));
            positions.push_back(row % count);
            row_sequences.push_back(row / count);
        }
        wanted = {0, count - 1, 2 * count - 1};
    }
    void give_rows(std::uint32_t count) {
        give_tokens_each((count + 1) / 2);
        tokens.resize(count);
        positions.resize(count);
        row_sequences.resize(count);
        wanted = {count - 1};
    }

    StepInputs inputs() { return StepInputs{tokens, positions, row_sequences, tables, wanted, pool.data(), layout}; }

    static constexpr std::size_t kDim = 256;
    static constexpr std::size_t kVocabulary = 50;
    Arena arena;
    Graph graph{arena};
    Plan plan;
    Handle embedded;
    Handle query;
    KvLayout layout{1, 2, 16};
    std::vector<std::byte> pool;
    std::vector<std::int32_t> tokens{3, 9, 27, 31, 43, 1, 2};
    std::vector<std::uint32_t> positions{0, 1, 2, 3, 4, 0, 1};
    std::vector<std::uint32_t> row_sequences{0, 0, 0, 0, 0, 1, 1};
    std::uint32_t first_table[4] = {2, 5, 1, 7};
    std::uint32_t second_table[4] = {0, 3, 6, 4};
    std::vector<const std::uint32_t*> tables{first_table, second_table};
    std::vector<std::uint32_t> wanted{1, 4, 6};

private:
    Handle random_weight(DType type, std::size_t columns, std::size_t rows) {
        std::normal_distribution<float> normal(0, 0.2f);
        std::vector<float> row(columns);
        auto bytes = std::make_unique<std::vector<std::byte>>(row_bytes(type, columns) * rows);
        for (std::size_t i = 0; i < rows; ++i) {
            for (float& value : row) value = normal(random_);
            EXPECT_TRUE(encode_row(type, row, {}, bytes->data() + i * row_bytes(type, columns)).ok());
        }
        storage_.push_back(std::move(bytes));
        return graph.weight({type, Shape{{columns, rows, 1, 1}}, storage_.back()->data()});
    }
    std::mt19937 random_{11};
    std::vector<std::unique_ptr<std::vector<std::byte>>> storage_;
};

std::vector<float> replay(TinyModel& model, CpuBackend& backend) {
    const std::size_t steps = model.plan.steps().size();
    EXPECT_TRUE(backend.execute_window(model.plan, 0, steps, model.inputs()).ok());
    return backend.read_back(model.plan, model.graph.logits(), steps, model.inputs()).value();
}

TEST(CpuBackend, ReplayEqualsEagerBitForBitOnEveryLevelAndThreadCount) {
    TinyModel model;
    ThreadPool one(1);
    CpuBackend reference = CpuBackend::create("reference", one).value();
    const std::vector<float> expected = reference.execute_eagerly(model.graph, model.inputs()).value();
    ASSERT_EQ(expected.size(), 3 * TinyModel::kVocabulary);
    for (const float value : expected) ASSERT_TRUE(std::isfinite(value));
    for (const Kernels& level : supported_kernels()) {
        for (const std::size_t threads : {1u, 2u, 3u}) {
            ThreadPool pool(threads);
            CpuBackend backend(level, pool);
            ASSERT_TRUE(backend.prepare(model.plan).ok());
            std::fill(model.pool.begin(), model.pool.end(), std::byte{0xff});  // no value left over may help
            const std::vector<float> replayed = replay(model, backend);
            ASSERT_EQ(std::memcmp(replayed.data(), expected.data(), expected.size() * sizeof(float)), 0)
                << level.level << " with " << threads << " threads";
            const std::vector<float> eager = backend.execute_eagerly(model.graph, model.inputs()).value();
            ASSERT_EQ(std::memcmp(eager.data(), expected.data(), expected.size() * sizeof(float)), 0);
        }
    }
}

void expect_replay_equals_eager(TinyModel& model, const std::vector<std::size_t>& thread_counts) {
    ThreadPool one(1);
    CpuBackend reference = CpuBackend::create("reference", one).value();
    const std::vector<float> expected = reference.execute_eagerly(model.graph, model.inputs()).value();
    for (const Kernels& level : supported_kernels()) {
        for (const std::size_t threads : thread_counts) {
            ThreadPool pool(threads);
            CpuBackend backend(level, pool);
            ASSERT_TRUE(backend.prepare(model.plan).ok());
            std::fill(model.pool.begin(), model.pool.end(), std::byte{0xff});
            const std::vector<float> replayed = replay(model, backend);
            ASSERT_EQ(replayed.size(), expected.size());
            ASSERT_EQ(std::memcmp(replayed.data(), expected.data(), expected.size() * sizeof(float)), 0)
                << level.level << " with " << threads << " threads and " << model.tokens.size() << " rows";
        }
    }
}

TEST(CpuBackend, ReplayOfPromptsEqualsEager) {
    TinyModel model;
    for (const std::uint32_t tokens : {9u, 20u, 256u}) {
        model.give_tokens_each(tokens);
        ASSERT_NO_FATAL_FAILURE(expect_replay_equals_eager(model, {1, 3}));
    }
}

// With few rows a step quantises what it makes for the next one, piece by piece.
TEST(CpuBackend, WhatIsQuantisedForTheNextStepIsTheSameInPieces) {
    TinyModel model({.after_attention = DType::Q4_0, .hidden = 320, .beside = 640});
    for (const std::uint32_t rows : {1u, 2u, 3u, 4u, 5u, 8u, 15u, 16u, 17u}) {
        model.give_rows(rows);
        ASSERT_NO_FATAL_FAILURE(expect_replay_equals_eager(model, {1, 2, 3, 9}));
    }
}

TEST(CpuBackend, WindowsComposeToTheWhole) {
    TinyModel model({.after_attention = DType::Q4_0, .hidden = 320});
    ThreadPool pool(2);
    CpuBackend backend = CpuBackend::create("", pool).value();
    ASSERT_TRUE(backend.prepare(model.plan).ok());
    const std::vector<float> whole = replay(model, backend);
    const std::size_t steps = model.plan.steps().size();
    for (std::size_t cut = 1; cut < steps; ++cut) {
        ASSERT_TRUE(backend.execute_window(model.plan, 0, cut, model.inputs()).ok());
        ASSERT_TRUE(backend.execute_window(model.plan, cut, steps, model.inputs()).ok());
        const std::vector<float> parts =
            backend.read_back(model.plan, model.graph.logits(), steps, model.inputs()).value();
        ASSERT_EQ(std::memcmp(parts.data(), whole.data(), whole.size() * sizeof(float)), 0) << "cut at " << cut;
    }
}

TEST(CpuBackend, ReadBackGivesAnIntermediateWhileItIsHeldAndRefusesItAfterwards) {
    TinyModel model;
    ThreadPool pool(1);
    CpuBackend backend = CpuBackend::create("", pool).value();
    ASSERT_TRUE(backend.prepare(model.plan).ok());
    std::size_t after = 0;
    while (!model.plan.holds(model.query, after)) ++after;
    ASSERT_FALSE(backend.read_back(model.plan, model.query, after - 1, model.inputs()).ok());
    ASSERT_TRUE(backend.execute_window(model.plan, 0, after, model.inputs()).ok());
    const std::vector<float> query = backend.read_back(model.plan, model.query, after, model.inputs()).value();
    EXPECT_EQ(query.size(), model.tokens.size() * 64);
    ASSERT_TRUE(backend.read_back(model.plan, model.embedded, after, model.inputs()).ok());
    std::size_t lost = after;  // where the output of attention is added to it
    while (lost < model.plan.steps().size() && model.plan.holds(model.embedded, lost)) ++lost;
    ASSERT_LT(lost, model.plan.steps().size());
    const auto stale = backend.read_back(model.plan, model.embedded, lost, model.inputs());
    ASSERT_FALSE(stale.ok());
    EXPECT_NE(stale.error().message.find("not held"), std::string::npos);
}

TEST(CpuBackend, ReadBackGivesRowsOneAfterTheOtherHoweverTheyLie) {
    TinyModel model;
    model.tokens = {3, 9, 3, 31, 43, 1, 3};
    ThreadPool pool(1);
    CpuBackend backend = CpuBackend::create("", pool).value();
    ASSERT_TRUE(backend.prepare(model.plan).ok());
    std::size_t after = 0;
    while (!model.plan.holds(model.embedded, after)) ++after;
    ASSERT_TRUE(backend.execute_window(model.plan, 0, after, model.inputs()).ok());
    const std::vector<float> rows = backend.read_back(model.plan, model.embedded, after, model.inputs()).value();
    ASSERT_EQ(rows.size(), model.tokens.size() * TinyModel::kDim);
    const auto row = [&](std::size_t i) { return std::span(rows).subspan(i * TinyModel::kDim, TinyModel::kDim); };
    EXPECT_FALSE(std::ranges::equal(row(0), row(1)));
    EXPECT_TRUE(std::ranges::equal(row(0), row(2)));
    EXPECT_TRUE(std::ranges::equal(row(0), row(6)));
}

TEST(CpuBackend, RowsDoNotDependOnTheirBatch) {
    TinyModel model;
    ThreadPool pool(2);
    CpuBackend backend = CpuBackend::create("", pool).value();
    ASSERT_TRUE(backend.prepare(model.plan).ok());
    const std::vector<float> together = replay(model, backend);
    std::fill(model.pool.begin(), model.pool.end(), std::byte{0});
    // The same rows one at a time: the last of each sequence must come out equal.
    const TinyModel all;
    std::vector<float> alone;
    for (std::size_t row = 0; row < all.tokens.size(); ++row) {
        model.tokens = {all.tokens[row]};
        model.positions = {all.positions[row]};
        model.row_sequences = {all.row_sequences[row]};
        model.wanted = {0};
        const std::vector<float> logits = replay(model, backend);
        if (row == 1 || row == 4 || row == 6) alone.insert(alone.end(), logits.begin(), logits.end());
    }
    ASSERT_EQ(alone.size(), together.size());
    EXPECT_EQ(std::memcmp(alone.data(), together.data(), alone.size() * sizeof(float)), 0);
}

TEST(CpuBackend, AnUnknownLevelIsAnErrorThatListsTheKnownOnes) {
    ThreadPool pool(1);
    const Result<CpuBackend> backend = CpuBackend::create("mmx", pool);
    ASSERT_FALSE(backend.ok());
    EXPECT_NE(backend.error().message.find("reference"), std::string::npos);
}

TEST(CpuBackend, ProfilingCountsCallsAndSeconds) {
    TinyModel model;
    ThreadPool pool(1);
    CpuBackend backend = CpuBackend::create("", pool).value();
    ASSERT_TRUE(backend.prepare(model.plan).ok());
    backend.set_profiling(true);
    replay(model, backend);
    EXPECT_EQ(backend.costs()[static_cast<std::size_t>(Op::Attend)].calls, 1u);
    EXPECT_GT(backend.costs()[static_cast<std::size_t>(Op::Matmul)].seconds, 0.0);
}

}  // namespace
}  // namespace hearth
