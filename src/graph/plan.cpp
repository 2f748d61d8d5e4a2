#include "graph/plan.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/check.h"
#include "graph/fuse.h"

namespace hearth {

namespace {

// Bytes of a value at the step limits, rounded up so that every value begins on a cache line of its own.
std::size_t placed_bytes(const EphemeralValue& value, RowCount rows, const PlanLimits& limits) {
    const std::size_t count = rows == RowCount::Batch ? limits.batch_rows : limits.wanted_rows;
    const std::size_t padded = (count + kRowPadding - 1) / kRowPadding * kRowPadding;
    return (value.row_bytes * padded + kCacheLine - 1) / kCacheLine * kCacheLine;
}

ActivationFormat wanted_format(const Arena& arena, const Node& matmul) {
    return traits(arena.constant(matmul.constant).type).activation;
}

// Inputs an operation may write over: it makes each element, or each head, of its output from the same one of these.
std::array<Handle, 2> overwritable_inputs(const Node& node) {
    switch (node.op) {
        case Op::Add:
        case Op::Gate: return {node.input, node.second};
        case Op::AddBias:
        case Op::RmsNorm:
        case Op::Rope: return {node.input, {}};
        default: return {};
    }
}

struct Placed {
    std::size_t begin;
    std::size_t end;
    std::uint32_t last;   // last step that reads it
    std::uint32_t index;  // of the value
};

}  // namespace

Result<Plan> Plan::compile(const Graph& graph, const PlanLimits& limits) {
    CHECK(limits.batch_rows > 0 && limits.wanted_rows > 0 && graph.logits());
    Plan plan;
    plan.graph_ = &graph;
    plan.limits_ = limits;
    plan.insert_quantize_nodes();
    plan.add_logit_maxima();
    plan.fuse_steps();
    plan.find_lives();
    TRY(plan.place_values());
    return plan;
}

// Before the first matmul that reads a value in some format, the value is quantised; later consumers share the result.
void Plan::insert_quantize_nodes() {
    struct Quantized {
        Handle value;
        ActivationFormat format;
        Handle result;
    };
    Arena& arena = graph_->arena();
    std::vector<Quantized> done;
    for (Node node : graph_->nodes()) {
        if (node.op == Op::Matmul) {
            node.format = wanted_format(arena, node);
            if (node.format != ActivationFormat::F32) {
                const auto found = std::ranges::find_if(
                    done, [&](const Quantized& q) { return q.value == node.input && q.format == node.format; });
                if (found == done.end()) {
                    const std::size_t columns = arena.ephemeral(node.input).columns;
                    Node quantize{.op = Op::Quantize, .rows = node.rows, .input = node.input};
                    quantize.format = node.format;
                    quantize.output = arena.add_ephemeral(columns, activation_row_bytes(node.format, columns));
                    nodes_.push_back(quantize);
                    done.push_back({node.input, node.format, quantize.output});
                    node.input = quantize.output;
                } else {
                    node.input = found->result;
                }
            }
        }
        nodes_.push_back(node);
    }
}

void Plan::add_logit_maxima() {
    Arena& arena = graph_->arena();
    const Handle logits = graph_->logits();
    const std::size_t chunks = (arena.ephemeral(logits).columns + kLogitChunk - 1) / kLogitChunk;
    Node node{.op = Op::ChunkMaxima, .rows = RowCount::Wanted, .input = logits};
    node.output = arena.add_ephemeral(chunks, chunks * sizeof(float));
    logit_maxima_ = node.output;
    nodes_.push_back(node);
}

void Plan::fuse_steps() {
    Fuser fuser(graph_->arena(), nodes_);
    fuser.fuse();
    nodes_ = std::move(fuser.ordered);
    steps_ = std::move(fuser.steps);
}

void Plan::find_lives() {
    const auto read = [&](Handle value, std::uint32_t step) {
        if (value && value.shelf == Shelf::Ephemeral) lives_[value.index].last = step;
    };
    for (std::uint32_t step = 0; step < steps_.size(); ++step) {
        for (const Node& node : nodes_of(steps_[step])) {
            read(node.input, step);
            read(node.second, step);
            if (!node.output) continue;
            if (lives_.size() <= node.output.index) lives_.resize(node.output.index + 1);
            lives_[node.output.index] = Life{step, step, ~0u, node.rows, true, false};
        }
        for (const Node& node : prologue_of(steps_[step])) lives_[node.output.index].inner = true;
    }
    for (const Handle read_by_caller : {graph_->logits(), logit_maxima_})
        lives_[read_by_caller.index].last = static_cast<std::uint32_t>(steps_.size());
}

// The input in whose place the output can lie, or none: nobody else may read that input in this step, for other threads
// are at other columns and rows of it, nor any later step. In a prologue every thread may read all of its input.
Handle Plan::replaced_input(std::uint32_t step, const Node& node) const {
    if (lives_[node.output.index].inner) return {};
    const Arena& arena = graph_->arena();
    for (const Handle input : overwritable_inputs(node)) {
        if (!input || lives_[input.index].last > step || lives_[input.index].rows != node.rows) continue;
        if (arena.ephemeral(input).row_bytes != arena.ephemeral(node.output).row_bytes) continue;
        const auto readers = std::ranges::count_if(
            nodes_of(steps_[step]), [&](const Node& other) { return other.input == input || other.second == input; });
        if (readers == 1) return input;
    }
    return {};
}

// In place of an input where that can be; else first fit, in the order of computation: a value takes the lowest gap
// between values still alive.
Status Plan::place_values() {
    Arena& arena = graph_->arena();
    std::vector<Placed> placed;  // every value so far, by beginning; the dead ones tell who loses bytes
    std::size_t total = 0;
    for (std::uint32_t step = 0; step < steps_.size(); ++step) {
        for (const Node& node : nodes_of(steps_[step])) {
            if (!node.output) continue;
            const std::size_t bytes = placed_bytes(arena.ephemeral(node.output), node.rows, limits_);
            std::size_t begin = 0;
            if (const Handle replaced = replaced_input(step, node)) {
                begin = arena.ephemeral(replaced).offset_bytes;
            } else {
                for (const Placed& other : placed) {
                    const bool alive = other.last >= step;
                    if (alive && other.begin < begin + bytes && begin < other.end) begin = other.end;
                }
            }
            const std::size_t end = begin + bytes;
            for (const Placed& other : placed) {
                if (other.begin < end && begin < other.end) {
                    lives_[other.index].lost = std::min(lives_[other.index].lost, step);
                }
            }
            std::erase_if(placed, [&](const Placed& other) { return other.begin >= begin && other.end <= end; });
            const Placed entry{begin, end, lives_[node.output.index].last, node.output.index};
            placed.insert(std::ranges::upper_bound(placed, begin, {}, &Placed::begin), entry);
            arena.place(node.output, begin);
            total = std::max(total, end);
        }
    }
    return arena.reserve_ephemeral(total);
}

bool Plan::holds(Handle value, std::size_t step) const {
    if (!graph_->arena().is_alive(value) || value.shelf != Shelf::Ephemeral || value.index >= lives_.size())
        return false;
    const Life& life = lives_[value.index];
    return life.exists && !life.inner && life.made < step && step <= life.lost;
}

RowCount Plan::rows_of(Handle value) const {
    return lives_.at(value.index).rows;
}

}  // namespace hearth
