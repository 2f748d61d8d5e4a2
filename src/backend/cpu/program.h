// A plan made ready for this CPU: which rows of which weights belong together, where packed weights lie, and what each
// worker keeps for itself. Made once; replaying it allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/operations.h"
#include "backend/cpu/packed_weights.h"
#include "base/memory.h"

namespace hearth {

// Something done to the columns a segment makes.
struct EpilogueNode {
    const Node* node = nullptr;
    StorePart part = StorePart::Both;
};

// Weight rows that are cut the same way: one matmul, or the two of a gate.
struct Segment {
    std::size_t first_matmul = 0;  // of the step
    std::size_t matmuls = 1;
    std::size_t rows = 0;
    std::size_t alignment = 1;  // rows of a cut are a multiple of this: panels, heads, chunks of logits
    std::vector<EpilogueNode> epilogue = {};
    bool makes_next = false;  // what the step's quantizes_next reads
};

struct CpuMatmul {
    const Node* node = nullptr;
    TensorView weight;
    const PackedMatrix* packed = nullptr;  // null: the rows as the file has them

    std::span<const std::byte> bytes(std::size_t first_row, std::size_t rows) const;  // of some rows, whole panels
};

// How the activations of a matmul step lie.
enum class Arrangement {
    Rows,
    Tiles,       // of the panel kernels, from Kernels::tiles_from tokens on
    FastTiles,   // of Kernels::fast
    FloatTiles,  // of Kernels::float_tiles
};

struct CpuStep {
    StepKind kind = StepKind::Rows;
    RowCount rows = RowCount::Batch;
    std::span<const Node> prologue;
    std::span<const Node> nodes;  // Rows and Attend: all of them
    std::vector<CpuMatmul> matmuls;
    std::vector<Segment> segments;
    Arrangement arrangement = Arrangement::Rows;  // of several tokens; float tiles only of many
    bool can_be_fast = false;                     // prompts may have fast tiles instead
    // The Quantize of the next step, if that is its whole prologue and reads what this step makes: whoever has made
    // some columns can quantise them at once.
    const Node* quantizes_next = nullptr;
};

struct CpuProgram {
    const Plan* plan = nullptr;
    std::vector<CpuStep> steps = {};
    // What a prologue makes lies with each worker when it is computed by each: the place of a value in that memory.
    static constexpr std::size_t kShared = ~std::size_t{0};
    std::vector<std::size_t> private_offset = {};  // by ephemeral index; kShared: in the plan's buffer alone
    std::size_t private_bytes = 0;                 // of one worker
    std::size_t scratch_bytes = 0;                 // of one worker, for a while: what makes a tile or multiplies it
    std::size_t float_tiles_bytes = 0;             // the activations of a step with float tiles
    std::size_t handed_on_bytes = 0;               // what one step quantises for the next; two in turn

    std::size_t worker_bytes() const { return private_bytes + scratch_bytes; }  // of one
    std::size_t working_bytes(std::size_t workers) const {
        return workers * worker_bytes() + float_tiles_bytes + 2 * handed_on_bytes;
    }
};

// Rows a prologue is computed for by every worker on its own: one tile costs less than a barrier and a cold cache. With
// many workers fewer: each has to fetch the rows from the caches of all others.
inline constexpr std::size_t kPrivateRows = 4;
inline constexpr std::size_t kPrivateRowsOfMany = 2;
inline constexpr std::size_t kManyWorkers = 8;

// Rows up to which the weights are read once and nothing has to stay anywhere.
inline constexpr std::size_t kFewRows = 16;

// Rows every sequence of a step must have for it to be fast: never one that decodes.
inline constexpr std::size_t kFastRows = 32;

CpuProgram make_program(const Plan& plan, const Kernels& kernels, const PackedWeights& packed,
                        Prefill prefill = Prefill::Exact);

}  // namespace hearth
