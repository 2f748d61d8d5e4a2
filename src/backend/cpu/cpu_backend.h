// The backend that is always there: kernels of the chosen ISA level, spread over a thread pool. Threads change who does
// the work, never the order of a sum.
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_pools.h"
#include "backend/cpu/packed_weights.h"
#include "kernels/kernels.h"

namespace hearth {

class CpuReplay;

// What a plan takes beside the model file, KV and its own values.
struct PlannedMemory {
    PackedSize packed;  // when nothing stands in its way
    std::size_t working_bytes = 0;
};

class CpuBackend final : public Backend {
public:
    // The pools must outlive the backend.
    CpuBackend(const Kernels& kernels, ThreadPool& pool) : CpuBackend(kernels, CpuPools{&pool, &pool}) {}
    CpuBackend(const Kernels& kernels, CpuPools pools);
    CpuBackend(CpuBackend&&) noexcept;
    CpuBackend& operator=(CpuBackend&&) noexcept;
    ~CpuBackend() override;
    // With the kernels of an ISA level; empty: the best. A level this CPU lacks is an error that lists those it has.
    static Result<CpuBackend> create(std::string_view isa, CpuPools pools);
    static Result<CpuBackend> create(std::string_view isa, ThreadPool& pool) { return create(isa, {&pool, &pool}); }

    std::string_view isa() const { return kernels_->level; }
    std::string_view panel_layout() const { return kernels_->panel_layout; }

    PlannedMemory planned_memory(const Plan& plan) const;

    // Makes a plan ready to be replayed; `plan` must stay where it is. Called again, it takes the place of the first.
    Status prepare(const Plan& plan, const PackOptions& options = {}, Prefill prefill = Prefill::Exact);
    Prefill prefill() const;  // what was asked for, or Exact where nothing can be fast
    const PackedWeights& packed() const { return packed_; }

    std::string_view name() const override { return "cpu"; }
    Result<Reservation> allocate(std::size_t size_bytes) override;
    void copy(std::byte* to, const std::byte* from, std::size_t size_bytes) override;
    Status execute_window(const Plan& plan, std::size_t first, std::size_t last, const StepInputs& inputs) override;
    Result<std::vector<float>> execute_eagerly(const Graph& graph, const StepInputs& inputs) override;
    Result<std::vector<float>> read_back(const Plan& plan, Handle value, std::size_t executed,
                                         const StepInputs& inputs) override;
    void set_profiling(bool on) override { profiling_ = on; }
    const std::array<OpCost, kOpCount>& costs() const override { return costs_; }

private:
    const Kernels* kernels_;
    CpuPools pools_;
    PackedWeights packed_;
    std::unique_ptr<CpuReplay> replay_;
    bool profiling_ = false;
    std::array<OpCost, kOpCount> costs_{};
};

}  // namespace hearth
