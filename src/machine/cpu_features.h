// What the CPU can do and the kernel lets us use. The decoders are pure, so that every CPU is testable on any other.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace hearth {

// True means usable: the instructions exist and the operating system saves the registers they need.
struct CpuFeatures {
    // aarch64
    bool neon = false;
    bool fp16 = false;
    bool fhm = false;  // f16 multiply-add into f32
    bool dotprod = false;
    bool i8mm = false;
    bool bf16 = false;
    bool sve = false;
    bool sve2 = false;
    bool sve_i8mm = false;
    bool sve_bf16 = false;
    bool sme = false;
    bool sme2 = false;
    std::uint32_t sve_vector_bytes = 0;  // 0 without SVE

    // x86-64
    bool sse42 = false;
    bool avx = false;
    bool avx2 = false;
    bool fma = false;
    bool f16c = false;
    bool bmi2 = false;
    bool avx_vnni = false;
    bool avx512f = false;
    bool avx512bw = false;
    bool avx512vl = false;
    bool avx512dq = false;
    bool avx512vnni = false;
    bool avx512vbmi = false;
    bool avx512bf16 = false;
    bool avx512fp16 = false;
    bool amx_tile = false;
    bool amx_int8 = false;
    bool amx_bf16 = false;
    // Linux hands out the tile registers per process and on request only, which the kernels make.
    bool amx_permitted = false;

    bool operator==(const CpuFeatures&) const = default;
};

struct CpuidRegisters {
    std::uint32_t eax = 0;
    std::uint32_t ebx = 0;
    std::uint32_t ecx = 0;
    std::uint32_t edx = 0;
};

// What the x86 decoder looks at. Leaves the CPU does not have may hold anything.
struct CpuidLeaves {
    std::uint32_t max_leaf = 0;  // EAX of leaf 0
    CpuidRegisters leaf1;
    CpuidRegisters leaf7;  // subleaf 0; its EAX is the highest subleaf
    CpuidRegisters leaf7_sub1;
    std::uint64_t xcr0 = 0;              // register states the kernel saves; only read when OSXSAVE is set
    std::uint64_t permitted_states = 0;  // ARCH_GET_XCOMP_PERM
};

CpuFeatures decode_cpuid(const CpuidLeaves& leaves);
CpuFeatures decode_arm_hwcap(std::uint64_t hwcap, std::uint64_t hwcap2);

// Of the running CPU. Cheap enough to call anywhere; changes nothing.
CpuFeatures detect_cpu_features();

// The names of those that are set, in the order of the struct.
std::vector<std::string_view> feature_names(const CpuFeatures& features);

}  // namespace hearth
