// The contract of a device that executes plans. Models describe graphs, backends execute them; they never see each
// other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/memory.h"
#include "base/result.h"
#include "graph/plan.h"

namespace hearth {

inline constexpr std::size_t kOpCount = static_cast<std::size_t>(Op::ChunkMaxima) + 1;

// What each kind of operation has cost since profiling was turned on.
struct OpCost {
    std::uint64_t calls = 0;
    double seconds = 0;
};

class Backend {
public:
    virtual ~Backend() = default;
    virtual std::string_view name() const = 0;

    // Memory the device's steps can read and write; committed where touched.
    virtual Result<Reservation> allocate(std::size_t size_bytes) = 0;
    virtual void copy(std::byte* to, const std::byte* from, std::size_t size_bytes) = 0;

    // Replays steps [first, last) of the plan with its slots bound to `inputs`. The steps before `first` must have been
    // executed with the same inputs, each once: a step may write over what it reads.
    virtual Status execute_window(const Plan& plan, std::size_t first, std::size_t last, const StepInputs& inputs) = 0;

    // Runs the graph node by node as it was captured: every value in memory of its own, nothing fused or shared.
    // The logits are the same bits as those of the replayed plan.
    virtual Result<std::vector<float>> execute_eagerly(const Graph& graph, const StepInputs& inputs) = 0;

    // Copies a value out after the steps before `executed` have run. A value not computed yet, or whose bytes now
    // belong to another one, is an error.
    virtual Result<std::vector<float>> read_back(const Plan& plan, Handle value, std::size_t executed,
                                                 const StepInputs& inputs) = 0;

    virtual void set_profiling(bool on) = 0;
    virtual const std::array<OpCost, kOpCount>& costs() const = 0;
};

}  // namespace hearth
