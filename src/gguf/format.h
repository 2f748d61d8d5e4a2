// Facts of the GGUF format shared by the reader and the writer: numbers, limits, element sizes. Private to this room.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "gguf/gguf.h"

namespace hearth::gguf_format {

static_assert(std::endian::native == std::endian::little, "GGUF files are read in place, as little endian");
static_assert(sizeof(std::size_t) == 8, "offsets and sizes of model files need 64 bits");

inline constexpr std::string_view kMagic = "GGUF";
inline constexpr std::uint32_t kNewestVersion = 3;
inline constexpr std::uint64_t kDefaultAlignment = 32;
// The format asks for a multiple of 8: with less, f32 weights could not be read in place.
inline constexpr std::uint64_t kSmallestAlignment = 8;
inline constexpr std::uint64_t kLargestAlignment = 65536;
inline constexpr std::size_t kNameLimitBytes = 256;
inline constexpr std::size_t kDimensionLimit = 4;

inline constexpr std::string_view kAlignmentKey = "general.alignment";
inline constexpr std::string_view kSplitNumberKey = "split.no";
inline constexpr std::string_view kSplitCountKey = "split.count";
inline constexpr std::string_view kSplitTensorsKey = "split.tensors.count";

// The smallest encoding of an entry: what a claimed count of entries must leave room for.
inline constexpr std::size_t kSmallestKeyBytes = 8 + 1 + 4 + 1;             // key, type, one-byte value
inline constexpr std::size_t kSmallestTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // name, rank, one extent, type, offset

// Bytes of one value of a fixed-size type; 0 for strings and arrays.
constexpr std::size_t element_bytes(GgufType type) {
    switch (type) {
        case GgufType::U8:
        case GgufType::I8:
        case GgufType::Bool: return 1;
        case GgufType::U16:
        case GgufType::I16: return 2;
        case GgufType::U32:
        case GgufType::I32:
        case GgufType::F32: return 4;
        case GgufType::U64:
        case GgufType::I64:
        case GgufType::F64: return 8;
        case GgufType::String:
        case GgufType::Array: return 0;
    }
    return 0;
}

// Values in a file lie at any address.
template <typename T>
T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

constexpr std::uint64_t align_up(std::uint64_t offset, std::uint64_t alignment) {
    return (offset + alignment - 1) & ~(alignment - 1);
}

// What is wrong with a key or tensor name (it may be printed as it is, in one line), or null.
const char* name_fault(std::string_view name);

// Calls visit(index, string) for each element of an array of strings that the reader has proven.
template <typename Visit>
void for_each_string(const GgufValue& value, Visit visit) {
    const std::byte* at = value.data.data();
    for (std::uint64_t i = 0; i < value.count; ++i) {
        const std::size_t length = static_cast<std::size_t>(load<std::uint64_t>(at));
        if (!visit(i, std::string_view(reinterpret_cast<const char*>(at + 8), length))) return;
        at += 8 + length;
    }
}

// Element `index` of a scalar or array of integers. A u64 past the largest i64 is `huge`: it fits no accessor.
struct Integer {
    std::int64_t value = 0;
    bool huge = false;
};
std::optional<Integer> integer_at(const GgufValue& value, std::uint64_t index);  // nullopt: not integers

}  // namespace hearth::gguf_format
