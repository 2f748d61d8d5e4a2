// The table of numeric kernels. It starts as the scalar reference, which is the meaning of every operation; each ISA
// level the CPU supports then overwrites the entries it does better. Every level gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/half.h"
#include "tensor/attention.h"
#include "tensor/blocks.h"
#include "tensor/dtype.h"
#include "tensor/logits.h"

namespace hearth {

// out[t * out_stride + r] = dot(weight row r, activation row t) for r < rows, t < tokens.
// The result of one (r, t) does not depend on rows, tokens or where they begin: that is batch invariance.
struct MatmulTask {
    const std::byte* weights;      // first wanted row, in the block layout of GGUF
    std::size_t weight_row_bytes;  // from one row to the next
    std::size_t rows;
    std::size_t columns;               // elements of a row; a multiple of the type's block
    const std::byte* activations;      // rows in the type's ActivationFormat
    std::size_t activation_row_bytes;  // from one token to the next
    std::size_t tokens;
    float* out;
    std::size_t out_stride;        // floats from one token to the next
    std::byte* scratch = nullptr;  // FloatTileKernels::scratch_bytes of memory
};

// A panel is a group of neighbouring weight rows interleaved block by block, in the order in which this CPU's registers
// want them. Packing loses nothing: a matmul over panels gives the bits of the matmul over the rows they were made of.
struct PackTask {
    const std::byte* weights;  // first row of the panel, in the block layout of GGUF
    std::size_t weight_row_bytes;
    std::size_t rows;  // at most those of a panel; the missing ones become zeros
    std::size_t columns;
    std::byte* out;  // one panel; every byte of it is written, so that equal weights make equal files
};

// As MatmulTask, over panels.
struct PanelTask {
    const std::byte* panels;           // the panel that begins with the first wanted row
    std::size_t panel_bytes;           // from one panel to the next
    std::size_t rows;                  // outputs wanted: whole panels, the last one perhaps in part
    std::size_t columns;               // elements of a row; a multiple of the type's block
    const std::byte* activations;      // rows; tiles from Kernels::tiles_from tokens on, but of floats rows
    std::size_t activation_row_bytes;  // from one token to the next, on average over a tile
    std::size_t tokens;
    float* out;
    std::size_t out_stride;  // floats from one token to the next
};

// Arranges rows of activations (ActivationBlock32 or 256, or floats) as one tile.
struct TileTask {
    const std::byte* rows;  // one after another
    std::size_t row_bytes;
    std::size_t tokens;  // at most those of a tile; the missing ones become zeros
    std::size_t columns;
    std::byte* out;  // as many rows as a tile has tokens
};

struct PanelKernels {
    std::size_t rows = 0;  // of a panel; 0: this type is not packed, use Kernels::matmul
    // A panel is a sequence of blocks of this many columns, the last one filled up; of floats it must be full.
    std::size_t block_columns = 0;
    std::size_t block_bytes = 0;
    void (*pack)(const PackTask& task) = nullptr;
    void (*matmul)(const PanelTask& task) = nullptr;

    std::size_t panel_bytes(std::size_t columns) const {
        return (columns + block_columns - 1) / block_columns * block_bytes;
    }
};

// The fast matmul (--prefill fast): weights are rounded once more, to int8 with one scale a row and 256 columns, and
// activations have one scale for the same columns, the last of a row perhaps fewer. What it computes is defined by
// round_weights() in reference_fast.h; it is not what matmul() computes, but the same at every level that has it.
struct FastTileTask {
    const float* rows;       // of the first token
    std::size_t row_floats;  // from one token to the next
    std::size_t tokens;      // at most FastKernels::tile_tokens; the missing ones become zeros
    std::size_t columns;     // a multiple of 32
    void (*quantize)(const float* x, std::size_t n, ActivationBlock256* out);  // Kernels::quantize_q8x256
    std::byte* out;                                                            // tile_tokens * row_bytes(columns)
};

struct FastKernels {
    std::size_t tile_tokens = 0;  // 0: this level has no fast panels
    void (*tile)(const FastTileTask& task) = nullptr;
    // By weight type; null: there is none. The panels are those of PanelKernels; activations are always tiles.
    void (*panels_matmul[kDTypeLimit])(const PanelTask& task) = {};
    // The reference: over the rows of the file and rows of ActivationBlock256, the last block filled up with zeros.
    void (*rows_matmul[kDTypeLimit])(const MatmulTask& task) = {};

    // Of one token in a tile, on average.
    static constexpr std::size_t row_bytes(std::size_t columns) {
        return columns + (columns + kBlock256 - 1) / kBlock256 * sizeof(float);
    }
};

// Float weights and many tokens: activations in tiles, in the order in which the kernel reads them. Rows come in eights
// and columns in sixteens, others are for Kernels::matmul.
struct FloatTileKernels {
    static constexpr std::size_t kRowMultiple = 8;
    static constexpr std::size_t kColumnMultiple = 16;
    std::size_t tile_tokens = 0;  // 0: this level has none
    std::size_t tiles_from = 17;  // tokens; fewer are quicker as rows
    void (*tile)(const TileTask& task) = nullptr;
    void (*matmul[kDTypeLimit])(const MatmulTask& task) = {};      // by weight type; the first token begins a tile
    std::size_t (*matmul_scratch)(std::size_t columns) = nullptr;  // bytes of MatmulTask::scratch; null: none
    void (*panels_matmul[kDTypeLimit])(const PanelTask& task) = {};

    std::size_t scratch_bytes(std::size_t columns) const {
        return matmul_scratch != nullptr ? matmul_scratch(columns) : 0;
    }
};

// Attention of one token's query heads that share a KV head, over positions [first, last] of its sequence.
// K and V are [kKvBlockTokens] rows of a KvType in each block, found through the block table. Quantised rows are
// widened to f16 block by block, and mean what those halves mean: the rest does not know of them.
struct AttentionTask {
    const float* query;                // [group][head_dim]
    float* out;                        // [group][head_dim]
    std::size_t group;                 // query heads per KV head
    std::size_t head_dim;              // at most kMaxHeadDim
    const std::byte* pool;             // base of the KV blocks
    const std::uint32_t* block_table;  // block_table[p / 64] holds position p
    std::size_t block_bytes;           // from one block to the next
    std::size_t key_offset;            // of this layer's and KV head's K inside a block
    std::size_t value_offset;
    std::size_t first;  // first visible position (sliding windows), inclusive
    std::size_t last;   // last visible position, inclusive: the token's own
    float scale;
    KvType kv_type = KvType::F16;
};

inline constexpr std::size_t kMaxHeadDim = 512;

// One long context shared by threads: some KV blocks of an AttentionTask, left apart, and later merged. Together they
// give the bits of attention(), whoever computed which blocks.
struct AttentionSplitTask {
    AttentionTask attention;  // its out is not used
    std::size_t first_block;  // absolute: block b holds positions 64 b ...; every block has a visible position
    std::size_t block_count;
    float* splits;  // [block_count][group] entries of attention_split_floats(head_dim)
};

struct AttentionMergeTask {
    const float* splits;  // [block_count][group]: every block from first / 64 to last / 64, ascending
    std::size_t block_count;
    std::size_t group;
    std::size_t head_dim;
    float* out;  // [group][head_dim]
};

// What one head leaves of one block: head_dim weighted values, then the largest score and the sum of the weights; as
// many cache lines as that takes, so that threads share none.
constexpr std::size_t attention_split_floats(std::size_t head_dim) {
    return (head_dim + 2 + 15) / 16 * 16;
}

// Attention of consecutive tokens of one sequence, K and V of all of them already in their blocks. A token sees itself
// and what came before it: its bits are those of attention(). K and V are converted once for all tokens and heads.
struct AttentionTileTask {
    const float* query;        // [group][head_dim] of the first token
    std::size_t query_stride;  // floats from one token to the next
    float* out;                // [group][head_dim] of the first token
    std::size_t out_stride;
    std::size_t tokens;  // any number; 64 heads' worth of rows and more make the conversion of K and V free
    std::size_t group;
    std::size_t head_dim;
    const std::byte* pool;
    const std::uint32_t* block_table;
    std::size_t block_bytes;
    std::size_t key_offset;
    std::size_t value_offset;
    std::size_t position;  // of the first token
    std::size_t window;    // positions a token sees, its own included; 0: all
    float scale;
    KvType kv_type = KvType::F16;
};

// Rows of a quantised KvType, one after another, to f16.
struct KvWidenTask {
    KvType type;
    const std::byte* rows;
    std::size_t row_count;
    std::size_t head_dim;
    Half* out;  // [row_count][head_dim]
};

using MatmulFn = void (*)(const MatmulTask& task);

struct Kernels {
    std::string_view level;  // "reference", "neon", "dotprod", "fp16fml", "i8mm", "avx2", "avx512", "amx"

    MatmulFn matmul[kDTypeLimit];  // by weight type; null where the type does not exist
    void (*quantize_q8x32)(const float* x, std::size_t n, ActivationBlock32* out);
    void (*quantize_q8x256)(const float* x, std::size_t n, ActivationBlock256* out);

    // Names the bytes of a panel: levels with the same name share packed files. Behind its last point: the version.
    std::string_view panel_layout;
    PanelKernels panels[kDTypeLimit];  // by weight type
    // Panel kernels take the activations of tiles_from and more tokens in tiles of tile_tokens, the last one filled up
    // with zeros; a tile takes the bytes of its rows. Those of fewer tokens are rows one after another.
    std::size_t tile_tokens;
    std::size_t tiles_from;  // at least 2; SIZE_MAX: no tiles
    void (*tile_q8x32)(const TileTask& task);
    void (*tile_q8x256)(const TileTask& task);
    FastKernels fast;
    FloatTileKernels float_tiles;

    // These may work in place: out is an input, or lies apart from all of them.
    // out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]
    void (*rms_norm)(const float* x, const float* weight, std::size_t n, float eps, float* out);
    void (*add)(const float* a, const float* b, std::size_t n, float* out);
    void (*swiglu)(const float* gate, const float* up, std::size_t n, float* out);  // silu(gate) * up
    void (*geglu)(const float* gate, const float* up, std::size_t n, float* out);   // gelu_tanh(gate) * up
    // Rotates the first 2 * pairs elements of one head in place; angles[2i] is the cosine, angles[2i+1] the sine.
    void (*rope)(float* head, const float* angles, std::size_t pairs, RopeStyle style);
    void (*to_f16)(const float* x, std::size_t n, Half* out);
    void (*attention)(const AttentionTask& task);
    void (*attention_splits)(const AttentionSplitTask& task);
    void (*attention_merge)(const AttentionMergeTask& task);
    void (*attention_tile)(const AttentionTileTask& task);  // takes at most 320 KiB of stack
    // One row of head_dim values to a quantised KvType. The one of the reference at every level.
    void (*quantize_kv)(KvType type, const float* x, std::size_t head_dim, std::byte* out);
    // What attention sees of quantised rows: round_to_f16(scale * q). The product is exact in f32, so it is rounded
    // once however it is formed.
    void (*widen_kv)(const KvWidenTask& task);
    // maxima[c]: the largest of x[c * kLogitChunk ...], the last chunk being as long as it is; NaN when one of them is.
    // A zero is +0, so that the order in which zeros are met leaves no trace.
    void (*chunk_maxima)(const float* x, std::size_t n, float* maxima);
};

// Every level this CPU can run, lowest first; the first is always "reference".
std::span<const Kernels> supported_kernels();

// The level named, or null when this CPU cannot run it. An empty name is the best one.
const Kernels* find_kernels(std::string_view level);

// The functions behind the table's levels. Each fills or overwrites entries; supported_kernels() stacks them.
void install_reference(Kernels& table);
void install_neon(Kernels& table);     // AArch64 baseline
void install_dotprod(Kernels& table);  // over neon: SDOT
void install_fp16fml(Kernels& table);  // over dotprod: attention with FMLAL
void install_i8mm(Kernels& table);     // over dotprod, and fp16fml where there is one: SMMLA
void install_avx2(Kernels& table);     // with FMA and F16C
void install_avx512(Kernels& table);   // over avx2: AVX-512 F, BW, VL, DQ and VNNI
void install_amx(Kernels& table);      // over avx512: tiles of int8

// Cosines and sines of one position: angles[2i], angles[2i+1] for position * inverse_frequencies[i], times magnitude.
// Defined in double precision with our own polynomials, so that they are the same bits whatever the C library.
void rope_angles(std::uint32_t position, std::span<const float> inverse_frequencies, float magnitude, float* angles);

// e^x as one polynomial with fused multiply-adds: the exponential of every kernel.
float exp_reference(float x);

}  // namespace hearth
