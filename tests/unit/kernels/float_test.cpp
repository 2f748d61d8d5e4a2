// Norms, gated activations, rope, conversions and exp: against double precision, and by bits at every level.
#include <limits>

#include "unit/kernels/test_support.h"

namespace hearth {
namespace {

using namespace kernel_test;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double ulp(double value) {
    const auto rounded = static_cast<float>(std::fabs(value));
    return static_cast<double>(std::nextafter(rounded, kInfinity)) - static_cast<double>(rounded);
}

TEST(Exp, IsWithinTwoUlpOfTheTruth) {
    double worst = 0.0;
    for (float x = -87.29f; x < 88.69f; x += 0.00037f) {
        const double truth = std::exp(static_cast<double>(x));
        worst = std::max(worst, std::fabs(static_cast<double>(exp_reference(x)) - truth) / ulp(truth));
    }
    std::printf("exp: worst error %.3f ulp\n", worst);
    EXPECT_LT(worst, 2.0);
}

TEST(Exp, HasDefinedEnds) {
    EXPECT_EQ(exp_reference(0.0f), 1.0f);
    EXPECT_EQ(exp_reference(-0.0f), 1.0f);
    EXPECT_EQ(exp_reference(-87.4f), 0.0f);
    EXPECT_EQ(exp_reference(-kInfinity), 0.0f);
    EXPECT_EQ(exp_reference(88.8f), kInfinity);
    EXPECT_EQ(exp_reference(kInfinity), kInfinity);
    EXPECT_TRUE(std::isnan(exp_reference(kNan)));
    EXPECT_TRUE(std::isfinite(exp_reference(88.7f)));
}

TEST(RopeAngles, AgreeWithTheLibraryToTheLastFloatBit) {
    const std::vector<float> frequencies = {1.0f, 0.7f, 0.1f, 0.0316f, 1e-4f, 1e-6f};
    std::vector<float> angles(frequencies.size() * 2);
    for (const std::uint32_t position : {0u, 1u, 2u, 3u, 17u, 1000u, 4095u, 131071u, 1048576u, 9999999u}) {
        rope_angles(position, frequencies, 1.25f, angles.data());
        for (std::size_t i = 0; i < frequencies.size(); ++i) {
            const double x = static_cast<double>(position) * static_cast<double>(frequencies[i]);
            EXPECT_NEAR(angles[2 * i], 1.25 * std::cos(x), ulp(std::cos(x)) + 1e-14) << position;
            EXPECT_NEAR(angles[2 * i + 1], 1.25 * std::sin(x), ulp(std::sin(x)) + 1e-14) << position;
        }
    }
}

TEST(RmsNorm, EveryLevelGivesTheBitsOfTheReferenceAndItIsRight) {
    for (const std::size_t n : {1u, 2u, 15u, 16u, 17u, 64u, 70u, 333u, 2048u}) {
        const std::vector<float> x = random_values(n, n);
        const std::vector<float> weight = random_values(n, n + 1);
        std::vector<float> expected(n);
        supported_kernels().front().rms_norm(x.data(), weight.data(), n, 1e-5f, expected.data());
        double sum = 0.0;
        for (const float value : x) sum += static_cast<double>(value) * static_cast<double>(value);
        const double inverse = 1.0 / std::sqrt(sum / static_cast<double>(n) + 1e-5);
        for (std::size_t i = 0; i < n; ++i) {
            const double truth = static_cast<double>(x[i]) * inverse * static_cast<double>(weight[i]);
            ASSERT_NEAR(expected[i], truth, 1e-6 * std::fabs(truth) + 1e-12);
        }
        for (const Kernels& kernels : supported_kernels()) {
            std::vector<float> in_place = x;
            kernels.rms_norm(in_place.data(), weight.data(), n, 1e-5f, in_place.data());
            EXPECT_TRUE(same_bits(in_place, expected)) << kernels.level << " " << n;
        }
    }
}

using Gated = void (*)(const float*, const float*, std::size_t, float*);

void expect_gated_equal(Gated Kernels::*operation) {
    std::vector<float> gate = random_values(517, 1);
    const std::vector<float> up = random_values(517, 2);
    const float special[] = {0.0f,   -0.0f, kInfinity, -kInfinity, kNan,    1e30f,
                             -1e30f, 90.0f, -90.0f,    88.71f,     -87.31f, 1e-40f};
    std::copy(std::begin(special), std::end(special), gate.begin() + 30);
    for (const std::size_t n : {1u, 3u, 15u, 16u, 17u, 64u, 517u}) {
        std::vector<float> expected(n);
        (supported_kernels().front().*operation)(gate.data(), up.data(), n, expected.data());
        for (const Kernels& kernels : supported_kernels()) {
            std::vector<float> actual(n);
            (kernels.*operation)(gate.data(), up.data(), n, actual.data());
            EXPECT_TRUE(same_bits(actual, expected)) << kernels.level << " " << n;
            std::vector<float> over_gate(gate.data(), gate.data() + n);
            (kernels.*operation)(over_gate.data(), up.data(), n, over_gate.data());
            EXPECT_TRUE(same_bits(over_gate, expected)) << kernels.level << " " << n;
            std::vector<float> over_up(up.data(), up.data() + n);
            (kernels.*operation)(gate.data(), over_up.data(), n, over_up.data());
            EXPECT_TRUE(same_bits(over_up, expected)) << kernels.level << " " << n;
        }
    }
}

TEST(SwiGlu, EveryLevelGivesTheBitsOfTheReference) {
    expect_gated_equal(&Kernels::swiglu);
}
TEST(GeGlu, EveryLevelGivesTheBitsOfTheReference) {
    expect_gated_equal(&Kernels::geglu);
}

// Where the exponential of the gate leaves the normal numbers.
TEST(SwiGlu, EveryLevelGivesTheBitsOfTheReferenceAtTheEndsOfTheRange) {
    std::vector<float> gate;
    for (int i = 0; i < 4000; ++i) {
        gate.push_back(85.0f + static_cast<float>(i) * 0.001f);
        gate.push_back(-gate.back());
    }
    const std::vector<float> up = random_values(gate.size(), 3);
    std::vector<float> expected(gate.size());
    supported_kernels().front().swiglu(gate.data(), up.data(), gate.size(), expected.data());
    for (const Kernels& kernels : supported_kernels()) {
        std::vector<float> actual(gate.size());
        kernels.swiglu(gate.data(), up.data(), gate.size(), actual.data());
        EXPECT_TRUE(same_bits(actual, expected)) << kernels.level;
    }
}

TEST(SwiGlu, IsSiluTimesUp) {
    const std::vector<float> gate = random_values(256, 11);
    const std::vector<float> up = random_values(256, 12);
    std::vector<float> silu(256);
    std::vector<float> gelu(256);
    supported_kernels().front().swiglu(gate.data(), up.data(), 256, silu.data());
    supported_kernels().front().geglu(gate.data(), up.data(), 256, gelu.data());
    for (std::size_t i = 0; i < 256; ++i) {
        const double g = static_cast<double>(gate[i]);
        const double u = static_cast<double>(up[i]);
        const double silu_truth = g / (1.0 + std::exp(-g)) * u;
        const double gelu_truth = 0.5 * g * (1.0 + std::tanh(0.7978845608028654 * (g + 0.044715 * g * g * g))) * u;
        EXPECT_NEAR(silu[i], silu_truth, 1e-6 * std::fabs(silu_truth) + 1e-10);
        EXPECT_NEAR(gelu[i], gelu_truth, 4e-6 * std::fabs(gelu_truth) + 1e-6 * std::fabs(u));
    }
}

TEST(Add, EveryLevelGivesTheBitsOfTheReference) {
    for (const std::size_t n : {1u, 7u, 16u, 33u, 100u}) {
        const std::vector<float> a = random_values(n, 1);
        const std::vector<float> b = random_values(n, 2);
        std::vector<float> expected(n);
        for (std::size_t i = 0; i < n; ++i) expected[i] = a[i] + b[i];
        for (const Kernels& kernels : supported_kernels()) {
            std::vector<float> actual = a;
            kernels.add(actual.data(), b.data(), n, actual.data());
            EXPECT_TRUE(same_bits(actual, expected)) << kernels.level;
        }
    }
}

TEST(Rope, RotatesEachPairByItsAngle) {
    for (const RopeStyle style : {RopeStyle::Adjacent, RopeStyle::Halves}) {
        for (const std::size_t pairs : {1u, 2u, 3u, 4u, 8u, 16u, 20u, 32u, 48u, 64u}) {
            const std::vector<float> head = random_values(2 * pairs + 3, pairs);
            std::vector<float> frequencies(pairs);
            for (std::size_t i = 0; i < pairs; ++i) frequencies[i] = 1.0f / static_cast<float>(i + 1);
            std::vector<float> angles(2 * pairs);
            rope_angles(77, frequencies, 1.0f, angles.data());
            std::vector<float> expected = head;
            supported_kernels().front().rope(expected.data(), angles.data(), pairs, style);
            for (std::size_t i = 0; i < pairs; ++i) {
                const std::size_t first = style == RopeStyle::Adjacent ? 2 * i : i;
                const std::size_t second = style == RopeStyle::Adjacent ? 2 * i + 1 : i + pairs;
                const double angle = 77.0 * static_cast<double>(frequencies[i]);
                const double a = static_cast<double>(head[first]);
                const double b = static_cast<double>(head[second]);
                EXPECT_NEAR(expected[first], a * std::cos(angle) - b * std::sin(angle), 1e-5);
                EXPECT_NEAR(expected[second], a * std::sin(angle) + b * std::cos(angle), 1e-5);
            }
            EXPECT_EQ(expected.back(), head.back());  // what is not rotated stays
            for (const Kernels& kernels : supported_kernels()) {
                std::vector<float> actual = head;
                kernels.rope(actual.data(), angles.data(), pairs, style);
                EXPECT_TRUE(same_bits(actual, expected)) << kernels.level << " " << pairs;
            }
        }
    }
}

TEST(ToF16, EveryLevelRoundsLikeTheReference) {
    std::vector<float> x = random_values(4099, 1);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::ldexp(x[i], static_cast<int>(i % 60) - 40);
    const float special[] = {0.0f,    -0.0f,    kInfinity, -kInfinity, kNan,   -kNan,   65504.0f,     65519.9f,
                             65520.f, 0x1p-24f, 0x1p-25f,  0x1.8p-25f, 1e-40f, -1e-40f, 0x1.ffcp-15f, 3e38f};
    std::copy(std::begin(special), std::end(special), x.begin() + 3);
    for (const std::size_t n : {1u, 7u, 16u, 4099u}) {
        std::vector<Half> expected(n);
        supported_kernels().front().to_f16(x.data(), n, expected.data());
        for (const Kernels& kernels : supported_kernels()) {
            std::vector<Half> actual(n);
            kernels.to_f16(x.data(), n, actual.data());
            EXPECT_EQ(std::memcmp(actual.data(), expected.data(), n * sizeof(Half)), 0) << kernels.level << " " << n;
        }
    }
}

// Every level on the first n of x, and the reference against the definition.
void expect_chunk_maxima(const std::vector<float>& x, std::size_t n) {
    std::vector<float> truth;
    for (std::size_t begin = 0; begin < n; begin += kLogitChunk) {
        float largest = -kInfinity;
        bool nan = false;
        for (std::size_t i = begin; i < std::min(n, begin + kLogitChunk); ++i) {
            nan = nan || std::isnan(x[i]);
            largest = std::max(largest, x[i]);
        }
        truth.push_back(nan ? kNan : largest == 0.0f ? 0.0f : largest);
    }
    for (const Kernels& kernels : supported_kernels()) {
        std::vector<float> actual(logit_chunks(n) + 1, 7.0f);
        kernels.chunk_maxima(x.data(), n, actual.data());
        EXPECT_EQ(actual.back(), 7.0f) << kernels.level << " " << n;  // nothing beyond the last chunk is written
        actual.pop_back();
        EXPECT_TRUE(same_bits(actual, truth)) << kernels.level << " " << n;
    }
}

TEST(ChunkMaxima, EveryLevelFindsTheLargestOfEverySixtyFour) {
    const std::vector<float> x = random_values(1100, 5);
    for (const std::size_t n : {0u, 1u, 3u, 4u, 15u, 16u, 17u, 63u, 64u, 65u, 127u, 128u, 129u, 1000u, 1100u}) {
        expect_chunk_maxima(x, n);
    }
    for (std::size_t place = 0; place < kLogitChunk + 9; ++place) {  // wherever it stands
        std::vector<float> one(kLogitChunk + 9, -3.0f);
        one[place] = -2.5f;
        expect_chunk_maxima(one, one.size());
    }
}

TEST(ChunkMaxima, NanInfinityAndZerosComeOutTheSameAtEveryLevel) {
    for (const float special : {kNan, -kNan, kInfinity, -kInfinity, 0.0f, -0.0f, 1e-40f}) {
        for (std::size_t place = 0; place < 2 * kLogitChunk + 5; ++place) {
            for (const float around : {-1.0f, -kInfinity, -0.0f, 0.0f, kNan}) {
                std::vector<float> x(2 * kLogitChunk + 5, around);
                x[place] = special;
                expect_chunk_maxima(x, x.size());
            }
        }
    }
}

}  // namespace
}  // namespace hearth
