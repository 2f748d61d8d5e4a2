// Matmul of F32, F16 and BF16 weights on x86.
#pragma once

#include "kernels/float_x86_rows.h"
#include "kernels/float_x86_tiles.h"

namespace hearth {

namespace {

template <typename Weight>
void install_float_matmul(Kernels& table, DType type) {
    const auto index = static_cast<std::size_t>(type);
    table.matmul[index] = matmul_floats<Weight>;
    table.float_tiles.matmul[index] = matmul_float_tiles<Weight>;
}

inline void install_float_matmuls(Kernels& table) {
    install_float_matmul<WeightF32>(table, DType::F32);
    install_float_matmul<WeightF16>(table, DType::F16);
    install_float_matmul<WeightBF16>(table, DType::BF16);
    table.float_tiles.tile_tokens = kTileTokens;
    table.float_tiles.tiles_from = kTilesFrom;
    table.float_tiles.tile = tile_floats;
    table.float_tiles.matmul_scratch = float_scratch_bytes;
}

}  // namespace

}  // namespace hearth
