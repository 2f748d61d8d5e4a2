#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "backend/cpu/replay.h"
#include "base/check.h"
#include "base/clock.h"

namespace hearth {

namespace {

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

// A step is booked under what it is there for.
Op main_operation(const Plan& plan, PlanStep step) {
    return step.kind == StepKind::Matmuls ? Op::Matmul : plan.nodes_of(step).front().op;
}

}  // namespace

CpuBackend::CpuBackend(const Kernels& kernels, CpuPools pools) : kernels_(&kernels), pools_(pools) {}
CpuBackend::CpuBackend(CpuBackend&&) noexcept = default;
CpuBackend& CpuBackend::operator=(CpuBackend&&) noexcept = default;
CpuBackend::~CpuBackend() = default;

Result<CpuBackend> CpuBackend::create(std::string_view isa, CpuPools pools) {
    if (const Kernels* kernels = find_kernels(isa)) return CpuBackend(*kernels, pools);
    std::string levels;
    for (const Kernels& level : supported_kernels()) levels += (levels.empty() ? "" : ", ") + std::string(level.level);
    return Error{ErrorCode::Usage, "this CPU has no kernel level '" + std::string(isa) + "'; it has " + levels};
}

PlannedMemory CpuBackend::planned_memory(const Plan& plan) const {
    return {PackedWeights::planned_size(plan, *kernels_),
            make_program(plan, *kernels_, PackedWeights()).working_bytes(pools_.larger().size())};
}

Status CpuBackend::prepare(const Plan& plan, const PackOptions& options, Prefill prefill) {
    packed_ = PackedWeights::create(plan, *kernels_, pools_.larger(), options);
    CpuReplay replay = TRY(CpuReplay::create(make_program(plan, *kernels_, packed_, prefill), *kernels_, pools_));
    replay_ = std::make_unique<CpuReplay>(std::move(replay));
    return {};
}

Prefill CpuBackend::prefill() const {
    return replay_ && replay_->has_fast_steps() ? Prefill::Fast : Prefill::Exact;
}

Result<Reservation> CpuBackend::allocate(std::size_t size_bytes) {
    Reservation memory = TRY(Reservation::create(size_bytes));
    memory.prefer_large_pages();
    return memory;
}

void CpuBackend::copy(std::byte* to, const std::byte* from, std::size_t size_bytes) {
    std::memcpy(to, from, size_bytes);
}

Status CpuBackend::execute_window(const Plan& plan, std::size_t first, std::size_t last, const StepInputs& inputs) {
    CHECK(first <= last && last <= plan.steps().size());
    CHECK(inputs.tokens.size() <= plan.limits().batch_rows && inputs.wanted_rows.size() <= plan.limits().wanted_rows);
    CHECK(replay_ && &replay_->plan() == &plan);
    if (!profiling_) {
        replay_->run(first, last, inputs);
        return {};
    }
    for (std::size_t step = first; step < last; ++step) {
        const Stopwatch stopwatch(true, costs_[static_cast<std::size_t>(main_operation(plan, plan.steps()[step]))]);
        replay_->run(step, step + 1, inputs);
    }
    return {};
}

Result<std::vector<float>> CpuBackend::execute_eagerly(const Graph& graph, const StepInputs& inputs) {
    const Arena& arena = graph.arena();
    const OperationContext context{*kernels_, graph, inputs};
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
        if (node.op == Op::Matmul) {
            const TensorView& weight = arena.constant(node.constant);
            const ActivationFormat format = traits(weight.type).activation;
            const std::size_t row_bytes = activation_row_bytes(format, operands.input.columns);
            Buffer quantized = TRY(Buffer::create(rows * row_bytes));
            pools_.decode->for_each(rows, [&](std::size_t row, std::size_t) {
                std::byte* activations = quantized.data() + row * row_bytes;
                if (format == ActivationFormat::F32) {
                    std::memcpy(activations, operands.input.row(row), row_bytes);
                } else {
                    quantize_row(*kernels_, format, operands.input.row(row), operands.input.columns, activations);
                }
                kernels_->matmul[static_cast<std::size_t>(weight.type)]({.weights = weight.data,
                                                                         .weight_row_bytes = weight.row_bytes(),
                                                                         .rows = weight.shape.rows(),
                                                                         .columns = weight.shape.columns(),
                                                                         .activations = activations,
                                                                         .activation_row_bytes = row_bytes,
                                                                         .tokens = 1,
                                                                         .out = operands.output.row(row),
                                                                         .out_stride = operands.output.columns});
            });
        } else if (node.op == Op::Attend) {
            const std::size_t kv_heads = node.attention.kv_heads;
            pools_.decode->for_each(rows * kv_heads, [&](std::size_t item, std::size_t) {
                kernels_->attention(attention_task(node, operands, inputs, item / kv_heads, item % kv_heads));
            });
        } else {
            const std::size_t columns = node.input ? operands.input.columns : operands.output.columns;
            pools_.decode->for_each(rows, [&](std::size_t row, std::size_t) {
                run_operation(context, node, operands, row, {0, columns});
            });
        }
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
    Arena& arena = plan.graph().arena();
    const EphemeralValue& info = arena.ephemeral(value);
    const std::size_t rows = inputs.row_count(plan.rows_of(value));
    std::vector<float> values(rows * info.columns);
    for (std::size_t row = 0; row < rows; ++row) {
        const std::byte* data = arena.ephemeral_data(value) + row * info.row_bytes;
        std::memcpy(values.data() + row * info.columns, data, info.columns * sizeof(float));
    }
    return values;
}

}  // namespace hearth
