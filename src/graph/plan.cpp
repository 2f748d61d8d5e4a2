#include "graph/plan.h"

#include <algorithm>
#include <array>
#include <functional>
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

// Bytes of the buffer for one value, or for several where each takes the place of the one before.
struct Piece {
    std::size_t bytes;
    std::uint32_t made;     // step that computes the first value
    std::uint32_t last;     // last step that reads the last one
    std::size_t begin = 0;  // once placed

    std::size_t end() const { return begin + bytes; }
    bool lives_with(const Piece& other) const { return made <= other.last && other.made <= last; }
};

// Largest first, each at the lowest gap between those that live at the same time: small ones find room beside large
// ones, seldom the other way round. Returns where the last one ends.
std::size_t place_pieces(std::span<Piece> pieces) {
    std::vector<Piece*> order;
    for (Piece& piece : pieces) order.push_back(&piece);
    std::ranges::stable_sort(order, std::ranges::greater{}, &Piece::bytes);
    std::vector<const Piece*> placed;  // by beginning
    std::size_t total = 0;
    for (Piece* piece : order) {
        for (const Piece* other : placed) {
            const bool meets = other->begin < piece->end() && piece->begin < other->end();
            if (meets && piece->lives_with(*other)) piece->begin = other->end();
        }
        placed.insert(std::ranges::upper_bound(placed, piece->begin, {}, &Piece::begin), piece);
        total = std::max(total, piece->end());
    }
    return total;
}

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
    plan.find_losses();
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

Status Plan::place_values() {
    Arena& arena = graph_->arena();
    std::vector<Piece> pieces;
    std::vector<std::size_t> piece_of(lives_.size());  // by ephemeral index
    for (std::uint32_t step = 0; step < steps_.size(); ++step) {
        for (const Node& node : nodes_of(steps_[step])) {
            if (!node.output) continue;
            const std::uint32_t last = lives_[node.output.index].last;
            if (const Handle replaced = replaced_input(step, node)) {
                piece_of[node.output.index] = piece_of[replaced.index];
                pieces[piece_of[replaced.index]].last = last;
            } else {
                piece_of[node.output.index] = pieces.size();
                pieces.push_back({placed_bytes(arena.ephemeral(node.output), node.rows, limits_), step, last});
            }
        }
    }
    const std::size_t total = place_pieces(pieces);
    for (const Node& node : nodes_) {
        if (node.output) arena.place(node.output, pieces[piece_of[node.output.index]].begin);
    }
    return arena.reserve_ephemeral(total);
}

void Plan::find_losses() {
    struct Held {
        std::size_t begin;
        std::size_t end;
        std::uint32_t index;  // of the value
    };
    std::vector<Held> held;
    for (std::uint32_t step = 0; step < steps_.size(); ++step) {
        for (const Node& node : nodes_of(steps_[step])) {
            if (!node.output) continue;
            const EphemeralValue& value = graph_->arena().ephemeral(node.output);
            const std::size_t begin = value.offset_bytes;
            const std::size_t end = begin + placed_bytes(value, node.rows, limits_);
            std::erase_if(held, [&](const Held& other) {
                const bool lost = other.begin < end && begin < other.end;
                if (lost) lives_[other.index].lost = step;
                return lost;
            });
            held.push_back({begin, end, node.output.index});
        }
    }
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
