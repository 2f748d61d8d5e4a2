// The pieces of the scalar reference, which is the meaning of every operation. One file a topic.
#pragma once

#include "kernels/kernels.h"

namespace hearth {

// Sixteen virtual lanes: element k of a sum belongs to lane k % 16. Their sum is taken by one fixed tree, so that a
// vector unit of any width up to sixteen floats gives the same bits.
inline constexpr std::size_t kLanes = 16;
float sum_lanes(const float (&lanes)[kLanes]);

void install_reference_matmul32(Kernels& table);   // weight types in blocks of 32
void install_reference_matmul256(Kernels& table);  // weight types in blocks of 256
void install_reference_float(Kernels& table);      // float weights, norms, activations, rope
void install_reference_attention(Kernels& table);
void install_reference_kv(Kernels& table);  // the quantised KV types

void reference_quantize_q8x32(const float* x, std::size_t n, ActivationBlock32* out);
void reference_widen_kv(const KvWidenTask& task);
void reference_quantize_q8x256(const float* x, std::size_t n, ActivationBlock256* out);

}  // namespace hearth
