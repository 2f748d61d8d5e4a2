// The fast matmul over x86 panels: some columns of some panels are unpacked and rounded to int8 with one scale per 256
// columns, and stay in the cache while all tokens pass over them. What multiplies is a Level:
//   kUnsigned  it takes activations as unsigned bytes, 128 too large
//   kTiles     tiles of tokens it takes at once
//   begin()    before the first step, end() after the last
//   add(step)  adds 256 columns of one or two panels to their sums; finish() ends what is still under way
// Include after panels_x86_avx512.h.
#pragma once

#include "kernels/fast_block.h"
#include "kernels/panels_x86_types.h"
// After the types.
#include "kernels/panels_x86_tiles.h"

namespace hearth {

namespace {

inline constexpr std::size_t kFastTokens = 16;        // of a tile
inline constexpr std::size_t kFastStep = 64;          // columns of a tile that lie together
inline constexpr std::size_t kFastPanels = 4;         // that are met by a tile while it is in the first cache
inline constexpr std::size_t kFastGroups = 2;         // of 256 columns, rounded at a time
inline constexpr std::size_t kFastBatchTokens = 512;  // whose sums are kept while the columns pass

// A tile of sixteen tokens: [64 columns][token][64] bytes, the last step perhaps 32 columns wide, then for every 256
// columns the scales of the tokens.
template <bool kUnsigned>
void fast_tile(const FastTileTask& task) {
    std::byte* scales = task.out + kFastTokens * task.columns;
    for (std::size_t first = 0; first < task.columns; first += kBlock256) {
        const std::size_t columns = task.columns - first < kBlock256 ? task.columns - first : kBlock256;
        for (std::size_t t = 0; t < kFastTokens; ++t) {
            ActivationBlock256 block = fast_block(task, t, first, columns);
            if constexpr (kUnsigned) {
                for (std::int8_t* q = block.q; q < block.q + kBlock256; q += kVectorBytes) {
                    store_ints(q, xor_ints(load_ints(q), set_bytes(-128)));
                }
            }
            std::byte* out = task.out + kFastTokens * first;
            std::size_t column = 0;
            for (; column + kFastStep <= columns; column += kFastStep) {
                __builtin_memcpy(out + kFastTokens * column + kFastStep * t, block.q + column, kFastStep);
            }
            if (column < columns) __builtin_memcpy(out + kFastTokens * column + 32 * t, block.q + column, 32);
            __builtin_memcpy(scales + first / kBlock256 * kFastTokens * sizeof(float) + 4 * t, &block.scale, 4);
        }
    }
}

template <typename Type>
inline constexpr bool kBlocksOf256 = requires {
    Type::kPeriod;
};

template <typename Type>
constexpr bool has_minimum() {
    if constexpr (kBlocksOf256<Type>)
        return Type::kMinimum;
    else
        return Type::Layout::kMinimum;
}
// Whether sixteen columns have a scale of their own.
template <typename Type>
constexpr bool has_two_scales() {
    if constexpr (kBlocksOf256<Type>)
        return Type::kPairScales;
    else
        return false;
}

// w = scale * q + minimum, in the first and the second sixteen columns of a unit of 32.
struct LinearUnit {
    Floats scale[2];
    Floats minimum[2];
};

[[gnu::always_inline]] inline Ints lower_words(Ints pairs) {
    return _mm512_srai_epi32(_mm512_slli_epi32(pairs, 16), 16);
}
[[gnu::always_inline]] inline Ints upper_words(Ints pairs) {
    return _mm512_srai_epi32(pairs, 16);
}
[[gnu::always_inline]] inline Floats times(Floats d, Ints integers) {
    return multiply(d, ints_to_floats(integers));
}
[[gnu::always_inline]] inline Floats negated(Floats x) {
    return _mm512_xor_ps(x, set_floats(-0.0f));
}

// Unit `unit` of up to 256 columns that begin at `group`: four pairs of blocks of 32, or one block.
template <typename Type>
[[gnu::always_inline]] inline LinearUnit linear_unit(const std::byte* group, std::size_t unit) {
    LinearUnit out = {{zero_floats(), zero_floats()}, {zero_floats(), zero_floats()}};
    if constexpr (!kBlocksOf256<Type>) {
        const std::byte* pair = group + unit / 2 * Type::Layout::kBytes;
        out.scale[0] = Type::scale(pair, unit % 2, 0);
        if constexpr (has_minimum<Type>()) {
            out.minimum[0] = halves_to_floats(pair + Type::Layout::kMinimumAt + unit % 2 * 32);
        }
    } else {
        const Floats d = halves_to_floats(group);
        const Ints scales = Type::scales(group, unit, 0);
        out.scale[0] = times(d, has_two_scales<Type>() ? lower_words(scales) : scales);
        if constexpr (has_two_scales<Type>()) out.scale[1] = times(d, upper_words(scales));
        if constexpr (has_minimum<Type>()) {
            const Floats dmin = negated(halves_to_floats(group + 32));
            const Ints minimums = Type::minimum_pairs(group, unit, 0);
            out.minimum[0] = times(dmin, lower_words(minimums));
            if constexpr (has_two_scales<Type>()) out.minimum[1] = times(dmin, upper_words(minimums));
        }
    }
    return out;
}

[[gnu::always_inline]] inline Ints larger_magnitude(Ints reach, Floats x) {
    return _mm512_max_epu32(reach, _mm512_and_si512(_mm512_castps_si512(x), set_ints(0x7fffffff)));
}

// What rounds a group of the sixteen rows: their scale, and the factor of their linear units.
struct Rounding {
    Floats scale;
    Floats inverse;
    __mmask16 usual;  // rows whose group is neither zeros nor not finite
};
[[gnu::always_inline]] inline Rounding rounding(Ints reach) {
    const __mmask16 bad = _mm512_cmpge_epu32_mask(reach, set_ints(0x7f800000));
    const __mmask16 large = _mm512_cmpge_epu32_mask(reach, set_ints((127 - 100) << 23));
    const auto usual = static_cast<__mmask16>(large & ~bad);
    const Floats scale = _mm512_div_ps(_mm512_castsi512_ps(reach), set_floats(127.0f));
    const Floats inverse = _mm512_div_ps(set_floats(256.0f), scale);
    const Ints bits = _mm512_maskz_mov_epi32(usual, _mm512_castps_si512(scale));
    return {_mm512_castsi512_ps(_mm512_mask_mov_epi32(bits, bad, set_ints(0x7fc00000))), inverse, usual};
}
// In both words of a row.
[[gnu::always_inline]] inline Ints rounded(Floats x, const Rounding& to) {
    return pair_twice(_mm512_maskz_cvtps_epi32(to.usual, multiply(x, to.inverse)));
}

// q8 = (q * b + c + 128) >> 8 for codes that come kOffset too large: (code * b + c') >> 8. Its low eight bits are the
// upper byte of a word, whatever overflows the word.
struct CodeRounding {
    Ints b;
    Ints c;
};
template <typename Type>
[[gnu::always_inline]] inline CodeRounding code_rounding(Floats scale, Floats minimum, const Rounding& to) {
    const Ints b = rounded(scale, to);
    Ints c = _mm512_set1_epi16(128);
    if constexpr (has_minimum<Type>()) c = _mm512_add_epi16(c, rounded(minimum, to));
    if constexpr (Type::kOffset != 0) {
        c = _mm512_sub_epi16(c, _mm512_mullo_epi16(b, _mm512_set1_epi16(static_cast<short>(Type::kOffset))));
    }
    return {b, c};
}
[[gnu::always_inline]] inline Ints round_codes(Ints codes, const CodeRounding& to) {
    const Ints even = _mm512_mullo_epi16(_mm512_and_si512(codes, _mm512_set1_epi16(0xff)), to.b);
    const Ints odd = _mm512_mullo_epi16(_mm512_srli_epi16(codes, 8), to.b);
    return _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaau, _mm512_srli_epi16(_mm512_add_epi16(even, to.c), 8),
                                  _mm512_add_epi16(odd, to.c));
}

// A group of up to 256 columns of a panel, rounded: [four columns][row][4], which is also how AMX wants its second
// factor. Filled up with zeros to whole steps.
struct FastGroup {
    alignas(64) Ints q[kBlock256 / 4];
    Floats scale;
    Ints offset;  // takes back what unsigned activations are too large
};

// begin(unit), then round(Step<v>, codes) for its eight vectors, for every unit.
template <typename Type, typename Begin, typename Round>
[[gnu::always_inline]] inline void each_codes(const std::byte* group, std::size_t units, Begin begin, Round round) {
    if constexpr (!kBlocksOf256<Type>) {
        for (std::size_t unit = 0; unit < units; ++unit) {
            const std::byte* pair = group + unit / 2 * Type::Layout::kBytes;
            prefetch<Type::Layout::kBytes, 2>(pair, unit % 2);
            begin(unit);
            unrolled<8>([&](auto v) __attribute__((always_inline)) {
                round(v, Type::template weight<decltype(v)::kIndex>(pair, unit % 2, 0));
            });
        }
    } else {
        for (std::size_t turn = 0; turn < 8 / Type::kPeriod; ++turn) {
            unrolled<Type::kPeriod>([&](auto j) __attribute__((always_inline)) {
                prefetch<Type::Layout::kBytes, 8>(group, turn * Type::kPeriod + j.kIndex);
                begin(turn * Type::kPeriod + j.kIndex);
                unrolled<8>([&](auto v) __attribute__((always_inline)) {
                    round(v, Type::template weight<decltype(j)::kIndex, decltype(v)::kIndex>(group, turn, 0));
                });
            });
        }
    }
}

template <typename Level, typename Type, int kLargestCode>
void round_group(const std::byte* group, std::size_t units, FastGroup& out) {
    constexpr std::size_t kParts = has_two_scales<Type>() ? 2 : 1;
    const Floats code = set_floats(static_cast<float>(kLargestCode));
    LinearUnit linear[8];
    Ints reach = zero_ints();
    for (std::size_t unit = 0; unit < units; ++unit) {
        linear[unit] = linear_unit<Type>(group, unit);
        for (std::size_t i = 0; i < kParts; ++i) {
            const Floats s = linear[unit].scale[i];
            const Floats m = linear[unit].minimum[i];
            if constexpr (has_minimum<Type>()) {
                reach = larger_magnitude(larger_magnitude(reach, m), multiply_add(s, code, m));
            } else {
                reach = larger_magnitude(reach, multiply(s, code));
            }
        }
    }
    const Rounding to = rounding(reach);
    CodeRounding codes[2];
    Ints sum = zero_ints();
    Ints* q = out.q;
    each_codes<Type>(
        group, units,
        [&](std::size_t unit) __attribute__((always_inline)) {
            q = out.q + 8 * unit;
            for (std::size_t i = 0; i < 2; ++i) {
                const LinearUnit& part = linear[unit];
                codes[i] = code_rounding<Type>(part.scale[i % kParts], part.minimum[i % kParts], to);
            }
        },
        [&](auto v, Ints weights) __attribute__((always_inline)) {
            q[v.kIndex] = round_codes(weights, codes[v.kIndex / 4]);
            if constexpr (Level::kUnsigned) sum = _mm512_dpbusd_epi32(sum, set_bytes(1), q[v.kIndex]);
        });
    if (units % 2 != 0) {
        for (std::size_t v = 0; v < 8; ++v) out.q[8 * units + v] = zero_ints();
    }
    out.scale = to.scale;
    out.offset = _mm512_slli_epi32(_mm512_sub_epi32(zero_ints(), sum), 7);
}

using FastRow = float[x86::kPanelRows];

// Up to 256 columns of one or two panels and up to Level::kTiles tiles.
struct FastStep {
    const FastGroup* w[2];
    std::size_t panels;
    std::size_t columns;
    const std::byte* x;  // the columns in the first tile
    const float* scales;
    std::size_t tile_bytes;  // from one tile to the next
    std::size_t tiles;
    FastRow* sums[2];  // of each panel, from the first tile's first token on
};

// acc = fma(sum of products, weight scale * activation scale, acc) for one token.
[[gnu::always_inline]] inline void add_fast_sum(Ints sum, Floats weights, float activations, FastRow& out) {
    const Floats scale = multiply(weights, set_floats(activations));
    store_floats(out, multiply_add(ints_to_floats(sum), scale, load_floats(out)));
}

// Some panels by some tokens.
struct FastArea {
    std::size_t row;
    std::size_t panels;
    std::size_t first;   // token
    std::size_t tokens;  // at most kFastBatchTokens
};

struct FastBatch {
    FastGroup w[kFastPanels][kFastGroups];
    alignas(64) FastRow sums[kFastPanels][kFastBatchTokens];
};

template <typename Level>
void multiply_fast_chunk(const PanelTask& task, const FastArea& area, std::size_t begin, std::size_t groups,
                         FastBatch& batch, Level& level) {
    const std::size_t tile_bytes = kFastTokens * task.activation_row_bytes;
    const std::size_t tiles = (area.tokens + kFastTokens - 1) / kFastTokens;
    for (std::size_t first = 0; first < tiles; first += Level::kTiles) {
        const std::byte* tile = task.activations + area.first * task.activation_row_bytes + first * tile_bytes;
        const auto* scales = reinterpret_cast<const float*>(tile + kFastTokens * task.columns);
        for (std::size_t panel = 0; panel < area.panels; panel += 2) {
            const std::size_t second = panel + 1 < area.panels ? panel + 1 : panel;
            for (std::size_t g = 0; g < groups; ++g) {
                const std::size_t column = begin + g * kBlock256;
                level.add(
                    {.w = {&batch.w[panel][g], &batch.w[second][g]},
                     .panels = second - panel + 1,
                     .columns = task.columns - column < kBlock256 ? task.columns - column : kBlock256,
                     .x = tile + kFastTokens * column,
                     .scales = scales + column / kBlock256 * kFastTokens,
                     .tile_bytes = tile_bytes,
                     .tiles = tiles - first < Level::kTiles ? tiles - first : Level::kTiles,
                     .sums = {batch.sums[panel] + first * kFastTokens, batch.sums[second] + first * kFastTokens}});
            }
        }
    }
    level.finish();
}

template <typename Level, typename Type, int kLargestCode>
void multiply_fast_area(const PanelTask& task, const FastArea& area, FastBatch& batch, Level& level) {
    constexpr std::size_t kBlockColumns = kBlocksOf256<Type> ? kBlock256 : 64;
    const std::size_t tokens = (area.tokens + kFastTokens - 1) / kFastTokens * kFastTokens;
    for (std::size_t panel = 0; panel < area.panels; ++panel) {
        for (std::size_t t = 0; t < tokens; ++t) store_floats(batch.sums[panel][t], zero_floats());
    }
    for (std::size_t begin = 0; begin < task.columns; begin += kFastGroups * kBlock256) {
        std::size_t groups = 0;
        for (std::size_t column = begin; column < task.columns && groups < kFastGroups; column += kBlock256) {
            const std::size_t columns = task.columns - column < kBlock256 ? task.columns - column : kBlock256;
            for (std::size_t panel = 0; panel < area.panels; ++panel) {
                const std::byte* at = task.panels + (area.row / x86::kPanelRows + panel) * task.panel_bytes;
                round_group<Level, Type, kLargestCode>(at + column / kBlockColumns * Type::Layout::kBytes, columns / 32,
                                                       batch.w[panel][groups]);
            }
            ++groups;
        }
        multiply_fast_chunk(task, area, begin, groups, batch, level);
    }
    for (std::size_t panel = 0; panel < area.panels; ++panel) {
        for (std::size_t t = 0; t < area.tokens; ++t) {
            store_rows(task, area.row / x86::kPanelRows + panel, area.first + t, load_floats(batch.sums[panel][t]));
        }
    }
}

template <typename Level, typename Type, int kLargestCode>
void fast_matmul(const PanelTask& task) {
    FastBatch batch;
    Level level;
    level.begin();
    const std::size_t all = (task.rows + x86::kPanelRows - 1) / x86::kPanelRows;
    for (std::size_t panel = 0; panel < all; panel += kFastPanels) {
        const std::size_t panels = all - panel < kFastPanels ? all - panel : kFastPanels;
        for (std::size_t first = 0; first < task.tokens; first += kFastBatchTokens) {
            const std::size_t left = task.tokens - first;
            multiply_fast_area<Level, Type, kLargestCode>(
                task, {panel * x86::kPanelRows, panels, first, left < kFastBatchTokens ? left : kFastBatchTokens},
                batch, level);
        }
    }
    level.end();
}

template <typename Level, typename Type, int kLargestCode>
void set_fast(Kernels& table, DType type) {
    table.fast.panels_matmul[static_cast<std::size_t>(type)] = fast_matmul<Level, Type, kLargestCode>;
}

template <typename Level>
void install_fast(Kernels& table) {
    set_fast<Level, PanelQ4_0, 8>(table, DType::Q4_0);
    set_fast<Level, PanelQ4_1, 15>(table, DType::Q4_1);
    set_fast<Level, PanelQ5_0, 16>(table, DType::Q5_0);
    set_fast<Level, PanelQ5_1, 31>(table, DType::Q5_1);
    set_fast<Level, PanelQ8_0, 127>(table, DType::Q8_0);
    set_fast<Level, PanelIQ4_NL, 127>(table, DType::IQ4_NL);
    set_fast<Level, PanelMXFP4, 12>(table, DType::MXFP4);
    set_fast<Level, PanelQ2_K, 3>(table, DType::Q2_K);
    set_fast<Level, PanelQ3_K, 4>(table, DType::Q3_K);
    set_fast<Level, PanelQ4_K, 15>(table, DType::Q4_K);
    set_fast<Level, PanelQ5_K, 31>(table, DType::Q5_K);
    set_fast<Level, PanelQ6_K, 32>(table, DType::Q6_K);
    set_fast<Level, PanelIQ4_XS, 127>(table, DType::IQ4_XS);
    set_fast<Level, PanelTQ2_0, 1>(table, DType::TQ2_0);
    table.fast.tile_tokens = kFastTokens;
    table.fast.tile = fast_tile<Level::kUnsigned>;
}

}  // namespace

}  // namespace hearth
