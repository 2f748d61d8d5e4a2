#include "cli/kernel_speed.h"

#include <algorithm>

#include "base/clock.h"

namespace hearth {

namespace {

constexpr std::size_t kColumns = 2048;  // with the rows small enough for a second-level cache
constexpr std::size_t kRows = 64;
constexpr std::size_t kTokens = 64;
constexpr std::size_t kFloatTokens = 256;  // over which float weights are widened once
constexpr std::size_t kPositions = 1024;
constexpr double kSeconds = 0.004;  // of one measurement
constexpr int kAttempts = 3;        // the best of which counts: others may be using the machine

// Zeros for one worker. Nothing any kernel does depends on the values.
struct Workspace {
    std::vector<std::byte> weights;
    std::vector<std::byte> activations;
    std::vector<std::byte> scratch;
    std::vector<float> out;
};

// Calls work(worker's index) on all workers over and over; gives calls a second.
template <typename Work>
double calls_per_second(ThreadPool& pool, Work work) {
    constexpr std::size_t kItemsPerWorker = 4;
    const std::size_t items = pool.size() * kItemsPerWorker;
    double best = 0;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        std::size_t calls = 0;
        const double started = monotonic_seconds();
        double taken = 0;
        do {
            pool.for_each(items, [&](std::size_t, std::size_t worker) { work(worker); });
            calls += items;
            taken = monotonic_seconds() - started;
        } while (taken < kSeconds);
        best = std::max(best, static_cast<double>(calls) / taken);
    }
    return best;
}

// One token, or as many as a prompt has at once.
double measure_matmul(const Kernels& kernels, ThreadPool& pool, DType type, bool many) {
    const auto index = static_cast<std::size_t>(type);
    const PanelKernels& panels = kernels.panels[index];
    const FloatTileKernels& floats = kernels.float_tiles;
    const auto panels_matmul =
        many && floats.panels_matmul[index] != nullptr ? floats.panels_matmul[index] : panels.matmul;
    const MatmulFn matmul = many && floats.matmul[index] != nullptr ? floats.matmul[index] : kernels.matmul[index];
    const bool is_float = traits(type).activation == ActivationFormat::F32;
    const std::size_t tokens = !many ? 1 : is_float ? kFloatTokens : kTokens;
    const std::size_t activation_bytes = activation_row_bytes(traits(type).activation, kColumns);
    const std::size_t weight_bytes = row_bytes(type, kColumns);
    const std::size_t tile = std::max<std::size_t>(is_float ? floats.tile_tokens : kernels.tile_tokens, 1);
    const std::size_t panel_bytes = panels.rows == 0 ? 0 : panels.panel_bytes(kColumns);
    std::vector<Workspace> spaces(pool.size());
    for (Workspace& space : spaces) {
        const std::size_t panel_count = panels.rows == 0 ? 0 : (kRows + panels.rows - 1) / panels.rows;
        space.weights.resize(std::max(kRows * weight_bytes, panel_count * panel_bytes));
        space.activations.resize((tokens + tile - 1) / tile * tile * activation_bytes);
        space.scratch.resize(floats.scratch_bytes(kColumns));
        space.out.resize(tokens * kRows);
    }
    const double calls = calls_per_second(pool, [&](std::size_t worker) {
        Workspace& space = spaces[worker];
        if (panels.rows != 0) {
            panels_matmul({.panels = space.weights.data(),
                           .panel_bytes = panel_bytes,
                           .rows = kRows,
                           .columns = kColumns,
                           .activations = space.activations.data(),
                           .activation_row_bytes = activation_bytes,
                           .tokens = tokens,
                           .out = space.out.data(),
                           .out_stride = kRows});
        } else {
            matmul({.weights = space.weights.data(),
                    .weight_row_bytes = weight_bytes,
                    .rows = kRows,
                    .columns = kColumns,
                    .activations = space.activations.data(),
                    .activation_row_bytes = activation_bytes,
                    .tokens = tokens,
                    .out = space.out.data(),
                    .out_stride = kRows,
                    .scratch = space.scratch.data()});
        }
    });
    return calls * static_cast<double>(kRows * kColumns * tokens);
}

struct AttentionSpace {
    std::vector<float> query;
    std::vector<float> out;
    std::vector<std::byte> pool;
    std::vector<std::uint32_t> table;
};

// One KV head with its query heads: `tokens` of them at the end of kPositions.
double measure_attention(const Kernels& kernels, ThreadPool& pool, const AttentionShape& shape, KvType kv_type,
                         std::size_t tokens) {
    const std::size_t group = shape.heads / std::max<std::size_t>(shape.kv_heads, 1);
    const KvLayout layout{1, 1, shape.head_dim, kv_type};
    if (group == 0 || shape.head_dim == 0 || shape.head_dim > kMaxHeadDim) return 0;
    std::vector<AttentionSpace> spaces(pool.size());
    for (AttentionSpace& space : spaces) {
        space.query.resize(tokens * group * shape.head_dim);
        space.out.resize(space.query.size());
        space.pool.resize(layout.block_bytes() * (kPositions / kKvBlockTokens));
        for (std::uint32_t block = 0; block < kPositions / kKvBlockTokens; ++block) space.table.push_back(block);
    }
    const double calls = calls_per_second(pool, [&](std::size_t worker) {
        AttentionSpace& space = spaces[worker];
        if (tokens == 1) {
            kernels.attention({.query = space.query.data(),
                               .out = space.out.data(),
                               .group = group,
                               .head_dim = shape.head_dim,
                               .pool = space.pool.data(),
                               .block_table = space.table.data(),
                               .block_bytes = layout.block_bytes(),
                               .key_offset = layout.key_offset(0, 0),
                               .value_offset = layout.value_offset(0, 0),
                               .first = 0,
                               .last = kPositions - 1,
                               .scale = 1.0f,
                               .kv_type = kv_type});
        } else {
            kernels.attention_tile({.query = space.query.data(),
                                    .query_stride = group * shape.head_dim,
                                    .out = space.out.data(),
                                    .out_stride = group * shape.head_dim,
                                    .tokens = tokens,
                                    .group = group,
                                    .head_dim = shape.head_dim,
                                    .pool = space.pool.data(),
                                    .block_table = space.table.data(),
                                    .block_bytes = layout.block_bytes(),
                                    .key_offset = layout.key_offset(0, 0),
                                    .value_offset = layout.value_offset(0, 0),
                                    .position = kPositions - tokens,
                                    .window = 0,
                                    .scale = 1.0f,
                                    .kv_type = kv_type});
        }
    });
    return calls * static_cast<double>(2 * tokens * group * shape.head_dim * kPositions);
}

}  // namespace

const MatmulSpeed* KernelSpeed::find(DType type) const {
    for (const MatmulSpeed& speed : matmul) {
        if (speed.type == type) return &speed;
    }
    return nullptr;
}

KernelSpeed measure_kernels(const Kernels& kernels, ThreadPool& pool, std::span<const DType> types,
                            const AttentionShape& attention, KvType kv_type) {
    KernelSpeed speed;
    for (const DType type : types) {
        speed.matmul.push_back({.type = type,
                                .one_token = measure_matmul(kernels, pool, type, false),
                                .many_tokens = measure_matmul(kernels, pool, type, true)});
    }
    speed.attention_one_token = measure_attention(kernels, pool, attention, kv_type, 1);
    speed.attention_many_tokens = measure_attention(kernels, pool, attention, kv_type, kTokens);
    return speed;
}

}  // namespace hearth
