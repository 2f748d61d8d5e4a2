// The tensors of a model, found by name and put on the graph's constant shelf. It keeps account of what was taken: a
// tensor of a layer that nobody asked for means the file holds another model than the one being built.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "graph/graph.h"

namespace hearth {

class Weights {
public:
    Weights(const GgufFile& file, Graph& graph) : file_(&file), graph_(&graph) {}

    const GgufFile& file() const { return *file_; }
    bool contains(std::string_view name) const { return file_->find_tensor(name) != nullptr; }

    // A matrix of any type that maps `columns` inputs to `rows` outputs.
    Result<TensorView> view(const std::string& name, std::size_t columns, std::size_t rows);
    Result<Handle> matrix(const std::string& name, std::size_t columns, std::size_t rows);
    // Norm weights and biases: f32, because kernels read them as they stand.
    Result<Handle> vector(const std::string& name, std::size_t elements);
    // Numbers that are needed while the graph is built.
    Result<std::vector<float>> floats(const std::string& name, std::size_t elements);

    // NAME.weight * x, plus NAME.bias when the file has one.
    Result<Handle> linear(Handle x, const std::string& name, std::size_t columns, std::size_t rows);

    // The projection to the vocabulary; models with tied embeddings have none of their own and use the table.
    Result<Handle> output(Handle embedding, std::size_t dim, std::size_t vocabulary);

    // Call when the graph is complete. Refuses tensors of the first `layers` layers that were not taken.
    Status refuse_untaken(std::size_t layers) const;

private:
    Result<TensorView> f32(const std::string& name, std::size_t elements);

    const GgufFile* file_;  // outlives the graph, by build_model's contract
    Graph* graph_;
    std::set<std::string, std::less<>> taken_;
};

// "blk.3.attn_norm.weight"
std::string layer_tensor(std::size_t layer, std::string_view name);

}  // namespace hearth
