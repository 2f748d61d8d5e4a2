// The reference against double precision: weights by decode_row, activations as quantised. What is left between the two
// is the rounding of the f32 accumulation, so the tolerance is a count of roundings times the sum of magnitudes.
#include "tensor/codec.h"
#include "unit/kernels/test_support.h"

namespace hearth {
namespace {

using namespace kernel_test;

constexpr std::size_t kColumns = 1024;
constexpr std::size_t kRows = 6;
constexpr std::size_t kTokens = 3;

// The floats that a quantised activation row stands for.
std::vector<double> decode_activations(DType type, const std::byte* row) {
    std::vector<double> x(kColumns);
    for (std::size_t i = 0; i < kColumns; ++i) {
        switch (traits(type).activation) {
            case ActivationFormat::F32: x[i] = static_cast<double>(reinterpret_cast<const float*>(row)[i]); break;
            case ActivationFormat::Q8x32: {
                const ActivationBlock32& block = reinterpret_cast<const ActivationBlock32*>(row)[i / 32];
                x[i] = static_cast<double>(block.scale) * block.q[i % 32];
                break;
            }
            case ActivationFormat::Q8x256: {
                const ActivationBlock256& block = reinterpret_cast<const ActivationBlock256*>(row)[i / 256];
                x[i] = static_cast<double>(block.scale) * block.q[i % 256];
                break;
            }
        }
    }
    return x;
}

TEST(Reference, AgreesWithTheDecodedWeightsInDoublePrecision) {
    for (const DType type : kAllTypes) {
        const std::vector<std::byte> weights = random_weights(type, kRows * kColumns, 77);
        const std::vector<std::byte> activations =
            make_activations(supported_kernels().front(), type, random_values(kTokens * kColumns, 78), kColumns);
        std::vector<float> out(kRows * kTokens);
        run_matmul(supported_kernels().front(), type,
                   matmul_task(type, weights, kRows, kColumns, activations, kTokens, out));
        for (std::size_t t = 0; t < kTokens; ++t) {
            const std::vector<double> x = decode_activations(
                type, activations.data() + t * activation_row_bytes(traits(type).activation, kColumns));
            for (std::size_t r = 0; r < kRows; ++r) {
                std::vector<float> w(kColumns);
                decode_row(type, weights.data() + r * row_bytes(type, kColumns), w);
                double dot = 0.0;
                double magnitude = 0.0;
                for (std::size_t i = 0; i < kColumns; ++i) {
                    dot += static_cast<double>(w[i]) * x[i];
                    magnitude += std::fabs(static_cast<double>(w[i]) * x[i]);
                }
                // decode_row itself rounds each weight of the types with minimums once or twice.
                EXPECT_NEAR(out[t * kRows + r], dot, 8.0 * 0x1p-24 * magnitude) << traits(type).name;
            }
        }
    }
}

TEST(Reference, QuantisedActivationsStayWithinAPercentOfTheTruth) {
    for (const DType type : kAllTypes) {
        const std::vector<std::byte> weights = random_weights(type, kRows * kColumns, 5);
        const std::vector<float> x = random_values(kTokens * kColumns, 6);
        const std::vector<std::byte> activations = make_activations(supported_kernels().front(), type, x, kColumns);
        std::vector<float> out(kRows * kTokens);
        run_matmul(supported_kernels().front(), type,
                   matmul_task(type, weights, kRows, kColumns, activations, kTokens, out));
        for (std::size_t t = 0; t < kTokens; ++t) {
            for (std::size_t r = 0; r < kRows; ++r) {
                std::vector<float> w(kColumns);
                decode_row(type, weights.data() + r * row_bytes(type, kColumns), w);
                double dot = 0.0;
                double weight_norm = 0.0;
                double activation_norm = 0.0;
                for (std::size_t i = 0; i < kColumns; ++i) {
                    const double wide = static_cast<double>(w[i]);
                    const double value = static_cast<double>(x[t * kColumns + i]);
                    dot += wide * value;
                    weight_norm += wide * wide;
                    activation_norm += value * value;
                }
                const double tolerance = 0.01 * std::sqrt(weight_norm * activation_norm);
                EXPECT_NEAR(out[t * kRows + r], dot, tolerance) << traits(type).name;
            }
        }
    }
}

}  // namespace
}  // namespace hearth
