// WebAssembly to the machine. Operand stacks become frame slots, so local.get and constants cost no instruction;
// what the machine cannot do in one instruction becomes a fixed number of them, never a loop over a value.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "vm/program.h"

namespace hearth::vm {

// The entry is the exported `compute`, `main` or `_start`; it may take one i32, the address of the input.
Result<Program> compile_wasm(std::span<const std::byte> bytes);

}  // namespace hearth::vm
