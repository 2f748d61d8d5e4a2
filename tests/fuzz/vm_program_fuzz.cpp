// Bytes as a .vm file: an error or a program that runs within its limits, traced or not.
#include <cstddef>
#include <cstdint>
#include <span>

#include "vm/interpreter.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const hearth::Result<hearth::vm::Program> program = hearth::vm::read_program(std::as_bytes(std::span(data, size)));
    if (!program.ok()) return 0;
    hearth::vm::Interpreter interpreter(program.value(), "");
    std::vector<hearth::vm::Token> trace;
    interpreter.run_traced(trace, 20000);
    return 0;
}
