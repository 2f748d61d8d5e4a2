// The backend that is always there: kernels of the chosen ISA level, spread over a thread pool. Threads change who does
// the work, never the order of a sum.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "kernels/kernels.h"
#include "machine/thread_pool.h"

namespace hearth {

class CpuBackend final : public Backend {
public:
    // `pool` must outlive the backend.
    CpuBackend(const Kernels& kernels, ThreadPool& pool) : kernels_(&kernels), pool_(&pool) {}
    // With the kernels of an ISA level; empty: the best. A level this CPU lacks is an error that lists those it has.
    static Result<CpuBackend> create(std::string_view isa, ThreadPool& pool);

    std::string_view isa() const { return kernels_->level; }

    std::string_view name() const override { return "cpu"; }
    Result<Reservation> allocate(std::size_t size_bytes) override { return Reservation::create(size_bytes); }
    void copy(std::byte* to, const std::byte* from, std::size_t size_bytes) override;
    Status execute_window(const Plan& plan, std::size_t first, std::size_t last, const StepInputs& inputs) override;
    Result<std::vector<float>> execute_eagerly(const Graph& graph, const StepInputs& inputs) override;
    Result<std::vector<float>> read_back(const Plan& plan, Handle value, std::size_t executed,
                                         const StepInputs& inputs) override;
    void set_profiling(bool on) override { profiling_ = on; }
    const std::array<OpCost, kOpCount>& costs() const override { return costs_; }

private:
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
    struct MatmulJob {
        TensorView weight;
        Operand input;  // in the format the weight's type wants
        Operand output;
    };

    Operand planned(Arena& arena, Handle value) const;
    void run_step(const Plan& plan, PlanStep step, const StepInputs& inputs);
    void run_matmuls(std::span<const MatmulJob> jobs, std::size_t rows);
    void run_node(const Graph& graph, const Node& node, const Operands& operands, const StepInputs& inputs);
    void run_row(const Graph& graph, const Node& node, const Operands& operands, const StepInputs& inputs,
                 std::size_t row);
    void store_kv(const Node& node, const Operands& operands, const StepInputs& inputs, std::size_t row);
    void attend(const Node& node, const Operands& operands, const StepInputs& inputs, std::size_t row,
                std::size_t kv_head);

    const Kernels* kernels_;
    ThreadPool* pool_;
    bool profiling_ = false;
    std::array<OpCost, kOpCount> costs_{};
};

}  // namespace hearth
