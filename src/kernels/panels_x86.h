// The parts of the x86 levels that have files of their own.
#pragma once

#include "kernels/kernels.h"

namespace hearth {

void install_avx2_panels(Kernels& table);  // packed weights
void install_avx2_float(Kernels& table);   // matmul of float weights
void install_avx512_panels(Kernels& table);
void install_avx512_float(Kernels& table);

}  // namespace hearth
