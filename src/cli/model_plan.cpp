#include "cli/model_plan.h"

#include <algorithm>

#include "cli/console.h"
#include "engine/engine.h"
#include "graph/plan.h"

namespace hearth {

// Measured on one core of a Neoverse-V1 (i8mm, 28.6 GB/s), CPU time of the best of 20 steps, SmolLM2-135M as Q4_0,
// Q4_1, Q8_0 and F16 and Gemma-3-270M as Q4_K_M:
// - quantised: Q8_0, the type that computing does not limit, decodes at 24.8 GB/s;
// - floats: F16 is limited by computing there, so that reading was not seen: taken to be the same;
// - kv: an estimate, attention being limited by computing there as well;
// - compute: 0.77 of the kernel's speed (attention of one token) to 0.90 (prompts of 4096 tokens).
// With these all eleven figures taken, of decoding at depths 0 and 4096 and of prompts, were within 10 %.
const PlanShares kPlanShares = {.quantised = 0.87, .floats = 0.87, .kv = 0.60, .compute = 0.85};

namespace {

constexpr std::size_t kPromptBatch = 512;  // rows of a step, as the engine takes them

// Bits a weight takes in the files `hearth quantize` writes; the larger first.
struct Quantisation {
    const char* mix;
    double bits;
};
constexpr Quantisation kQuantisations[] = {
    {"Q8_0", 8.5}, {"Q6_K", 6.6}, {"Q5_K_M", 5.7}, {"Q4_K_M", 4.9}, {"Q4_0", 4.6}};

std::size_t round_down_to_blocks(std::uint64_t positions) {
    return static_cast<std::size_t>(positions / kKvBlockTokens * kKvBlockTokens);
}

std::uint64_t kv_bytes(const ModelLoad& load, std::size_t context, std::size_t sequences) {
    const std::uint64_t blocks = context / kKvBlockTokens + 1;
    return sequences * blocks * kKvBlockTokens * load.kv_position_bytes;
}

void advise(const ModelLoad& load, MemoryPlan& plan) {
    const std::uint64_t fixed = load.file_bytes + plan.activations;
    const std::uint64_t position = std::max<std::uint64_t>(load.kv_position_bytes * plan.sequences, 1);
    if (fixed < plan.available) {
        const std::size_t context = round_down_to_blocks((plan.available - fixed) / position);
        if (context > 2 * kKvBlockTokens) {
            plan.advice.push_back("a context of " + std::to_string(context - kKvBlockTokens) + " fits: --ctx " +
                                  std::to_string(context - kKvBlockTokens));
        }
        for (const KvType type : {KvType::Q8, KvType::Q4}) {
            const std::uint64_t smaller = load.info.kv_layout(type).block_bytes() / kKvBlockTokens;
            const std::uint64_t needed = plan.kv / std::max<std::uint64_t>(load.kv_position_bytes, 1) * smaller;
            if (smaller == 0 || smaller >= load.kv_position_bytes || fixed + needed > plan.available) continue;
            const std::string name(kv_type_name(type));
            plan.advice.push_back("as " + name + " the KV cache is " + format_bytes(needed) + " and all fits: --kv " +
                                  name);
            break;
        }
        if (plan.sequences > 1) plan.advice.push_back("fewer sequences at a time need less KV cache: --batch");
    }
    const double bits_now =
        static_cast<double>(load.file_bytes) * 8.0 / static_cast<double>(std::max<std::uint64_t>(load.parameters, 1));
    const std::uint64_t others = plan.kv + plan.activations;
    for (const Quantisation& candidate : kQuantisations) {
        const double bytes = static_cast<double>(load.parameters) * candidate.bits / 8.0;
        if (candidate.bits > 0.95 * bits_now ||
            bytes + static_cast<double>(others) > static_cast<double>(plan.available))
            continue;
        plan.advice.push_back("as " + std::string(candidate.mix) + " the weights are about " +
                              format_bytes(static_cast<std::uint64_t>(bytes)) +
                              " and all fits: hearth quantize IN OUT " + candidate.mix);
        break;
    }
    if (plan.advice.empty())
        plan.advice.push_back("nothing that fits is near: a smaller model, or a machine with more memory");
}

}  // namespace

std::uint64_t ModelLoad::weight_bytes() const {
    std::uint64_t bytes = 0;
    for (const WeightLoad& weight : weights) bytes += weight.bytes;
    return bytes;
}

Result<ModelLoad> read_model_load(const GgufFile& file, const CpuBackend& backend, std::size_t context,
                                  KvType kv_type) {
    ModelLoad load;
    Arena arena;
    Graph graph(arena);
    load.info = TRY(build_model(file, BuildRequest{context}, graph));
    const EngineOptions defaults;
    const Plan plan = TRY(Plan::compile(graph, PlanLimits{defaults.batch_rows, defaults.wanted_rows}));
    load.file_bytes = file.file_bytes();
    for (const GgufTensor& tensor : file.tensors()) load.parameters += tensor.view.shape.elements();
    const PlannedMemory planned = backend.planned_memory(plan);
    load.activation_bytes = arena.ephemeral_bytes() + planned.working_bytes;
    load.kv_type = kv_type;
    load.kv_position_bytes = load.info.kv_layout(kv_type).block_bytes() / kKvBlockTokens;
    load.packed_bytes = planned.packed.packed_bytes;
    load.replaced_bytes = planned.packed.source_bytes;
    for (const Node& node : graph.nodes()) {
        if (node.op == Op::Attend) load.attention.push_back(node.attention);
        if (node.op != Op::Matmul) continue;
        const TensorView& weight = arena.constant(node.constant);
        auto found = std::find_if(load.weights.begin(), load.weights.end(),
                                  [&](const WeightLoad& known) { return known.type == weight.type; });
        if (found == load.weights.end()) {
            load.weights.push_back({.type = weight.type});
            found = load.weights.end() - 1;
        }
        const std::uint64_t multiplies = weight.shape.columns() * weight.shape.rows();
        found->bytes += weight.size_bytes();
        found->multiplies += multiplies;
        if (node.rows == RowCount::Batch) found->prompt_multiplies += multiplies;
    }
    return load;
}

MemoryPlan plan_memory(const ModelLoad& load, const PlanRequest& request, std::uint64_t available) {
    MemoryPlan plan;
    plan.context = request.context;
    plan.sequences = request.sequences;
    plan.activations = load.activation_bytes;
    plan.kv = kv_bytes(load, request.context, request.sequences);
    plan.available = available;
    // As the engine decides: the file, KV and activations must fit; a packed copy is made when it does too.
    plan.fits = load.file_bytes + plan.kv + plan.activations <= available;
    const std::uint64_t unpacked = load.file_bytes - std::min(load.file_bytes, load.replaced_bytes);
    plan.packed_fits = unpacked + load.packed_bytes + plan.kv + plan.activations <= available;
    const bool packs = load.packed_bytes != 0 && plan.packed_fits;
    plan.weights = packs ? unpacked : load.file_bytes;
    plan.packed = packs ? load.packed_bytes : 0;
    if (!plan.fits) advise(load, plan);
    return plan;
}

double predict_step(const ModelLoad& load, const MeasuredSpeed& speed, std::size_t depth, std::size_t sequences) {
    const auto seconds = [](double amount, double rate) { return rate > 0 ? amount / rate : 0.0; };
    const double count = static_cast<double>(sequences);
    double total = 0;
    for (const WeightLoad& weight : load.weights) {
        const bool quantised = traits(weight.type).activation != ActivationFormat::F32;
        const double share = quantised ? kPlanShares.quantised : kPlanShares.floats;
        const double reading = seconds(static_cast<double>(weight.bytes), speed.read_bytes_per_second * share);
        const MatmulSpeed* matmul = speed.kernels.find(weight.type);
        double computing = 0;
        if (matmul != nullptr) {
            computing = seconds(count * static_cast<double>(weight.multiplies),
                                (sequences == 1 ? matmul->one_token : matmul->many_tokens) * kPlanShares.compute);
        }
        total += std::max(reading, computing);
    }
    for (const AttentionShape& shape : load.attention) {
        const std::size_t seen = shape.window == 0 ? depth + 1 : std::min(depth + 1, shape.window);
        const double positions = count * static_cast<double>(seen);
        const double kv_bytes_read =
            positions * static_cast<double>(2 * shape.kv_heads * kv_row_bytes(load.kv_type, shape.head_dim));
        const double multiplies = positions * static_cast<double>(2 * shape.heads * shape.head_dim);
        total += std::max(seconds(kv_bytes_read, speed.read_bytes_per_second * kPlanShares.kv),
                          seconds(multiplies, speed.kernels.attention_one_token * kPlanShares.compute));
    }
    return total;
}

double predict_prompt(const ModelLoad& load, const MeasuredSpeed& speed, std::size_t tokens) {
    const auto seconds = [](double amount, double rate) { return rate > 0 ? amount / rate : 0.0; };
    const double count = static_cast<double>(tokens);
    const double passes = static_cast<double>((tokens + kPromptBatch - 1) / kPromptBatch);
    double total = 0;
    for (const WeightLoad& weight : load.weights) {
        const MatmulSpeed* matmul = speed.kernels.find(weight.type);
        const double rate = matmul == nullptr ? 0 : matmul->many_tokens * kPlanShares.compute;
        const double computing = seconds(count * static_cast<double>(weight.prompt_multiplies), rate);
        const double reading = seconds(passes * static_cast<double>(weight.bytes), speed.read_bytes_per_second);
        total += std::max(computing, reading);
    }
    for (const AttentionShape& shape : load.attention) {
        // Position p sees p + 1 positions, at most the window.
        const double window = shape.window == 0 ? count : std::min(count, static_cast<double>(shape.window));
        const double seen = window * (window + 1) / 2 + (count - window) * window;
        total += seconds(seen * static_cast<double>(2 * shape.heads * shape.head_dim),
                         speed.kernels.attention_many_tokens * kPlanShares.compute);
    }
    return total;
}

std::vector<std::size_t> plan_depths(std::size_t context) {
    std::vector<std::size_t> depths = {0};
    for (std::size_t depth = 1024; depth < context && depths.size() < 6; depth *= 4) depths.push_back(depth);
    if (context > 1 && depths.back() < context / 2) depths.push_back(context - 1);
    return depths;
}

}  // namespace hearth
