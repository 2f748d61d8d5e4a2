// Weights in panels, as this CPU's kernels like them best: a copy in memory, or a file kept beside the model cache that
// the next start maps and all processes share. A model works without it, only slower.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/memory.h"
#include "base/result.h"
#include "graph/plan.h"
#include "kernels/kernels.h"
#include "machine/thread_pool.h"

namespace hearth {

// How the matmuls of prompts compute. Exact: the same bits whatever the batch. Fast: steps in which every sequence has
// many rows use coarser scales, so that where a prompt is cut can be seen in the last digits; decoding stays exact.
enum class Prefill : std::uint8_t { Exact, Fast };

struct PackJob;

bool is_quantised(const TensorView& weight);  // its matmuls read quantised activations

struct PackedMatrix {
    const std::byte* panels = nullptr;
    std::size_t panel_bytes = 0;
    std::size_t panel_rows = 0;
};

enum class PackMode : std::uint8_t {
    Auto,    // a file for large models when one can be written, else memory, else none
    Memory,  // never a file
    Off,     // kernels read the rows of the GGUF file
};

struct PackOptions {
    PackMode mode = PackMode::Memory;
    std::string file = {};             // where the packed file lies or will lie; empty: none
    std::uint64_t source = 0;          // identifies the model file's content: a file made from another one is stale
    std::string model = {};            // the model file's own path: where nothing is any more, its packed file goes too
    std::size_t memory_available = 0;  // bytes a copy may take; 0: no limit
    std::chrono::milliseconds patience = std::chrono::seconds(60);  // with another process that is making the file
    std::function<void(std::size_t done, std::size_t total)> progress = {};  // bytes; called by the caller's thread
    // Told of rows that have been packed and will hardly be read again; by several threads at once.
    std::function<void(std::span<const std::byte>)> release = {};
};

// What became of it, for people to read.
enum class PackOutcome : std::uint8_t { Unpacked, Memory, FileWritten, FileMapped };

struct PackedSize {
    std::size_t packed_bytes = 0;  // of the panels
    std::size_t source_bytes = 0;  // of the rows they are made of
};

class PackedWeights {
public:
    PackedWeights() = default;

    // What create() would make, when nothing stands in its way.
    static PackedSize planned_size(const Plan& plan, const Kernels& kernels);

    // Packs every matrix the plan multiplies with. Never fails: what cannot be packed is used as it is.
    static PackedWeights create(const Plan& plan, const Kernels& kernels, ThreadPool& pool, const PackOptions& options);

    // Null when this constant is not packed.
    const PackedMatrix* find(Handle constant) const;

    PackOutcome outcome() const { return outcome_; }
    const std::string& reason() const { return reason_; }  // why not the best outcome; empty when it is
    std::size_t size_bytes() const { return size_bytes_; }

private:
    void point_into(std::span<const PackJob> jobs, const std::byte* base);

    std::vector<PackedMatrix> matrices_;  // by constant index
    Reservation memory_;
    MappedFile file_;
    std::size_t size_bytes_ = 0;
    PackOutcome outcome_ = PackOutcome::Unpacked;
    std::string reason_;
};

}  // namespace hearth
