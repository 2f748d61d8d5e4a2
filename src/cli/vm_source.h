// A program for the transformer VM from a .c, .wasm or .vm file.
#pragma once

#include <string>

#include "base/result.h"
#include "vm/program.h"

namespace hearth {

Result<vm::Program> load_vm_program(const std::string& path);

}  // namespace hearth
