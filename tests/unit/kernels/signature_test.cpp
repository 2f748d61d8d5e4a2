// The bits themselves, written down: every level of every architecture and compiler has to reach the same numbers.
// A change here changes the answers of every model, and every cached KV block. It is never an accident of a
// refactoring.
#include "base/hash.h"
#include "unit/kernels/test_support.h"

namespace hearth {
namespace {

using namespace kernel_test;

std::uint64_t signature(const std::vector<float>& values) {
    std::uint64_t hash = 0;
    for (const float value : values) hash = mix64(hash ^ std::bit_cast<std::uint32_t>(value));
    return hash;
}

std::uint64_t matmul_signature(const Kernels& kernels, DType type) {
    constexpr std::size_t kRows = 7;
    constexpr std::size_t kColumns = 512;
    constexpr std::size_t kTokens = 5;
    const std::vector<std::byte> weights = random_weights(type, kRows * kColumns, 1);
    const std::vector<std::byte> activations =
        make_activations(kernels, type, random_values(kTokens * kColumns, 2), kColumns);
    std::vector<float> out(kRows * kTokens);
    run_matmul(kernels, type, matmul_task(type, weights, kRows, kColumns, activations, kTokens, out));
    return signature(out);
}

std::uint64_t float_signature(const Kernels& kernels) {
    constexpr std::size_t kSize = 333;
    const std::vector<float> a = random_values(kSize, 3);
    const std::vector<float> b = random_values(kSize, 4);
    std::vector<float> all;
    std::vector<float> out(kSize);
    const auto keep = [&all, &out] { all.insert(all.end(), out.begin(), out.end()); };
    kernels.rms_norm(a.data(), b.data(), kSize, 1e-5f, out.data());
    keep();
    kernels.swiglu(a.data(), b.data(), kSize, out.data());
    keep();
    kernels.geglu(a.data(), b.data(), kSize, out.data());
    keep();
    std::vector<float> frequencies(64);
    for (std::size_t i = 0; i < 64; ++i) frequencies[i] = 1.0f / static_cast<float>(i * i + 1);
    std::vector<float> angles(128);
    for (const std::uint32_t position : {1u, 100u, 54321u}) {
        rope_angles(position, frequencies, 1.0f, angles.data());
        kernels.rope(out.data(), angles.data(), 64, RopeStyle::Adjacent);
        kernels.rope(out.data() + 100, angles.data(), 64, RopeStyle::Halves);
    }
    keep();
    return signature(all);
}

std::uint64_t attention_signature(const Kernels& kernels) {
    constexpr std::size_t kDim = 80;
    constexpr std::size_t kGroup = 3;
    std::vector<Half> pool(std::size_t{3} * 64 * kDim * 2);
    const std::vector<float> kv = random_values(pool.size(), 5);
    kernels.to_f16(kv.data(), kv.size(), pool.data());
    const std::vector<std::uint32_t> table = {2, 0, 1};
    const std::vector<float> query = random_values(kGroup * kDim, 6);
    std::vector<float> out(kGroup * kDim);
    kernels.attention({.query = query.data(),
                       .out = out.data(),
                       .group = kGroup,
                       .head_dim = kDim,
                       .pool = reinterpret_cast<const std::byte*>(pool.data()),
                       .block_table = table.data(),
                       .block_bytes = 64 * kDim * 4,
                       .key_offset = 0,
                       .value_offset = 64 * kDim * 2,
                       .first = 7,
                       .last = 177,
                       .scale = 0.11f});
    return signature(out);
}

struct Expected {
    DType type;
    std::uint64_t signature;
};
constexpr Expected kMatmul[] = {
    {DType::F32, 0x18a75ea618233bdau},    {DType::F16, 0x91a5098a375054a9u},    {DType::Q4_0, 0x23883c044983a76du},
    {DType::Q4_1, 0x0232452273d13393u},   {DType::Q5_0, 0x01c1308ebe1e5a98u},   {DType::Q5_1, 0x4f3eaea0d3665664u},
    {DType::Q8_0, 0x710d173b0b343001u},   {DType::Q2_K, 0xda507a9ef8991adau},   {DType::Q3_K, 0x7c965a565b4a4d57u},
    {DType::Q4_K, 0x9ed4e9e9bbec4ff3u},   {DType::Q5_K, 0xd0cce160120e5fb3u},   {DType::Q6_K, 0x90fcfe76270aea59u},
    {DType::IQ4_NL, 0xf2c1b3bc4a4b0a0eu}, {DType::IQ4_XS, 0xe1f1798818751236u}, {DType::BF16, 0xbcf555d1c3f4f116u},
    {DType::TQ1_0, 0xb98d634df310feb3u},  {DType::TQ2_0, 0x4d1493bb9aed002du},  {DType::MXFP4, 0xe275ecaf15ea7044u},
};

TEST(Signature, OfEveryMatmulIsTheSameOnEveryMachine) {
    ASSERT_EQ(std::size(kMatmul), std::size(kAllTypes));
    for (const Kernels& kernels : supported_kernels()) {
        for (const Expected& expected : kMatmul) {
            EXPECT_EQ(matmul_signature(kernels, expected.type), expected.signature)
                << kernels.level << " " << traits(expected.type).name;
        }
    }
}

TEST(Signature, OfFloatOperationsAndAttentionIsTheSameOnEveryMachine) {
    for (const Kernels& kernels : supported_kernels()) {
        EXPECT_EQ(float_signature(kernels), 0xeca8d6886525870u) << kernels.level;
        EXPECT_EQ(attention_signature(kernels), 0xabe3248fed90ae54u) << kernels.level;
    }
}

}  // namespace
}  // namespace hearth
