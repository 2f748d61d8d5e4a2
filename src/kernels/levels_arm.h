// How the levels of AArch64 install their panels. Each is a file of its own: they are long to compile.
#pragma once

#include "kernels/kernels.h"

namespace hearth {

void install_neon_panels(Kernels& table);     // packing, and matmul with SMULL
void install_dotprod_panels(Kernels& table);  // matmul with SDOT
void install_i8mm_panels(Kernels& table);     // matmul with SMMLA, in tiles

}  // namespace hearth
