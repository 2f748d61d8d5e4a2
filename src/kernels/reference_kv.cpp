// Rows of the KV cache to their quantised types and back. Quantising is the same function at every level; widening is
// what the ISA files do again with vectors.
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/reference.h"

namespace hearth {

namespace {

constexpr std::uint16_t kNanHalf = 0x7e00;
constexpr std::uint16_t kInfiniteHalf = 0x7c00;
constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding it leaves a whole number, the nearest even one

// The half next to a magnitude and not below it, so that nothing divided by it needs clamping. NaN where there is none.
Half half_above(float magnitude) {
    Half half = to_half(magnitude);
    if (to_float(half) < magnitude) ++half.bits;
    return half.bits < kInfiniteHalf ? half : Half{kNanHalf};
}

// Scale of a group whose values are to lie within [-limit, limit]; NaN when one of them is not finite.
Half group_scale(const float* x, std::size_t n, float limit) {
    std::uint32_t largest = 0;  // |x| ordered as integers: a NaN is larger than everything
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu;
        if (magnitude > largest) largest = magnitude;
    }
    if (largest >= 0x7f800000u) return Half{kNanHalf};
    return half_above(std::bit_cast<float>(largest) / limit);
}

float inverse_of(Half scale) {
    const float value = to_float(scale);
    return std::isnan(value) || value == 0.0f ? 0.0f : 1.0f / value;
}

int nearest(float x) {
    return static_cast<int>((x + kRounder) - kRounder);
}

void quantize_q8(const float* x, std::size_t n, std::byte* out) {
    const Half scale = group_scale(x, n, 127.0f);
    std::memcpy(out, &scale, sizeof scale);
    out += sizeof scale;
    const float inverse = inverse_of(scale);
    if (inverse == 0.0f) {
        std::memset(out, 0, n);
        return;
    }
    auto* q = reinterpret_cast<std::int8_t*>(out);
    for (std::size_t i = 0; i < n; ++i) q[i] = static_cast<std::int8_t>(nearest(x[i] * inverse));
}

// The value that is largest in magnitude becomes -8, which +8 cannot: the scale has the opposite sign. With both signs
// at the largest magnitude it is the positive one.
void quantize_q4(const float* x, std::size_t n, std::byte* out) {
    Half scale = group_scale(x, n, 8.0f);
    const float inverse_magnitude = inverse_of(scale);
    float highest = x[0];
    float lowest = x[0];
    for (std::size_t i = 1; i < n; ++i) {
        highest = x[i] > highest ? x[i] : highest;
        lowest = x[i] < lowest ? x[i] : lowest;
    }
    const bool negative = inverse_magnitude != 0.0f && highest >= -lowest;
    if (negative) scale.bits |= 0x8000u;
    std::memcpy(out, &scale, sizeof scale);
    out += sizeof scale;
    const float inverse = negative ? -inverse_magnitude : inverse_magnitude;
    std::uint8_t q[kKvGroup];
    for (std::size_t i = 0; i < n; ++i) {
        const int level = inverse == 0.0f ? 0 : nearest(x[i] * inverse);
        q[i] = static_cast<std::uint8_t>((level > 7 ? 7 : level) + 8);
    }
    const std::size_t half = (n + 1) / 2;
    for (std::size_t i = 0; i < half; ++i) {
        const int high = i + half < n ? q[i + half] : 8;
        out[i] = static_cast<std::byte>(q[i] | high << 4);
    }
}

void quantize(KvType type, const float* x, std::size_t head_dim, std::byte* out) {
    const auto group = type == KvType::Q8 ? quantize_q8 : quantize_q4;
    for (std::size_t begin = 0; begin < head_dim; begin += kKvGroup) {
        const std::size_t n = head_dim - begin < kKvGroup ? head_dim - begin : kKvGroup;
        group(x + begin, n, out);
        out += kv_group_bytes(type, n);
    }
}

// Value i of a group of n, whose numbers begin at `q`.
int level_of(KvType type, const std::byte* q, std::size_t n, std::size_t i) {
    if (type == KvType::Q8) return static_cast<std::int8_t>(q[i]);
    const std::size_t half = (n + 1) / 2;
    return (i < half ? static_cast<int>(q[i]) & 15 : static_cast<int>(q[i - half]) >> 4) - 8;
}

}  // namespace

void reference_widen_kv(const KvWidenTask& task) {
    const std::byte* group = task.rows;
    Half* out = task.out;
    for (std::size_t row = 0; row < task.row_count; ++row) {
        for (std::size_t begin = 0; begin < task.head_dim; begin += kKvGroup) {
            const std::size_t n = task.head_dim - begin < kKvGroup ? task.head_dim - begin : kKvGroup;
            Half scale;
            std::memcpy(&scale, group, sizeof scale);
            for (std::size_t i = 0; i < n; ++i) {
                const int level = level_of(task.type, group + sizeof scale, n, i);
                *out++ = to_half(to_float(scale) * static_cast<float>(level));
            }
            group += kv_group_bytes(task.type, n);
        }
    }
}

void install_reference_kv(Kernels& table) {
    table.quantize_kv = quantize;
    table.widen_kv = reference_widen_kv;
}

}  // namespace hearth
