// The element types of tensors and their blocks, numbered as in GGUF files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace hearth {

enum class DType : std::uint8_t {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q2_K = 10,
    Q3_K = 11,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    IQ4_NL = 20,
    IQ4_XS = 23,
    BF16 = 30,
    TQ1_0 = 34,
    TQ2_0 = 35,
    MXFP4 = 39,
};

inline constexpr std::size_t kDTypeLimit = 40;  // one past the largest value: the size of a table indexed by DType

// How a matmul with weights of a type wants its activations (DESIGN: quantised once per consumer group).
enum class ActivationFormat : std::uint8_t { F32, Q8x32, Q8x256 };

struct DTypeTraits {
    DType type;
    std::string_view name;        // as people write it: "Q4_K"
    std::size_t block_elements;   // elements per block
    std::size_t block_bytes;      // bytes per block
    ActivationFormat activation;  // what its matmul consumes
};

// Every supported type, in ascending GGUF number.
const DTypeTraits& traits(DType type);
std::optional<DType> dtype_from_gguf(std::uint32_t number);

// Bytes of one row of `elements`; `elements` is a multiple of the block size.
inline std::size_t row_bytes(DType type, std::size_t elements) {
    const DTypeTraits& t = traits(type);
    return elements / t.block_elements * t.block_bytes;
}

// Bytes of one activation row of `elements` in `format`.
std::size_t activation_row_bytes(ActivationFormat format, std::size_t elements);

}  // namespace hearth
