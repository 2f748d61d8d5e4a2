// One GGUF file, parsed and proven: the single place where its bytes are believed. Private to this room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"

namespace hearth {

// Finds names in logarithmic time. Sorted rather than hashed: no choice of names can make it slow.
class NameIndex {
public:
    static constexpr std::size_t kAbsent = ~std::size_t{0};

    // Returns the position of the later of two equal names, or kAbsent when all differ.
    std::size_t build(std::vector<std::string_view> names);
    std::size_t find(std::string_view name) const;

private:
    struct Entry {
        std::string_view name;
        std::size_t position;
    };
    std::vector<Entry> entries_;
};

struct GgufPart {
    // `bytes` must outlive the part; `name` stands for the path in errors.
    static Result<GgufPart> parse(std::span<const std::byte> bytes, const std::string& name);

    const GgufValue* find(std::string_view key) const;
    // Where in the file a view into it lies.
    std::uint64_t offset_of(const void* inside) const {
        return static_cast<std::uint64_t>(static_cast<const std::byte*>(inside) - bytes.data());
    }

    std::span<const std::byte> bytes;
    std::uint32_t version = 0;
    std::uint64_t alignment = 0;
    std::vector<std::string_view> keys;
    std::vector<GgufValue> values;  // one per key
    NameIndex key_index;
    std::vector<GgufTensor> tensors;
};

}  // namespace hearth
