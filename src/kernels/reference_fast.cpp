#include "kernels/reference_fast.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace hearth {

namespace {

constexpr std::uint32_t kInfinityBits = 0x7f800000u;
constexpr std::uint32_t kSmallestBits = (127u - 100u) << 23;

std::uint32_t magnitude(float value) {  // ordered as |value|, a NaN above everything
    return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
}

}  // namespace

FastWeights round_weights(const LinearWeights& group) {
    FastWeights out;
    const float code = static_cast<float>(group.largest_code);
    std::uint32_t reach = 0;
    for (std::size_t j = 0; j < group.columns / 16; ++j) {
        if (group.has_minimum) {
            reach = std::max(reach, magnitude(group.minimum[j]));
            reach = std::max(reach, magnitude(std::fma(group.scale[j], code, group.minimum[j])));
        } else {
            reach = std::max(reach, magnitude(group.scale[j] * code));
        }
    }
    if (reach >= kInfinityBits) out.scale = std::numeric_limits<float>::quiet_NaN();
    if (reach >= kInfinityBits || reach < kSmallestBits) return out;
    out.scale = std::bit_cast<float>(reach) / 127.0f;
    const float inverse = 256.0f / out.scale;
    for (std::size_t i = 0; i < group.columns; ++i) {
        const auto b = static_cast<std::int32_t>(std::nearbyint(group.scale[i / 16] * inverse));
        const auto c = static_cast<std::int32_t>(std::nearbyint(group.minimum[i / 16] * inverse));
        out.q[i] = static_cast<std::int8_t>((group.q[i] * b + c + 128) >> 8);
    }
    return out;
}

float add_fast_product(const FastWeights& w, const ActivationBlock256& x, std::size_t columns, float accumulator) {
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < columns; ++i) sum += w.q[i] * x.q[i];
    return std::fma(static_cast<float>(sum), w.scale * x.scale, accumulator);
}

}  // namespace hearth
