// The Plan: a captured graph compiled for replay. Activations are quantised once per consumer group, independent
// matmuls over the same input run as one step, and every value has its place in one planned buffer. Executing it for
// new tokens rebinds the slots and replays; nothing is rebuilt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace hearth {

// The slots: what changes from step to step. All spans are owned by the caller and live through the execution.
struct StepInputs {
    std::span<const std::int32_t> tokens;                // [rows]
    std::span<const std::uint32_t> positions;            // [rows], each in its own sequence
    std::span<const std::uint32_t> row_sequences;        // [rows], index into block_tables
    std::span<const std::uint32_t* const> block_tables;  // [sequences], block of each 64 positions
    std::span<const std::uint32_t> wanted_rows;          // rows whose logits are asked for, ascending
    std::byte* kv_pool = nullptr;                        // base of the KV blocks
    KvLayout kv_layout;

    std::size_t row_count(RowCount rows) const { return rows == RowCount::Batch ? tokens.size() : wanted_rows.size(); }
};

struct PlanLimits {
    std::size_t batch_rows = 0;   // rows of a step at most
    std::size_t wanted_rows = 0;  // rows with logits at most
};

// Nodes [first, first + count) of the plan that run together: one node, or matmuls that share their input.
struct PlanStep {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
};

class Plan {
public:
    // Adds Quantize nodes, groups, and places every value on the arena's ephemeral shelf.
    static Result<Plan> compile(const Graph& graph, const PlanLimits& limits);

    const Graph& graph() const { return *graph_; }  // owned by the engine that owns this plan
    std::span<const Node> nodes() const { return nodes_; }
    std::span<const PlanStep> steps() const { return steps_; }
    std::span<const Node> nodes_of(PlanStep step) const { return nodes().subspan(step.first, step.count); }
    const PlanLimits& limits() const { return limits_; }

    // Whether, after the steps before `step` have run, the bytes of `value` are (still) its own: it has been computed
    // and no later value has been placed over it.
    bool holds(Handle value, std::size_t step) const;
    RowCount rows_of(Handle value) const;

private:
    struct Life {
        std::uint32_t made = 0;    // step that computes it
        std::uint32_t last = 0;    // last step that reads it
        std::uint32_t lost = ~0u;  // step that writes another value over it
        RowCount rows = RowCount::Batch;
        bool exists = false;
    };
    void insert_quantize_nodes();
    void group_steps();
    void find_lives();
    Status place_values();

    const Graph* graph_ = nullptr;
    PlanLimits limits_;
    std::vector<Node> nodes_;
    std::vector<PlanStep> steps_;
    std::vector<Life> lives_;  // by ephemeral index
};

}  // namespace hearth
