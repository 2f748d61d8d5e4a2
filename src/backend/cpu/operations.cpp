#include "backend/cpu/operations.h"

#include <cstring>

#include "base/check.h"
#include "tensor/codec.h"

namespace hearth {

namespace {

const float* floats(const OperationContext& context, Handle constant) {
    return reinterpret_cast<const float*>(context.graph.arena().constant(constant).data);
}

void embed(const OperationContext& context, const Node& node, const Operands& operands, std::size_t row) {
    const TensorView& table = context.graph.arena().constant(node.constant);
    const std::span<float> target(operands.output.row(row), operands.output.columns);
    decode_row(table.type, table.row(static_cast<std::size_t>(context.inputs.tokens[row])), target);
    if (node.scale == 1) return;
    for (float& value : target) value *= node.scale;
}

void store_kv(const OperationContext& context, const Node& node, const Operands& operands, std::size_t row,
              ColumnRange columns, StorePart part) {
    const StepInputs& inputs = context.inputs;
    const KvLayout& layout = inputs.kv_layout;
    const std::size_t position = inputs.positions[row];
    const std::uint32_t* table = inputs.block_tables[inputs.row_sequences[row]];
    std::byte* block = inputs.kv_pool + table[position / kKvBlockTokens] * layout.block_bytes();
    const std::size_t inside = position % kKvBlockTokens * layout.position_bytes();
    const auto store = [&](const Operand& x, std::size_t column, std::size_t offset) {
        const float* values = x.row(row) + column;
        std::byte* out = block + offset + inside;
        if (layout.type == KvType::F16) {
            context.kernels.to_f16(values, layout.head_dim, reinterpret_cast<Half*>(out));
        } else {
            context.kernels.quantize_kv(layout.type, values, layout.head_dim, out);
        }
    };
    for (std::size_t column = columns.first; column < columns.first + columns.count; column += layout.head_dim) {
        const std::size_t head = column / layout.head_dim;
        if (part != StorePart::Values) store(operands.input, column, layout.key_offset(node.layer, head));
        if (part != StorePart::Keys) store(operands.second, column, layout.value_offset(node.layer, head));
    }
}

}  // namespace

void run_operation(const OperationContext& context, const Node& node, const Operands& operands, std::size_t row,
                   ColumnRange columns, StorePart part) {
    const Kernels& kernels = context.kernels;
    const std::size_t first = columns.first;
    const Operand& x = operands.input;
    const Operand& out = operands.output;
    switch (node.op) {
        case Op::Embed: embed(context, node, operands, row); return;
        case Op::RopeAngles: {
            const RopeTable& table = context.graph.rope_tables()[node.table];
            rope_angles(context.inputs.positions[row], table.inverse_frequencies, table.magnitude, out.row(row));
            return;
        }
        case Op::RmsNorm:
            for (std::size_t at = first; at < first + columns.count; at += node.group) {
                kernels.rms_norm(x.row(row) + at, floats(context, node.constant), node.group, node.eps,
                                 out.row(row) + at);
            }
            return;
        case Op::Add:
            kernels.add(x.row(row) + first, operands.second.row(row) + first, columns.count, out.row(row) + first);
            return;
        case Op::AddBias:
            kernels.add(x.row(row) + first, floats(context, node.constant) + first, columns.count,
                        out.row(row) + first);
            return;
        case Op::Gate: {
            const auto function = node.activation == Activation::Silu ? kernels.swiglu : kernels.geglu;
            function(x.row(row) + first, operands.second.row(row) + first, columns.count, out.row(row) + first);
            return;
        }
        case Op::Rope:
            if (out.data != x.data)
                std::memcpy(out.row(row) + first, x.row(row) + first, columns.count * sizeof(float));
            for (std::size_t at = first; at < first + columns.count; at += node.head_dim) {
                kernels.rope(out.row(row) + at, operands.second.row(row), operands.second.columns / 2, node.style);
            }
            return;
        case Op::StoreKv: store_kv(context, node, operands, row, columns, part); return;
        case Op::SelectRows:
            std::memcpy(out.row(row), x.row(context.inputs.wanted_rows[row]), x.columns * sizeof(float));
            return;
        case Op::ChunkMaxima:
            kernels.chunk_maxima(x.row(row) + first, columns.count, out.row(row) + first / kLogitChunk);
            return;
        case Op::Matmul:
        case Op::Attend:
        case Op::Quantize: break;
    }
    CHECK(false);
}

std::size_t activation_block(ActivationFormat format) {
    CHECK(format != ActivationFormat::F32);
    return format == ActivationFormat::Q8x32 ? kBlock32 : kBlock256;
}

void quantize_row(const Kernels& kernels, ActivationFormat format, const float* x, std::size_t columns,
                  std::byte* out) {
    if (format == ActivationFormat::Q8x32) {
        kernels.quantize_q8x32(x, columns, reinterpret_cast<ActivationBlock32*>(out));
    } else {
        CHECK(format == ActivationFormat::Q8x256);
        kernels.quantize_q8x256(x, columns, reinterpret_cast<ActivationBlock256*>(out));
    }
}

AttentionTask attention_task(const Node& node, const Operands& operands, const StepInputs& inputs, std::size_t row,
                             std::size_t kv_head) {
    const KvLayout& layout = inputs.kv_layout;
    const AttentionShape& shape = node.attention;
    const std::size_t group = shape.heads / shape.kv_heads;
    const std::size_t column = kv_head * group * shape.head_dim;
    const std::size_t position = inputs.positions[row];
    const std::size_t hidden = shape.window != 0 && position + 1 > shape.window ? position + 1 - shape.window : 0;
    return AttentionTask{
        .query = operands.input.row(row) + column,
        .out = operands.output.row(row) + column,
        .group = group,
        .head_dim = shape.head_dim,
        .pool = inputs.kv_pool,
        .block_table = inputs.block_tables[inputs.row_sequences[row]],
        .block_bytes = layout.block_bytes(),
        .key_offset = layout.key_offset(node.layer, kv_head),
        .value_offset = layout.value_offset(node.layer, kv_head),
        .first = hidden,
        .last = position,
        .scale = shape.scale,
        .kv_type = layout.type,
    };
}

AttentionTileTask attention_tile_task(const Node& node, const Operands& operands, const StepInputs& inputs,
                                      std::size_t row, std::size_t rows, std::size_t kv_head) {
    const AttentionTask first = attention_task(node, operands, inputs, row, kv_head);
    return AttentionTileTask{
        .query = first.query,
        .query_stride = operands.input.row_bytes / sizeof(float),
        .out = first.out,
        .out_stride = operands.output.row_bytes / sizeof(float),
        .tokens = rows,
        .group = first.group,
        .head_dim = first.head_dim,
        .pool = first.pool,
        .block_table = first.block_table,
        .block_bytes = first.block_bytes,
        .key_offset = first.key_offset,
        .value_offset = first.value_offset,
        .position = first.last,
        .window = node.attention.window,
        .scale = first.scale,
        .kv_type = first.kv_type,
    };
}

}  // namespace hearth
