#include "sampling/exponential_sums.h"

#include "sampling/exponential.h"

namespace hearth {

namespace {

constexpr std::size_t kLanes = 8;  // of the double sum: element i belongs to lane i % 8, in a chunk and in the row

struct LaneSums {
    Double2 pairs[kLanes / 2] = {};

    void add(const float* values, double highest) {
        for (std::size_t k = 0; k < kLanes / 2; ++k) {
            const Double2 pair = {static_cast<double>(values[2 * k]), static_cast<double>(values[2 * k + 1])};
            pairs[k] += exponential(pair - highest);
        }
    }
    double total(const float* tail, std::size_t tail_size, double highest) const {
        double sums[kLanes];
        for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] = pairs[lane / 2][lane % 2];
        for (std::size_t lane = 0; lane < tail_size; ++lane) {
            sums[lane] += exponential(static_cast<double>(tail[lane]) - highest);
        }
        return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
    }
};

using Float4 = float __attribute__((vector_size(16)));
using Word4 = std::uint32_t __attribute__((vector_size(16)));

// e^x for x <= 0 to three units in the last place of a float; what is below -87 counts as -87.
[[gnu::always_inline]] inline Float4 exponential(Float4 x) {
    constexpr float kInverseLn2 = 0x1.715476p+0f;
    constexpr float kLn2High = 0x1.62ep-1f;  // 12 bits: n times it is exact
    constexpr float kLn2Low = 0x1.0bfbe8p-15f;
    constexpr float kRoundToInteger = 0x1.8p23f;  // adding it leaves the integer in the low bits
    const Float4 lowest = Float4{} - 87.0f;
    x = x < lowest ? lowest : x;
    const Float4 shifted = x * kInverseLn2 + kRoundToInteger;
    const Float4 n = shifted - kRoundToInteger;
    const Float4 r = (x - n * kLn2High) - n * kLn2Low;
    Float4 p = Float4{} + 0x1.6d981cp-10f;
    p = p * r + 0x1.123e14p-7f;
    p = p * r + 0x1.55547ep-5f;
    p = p * r + 0x1.55548ap-3f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return std::bit_cast<Float4>(std::bit_cast<Word4>(p) + (std::bit_cast<Word4>(shifted) << 23));
}

// Sixty-four values to four partial sums.
Float4 chunk_sums(const float* values, float highest) {
    Float4 sums[4] = {};
    for (std::size_t i = 0; i < kLogitChunk; i += 16) {
        for (std::size_t k = 0; k < 4; ++k) {
            Float4 value;
            __builtin_memcpy(&value, values + i + 4 * k, sizeof value);
            sums[k] += exponential(value - highest);
        }
    }
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

}  // namespace

double sum_of_exponentials(const ChunkedLogits& row) {
    const double highest = static_cast<double>(row.highest());
    LaneSums sums;
    for (std::size_t c = 0; c < row.chunk_count(); ++c) {
        const std::span<const float> chunk = row.chunk(c);
        const std::size_t whole = chunk.size() / kLanes * kLanes;
        for (std::size_t i = 0; i < whole; i += kLanes) sums.add(chunk.data() + i, highest);
        // Only the last chunk can be short.
        if (whole < chunk.size()) return sums.total(chunk.data() + whole, chunk.size() - whole, highest);
    }
    return sums.total(nullptr, 0, highest);
}

double sum_of_exponentials_fast(std::span<const float> logits, float highest) {
    double sums[4] = {};
    const auto add = [&](Float4 chunk) {
        for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += static_cast<double>(chunk[lane]);
    };
    std::size_t i = 0;
    for (; i + kLogitChunk <= logits.size(); i += kLogitChunk) add(chunk_sums(logits.data() + i, highest));
    double rest = 0.0;
    for (; i < logits.size(); ++i) {
        rest += exponential(static_cast<double>(logits[i]) - static_cast<double>(highest));
    }
    return ((sums[0] + sums[2]) + (sums[1] + sums[3])) + rest;
}

void exponentials(const float* values, std::size_t stride, std::size_t count, float highest, double inverse_temperature,
                  double* weights) {
    const double top = static_cast<double>(highest);
    std::size_t i = 0;
    for (; i + 2 <= count; i += 2) {
        const Double2 pair = {static_cast<double>(values[i * stride]), static_cast<double>(values[(i + 1) * stride])};
        const Double2 weight = exponential((pair - top) * inverse_temperature);
        weights[i] = weight[0];
        weights[i + 1] = weight[1];
    }
    if (i < count) weights[i] = exponential((static_cast<double>(values[i * stride]) - top) * inverse_temperature);
}

}  // namespace hearth
