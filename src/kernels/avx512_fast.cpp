// x86-64 with AVX-512 VNNI: the fast matmul over packed weights, with VPDPBUSD.
#include "kernels/panels_x86.h"
#include "kernels/panels_x86_avx512.h"
// After the vocabulary it is written in.
#include "kernels/panels_x86_fast.h"

#if !defined(__AVX512VNNI__) || !defined(__AVX512BW__)
#error "this file needs AVX-512 BW and VNNI; see room.cmake"
#endif

namespace hearth {

namespace {

// Half a tile by two panels: sixteen sums hide the latency of a product, and leave registers for its factors.
constexpr std::size_t kHalfTokens = 8;

// kColumns columns that lie together.
template <std::size_t kColumns, std::size_t kPanels>
[[gnu::always_inline]] inline void multiply_columns(const Ints* const (&w)[kPanels], const std::byte* x,
                                                    Ints (&sums)[kHalfTokens][kPanels]) {
    unrolled<kColumns / 4>([&](auto v) __attribute__((always_inline)) {
        for (std::size_t t = 0; t < kHalfTokens; ++t) {
            const Ints four = broadcast4(x + kColumns * t + 4 * v.kIndex);
            for (std::size_t p = 0; p < kPanels; ++p) {
                sums[t][p] = _mm512_dpbusd_epi32(sums[t][p], four, w[p][v.kIndex]);
            }
        }
    });
}

template <std::size_t kPanels>
void multiply_half_tile(const FastStep& step, std::size_t token) {
    const Ints* w[kPanels];
    Ints sums[kHalfTokens][kPanels];
    for (std::size_t p = 0; p < kPanels; ++p) {
        w[p] = step.w[p]->q;
        for (std::size_t t = 0; t < kHalfTokens; ++t) sums[t][p] = step.w[p]->offset;
    }
    std::size_t column = 0;
    for (; column + kFastStep <= step.columns; column += kFastStep) {
        multiply_columns<kFastStep>(w, step.x + kFastTokens * column + kFastStep * token, sums);
        for (std::size_t p = 0; p < kPanels; ++p) w[p] += kFastStep / 4;
    }
    if (column < step.columns) multiply_columns<32>(w, step.x + kFastTokens * column + 32 * token, sums);
    for (std::size_t p = 0; p < kPanels; ++p) {
        const Floats scale = step.w[p]->scale;
        FastRow* out = step.sums[p] + token;
        const float* scales = step.scales + token;
        for (std::size_t t = 0; t < kHalfTokens; ++t) add_fast_sum(sums[t][p], scale, scales[t], out[t]);
    }
}

struct Vnni {
    static constexpr bool kUnsigned = true;
    static constexpr std::size_t kTiles = 1;

    void begin() {}
    void end() {}
    void add(const FastStep& step) {
        for (std::size_t token = 0; token < kFastTokens; token += kHalfTokens) {
            if (step.panels == 2) {
                multiply_half_tile<2>(step, token);
            } else {
                multiply_half_tile<1>(step, token);
            }
        }
    }
    void finish() {}
};

}  // namespace

void install_avx512_fast(Kernels& table) {
    install_fast<Vnni>(table);
}

}  // namespace hearth
