#include "graph/fuse.h"

#include <algorithm>

#include "base/check.h"

namespace hearth {

namespace {

constexpr std::size_t kNobody = ~std::size_t{0};

bool is_row_wise(Op op) {
    return op != Op::Matmul && op != Op::Attend && op != Op::Quantize;
}

}  // namespace

Fuser::Fuser(const Arena& arena, const std::vector<Node>& nodes) : arena_(&arena), nodes_(&nodes), done_(nodes.size()) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (!nodes[i].output) continue;
        if (producer_.size() <= nodes[i].output.index) producer_.resize(nodes[i].output.index + 1, kNobody);
        producer_[nodes[i].output.index] = i;
    }
}

const Node* Fuser::producer(Handle value) const {
    if (!value || value.index >= producer_.size() || producer_[value.index] == kNobody) return nullptr;
    return &(*nodes_)[producer_[value.index]];
}

Handle Fuser::source(const Node& matmul) const {
    const Node* node = producer(matmul.input);
    return node != nullptr && node->op == Op::Quantize ? node->input : matmul.input;
}

bool Fuser::only_feeds_matmuls(Handle value) const {
    return std::ranges::none_of(*nodes_, [&](const Node& node) {
        const bool reads = node.input == value || node.second == value;
        return reads && node.op != Op::Quantize && node.op != Op::Matmul;
    });
}

bool Fuser::is_prologue_norm(const Node& node) const {
    return node.op == Op::RmsNorm && node.group == arena_->ephemeral(node.input).columns &&
           only_feeds_matmuls(node.output);
}

// Whether the node can go on with columns of the step's own values as soon as they are made. Its other input must be
// complete.
bool Fuser::can_follow(const Node& node, const std::vector<bool>& local) const {
    const auto is_local = [&](Handle value) { return value && local[value.index]; };
    const auto is_ready = [&](Handle value) { return producer(value) != nullptr && done_[producer_[value.index]]; };
    switch (node.op) {
        case Op::AddBias:
        case Op::ChunkMaxima: return is_local(node.input);
        case Op::RmsNorm: return is_local(node.input) && node.group < arena_->ephemeral(node.input).columns;
        case Op::Rope: return is_local(node.input) && is_ready(node.second) && !is_local(node.second);
        case Op::StoreKv:
        case Op::Gate: return is_local(node.input) && is_local(node.second);
        case Op::Add:
            return is_local(node.input) != is_local(node.second) && is_ready(node.input) && is_ready(node.second);
        default: return false;
    }
}

void Fuser::emit(std::size_t index) {
    ordered.push_back((*nodes_)[index]);
    done_[index] = true;
}

void Fuser::emit_matmuls(Handle value) {
    PlanStep step{.kind = StepKind::Matmuls, .first = static_cast<std::uint32_t>(ordered.size())};
    const std::vector<Node>& nodes = *nodes_;
    const Node* maker = producer(value);
    if (maker != nullptr && is_prologue_norm(*maker)) emit(producer_[value.index]);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (nodes[i].op == Op::Quantize && nodes[i].input == value) emit(i);
    }
    step.prologue = static_cast<std::uint32_t>(ordered.size()) - step.first;
    std::vector<bool> local(producer_.size(), false);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (nodes[i].op != Op::Matmul || source(nodes[i]) != value) continue;
        emit(i);
        local[nodes[i].output.index] = true;
        ++step.matmuls;
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (done_[i] || !can_follow(nodes[i], local)) continue;
        emit(i);
        if (nodes[i].output) local[nodes[i].output.index] = true;
    }
    step.count = static_cast<std::uint32_t>(ordered.size()) - step.first;
    steps.push_back(step);
}

// This node and those right after it that treat the same rows one by one.
void Fuser::emit_rows(std::size_t first) {
    const std::vector<Node>& nodes = *nodes_;
    PlanStep step{.kind = StepKind::Rows, .first = static_cast<std::uint32_t>(ordered.size())};
    for (std::size_t i = first; i < nodes.size(); ++i) {
        if (done_[i]) continue;
        if (!is_row_wise(nodes[i].op) || nodes[i].rows != nodes[first].rows || is_prologue_norm(nodes[i])) break;
        emit(i);
    }
    step.count = static_cast<std::uint32_t>(ordered.size()) - step.first;
    steps.push_back(step);
}

void Fuser::fuse() {
    const std::vector<Node>& nodes = *nodes_;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (done_[i]) continue;
        if (nodes[i].op == Op::Attend) {
            steps.push_back(
                {.kind = StepKind::Attend, .first = static_cast<std::uint32_t>(ordered.size()), .count = 1});
            emit(i);
        } else if (nodes[i].op == Op::Quantize) {
            emit_matmuls(nodes[i].input);
        } else if (nodes[i].op == Op::Matmul) {
            emit_matmuls(source(nodes[i]));
        } else if (is_prologue_norm(nodes[i])) {
            emit_matmuls(nodes[i].output);
        } else {
            emit_rows(i);
        }
    }
    CHECK(std::ranges::all_of(done_, [](bool done) { return done; }));
}

}  // namespace hearth
