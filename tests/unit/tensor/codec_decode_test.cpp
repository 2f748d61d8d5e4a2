// decode_row against golden vectors made by gguf-py (tools/make_codec_golden.py), bit for bit, and block by block.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tensor/codec.h"

namespace hearth {
namespace {

constexpr DType kTypes[] = {DType::F32,  DType::F16,   DType::BF16,  DType::Q4_0,   DType::Q4_1,   DType::Q5_0,
                            DType::Q5_1, DType::Q8_0,  DType::Q2_K,  DType::Q3_K,   DType::Q4_K,   DType::Q5_K,
                            DType::Q6_K, DType::TQ1_0, DType::TQ2_0, DType::IQ4_NL, DType::IQ4_XS, DType::MXFP4};

struct Golden {
    std::vector<std::byte> row;
    std::vector<float> values;
};

Golden read_golden(DType type) {
    const std::string path =
        std::string(HEARTH_SOURCE_DIR) + "/tests/golden/codec/" + std::string(traits(type).name) + ".bin";
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    Golden golden;
    std::uint32_t header[2] = {0, 0};
    if (bytes.size() < sizeof header) return golden;
    std::memcpy(header, bytes.data(), sizeof header);
    if (bytes.size() != sizeof header + header[1] + header[0] * sizeof(float)) return golden;
    golden.row.resize(header[1]);
    golden.values.resize(header[0]);
    std::memcpy(golden.row.data(), bytes.data() + sizeof header, header[1]);
    std::memcpy(golden.values.data(), bytes.data() + sizeof header + header[1], header[0] * sizeof(float));
    return golden;
}

class CodecDecode : public ::testing::TestWithParam<DType> {};

TEST_P(CodecDecode, EqualsTheGoldenVectorsBitForBit) {
    const Golden golden = read_golden(GetParam());
    ASSERT_FALSE(golden.values.empty()) << "golden file missing or damaged";
    ASSERT_EQ(golden.row.size(), row_bytes(GetParam(), golden.values.size()));
    std::vector<float> decoded(golden.values.size());
    decode_row(GetParam(), golden.row.data(), decoded);
    for (std::size_t i = 0; i < decoded.size(); ++i) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(decoded[i]), std::bit_cast<std::uint32_t>(golden.values[i]))
            << "element " << i << ": " << decoded[i] << " instead of " << golden.values[i];
    }
}

TEST_P(CodecDecode, NeedsNoAlignmentAndWritesOnlyItsOutput) {
    const Golden golden = read_golden(GetParam());
    ASSERT_FALSE(golden.values.empty());
    const std::size_t elements = traits(GetParam()).block_elements;
    std::vector<std::byte> shifted(golden.row.size() + 1);
    std::memcpy(shifted.data() + 1, golden.row.data(), golden.row.size());
    std::vector<float> decoded(elements + 2, 77.0f);
    decode_row(GetParam(), shifted.data() + 1, std::span(decoded).subspan(1, elements));
    EXPECT_EQ(decoded.front(), 77.0f);
    EXPECT_EQ(decoded.back(), 77.0f);
    for (std::size_t i = 0; i < elements; ++i) EXPECT_EQ(decoded[i + 1], golden.values[i]);
}

TEST_P(CodecDecode, AnEmptyRowIsNothing) {
    decode_row(GetParam(), nullptr, {});
}

INSTANTIATE_TEST_SUITE_P(EveryType, CodecDecode, ::testing::ValuesIn(kTypes),
                         [](const auto& instance) { return std::string(traits(instance.param).name); });

}  // namespace
}  // namespace hearth
