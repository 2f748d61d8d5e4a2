// What attention has to agree on everywhere: the geometry of a KV block and the pairing of a rotary embedding.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/half.h"

namespace hearth {

inline constexpr std::size_t kKvBlockTokens = 64;  // positions in a KV block, and in one split of attention

enum class RopeStyle : std::uint8_t {
    Adjacent,  // pairs (2i, 2i+1): Llama's GGUF files
    Halves,    // pairs (i, i + rotated/2): NeoX, Qwen, Gemma, Phi
};

// One block holds kKvBlockTokens positions of every layer: [layer][K, V][kv head][position][head_dim] in f16.
struct KvLayout {
    std::size_t layers = 0;
    std::size_t kv_heads = 0;
    std::size_t head_dim = 0;

    std::size_t position_bytes() const { return head_dim * sizeof(Half); }  // of one head's K (or V) at one position
    std::size_t head_bytes() const { return kKvBlockTokens * position_bytes(); }
    std::size_t block_bytes() const { return layers * 2 * kv_heads * head_bytes(); }
    std::size_t key_offset(std::size_t layer, std::size_t kv_head) const {
        return (layer * 2 * kv_heads + kv_head) * head_bytes();
    }
    std::size_t value_offset(std::size_t layer, std::size_t kv_head) const {
        return ((layer * 2 + 1) * kv_heads + kv_head) * head_bytes();
    }
};

}  // namespace hearth
