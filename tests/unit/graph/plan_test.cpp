// The planner: sharing of quantised activations, grouping, and placement without overlap of living values.
#include "graph/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

namespace hearth {
namespace {

// Weights are never read here, so they need no bytes.
TensorView weight_view(DType type, std::size_t columns, std::size_t rows) {
    return TensorView{type, Shape{{columns, rows, 1, 1}}, nullptr};
}

struct TwoLayerGraph {
    Arena arena;
    Graph graph{arena};
    Handle normed;

    TwoLayerGraph() {
        Handle x = graph.embed(graph.weight(weight_view(DType::F32, 64, 100)));
        const Handle norm = graph.weight(weight_view(DType::F32, 64, 1));
        for (int layer = 0; layer < 2; ++layer) {
            normed = graph.rms_norm(x, norm, 1e-5f);
            const Handle gate = graph.matmul(normed, graph.weight(weight_view(DType::Q8_0, 64, 128)));
            const Handle up = graph.matmul(normed, graph.weight(weight_view(DType::Q4_0, 64, 128)));
            const Handle hidden = graph.gate(Activation::Silu, gate, up);
            x = graph.add(x, graph.matmul(hidden, graph.weight(weight_view(DType::F32, 128, 64))));
        }
        graph.set_logits(graph.matmul(graph.wanted_rows(x), graph.weight(weight_view(DType::Q8_0, 64, 100))));
    }
};

std::size_t count(const Plan& plan, Op op) {
    std::size_t total = 0;
    for (const Node& node : plan.nodes()) total += node.op == op ? 1 : 0;
    return total;
}

TEST(Plan, QuantisesAValueOnceForAllItsConsumers) {
    TwoLayerGraph model;
    const Plan plan = Plan::compile(model.graph, {8, 2}).value();
    EXPECT_EQ(count(plan, Op::Matmul), 7u);
    EXPECT_EQ(count(plan, Op::Quantize), 3u);  // one a layer (the down projection is F32), one for the head
}

std::vector<Op> ops(std::span<const Node> nodes) {
    std::vector<Op> all;
    for (const Node& node : nodes) all.push_back(node.op);
    return all;
}

TEST(Plan, FusesMatmulsOverTheSameInputWithWhatMakesItAndWhatFollows) {
    TwoLayerGraph model;
    const Plan plan = Plan::compile(model.graph, {8, 2}).value();
    std::vector<PlanStep> matmuls;
    for (const PlanStep step : plan.steps()) {
        if (step.kind == StepKind::Matmuls) matmuls.push_back(step);
    }
    ASSERT_EQ(matmuls.size(), 5u);  // gate and up, down; twice; the head
    EXPECT_EQ(ops(plan.prologue_of(matmuls[0])), (std::vector<Op>{Op::RmsNorm, Op::Quantize}));
    EXPECT_EQ(matmuls[0].matmuls, 2u);
    EXPECT_EQ(ops(plan.epilogue_of(matmuls[0])), std::vector<Op>{Op::Gate});
    EXPECT_EQ(ops(plan.prologue_of(matmuls[1])), std::vector<Op>{});  // F32 weights take what there is
    EXPECT_EQ(ops(plan.epilogue_of(matmuls[1])), std::vector<Op>{Op::Add});
    EXPECT_EQ(ops(plan.epilogue_of(matmuls[4])), std::vector<Op>{Op::ChunkMaxima});
}

TEST(Plan, ALayerOfTheLlamaKindHasFiveSteps) {
    Arena arena;
    Graph graph(arena);
    const auto matrix = [&](std::size_t columns, std::size_t rows) {
        return graph.weight(weight_view(DType::Q4_0, columns, rows));
    };
    const Handle norm = graph.weight(weight_view(DType::F32, 64, 1));
    const Handle angles = graph.rope_angles({{1.0f, 0.1f}, 1.0f});
    Handle x = graph.embed(graph.weight(weight_view(DType::F32, 64, 100)));
    constexpr std::size_t kLayers = 3;
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
        const Handle normed = graph.rms_norm(x, norm, 1e-5f);
        Handle q = graph.rms_norm_heads(graph.matmul(normed, matrix(64, 64)),
                                        graph.weight(weight_view(DType::F32, 16, 1)), 1e-5f, 16);
        q = graph.rope(graph.add_bias(q, norm), angles, RopeStyle::Halves, 16);
        const Handle k = graph.rope(graph.matmul(normed, matrix(64, 32)), angles, RopeStyle::Halves, 16);
        const Handle v = graph.matmul(normed, matrix(64, 32));
        const Handle mixed = graph.attention(q, k, v, layer, {4, 2, 16, 0.25f, 0});
        x = graph.add(x, graph.matmul(mixed, matrix(64, 64)));
        const Handle second = graph.rms_norm(x, norm, 1e-5f);
        const Handle hidden =
            graph.gate(Activation::Silu, graph.matmul(second, matrix(64, 128)), graph.matmul(second, matrix(64, 128)));
        x = graph.add(x, graph.matmul(hidden, matrix(128, 64)));
    }
    graph.set_logits(graph.matmul(graph.wanted_rows(x), matrix(64, 100)));
    const Plan plan = Plan::compile(graph, {8, 2}).value();
    EXPECT_EQ(plan.steps().size(), 5 * kLayers + 3);  // and: embedding with angles, the wanted rows, the head
}

// Whether two values share a byte at a step of `rows` rows, batch and wanted alike.
bool overlap(const Arena& arena, Handle a, Handle b, std::size_t rows) {
    const EphemeralValue& first = arena.ephemeral(a);
    const EphemeralValue& second = arena.ephemeral(b);
    return first.offset_bytes < second.offset_bytes + second.row_bytes * rows &&
           second.offset_bytes < first.offset_bytes + first.row_bytes * rows;
}

std::size_t offset(const Arena& arena, Handle value) {
    return arena.ephemeral(value).offset_bytes;
}

// Every input of every node, from what the offsets say: nothing computed between its maker and its reader may lie over
// it, and of what the reader's step computes only the reader's own output.
void expect_inputs_are_intact(const Plan& plan, std::size_t rows) {
    const Arena& arena = plan.graph().arena();
    std::vector<Node> before;
    for (const PlanStep step : plan.steps()) {
        const std::span<const Node> nodes = plan.nodes_of(step);
        for (const Node& reader : nodes) {
            for (const Handle value : {reader.input, reader.second}) {
                if (!value) continue;
                bool made = false;
                const auto look_at = [&](const Node& node) {
                    if (node.output == value) {
                        made = true;
                    } else if (made && node.output && node.output != reader.output) {
                        EXPECT_FALSE(overlap(arena, value, node.output, rows))
                            << "value " << value.index << " under " << node.output.index;
                    }
                };
                for (const Node& node : before) look_at(node);
                for (const Node& node : nodes) look_at(node);
                EXPECT_TRUE(made) << "value " << value.index;
            }
        }
        before.insert(before.end(), nodes.begin(), nodes.end());
    }
}

TEST(Plan, WhatAStepReadsIsHeldOrMadeByItself) {
    TwoLayerGraph model;
    const Plan plan = Plan::compile(model.graph, {8, 2}).value();
    for (std::size_t step = 0; step < plan.steps().size(); ++step) {
        std::vector<Handle> own;
        for (const Node& node : plan.nodes_of(plan.steps()[step])) {
            for (const Handle value : {node.input, node.second}) {
                const bool made_here = std::ranges::find(own, value) != own.end();
                EXPECT_TRUE(!value || made_here || plan.holds(value, step)) << "step " << step;
            }
            own.push_back(node.output);
        }
    }
    EXPECT_TRUE(plan.holds(model.graph.logits(), plan.steps().size()));
    EXPECT_TRUE(plan.holds(plan.logit_maxima(), plan.steps().size()));
}

// The shape that every family shares, with its sizes apart from each other.
struct LlamaGraph {
    static constexpr std::size_t kDim = 64;
    static constexpr std::size_t kFfn = 256;
    Arena arena;
    Graph graph{arena};
    Handle angles, before, query, rotated, after_attention, second_norm, gate, up, hidden, down, after;

    LlamaGraph() {
        const auto matrix = [&](std::size_t columns, std::size_t rows) {
            return graph.weight(weight_view(DType::Q4_0, columns, rows));
        };
        const Handle norm = graph.weight(weight_view(DType::F32, kDim, 1));
        angles = graph.rope_angles({{1.0f, 0.1f}, 1.0f});
        Handle x = graph.embed(graph.weight(weight_view(DType::F32, kDim, 100)));
        for (std::size_t layer = 0; layer < 3; ++layer) {
            before = x;
            const Handle normed = graph.rms_norm(x, norm, 1e-5f);
            query = graph.matmul(normed, matrix(kDim, kDim));
            rotated = graph.rope(query, angles, RopeStyle::Halves, 16);
            const Handle k = graph.rope(graph.matmul(normed, matrix(kDim, 32)), angles, RopeStyle::Halves, 16);
            const Handle v = graph.matmul(normed, matrix(kDim, 32));
            const Handle mixed = graph.attention(rotated, k, v, layer, {4, 2, 16, 0.25f, 0});
            x = after_attention = graph.add(x, graph.matmul(mixed, matrix(kDim, kDim)));
            second_norm = graph.rms_norm(x, norm, 1e-5f);
            gate = graph.matmul(second_norm, matrix(kDim, kFfn));
            up = graph.matmul(second_norm, matrix(kDim, kFfn));
            hidden = graph.gate(Activation::Silu, gate, up);
            down = graph.matmul(hidden, matrix(kFfn, kDim));
            x = after = graph.add(x, down);
        }
        graph.set_logits(graph.matmul(graph.wanted_rows(x), matrix(kDim, 100)));
    }
};

TEST(Plan, NothingLiesOverAValueThatIsStillRead) {
    TwoLayerGraph small;
    expect_inputs_are_intact(Plan::compile(small.graph, {16, 16}).value(), 16);
    LlamaGraph model;
    expect_inputs_are_intact(Plan::compile(model.graph, {16, 16}).value(), 16);
}

TEST(Plan, AnOperationOnElementsOrHeadsWritesOverAnInputThatNobodyElseReads) {
    LlamaGraph model;
    const Plan plan = Plan::compile(model.graph, {64, 16}).value();
    EXPECT_EQ(offset(model.arena, model.rotated), offset(model.arena, model.query));
    EXPECT_EQ(offset(model.arena, model.after_attention), offset(model.arena, model.before));
    EXPECT_EQ(offset(model.arena, model.hidden), offset(model.arena, model.gate));
    EXPECT_EQ(offset(model.arena, model.after), offset(model.arena, model.before));
}

TEST(Plan, AValueWrittenOverInItsOwnStepIsNeverHeld) {
    LlamaGraph model;
    const Plan plan = Plan::compile(model.graph, {64, 16}).value();
    std::size_t held_before = 0;
    for (std::size_t step = 0; step <= plan.steps().size(); ++step) {
        EXPECT_FALSE(plan.holds(model.gate, step));
        EXPECT_FALSE(plan.holds(model.query, step));
        EXPECT_FALSE(plan.holds(model.before, step) && plan.holds(model.after_attention, step)) << "step " << step;
        held_before += plan.holds(model.before, step) ? 1 : 0;
    }
    EXPECT_EQ(held_before, 3u);  // after the step that makes it, QKV, attention; the next adds to it
}

TEST(Plan, TheBufferIsAsLargeAsWhatLivesAtTheWidestStep) {
    LlamaGraph model;
    const Plan plan = Plan::compile(model.graph, {64, 16}).value();
    std::size_t row = activation_row_bytes(ActivationFormat::Q8x32, LlamaGraph::kDim);
    for (const Handle value : {model.angles, model.after_attention, model.second_norm, model.gate, model.up})
        row += model.arena.ephemeral(value).row_bytes;
    EXPECT_EQ(model.arena.ephemeral_bytes(), 64 * row);
}

// Else a column of many rows would lie in few sets of a cache.
TEST(Plan, RowsOfABatchAreNoWholeNumberOfKiBAndWantedRowsLieCloseTogether) {
    Arena arena;
    Graph graph(arena);
    const Handle x = graph.embed(graph.weight(weight_view(DType::F32, 2048, 100)));
    const Handle logits = graph.matmul(graph.wanted_rows(x), graph.weight(weight_view(DType::Q8_0, 2048, 512)));
    EXPECT_EQ(arena.ephemeral(x).row_bytes, 2048 * sizeof(float) + kCacheLine);
    EXPECT_EQ(arena.ephemeral(logits).row_bytes, 512 * sizeof(float));
}

TEST(Plan, LogitsTakeTheRoomOfWhatIsDead) {
    TwoLayerGraph model;
    const Plan plan = Plan::compile(model.graph, {64, 64}).value();
    EXPECT_EQ(offset(model.arena, model.graph.logits()), 0u);
}

TEST(Plan, AnInputThatAPrologueOfTheSameStepReadsIsNotWrittenOver) {
    Arena arena;
    Graph graph(arena);
    const Handle x = graph.embed(graph.weight(weight_view(DType::F32, 64, 100)));
    const Handle normed = graph.rms_norm(x, graph.weight(weight_view(DType::F32, 64, 1)), 1e-5f);
    const Handle made = graph.matmul(normed, graph.weight(weight_view(DType::Q4_0, 64, 64)));
    const Handle sum = graph.add(x, made);  // in the step whose every thread normalises all of x
    graph.set_logits(graph.matmul(graph.wanted_rows(sum), graph.weight(weight_view(DType::Q8_0, 64, 100))));
    const Plan plan = Plan::compile(graph, {16, 16}).value();
    ASSERT_EQ(ops(plan.nodes_of(plan.steps()[1])), (std::vector<Op>{Op::RmsNorm, Op::Quantize, Op::Matmul, Op::Add}));
    EXPECT_NE(offset(arena, sum), offset(arena, x));
    EXPECT_EQ(offset(arena, sum), offset(arena, made));
}

TEST(Plan, AnInputThatALaterStepReadsIsNotWrittenOver) {
    Arena arena;
    Graph graph(arena);
    const Handle x = graph.embed(graph.weight(weight_view(DType::F32, 64, 100)));
    const Handle bias = graph.weight(weight_view(DType::F32, 64, 1));
    const Handle shifted = graph.add_bias(x, bias);
    const Handle made = graph.matmul(shifted, graph.weight(weight_view(DType::Q4_0, 64, 64)));
    const Handle sum = graph.add(x, made);
    graph.set_logits(graph.matmul(graph.wanted_rows(sum), graph.weight(weight_view(DType::Q8_0, 64, 100))));
    const Plan plan = Plan::compile(graph, {16, 16}).value();
    EXPECT_FALSE(overlap(arena, shifted, x, 16));
    expect_inputs_are_intact(plan, 16);
}

TEST(Plan, ANormInAPrologueDoesNotWriteOverItsInput) {
    Arena arena;
    Graph graph(arena);
    const Handle x = graph.embed(graph.weight(weight_view(DType::F32, 64, 100)));
    const Handle normed = graph.rms_norm(x, graph.weight(weight_view(DType::F32, 64, 1)), 1e-5f);
    graph.set_logits(graph.matmul(normed, graph.weight(weight_view(DType::Q8_0, 64, 100))));
    ASSERT_TRUE(Plan::compile(graph, {16, 16}).ok());
    EXPECT_FALSE(overlap(arena, normed, x, 16));
}

TEST(Plan, ReusesBytesOfDeadValues) {
    TwoLayerGraph model;
    const Plan plan = Plan::compile(model.graph, {64, 16}).value();
    std::size_t all = 0;
    for (const Node& node : plan.nodes()) {
        if (node.output) all += model.arena.ephemeral(node.output).row_bytes * (node.rows == RowCount::Batch ? 64 : 16);
    }
    EXPECT_LT(model.arena.ephemeral_bytes(), all / 2);
}

TEST(Plan, KnowsWhenAValueIsNotHeld) {
    TwoLayerGraph model;
    const Plan plan = Plan::compile(model.graph, {8, 2}).value();
    EXPECT_FALSE(plan.holds(model.normed, 0));  // not computed yet
    EXPECT_FALSE(plan.holds(Handle{}, 3));
    // What a prologue makes belongs to its step alone.
    for (std::size_t step = 0; step <= plan.steps().size(); ++step) EXPECT_FALSE(plan.holds(model.normed, step));
}

TEST(Graph, AMatmulOfTheWrongWidthIsCaught) {
    Arena arena;
    Graph graph(arena);
    const Handle x = graph.embed(graph.weight(weight_view(DType::F32, 64, 10)));
    const Handle weight = graph.weight(weight_view(DType::F32, 32, 10));
    EXPECT_DEATH(graph.matmul(x, weight), "broken invariant");
}

}  // namespace
}  // namespace hearth
