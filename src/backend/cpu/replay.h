// Replays a program: all its steps in one parallel region, a step in one phase or two.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cpu/cpu_pools.h"
#include "backend/cpu/program.h"

namespace hearth {

class CpuReplay {
public:
    CpuReplay(CpuReplay&&) = default;
    static Result<CpuReplay> create(CpuProgram program, const Kernels& kernels, CpuPools pools);

    const Plan& plan() const { return *program_.plan; }
    bool has_fast_steps() const;
    void run(std::size_t first_step, std::size_t last_step, const StepInputs& inputs);

private:
    struct Phase {
        const CpuStep* step = nullptr;
        bool prologue = false;          // this phase only makes the matmuls' input
        bool private_prologue = false;  // every worker makes the matmuls' input for itself
        bool fast = false;              // the matmuls are the fast ones
        std::size_t tokens = 0;
    };
    struct alignas(kCacheLine) Worker {
        std::uint64_t prologue_done = 0;  // number of the last phase whose input this worker has made
        std::byte* values = nullptr;      // what its prologues make
        std::byte* tile_rows = nullptr;
    };
    // Rows at consecutive positions of one sequence.
    struct RowTile {
        std::uint32_t row;
        std::uint32_t count;
    };
    // A rectangle of a matmul step: rows of a segment's weights by tokens.
    struct Rectangle {
        const Segment* segment;
        ColumnRange rows;
        std::size_t first_token;
        std::size_t tokens;
    };

    CpuReplay(CpuProgram program, const Kernels& kernels, CpuPools pools)
        : program_(std::move(program)), kernels_(&kernels), pools_(pools), pool_(pools.decode) {}
    void add_phases(const CpuStep& step, const StepInputs& inputs);
    void run_items(const Phase& phase, std::uint64_t number, const StepInputs& inputs, ColumnRange items,
                   std::size_t worker);
    void run_rows(const Phase& phase, const StepInputs& inputs, ColumnRange items) const;
    // Attention is cut along rows and KV heads; with few rows and a long past also along the past.
    void find_row_tiles(const StepInputs& inputs);
    static bool only_prompts(const StepInputs& inputs);
    void cut_attention(const StepInputs& inputs);
    void run_attention(const Phase& phase, const StepInputs& inputs, ColumnRange items);
    void run_split(const AttentionTask& task, std::size_t unit, std::size_t part);
    void run_prologue(const Phase& phase, const StepInputs& inputs, std::size_t first_token, std::size_t tokens,
                      std::size_t worker);
    void run_matmuls(const Phase& phase, const StepInputs& inputs, ColumnRange items, std::size_t worker);
    void run_rectangle(const Phase& phase, const StepInputs& inputs, const Rectangle& rectangle, std::size_t worker);
    void multiply(const CpuMatmul& matmul, const Operand& input, const Operand& output, const Rectangle& rectangle);
    void multiply_fast(const CpuMatmul& matmul, const Operand& input, const Operand& output,
                       const Rectangle& rectangle);
    std::size_t prologue_tokens(const Phase& phase) const;  // of one item
    void make_fast_tile(const Operands& values, std::size_t row, std::size_t tokens) const;

    std::size_t unit_rows(const CpuStep& step, const Segment& segment, std::size_t tokens) const;
    Operand operand(Handle value, bool private_values, std::size_t worker) const;
    Operands operands(const Node& node, bool private_values, std::size_t worker) const;

    CpuProgram program_;
    const Kernels* kernels_;
    CpuPools pools_;
    ThreadPool* pool_;    // of the pass that runs, or ran last
    Reservation memory_;  // of the workers
    std::vector<Worker> workers_;
    std::vector<Phase> phases_;
    std::vector<std::size_t> items_;  // by phase
    std::vector<RowTile> row_tiles_;
    bool only_prompts_ = false;        // every sequence of the batch has rows enough to be fast
    std::size_t attention_parts_ = 1;  // of a unit's past
    Reservation splits_;               // what parts leave, by unit and block
    std::size_t splits_per_unit_ = 0;  // floats
    std::unique_ptr<std::atomic<std::uint32_t>[]> parts_done_;  // by unit: whoever does the last one merges
    std::uint64_t phases_run_ = 0;  // since the beginning: numbers phases without ever repeating one
};

}  // namespace hearth
