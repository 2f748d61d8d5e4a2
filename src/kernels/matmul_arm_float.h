// Matmul of F32, F16 and BF16 weights on AArch64, in the sixteen virtual lanes of the reference: lane[k % 16] =
// fma(w, x, lane) in ascending k, then the tree. Few tokens: some rows at a time, straight from memory. Many: eight
// rows are widened to f32 once, and a tile of eight rows by three tokens takes four of the sixteen lanes at a time, so
// that its sums stay in registers; the tokens are rows, or tiles in the order in which they are read. Include once in
// an ISA file.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/memory.h"
#include "kernels/ahead_arm.h"
#include "kernels/kernels.h"

namespace hearth {

namespace {

inline constexpr std::size_t kLaneCount = 16;

struct Lanes16 {
    float32x4_t at[4];
};

// A new zero, which costs nothing: the CPU only renames a register. Volatile, or compilers would keep one and copy it.
[[gnu::always_inline]] inline float32x4_t zero_lanes() {
    float32x4_t value;
    __asm__ volatile("movi %0.2d, #0" : "=w"(value));
    return value;
}

// kRows: rows that pass together over one token, so that the chain of sums of one does not have to be waited for; of
// floats memory brings too few for that to matter.
struct FloatWeights {
    using Element = float;
    static constexpr std::size_t kRows = 1;
    static float one(float w) { return w; }
    [[gnu::always_inline]] static Lanes16 load(const float* w) {
        return {{vld1q_f32(w), vld1q_f32(w + 4), vld1q_f32(w + 8), vld1q_f32(w + 12)}};
    }
};
struct HalfWeights {
    using Element = std::uint16_t;
#if defined(__ARM_FEATURE_FP16_FML)
    static constexpr std::size_t kRows = 2;
#else
    static constexpr std::size_t kRows = 1;  // FCVTL is the limit, not the sums
#endif
    static float one(std::uint16_t w) {
        return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(w))), 0);
    }
    // FCVTL is a bottleneck of one instruction a cycle. A multiplication by one widens as well, where there is one: it
    // starts from -0, which changes no number, not even -0.
    [[gnu::always_inline]] static Lanes16 load(const std::uint16_t* w) {
        const float16x8_t a = vreinterpretq_f16_u16(vld1q_u16(w));
        const float16x8_t b = vreinterpretq_f16_u16(vld1q_u16(w + 8));
#if defined(__ARM_FEATURE_FP16_FML)
        const float16x8_t one = vreinterpretq_f16_u16(vdupq_n_u16(0x3c00));
        const float32x4_t zero = vreinterpretq_f32_u32(vdupq_n_u32(0x80000000u));
        return {{vcvt_f32_f16(vget_low_f16(a)), vfmlalq_high_f16(zero, a, one), vcvt_f32_f16(vget_low_f16(b)),
                 vfmlalq_high_f16(zero, b, one)}};
#else
        return {
            {vcvt_f32_f16(vget_low_f16(a)), vcvt_high_f32_f16(a), vcvt_f32_f16(vget_low_f16(b)), vcvt_high_f32_f16(b)}};
#endif
    }
};
#if defined(__ARM_FEATURE_FP16_FML)
// As HalfWeights, but -0 is read as +0. The start from +0 is what makes it fast, and that FCVTL is not needed at all.
struct UnsignedZeroHalfWeights {
    using Element = std::uint16_t;
    static constexpr std::size_t kRows = 4;
    static float one(std::uint16_t w) { return HalfWeights::one(w); }
    [[gnu::always_inline]] static Lanes16 load(const std::uint16_t* w) {
        const float16x8_t a = vreinterpretq_f16_u16(vld1q_u16(w));
        const float16x8_t b = vreinterpretq_f16_u16(vld1q_u16(w + 8));
        const float16x8_t one = vreinterpretq_f16_u16(vdupq_n_u16(0x3c00));
        const float32x4_t zeros[4] = {zero_lanes(), zero_lanes(), zero_lanes(), zero_lanes()};
        return {{vfmlalq_low_f16(zeros[0], a, one), vfmlalq_high_f16(zeros[1], a, one),
                 vfmlalq_low_f16(zeros[2], b, one), vfmlalq_high_f16(zeros[3], b, one)}};
    }
};
#endif
struct BrainWeights {
    using Element = std::uint16_t;
    static constexpr std::size_t kRows = 2;
    static float one(std::uint16_t w) {
        return vgetq_lane_f32(vreinterpretq_f32_u32(vshll_n_u16(vdup_n_u16(w), 16)), 0);
    }
    [[gnu::always_inline]] static Lanes16 load(const std::uint16_t* w) {
        const uint16x8_t a = vld1q_u16(w);
        const uint16x8_t b = vld1q_u16(w + 8);
        const uint16x8_t zero =
            vreinterpretq_u16_f32(zero_lanes());  // interleaving it is a shift by 16, on twice as many units
        return {{vreinterpretq_f32_u16(vzip1q_u16(zero, a)), vreinterpretq_f32_u16(vzip2q_u16(zero, a)),
                 vreinterpretq_f32_u16(vzip1q_u16(zero, b)), vreinterpretq_f32_u16(vzip2q_u16(zero, b))}};
    }
};

// Weights are rows of the file (MatmulTask), or panels of four rows (PanelTask), of which each has sixteen columns in
// turn: one sequence of bytes, where four rows would be four, and memory likes that best. kSpread: the sixteens from
// one of a row's to its next.
inline constexpr std::size_t kFloatPanelRows = 4;
template <typename Task>
inline constexpr std::size_t kSpread = 1;
template <>
inline constexpr std::size_t kSpread<PanelTask> = kFloatPanelRows;

template <typename Weights>
[[gnu::always_inline]] inline const typename Weights::Element* weight_row(const MatmulTask& task, std::size_t row) {
    return reinterpret_cast<const typename Weights::Element*>(task.weights + row * task.weight_row_bytes);
}
template <typename Weights>
[[gnu::always_inline]] inline const typename Weights::Element* weight_row(const PanelTask& task, std::size_t row) {
    const std::byte* panel = task.panels + row / kFloatPanelRows * task.panel_bytes;
    return reinterpret_cast<const typename Weights::Element*>(panel) + row % kFloatPanelRows * kLaneCount;
}
// The same for the rows from `row` on.
inline MatmulTask rows_from(MatmulTask task, std::size_t row) {
    task.weights += row * task.weight_row_bytes;
    task.rows -= row;
    task.out += row;
    return task;
}
inline PanelTask rows_from(PanelTask task, std::size_t row) {
    task.panels += row / kFloatPanelRows * task.panel_bytes;
    task.rows -= row;
    task.out += row;
    return task;
}

template <typename Task>
[[gnu::always_inline]] inline const float* token_row(const Task& task, std::size_t token) {
    return reinterpret_cast<const float*>(task.activations + token * task.activation_row_bytes);
}

// The tree: l + (l + 8), + 4, + 2, + 1.
[[gnu::always_inline]] inline float32x4_t half_tree(const Lanes16& lanes) {
    return vaddq_f32(vaddq_f32(lanes.at[0], lanes.at[2]), vaddq_f32(lanes.at[1], lanes.at[3]));
}
[[gnu::always_inline]] inline float sum_tree(const Lanes16& lanes) {
    const float32x4_t four = half_tree(lanes);
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

// The rest of four trees at once.
[[gnu::always_inline]] inline float32x4_t sum_trees(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t d) {
    const auto low = [](float32x4_t x, float32x4_t y) { return vcombine_f32(vget_low_f32(x), vget_low_f32(y)); };
    const auto high = [](float32x4_t x, float32x4_t y) { return vcombine_f32(vget_high_f32(x), vget_high_f32(y)); };
    const float32x4_t ab = vaddq_f32(low(a, b), high(a, b));
    const float32x4_t cd = vaddq_f32(low(c, d), high(c, d));
    return vaddq_f32(vuzp1q_f32(ab, cd), vuzp2q_f32(ab, cd));
}

// Columns past the last whole sixteen, into lanes 0, 1, ... and no other: an added zero could turn -0 into +0.
template <typename Weights>
inline void add_tail(float* lanes, const typename Weights::Element* w, const float* x, std::size_t columns) {
    for (std::size_t i = 0; i < columns; ++i) lanes[i] = __builtin_fmaf(Weights::one(w[i]), x[i], lanes[i]);
}

// What to ask of memory while `rows` rows from `row` on are multiplied. Of rows: those some pages further on, into the
// second cache and in one sequence, as memory likes it best; several rows read at once are several sequences. Near the
// end there is nothing left to ask for.
template <typename Weights>
const std::byte* bytes_ahead(const MatmulTask& task, std::size_t row, std::size_t rows) {
    constexpr std::size_t kRowsAheadBytes = std::size_t{16} << 10;
    const std::size_t bytes = rows * task.weight_row_bytes;
    const bool far = bytes >= kRowsAheadBytes || bytes == 0;
    const std::size_t distance = far ? rows : (kRowsAheadBytes + bytes - 1) / bytes * rows;
    return task.weights + (row + distance + rows <= task.rows ? row + distance : row) * task.weight_row_bytes;
}
// Of panels, which are one sequence: what lies as far ahead as with the other types.
template <typename Weights>
const std::byte* bytes_ahead(const PanelTask& task, std::size_t row, std::size_t) {
    return reinterpret_cast<const std::byte*>(weight_row<Weights>(task, row)) + kAheadBytes;
}

// The functions with a list of indices are loops that no compiler can fail to unroll early: an array that a loop
// indexes stays in memory all along.
[[gnu::always_inline]] inline void add_products(Lanes16& sum, const Lanes16& weights, const Lanes16& values) {
    sum.at[0] = vfmaq_f32(sum.at[0], weights.at[0], values.at[0]);
    sum.at[1] = vfmaq_f32(sum.at[1], weights.at[1], values.at[1]);
    sum.at[2] = vfmaq_f32(sum.at[2], weights.at[2], values.at[2]);
    sum.at[3] = vfmaq_f32(sum.at[3], weights.at[3], values.at[3]);
}
// `at`: where a row's sixteen columns from `k` on lie behind its first.
template <typename Weights, std::size_t kTokens, std::size_t kCount, std::size_t... kRow>
[[gnu::always_inline]] inline void add_rows(Lanes16 (&lanes)[kCount],
                                            const typename Weights::Element* const (&w)[sizeof...(kRow)],
                                            const float* const (&x)[kTokens], std::size_t k, std::size_t at,
                                            std::index_sequence<kRow...>) {
    static_assert(kTokens == 1 || kTokens == 2);
    const Lanes16 first = FloatWeights::load(x[0] + k);
    if constexpr (kTokens == 1) {
        (add_products(lanes[kRow], Weights::load(w[kRow] + at), first), ...);
    } else {
        const Lanes16 second = FloatWeights::load(x[1] + k);
        const auto add_row = [&](std::size_t row, const Lanes16& weights) __attribute__((always_inline)) {
            add_products(lanes[2 * row], weights, first);
            add_products(lanes[2 * row + 1], weights, second);
        };
        (add_row(kRow, Weights::load(w[kRow] + at)), ...);
    }
}
[[gnu::always_inline]] inline void store_lanes(const Lanes16& lanes, float* out) {
    vst1q_f32(out, lanes.at[0]);
    vst1q_f32(out + 4, lanes.at[1]);
    vst1q_f32(out + 8, lanes.at[2]);
    vst1q_f32(out + 12, lanes.at[3]);
}
template <std::size_t kCount, std::size_t... kIndices>
[[gnu::always_inline]] inline void store_lanes(const Lanes16 (&lanes)[kCount], float (&out)[kCount][kLaneCount],
                                               std::index_sequence<kIndices...>) {
    (store_lanes(lanes[kIndices], out[kIndices]), ...);
}

// Where rows are short the core hardly learns to fetch them before they end: the beginnings of the next ones are asked
// for, into the first cache.
template <std::size_t kRows>
[[gnu::always_inline]] inline void fetch_next_rows(const MatmulTask& task, std::size_t row) {
    constexpr std::size_t kShortRowBytes = 2048;
    constexpr std::size_t kLines = 4;
    if (task.weight_row_bytes > kShortRowBytes || row + 2 * kRows > task.rows) return;
    const std::byte* next = task.weights + (row + kRows) * task.weight_row_bytes;
    for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t i = 0; i < kLines; ++i) {
            __builtin_prefetch(next + r * task.weight_row_bytes + i * kCacheLine, 0, 3);
        }
    }
}

// Some rows and some tokens.
template <typename Weights, std::size_t kRows, std::size_t kTokens, typename Task>
void few_tile(const Task& task, std::size_t row, std::size_t token, const std::byte* ahead) {
    constexpr std::size_t kStepBytes = kRows * kLaneCount * sizeof(typename Weights::Element);
    const typename Weights::Element* w[kRows];
    const float* x[kTokens];
    Lanes16 lanes[kRows * kTokens] = {};
    for (std::size_t r = 0; r < kRows; ++r) w[r] = weight_row<Weights>(task, row + r);
    for (std::size_t t = 0; t < kTokens; ++t) x[t] = token_row(task, token + t);
    const std::size_t whole = task.columns / kLaneCount * kLaneCount;
    if constexpr (kRows == 4 && kSpread<Task> == 1) fetch_next_rows<kRows>(task, row);
    for (std::size_t k = 0; k < whole; k += kLaneCount) {
        if constexpr (kStepBytes >= kCacheLine) {
            for (std::size_t i = 0; i < kStepBytes; i += kCacheLine) __builtin_prefetch(ahead + i, 0, 2);
            ahead += kSpread<Task> == 1 ? kStepBytes : kSpread<Task> * kLaneCount * sizeof(typename Weights::Element);
        }
        add_rows<Weights, kTokens>(lanes, w, x, k, k * kSpread<Task>, std::make_index_sequence<kRows>());
    }
    if constexpr (kRows == 4 && kTokens == 1) {
        if (whole == task.columns) {
            vst1q_f32(task.out + token * task.out_stride + row,
                      sum_trees(half_tree(lanes[0]), half_tree(lanes[1]), half_tree(lanes[2]), half_tree(lanes[3])));
            return;
        }
    }
    float sums[kRows * kTokens][kLaneCount];
    store_lanes(lanes, sums, std::make_index_sequence<kRows * kTokens>());
    for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t t = 0; t < kTokens; ++t) {
            float* sum = sums[r * kTokens + t];
            add_tail<Weights>(sum, w[r] + whole * kSpread<Task>, x[t] + whole, task.columns - whole);
            task.out[(token + t) * task.out_stride + row + r] = sum_tree(FloatWeights::load(sum));
        }
    }
}

template <typename Weights, std::size_t kRows, typename Task>
void few_rows(const Task& task, std::size_t row) {
    constexpr std::size_t kPairRows = kRows < 2 ? kRows : 2;  // with two tokens there are registers for two rows
    const std::byte* ahead = bytes_ahead<Weights>(task, row, kRows);
    std::size_t token = 0;
    for (; token + 2 <= task.tokens; token += 2) {
        for (std::size_t r = 0; r < kRows; r += kPairRows) {
            few_tile<Weights, kPairRows, 2>(task, row + r, token, bytes_ahead<Weights>(task, row + r, kRows));
        }
    }
    if (token < task.tokens) few_tile<Weights, kRows, 1>(task, row, token, ahead);
}

// One token and whole panels, a single walk through all of them; the columns fill their sixteens.
template <typename Weights>
void walk_panels(const PanelTask& task, std::size_t panels) {
    constexpr std::size_t kStep = kFloatPanelRows * kLaneCount;
    const float* x[1] = {token_row(task, 0)};
    for (std::size_t panel = 0; panel < panels; ++panel) {
        const auto* w = reinterpret_cast<const typename Weights::Element*>(task.panels + panel * task.panel_bytes);
        Lanes16 lanes[kFloatPanelRows] = {};
        for (std::size_t k = 0; k < task.columns; k += kLaneCount, w += kStep) {
            fetch_ahead<kStep * sizeof(*w)>(reinterpret_cast<const std::byte*>(w));
            add_rows<Weights, 1>(lanes, {w, w + kLaneCount, w + 2 * kLaneCount, w + 3 * kLaneCount}, x, k, 0,
                                 std::make_index_sequence<kFloatPanelRows>());
        }
        vst1q_f32(task.out + panel * kFloatPanelRows,
                  sum_trees(half_tree(lanes[0]), half_tree(lanes[1]), half_tree(lanes[2]), half_tree(lanes[3])));
    }
}

template <typename Weights, typename Task>
void few_tokens(const Task& task) {
    constexpr std::size_t kRows = kSpread<Task> != 1 ? kFloatPanelRows : Weights::kRows;
    constexpr std::size_t kGroupRows = kRows < 2 ? 2 : kRows;
    std::size_t row = 0;
    if (task.tokens == 1) {
        if constexpr (kSpread<Task> != 1) {
            walk_panels<Weights>(task, task.rows / kRows);
            row = task.rows / kRows * kRows;
        } else {
            for (; row + kRows <= task.rows; row += kRows) few_rows<Weights, kRows>(task, row);
        }
    } else {
        for (; row + kGroupRows <= task.rows; row += kGroupRows) few_rows<Weights, kGroupRows>(task, row);
    }
    for (; row < task.rows; ++row) few_rows<Weights, 1>(task, row);
}

#if defined(__ARM_FEATURE_FP16_FML)
// Whether the sign of a zero weight shows nowhere. It can where a sum is -0, and sums start from +0, so that one
// becomes -0 only by rounding a smaller number. No such number arises if every activation is 0 or at least 2^-102: a
// half is a multiple of 2^-24 and such a float of 2^-125, so all exact sums are multiples of 2^-149, the smallest
// float.
template <typename Task>
bool zeros_need_no_sign(const Task& task) {
    constexpr std::uint32_t kLeast = (127u - 102u) << 23;
    for (std::size_t token = 0; token < task.tokens; ++token) {
        const float* x = token_row(task, token);
        // Of the magnitudes less one: 0 becomes the largest of all. Four, or each would wait for the one before.
        const uint32x4_t most = vdupq_n_u32(0xffffffffu);
        uint32x4_t least[4] = {most, most, most, most};
        const auto meet = [](uint32x4_t& so_far, float32x4_t values) {
            const uint32x4_t magnitudes = vreinterpretq_u32_f32(vabsq_f32(values));
            so_far = vminq_u32(so_far, vsubq_u32(magnitudes, vdupq_n_u32(1)));
        };
        std::size_t k = 0;
        for (; k + kLaneCount <= task.columns; k += kLaneCount) {
            meet(least[0], vld1q_f32(x + k));
            meet(least[1], vld1q_f32(x + k + 4));
            meet(least[2], vld1q_f32(x + k + 8));
            meet(least[3], vld1q_f32(x + k + 12));
        }
        for (; k < task.columns; ++k) meet(least[0], vdupq_n_f32(x[k]));
        const uint32x4_t all = vminq_u32(vminq_u32(least[0], least[1]), vminq_u32(least[2], least[3]));
        if (vminvq_u32(all) < kLeast - 1) return false;
    }
    return true;
}
#endif

template <typename Task>
void few_tokens_half(const Task& task) {
#if defined(__ARM_FEATURE_FP16_FML)
    if (zeros_need_no_sign(task)) return few_tokens<UnsignedZeroHalfWeights>(task);
#endif
    few_tokens<HalfWeights>(task);
}

inline constexpr std::size_t kTileRows = 8;
inline constexpr std::size_t kTileTokens = 3;
inline constexpr std::size_t kChunkColumns = 1024;
inline constexpr std::size_t kGroupTiles = 43;  // tiles of tokens that share widened rows and stay in the second cache

// Eight widened rows: [lane group][sixteen columns][row] of four floats.
struct WideRows {
    alignas(64) float at[4][kChunkColumns / kLaneCount][kTileRows][4];
};
// The sums of a tile: [lane group][token][row].
struct TileLanes {
    float32x4_t at[4][kTileTokens][kTileRows];
};
// Four lanes of the tokens of a tile: where each begins, and the bytes to its next four.
struct TokenLanes {
    const float* at[kTileTokens];
    std::size_t stride;
};

// Rows of activations. Tokens past the end repeat the last one: computed, never stored.
template <typename Task>
struct TokenRows {
    const Task& task;
    std::size_t last;
    [[gnu::always_inline]] TokenLanes lanes(std::size_t token, std::size_t column, std::size_t,
                                            std::size_t group) const {
        TokenLanes out = {.at = {}, .stride = kLaneCount * sizeof(float)};
        for (std::size_t t = 0; t < kTileTokens; ++t) {
            out.at[t] = token_row(task, token + t < last ? token + t : last - 1) + column + 4 * group;
        }
        return out;
    }
};

// Tiles of activations: [chunk of columns][lane group][sixteen columns][token] of four floats, so that the whole tile
// is one sequence, as the second cache likes it best.
template <typename Task>
struct TokenTiles {
    const Task& task;
    std::size_t last;
    [[gnu::always_inline]] TokenLanes lanes(std::size_t token, std::size_t column, std::size_t steps,
                                            std::size_t group) const {
        const float* tile = token_row(task, token) + kTileTokens * (column + 4 * steps * group);
        return {{tile, tile + 4, tile + 8}, 4 * kTileTokens * sizeof(float)};
    }
};

inline void tile_floats(const TileTask& task) {
    auto* out = reinterpret_cast<float*>(task.out);
    for (std::size_t begin = 0; begin < task.columns; begin += kChunkColumns) {
        const std::size_t left = task.columns - begin;
        const std::size_t steps = (left < kChunkColumns ? left : kChunkColumns) / kLaneCount;
        for (std::size_t t = 0; t < kTileTokens; ++t) {
            const auto* row = reinterpret_cast<const float*>(task.rows + t * task.row_bytes) + begin;
            for (std::size_t i = 0; i < 4 * steps; ++i) {  // four columns each
                float* to = out + (i % 4 * steps + i / 4) * 4 * kTileTokens + 4 * t;
                vst1q_f32(to, t < task.tokens ? vld1q_f32(row + 4 * i) : vdupq_n_f32(0.0f));
            }
        }
        out += kTileTokens * kLaneCount * steps;
    }
}

template <typename Weights, typename Task>
void widen_rows(const Task& task, std::size_t row, std::size_t first, std::size_t steps, WideRows& out) {
    const typename Weights::Element* w[kTileRows];
    for (std::size_t r = 0; r < kTileRows; ++r) w[r] = weight_row<Weights>(task, row + r) + first * kSpread<Task>;
    for (std::size_t k = 0; k < steps; ++k) {
        for (std::size_t r = 0; r < kTileRows; ++r) {
            const Lanes16 lanes = Weights::load(w[r] + k * kLaneCount * kSpread<Task>);
            for (std::size_t i = 0; i < 4; ++i) vst1q_f32(out.at[i][k][r], lanes.at[i]);
        }
    }
}

// Four lanes of all sums of a tile over a chunk of at least one step, from those `before` or from zero. Assembly,
// because compilers spill a few of the sums, and then wait for them. Four rows take one token after the other: the
// other way round, three products to a vector of weights, the pipes lose a tenth. Registers: v8-v31 sums by token and
// row, v0-v2 activations, v4-v7 weights.
[[gnu::always_inline]] inline void multiply_lanes(const float (*w)[kTileRows][4], TokenLanes x, std::size_t steps,
                                                  const float32x4_t (*before)[kTileRows],
                                                  float32x4_t (*after)[kTileRows]) {
    __asm__ volatile(
        "cbz %[before], 2f\n"
        "ldp q8, q9, [%[before], #0]\n"
        "ldp q10, q11, [%[before], #32]\n"
        "ldp q12, q13, [%[before], #64]\n"
        "ldp q14, q15, [%[before], #96]\n"
        "ldp q16, q17, [%[before], #128]\n"
        "ldp q18, q19, [%[before], #160]\n"
        "ldp q20, q21, [%[before], #192]\n"
        "ldp q22, q23, [%[before], #224]\n"
        "ldp q24, q25, [%[before], #256]\n"
        "ldp q26, q27, [%[before], #288]\n"
        "ldp q28, q29, [%[before], #320]\n"
        "ldp q30, q31, [%[before], #352]\n"
        "b 1f\n"
        "2:\n"
        "movi v8.4s, #0\n"
        "movi v9.4s, #0\n"
        "movi v10.4s, #0\n"
        "movi v11.4s, #0\n"
        "movi v12.4s, #0\n"
        "movi v13.4s, #0\n"
        "movi v14.4s, #0\n"
        "movi v15.4s, #0\n"
        "movi v16.4s, #0\n"
        "movi v17.4s, #0\n"
        "movi v18.4s, #0\n"
        "movi v19.4s, #0\n"
        "movi v20.4s, #0\n"
        "movi v21.4s, #0\n"
        "movi v22.4s, #0\n"
        "movi v23.4s, #0\n"
        "movi v24.4s, #0\n"
        "movi v25.4s, #0\n"
        "movi v26.4s, #0\n"
        "movi v27.4s, #0\n"
        "movi v28.4s, #0\n"
        "movi v29.4s, #0\n"
        "movi v30.4s, #0\n"
        "movi v31.4s, #0\n"
        "1:\n"
        "ldp q4, q5, [%[w]]\n"
        "ldr q0, [%[x0]]\n"
        "ldp q6, q7, [%[w], #32]\n"
        "ldr q1, [%[x1]]\n"
        "fmla v8.4s, v4.4s, v0.4s\n"
        "fmla v9.4s, v5.4s, v0.4s\n"
        "fmla v10.4s, v6.4s, v0.4s\n"
        "fmla v11.4s, v7.4s, v0.4s\n"
        "ldr q2, [%[x2]]\n"
        "fmla v16.4s, v4.4s, v1.4s\n"
        "fmla v17.4s, v5.4s, v1.4s\n"
        "fmla v18.4s, v6.4s, v1.4s\n"
        "fmla v19.4s, v7.4s, v1.4s\n"
        "add %[x0], %[x0], %[stride]\n"
        "add %[x1], %[x1], %[stride]\n"
        "fmla v24.4s, v4.4s, v2.4s\n"
        "fmla v25.4s, v5.4s, v2.4s\n"
        "fmla v26.4s, v6.4s, v2.4s\n"
        "fmla v27.4s, v7.4s, v2.4s\n"
        "ldp q4, q5, [%[w], #64]\n"
        "ldp q6, q7, [%[w], #96]\n"
        "add %[w], %[w], #128\n"
        "fmla v12.4s, v4.4s, v0.4s\n"
        "fmla v13.4s, v5.4s, v0.4s\n"
        "fmla v14.4s, v6.4s, v0.4s\n"
        "fmla v15.4s, v7.4s, v0.4s\n"
        "add %[x2], %[x2], %[stride]\n"
        "subs %[steps], %[steps], #1\n"
        "fmla v20.4s, v4.4s, v1.4s\n"
        "fmla v21.4s, v5.4s, v1.4s\n"
        "fmla v22.4s, v6.4s, v1.4s\n"
        "fmla v23.4s, v7.4s, v1.4s\n"
        "fmla v28.4s, v4.4s, v2.4s\n"
        "fmla v29.4s, v5.4s, v2.4s\n"
        "fmla v30.4s, v6.4s, v2.4s\n"
        "fmla v31.4s, v7.4s, v2.4s\n"
        "b.ne 1b\n"
        "stp q8, q9, [%[after], #0]\n"
        "stp q10, q11, [%[after], #32]\n"
        "stp q12, q13, [%[after], #64]\n"
        "stp q14, q15, [%[after], #96]\n"
        "stp q16, q17, [%[after], #128]\n"
        "stp q18, q19, [%[after], #160]\n"
        "stp q20, q21, [%[after], #192]\n"
        "stp q22, q23, [%[after], #224]\n"
        "stp q24, q25, [%[after], #256]\n"
        "stp q26, q27, [%[after], #288]\n"
        "stp q28, q29, [%[after], #320]\n"
        "stp q30, q31, [%[after], #352]\n"
        : [w] "+r"(w), [x0] "+r"(x.at[0]), [x1] "+r"(x.at[1]), [x2] "+r"(x.at[2]), [steps] "+r"(steps)
        : [before] "r"(before), [after] "r"(after), [stride] "r"(x.stride)
        : "memory", "cc", "v0", "v1", "v2", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
          "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29",
          "v30", "v31");
}

// From the lanes of a tile, eight rows from `row` on by the tokens [first, last), to its outputs.
template <typename Weights, typename Task>
void store_tile(const Task& task, std::size_t row, std::size_t first, std::size_t last, const TileLanes& tile) {
    const std::size_t whole = task.columns / kLaneCount * kLaneCount;
    for (std::size_t token = first; token < last; ++token) {
        const std::size_t t = token - first;
        float* out = task.out + token * task.out_stride + row;
        if (whole == task.columns) {
            for (std::size_t r = 0; r < kTileRows; r += 4) {
                float32x4_t four[4];
                for (std::size_t i = 0; i < 4; ++i) {
                    four[i] = half_tree(
                        {{tile.at[0][t][r + i], tile.at[1][t][r + i], tile.at[2][t][r + i], tile.at[3][t][r + i]}});
                }
                vst1q_f32(out + r, sum_trees(four[0], four[1], four[2], four[3]));
            }
            continue;
        }
        for (std::size_t r = 0; r < kTileRows; ++r) {
            float lanes[kLaneCount];
            for (std::size_t group = 0; group < 4; ++group) vst1q_f32(lanes + 4 * group, tile.at[group][t][r]);
            add_tail<Weights>(lanes, weight_row<Weights>(task, row + r) + whole * kSpread<Task>,
                              token_row(task, token) + whole, task.columns - whole);
            out[r] = sum_tree(FloatWeights::load(lanes));
        }
    }
}

// A chunk of the eight rows of weights that come next, to be asked for in small parts, for the second cache.
template <typename Weights, typename Task>
class ChunkAhead {
public:
    ChunkAhead(const Task& task, std::size_t row, std::size_t column, std::size_t parts) : part_(kLines / parts + 1) {
        if (row + kTileRows > task.rows) return;
        const typename Weights::Element* first = weight_row<Weights>(task, row);
        bytes_ = reinterpret_cast<const std::byte*>(first + column * kSpread<Task>);
        run_stride_ = static_cast<std::size_t>(weight_row<Weights>(task, row + kSpread<Task>) - first) *
                      sizeof(typename Weights::Element);
        end_ = kLines;
    }
    [[gnu::always_inline]] void prefetch_part() {
        for (std::size_t i = 0; i < part_ && at_ < end_; ++i, ++at_) {
            __builtin_prefetch(bytes_ + at_ / kRunLines * run_stride_ + at_ % kRunLines * kCacheLine, 0, 2);
        }
    }

private:
    // A run: the chunk's columns of a row, or of a panel's rows.
    static constexpr std::size_t kRunLines =
        kSpread<Task> * kChunkColumns * sizeof(typename Weights::Element) / kCacheLine;
    static constexpr std::size_t kLines = kTileRows / kSpread<Task> * kRunLines;
    const std::byte* bytes_ = nullptr;
    std::size_t run_stride_ = 0;
    std::size_t part_;
    std::size_t at_ = 0;
    std::size_t end_ = 0;
};

// Eight rows and the tokens [first, tokens.last). Sums that no other chunk needs stay where those of the tile before
// were: with all of them the first cache would overflow.
template <typename Weights, typename Task, typename Tokens>
void multiply_group(const Task& task, std::size_t row, std::size_t first, const Tokens& tokens) {
    WideRows wide;
    TileLanes sums[kGroupTiles];  // of all tiles, between two chunks
    TileLanes done;
    const std::size_t tiles = (tokens.last - first + kTileTokens - 1) / kTileTokens;
    const std::size_t whole = task.columns / kLaneCount * kLaneCount;
    for (std::size_t begin = 0; begin < whole; begin += kChunkColumns) {
        const bool more = whole - begin > kChunkColumns;
        const std::size_t steps = (more ? kChunkColumns : whole - begin) / kLaneCount;
        widen_rows<Weights>(task, row, begin, steps, wide);
        ChunkAhead<Weights, Task> ahead(task, more ? row : row + kTileRows, more ? begin + kChunkColumns : 0,
                                        tiles * 4);
        for (std::size_t i = 0; i < tiles; ++i) {
            const std::size_t token = first + i * kTileTokens;
            TileLanes& after = more ? sums[i] : done;
            for (std::size_t group = 0; group < 4; ++group) {
                ahead.prefetch_part();
                multiply_lanes(wide.at[group], tokens.lanes(token, begin, steps, group), steps,
                               begin == 0 ? nullptr : sums[i].at[group], after.at[group]);
            }
            if (more) continue;
            const std::size_t end = token + kTileTokens < tokens.last ? token + kTileTokens : tokens.last;
            store_tile<Weights>(task, row, token, end, done);
        }
    }
}

// The first `rows` rows, which come in eights, and all tokens.
template <typename Weights, typename Tokens, typename Task>
void multiply_groups(const Task& task, std::size_t rows) {
    constexpr std::size_t kGroup = kGroupTiles * kTileTokens;
    for (std::size_t first = 0; first < task.tokens; first += kGroup) {
        const Tokens tokens = {task, task.tokens - first < kGroup ? task.tokens : first + kGroup};
        for (std::size_t row = 0; row < rows; row += kTileRows) {
            multiply_group<Weights>(task, row, first, tokens);
        }
    }
}

template <typename Weights, typename Task, void (*kFewTokens)(const Task&)>
void matmul_float(const Task& task) {
    if (task.tokens < 9 || task.columns < kLaneCount) return kFewTokens(task);
    const std::size_t rows = task.rows / kTileRows * kTileRows;
    multiply_groups<Weights, TokenRows<Task>>(task, rows);
    if (rows < task.rows) kFewTokens(rows_from(task, rows));
}

template <typename Weights, typename Task>
void matmul_float_tiles(const Task& task) {
    multiply_groups<Weights, TokenTiles<Task>>(task, task.rows);
}

template <typename Element>
void pack_float_panel(const PackTask& task) {
    constexpr std::size_t kBytes = kLaneCount * sizeof(Element);
    std::byte* out = task.out;
    for (std::size_t k = 0; k < task.columns; k += kLaneCount) {
        for (std::size_t r = 0; r < kFloatPanelRows; ++r, out += kBytes) {
            if (r < task.rows) {
                __builtin_memcpy(out, task.weights + r * task.weight_row_bytes + k * sizeof(Element), kBytes);
            } else {
                __builtin_memset(out, 0, kBytes);
            }
        }
    }
}

// Halves, of either kind: they come so fast that four sequences of them are too many. Floats stay rows.
template <typename Weights, void (*kFewTokens)(const PanelTask&)>
void install_float_panels(Kernels& table, DType type) {
    using Element = typename Weights::Element;
    const auto index = static_cast<std::size_t>(type);
    table.panels[index] = {.rows = kFloatPanelRows,
                           .block_columns = kLaneCount,
                           .block_bytes = kFloatPanelRows * kLaneCount * sizeof(Element),
                           .pack = pack_float_panel<Element>,
                           .matmul = matmul_float<Weights, PanelTask, kFewTokens>};
    table.float_tiles.panels_matmul[index] = matmul_float_tiles<Weights, PanelTask>;
}

inline void install_float_matmul(Kernels& table) {
    constexpr auto kFloat = static_cast<std::size_t>(DType::F32);
    constexpr auto kHalf = static_cast<std::size_t>(DType::F16);
    constexpr auto kBrain = static_cast<std::size_t>(DType::BF16);
    table.matmul[kFloat] = matmul_float<FloatWeights, MatmulTask, few_tokens<FloatWeights>>;
    table.matmul[kHalf] = matmul_float<HalfWeights, MatmulTask, few_tokens_half>;
    table.matmul[kBrain] = matmul_float<BrainWeights, MatmulTask, few_tokens<BrainWeights>>;
    static_assert(kTileRows == FloatTileKernels::kRowMultiple && kLaneCount == FloatTileKernels::kColumnMultiple);
    table.float_tiles.tile_tokens = kTileTokens;
    table.float_tiles.tile = tile_floats;
    table.float_tiles.matmul[kFloat] = matmul_float_tiles<FloatWeights, MatmulTask>;
    table.float_tiles.matmul[kHalf] = matmul_float_tiles<HalfWeights, MatmulTask>;
    table.float_tiles.matmul[kBrain] = matmul_float_tiles<BrainWeights, MatmulTask>;
    install_float_panels<HalfWeights, few_tokens_half>(table, DType::F16);
    install_float_panels<BrainWeights, few_tokens<BrainWeights>>(table, DType::BF16);
}

}  // namespace

}  // namespace hearth
