// The parts of the x86 levels that have files of their own.
#pragma once

#include "kernels/kernels.h"

namespace hearth {

void install_avx2_panels(Kernels& table);  // packed weights
void install_avx2_float(Kernels& table);   // matmul of float weights
void install_avx512_panels(Kernels& table);
void install_avx512_fast(Kernels& table);  // the fast matmul over packed weights
void install_avx512_float(Kernels& table);
void install_avx512_vectors(Kernels& table);  // float operations, quantisers, attention
void install_amx_fast(Kernels& table);

// The AVX-512 matmul of a type, for what a level above leaves to it.
void matmul_panels_avx512(DType type, const PanelTask& task);

}  // namespace hearth
