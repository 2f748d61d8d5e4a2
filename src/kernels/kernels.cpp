// Which levels this CPU can run. Each is the one below it with some entries replaced.
#include "kernels/kernels.h"

#include <array>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace hearth {

namespace {

constexpr std::size_t kMaxLevels = 5;

struct Levels {
    std::array<Kernels, kMaxLevels> tables{};
    std::size_t count = 0;

    void stack(std::string_view name, void (*install)(Kernels&)) {
        if (count > 0) tables[count] = tables[count - 1];
        install(tables[count]);
        tables[count].level = name;
        ++count;
    }
};

#if defined(__aarch64__)

struct ArmFeatures {
    bool dotprod = false;
    bool fp16fml = false;
    bool i8mm = false;
};

ArmFeatures detect() {
    ArmFeatures features;
#if defined(__linux__)
    constexpr unsigned long kDotProduct = 1ul << 20;    // HWCAP_ASIMDDP
    constexpr unsigned long kHalfProducts = 1ul << 23;  // HWCAP_ASIMDFHM
    constexpr unsigned long kInt8Matrix = 1ul << 13;    // HWCAP2_I8MM
    features.dotprod = (getauxval(AT_HWCAP) & kDotProduct) != 0;
    features.fp16fml = features.dotprod && (getauxval(AT_HWCAP) & kHalfProducts) != 0;
    // Every CPU with int8 matrices multiplies halves into floats as well; the level uses both.
    features.i8mm = features.fp16fml && (getauxval(AT_HWCAP2) & kInt8Matrix) != 0;
#endif
    return features;
}

void stack_isa_levels(Levels& levels) {
    levels.stack("neon", install_neon);
    const ArmFeatures features = detect();
    if (features.dotprod) levels.stack("dotprod", install_dotprod);
    if (features.fp16fml) levels.stack("fp16fml", install_fp16fml);
    if (features.i8mm) levels.stack("i8mm", install_i8mm);
}

#elif defined(__x86_64__)

struct X86Features {
    bool avx2 = false;    // with FMA and F16C, and the system saving the registers
    bool avx512 = false;  // F, BW, VL, DQ and VNNI
    bool amx = false;     // tiles of int8 and bf16, and the system's permission to use them
};

// The system keeps room for tiles only for a process that has asked.
bool permit_tiles() {
#if defined(__linux__)
    constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr long kTileData = 18;
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
    return false;
#endif
}

X86Features detect() {
    X86Features features;
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0) return features;
    constexpr unsigned kFma = 1u << 12;
    constexpr unsigned kOsxsave = 1u << 27;
    constexpr unsigned kAvx = 1u << 28;
    constexpr unsigned kF16c = 1u << 29;
    constexpr unsigned kNeeded = kFma | kOsxsave | kAvx | kF16c;
    if ((c & kNeeded) != kNeeded) return features;
    unsigned saved = 0;
    unsigned saved_high = 0;
    __asm__("xgetbv" : "=a"(saved), "=d"(saved_high) : "c"(0));
    if ((saved & 0x6u) != 0x6u) return features;  // XMM and YMM
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return features;
    features.avx2 = (b & (1u << 5)) != 0;
    constexpr unsigned kF = 1u << 16;
    constexpr unsigned kDq = 1u << 17;
    constexpr unsigned kBw = 1u << 30;
    constexpr unsigned kVl = 1u << 31;
    constexpr unsigned kVnni = 1u << 11;  // in ECX
    const bool wide = (b & (kF | kDq | kBw | kVl)) == (kF | kDq | kBw | kVl) && (c & kVnni) != 0;
    features.avx512 = features.avx2 && wide && (saved & 0xe6u) == 0xe6u;  // and the opmask and ZMM registers
    constexpr unsigned kTiles = (1u << 22) | (1u << 24) | (1u << 25);     // in EDX
    constexpr unsigned kTilesSaved = (1u << 17) | (1u << 18);
    const bool tiles = (d & kTiles) == kTiles && (saved & kTilesSaved) == kTilesSaved;
    features.amx = features.avx512 && tiles && permit_tiles();
    return features;
}

void stack_isa_levels(Levels& levels) {
    const X86Features features = detect();
    if (features.avx2) levels.stack("avx2", install_avx2);
    if (features.avx512) levels.stack("avx512", install_avx512);
    if (features.amx) levels.stack("amx", install_amx);
}

#else

void stack_isa_levels(Levels&) {}

#endif

Levels make_levels() {
    Levels levels;
    levels.stack("reference", install_reference);
    stack_isa_levels(levels);
    return levels;
}

}  // namespace

std::span<const Kernels> supported_kernels() {
    static const Levels levels = make_levels();
    return {levels.tables.data(), levels.count};
}

const Kernels* find_kernels(std::string_view level) {
    const std::span<const Kernels> all = supported_kernels();
    if (level.empty()) return &all.back();
    for (const Kernels& kernels : all) {
        if (kernels.level == level) return &kernels;
    }
    return nullptr;
}

}  // namespace hearth
