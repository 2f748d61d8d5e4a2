#include "graph/graph.h"

#include "base/check.h"

namespace hearth {

namespace {

// Rows of a whole number of KiB would lie in the same few sets of a cache: the columns that one worker makes for a
// prompt would push each other out before the next operation reads them. Rows that a caller wants lie close together.
std::size_t float_row_bytes(std::size_t columns, RowCount rows) {
    const std::size_t bytes = columns * sizeof(float);
    return rows == RowCount::Batch && bytes % 1024 == 0 ? bytes + kCacheLine : bytes;
}

}  // namespace

RowCount Graph::rows(Handle x) const {
    return value_rows_.at(x.index);
}

Handle Graph::add_node(Node node, std::size_t columns) {
    node.output = arena_->add_ephemeral(columns, float_row_bytes(columns, node.rows));
    if (value_rows_.size() <= node.output.index) value_rows_.resize(node.output.index + 1, RowCount::Batch);
    value_rows_[node.output.index] = node.rows;
    nodes_.push_back(node);
    return node.output;
}

Handle Graph::embed(Handle table, float scale) {
    Node node{.op = Op::Embed, .constant = table};
    node.scale = scale;
    return add_node(node, arena_->constant(table).shape.columns());
}

Handle Graph::rope_angles(RopeTable table) {
    Node node{.op = Op::RopeAngles};
    node.table = static_cast<std::uint32_t>(rope_tables_.size());
    const std::size_t columns = 2 * table.inverse_frequencies.size();
    rope_tables_.push_back(std::move(table));
    return add_node(node, columns);
}

Handle Graph::rms_norm(Handle x, Handle weight, float eps) {
    return rms_norm_heads(x, weight, eps, columns(x));
}

Handle Graph::rms_norm_heads(Handle x, Handle weight, float eps, std::size_t head_dim) {
    CHECK(columns(x) % head_dim == 0 && arena_->constant(weight).shape.elements() == head_dim);
    Node node{.op = Op::RmsNorm, .rows = rows(x), .input = x, .constant = weight};
    node.eps = eps;
    node.group = static_cast<std::uint32_t>(head_dim);
    return add_node(node, columns(x));
}

Handle Graph::matmul(Handle x, Handle weight) {
    const TensorView& view = arena_->constant(weight);
    CHECK(view.shape.columns() == columns(x));
    const std::size_t out_columns = view.shape.rows();
    return add_node(Node{.op = Op::Matmul, .rows = rows(x), .input = x, .constant = weight}, out_columns);
}

Handle Graph::add(Handle a, Handle b) {
    CHECK(columns(a) == columns(b) && rows(a) == rows(b));
    return add_node(Node{.op = Op::Add, .rows = rows(a), .input = a, .second = b}, columns(a));
}

Handle Graph::add_bias(Handle x, Handle bias) {
    CHECK(arena_->constant(bias).shape.elements() == columns(x));
    return add_node(Node{.op = Op::AddBias, .rows = rows(x), .input = x, .constant = bias}, columns(x));
}

Handle Graph::gate(Activation activation, Handle gate, Handle up) {
    CHECK(columns(gate) == columns(up));
    Node node{.op = Op::Gate, .rows = rows(gate), .input = gate, .second = up};
    node.activation = activation;
    return add_node(node, columns(gate));
}

Handle Graph::rope(Handle x, Handle angles, RopeStyle style, std::size_t head_dim) {
    CHECK(columns(x) % head_dim == 0 && columns(angles) <= head_dim);
    Node node{.op = Op::Rope, .rows = rows(x), .input = x, .second = angles};
    node.style = style;
    node.head_dim = static_cast<std::uint32_t>(head_dim);
    return add_node(node, columns(x));
}

Handle Graph::attention(Handle q, Handle k, Handle v, std::size_t layer, AttentionShape shape) {
    CHECK(columns(q) == shape.heads * shape.head_dim && columns(k) == shape.kv_heads * shape.head_dim);
    CHECK(columns(v) == columns(k) && shape.heads % shape.kv_heads == 0);
    Node store{.op = Op::StoreKv, .input = k, .second = v};
    store.layer = static_cast<std::uint32_t>(layer);
    store.attention = shape;
    nodes_.push_back(store);
    Node attend{.op = Op::Attend, .input = q};
    attend.layer = static_cast<std::uint32_t>(layer);
    attend.attention = shape;
    return add_node(attend, columns(q));
}

Handle Graph::wanted_rows(Handle x) {
    return add_node(Node{.op = Op::SelectRows, .rows = RowCount::Wanted, .input = x}, columns(x));
}

}  // namespace hearth
