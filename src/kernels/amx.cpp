// x86-64 with AMX over AVX-512: the packed types in blocks of 256 for many tokens. A weight times its scale has at most
// fourteen bits; it is split into two planes of bytes, whose products with the activations are exact tile sums.
#include "kernels/panels_x86.h"
#include "kernels/panels_x86_avx512.h"
// After the vocabulary they are written in.
#include "kernels/panels_x86_types.h"
// After the types.
#include "kernels/panels_x86_tiles.h"

#if !defined(__AMX_INT8__) && !defined(__AMXINT8__)  // GCC's name and clang's
#error "this file needs AMX; see room.cmake"
#endif

namespace hearth {

namespace {

constexpr std::size_t kGroupTokens = 16;  // a tile of activations
constexpr std::size_t kAmxTokens = 32;    // two of them; fewer do not pay for the planes
constexpr std::size_t kColumnTiles = 4;   // 64 columns each
constexpr int kPlaneBits = 7;

// Eight tiles of sixteen rows and 64 bytes, in the format LDTILECFG reads.
struct TileShapes {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);

// The intrinsics of tiles say nothing to the compiler about the memory they use.
[[gnu::always_inline]] inline void memory_barrier() {
    __asm__ volatile("" ::: "memory");
}

// One panel's 256 columns.
struct Planes {
    alignas(64) Ints low[kColumnTiles][16];  // w & 127
    Ints high[kColumnTiles][16];             // w >> 7
    Ints minimums[8];
    Floats d;
    Floats dmin;
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
    for (std::size_t j = 0; j < 8; ++j) planes.minimums[j] = Type::minimum_pairs(block, j, 0);
    planes.d = halves_to_floats(block);
    planes.dmin = halves_to_floats(block + 32);
}

// Tile sums of one or two groups of tokens: [plane][token][row].
struct TileSums {
    alignas(64) std::int32_t low[2 * kGroupTokens][16];
    std::int32_t high[2 * kGroupTokens][16];
};

template <std::size_t kGroups>
[[gnu::always_inline]] inline void multiply_tiles(const Planes& planes, const std::int8_t* q, std::size_t row_bytes,
                                                  TileSums& sums) {
    _tile_zero(0);
    _tile_zero(2);
    if constexpr (kGroups == 2) {
        _tile_zero(1);
        _tile_zero(3);
    }
    for (std::size_t i = 0; i < kColumnTiles; ++i) {
        _tile_loadd(4, q + 64 * i, row_bytes);
        _tile_loadd(6, planes.low[i], 64);
        _tile_loadd(7, planes.high[i], 64);
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(2, 4, 7);
        if constexpr (kGroups == 2) {
            _tile_loadd(5, q + 64 * i + kGroupTokens * row_bytes, row_bytes);
            _tile_dpbssd(1, 5, 6);
            _tile_dpbssd(3, 5, 7);
        }
    }
    _tile_stored(0, sums.low, 64);
    _tile_stored(2, sums.high, 64);
    if constexpr (kGroups == 2) {
        _tile_stored(1, sums.low[kGroupTokens], 64);
        _tile_stored(3, sums.high[kGroupTokens], 64);
    }
    memory_barrier();
}

// Four tokens at a time, whose sums of minimums hide each other's latency.
template <typename Type>
[[gnu::always_inline]] inline void finish_tokens(const Planes& planes, const TileSums& sums, std::size_t from,
                                                 const ActivationBlock256* const (&x)[4], bool begin, float* out,
                                                 std::size_t stride) {
    Ints minimum_sums[4] = {zero_ints(), zero_ints(), zero_ints(), zero_ints()};
    if constexpr (Type::kMinimum) {
        unrolled<8>([&](auto j) __attribute__((always_inline)) {
            for (std::size_t t = 0; t < 4; ++t) {
                minimum_sums[t] = add_pair_products(minimum_sums[t], planes.minimums[j.kIndex],
                                                    broadcast4(x[t]->sums + 2 * j.kIndex));
            }
        });
    }
    for (std::size_t t = 0; t < 4; ++t) {
        const Ints high = _mm512_slli_epi32(load_ints(sums.high[from + t]), kPlaneBits);
        const Ints isum = _mm512_add_epi32(load_ints(sums.low[from + t]), high);
        const Floats scale = set_floats(x[t]->scale);
        Floats sum = begin ? zero_floats() : load_floats(out + t * stride);
        sum = multiply_add(ints_to_floats(isum), multiply(planes.d, scale), sum);
        if constexpr (Type::kMinimum) {
            sum = multiply_subtract(ints_to_floats(minimum_sums[t]), multiply(planes.dmin, scale), sum);
        }
        store_floats(out + t * stride, sum);
    }
}

template <typename Type, std::size_t kGroups>
void add_tokens(const PanelTask& task, const Planes& planes, std::size_t block, std::size_t token, float* out) {
    TileSums sums;
    const auto* first = activation_row<ActivationBlock256>(task, token) + block;
    multiply_tiles<kGroups>(planes, first->q, task.activation_row_bytes, sums);
    for (std::size_t t = 0; t < kGroups * kGroupTokens; t += 4) {
        const ActivationBlock256* x[4];
        for (std::size_t i = 0; i < 4; ++i) x[i] = activation_row<ActivationBlock256>(task, token + t + i) + block;
        finish_tokens<Type>(planes, sums, t, x, block == 0, out + (token + t) * task.out_stride, task.out_stride);
    }
}

// Whole panels and whole groups of tokens.
template <typename Type>
void matmul_tiles(const PanelTask& task) {
    const TileShapes shapes;
    _tile_loadconfig(&shapes);
    Planes planes;
    for (std::size_t row = 0; row < task.rows; row += x86::kPanelRows) {
        const std::byte* panel = task.panels + row / x86::kPanelRows * task.panel_bytes;
        for (std::size_t block = 0; block < task.columns / kBlock256; ++block) {
            unpack_planes<Type>(panel + block * Type::Layout::kBytes, planes);
            memory_barrier();
            std::size_t token = 0;
            for (; token + 2 * kGroupTokens <= task.tokens; token += 2 * kGroupTokens) {
                add_tokens<Type, 2>(task, planes, block, token, task.out + row);
            }
            if (token < task.tokens) add_tokens<Type, 1>(task, planes, block, token, task.out + row);
        }
    }
    _tile_release();
}

// What is left over of rows and tokens goes to AVX-512.
template <typename Type, DType kType>
void matmul_panels_amx(const PanelTask& task) {
    if (task.tokens < kAmxTokens || task.rows < x86::kPanelRows) return matmul_panels_avx512(kType, task);
    const std::size_t rows = task.rows / x86::kPanelRows * x86::kPanelRows;
    const std::size_t tokens = task.tokens / kGroupTokens * kGroupTokens;
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
    set_matmul<PanelQ2_K, DType::Q2_K>(table);
    set_matmul<PanelQ3_K, DType::Q3_K>(table);
    set_matmul<PanelQ4_K, DType::Q4_K>(table);
    set_matmul<PanelQ5_K, DType::Q5_K>(table);
    set_matmul<PanelQ6_K, DType::Q6_K>(table);
    set_matmul<PanelIQ4_XS, DType::IQ4_XS>(table);
}

}  // namespace hearth
