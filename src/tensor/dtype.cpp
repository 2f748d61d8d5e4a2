#include "tensor/dtype.h"

#include <array>

#include "base/check.h"
#include "tensor/blocks.h"

namespace hearth {

namespace {

using enum ActivationFormat;

constexpr std::array kTraits = {
    DTypeTraits{DType::F32, "F32", 1, 4, F32},
    DTypeTraits{DType::F16, "F16", 1, 2, F32},
    DTypeTraits{DType::Q4_0, "Q4_0", 32, sizeof(BlockQ4_0), Q8x32},
    DTypeTraits{DType::Q4_1, "Q4_1", 32, sizeof(BlockQ4_1), Q8x32},
    DTypeTraits{DType::Q5_0, "Q5_0", 32, sizeof(BlockQ5_0), Q8x32},
    DTypeTraits{DType::Q5_1, "Q5_1", 32, sizeof(BlockQ5_1), Q8x32},
    DTypeTraits{DType::Q8_0, "Q8_0", 32, sizeof(BlockQ8_0), Q8x32},
    DTypeTraits{DType::Q2_K, "Q2_K", 256, sizeof(BlockQ2_K), Q8x256},
    DTypeTraits{DType::Q3_K, "Q3_K", 256, sizeof(BlockQ3_K), Q8x256},
    DTypeTraits{DType::Q4_K, "Q4_K", 256, sizeof(BlockQ4_K), Q8x256},
    DTypeTraits{DType::Q5_K, "Q5_K", 256, sizeof(BlockQ5_K), Q8x256},
    DTypeTraits{DType::Q6_K, "Q6_K", 256, sizeof(BlockQ6_K), Q8x256},
    DTypeTraits{DType::IQ4_NL, "IQ4_NL", 32, sizeof(BlockIQ4_NL), Q8x32},
    DTypeTraits{DType::IQ4_XS, "IQ4_XS", 256, sizeof(BlockIQ4_XS), Q8x256},
    DTypeTraits{DType::BF16, "BF16", 1, 2, F32},
    DTypeTraits{DType::TQ1_0, "TQ1_0", 256, sizeof(BlockTQ1_0), Q8x256},
    DTypeTraits{DType::TQ2_0, "TQ2_0", 256, sizeof(BlockTQ2_0), Q8x256},
    DTypeTraits{DType::MXFP4, "MXFP4", 32, sizeof(BlockMXFP4), Q8x32},
};

constexpr std::array<std::int8_t, kDTypeLimit> make_index() {
    std::array<std::int8_t, kDTypeLimit> index{};
    index.fill(-1);
    for (std::size_t i = 0; i < kTraits.size(); ++i) {
        index[static_cast<std::size_t>(kTraits[i].type)] = static_cast<std::int8_t>(i);
    }
    return index;
}
constexpr std::array<std::int8_t, kDTypeLimit> kIndex = make_index();

}  // namespace

const DTypeTraits& traits(DType type) {
    const std::int8_t index = kIndex[static_cast<std::size_t>(type)];
    CHECK(index >= 0);
    return kTraits[static_cast<std::size_t>(index)];
}

std::optional<DType> dtype_from_gguf(std::uint32_t number) {
    if (number >= kDTypeLimit || kIndex[number] < 0) return std::nullopt;
    return static_cast<DType>(number);
}

std::size_t activation_row_bytes(ActivationFormat format, std::size_t elements) {
    switch (format) {
        case F32: return elements * sizeof(float);
        case Q8x32: return elements / kBlock32 * sizeof(ActivationBlock32);
        case Q8x256: return elements / kBlock256 * sizeof(ActivationBlock256);
    }
    CHECK(false);
    return 0;
}

}  // namespace hearth
