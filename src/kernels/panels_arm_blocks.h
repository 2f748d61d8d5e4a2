// Matmul over packed weights without SMMLA. What sums products of int8, SDOT or SMULL, is a parameter `Dots`. It has
// - Q4_0, Q4_K, Q5_K: their panels;
// - kTileTokens and kFewTokens: how many tokens meet weights that are unpacked in registers, at a time and at most;
// - kGroupTokens: how many meet weights at a time that have been unpacked to the stack, some columns of a panel;
// - Input<Panel, kTokens>: columns, scales and sums of the activations of several tokens, Rows or tiles;
// - floats<kFraction>(unit, x): per token the sums of a unit, less their fraction bits, as floats;
// - block_sums(block, x): per token the sums of scale times product of a block of 256;
// - minimum_sums<Panel>(block, x): per token the sums of minimum times sum of activations;
// - add_blocks(wide, blocks, x, sums): adds the products of unpacked blocks, and perhaps the same of packed ones.
#pragma once

#include <type_traits>

#include "kernels/panels_arm_types.h"

namespace hearth {

namespace {

struct Ints8 {
    int32x4_t low;  // rows 0 to 3
    int32x4_t high;
};
template <std::size_t kTokens>
struct TokenInts {
    Ints8 at[kTokens];
};
template <std::size_t kTokens>
struct TokenFloats {
    Floats8 at[kTokens];
};

template <typename Panel>
using ActivationOf = std::conditional_t<Panel::kColumns == kBlock32, ActivationBlock32, ActivationBlock256>;

// Activations as they lie, one row a token. Past the last token there is the last once more.
template <typename PanelType, std::size_t kCount>
struct Rows {
    using Panel = PanelType;
    static constexpr std::size_t kTokens = kCount;
    const ActivationOf<Panel>* at[kTokens];

    [[gnu::always_inline]] Rows(const PanelTask& task, std::size_t token, std::size_t block) {
        for (std::size_t t = 0; t < kTokens; ++t) {
            const std::size_t own = token + t < task.tokens ? token + t : task.tokens - 1;
            const std::byte* row = task.activations + own * task.activation_row_bytes;
            at[t] = reinterpret_cast<const ActivationOf<Panel>*>(row) + block;
        }
    }
    [[gnu::always_inline]] void next() {
        for (const ActivationOf<Panel>*& token : at) ++token;
    }
    [[gnu::always_inline]] float scale(std::size_t t) const { return at[t]->scale; }
    [[gnu::always_inline]] std::int32_t sum(std::size_t t) const { return at[t]->sum; }
    // Columns of unit u.
    [[gnu::always_inline]] const std::int8_t* q(std::size_t t, std::size_t u) const {
        return at[t]->q + u * kUnitColumns;
    }
    // Of 32 columns, and of their first sixteen.
    [[gnu::always_inline]] std::int32_t whole_sum(std::size_t t, std::size_t u) const {
        return at[t]->sums[2 * u] + at[t]->sums[2 * u + 1];
    }
    [[gnu::always_inline]] int16x8_t whole_sums(std::size_t t) const {
        return vpaddq_s16(vld1q_s16(at[t]->sums), vld1q_s16(at[t]->sums + 8));
    }
    [[gnu::always_inline]] int16x8_t even_sums(std::size_t t) const {
        return vuzp1q_s16(vld1q_s16(at[t]->sums), vld1q_s16(at[t]->sums + 8));
    }
};

// SDOT and SMULL are signed: weights above 127 go down to their own size, and lose their fraction bits.
template <typename Panel>
inline constexpr int kFractionLeft = Panel::kUnsigned ? 0 : Panel::Unit::kFraction;

template <int kFraction>
[[gnu::always_inline]] inline float32x4_t to_floats(int32x4_t x) {
    if constexpr (kFraction == 0) return vcvtq_f32_s32(x);
    if constexpr (kFraction > 0) return vcvtq_n_f32_s32(x, kFraction);
}
template <int kFraction>
[[gnu::always_inline]] inline Floats8 to_floats(Ints8 x) {
    return {to_floats<kFraction>(x.low), to_floats<kFraction>(x.high)};
}

// Integer scales of a unit of a block of 256: of its first sixteen columns, rows 0-3 and 4-7, and of the others.
struct UnitScales {
    int32x4_t at[4];
};

template <typename Panel>
struct PackedUnit {
    const std::byte* at;

    template <std::size_t kP>
    [[gnu::always_inline]] RowPair row_pair() const {
        RowPair w = Panel::Unit::template row_pair<kP>(at);
        if constexpr (Panel::kUnsigned && Panel::Unit::kFraction > 0) {
            for (int8x16_t& vector : w.at) {
                vector = vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(vector), Panel::Unit::kFraction));
            }
        }
        return w;
    }
};
template <typename Panel>
struct PackedBlock {
    const std::byte* packed;

    [[gnu::always_inline]] PackedUnit<Panel> unit(std::size_t u) const {
        return {packed + Panel::kUnitsAt + u * Panel::Unit::kBytes};
    }
    [[gnu::always_inline]] UnitScales unit_scales(std::size_t u) const {
        const SubScales scales = Panel::sub_scales(packed, u);
        return {{vmovl_s16(vget_low_s16(scales.first)), vmovl_high_s16(scales.first),
                 vmovl_s16(vget_low_s16(scales.second)), vmovl_high_s16(scales.second)}};
    }
    [[gnu::always_inline]] Floats8 scales() const { return Panel::scales(packed); }
    [[gnu::always_inline]] Floats8 minimums() const { return Panel::minimums(packed); }
};

// Whose unpacked blocks have scales of units that are floats: four sums of scale times product, of 4 * 32 * 15 * 127 *
// 63 at most, are exact in a float.
template <typename Panel>
inline constexpr bool kExactInFloats = std::is_same_v<Panel, PanelQuadQ4_K>;

// The same, unpacked; vector 4 * s + p as in the packed unit.
struct WideUnit {
    int8x16_t q[16];

    template <std::size_t kP>
    [[gnu::always_inline]] RowPair row_pair() const {
        return {{q[kP], q[4 + kP], q[8 + kP], q[12 + kP]}};
    }
};
template <typename Panel>
struct WideBlock {
    static constexpr std::size_t kUnits = Panel::kColumns / kUnitColumns;
    WideUnit units[kUnits];
    Floats8 d;
    UnitScales of_units[kUnits];  // of blocks of 256
    Floats8 minimum;
    const std::byte* packed;  // for its integer minimums

    void widen(PackedBlock<Panel> block) {
        packed = block.packed;
        d = block.scales();
        if constexpr (Panel::kMinimum) minimum = block.minimums();
        for (std::size_t u = 0; u < kUnits; ++u) {
            for_each_row_pair([&](auto pair) {
                constexpr std::size_t kP = decltype(pair)::kIndex;
                const RowPair w = block.unit(u).template row_pair<kP>();
                for (std::size_t s = 0; s < 4; ++s) units[u].q[4 * s + kP] = w.at[s];
            });
            if constexpr (Panel::kColumns == kBlock256) of_units[u] = block.unit_scales(u);
            if constexpr (kExactInFloats<Panel>) {
                for (int32x4_t& scales : of_units[u].at) scales = vreinterpretq_s32_f32(vcvtq_f32_s32(scales));
            }
        }
    }
    [[gnu::always_inline]] const WideUnit& unit(std::size_t u) const { return units[u]; }
    [[gnu::always_inline]] const UnitScales& unit_scales(std::size_t u) const { return of_units[u]; }
    [[gnu::always_inline]] Floats8 scales() const { return d; }
    [[gnu::always_inline]] Floats8 minimums() const { return minimum; }
};

[[gnu::always_inline]] inline void add_scaled(Floats8& acc, Floats8 sums, Floats8 d, float scale) {
    acc.low = vfmaq_f32(acc.low, sums.low, vmulq_n_f32(d.low, scale));
    acc.high = vfmaq_f32(acc.high, sums.high, vmulq_n_f32(d.high, scale));
}

[[gnu::always_inline]] inline void add_products(Ints8& total, Ints8 sums, const int32x4_t* scales) {
    total.low = vmlaq_s32(total.low, sums.low, scales[0]);
    total.high = vmlaq_s32(total.high, sums.high, scales[1]);
}

template <typename Dots, std::size_t kTokens, typename Panel, template <typename> typename Block, typename Input>
[[gnu::always_inline]] inline void add_block32(const Block<Panel>& w, const Input& x, TokenFloats<kTokens>& acc) {
    const TokenFloats<kTokens> sums = Dots::template floats<kFractionLeft<Panel>>(w.unit(0), x);
    const Floats8 d = w.scales();
    for (std::size_t t = 0; t < kTokens; ++t) {
        add_scaled(acc.at[t], sums.at[t], d, x.scale(t));
        if constexpr (Panel::kMinimum) {
            const float32x4_t sum = vdupq_n_f32(static_cast<float>(x.sum(t)));
            add_scaled(acc.at[t], {sum, sum}, w.minimums(), x.scale(t));
        }
    }
}

// Dots::block_sums() of Dots::sums<kFirst, kLast>(unit, x, u), the sums of columns 8 * kFirst to 8 * kLast of unit u.
template <typename Dots, std::size_t kTokens, typename Panel, template <typename> typename Block, typename Input>
[[gnu::always_inline]] inline TokenInts<kTokens> block_sums(const Block<Panel>& w, const Input& x) {
    TokenInts<kTokens> total = {};
    for (std::size_t u = 0; u < 8; ++u) {
        const UnitScales scales = w.unit_scales(u);
        constexpr std::size_t kFirstLast = Panel::kSub16 ? 2 : 4;
        const TokenInts<kTokens> first = Dots::template sums<0, kFirstLast>(w.unit(u), x, u);
        for (std::size_t t = 0; t < kTokens; ++t) add_products(total.at[t], first.at[t], scales.at);
        if constexpr (Panel::kSub16) {
            const TokenInts<kTokens> second = Dots::template sums<2, 4>(w.unit(u), x, u);
            for (std::size_t t = 0; t < kTokens; ++t) add_products(total.at[t], second.at[t], scales.at + 2);
        }
    }
    return total;
}

template <typename Dots, std::size_t kTokens, typename Panel, template <typename> typename Block, typename Input>
[[gnu::always_inline]] inline void add_block256(const Block<Panel>& w, const Input& x, const TokenInts<kTokens>& total,
                                                TokenFloats<kTokens>& acc) {
    const Floats8 d = w.scales();
    for (std::size_t t = 0; t < kTokens; ++t) {
        add_scaled(acc.at[t], to_floats<kFractionLeft<Panel>>(total.at[t]), d, x.scale(t));
    }
    if constexpr (Panel::kMinimum) {
        const TokenInts<kTokens> sums = Dots::template minimum_sums<Panel>(w.packed, x);
        for (std::size_t t = 0; t < kTokens; ++t) {
            add_scaled(acc.at[t], to_floats<0>(sums.at[t]), w.minimums(), -x.scale(t));
        }
    }
}

template <typename Dots, std::size_t kTokens, typename Panel, template <typename> typename Block, typename Input>
[[gnu::always_inline]] inline void add_block(const Block<Panel>& w, Input& x, TokenFloats<kTokens>& acc) {
    if constexpr (Panel::kColumns == kBlock32) {
        add_block32<Dots>(w, x, acc);
    } else {
        add_block256<Dots>(w, x, Dots::block_sums(w, x), acc);
    }
    x.next();
}

template <typename Dots, typename Input>
void multiply_tile(const PanelTask& task, std::size_t row, std::size_t token) {
    using Panel = typename Input::Panel;
    Input x(task, token, 0);
    TokenFloats<Input::kTokens> acc = {};
    PackedBlock<Panel> block = {task.panels + row / kPanelRows * task.panel_bytes};
    const std::size_t blocks = task.columns / Panel::kColumns;
    if constexpr (requires { Dots::add_blocks(block, blocks, x, acc); }) {
        Dots::add_blocks(block, blocks, x, acc);
    } else {
        for (std::size_t b = 0; b < blocks; ++b, block.packed += Panel::kBlockBytes) add_block<Dots>(block, x, acc);
    }
    for (std::size_t t = 0; t < Input::kTokens; ++t) {
        store_rows8(task.out + (token + t) * task.out_stride + row, task.rows - row, acc.at[t]);
    }
}

// Up to kMost tokens at a time; the tiles of a panel one after another, while its bytes are in the first cache.
template <typename Dots, typename Panel, std::size_t kMost>
void few_tokens(const PanelTask& task, std::size_t row, std::size_t token) {
    using Input = typename Dots::template Input<Panel, kMost>;
    for (; token + kMost <= task.tokens; token += kMost) multiply_tile<Dots, Input>(task, row, token);
    if constexpr (kMost > 1) {
        if (token < task.tokens) few_tokens<Dots, Panel, kMost - 1>(task, row, token);
    }
}

inline constexpr std::size_t kChunkColumns = 2048;
inline constexpr std::size_t kGroups = 64;  // of tokens that share an unpacked chunk

// One panel and the tokens [first, last). What is computed for tokens past the end is not stored.
template <typename Dots, typename Panel>
void multiply_groups(const PanelTask& task, std::size_t row, std::size_t first, std::size_t last) {
    constexpr std::size_t kChunkBlocks = kChunkColumns / Panel::kColumns;
    constexpr std::size_t kTokens = Dots::kGroupTokens;
    const std::byte* panel = task.panels + row / kPanelRows * task.panel_bytes;
    const std::size_t blocks = task.columns / Panel::kColumns;
    WideBlock<Panel> wide[kChunkBlocks];
    TokenFloats<kTokens> sums[kGroups] = {};
    for (std::size_t begin = 0; begin < blocks; begin += kChunkBlocks) {
        const std::size_t count = blocks - begin < kChunkBlocks ? blocks - begin : kChunkBlocks;
        for (std::size_t b = 0; b < count; ++b) wide[b].widen({panel + (begin + b) * Panel::kBlockBytes});
        for (std::size_t token = first; token < last; token += kTokens) {
            const typename Dots::template Input<Panel, kTokens> x(task, token, begin);
            Dots::add_blocks(wide, count, x, sums[(token - first) / kTokens]);
        }
    }
    for (std::size_t token = first; token < last; ++token) {
        const Floats8& values = sums[(token - first) / kTokens].at[(token - first) % kTokens];
        store_rows8(task.out + token * task.out_stride + row, task.rows - row, values);
    }
}

template <typename Dots, typename Panel>
void many_tokens(const PanelTask& task) {
    constexpr std::size_t kStep = kGroups * Dots::kGroupTokens;
    for (std::size_t row = 0; row < task.rows; row += kPanelRows) {
        for (std::size_t first = 0; first < task.tokens; first += kStep) {
            multiply_groups<Dots, Panel>(task, row, first, task.tokens - first < kStep ? task.tokens : first + kStep);
        }
    }
}

template <typename Dots, typename Panel>
void panel_matmul(const PanelTask& task) {
    if (task.tokens > Dots::kFewTokens) return many_tokens<Dots, Panel>(task);
    for (std::size_t row = 0; row < task.rows; row += kPanelRows) {
        if (task.tokens == 1) {
            multiply_tile<Dots, Rows<Panel, 1>>(task, row, 0);
        } else {
            few_tokens<Dots, Panel, Dots::kTileTokens>(task, row, 0);
        }
    }
}

template <typename Dots>
void install_panel_matmul(Kernels& table) {
    const auto set = [&table](DType type, void (*matmul)(const PanelTask&)) {
        table.panels[static_cast<std::size_t>(type)].matmul = matmul;
    };
    set(DType::Q4_0, panel_matmul<Dots, typename Dots::Q4_0>);
    set(DType::Q4_1, panel_matmul<Dots, PanelQ4_1>);
    set(DType::Q5_0, panel_matmul<Dots, PanelQ5_0>);
    set(DType::Q5_1, panel_matmul<Dots, PanelQ5_1>);
    set(DType::Q8_0, panel_matmul<Dots, PanelQ8_0>);
    set(DType::IQ4_NL, panel_matmul<Dots, PanelIQ4_NL>);
    set(DType::MXFP4, panel_matmul<Dots, PanelMXFP4>);
    set(DType::Q2_K, panel_matmul<Dots, PanelQ2_K>);
    set(DType::Q3_K, panel_matmul<Dots, PanelQ3_K>);
    set(DType::Q4_K, panel_matmul<Dots, typename Dots::Q4_K>);
    set(DType::Q5_K, panel_matmul<Dots, typename Dots::Q5_K>);
    set(DType::Q6_K, panel_matmul<Dots, PanelQ6_K>);
    set(DType::IQ4_XS, panel_matmul<Dots, PanelIQ4_XS>);
    set(DType::TQ2_0, panel_matmul<Dots, PanelTQ2_0>);
}

}  // namespace

}  // namespace hearth
