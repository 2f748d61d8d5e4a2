// The lowest level of the table: scalar, and complete.
#include "kernels/reference.h"

namespace hearth {

void install_reference(Kernels& table) {
    table.level = "reference";
    install_reference_matmul32(table);
    install_reference_matmul256(table);
    install_reference_float(table);
    install_reference_attention(table);
    install_reference_kv(table);
    table.quantize_q8x32 = reference_quantize_q8x32;
    table.quantize_q8x256 = reference_quantize_q8x256;
    table.tile_tokens = 1;
    table.tiles_from = SIZE_MAX;
}

}  // namespace hearth
