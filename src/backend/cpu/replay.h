// Replays a program: all its steps in one parallel region, a step in one phase or two.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/cpu_pools.h"
#include "backend/cpu/program.h"
#include "backend/cpu/worker_choice.h"

namespace hearth {

class CpuReplay {
public:
    CpuReplay(CpuReplay&&) = default;
    static Result<CpuReplay> create(CpuProgram program, const Kernels& kernels, CpuPools pools);

    const Plan& plan() const { return *program_.plan; }
    bool has_fast_steps() const;
    void run(std::size_t first_step, std::size_t last_step, const StepInputs& inputs);

private:
    // What a step quantises for the next one as it goes.
    struct HandOver {
        const Node* quantize = nullptr;  // none: nothing
        Arrangement arrangement = Arrangement::Rows;
        std::byte* out = nullptr;
    };
    // A segment of a phase in units of work, with the tokens' tiles of a unit one after another.
    struct Cut {
        const Segment* segment;
        std::size_t unit_rows;
        std::size_t first_item;  // of the phase
        std::size_t end_item;
    };
    struct Phase {
        const CpuStep* step = nullptr;
        bool prologue = false;          // this phase only makes the matmuls' input
        bool private_prologue = false;  // every worker makes the matmuls' input for itself
        Arrangement arrangement = Arrangement::Rows;
        std::size_t tokens = 0;
        std::byte* handed_on = nullptr;  // the matmuls' input, if the step before has made it
        HandOver next = {};
        std::span<const Cut> cuts = {};  // of the matmuls
    };
    struct alignas(kCacheLine) Worker {
        std::uint64_t prologue_done = 0;  // number of the last phase whose input this worker has made
        std::byte* values = nullptr;      // what its prologues make
        std::byte* scratch = nullptr;
    };
    // Some columns of some rows to be quantised, in rows or tiles from the first one on.
    struct QuantizeTask {
        ActivationFormat format;
        Operand input;
        Operand output;
        bool tiles;
        ColumnRange columns;
        std::size_t first_token;
        std::size_t tokens;
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

    // What a kernel reads of them: rows, or tiles of several.
    struct Activations {
        const std::byte* data;
        std::size_t row_bytes;
    };

    CpuReplay(CpuProgram program, const Kernels& kernels, CpuPools pools)
        : program_(std::move(program)),
          kernels_(&kernels),
          pools_(pools),
          pool_(pools.decode),
          choice_(pools.decode->size()) {}
    HandOver hand_over(std::size_t step, const StepInputs& inputs);
    void add_phases(const CpuStep& step, const StepInputs& inputs, const HandOver& before, const HandOver& next);
    Arrangement arrangement(const CpuStep& step, std::size_t tokens) const;
    void run_items(const Phase& phase, std::uint64_t number, const StepInputs& inputs, ColumnRange items,
                   std::size_t worker);
    void run_rows(const Phase& phase, const StepInputs& inputs, ColumnRange items) const;
    // Attention is cut along rows and KV heads; with few rows and a long past also along the past.
    void find_row_tiles(const StepInputs& inputs);
    static bool only_prompts(const StepInputs& inputs);
    void cut_attention(const StepInputs& inputs);
    void run_attention(const Phase& phase, const StepInputs& inputs, ColumnRange items, std::size_t worker);
    bool run_split(const AttentionTask& task, std::size_t unit, std::size_t part);  // whether it was the last part
    void run_prologue(const Phase& phase, const StepInputs& inputs, std::size_t first_token, std::size_t tokens,
                      std::size_t worker);
    void quantize_rows(const QuantizeTask& task, std::size_t worker) const;
    void hand_on(const Phase& phase, ColumnRange columns, std::size_t first_token, std::size_t tokens,
                 std::size_t worker) const;
    bool fetch_weights(const Phase& phase, ColumnRange items, std::size_t turn) const;
    void run_matmuls(const Phase& phase, const StepInputs& inputs, ColumnRange items, std::size_t worker);
    void run_rectangle(const Phase& phase, const StepInputs& inputs, const Rectangle& rectangle, std::size_t worker);
    static MatmulTask row_task(const CpuMatmul& matmul, const Activations& activations, const Operand& output,
                               const Rectangle& rectangle);
    static PanelTask panel_task(const CpuMatmul& matmul, const Activations& activations, const Operand& output,
                                const Rectangle& rectangle);
    void multiply(const CpuMatmul& matmul, const Operand& input, const Operand& output, const Rectangle& rectangle);
    void multiply_float_tiles(const CpuMatmul& matmul, const Operand& output, const Rectangle& rectangle,
                              std::size_t worker);
    void multiply_fast(const CpuMatmul& matmul, const Operand& input, const Operand& output,
                       const Rectangle& rectangle);
    std::size_t prologue_tokens(const Phase& phase) const;  // of one item
    void make_fast_tile(const Operands& values, std::size_t row, std::size_t tokens) const;
    void make_float_tiles(const CpuStep& step, std::size_t first_token, std::size_t tokens);
    std::size_t tokens_at_once(const Phase& phase) const;  // that pass over some weights together
    std::size_t token_tiles(const Phase& phase) const;     // how often that is

    std::size_t unit_rows(const Phase& phase, const Segment& segment) const;
    Operand operand(Handle value, bool private_values, std::size_t worker) const;
    Operands operands(const Node& node, bool private_values, std::size_t worker) const;

    CpuProgram program_;
    const Kernels* kernels_;
    CpuPools pools_;
    ThreadPool* pool_;    // of the pass that runs, or ran last
    Reservation memory_;  // of the workers
    Reservation float_tiles_;
    Reservation handed_on_;  // two places: a step may read one and write the other
    std::vector<Worker> workers_;
    std::vector<Phase> phases_;
    std::vector<std::size_t> items_;  // by phase
    std::vector<Cut> cuts_;           // of all phases
    std::vector<RowTile> row_tiles_;
    bool only_prompts_ = false;        // every sequence of the batch has rows enough to be fast
    std::size_t attention_parts_ = 1;  // of a unit's past
    Reservation splits_;               // what parts leave, by unit and block
    std::size_t splits_per_unit_ = 0;  // floats
    std::unique_ptr<std::atomic<std::uint32_t>[]> parts_done_;  // by unit: whoever does the last one merges
    WorkerChoice choice_;                                       // for steps of one token
    std::uint64_t phases_run_ = 0;  // since the beginning: numbers phases without ever repeating one
};

}  // namespace hearth
