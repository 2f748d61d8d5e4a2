// What attention has to agree on everywhere: the geometry of a KV block and the pairing of a rotary embedding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/half.h"

namespace hearth {

inline constexpr std::size_t kKvBlockTokens = 64;  // positions in a KV block, and in one split of attention

enum class RopeStyle : std::uint8_t {
    Adjacent,  // pairs (2i, 2i+1): Llama's GGUF files
    Halves,    // pairs (i, i + rotated/2): NeoX, Qwen, Gemma, Phi
};

// What K and V are kept as. The quantised types are groups of kKvGroup values, the last one of a row perhaps shorter:
// a scale in f16, then signed bytes (Q8) or, byte i of a group of n, value i in the low nibble and value i + ceil(n /
// 2) in the high one, both 8 too large (Q4). A value is scale * q, rounded to f16.
enum class KvType : std::uint8_t { F16, Q8, Q4 };

inline constexpr std::size_t kKvGroup = 32;

// Bytes of a group of n values.
constexpr std::size_t kv_group_bytes(KvType type, std::size_t n) {
    if (type == KvType::F16) return n * sizeof(Half);
    return sizeof(Half) + (type == KvType::Q8 ? n : (n + 1) / 2);
}

// Bytes of one head's K (or V) at one position.
constexpr std::size_t kv_row_bytes(KvType type, std::size_t head_dim) {
    const std::size_t rest = head_dim % kKvGroup;
    return head_dim / kKvGroup * kv_group_bytes(type, kKvGroup) + (rest == 0 ? 0 : kv_group_bytes(type, rest));
}

constexpr std::string_view kv_type_name(KvType type) {
    return type == KvType::F16 ? "f16" : type == KvType::Q8 ? "q8" : "q4";
}

// One block holds kKvBlockTokens positions of every layer: [layer][K, V][kv head][position] of rows.
struct KvLayout {
    std::size_t layers = 0;
    std::size_t kv_heads = 0;
    std::size_t head_dim = 0;
    KvType type = KvType::F16;

    std::size_t position_bytes() const { return kv_row_bytes(type, head_dim); }  // of one head's K (or V)
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
