// x86-64 with AVX2: matmul of float weights.
#include "kernels/float_x86.h"
#include "kernels/panels_x86.h"

namespace hearth {

void install_avx2_float(Kernels& table) {
    install_float_matmuls(table);
}

}  // namespace hearth
