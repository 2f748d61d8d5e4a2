// What a model will need and how fast it will run, before it is loaded: from its tensor table, and what the machine was
// measured to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/json.h"
#include "base/result.h"
#include "cli/kernel_speed.h"
#include "gguf/gguf.h"
#include "models/model.h"

namespace hearth {

// The matrices of one type, all layers together.
struct WeightLoad {
    DType type = DType::F32;
    std::uint64_t bytes = 0;
    std::uint64_t multiplies = 0;         // of one token
    std::uint64_t prompt_multiplies = 0;  // of one prompt token: all but the projection to the vocabulary
};

struct ModelLoad {
    ModelInfo info;
    std::uint64_t file_bytes = 0;
    std::uint64_t parameters = 0;
    std::uint64_t packed_bytes = 0;    // the copy in the kernels' order; 0: nothing is packed
    std::uint64_t replaced_bytes = 0;  // of the file, which that copy stands for
    std::uint64_t activation_bytes = 0;
    KvType kv_type = KvType::F16;
    std::uint64_t kv_position_bytes = 0;    // of one position in all layers
    std::vector<WeightLoad> weights;        // by type
    std::vector<AttentionShape> attention;  // one a layer

    std::uint64_t weight_bytes() const;  // read for every decoded token
};

struct PlanRequest {
    std::size_t context = 0;    // 0: as the engine chooses
    std::size_t sequences = 1;  // that decode together
};

// Loads no weights.
Result<ModelLoad> read_model_load(const GgufFile& file, const CpuBackend& backend, std::size_t context,
                                  KvType kv_type = KvType::F16);

struct MemoryPlan {
    std::size_t context = 0;
    std::size_t sequences = 1;
    std::uint64_t weights = 0;  // of the file; without what a packed copy stands for
    std::uint64_t packed = 0;   // 0 when it does not fit: the model then runs from its file
    std::uint64_t kv = 0;
    std::uint64_t activations = 0;
    std::uint64_t available = 0;
    bool fits = true;
    bool packed_fits = true;
    std::vector<std::string> advice;  // what to do when something does not fit

    std::uint64_t total() const { return weights + packed + kv + activations; }
};

// For `available`: this machine does not tell.
inline constexpr std::uint64_t kUnknownMemory = std::numeric_limits<std::int64_t>::max();

MemoryPlan plan_memory(const ModelLoad& load, const PlanRequest& request, std::uint64_t available);

// The assumptions: what decoding reaches of what was measured.
struct PlanShares {
    double quantised = 0;  // of the read bandwidth, by weights in blocks
    double floats = 0;     // of the read bandwidth, by F32, F16 and BF16 weights
    double kv = 0;         // of the read bandwidth, by the KV cache
    double compute = 0;    // of the kernels' speed, by whole prompts
};
extern const PlanShares kPlanShares;

struct MeasuredSpeed {
    double read_bytes_per_second = 0;
    KernelSpeed kernels;
};

// Seconds of one step in which each of `sequences` decodes one token behind `depth` others.
double predict_step(const ModelLoad& load, const MeasuredSpeed& speed, std::size_t depth, std::size_t sequences);
// Seconds of a prompt of `tokens`.
double predict_prompt(const ModelLoad& load, const MeasuredSpeed& speed, std::size_t tokens);

// Depths worth telling: 0, powers of four from 1024, and what lies a little before the end of the context.
std::vector<std::size_t> plan_depths(std::size_t context);

}  // namespace hearth
