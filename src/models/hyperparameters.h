// The hyperparameters every family shares, read from the file and held to sane ranges before anything is sized by them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gguf/gguf.h"
#include "models/model.h"

namespace hearth {

struct Hyperparameters {
    std::string architecture;
    std::size_t layers = 0;
    std::size_t dim = 0;
    std::size_t heads = 0;
    std::size_t kv_heads = 0;
    std::size_t head_dim = 0;
    std::size_t rotated = 0;  // leading elements of a head that the rope turns; even, at most head_dim
    std::size_t ffn_dim = 0;
    std::size_t vocabulary = 0;
    std::size_t trained_context = 0;
    std::size_t context = 0;  // positions that will be used
    std::size_t window = 0;   // sliding window of attention; 0: none
    float norm_eps = 0;
    float rope_base = 0;
    float attention_scale = 0;

    std::size_t query_dim() const { return heads * head_dim; }
    std::size_t kv_dim() const { return kv_heads * head_dim; }
    AttentionShape attention(std::size_t layer_window) const {
        return AttentionShape{heads, kv_heads, head_dim, attention_scale, layer_window};
    }
    ModelInfo info() const;
};

// An error names the key that is absent, out of range or at odds with another.
Result<Hyperparameters> read_hyperparameters(const GgufFile& file, const BuildRequest& request);

// "ARCHITECTURE.suffix", the key under which a family keeps a value of its own.
std::string family_key(std::string_view architecture, std::string_view suffix);

Error model_error(const GgufFile& file, std::string_view message);  // InvalidModel, with the file's name before it

// An optional float that must be greater than 0 where it is present.
Result<float> positive_or(const GgufFile& file, const std::string& key, float fallback);

}  // namespace hearth
