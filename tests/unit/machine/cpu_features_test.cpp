// The decoders, with the register values that real CPUs report.
#include "machine/cpu_features.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

CpuidLeaves haswell() {
    return {.max_leaf = 0xd,
            .leaf1 = {0x000306c3, 0x00100800, 0x7ffafbff, 0xbfebfbff},
            .leaf7 = {0, 0x000027ab, 0, 0x9c000400},
            .leaf7_sub1 = {},
            .xcr0 = 0x7,
            .permitted_states = 0};
}

CpuidLeaves skylake_x() {
    return {.max_leaf = 0x16,
            .leaf1 = {0x00050654, 0x00100800, 0x7ffefbff, 0xbfebfbff},
            .leaf7 = {0, 0xd39ffffb, 0, 0xbc000400},
            .leaf7_sub1 = {},
            .xcr0 = 0x2ff,
            .permitted_states = 0};
}

CpuidLeaves sapphire_rapids() {
    return {.max_leaf = 0x20,
            .leaf1 = {0x000806f8, 0x00100800, 0x7ffefbff, 0xbfebfbff},
            .leaf7 = {2, 0xf3bfbfeb, 0xfb417ffe, 0xffdd4432},
            .leaf7_sub1 = {0x00001c30, 0, 0, 0},
            .xcr0 = 0x602e7,
            .permitted_states = 0x202e7};
}

TEST(DecodeCpuid, FindsAvx2AndFmaOnHaswell) {
    CpuFeatures expected;
    expected.sse42 = expected.avx = expected.avx2 = expected.fma = expected.f16c = expected.bmi2 = true;
    EXPECT_EQ(decode_cpuid(haswell()), expected);
}

TEST(DecodeCpuid, FindsAvx512OnSkylakeX) {
    const CpuFeatures f = decode_cpuid(skylake_x());
    EXPECT_TRUE(f.avx2 && f.avx512f && f.avx512bw && f.avx512vl && f.avx512dq);
    EXPECT_FALSE(f.avx512vnni || f.avx512bf16 || f.avx_vnni || f.amx_tile);
}

TEST(DecodeCpuid, HidesAvx512WhenTheKernelDoesNotSaveItsRegisters) {
    for (const std::uint64_t xcr0 :
         {0x7U, 0x207U, 0x27U, 0x67U, 0xa7U, 0xc7U}) {  // none, or one of the three states missing
        CpuidLeaves leaves = skylake_x();
        leaves.xcr0 = xcr0;
        const CpuFeatures f = decode_cpuid(leaves);
        EXPECT_TRUE(f.avx2);
        EXPECT_FALSE(f.avx512f || f.avx512bw || f.avx512vl || f.avx512dq) << xcr0;
    }
}

TEST(DecodeCpuid, HidesAllOfAvxWithoutYmmState) {
    CpuFeatures only_sse;
    only_sse.sse42 = true;
    for (const std::uint64_t xcr0 : {0x0U, 0x1U, 0x3U, 0x5U}) {
        CpuidLeaves leaves = sapphire_rapids();
        leaves.xcr0 = xcr0;
        EXPECT_EQ(decode_cpuid(leaves), only_sse) << xcr0;
    }
}

TEST(DecodeCpuid, DoesNotBelieveXcr0WithoutOsxsave) {
    CpuidLeaves leaves = sapphire_rapids();
    leaves.leaf1.ecx &= ~(1U << 27);
    EXPECT_FALSE(decode_cpuid(leaves).avx);
}

TEST(DecodeCpuid, FindsAmxOnSapphireRapidsButNotPermittedUntilRequested) {
    CpuFeatures f = decode_cpuid(sapphire_rapids());
    EXPECT_TRUE(f.avx512vnni && f.avx512vbmi && f.avx512bf16 && f.avx512fp16 && f.avx_vnni);
    EXPECT_TRUE(f.amx_tile && f.amx_int8 && f.amx_bf16);
    EXPECT_FALSE(f.amx_permitted);
    CpuidLeaves leaves = sapphire_rapids();
    leaves.permitted_states |= 0x40000;
    EXPECT_TRUE(decode_cpuid(leaves).amx_permitted);
}

TEST(DecodeCpuid, HidesAmxWithoutTileState) {
    for (const std::uint64_t xcr0 : {0x2e7U, 0x202e7U, 0x402e7U}) {
        CpuidLeaves leaves = sapphire_rapids();
        leaves.xcr0 = xcr0;
        leaves.permitted_states = ~0ULL;
        const CpuFeatures f = decode_cpuid(leaves);
        EXPECT_TRUE(f.avx512f);
        EXPECT_FALSE(f.amx_tile || f.amx_int8 || f.amx_bf16 || f.amx_permitted) << xcr0;
    }
}

TEST(DecodeCpuid, FindsAvxVnniWithoutAvx512OnAlderLake) {
    const CpuidLeaves leaves = {.max_leaf = 0x20,
                                .leaf1 = {0x00090672, 0x00100800, 0x7ffafbbf, 0xbfebfbff},
                                .leaf7 = {1, 0x239c27eb, 0x98c027ac, 0xfc1cc410},
                                .leaf7_sub1 = {0x00400810, 0, 0, 0},
                                .xcr0 = 0x207,
                                .permitted_states = 0};
    const CpuFeatures f = decode_cpuid(leaves);
    EXPECT_TRUE(f.avx2 && f.fma && f.f16c && f.avx_vnni);
    EXPECT_FALSE(f.avx512f || f.avx512vnni || f.amx_tile);
}

TEST(DecodeCpuid, IgnoresLeavesTheCpuDoesNotHave) {
    CpuidLeaves leaves = sapphire_rapids();
    leaves.leaf7.eax = 0;  // then subleaf 1 holds anything
    EXPECT_FALSE(decode_cpuid(leaves).avx_vnni);
    leaves.max_leaf = 6;
    EXPECT_FALSE(decode_cpuid(leaves).avx2);
    leaves.max_leaf = 0;
    EXPECT_EQ(decode_cpuid(leaves), CpuFeatures{});
}

TEST(DecodeArmHwcap, FindsTheDotProductsOfNeoverseV1WithAndWithoutItsSve) {
    constexpr std::uint64_t kHwcap = 0xfbfffff;  // as under a hypervisor that hides SVE
    constexpr std::uint64_t kHwcap2 = 0x1e001;
    const CpuFeatures hidden = decode_arm_hwcap(kHwcap, kHwcap2);
    EXPECT_TRUE(hidden.neon && hidden.fp16 && hidden.fhm && hidden.dotprod && hidden.i8mm && hidden.bf16);
    EXPECT_FALSE(hidden.sve || hidden.sve2 || hidden.sve_i8mm || hidden.sve_bf16 || hidden.sme || hidden.sme2);
    const CpuFeatures whole = decode_arm_hwcap(kHwcap | 1U << 22, kHwcap2 | 1U << 9 | 1U << 12);
    EXPECT_TRUE(whole.sve && whole.sve_i8mm && whole.sve_bf16);
    EXPECT_FALSE(whole.sve2);
}

TEST(DecodeArmHwcap, FindsOnlyNeonOnCortexA53) {
    CpuFeatures expected;
    expected.neon = true;
    EXPECT_EQ(decode_arm_hwcap(0xff, 0), expected);
}

TEST(DetectCpuFeatures, GivesTheBaselineOfTheArchitecture) {
    const CpuFeatures f = detect_cpu_features();
#if defined(__aarch64__)
    EXPECT_TRUE(f.neon);
    EXPECT_FALSE(f.avx || f.sse42);
#elif defined(__x86_64__)
    EXPECT_FALSE(f.neon);
    EXPECT_EQ(f.avx2, f.avx2 && f.avx);
#endif
    EXPECT_EQ(f, detect_cpu_features());
}

TEST(FeatureNames, ListsThoseThatAreSetInOrder) {
    EXPECT_TRUE(feature_names({}).empty());
    const std::vector<std::string_view> expected = {"sse4.2", "avx", "avx2", "fma", "f16c", "bmi2"};
    EXPECT_EQ(feature_names(decode_cpuid(haswell())), expected);
}

}  // namespace
}  // namespace hearth
