// x86-64 with AMX over AVX-512: packed types in blocks of 256 for many tokens. A weight times its scale has at most
// fourteen bits; it is split into two planes of bytes, whose products with the activations are exact tile sums. For
// types with minimums AVX-512 is as fast, and does them.
#include "kernels/panels_x86.h"
#include "kernels/panels_x86_avx512.h"
// After the vocabulary they are written in.
#include "kernels/panels_x86_types.h"
// After the types.
#include "kernels/panels_x86_tiles.h"
#include "kernels/tiles_amx.h"

#if !defined(__AMX_INT8__) && !defined(__AMXINT8__)  // GCC's name and clang's
#error "this file needs AMX; see room.cmake"
#endif

namespace hearth {

namespace {

constexpr std::size_t kGroupTokens = 16;   // a tile of activations
constexpr std::size_t kPairTokens = 32;    // two of them at a time; fewer do not pay for the planes
constexpr std::size_t kBatchTokens = 256;  // that share unpacked planes
constexpr std::size_t kPanelsAtOnce = 2;   // that meet a pair of groups while it is in the first cache
constexpr std::size_t kColumnTiles = 4;    // 64 columns each
constexpr int kPlaneBits = 7;

// One panel's 256 columns.
struct Planes {
    alignas(64) Ints low[kColumnTiles][16];  // w & 127
    Ints high[kColumnTiles][16];             // w >> 7
    Floats d;
};

// Both bytes of a word from the words of even and of odd bytes.
[[gnu::always_inline]] inline Ints join_bytes(Ints even, Ints odd) {
    return _mm512_or_si512(_mm512_and_si512(even, _mm512_set1_epi16(0xff)), _mm512_slli_epi16(odd, 8));
}

template <typename Type>
[[gnu::always_inline]] inline void put_planes(Ints unsigned_weights, Ints scale, Ints& low, Ints& high) {
    const Ints weights = _mm512_sub_epi8(unsigned_weights, _mm512_set1_epi8(static_cast<char>(Type::kOffset)));
    const Ints even = _mm512_mullo_epi16(_mm512_srai_epi16(_mm512_slli_epi16(weights, 8), 8), scale);
    const Ints odd = _mm512_mullo_epi16(_mm512_srai_epi16(weights, 8), scale);
    const Ints mask = _mm512_set1_epi16((1 << kPlaneBits) - 1);
    low = join_bytes(_mm512_and_si512(even, mask), _mm512_and_si512(odd, mask));
    high = join_bytes(_mm512_srai_epi16(even, kPlaneBits), _mm512_srai_epi16(odd, kPlaneBits));
}

template <typename Type>
void unpack_planes(const std::byte* block, Planes& planes) {
    for (std::size_t group = 0; group < 8 / Type::kPeriod; ++group) {
        unrolled<Type::kPeriod>([&](auto j) __attribute__((always_inline)) {
            const std::size_t sub_block = group * Type::kPeriod + j.kIndex;
            prefetch<Type::Layout::kBytes, 8>(block, sub_block);
            const Ints scales = Type::scales(block, sub_block, 0);
            const Ints even = pair_twice(scales);  // for the first sixteen columns, in both words of a lane
            const Ints upper = _mm512_srli_epi32(scales, 16);
            const Ints odd = Type::kPairScales ? pair_twice(upper) : even;
            Ints* low = planes.low[sub_block / 2] + sub_block % 2 * 8;
            Ints* high = planes.high[sub_block / 2] + sub_block % 2 * 8;
            unrolled<8>([&](auto v) __attribute__((always_inline)) {
                const Ints weights = Type::template weight<decltype(j)::kIndex, decltype(v)::kIndex>(block, group, 0);
                put_planes<Type>(weights, v.kIndex < 4 ? even : odd, low[v.kIndex], high[v.kIndex]);
            });
        });
    }
    planes.d = halves_to_floats(block);
}

// Tile sums of two groups of tokens: [token][row] of both planes.
struct TileSums {
    alignas(64) std::int32_t low[kPairTokens][16];
    std::int32_t high[kPairTokens][16];
};

// The products of two groups of tokens with two tiles of weights, added to tiles 0 to 3.
[[gnu::always_inline]] inline void multiply_tiles(const std::int8_t* tokens, std::size_t row_bytes, const Ints* low,
                                                  const Ints* high) {
    _tile_loadd(4, tokens, row_bytes);
    _tile_loadd(6, low, 64);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(5, tokens + kGroupTokens * row_bytes, row_bytes);
    _tile_dpbssd(1, 5, 6);
    _tile_loadd(7, high, 64);
    _tile_dpbssd(2, 4, 7);
    _tile_dpbssd(3, 5, 7);
}

[[gnu::always_inline]] inline void clear_tiles() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

[[gnu::always_inline]] inline void store_tiles(TileSums& sums) {
    _tile_stored(0, sums.low, 64);
    _tile_stored(1, sums.low[kGroupTokens], 64);
    _tile_stored(2, sums.high, 64);
    _tile_stored(3, sums.high[kGroupTokens], 64);
}

// Tokens that pass over some panels together, and what is kept of them while they do.
struct Batch {
    const std::byte* activations;
    std::size_t row_bytes;
    std::size_t tokens;  // whole pairs of groups
    alignas(64) float out[kPanelsAtOnce][kBatchTokens][16];

    const ActivationBlock256& at(std::size_t token, std::size_t block) const {
        return reinterpret_cast<const ActivationBlock256*>(activations + token * row_bytes)[block];
    }
};

[[gnu::always_inline]] inline void multiply_pair(const Batch& batch, const Planes& planes, std::size_t block,
                                                 std::size_t token, TileSums& sums) {
    clear_tiles();
    const std::int8_t* q = batch.at(token, block).q;
    for (std::size_t i = 0; i < kColumnTiles; ++i) {
        multiply_tiles(q + 64 * i, batch.row_bytes, planes.low[i], planes.high[i]);
    }
    store_tiles(sums);
    memory_barrier();
}

[[gnu::always_inline]] inline Floats joined(const TileSums& sums, std::size_t t) {
    const Ints high = _mm512_slli_epi32(load_ints(sums.high[t]), kPlaneBits);
    return ints_to_floats(_mm512_add_epi32(load_ints(sums.low[t]), high));
}

[[gnu::always_inline]] inline void finish_pair(const Batch& batch, const Planes& planes, std::size_t block,
                                               std::size_t token, const TileSums& sums, float (*out)[16]) {
    for (std::size_t t = 0; t < kPairTokens; ++t) {
        const Floats scale = set_floats(batch.at(token + t, block).scale);
        Floats sum = load_floats(out[token + t]);
        sum = multiply_add(joined(sums, t), multiply(planes.d, scale), sum);
        store_floats(out[token + t], sum);
    }
}

// One block of columns of up to kPanelsAtOnce panels. The tiles of one pair of groups are multiplied while the sums of
// the one before are finished.
void add_block(Batch& batch, const Planes* planes, std::size_t panels, std::size_t block) {
    TileSums sums[2];
    const std::size_t steps = batch.tokens / kPairTokens * panels;
    for (std::size_t step = 0; step <= steps; ++step) {
        if (step < steps) {
            multiply_pair(batch, planes[step % panels], block, step / panels * kPairTokens, sums[step % 2]);
        }
        if (step == 0) continue;
        const std::size_t last = step - 1;
        finish_pair(batch, planes[last % panels], block, last / panels * kPairTokens, sums[last % 2],
                    batch.out[last % panels]);
    }
}

// Whole panels and whole pairs of groups.
template <typename Type>
void matmul_tiles(const PanelTask& task) {
    _tile_loadconfig(&kTileShapes);
    Planes planes[kPanelsAtOnce];
    Batch batch;
    batch.row_bytes = task.activation_row_bytes;
    for (std::size_t token = 0; token < task.tokens; token += kBatchTokens) {
        batch.activations = task.activations + token * task.activation_row_bytes;
        batch.tokens = task.tokens - token < kBatchTokens ? task.tokens - token : kBatchTokens;
        for (std::size_t row = 0; row < task.rows; row += kPanelsAtOnce * x86::kPanelRows) {
            const std::size_t left = (task.rows - row) / x86::kPanelRows;
            const std::size_t panels = left < kPanelsAtOnce ? left : kPanelsAtOnce;
            const std::byte* first = task.panels + row / x86::kPanelRows * task.panel_bytes;
            for (std::size_t p = 0; p < panels; ++p) {
                for (std::size_t t = 0; t < batch.tokens; ++t) store_floats(batch.out[p][t], zero_floats());
            }
            for (std::size_t block = 0; block < task.columns / kBlock256; ++block) {
                for (std::size_t p = 0; p < panels; ++p) {
                    unpack_planes<Type>(first + p * task.panel_bytes + block * Type::Layout::kBytes, planes[p]);
                }
                memory_barrier();
                add_block(batch, planes, panels, block);
            }
            for (std::size_t p = 0; p < panels; ++p) {
                float* out = task.out + token * task.out_stride + row + p * x86::kPanelRows;
                for (std::size_t t = 0; t < batch.tokens; ++t) {
                    store_floats(out + t * task.out_stride, load_floats(batch.out[p][t]));
                }
            }
        }
    }
    _tile_release();
}

// What is left over of rows and tokens goes to AVX-512.
template <typename Type, DType kType>
void matmul_panels_amx(const PanelTask& task) {
    static_assert(!Type::kMinimum);
    if (task.tokens < kPairTokens || task.rows < x86::kPanelRows) return matmul_panels_avx512(kType, task);
    const std::size_t rows = task.rows / x86::kPanelRows * x86::kPanelRows;
    const std::size_t tokens = task.tokens / kPairTokens * kPairTokens;
    PanelTask part = task;
    part.rows = rows;
    part.tokens = tokens;
    matmul_tiles<Type>(part);
    if (tokens < task.tokens) {
        part.tokens = task.tokens - tokens;
        part.activations = task.activations + tokens * task.activation_row_bytes;
        part.out = task.out + tokens * task.out_stride;
        matmul_panels_avx512(kType, part);
    }
    if (rows < task.rows) {
        part = task;
        part.panels = task.panels + rows / x86::kPanelRows * task.panel_bytes;
        part.rows = task.rows - rows;
        part.out = task.out + rows;
        matmul_panels_avx512(kType, part);
    }
}

template <typename Type, DType kType>
void set_matmul(Kernels& table) {
    table.panels[static_cast<std::size_t>(kType)].matmul = matmul_panels_amx<Type, kType>;
}

}  // namespace

void install_amx(Kernels& table) {
    set_matmul<PanelQ3_K, DType::Q3_K>(table);
    set_matmul<PanelQ6_K, DType::Q6_K>(table);
    set_matmul<PanelIQ4_XS, DType::IQ4_XS>(table);
    install_amx_fast(table);
}

}  // namespace hearth
