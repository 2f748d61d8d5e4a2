// The parts of the AArch64 levels that are files of their own: they are long to compile, or want their own flags.
#pragma once

#include "kernels/kernels.h"

namespace hearth {

void install_neon_panels(Kernels& table);          // packing for SMMLA and SMULL, and matmul with SMULL
void install_dotprod_panels(Kernels& table);       // packing for SDOT, and matmul with it
void install_dotprod_fast_panels(Kernels& table);  // the same with one scale per 256 columns
void install_i8mm_panels(Kernels& table);          // packing for SMMLA, and matmul with it
void install_i8mm_fast_panels(Kernels& table);     // the same with one scale per 256 columns
void install_neon_float_matmul(Kernels& table);    // float weights
void install_i8mm_float_matmul(Kernels& table);    // with FMLAL to widen halves

}  // namespace hearth
