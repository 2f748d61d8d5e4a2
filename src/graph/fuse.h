// How the nodes of a plan are put together to steps. Only plan.cpp uses this.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/plan.h"

namespace hearth {

class Fuser {
public:
    Fuser(const Arena& arena, const std::vector<Node>& nodes);

    void fuse();
    std::vector<Node> ordered;
    std::vector<PlanStep> steps;

private:
    const Node* producer(Handle value) const;
    // The value a matmul's input was quantised from, or that input.
    Handle source(const Node& matmul) const;
    // Whether everybody who reads `value` is the quantisation of it or a matmul over it.
    bool only_feeds_matmuls(Handle value) const;
    bool is_prologue_norm(const Node& node) const;
    bool can_follow(const Node& node, const std::vector<bool>& local) const;
    void emit(std::size_t index);
    void emit_matmuls(Handle value);
    void emit_rows(std::size_t first);

    const Arena* arena_;
    const std::vector<Node>* nodes_;
    std::vector<std::size_t> producer_;  // of each ephemeral value: index of its node
    std::vector<bool> done_;             // by node
};

}  // namespace hearth
