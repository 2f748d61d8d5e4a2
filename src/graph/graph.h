// The data-flow graph of a forward pass. A model family writes it down once through these calls, top to bottom like the
// paper; nothing is computed while it is captured. Edges are handles into an Arena; rows are whatever a step brings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/arena.h"
#include "tensor/attention.h"
#include "tensor/logits.h"

namespace hearth {

enum class Op : std::uint8_t {
    Embed,        // out = scale * table[token of the row]
    RopeAngles,   // out = cos and sin of the row's position for each frequency
    RmsNorm,      // out = x / rms(x) * weight, over each group of `group` columns
    Matmul,       // out = weight * x
    Add,          // out = a + b
    AddBias,      // out = x + bias
    Gate,         // out = activation(gate) * up
    Rope,         // out = x with every head rotated by the angles
    StoreKv,      // keeps K and V of the row at its position in its sequence's blocks; no output
    Attend,       // out = attention of the row's query heads over its sequence's blocks
    SelectRows,   // out = the rows whose logits are wanted
    Quantize,     // out = x in an activation format; put in by the planner, never by a model
    ChunkMaxima,  // out = the largest of each kLogitChunk columns; put in by the planner after the logits
};

enum class RowCount : std::uint8_t { Batch, Wanted };  // rows of a value: all of the step, or the wanted ones
enum class Activation : std::uint8_t { Silu, GeluTanh };

struct AttentionShape {
    std::size_t heads = 0;
    std::size_t kv_heads = 0;
    std::size_t head_dim = 0;
    float scale = 0;         // of the scores, usually 1/sqrt(head_dim)
    std::size_t window = 0;  // positions a token sees including itself; 0: all
};

// One operation. Plain data; which fields matter is said at its Op.
struct Node {
    Op op = Op::Embed;
    RowCount rows = RowCount::Batch;
    Handle input = {};     // x, a, gate, q, k
    Handle second = {};    // b, up, v, the rope's angles
    Handle constant = {};  // table, weight, bias
    Handle output = {};

    float scale = 1;                                  // Embed
    float eps = 0;                                    // RmsNorm
    std::uint32_t group = 0;                          // RmsNorm: columns normalised together
    std::uint32_t layer = 0;                          // StoreKv, Attend
    std::uint32_t table = 0;                          // RopeAngles: index into Graph::rope_tables
    std::uint32_t head_dim = 0;                       // Rope
    RopeStyle style = RopeStyle::Adjacent;            // Rope
    Activation activation = Activation::Silu;         // Gate
    AttentionShape attention = {};                    // StoreKv, Attend
    ActivationFormat format = ActivationFormat::F32;  // Quantize; of a Matmul's input once planned
};

// The frequencies of one rotary embedding: pairs rotate by position * inverse_frequency, magnitude scales cos and sin.
struct RopeTable {
    std::vector<float> inverse_frequencies;
    float magnitude = 1;
};

class Graph {
public:
    explicit Graph(Arena& arena) : arena_(&arena) {}

    Handle weight(TensorView view) { return arena_->add_constant(view); }
    Handle embed(Handle table, float scale = 1);
    Handle rope_angles(RopeTable table);
    Handle rms_norm(Handle x, Handle weight, float eps);
    Handle rms_norm_heads(Handle x, Handle weight, float eps, std::size_t head_dim);  // each head on its own (QK norm)
    Handle matmul(Handle x, Handle weight);
    Handle add(Handle a, Handle b);
    Handle add_bias(Handle x, Handle bias);
    Handle gate(Activation activation, Handle gate, Handle up);
    Handle rope(Handle x, Handle angles, RopeStyle style, std::size_t head_dim);
    // Stores k and v, then attends with q.
    Handle attention(Handle q, Handle k, Handle v, std::size_t layer, AttentionShape shape);
    Handle wanted_rows(Handle x);
    void set_logits(Handle logits) { logits_ = logits; }

    Arena& arena() const { return *arena_; }  // owned by the engine that owns this graph
    const std::vector<Node>& nodes() const { return nodes_; }
    const std::vector<RopeTable>& rope_tables() const { return rope_tables_; }
    Handle logits() const { return logits_; }

private:
    Handle add_node(Node node, std::size_t columns);
    std::size_t columns(Handle x) const { return arena_->ephemeral(x).columns; }
    RowCount rows(Handle x) const;

    Arena* arena_;
    std::vector<Node> nodes_;
    std::vector<RowCount> value_rows_;  // by ephemeral index
    std::vector<RopeTable> rope_tables_;
    Handle logits_;
};

}  // namespace hearth
