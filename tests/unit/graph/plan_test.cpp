// The planner: sharing of quantised activations, grouping, and placement without overlap of living values.
#include "graph/plan.h"

#include <gtest/gtest.h>

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

TEST(Plan, RunsMatmulsOverTheSameInputTogether) {
    TwoLayerGraph model;
    const Plan plan = Plan::compile(model.graph, {8, 2}).value();
    std::vector<std::uint32_t> group_sizes;
    for (const PlanStep step : plan.steps()) {
        if (plan.nodes_of(step).front().op == Op::Matmul) group_sizes.push_back(step.count);
    }
    EXPECT_EQ(group_sizes, (std::vector<std::uint32_t>{2, 1, 2, 1, 1}));
}

TEST(Plan, LivingValuesNeverShareBytes) {
    TwoLayerGraph model;
    const PlanLimits limits{8, 2};
    const Plan plan = Plan::compile(model.graph, limits).value();
    // Whatever a step reads must still be held when it runs.
    for (std::size_t step = 0; step < plan.steps().size(); ++step) {
        for (const Node& node : plan.nodes_of(plan.steps()[step])) {
            EXPECT_TRUE(!node.input || plan.holds(node.input, step)) << "step " << step;
            EXPECT_TRUE(!node.second || plan.holds(node.second, step)) << "step " << step;
        }
    }
    EXPECT_TRUE(plan.holds(model.graph.logits(), plan.steps().size()));
}

TEST(Plan, ReusesBytesOfDeadValues) {
    TwoLayerGraph model;
    const Plan plan = Plan::compile(model.graph, {8, 2}).value();
    std::size_t all = 0;
    for (const Node& node : plan.nodes()) {
        if (node.output) all += model.arena.ephemeral(node.output).row_bytes * (node.rows == RowCount::Batch ? 8 : 2);
    }
    EXPECT_LT(model.arena.ephemeral_bytes(), all / 2);
}

TEST(Plan, KnowsWhenAValueIsNotHeld) {
    TwoLayerGraph model;
    const Plan plan = Plan::compile(model.graph, {8, 2}).value();
    EXPECT_FALSE(plan.holds(model.normed, 0));  // not computed yet
    EXPECT_FALSE(plan.holds(Handle{}, 3));
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
