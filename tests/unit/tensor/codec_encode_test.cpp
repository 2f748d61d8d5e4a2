// encode_row: its error against what the best known quantisers of each format reach, importance, odd inputs, refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/rng.h"
#include "tensor/codec.h"

namespace hearth {
namespace {

constexpr DType kTypes[] = {DType::F32,  DType::F16,  DType::BF16, DType::Q4_0, DType::Q4_1, DType::Q5_0,
                            DType::Q5_1, DType::Q8_0, DType::Q4_K, DType::Q5_K, DType::Q6_K};
constexpr std::size_t kElements = 8192;

// Near gaussian, from sums alone: no library function whose last bit could differ between machines.
std::vector<float> gaussian(std::size_t count, float sigma, std::uint64_t seed) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) {
        double sum = -6.0;
        for (std::uint64_t draw = 0; draw < 12; ++draw) sum += random_unit(seed, i, draw);
        values[i] = static_cast<float>(sum) * sigma;
    }
    return values;
}

std::vector<float> importances(std::size_t count, std::uint64_t seed) {
    std::vector<float> weights(count);
    for (std::size_t i = 0; i < count; ++i) {
        const double unit = random_unit(seed, i);
        weights[i] = static_cast<float>(unit * unit * unit * 20.0 + 0.01);
    }
    return weights;
}

std::vector<std::byte> encode(DType type, const std::vector<float>& in, const std::vector<float>& importance = {}) {
    std::vector<std::byte> row(row_bytes(type, in.size()) + 1, std::byte{0x5a});
    const Status status = encode_row(type, in, importance, row.data());
    EXPECT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(row.back(), std::byte{0x5a}) << "wrote past the row";
    row.pop_back();
    return row;
}

std::vector<float> round_trip(DType type, const std::vector<float>& in, const std::vector<float>& importance = {}) {
    std::vector<float> out(in.size());
    decode_row(type, encode(type, in, importance).data(), out);
    return out;
}

double weighted_rmse(const std::vector<float>& a, const std::vector<float>& b, const std::vector<float>& w = {}) {
    double error = 0.0;
    double total = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const double weight = w.empty() ? 1.0 : static_cast<double>(w[i]);
        const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
        error += weight * difference * difference;
        total += weight;
    }
    return std::sqrt(error / total);
}

double largest_error(const std::vector<float>& a, const std::vector<float>& b) {
    double most = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i)
        most = std::max(most, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    return most;
}

bool is_block_type(DType type) {
    return traits(type).block_elements > 1;
}

// What llama.cpp's quantisers reach on gaussian data, in units of sigma; the plain types are what rounding costs.
double known_rmse(DType type) {
    switch (type) {
        case DType::F32: return 0.0;
        case DType::F16: return 2.1e-4;
        case DType::BF16: return 1.7e-3;
        case DType::Q4_0: return 0.0860;
        case DType::Q4_1: return 0.0782;
        case DType::Q5_0: return 0.0428;
        case DType::Q5_1: return 0.0378;
        case DType::Q8_0: return 0.00536;
        case DType::Q4_K: return 0.0714;
        case DType::Q5_K: return 0.0361;
        case DType::Q6_K: return 0.0178;
        default: return -1.0;
    }
}

class CodecEncode : public ::testing::TestWithParam<DType> {};

TEST_P(CodecEncode, IsAsCloseAsTheBestKnownQuantiser) {
    for (const float sigma : {0.001f, 0.02f, 1.0f, 300.0f}) {
        const std::vector<float> in = gaussian(kElements, sigma, 1);
        EXPECT_LE(weighted_rmse(in, round_trip(GetParam(), in)), known_rmse(GetParam()) * static_cast<double>(sigma));
    }
}

TEST_P(CodecEncode, ImportanceLowersTheWeightedError) {
    const std::vector<float> in = gaussian(kElements, 0.02f, 2);
    const std::vector<float> weights = importances(kElements, 3);
    const double plain = weighted_rmse(in, round_trip(GetParam(), in), weights);
    const double weighted = weighted_rmse(in, round_trip(GetParam(), in, weights), weights);
    if (is_block_type(GetParam())) {
        EXPECT_LT(weighted, plain * 0.99);
    } else {
        EXPECT_EQ(weighted, plain);
    }
}

TEST_P(CodecEncode, OnlyTheRatiosOfImportanceCount) {
    const std::vector<float> in = gaussian(512, 0.02f, 4);
    std::vector<float> weights = importances(512, 5);
    const std::vector<std::byte> row = encode(GetParam(), in, weights);
    for (float& weight : weights) weight *= 0x1p100f;
    EXPECT_EQ(encode(GetParam(), in, weights), row);
}

TEST_P(CodecEncode, NoImportanceAnywhereIsTheSameAsEqualImportance) {
    const std::vector<float> in = gaussian(512, 0.02f, 6);
    const std::vector<std::byte> row = encode(GetParam(), in);
    EXPECT_EQ(encode(GetParam(), in, std::vector<float>(512, 0.0f)), row);
    EXPECT_EQ(encode(GetParam(), in, std::vector<float>(512, 3.0f)), row);
}

TEST_P(CodecEncode, SubBlocksWithoutImportanceStillGetSensibleValues) {
    const std::vector<float> in = gaussian(512, 0.02f, 7);
    std::vector<float> weights(512, 1.0f);
    std::fill(weights.begin() + 32, weights.begin() + 96, 0.0f);
    EXPECT_LT(largest_error(in, round_trip(GetParam(), in, weights)), 0.06);
}

TEST_P(CodecEncode, ZerosStayZeros) {
    const std::vector<float> in(512, 0.0f);
    EXPECT_EQ(round_trip(GetParam(), in), in);
}

TEST_P(CodecEncode, ConstantRowsComeBackToHalfPrecision) {
    for (const float value : {1.0f, -1.0f, 0.0371f, -77.7f, 60000.0f, -60000.0f}) {
        const std::vector<float> in(512, value);
        // Two roundings to half precision (or one to bfloat16) in the worst format.
        EXPECT_LE(largest_error(in, round_trip(GetParam(), in)), std::fabs(static_cast<double>(value)) / 250.0)
            << value;
    }
}

TEST_P(CodecEncode, OneOutlierIsKeptAndSpoilsOnlyItsOwnBlock) {
    std::vector<float> in = gaussian(768, 0.01f, 8);
    in[300] = 4.0f;
    const std::vector<float> out = round_trip(GetParam(), in);
    EXPECT_NEAR(out[300], 4.0f, 0.2f);
    for (std::size_t i = 0; i < in.size(); ++i) {
        if (i / 256 == 300 / 256) {
            EXPECT_NEAR(out[i], in[i], 0.3f) << i;
        } else {
            EXPECT_NEAR(out[i], in[i], 0.01f) << i;
        }
    }
}

TEST_P(CodecEncode, TinyValuesNeverGrowOrTurnIntoNan) {
    for (const float scale : {1e-45f, 1e-40f, 1e-30f, 1e-12f, 1e-9f, 1e-7f, 1e-6f}) {
        const std::vector<float> in = gaussian(512, scale, 9);
        const std::vector<float> out = round_trip(GetParam(), in);
        for (std::size_t i = 0; i < in.size(); ++i) {
            ASSERT_LE(std::fabs(out[i] - in[i]), 6.0f * scale + 1e-45f) << "scale " << scale << ", element " << i;
        }
    }
}

TEST_P(CodecEncode, ValuesAtTheEdgeOfHalfStayFinite) {
    std::vector<float> in(512);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = random_unit(10, i) < 0.5 ? 65504.0f : -65504.0f;
    for (const float value : round_trip(GetParam(), in))
        ASSERT_NEAR(value, value < 0.0f ? -65504.0f : 65504.0f, 9000.0f);
}

TEST_P(CodecEncode, RefusesWhatIsNotFiniteAndNamesTheElement) {
    const float bad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity()};
    for (const float value : bad) {
        std::vector<float> in(512, 0.5f);
        in[317] = value;
        std::vector<std::byte> row(row_bytes(GetParam(), in.size()));
        const Status status = encode_row(GetParam(), in, {}, row.data());
        ASSERT_FALSE(status.ok());
        EXPECT_EQ(status.error().code, ErrorCode::InvalidModel);
        EXPECT_NE(status.error().message.find("element 317"), std::string::npos) << status.error().message;
    }
}

TEST_P(CodecEncode, RefusesImportanceThatIsNoWeight) {
    for (const float value : {-1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        const std::vector<float> in(256, 0.5f);
        std::vector<float> weights(256, 1.0f);
        weights[11] = value;
        std::vector<std::byte> row(row_bytes(GetParam(), in.size()));
        const Status status = encode_row(GetParam(), in, weights, row.data());
        ASSERT_FALSE(status.ok());
        EXPECT_NE(status.error().message.find("element 11"), std::string::npos) << status.error().message;
    }
}

TEST_P(CodecEncode, ARowIsTheSameWhereverItIsCut) {
    const std::vector<float> in = gaussian(1024, 0.02f, 11);
    const std::vector<float> weights = importances(1024, 12);
    std::vector<std::byte> pieces(row_bytes(GetParam(), in.size()));
    for (std::size_t at = 0; at < in.size(); at += 256) {
        ASSERT_TRUE(encode_row(GetParam(), std::span(in).subspan(at, 256), std::span(weights).subspan(at, 256),
                               pieces.data() + row_bytes(GetParam(), at)));
    }
    EXPECT_EQ(encode(GetParam(), in, weights), pieces);
}

TEST_P(CodecEncode, AnEmptyRowIsNothing) {
    EXPECT_TRUE(encode_row(GetParam(), {}, {}, nullptr));
}

INSTANTIATE_TEST_SUITE_P(EveryType, CodecEncode, ::testing::ValuesIn(kTypes),
                         [](const auto& instance) { return std::string(traits(instance.param).name); });

TEST(CodecEncodeBits, AreTheSameOnEveryCompilerAndMachine) {
    const std::vector<float> in = gaussian(4096, 0.02f, 13);
    const std::vector<float> weights = importances(4096, 14);
    std::uint64_t hash = 0;
    for (const DType type : kTypes) {
        for (const std::vector<std::byte>& row : {encode(type, in), encode(type, in, weights)}) {
            for (const std::byte byte : row) hash = mix64(hash ^ static_cast<std::uint64_t>(byte));
        }
    }
    EXPECT_EQ(hash, 0xcbcfb79f9a3e765fu);
}

TEST(CodecEncodeLimits, RefuseWhatAHalfScaleCannotReach) {
    std::vector<float> in(256, 0.5f);
    in[40] = 70000.0f;
    std::vector<std::byte> row(row_bytes(DType::F32, in.size()));
    for (const DType type : kTypes) {
        const Status status = encode_row(type, in, {}, row.data());
        EXPECT_EQ(status.ok(), type == DType::F32 || type == DType::BF16);
        if (!status.ok()) {
            EXPECT_NE(status.error().message.find("element 40 is too large for"), std::string::npos);
        }
    }
    in[40] = std::numeric_limits<float>::max();  // rounds to infinity as bfloat16
    EXPECT_FALSE(encode_row(DType::BF16, in, {}, row.data()));
    EXPECT_TRUE(encode_row(DType::F32, in, {}, row.data()));
}

TEST(CodecEncodeLimits, QuantisingAgainWhatWasQuantisedLosesNothingInQ8) {
    const std::vector<float> once = round_trip(DType::Q8_0, gaussian(kElements, 0.02f, 15));
    EXPECT_LE(largest_error(once, round_trip(DType::Q8_0, once)), 1e-9);
}

TEST(CodecCanEncode, IsTrueForExactlyTheTypesWithAQuantiser) {
    for (std::uint32_t number = 0; number < kDTypeLimit; ++number) {
        const std::optional<DType> type = dtype_from_gguf(number);
        if (!type) continue;
        EXPECT_EQ(can_encode(*type), std::find(std::begin(kTypes), std::end(kTypes), *type) != std::end(kTypes));
    }
}

}  // namespace
}  // namespace hearth
