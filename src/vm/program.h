// A compiled program: instructions, the first values of its own slots, memory contents, and where each instruction
// came from. It is written to and read from .vm files, and turned into the prompt of the model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "vm/isa.h"

namespace hearth::vm {

struct DataSegment {
    std::uint32_t address = 0;
    std::vector<std::uint8_t> bytes;
};

struct FunctionInfo {
    std::string name;
    std::uint32_t first = 0;  // its first instruction; it ends where the next one begins
};

struct Program {
    std::vector<Instruction> code;
    std::vector<std::uint32_t> offsets;   // byte offset in the WebAssembly file, one an instruction
    std::vector<std::uint64_t> absolute;  // values of the absolute slots; [0] is the number of memory pages
    std::vector<DataSegment> data;        // ascending, without overlap; addresses from kTableBase on are the table
    std::vector<FunctionInfo> functions;  // ascending
    std::uint32_t entry = 0;              // first instruction
    std::uint32_t input_base = 0;         // where the input string goes
    bool takes_input = false;

    std::uint64_t memory_bytes() const { return absolute[kMemoryPagesSlot] * kPageBytes; }
};

// What would make the machine leave its tables: targets, slots, opcodes, segments. Files are checked when read.
Status check_program(const Program& program);

// Whether the input and its closing zero are put into the memory: the program takes one, and it fits.
bool places_input(const Program& program, std::string_view input);
// An input that is not empty must fit in the memory and hold no zero byte itself.
Status check_input(const Program& program, std::string_view input);

// The prompt: program, constants and memory. `prompt_input` is what follows for one input.
enum class PromptCode : std::uint8_t { Listed, Baked };  // Baked: the instructions are in the weights
std::vector<Token> prompt_program(const Program& program, PromptCode code = PromptCode::Listed);
std::vector<Token> prompt_input(const Program& program, std::string_view input);

// The way back: the program a whole prompt lists, its input among the data. Where the instructions came from is lost.
Result<Program> program_of_prompt(std::span<const Token> prompt);
// The input a prompt gives this program; an error where the prompt is not the program, its input and nothing else.
Result<std::string> input_of_prompt(const Program& program, std::span<const Token> prompt);

std::vector<std::byte> write_program(const Program& program);
Result<Program> read_program(std::span<const std::byte> bytes);
bool is_program_file(std::span<const std::byte> bytes);

std::string disassemble(const Program& program);
std::string instruction_text(const Instruction& instruction);
// "function NAME, byte offset 0x1f3" of an instruction.
std::string position_text(const Program& program, std::uint32_t pc);
const FunctionInfo* function_of(const Program& program, std::uint32_t pc);

}  // namespace hearth::vm
