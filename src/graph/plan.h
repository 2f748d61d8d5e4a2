// The Plan: a captured graph compiled for replay. Activations are quantised once per consumer group, matmuls over the
// same input run as one step together with what can be done to their input and to each of their outputs alone, and
// every value has its place in one planned buffer. Executing it for new tokens rebinds the slots and replays; nothing
// is rebuilt.
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

inline constexpr std::size_t kRowPadding = 16;  // a value has room for its rows rounded up to a multiple of this

enum class StepKind : std::uint8_t {
    Rows,     // nodes that treat every row on its own
    Matmuls,  // prologue, matmuls over one value, epilogue
    Attend,
};

// Nodes [first, first + count) of the plan: all threads finish them before the next step begins.
// A Matmuls step has three parts. The prologue makes the matmuls' input from a value that is complete: a norm, the
// quantisation; nobody else reads what it makes. The epilogue takes the outputs further, column by column or head by
// head: bias, rotation, the store to KV, the gate, the residual. Whoever computed some rows of a weight can go on with
// the columns they made.
struct PlanStep {
    StepKind kind = StepKind::Rows;
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    std::uint32_t prologue = 0;  // of these nodes, how many come before the matmuls
    std::uint32_t matmuls = 0;
};

class Plan {
public:
    // Adds Quantize nodes, fuses, and places every value on the arena's ephemeral shelf.
    static Result<Plan> compile(const Graph& graph, const PlanLimits& limits);

    const Graph& graph() const { return *graph_; }  // owned by the engine that owns this plan
    std::span<const Node> nodes() const { return nodes_; }
    std::span<const PlanStep> steps() const { return steps_; }
    std::span<const Node> nodes_of(PlanStep step) const { return nodes().subspan(step.first, step.count); }
    std::span<const Node> prologue_of(PlanStep step) const { return nodes().subspan(step.first, step.prologue); }
    std::span<const Node> matmuls_of(PlanStep step) const {
        return nodes().subspan(step.first + step.prologue, step.matmuls);
    }
    std::span<const Node> epilogue_of(PlanStep step) const {
        const std::uint32_t before = step.prologue + step.matmuls;
        return nodes().subspan(step.first + before, step.count - before);
    }
    const PlanLimits& limits() const { return limits_; }
    Handle logit_maxima() const { return logit_maxima_; }  // the largest of each kLogitChunk logits

    // Whether, after the steps before `step` have run, the bytes of `value` are (still) its own: it has been computed
    // and no later value has been placed over it: an input of the step that computes it may have gone that way, so no
    // step may run twice. What a prologue makes is its step's own affair and never held.
    bool holds(Handle value, std::size_t step) const;
    RowCount rows_of(Handle value) const;

private:
    struct Life {
        std::uint32_t made = 0;    // step that computes it
        std::uint32_t last = 0;    // last step that reads it
        std::uint32_t lost = ~0u;  // step that writes another value over it
        RowCount rows = RowCount::Batch;
        bool exists = false;
        bool inner = false;  // made by a prologue
    };
    void insert_quantize_nodes();
    void add_logit_maxima();
    void fuse_steps();
    void find_lives();
    Handle replaced_input(std::uint32_t step, const Node& node) const;
    Status place_values();
    void find_losses();

    const Graph* graph_ = nullptr;
    PlanLimits limits_;
    std::vector<Node> nodes_;
    std::vector<PlanStep> steps_;
    std::vector<Life> lives_;  // by ephemeral index
    Handle logit_maxima_;
};

}  // namespace hearth
