// The operations of a graph on some columns of one row. Eager execution calls them with whole rows, replay with the
// columns a worker has just made: the result is the same, because no operation here looks past its columns or head.
#pragma once

#include <cstddef>

#include "graph/plan.h"
#include "kernels/kernels.h"

namespace hearth {

// A value's bytes in one execution.
struct Operand {
    std::byte* data = nullptr;
    std::size_t row_bytes = 0;
    std::size_t columns = 0;
    float* row(std::size_t index) const { return reinterpret_cast<float*>(data + index * row_bytes); }
};

struct Operands {
    Operand input;
    Operand second;
    Operand output;
};

struct ColumnRange {
    std::size_t first = 0;
    std::size_t count = 0;
};

// Of StoreKv: which of its two inputs the columns belong to.
enum class StorePart : std::uint8_t { Both, Keys, Values };

struct OperationContext {
    const Kernels& kernels;
    const Graph& graph;
    const StepInputs& inputs;
};

// Every operation but matmul, attention and quantisation. Operations that need the whole row take all its columns.
void run_operation(const OperationContext& context, const Node& node, const Operands& operands, std::size_t row,
                   ColumnRange columns, StorePart part = StorePart::Both);

std::size_t activation_block(ActivationFormat format);  // columns that are quantised together
void quantize_row(const Kernels& kernels, ActivationFormat format, const float* x, std::size_t columns, std::byte* out);

// Attention of the query heads that share a KV head: of one row, and of rows at consecutive positions of a sequence.
AttentionTask attention_task(const Node& node, const Operands& operands, const StepInputs& inputs, std::size_t row,
                             std::size_t kv_head);
AttentionTileTask attention_tile_task(const Node& node, const Operands& operands, const StepInputs& inputs,
                                      std::size_t row, std::size_t rows, std::size_t kv_head);

}  // namespace hearth
