#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/clock.h"
#include "tensor/codec.h"

namespace hearth {

namespace {

// A matmul is cut into tiles of weight rows times tokens; the cut does not change any result.
constexpr std::size_t kTileTokens = 64;
constexpr std::size_t kTilesPerThread = 8;  // several, so that threads finish together
constexpr std::size_t kMaxGroup = 8;        // matmuls run together

std::size_t ceil_divide(std::size_t a, std::size_t b) {
    return (a + b - 1) / b;
}

// Weight rows per tile: enough tiles for every thread to find several, not so many that handing them out costs, and
// with many tokens few enough rows to stay in the cache while the tokens pass.
std::size_t tile_rows(std::size_t weight_rows, std::size_t tokens, std::size_t threads) {
    const std::size_t token_tiles = ceil_divide(tokens, kTileTokens);
    const std::size_t wanted = ceil_divide(weight_rows * token_tiles, threads * kTilesPerThread);
    const std::size_t most = tokens >= kTileTokens ? 64 : 512;
    return std::clamp<std::size_t>(ceil_divide(wanted, 8) * 8, 8, most);
}

class Stopwatch {
public:
    Stopwatch(bool on, OpCost& cost) : cost_(on ? &cost : nullptr), began_(on ? monotonic_seconds() : 0) {}
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;
    ~Stopwatch() {
        if (cost_ == nullptr) return;
        ++cost_->calls;
        cost_->seconds += monotonic_seconds() - began_;
    }

private:
    OpCost* cost_;
    double began_;
};

void quantize_row(const Kernels& kernels, ActivationFormat format, const float* x, std::size_t columns,
                  std::byte* out) {
    if (format == ActivationFormat::Q8x32) {
        kernels.quantize_q8x32(x, columns, reinterpret_cast<ActivationBlock32*>(out));
    } else {
        CHECK(format == ActivationFormat::Q8x256);
        kernels.quantize_q8x256(x, columns, reinterpret_cast<ActivationBlock256*>(out));
    }
}

}  // namespace

Result<CpuBackend> CpuBackend::create(std::string_view isa, ThreadPool& pool) {
    if (const Kernels* kernels = find_kernels(isa)) return CpuBackend(*kernels, pool);
    std::string levels;
    for (const Kernels& level : supported_kernels()) levels += (levels.empty() ? "" : ", ") + std::string(level.level);
    return Error{ErrorCode::Usage, "this CPU has no kernel level '" + std::string(isa) + "'; it has " + levels};
}

void CpuBackend::copy(std::byte* to, const std::byte* from, std::size_t size_bytes) {
    std::memcpy(to, from, size_bytes);
}

CpuBackend::Operand CpuBackend::planned(Arena& arena, Handle value) const {
    if (!value) return {};
    const EphemeralValue& info = arena.ephemeral(value);
    return Operand{arena.ephemeral_data(value), info.row_bytes, info.columns};
}

Status CpuBackend::execute_window(const Plan& plan, std::size_t first, std::size_t last, const StepInputs& inputs) {
    CHECK(first <= last && last <= plan.steps().size());
    CHECK(inputs.tokens.size() <= plan.limits().batch_rows && inputs.wanted_rows.size() <= plan.limits().wanted_rows);
    for (std::size_t step = first; step < last; ++step) run_step(plan, plan.steps()[step], inputs);
    return {};
}

void CpuBackend::run_step(const Plan& plan, PlanStep step, const StepInputs& inputs) {
    const std::span<const Node> nodes = plan.nodes_of(step);
    const Stopwatch stopwatch(profiling_, costs_[static_cast<std::size_t>(nodes.front().op)]);
    Arena& arena = plan.graph().arena();
    if (nodes.front().op != Op::Matmul) {
        const Node& node = nodes.front();
        const Operands operands{planned(arena, node.input), planned(arena, node.second), planned(arena, node.output)};
        run_node(plan.graph(), node, operands, inputs);
        return;
    }
    for (std::size_t begin = 0; begin < nodes.size(); begin += kMaxGroup) {
        std::array<MatmulJob, kMaxGroup> jobs;
        const std::size_t count = std::min(kMaxGroup, nodes.size() - begin);
        for (std::size_t i = 0; i < count; ++i) {
            const Node& node = nodes[begin + i];
            jobs[i] = MatmulJob{arena.constant(node.constant), planned(arena, node.input), planned(arena, node.output)};
        }
        run_matmuls({jobs.data(), count}, inputs.row_count(nodes.front().rows));
    }
}

void CpuBackend::run_matmuls(std::span<const MatmulJob> jobs, std::size_t rows) {
    if (rows == 0) return;
    struct Tiling {
        std::size_t rows_per_tile;
        std::size_t row_tiles;
        std::size_t first_item;
    };
    std::array<Tiling, kMaxGroup> tilings;
    const std::size_t token_tiles = ceil_divide(rows, kTileTokens);
    std::size_t items = 0;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        const std::size_t weight_rows = jobs[i].weight.shape.rows();
        const std::size_t per_tile = tile_rows(weight_rows, rows, pool_->size());
        tilings[i] = Tiling{per_tile, ceil_divide(weight_rows, per_tile), items};
        items += tilings[i].row_tiles * token_tiles;
    }
    pool_->for_each(items, [&](std::size_t item, std::size_t) {
        std::size_t which = jobs.size() - 1;
        while (tilings[which].first_item > item) --which;
        const MatmulJob& job = jobs[which];
        const Tiling& tiling = tilings[which];
        const std::size_t local = item - tiling.first_item;
        const std::size_t first_row = local % tiling.row_tiles * tiling.rows_per_tile;
        const std::size_t first_token = local / tiling.row_tiles * kTileTokens;
        const MatmulTask task{
            .weights = job.weight.row(first_row),
            .weight_row_bytes = job.weight.row_bytes(),
            .rows = std::min(tiling.rows_per_tile, job.weight.shape.rows() - first_row),
            .columns = job.weight.shape.columns(),
            .activations = job.input.data + first_token * job.input.row_bytes,
            .activation_row_bytes = job.input.row_bytes,
            .tokens = std::min(kTileTokens, rows - first_token),
            .out = job.output.row(first_token) + first_row,
            .out_stride = job.output.row_bytes / sizeof(float),
        };
        kernels_->matmul[static_cast<std::size_t>(job.weight.type)](task);
    });
}

// Everything but matmuls: rows are independent of each other.
void CpuBackend::run_node(const Graph& graph, const Node& node, const Operands& operands, const StepInputs& inputs) {
    const std::size_t rows = inputs.row_count(node.rows);
    if (node.op == Op::Attend) {
        const std::size_t kv_heads = node.attention.kv_heads;
        pool_->for_each(rows * kv_heads, [&](std::size_t item, std::size_t) {
            attend(node, operands, inputs, item / kv_heads, item % kv_heads);
        });
        return;
    }
    if (rows == 1) {  // a region would cost more than the row
        run_row(graph, node, operands, inputs, 0);
        return;
    }
    pool_->for_each(rows, [&](std::size_t row, std::size_t) { run_row(graph, node, operands, inputs, row); });
}

void CpuBackend::run_row(const Graph& graph, const Node& node, const Operands& operands, const StepInputs& inputs,
                         std::size_t row) {
    const Operand& x = operands.input;
    const Operand& out = operands.output;
    switch (node.op) {
        case Op::Embed: {
            const TensorView& table = graph.arena().constant(node.constant);
            const std::span<float> target(out.row(row), out.columns);
            decode_row(table.type, table.row(static_cast<std::size_t>(inputs.tokens[row])), target);
            if (node.scale != 1) {
                for (float& value : target) value *= node.scale;
            }
            return;
        }
        case Op::RopeAngles: {
            const RopeTable& table = graph.rope_tables()[node.table];
            rope_angles(inputs.positions[row], table.inverse_frequencies, table.magnitude, out.row(row));
            return;
        }
        case Op::RmsNorm: {
            const float* weight = reinterpret_cast<const float*>(graph.arena().constant(node.constant).data);
            for (std::size_t column = 0; column < x.columns; column += node.group) {
                kernels_->rms_norm(x.row(row) + column, weight, node.group, node.eps, out.row(row) + column);
            }
            return;
        }
        case Op::Add: kernels_->add(x.row(row), operands.second.row(row), x.columns, out.row(row)); return;
        case Op::AddBias: {
            const float* bias = reinterpret_cast<const float*>(graph.arena().constant(node.constant).data);
            kernels_->add(x.row(row), bias, x.columns, out.row(row));
            return;
        }
        case Op::Gate: {
            const auto function = node.activation == Activation::Silu ? kernels_->swiglu : kernels_->geglu;
            function(x.row(row), operands.second.row(row), x.columns, out.row(row));
            return;
        }
        case Op::Rope: {
            std::memcpy(out.row(row), x.row(row), x.row_bytes);
            for (std::size_t column = 0; column < x.columns; column += node.head_dim) {
                kernels_->rope(out.row(row) + column, operands.second.row(row), operands.second.columns / 2,
                               node.style);
            }
            return;
        }
        case Op::StoreKv: store_kv(node, operands, inputs, row); return;
        case Op::SelectRows: std::memcpy(out.row(row), x.row(inputs.wanted_rows[row]), x.row_bytes); return;
        case Op::Quantize:
            quantize_row(*kernels_, node.format, x.row(row), x.columns, out.data + row * out.row_bytes);
            return;
        case Op::Matmul:
        case Op::Attend: break;
    }
    CHECK(false);
}

void CpuBackend::store_kv(const Node& node, const Operands& operands, const StepInputs& inputs, std::size_t row) {
    const KvLayout& layout = inputs.kv_layout;
    const std::size_t position = inputs.positions[row];
    const std::uint32_t* table = inputs.block_tables[inputs.row_sequences[row]];
    std::byte* block = inputs.kv_pool + table[position / kKvBlockTokens] * layout.block_bytes();
    const std::size_t inside = position % kKvBlockTokens * layout.position_bytes();
    for (std::size_t head = 0; head < layout.kv_heads; ++head) {
        const std::size_t column = head * layout.head_dim;
        kernels_->to_f16(operands.input.row(row) + column, layout.head_dim,
                         reinterpret_cast<Half*>(block + layout.key_offset(node.layer, head) + inside));
        kernels_->to_f16(operands.second.row(row) + column, layout.head_dim,
                         reinterpret_cast<Half*>(block + layout.value_offset(node.layer, head) + inside));
    }
}

void CpuBackend::attend(const Node& node, const Operands& operands, const StepInputs& inputs, std::size_t row,
                        std::size_t kv_head) {
    const KvLayout& layout = inputs.kv_layout;
    const AttentionShape& shape = node.attention;
    const std::size_t group = shape.heads / shape.kv_heads;
    const std::size_t column = kv_head * group * shape.head_dim;
    const std::size_t position = inputs.positions[row];
    const std::size_t hidden = shape.window != 0 && position + 1 > shape.window ? position + 1 - shape.window : 0;
    kernels_->attention(AttentionTask{
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
    });
}

Result<std::vector<float>> CpuBackend::execute_eagerly(const Graph& graph, const StepInputs& inputs) {
    const Arena& arena = graph.arena();
    std::vector<Buffer> values;  // by ephemeral index
    const auto operand = [&](Handle value) {
        if (!value) return Operand{};
        const EphemeralValue& info = arena.ephemeral(value);
        return Operand{values[value.index].data(), info.row_bytes, info.columns};
    };
    for (const Node& node : graph.nodes()) {
        const Stopwatch stopwatch(profiling_, costs_[static_cast<std::size_t>(node.op)]);
        const std::size_t rows = inputs.row_count(node.rows);
        if (node.output) {
            if (values.size() <= node.output.index) values.resize(node.output.index + 1);
            values[node.output.index] = TRY(Buffer::create(rows * arena.ephemeral(node.output).row_bytes));
        }
        const Operands operands{operand(node.input), operand(node.second), operand(node.output)};
        if (node.op != Op::Matmul) {
            run_node(graph, node, operands, inputs);
            continue;
        }
        MatmulJob job{arena.constant(node.constant), operands.input, operands.output};
        Buffer quantized;
        const ActivationFormat format = traits(job.weight.type).activation;
        if (format != ActivationFormat::F32) {
            job.input.row_bytes = activation_row_bytes(format, job.input.columns);
            quantized = TRY(Buffer::create(rows * job.input.row_bytes));
            job.input.data = quantized.data();
            for (std::size_t row = 0; row < rows; ++row) {
                quantize_row(*kernels_, format, operands.input.row(row), job.input.columns,
                             job.input.data + row * job.input.row_bytes);
            }
        }
        run_matmuls({&job, 1}, rows);
    }
    const Operand logits = operand(graph.logits());
    return std::vector<float>(logits.row(0), logits.row(inputs.wanted_rows.size()));
}

Result<std::vector<float>> CpuBackend::read_back(const Plan& plan, Handle value, std::size_t executed,
                                                 const StepInputs& inputs) {
    if (!plan.holds(value, executed)) {
        return Error{ErrorCode::Usage, "read_back: value " + std::to_string(value.index) + " is not held after step " +
                                           std::to_string(executed) + " of the plan"};
    }
    const Operand operand = planned(plan.graph().arena(), value);
    if (operand.row_bytes != operand.columns * sizeof(float)) {
        return Error{ErrorCode::Usage, "read_back: value " + std::to_string(value.index) + " is quantised"};
    }
    return std::vector<float>(operand.row(0), operand.row(inputs.row_count(plan.rows_of(value))));
}

}  // namespace hearth
