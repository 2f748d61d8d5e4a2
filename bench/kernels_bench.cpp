// Kernels by level: matmul at one token (bytes per second of weights is what counts) and at 64 (GOP/s), the same over
// packed weights (exact and fast) and over tiles of floats, and attention of one token and of 64. Run one level or type
// with --benchmark_filter, e.g. 'dotprod/Q4_K' or 'i8mm/panels/'.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/kernels.h"
#include "tensor/dtype.h"

namespace hearth {
namespace {

constexpr std::size_t kRows = 2048;
constexpr std::size_t kColumns = 2048;

std::vector<float> random_floats(std::size_t n, std::uint64_t seed) {
    std::vector<float> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(random_unit(seed, i) * 2.0 - 1.0);
    return values;
}

std::vector<std::byte> quantized(const Kernels& kernels, DType type, const std::vector<float>& x, std::size_t columns) {
    const ActivationFormat format = traits(type).activation;
    const std::size_t row = activation_row_bytes(format, columns);
    std::vector<std::byte> out(x.size() / columns * row);
    for (std::size_t t = 0; t < x.size() / columns; ++t) {
        std::byte* at = out.data() + t * row;
        if (format == ActivationFormat::F32) std::memcpy(at, x.data() + t * columns, row);
        if (format == ActivationFormat::Q8x32) {
            kernels.quantize_q8x32(x.data() + t * columns, columns, reinterpret_cast<ActivationBlock32*>(at));
        }
        if (format == ActivationFormat::Q8x256) {
            kernels.quantize_q8x256(x.data() + t * columns, columns, reinterpret_cast<ActivationBlock256*>(at));
        }
    }
    return out;
}

// Arbitrary bytes below 0x40 in every place: any f16 scale they make is a small normal number. Of floats, their upper
// halves and the exponents of MXFP4 none may be so small that sums become subnormal, which takes x86 a hundred times as
// long.
std::vector<std::byte> arbitrary_weights(DType type, std::size_t size_bytes) {
    std::vector<std::byte> weights(size_bytes);
    unsigned exponent = 0;
    if (type == DType::F32 || type == DType::BF16) exponent = 0x3c;
    if (type == DType::MXFP4) exponent = 0x40;
    for (std::size_t i = 0; i < size_bytes; ++i) {
        weights[i] = static_cast<std::byte>((random_bits(1, i) & 0x3fu) | exponent);
    }
    return weights;
}

void measure(benchmark::State& state, MatmulFn matmul, DType type, std::size_t tokens,
             const std::vector<std::byte>& activations, std::byte* scratch) {
    const std::vector<std::byte> weights = arbitrary_weights(type, row_bytes(type, kRows * kColumns));
    std::vector<float> out(tokens * kRows);
    const MatmulTask task = {.weights = weights.data(),
                             .weight_row_bytes = row_bytes(type, kColumns),
                             .rows = kRows,
                             .columns = kColumns,
                             .activations = activations.data(),
                             .activation_row_bytes = activation_row_bytes(traits(type).activation, kColumns),
                             .tokens = tokens,
                             .out = out.data(),
                             .out_stride = kRows,
                             .scratch = scratch};
    for (auto _ : state) {
        matmul(task);
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(weights.size()));
    state.counters["GOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(kRows * kColumns * tokens),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

void matmul(benchmark::State& state, const Kernels& kernels, DType type, std::size_t tokens) {
    const std::vector<std::byte> activations = quantized(kernels, type, random_floats(tokens * kColumns, 2), kColumns);
    measure(state, kernels.matmul[static_cast<std::size_t>(type)], type, tokens, activations, nullptr);
}

// Float weights and activations in tiles; arranging these is not counted.
void float_tiles_matmul(benchmark::State& state, const Kernels& kernels, DType type, std::size_t tokens) {
    const FloatTileKernels& floats = kernels.float_tiles;
    const std::vector<float> x = random_floats(tokens * kColumns, 2);
    constexpr std::size_t kRowBytes = kColumns * sizeof(float);
    std::vector<std::byte> tiles((tokens + floats.tile_tokens - 1) / floats.tile_tokens * floats.tile_tokens *
                                 kRowBytes);
    for (std::size_t t = 0; t < tokens; t += floats.tile_tokens) {
        floats.tile({.rows = reinterpret_cast<const std::byte*>(x.data() + t * kColumns),
                     .row_bytes = kRowBytes,
                     .tokens = std::min(floats.tile_tokens, tokens - t),
                     .columns = kColumns,
                     .out = tiles.data() + t * kRowBytes});
    }
    std::vector<std::byte> scratch(floats.scratch_bytes(kColumns));
    measure(state, floats.matmul[static_cast<std::size_t>(type)], type, tokens, tiles, scratch.data());
}

// Rows as they are for few tokens, in tiles for more.
std::vector<std::byte> arranged(const Kernels& kernels, DType type, const std::vector<std::byte>& rows,
                                std::size_t columns, std::size_t tokens) {
    if (tokens < kernels.tiles_from) return rows;
    const ActivationFormat format = traits(type).activation;
    const std::size_t bytes = activation_row_bytes(format, columns);
    const auto tile = format == ActivationFormat::Q8x32 ? kernels.tile_q8x32 : kernels.tile_q8x256;
    std::vector<std::byte> out((tokens + kernels.tile_tokens - 1) / kernels.tile_tokens * kernels.tile_tokens * bytes);
    for (std::size_t t = 0; t < tokens; t += kernels.tile_tokens) {
        tile({.rows = rows.data() + t * bytes,
              .row_bytes = bytes,
              .tokens = std::min(kernels.tile_tokens, tokens - t),
              .columns = columns,
              .out = out.data() + t * bytes});
    }
    return out;
}

std::vector<std::byte> arranged_fast(const Kernels& kernels, const std::vector<float>& x, std::size_t columns,
                                     std::size_t tokens) {
    const std::size_t each = kernels.fast.tile_tokens;
    const std::size_t bytes = FastKernels::row_bytes(columns);
    std::vector<std::byte> out((tokens + each - 1) / each * each * bytes);
    for (std::size_t t = 0; t < tokens; t += each) {
        kernels.fast.tile({.rows = x.data() + t * columns,
                           .row_floats = columns,
                           .tokens = std::min(each, tokens - t),
                           .columns = columns,
                           .quantize = kernels.quantize_q8x256,
                           .out = out.data() + t * bytes});
    }
    return out;
}

enum class Arithmetic { Exact, Fast };

// Matmul over packed weights of about `size_bytes`: far above the last cache to measure memory, or small enough for
// the second.
void panel_matmul(benchmark::State& state, const Kernels& kernels, DType type, Arithmetic arithmetic,
                  std::size_t tokens, std::size_t size_bytes) {
    const PanelKernels& panels = kernels.panels[static_cast<std::size_t>(type)];
    const std::size_t panel_bytes = panels.panel_bytes(kColumns);
    const std::size_t count = std::max<std::size_t>(1, size_bytes / panel_bytes);
    const std::size_t rows = count * panels.rows;
    const std::vector<std::byte> source = arbitrary_weights(type, row_bytes(type, panels.rows * kColumns));
    std::vector<std::byte> weights(count * panel_bytes);
    for (std::size_t i = 0; i < count; ++i) {
        panels.pack({.weights = source.data(),
                     .weight_row_bytes = row_bytes(type, kColumns),
                     .rows = panels.rows,
                     .columns = kColumns,
                     .out = weights.data() + i * panel_bytes});
    }
    const bool fast = arithmetic == Arithmetic::Fast;
    const std::vector<float> x = random_floats(tokens * kColumns, 2);
    const std::vector<std::byte> activations =
        fast ? arranged_fast(kernels, x, kColumns, tokens)
             : arranged(kernels, type, quantized(kernels, type, x, kColumns), kColumns, tokens);
    const auto matmul = fast ? kernels.fast.panels_matmul[static_cast<std::size_t>(type)] : panels.matmul;
    std::vector<float> out(tokens * rows);
    const PanelTask task = {.panels = weights.data(),
                            .panel_bytes = panel_bytes,
                            .rows = rows,
                            .columns = kColumns,
                            .activations = activations.data(),
                            .activation_row_bytes = fast ? FastKernels::row_bytes(kColumns)
                                                         : activation_row_bytes(traits(type).activation, kColumns),
                            .tokens = tokens,
                            .out = out.data(),
                            .out_stride = rows};
    for (auto _ : state) {
        matmul(task);
        benchmark::ClobberMemory();
    }
    const std::size_t operations = 2 * rows * kColumns * tokens;
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(weights.size()));
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(operations));
}

void register_panels(const Kernels& kernels, DType type) {
    if (kernels.panels[static_cast<std::size_t>(type)].rows == 0) return;
    constexpr std::size_t kFromMemory = 96u << 20;
    constexpr std::size_t kFromSecondCache = 512u << 10;
    const auto add = [&](const std::string& what, std::size_t tokens, std::size_t size_bytes,
                         Arithmetic arithmetic = Arithmetic::Exact) {
        const std::string name = std::string(kernels.level) + "/panels/" + std::string(traits(type).name) + what +
                                 "/n:" + std::to_string(tokens);
        const auto run = [&kernels, type, arithmetic, tokens, size_bytes](benchmark::State& state) {
            panel_matmul(state, kernels, type, arithmetic, tokens, size_bytes);
        };
        benchmark::RegisterBenchmark(name.c_str(), run)->Unit(benchmark::kMicrosecond);
    };
    for (const std::size_t tokens : {1u, 2u, 4u, 6u, 8u, 16u}) add("/memory", tokens, kFromMemory);
    add("/cache", 1, kFromSecondCache);
    for (const std::size_t tokens : {4u, 8u, 16u, 64u, 512u}) add("/cache", tokens, kFromSecondCache);
    if (kernels.fast.tile_tokens == 0 || kernels.fast.panels_matmul[static_cast<std::size_t>(type)] == nullptr) return;
    for (const std::size_t tokens : {64u, 512u}) add("/fast", tokens, kFromSecondCache, Arithmetic::Fast);
}

// One KV head's blocks, its positions all written.
struct KvHead {
    std::size_t head_dim;
    std::size_t block_bytes;
    std::vector<std::byte> pool;
    std::vector<std::uint32_t> table;

    KvHead(const Kernels& kernels, std::size_t dim, std::size_t positions)
        : head_dim(dim), block_bytes(kKvBlockTokens * dim * 2 * 2), pool(positions / kKvBlockTokens * block_bytes) {
        const std::vector<float> kv = random_floats(pool.size() / 2, 3);
        kernels.to_f16(kv.data(), kv.size(), reinterpret_cast<Half*>(pool.data()));
        for (std::size_t i = 0; i < positions / kKvBlockTokens; ++i) table.push_back(static_cast<std::uint32_t>(i));
    }
};

// 4 * head_dim operations for each query and visible key.
void count_attention(benchmark::State& state, std::size_t queries, std::size_t positions, std::size_t head_dim) {
    state.counters["GFLOP/s"] = benchmark::Counter(4e-9 * static_cast<double>(queries * positions * head_dim),
                                                   benchmark::Counter::kIsIterationInvariantRate);
}

void attention(benchmark::State& state, const Kernels& kernels, std::size_t head_dim, std::size_t group,
               std::size_t positions) {
    const KvHead kv(kernels, head_dim, positions);
    const std::vector<float> query = random_floats(group * head_dim, 4);
    std::vector<float> out(group * head_dim);
    const AttentionTask task = {.query = query.data(),
                                .out = out.data(),
                                .group = group,
                                .head_dim = head_dim,
                                .pool = kv.pool.data(),
                                .block_table = kv.table.data(),
                                .block_bytes = kv.block_bytes,
                                .key_offset = 0,
                                .value_offset = kv.block_bytes / 2,
                                .first = 0,
                                .last = positions - 1,
                                .scale = 0.088f};
    for (auto _ : state) {
        kernels.attention(task);
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kv.pool.size()));
    count_attention(state, group, positions, head_dim);
}

// The last `tokens` positions of a context as one tile.
void attention_tile(benchmark::State& state, const Kernels& kernels, std::size_t head_dim, std::size_t group,
                    std::size_t tokens, std::size_t positions) {
    const KvHead kv(kernels, head_dim, positions);
    const std::vector<float> query = random_floats(tokens * group * head_dim, 4);
    std::vector<float> out(query.size());
    const AttentionTileTask task = {.query = query.data(),
                                    .query_stride = group * head_dim,
                                    .out = out.data(),
                                    .out_stride = group * head_dim,
                                    .tokens = tokens,
                                    .group = group,
                                    .head_dim = head_dim,
                                    .pool = kv.pool.data(),
                                    .block_table = kv.table.data(),
                                    .block_bytes = kv.block_bytes,
                                    .key_offset = 0,
                                    .value_offset = kv.block_bytes / 2,
                                    .position = positions - tokens,
                                    .window = 0,
                                    .scale = 0.088f};
    for (auto _ : state) {
        kernels.attention_tile(task);
        benchmark::ClobberMemory();
    }
    count_attention(state, tokens * group, positions - tokens / 2, head_dim);
}

void register_all() {
    constexpr DType kTypes[] = {DType::Q8_0,   DType::Q4_0,  DType::Q4_1, DType::Q5_0, DType::Q4_K,  DType::Q6_K,
                                DType::Q5_K,   DType::Q5_1,  DType::F32,  DType::F16,  DType::BF16,  DType::IQ4_NL,
                                DType::IQ4_XS, DType::MXFP4, DType::Q3_K, DType::Q2_K, DType::TQ1_0, DType::TQ2_0};
    for (const Kernels& kernels : supported_kernels()) {
        const std::string level(kernels.level);
        for (const DType type : kTypes) {
            for (const std::size_t tokens : {1u, 4u, 64u}) {
                const std::string name = level + "/" + std::string(traits(type).name) + "/n:" + std::to_string(tokens);
                benchmark::RegisterBenchmark(name.c_str(), [&kernels, type, tokens](benchmark::State& state) {
                    matmul(state, kernels, type, tokens);
                })->Unit(benchmark::kMicrosecond);
            }
            register_panels(kernels, type);
            if (kernels.float_tiles.matmul[static_cast<std::size_t>(type)] == nullptr) continue;
            for (const std::size_t tokens : {64u, 512u}) {
                const std::string name =
                    level + "/float_tiles/" + std::string(traits(type).name) + "/n:" + std::to_string(tokens);
                benchmark::RegisterBenchmark(name.c_str(), [&kernels, type, tokens](benchmark::State& state) {
                    float_tiles_matmul(state, kernels, type, tokens);
                })->Unit(benchmark::kMicrosecond);
            }
        }
        for (const std::size_t head_dim : {64u, 128u}) {
            for (const std::size_t group : {1u, 3u, 4u, 8u}) {
                const std::string shape = "/dim:" + std::to_string(head_dim) + "/group:" + std::to_string(group);
                benchmark::RegisterBenchmark((level + "/attention" + shape).c_str(), [&kernels, head_dim,
                                                                                      group](benchmark::State& state) {
                    attention(state, kernels, head_dim, group, 2048);
                })->Unit(benchmark::kMicrosecond);
                benchmark::RegisterBenchmark((level + "/attention_tile" + shape + "/tokens:64").c_str(),
                                             [&kernels, head_dim, group](benchmark::State& state) {
                                                 attention_tile(state, kernels, head_dim, group, 64, 2048);
                                             })
                    ->Unit(benchmark::kMicrosecond);
            }
        }
    }
}

}  // namespace
}  // namespace hearth

int main(int argc, char** argv) {
    hearth::register_all();
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
