// encode_row: checks what came in, then hands block after block to its quantiser. The result depends on the values
// alone.
#include "tensor/codec_encode.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "base/check.h"
#include "tensor/codec.h"
#include "tensor/codec_fit.h"

namespace hearth {

namespace {

// The largest magnitude a type can hold without becoming infinite or saturating.
float limit_of(DType type) {
    if (type == DType::F32) return std::numeric_limits<float>::max();
    if (type == DType::BF16) return 0x1.fep127f;
    return codec::kHalfMax;
}

Status check_values(DType type, std::span<const float> in) {
    const float limit = limit_of(type);
    for (std::size_t i = 0; i < in.size(); ++i) {
        if (std::fabs(in[i]) <= limit) continue;
        const std::string element = "element " + std::to_string(i);
        if (!std::isfinite(in[i])) {
            return Error{ErrorCode::InvalidModel, element + (std::isnan(in[i]) ? " is not a number" : " is infinite")};
        }
        return Error{ErrorCode::InvalidModel, element + " is too large for " + std::string(traits(type).name)};
    }
    return {};
}

Status check_importance(std::span<const float> importance) {
    for (std::size_t i = 0; i < importance.size(); ++i) {
        if (std::isfinite(importance[i]) && importance[i] >= 0.0f) continue;
        return Error{ErrorCode::InvalidModel,
                     "importance of element " + std::to_string(i) + " is negative or not a finite number"};
    }
    return {};
}

// The weights of one block, at most 1 so that sums cannot overflow; all 1 where nothing is known or all are zero.
void load_weights(std::span<const float> importance, std::size_t at, std::span<float> weights) {
    float most = 0.0f;
    if (!importance.empty()) {
        for (std::size_t i = 0; i < weights.size(); ++i) most = std::max(most, importance[at + i]);
    }
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = most > 0.0f ? importance[at + i] / most : 1.0f;
}

template <typename Block, std::size_t Elements>
void encode_blocks(std::span<const float> in, std::span<const float> importance, std::byte* row) {
    float weights[Elements];
    for (std::size_t at = 0; at < in.size(); at += Elements, row += sizeof(Block)) {
        load_weights(importance, at, weights);
        Block block;
        codec::encode(in.data() + at, weights, block);
        std::memcpy(row, &block, sizeof(Block));
    }
}

template <auto Convert>
void encode_elements(std::span<const float> in, std::byte* row) {
    for (std::size_t i = 0; i < in.size(); ++i) {
        const auto element = Convert(in[i]);
        std::memcpy(row + i * sizeof element, &element, sizeof element);
    }
}

}  // namespace

bool can_encode(DType type) {
    switch (type) {
        case DType::F32:
        case DType::F16:
        case DType::BF16:
        case DType::Q4_0:
        case DType::Q4_1:
        case DType::Q5_0:
        case DType::Q5_1:
        case DType::Q8_0:
        case DType::Q4_K:
        case DType::Q5_K:
        case DType::Q6_K: return true;
        default: return false;
    }
}

Status encode_row(DType type, std::span<const float> in, std::span<const float> importance, std::byte* row) {
    CHECK(can_encode(type));
    CHECK(in.size() % traits(type).block_elements == 0);
    CHECK(importance.empty() || importance.size() == in.size());
    TRY(check_values(type, in));
    TRY(check_importance(importance));
    if (in.empty()) return {};
    switch (type) {
        case DType::F32: std::memcpy(row, in.data(), in.size_bytes()); break;
        case DType::F16: encode_elements<to_half>(in, row); break;
        case DType::BF16: encode_elements<to_bfloat16>(in, row); break;
        case DType::Q4_0: encode_blocks<BlockQ4_0, kBlock32>(in, importance, row); break;
        case DType::Q4_1: encode_blocks<BlockQ4_1, kBlock32>(in, importance, row); break;
        case DType::Q5_0: encode_blocks<BlockQ5_0, kBlock32>(in, importance, row); break;
        case DType::Q5_1: encode_blocks<BlockQ5_1, kBlock32>(in, importance, row); break;
        case DType::Q8_0: encode_blocks<BlockQ8_0, kBlock32>(in, importance, row); break;
        case DType::Q4_K: encode_blocks<BlockQ4_K, kBlock256>(in, importance, row); break;
        case DType::Q5_K: encode_blocks<BlockQ5_K, kBlock256>(in, importance, row); break;
        case DType::Q6_K: encode_blocks<BlockQ6_K, kBlock256>(in, importance, row); break;
        default: CHECK(false);
    }
    return {};
}

}  // namespace hearth
