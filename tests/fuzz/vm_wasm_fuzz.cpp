// Bytes as a WebAssembly module: an error or a program that runs within its limits.
#include <cstddef>
#include <cstdint>
#include <span>

#include "vm/interpreter.h"
#include "vm/wasm_compiler.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
    const hearth::Result<hearth::vm::Program> program = hearth::vm::compile_wasm(bytes);
    if (!program.ok()) return 0;
    hearth::vm::Interpreter interpreter(program.value(), "");
    interpreter.run(20000);
    return 0;
}
