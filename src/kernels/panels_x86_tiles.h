// What the panel matmuls of both block sizes share: unrolled loops, vectors of rows, and how results are stored.
// Include after a vocabulary (panels_x86_avx2.h or panels_x86_avx512.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/memory.h"
#include "kernels/kernels.h"
#include "kernels/panels_x86_layout.h"

namespace hearth {

namespace {

template <std::size_t kValue>
struct Step {
    static constexpr std::size_t kIndex = kValue;
};

template <typename Function, std::size_t... kIndices>
[[gnu::always_inline]] inline void each_step(Function& step, std::index_sequence<kIndices...>) {
    (step(Step<kIndices>{}), ...);
}
// step(Step<0>), step(Step<1>), ...
template <std::size_t kCount, typename Function>
[[gnu::always_inline]] inline void unrolled(Function step) {
    each_step(step, std::make_index_sequence<kCount>{});
}

inline constexpr std::size_t kPanelVectors = x86::kPanelRows / kVectorRows;
// Weights unpacked once for many tokens: two vectors of rows and four tokens at a time, whose eight sums are enough to
// hide the latency of a product.
inline constexpr std::size_t kGemmVectors = 2;
inline constexpr std::size_t kTileTokens = 4;
inline constexpr std::size_t kGemmTokens = kDirectTokens == 8 ? 9 : 8;  // from this many on unpacking first pays
inline constexpr std::size_t kScratchTokens = 256;                      // that share unpacked weights
inline constexpr std::size_t kPrefetchBytes = 4096;

// The vectors of a matrix are numbered from the first row on of the panel at `first`.
struct VectorRows {
    const std::byte* panel;
    std::size_t row;  // in the panel
};
[[gnu::always_inline]] inline VectorRows vector_rows(const std::byte* first, std::size_t panel_bytes,
                                                     std::size_t vector) {
    return {first + vector / kPanelVectors * panel_bytes, vector % kPanelVectors * kVectorRows};
}

// What is left of the panels that are read together, and how far after their end the next ones begin.
struct PanelEnd {
    std::size_t blocks = 1;  // with the one that is being read
    std::size_t skip = 0;    // bytes
};
// Part `part` of a block, kDistance bytes further on in what is read.
template <std::size_t kBytes, std::size_t kParts, std::size_t kDistance, typename Ask>
[[gnu::always_inline]] inline void ask_ahead(const std::byte* block, std::size_t part, PanelEnd end, Ask ask) {
    constexpr std::size_t kLines = (kBytes / kCacheLine + kParts - 1) / kParts;
    constexpr std::size_t kPartsAhead = (kDistance * kParts + kBytes / 2) / kBytes;
    const std::size_t blocks = (part + kPartsAhead) / kParts;
    const std::byte* from = block + blocks * kBytes + (part + kPartsAhead) % kParts * kLines * kCacheLine;
    if (blocks >= end.blocks) from += end.skip;
    for (std::size_t i = 0; i < kLines; ++i) ask(from + i * kCacheLine);
}

// The one lever on memory speed here: hardware alone reads a third less. A block's lines are asked for in kParts parts,
// since more at once than there are fill buffers hold up the loads behind them, and as far ahead as kPanels that are
// read together leave to each. Into the second cache. No function may stand in between that is not always inlined:
// GCC 12 takes one that only asks ahead for one without effect, and leaves it out.
template <std::size_t kBytes, std::size_t kParts, std::size_t kPanels = 1>
[[gnu::always_inline]] inline void prefetch(const std::byte* block, std::size_t part, PanelEnd end = {}) {
    ask_ahead<kBytes, kParts, kPrefetchBytes / kPanels>(
        block, part, end, [](const std::byte* line) __attribute__((always_inline)) { fetch_line(line); });
}

// The same into the first cache. Weights that are unpacked are asked for a second time so, half as far ahead: they come
// 8 to 15 % sooner.
template <std::size_t kBytes, std::size_t kParts, std::size_t kPanels = 1, std::size_t kDistance = kPrefetchBytes / 2>
[[gnu::always_inline]] inline void prefetch_near(const std::byte* block, std::size_t part, PanelEnd end) {
    ask_ahead<kBytes, kParts, kDistance / kPanels>(
        block, part, end, [](const std::byte* line) __attribute__((always_inline)) { fetch_line_near(line); });
}

inline void store_rows(const PanelTask& task, std::size_t vector, std::size_t token, Floats values) {
    if (token >= task.tokens) return;
    const std::size_t first = vector * kVectorRows;
    float* out = task.out + token * task.out_stride + first;
    if (first + kVectorRows <= task.rows) return store_floats(out, values);
    float buffer[kVectorRows];
    store_floats(buffer, values);
    for (std::size_t i = 0; first + i < task.rows; ++i) out[i] = buffer[i];
}

template <typename Activations>
[[gnu::always_inline]] inline const Activations* activation_row(const PanelTask& task, std::size_t token) {
    if (token >= task.tokens) token = task.tokens - 1;
    return reinterpret_cast<const Activations*>(task.activations + token * task.activation_row_bytes);
}

// Few tokens: panel by panel. Tile::run<tokens>(task, panel, first token); one that goes past the last token repeats it
// and leaves it out of the results.
template <typename Tile>
inline void run_up_to_four(const PanelTask& task, std::size_t panel, std::size_t token, std::size_t count) {
    switch (count) {
        case 4: Tile::template run<4>(task, panel, token); break;
        case 3: Tile::template run<3>(task, panel, token); break;
        case 2: Tile::template run<2>(task, panel, token); break;
        default: Tile::template run<1>(task, panel, token); break;
    }
}
template <typename Tile>
inline std::size_t run_tile(const PanelTask& task, std::size_t panel, std::size_t token) {
    const std::size_t left = task.tokens - token;
    if constexpr (kDirectTokens == 8) {
        if (left >= 7) return Tile::template run<8>(task, panel, token), 8;
        if (left >= 5) return Tile::template run<6>(task, panel, token), 6;
    }
    const std::size_t count = left == 5 || left == 6 ? 3 : left < 4 ? left : 4;  // no token left alone
    run_up_to_four<Tile>(task, panel, token, count);
    return count;
}
template <typename Tile>
inline void run_direct(const PanelTask& task, std::size_t first_panel) {
    for (std::size_t panel = first_panel; panel * x86::kPanelRows < task.rows; ++panel) {
        std::size_t token = 0;
        while (token < task.tokens) token += run_tile<Tile>(task, panel, token);
    }
}
// Groups of kPanels panels from `panel` on by run(Step<kPanels>, first panel), what is left in groups half as large.
template <std::size_t kPanels, typename Run>
inline void run_groups(const PanelTask& task, std::size_t panel, Run run) {
    for (; (panel + kPanels - 1) * x86::kPanelRows < task.rows; panel += kPanels) run(Step<kPanels>{}, panel);
    if constexpr (kPanels > 1) run_groups<kPanels / 2>(task, panel, run);
}

// Sums in progress of many tokens.
struct Accumulators {
    float* at;
    std::size_t stride;
};

// What is unpacked next, asked for bit by bit while tokens meet what has been unpacked: memory would be idle meanwhile,
// and unpacking would wait for it.
class NextChunk {
public:
    // The chunk after that at `column`: the next one of the panels at `vector`, or the first one of those behind them.
    template <typename Gemm>
    static NextChunk after(const PanelTask& task, std::size_t vector, std::size_t column, std::size_t tiles) {
        const std::size_t next = column + Gemm::kChunkColumns < task.columns ? column + Gemm::kChunkColumns : 0;
        const std::size_t skipped = next == 0 ? kPanels * task.panel_bytes : Gemm::bytes_of(next);
        const std::size_t left = task.columns - next;
        const std::size_t bytes = Gemm::bytes_of(left < Gemm::kChunkColumns ? left : Gemm::kChunkColumns);
        NextChunk chunk;
        chunk.at_ = vector_rows(task.panels, task.panel_bytes, vector).panel + skipped;
        chunk.panel_bytes_ = task.panel_bytes;
        chunk.lines_left_ = bytes / kCacheLine;
        chunk.lines_each_time_ = (chunk.lines_left_ + tiles * Gemm::kChunkParts - 1) / (tiles * Gemm::kChunkParts);
        return chunk;
    }

    [[gnu::always_inline]] void ask() {
        for (std::size_t i = lines_left_ < lines_each_time_ ? lines_left_ : lines_each_time_; i > 0;
             --i, --lines_left_, at_ += kCacheLine) {
            for (std::size_t p = 0; p < kPanels; ++p) fetch_line(at_ + p * panel_bytes_);
        }
    }

private:
    static constexpr std::size_t kPanels = kGemmVectors / kPanelVectors;

    const std::byte* at_;
    std::size_t panel_bytes_;
    std::size_t lines_left_;  // of each panel
    std::size_t lines_each_time_;
};

// Many tokens: chunks of columns are unpacked for two vectors of rows and met by every token. A tile that goes past the
// last token repeats it; there is room for its sums.
template <typename Gemm>
inline void run_chunks(const PanelTask& task, std::size_t vector, std::size_t first, std::size_t count,
                       Accumulators sums) {
    typename Gemm::Chunk chunk;
    for (std::size_t column = 0; column < task.columns; column += Gemm::kChunkColumns) {
        Gemm::unpack(task, vector, column, chunk);
        NextChunk next = NextChunk::after<Gemm>(task, vector, column, (count + kTileTokens - 1) / kTileTokens);
        for (std::size_t t = 0; t < count; t += kTileTokens) {
            Gemm::tile(task, chunk, column, first + t, {sums.at + t * sums.stride, sums.stride}, next);
        }
    }
}

// The sums of so many tokens are kept together while the columns pass, and put in their places, which may be far apart,
// at the end.
template <typename Gemm>
inline void run_rows(const PanelTask& task, std::size_t vector) {
    constexpr std::size_t kRows = kGemmVectors * kVectorRows;
    const std::size_t row = vector * kVectorRows;
    const bool whole = row + kRows <= task.rows;
    static_assert(kScratchTokens % kTileTokens == 0);
    alignas(64) float buffer[kScratchTokens * kRows];
    for (std::size_t first = 0; first < task.tokens; first += kScratchTokens) {
        const std::size_t count = task.tokens - first < kScratchTokens ? task.tokens - first : kScratchTokens;
        run_chunks<Gemm>(task, vector, first, count, {buffer, kRows});
        for (std::size_t t = 0; t < count; ++t) {
            float* out = task.out + (first + t) * task.out_stride + row;
            if (whole) {
                for (std::size_t i = 0; i < kRows; i += kVectorRows) {
                    store_floats(out + i, load_floats(buffer + t * kRows + i));
                }
            } else {
                for (std::size_t i = 0; row + i < task.rows; ++i) out[i] = buffer[t * kRows + i];
            }
        }
    }
}

// A last panel without a neighbour goes the way of few tokens.
template <typename Gemm, typename Direct>
inline void run_gemm(const PanelTask& task) {
    constexpr std::size_t kPanels = kGemmVectors / kPanelVectors;
    const std::size_t panels = (task.rows + x86::kPanelRows - 1) / x86::kPanelRows;
    std::size_t panel = 0;
    for (; panel + kPanels <= panels; panel += kPanels) run_rows<Gemm>(task, panel * kPanelVectors);
    run_direct<Direct>(task, panel);
}

template <typename Gemm, typename Direct>
inline void run_matmul(const PanelTask& task) {
    if (task.tokens < kGemmTokens) {
        run_direct<Direct>(task, 0);
    } else {
        run_gemm<Gemm, Direct>(task);
    }
}

// The sums of a tile at a chunk's beginning and end.
template <std::size_t kTokens, std::size_t kVectors>
[[gnu::always_inline]] inline void load_sums(Accumulators sums, bool begin, Floats (&acc)[kTokens][kVectors]) {
    for (std::size_t t = 0; t < kTokens; ++t) {
        for (std::size_t p = 0; p < kVectors; ++p) {
            acc[t][p] = begin ? zero_floats() : load_floats(sums.at + t * sums.stride + p * kVectorRows);
        }
    }
}
template <std::size_t kTokens, std::size_t kVectors>
[[gnu::always_inline]] inline void store_sums(Accumulators sums, const Floats (&acc)[kTokens][kVectors]) {
    for (std::size_t t = 0; t < kTokens; ++t) {
        for (std::size_t p = 0; p < kVectors; ++p) store_floats(sums.at + t * sums.stride + p * kVectorRows, acc[t][p]);
    }
}

}  // namespace

}  // namespace hearth
