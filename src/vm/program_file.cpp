// The .vm file: little endian, all counts checked against the bytes that are left before anything is reserved.
#include <algorithm>
#include <array>

#include "vm/byte_stream.h"
#include "vm/program.h"

namespace hearth::vm {

namespace {

constexpr std::array<std::uint8_t, 8> kMagic = {'H', 'E', 'A', 'R', 'T', 'H', 'V', 'M'};
constexpr std::uint32_t kVersion = 1;

}  // namespace

std::vector<std::byte> write_program(const Program& program) {
    ByteWriter out;
    for (const std::uint8_t byte : kMagic) out.u8(byte);
    out.u32(kVersion);
    out.u32(program.entry);
    out.u32(program.input_base);
    out.u32(program.takes_input ? 1 : 0);
    out.u32(static_cast<std::uint32_t>(program.code.size()));
    for (std::size_t i = 0; i < program.code.size(); ++i) {
        const Instruction& instruction = program.code[i];
        out.u32(static_cast<std::uint32_t>(instruction.opcode));
        out.u16(instruction.d);
        out.u16(instruction.a);
        out.u16(instruction.b);
        out.u32(instruction.imm);
        out.u32(program.offsets[i]);
    }
    out.u32(static_cast<std::uint32_t>(program.absolute.size()));
    for (const std::uint64_t value : program.absolute) out.u64(value);
    out.u32(static_cast<std::uint32_t>(program.data.size()));
    for (const DataSegment& segment : program.data) {
        out.u32(segment.address);
        out.u32(static_cast<std::uint32_t>(segment.bytes.size()));
        out.bytes(segment.bytes);
    }
    out.u32(static_cast<std::uint32_t>(program.functions.size()));
    for (const FunctionInfo& function : program.functions) {
        out.u32(function.first);
        out.text(function.name);
    }
    return out.take();
}

bool is_program_file(std::span<const std::byte> bytes) {
    return bytes.size() >= kMagic.size() &&
           std::equal(kMagic.begin(), kMagic.end(), bytes.begin(),
                      [](std::uint8_t a, std::byte b) { return a == static_cast<std::uint8_t>(b); });
}

Result<Program> read_program(std::span<const std::byte> bytes) {
    if (!is_program_file(bytes)) return Error{ErrorCode::InvalidModel, "program: not a .vm file"};
    ByteReader in(bytes.subspan(kMagic.size()), "program");
    if (TRY(in.u32()) != kVersion) return Error{ErrorCode::InvalidModel, "program: unknown version of the .vm format"};
    Program program;
    program.entry = TRY(in.u32());
    program.input_base = TRY(in.u32());
    program.takes_input = TRY(in.u32()) != 0;
    const std::size_t instructions = TRY(in.count(18));
    program.code.reserve(instructions);
    program.offsets.reserve(instructions);
    for (std::size_t i = 0; i < instructions; ++i) {
        Instruction instruction;
        const std::uint32_t opcode = TRY(in.u32());
        if (opcode >= kOpcodeCount) return Error{ErrorCode::InvalidModel, "program: unknown opcode"};
        instruction.opcode = static_cast<Opcode>(opcode);
        instruction.d = TRY(in.u16());
        instruction.a = TRY(in.u16());
        instruction.b = TRY(in.u16());
        instruction.imm = TRY(in.u32());
        program.code.push_back(instruction);
        program.offsets.push_back(TRY(in.u32()));
    }
    const std::size_t slots = TRY(in.count(8));
    for (std::size_t i = 0; i < slots; ++i) program.absolute.push_back(TRY(in.u64()));
    const std::size_t segments = TRY(in.count(8));
    for (std::size_t i = 0; i < segments; ++i) {
        DataSegment segment;
        segment.address = TRY(in.u32());
        segment.bytes = TRY(in.blob());
        program.data.push_back(std::move(segment));
    }
    const std::size_t functions = TRY(in.count(8));
    for (std::size_t i = 0; i < functions; ++i) {
        FunctionInfo function;
        function.first = TRY(in.u32());
        function.name = TRY(in.text());
        program.functions.push_back(std::move(function));
    }
    if (in.left() != 0) return Error{ErrorCode::InvalidModel, "program: bytes after the end"};
    TRY(check_program(program));
    return program;
}

}  // namespace hearth::vm
