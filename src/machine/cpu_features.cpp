// Bit positions are from the Intel SDM (CPUID, XCR0) and from Linux's asm/hwcap.h for arm64.
#include "machine/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#include <sys/prctl.h>
#endif

namespace hearth {
namespace {

constexpr bool has_bit(std::uint64_t value, unsigned bit) {
    return ((value >> bit) & 1U) != 0;
}

constexpr std::uint64_t kAvxState = 0x6;            // XMM, YMM
constexpr std::uint64_t kAvx512State = 0xe0 | 0x6;  // opmask, upper ZMM, high ZMM
constexpr std::uint64_t kAmxState = 0x60000;        // tile configuration, tile data
constexpr std::uint64_t kAmxTileData = 0x40000;

#if defined(__x86_64__)
constexpr long kArchGetXcompPerm = 0x1022;

CpuidRegisters read_cpuid(std::uint32_t leaf, std::uint32_t subleaf) {
    CpuidRegisters r;
    __cpuid_count(leaf, subleaf, r.eax, r.ebx, r.ecx, r.edx);
    return r;
}

CpuidLeaves read_cpuid_leaves() {
    CpuidLeaves leaves;
    leaves.max_leaf = read_cpuid(0, 0).eax;
    if (leaves.max_leaf >= 1) leaves.leaf1 = read_cpuid(1, 0);
    if (leaves.max_leaf >= 7) leaves.leaf7 = read_cpuid(7, 0);
    if (leaves.max_leaf >= 7 && leaves.leaf7.eax >= 1) leaves.leaf7_sub1 = read_cpuid(7, 1);
    if (has_bit(leaves.leaf1.ecx, 27)) {  // without OSXSAVE the instruction is illegal
        std::uint32_t low = 0;
        std::uint32_t high = 0;
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        leaves.xcr0 = (static_cast<std::uint64_t>(high) << 32) | low;
    }
    std::uint64_t permitted = 0;
    if (syscall(SYS_arch_prctl, kArchGetXcompPerm, &permitted) == 0) leaves.permitted_states = permitted;
    return leaves;
}
#endif

}  // namespace

CpuFeatures decode_cpuid(const CpuidLeaves& leaves) {
    CpuFeatures f;
    if (leaves.max_leaf < 1) return f;
    f.sse42 = has_bit(leaves.leaf1.ecx, 20);
    const std::uint64_t saved = has_bit(leaves.leaf1.ecx, 27) ? leaves.xcr0 : 0;
    if ((saved & kAvxState) != kAvxState || !has_bit(leaves.leaf1.ecx, 28)) return f;
    f.avx = true;
    f.fma = has_bit(leaves.leaf1.ecx, 12);
    f.f16c = has_bit(leaves.leaf1.ecx, 29);
    if (leaves.max_leaf < 7) return f;
    const CpuidRegisters& seven = leaves.leaf7;
    const CpuidRegisters sub1 = seven.eax >= 1 ? leaves.leaf7_sub1 : CpuidRegisters{};
    f.avx2 = has_bit(seven.ebx, 5);
    f.bmi2 = has_bit(seven.ebx, 8);
    f.avx_vnni = has_bit(sub1.eax, 4);
    if ((saved & kAvx512State) == kAvx512State && has_bit(seven.ebx, 16)) {
        f.avx512f = true;
        f.avx512dq = has_bit(seven.ebx, 17);
        f.avx512bw = has_bit(seven.ebx, 30);
        f.avx512vl = has_bit(seven.ebx, 31);
        f.avx512vbmi = has_bit(seven.ecx, 1);
        f.avx512vnni = has_bit(seven.ecx, 11);
        f.avx512fp16 = has_bit(seven.edx, 23);
        f.avx512bf16 = has_bit(sub1.eax, 5);
    }
    if ((saved & kAmxState) == kAmxState && has_bit(seven.edx, 24)) {
        f.amx_tile = true;
        f.amx_bf16 = has_bit(seven.edx, 22);
        f.amx_int8 = has_bit(seven.edx, 25);
        f.amx_permitted = (leaves.permitted_states & kAmxTileData) != 0;
    }
    return f;
}

CpuFeatures decode_arm_hwcap(std::uint64_t hwcap, std::uint64_t hwcap2) {
    CpuFeatures f;
    f.neon = has_bit(hwcap, 1);
    f.fp16 = has_bit(hwcap, 9) && has_bit(hwcap, 10);  // scalar and vector
    f.dotprod = has_bit(hwcap, 20);
    f.sve = has_bit(hwcap, 22);
    f.fhm = has_bit(hwcap, 23);
    f.sve2 = has_bit(hwcap2, 1);
    f.sve_i8mm = has_bit(hwcap2, 9);
    f.sve_bf16 = has_bit(hwcap2, 12);
    f.i8mm = has_bit(hwcap2, 13);
    f.bf16 = has_bit(hwcap2, 14);
    f.sme = has_bit(hwcap2, 23);
    f.sme2 = has_bit(hwcap2, 37);
    return f;
}

CpuFeatures detect_cpu_features() {
#if defined(__x86_64__)
    return decode_cpuid(read_cpuid_leaves());
#elif defined(__aarch64__) && defined(__linux__)
    CpuFeatures f = decode_arm_hwcap(getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
    if (f.sve) {
        constexpr int kGetSveVectorLength = 51;  // PR_SVE_GET_VL, which older headers lack
        const int length = prctl(kGetSveVectorLength, 0, 0, 0, 0);
        if (length > 0) f.sve_vector_bytes = static_cast<std::uint32_t>(length) & 0xffffU;
    }
    return f;
#else
    return {};
#endif
}

std::vector<std::string_view> feature_names(const CpuFeatures& features) {
    struct Entry {
        bool CpuFeatures::*member;
        std::string_view name;
    };
    static constexpr Entry kEntries[] = {
        {&CpuFeatures::neon, "neon"},
        {&CpuFeatures::fp16, "fp16"},
        {&CpuFeatures::fhm, "fhm"},
        {&CpuFeatures::dotprod, "dotprod"},
        {&CpuFeatures::i8mm, "i8mm"},
        {&CpuFeatures::bf16, "bf16"},
        {&CpuFeatures::sve, "sve"},
        {&CpuFeatures::sve2, "sve2"},
        {&CpuFeatures::sve_i8mm, "sve_i8mm"},
        {&CpuFeatures::sve_bf16, "sve_bf16"},
        {&CpuFeatures::sme, "sme"},
        {&CpuFeatures::sme2, "sme2"},
        {&CpuFeatures::sse42, "sse4.2"},
        {&CpuFeatures::avx, "avx"},
        {&CpuFeatures::avx2, "avx2"},
        {&CpuFeatures::fma, "fma"},
        {&CpuFeatures::f16c, "f16c"},
        {&CpuFeatures::bmi2, "bmi2"},
        {&CpuFeatures::avx_vnni, "avx_vnni"},
        {&CpuFeatures::avx512f, "avx512f"},
        {&CpuFeatures::avx512bw, "avx512bw"},
        {&CpuFeatures::avx512vl, "avx512vl"},
        {&CpuFeatures::avx512dq, "avx512dq"},
        {&CpuFeatures::avx512vnni, "avx512vnni"},
        {&CpuFeatures::avx512vbmi, "avx512vbmi"},
        {&CpuFeatures::avx512bf16, "avx512bf16"},
        {&CpuFeatures::avx512fp16, "avx512fp16"},
        {&CpuFeatures::amx_tile, "amx_tile"},
        {&CpuFeatures::amx_int8, "amx_int8"},
        {&CpuFeatures::amx_bf16, "amx_bf16"},
    };
    std::vector<std::string_view> names;
    for (const Entry& entry : kEntries) {
        if (features.*entry.member) names.push_back(entry.name);
    }
    return names;
}

}  // namespace hearth
