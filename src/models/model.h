// A model as its file describes it: hyperparameters and the graph of its forward pass. One file per family beside this
// one; a family is found in the registry by the name the file gives in general.architecture.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gguf/gguf.h"
#include "graph/graph.h"

namespace hearth {

struct ModelInfo {
    std::string architecture;
    std::size_t layers = 0;
    std::size_t dim = 0;
    std::size_t heads = 0;
    std::size_t kv_heads = 0;
    std::size_t head_dim = 0;
    std::size_t ffn_dim = 0;
    std::size_t vocabulary = 0;
    std::size_t trained_context = 0;  // positions the model was made for
    std::size_t context = 0;          // positions the graph was built for

    KvLayout kv_layout(KvType type = KvType::F16) const { return KvLayout{layers, kv_heads, head_dim, type}; }
};

inline constexpr std::size_t kDefaultContext = 8192;  // at most, when no context is asked for

// What a family is asked for.
struct BuildRequest {
    std::size_t context = 0;  // positions used at most; some ropes depend on it. 0: the trained ones, at most 8192
};

// Reads and checks the hyperparameters, finds every tensor (an absent or misshapen one is an error naming it), writes
// the forward pass into `graph`. The graph refers to the file's bytes: the file must outlive it.
Result<ModelInfo> build_model(const GgufFile& file, const BuildRequest& request, Graph& graph);

// The architectures known, for errors and --help.
std::span<const std::string_view> known_architectures();

}  // namespace hearth
