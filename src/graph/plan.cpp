#include "graph/plan.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace hearth {

namespace {

// Bytes of a value at the step limits, rounded up so that every value begins on a cache line of its own.
std::size_t placed_bytes(const EphemeralValue& value, RowCount rows, const PlanLimits& limits) {
    const std::size_t count = rows == RowCount::Batch ? limits.batch_rows : limits.wanted_rows;
    return (value.row_bytes * count + kCacheLine - 1) / kCacheLine * kCacheLine;
}

ActivationFormat wanted_format(const Arena& arena, const Node& matmul) {
    return traits(arena.constant(matmul.constant).type).activation;
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
    plan.group_steps();
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

// Pulls matmuls that read the same value together: Q, K and V; gate and up. A matmul has no other input, so moving it
// up to its sibling is always allowed.
void Plan::group_steps() {
    std::vector<Node> ordered;
    std::vector<bool> taken(nodes_.size(), false);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (taken[i]) continue;
        const std::uint32_t first = static_cast<std::uint32_t>(ordered.size());
        ordered.push_back(nodes_[i]);
        if (nodes_[i].op == Op::Matmul) {
            for (std::size_t j = i + 1; j < nodes_.size(); ++j) {
                if (nodes_[j].op == Op::Matmul && nodes_[j].input == nodes_[i].input) {
                    ordered.push_back(nodes_[j]);
                    taken[j] = true;
                }
            }
        }
        steps_.push_back({first, static_cast<std::uint32_t>(ordered.size()) - first});
    }
    nodes_ = std::move(ordered);
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
            lives_[node.output.index] = Life{step, step, ~0u, node.rows, true};
        }
    }
    lives_[graph_->logits().index].last = static_cast<std::uint32_t>(steps_.size());  // the caller reads them
}

// First fit, in the order of computation: a value takes the lowest gap between values still alive.
Status Plan::place_values() {
    Arena& arena = graph_->arena();
    std::vector<Placed> placed;  // every value so far, by beginning; the dead ones tell who loses bytes
    std::size_t total = 0;
    for (std::uint32_t step = 0; step < steps_.size(); ++step) {
        for (const Node& node : nodes_of(steps_[step])) {
            if (!node.output) continue;
            const std::size_t bytes = placed_bytes(arena.ephemeral(node.output), node.rows, limits_);
            std::size_t begin = 0;
            for (const Placed& other : placed) {
                const bool alive = other.last >= step;
                if (alive && other.begin < begin + bytes && begin < other.end) begin = other.end;
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
    return life.exists && life.made < step && step <= life.lost;
}

RowCount Plan::rows_of(Handle value) const {
    return lives_.at(value.index).rows;
}

}  // namespace hearth
