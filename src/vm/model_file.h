// Model files: our own (sparse rows of integers) and upstream's model.bin (dense doubles), read with bounded memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "vm/model.h"

namespace hearth::vm {

std::vector<std::byte> write_model(const Model& model);
// Every slot named is checked; heads are classified anew from their weights, never taken on trust.
Result<Model> read_model(std::span<const std::byte> bytes);
bool is_model_file(std::span<const std::byte> bytes);

// Upstream's file: V, D, L, H, F, the spellings, and dense matrices.
struct UpstreamModel {
    std::uint32_t vocabulary = 0, width = 0, layers = 0, heads = 0, neurons = 0;
    std::int32_t stop = 0;
    std::vector<std::string> spellings;
    std::vector<double> embedding;  // [vocabulary][width]
    struct Layer {
        std::vector<double> qkv;      // [3 width][width]
        std::vector<double> out;      // [width][width]
        std::vector<double> ffn_in;   // [2 neurons][width]
        std::vector<double> ffn_out;  // [width][neurons]
    };
    std::vector<Layer> layer;
    std::vector<double> head;             // [vocabulary][width]
    std::vector<std::int32_t> tie_break;  // [layers][heads]: 1 latest, 0 average; empty when absent
    std::vector<std::int32_t> head_type;  // [layers][heads]; empty when absent
    std::size_t non_zero() const;         // of all projections
};
Result<UpstreamModel> read_upstream(std::span<const std::byte> bytes);

}  // namespace hearth::vm
