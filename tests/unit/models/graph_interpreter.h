// Executes a captured graph in double precision, one sequence from position 0, every position wanted. Slow and plain:
// it shows what a model's graph means without the engine, its half-precision KV or any kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace hearth {

// Logits [tokens][vocabulary]. All weights must be F32.
std::vector<double> interpret(const Graph& graph, std::span<const std::int32_t> tokens);

}  // namespace hearth
