// x86-64 with AMX: the fast matmul over packed weights. A step of 64 columns is a tile of AMX on either side.
#include "kernels/panels_x86.h"
#include "kernels/panels_x86_avx512.h"
// After the vocabulary it is written in.
#include "kernels/panels_x86_fast.h"
// After the vocabulary, too.
#include "kernels/tiles_amx.h"

#if !defined(__AMX_INT8__) && !defined(__AMXINT8__)  // GCC's name and clang's
#error "this file needs AMX; see room.cmake"
#endif

namespace hearth {

namespace {

// [panel][tile][token][row]
struct alignas(64) FastTileSums {
    std::int32_t at[2][2][kFastTokens][x86::kPanelRows];
};

// The first tile of tokens is register 4, the second 5; the first panel 6, the second 7; their sums are 0 to 3. A last
// step of 32 columns lies half as wide: what a register then reads beyond meets weights that are zero, and lies in
// front of the tile's end, where the scales are.
template <std::size_t kPanels, std::size_t kTiles>
[[gnu::always_inline]] inline void multiply_step(const FastStep& step, FastTileSums& sums) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (std::size_t column = 0; column < step.columns; column += kFastStep) {
        const std::size_t width = step.columns - column < kFastStep ? step.columns - column : kFastStep;
        const std::byte* x = step.x + kFastTokens * column;
        _tile_loadd(4, x, width);
        _tile_loadd(6, step.w[0]->q + column / 4, 64);
        _tile_dpbssd(0, 4, 6);
        if constexpr (kTiles == 2) {
            _tile_loadd(5, x + step.tile_bytes, width);
            _tile_dpbssd(1, 5, 6);
        }
        if constexpr (kPanels == 2) {
            _tile_loadd(7, step.w[1]->q + column / 4, 64);
            _tile_dpbssd(2, 4, 7);
            if constexpr (kTiles == 2) _tile_dpbssd(3, 5, 7);
        }
    }
    _tile_stored(0, sums.at[0][0], 64);
    if constexpr (kTiles == 2) _tile_stored(1, sums.at[0][1], 64);
    if constexpr (kPanels == 2) _tile_stored(2, sums.at[1][0], 64);
    if constexpr (kPanels == 2 && kTiles == 2) _tile_stored(3, sums.at[1][1], 64);
    memory_barrier();
}

class Amx {
public:
    static constexpr bool kUnsigned = false;
    static constexpr std::size_t kTiles = 2;

    void begin() { configure_tiles(kTileShapes); }
    void end() { _tile_release(); }

    // The tiles of one step are multiplied while the sums of the one before are scaled.
    void add(const FastStep& step) {
        memory_barrier();
        FastTileSums& sums = sums_[next_];
        if (step.panels == 2 && step.tiles == 2) {
            multiply_step<2, 2>(step, sums);
        } else if (step.panels == 2) {
            multiply_step<2, 1>(step, sums);
        } else if (step.tiles == 2) {
            multiply_step<1, 2>(step, sums);
        } else {
            multiply_step<1, 1>(step, sums);
        }
        finish();
        last_ = step;
        next_ = 1 - next_;
    }

    void finish() {
        const FastTileSums& sums = sums_[1 - next_];
        const FastStep step = last_;
        for (std::size_t p = 0; p < step.panels; ++p) {
            const Floats scale = step.w[p]->scale;
            for (std::size_t i = 0; i < step.tiles; ++i) {
                const float* scales = step.scales + i * (step.tile_bytes / sizeof(float));
                FastRow* out = step.sums[p] + i * kFastTokens;
                for (std::size_t t = 0; t < kFastTokens; ++t) {
                    add_fast_sum(load_ints(sums.at[p][i][t]), scale, scales[t], out[t]);
                }
            }
        }
        last_.panels = 0;
    }

private:
    FastStep last_ = {};  // multiplied, its sums not yet scaled
    std::size_t next_ = 0;
    FastTileSums sums_[2];
};

}  // namespace

void install_amx_fast(Kernels& table) {
    install_fast<Amx>(table);
}

}  // namespace hearth
