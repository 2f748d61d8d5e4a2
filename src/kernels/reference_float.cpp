// Float operations: exp, float matmul, norms, gated activations, rope. Every fused multiply-add is written; sums that
// are long run in sixteen virtual lanes and end in one tree.
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/reference.h"

namespace hearth {

float sum_lanes(const float (&lanes)[kLanes]) {
    float sums[kLanes / 2];
    for (std::size_t i = 0; i < 8; ++i) sums[i] = lanes[i] + lanes[i + 8];
    for (std::size_t i = 0; i < 4; ++i) sums[i] = sums[i] + sums[i + 4];
    for (std::size_t i = 0; i < 2; ++i) sums[i] = sums[i] + sums[i + 2];
    return sums[0] + sums[1];
}

float exp_reference(float x) {
    if (std::isnan(x)) return x;
    if (x < -87.3f) return 0.0f;
    if (x > 88.7f) return std::numeric_limits<float>::infinity();
    // x = n * ln2 + r. The first part of ln2 has 12 bits, so n times it is exact.
    const float n = std::nearbyint(x * 0x1.715476p+0f);
    float r = std::fma(n, -0x1.62ep-1f, x);
    r = std::fma(n, -0x1.0bfbe8p-15f, r);
    // e^r = 1 + r + r^2 * q(r), |r| <= ln2 / 2; relative error of the polynomial 5e-9.
    float p = 0x1.6d981cp-10f;
    p = std::fma(p, r, 0x1.123e14p-7f);
    p = std::fma(p, r, 0x1.55547ep-5f);
    p = std::fma(p, r, 0x1.55548ap-3f);
    p = std::fma(p, r, 0.5f);
    p = std::fma(p, r, 1.0f);
    p = std::fma(p, r, 1.0f);
    // 2^n in two factors: n = 128 has no factor of its own.
    const auto whole = static_cast<std::int32_t>(n);
    const std::int32_t half = whole >> 1;
    const float first = std::bit_cast<float>(static_cast<std::uint32_t>(half + 127) << 23);
    const float second = std::bit_cast<float>(static_cast<std::uint32_t>(whole - half + 127) << 23);
    return (p * first) * second;
}

namespace {

template <typename Weight>
float weight_value(Weight w) {
    return to_float(w);
}
template <>
float weight_value<float>(float w) {
    return w;
}

// lane[k % 16] = fma(w, x, lane) in ascending k, then the tree.
template <typename Weight>
void matmul(const MatmulTask& task) {
    for (std::size_t t = 0; t < task.tokens; ++t) {
        const auto* x = reinterpret_cast<const float*>(task.activations + t * task.activation_row_bytes);
        for (std::size_t r = 0; r < task.rows; ++r) {
            const auto* w = reinterpret_cast<const Weight*>(task.weights + r * task.weight_row_bytes);
            float lanes[kLanes] = {};
            for (std::size_t k = 0; k < task.columns; ++k) {
                lanes[k % kLanes] = std::fma(weight_value(w[k]), x[k], lanes[k % kLanes]);
            }
            task.out[t * task.out_stride + r] = sum_lanes(lanes);
        }
    }
}

void rms_norm(const float* x, const float* weight, std::size_t n, float eps, float* out) {
    float lanes[kLanes] = {};
    for (std::size_t i = 0; i < n; ++i) lanes[i % kLanes] = std::fma(x[i], x[i], lanes[i % kLanes]);
    const float mean = sum_lanes(lanes) / static_cast<float>(n);
    const float inverse = 1.0f / std::sqrt(mean + eps);
    for (std::size_t i = 0; i < n; ++i) out[i] = (x[i] * inverse) * weight[i];
}

void add(const float* a, const float* b, std::size_t n, float* out) {
    for (std::size_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

// silu(g) = g * sigmoid(g) = g / (1 + e^-g)
void swiglu(const float* gate, const float* up, std::size_t n, float* out) {
    for (std::size_t i = 0; i < n; ++i) {
        const float g = gate[i];
        out[i] = (g / (1.0f + exp_reference(-g))) * up[i];
    }
}

// 0.5 * g * (1 + tanh(u)) = g / (1 + e^-2u), u = sqrt(2/pi) * (g + 0.044715 g^3)
void geglu(const float* gate, const float* up, std::size_t n, float* out) {
    for (std::size_t i = 0; i < n; ++i) {
        const float g = gate[i];
        const float cube = (g * g) * g;
        const float minus_two_u = -1.59576912160573f * std::fma(0.044715f, cube, g);
        out[i] = (g / (1.0f + exp_reference(minus_two_u))) * up[i];
    }
}

void rope(float* head, const float* angles, std::size_t pairs, RopeStyle style) {
    const std::size_t step = style == RopeStyle::Adjacent ? 2 : 1;
    const std::size_t distance = style == RopeStyle::Adjacent ? 1 : pairs;
    for (std::size_t i = 0; i < pairs; ++i) {
        const float cosine = angles[2 * i];
        const float sine = angles[2 * i + 1];
        const float a = head[i * step];
        const float b = head[i * step + distance];
        head[i * step] = std::fma(a, cosine, -(b * sine));
        head[i * step + distance] = std::fma(a, sine, b * cosine);
    }
}

void convert_to_f16(const float* x, std::size_t n, Half* out) {
    for (std::size_t i = 0; i < n; ++i) out[i] = to_half(x[i]);
}

void chunk_maxima(const float* x, std::size_t n, float* maxima) {
    for (std::size_t begin = 0; begin < n; begin += kLogitChunk) {
        float largest = -std::numeric_limits<float>::infinity();
        for (std::size_t i = begin; i < n && i < begin + kLogitChunk; ++i) {
            if (std::isnan(x[i]) || x[i] > largest) largest = x[i];
            if (std::isnan(largest)) break;
        }
        maxima[begin / kLogitChunk] = largest + 0.0f;  // -0 + 0 is +0
    }
}

}  // namespace

void install_reference_float(Kernels& table) {
    table.matmul[static_cast<std::size_t>(DType::F32)] = matmul<float>;
    table.matmul[static_cast<std::size_t>(DType::F16)] = matmul<Half>;
    table.matmul[static_cast<std::size_t>(DType::BF16)] = matmul<BFloat16>;
    table.rms_norm = rms_norm;
    table.add = add;
    table.swiglu = swiglu;
    table.geglu = geglu;
    table.rope = rope;
    table.to_f16 = convert_to_f16;
    table.chunk_maxima = chunk_maxima;
}

}  // namespace hearth
