#include "vm/program.h"

#include <algorithm>

namespace hearth::vm {

namespace {

Error bad(std::string what) {
    return Error{ErrorCode::InvalidModel, "program: " + std::move(what)};
}

std::string hex(std::uint64_t value) {
    std::string text;
    do {
        text.insert(text.begin(), "0123456789abcdef"[value & 15]);
        value >>= 4;
    } while (value != 0);
    return "0x" + text;
}

void push_number(std::vector<Token>& tokens, std::uint32_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; --i) {
        tokens.push_back(static_cast<Token>(token::kByte + ((value >> (8 * i)) & 255)));
    }
}

void push_number(std::vector<Token>& tokens, std::uint32_t value) {
    push_number(tokens, value, byte_length(value));
}

void push_segment(std::vector<Token>& tokens, std::uint32_t address, std::span<const std::uint8_t> bytes) {
    push_number(tokens, address);
    tokens.push_back(token::kAt);
    for (const std::uint8_t byte : bytes) tokens.push_back(static_cast<Token>(token::kByte + byte));
    tokens.push_back(token::kEnd);
}

Status check_slot(const Program& program, std::uint32_t field, std::size_t pc) {
    if (field >= kAbsolute && field - kAbsolute >= program.absolute.size()) {
        return bad("instruction " + std::to_string(pc) + " names a slot that does not exist");
    }
    return {};
}

}  // namespace

Status check_program(const Program& program) {
    const std::size_t count = program.code.size();
    if (count == 0 || count > kMaxInstructions) return bad("no instructions, or more than 1048576");
    if (program.offsets.size() != count) return bad("offsets do not match the instructions");
    if (program.absolute.empty() || program.absolute.size() > kAbsolute) {
        return bad("between 1 and 32768 absolute slots are possible");
    }
    if (program.absolute[kMemoryPagesSlot] > kMaxPages) return bad("more than 1024 memory pages");
    if (program.entry >= count) return bad("the entry is not an instruction");
    for (std::size_t pc = 0; pc < count; ++pc) {
        const Instruction& instruction = program.code[pc];
        const OperandUse use = operand_use(instruction.opcode);
        const bool call = instruction.opcode == Opcode::Call || instruction.opcode == Opcode::CallSlot;
        if (use.d && !call) TRY(check_slot(program, instruction.d, pc));
        if (call && instruction.d >= kAbsolute) return bad("call with a frame out of range");
        if (use.d && instruction.d == kAbsolute + kMemoryPagesSlot && instruction.opcode != Opcode::MoveIf) {
            return bad("only memory.grow, a move_if, may change the number of memory pages");
        }
        if (use.a) TRY(check_slot(program, instruction.a, pc));
        if (use.b) TRY(check_slot(program, instruction.b, pc));
        if (use.target && instruction.imm >= count) return bad("a branch leaves the program");
        if (instruction.opcode == Opcode::BranchTable && instruction.imm >= count - pc - 1) {
            return bad("a branch table leaves the program");
        }
        if (instruction.opcode == Opcode::TableGet && instruction.imm > kMaxTable) return bad("table too large");
        if (instruction.opcode == Opcode::Trap && instruction.imm >= kTrapCount) return bad("unknown trap");
    }
    const Opcode last = program.code.back().opcode;
    if (last != Opcode::Halt && last != Opcode::Trap && last != Opcode::Branch && last != Opcode::Return) {
        return bad("runs over its end");
    }
    for (const DataSegment& segment : program.data) {
        const std::uint64_t end = std::uint64_t{segment.address} + segment.bytes.size();
        const bool table = segment.address >= kTableBase;
        if (end > (table ? std::uint64_t{kTableBase} + 8 * kMaxTable : program.memory_bytes())) {
            return bad("a data segment does not fit in the memory");
        }
    }
    std::uint32_t before = 0;
    for (const FunctionInfo& function : program.functions) {
        if (function.first < before || function.first >= count) return bad("functions out of order");
        before = function.first;
    }
    return {};
}

bool places_input(const Program& program, std::string_view input) {
    return program.takes_input && std::uint64_t{program.input_base} + input.size() + 1 <= program.memory_bytes();
}

Status check_input(const Program& program, std::string_view input) {
    if (input.empty()) return {};
    if (!program.takes_input) return Error{ErrorCode::Usage, "this program takes no input"};
    if (input.find('\0') != std::string_view::npos) {
        return Error{ErrorCode::Usage, "the input holds a zero byte, which would end it"};
    }
    if (!places_input(program, input)) {
        return Error{ErrorCode::Usage,
                     "an input of " + std::to_string(input.size()) + " bytes does not fit in the program's memory"};
    }
    return {};
}

std::vector<Token> prompt_program(const Program& program, PromptCode code) {
    std::vector<Token> tokens;
    tokens.reserve(program.code.size() * kInstructionTokens + program.absolute.size() * 6 + 16);
    tokens.push_back(token::kBegin);
    for (const Instruction& instruction : program.code) {
        if (code == PromptCode::Baked) break;
        tokens.push_back(static_cast<Token>(token::kOpcode + static_cast<Token>(instruction.opcode)));
        push_number(tokens, instruction.d, 2);
        push_number(tokens, instruction.a, 2);
        push_number(tokens, instruction.b, 2);
        push_number(tokens, instruction.imm, 4);
    }
    tokens.push_back(token::kEnd);
    for (const std::uint64_t value : program.absolute) {
        if ((value >> 32) != 0) {
            push_number(tokens, static_cast<std::uint32_t>(value >> 32));
            tokens.push_back(token::kHigh);
        }
        push_number(tokens, static_cast<std::uint32_t>(value));
        tokens.push_back(token::kConst);
    }
    for (const DataSegment& segment : program.data) push_segment(tokens, segment.address, segment.bytes);
    return tokens;
}

std::vector<Token> prompt_input(const Program& program, std::string_view input) {
    std::vector<Token> tokens;
    if (places_input(program, input)) {
        std::vector<std::uint8_t> bytes(input.begin(), input.end());
        bytes.push_back(0);
        push_segment(tokens, program.input_base, bytes);
    }
    push_number(tokens, program.entry);
    tokens.push_back(token::kStart);
    return tokens;
}

const FunctionInfo* function_of(const Program& program, std::uint32_t pc) {
    const auto after = std::upper_bound(program.functions.begin(), program.functions.end(), pc,
                                        [](std::uint32_t value, const FunctionInfo& f) { return value < f.first; });
    return after == program.functions.begin() ? nullptr : &*(after - 1);
}

std::string position_text(const Program& program, std::uint32_t pc) {
    const FunctionInfo* function = function_of(program, pc);
    std::string text = "function " + (function == nullptr ? "(entry)" : function->name);
    if (pc < program.offsets.size() && program.offsets[pc] != 0) text += ", byte offset " + hex(program.offsets[pc]);
    return text;
}

std::string instruction_text(const Instruction& instruction) {
    const OperandUse use = operand_use(instruction.opcode);
    const auto slot = [](std::uint32_t field) {
        return field < kAbsolute ? "s" + std::to_string(field) : "g" + std::to_string(field - kAbsolute);
    };
    std::string text(mnemonic(instruction.opcode));
    std::string separator = " ";
    const auto add = [&](const std::string& word) {
        text += separator + word;
        separator = ", ";
    };
    if (use.d) add(slot(instruction.d));
    if (use.a) add(slot(instruction.a));
    if (use.b) add(slot(instruction.b));
    if (use.target) add("@" + std::to_string(instruction.imm));
    if (use.imm && !use.target) add(std::to_string(instruction.imm));
    return text;
}

std::string disassemble(const Program& program) {
    std::string text;
    for (std::size_t i = 0; i < program.absolute.size(); ++i) {
        text += "g" + std::to_string(i) + " = " + hex(program.absolute[i]) + "\n";
    }
    for (const DataSegment& segment : program.data) {
        text += "data " + hex(segment.address) + ", " + std::to_string(segment.bytes.size()) + " bytes\n";
    }
    std::size_t next_function = 0;
    for (std::uint32_t pc = 0; pc < program.code.size(); ++pc) {
        while (next_function < program.functions.size() && program.functions[next_function].first == pc) {
            text += program.functions[next_function].name + ":\n";
            ++next_function;
        }
        std::string number = std::to_string(pc);
        number.insert(0, number.size() < 6 ? 6 - number.size() : 0, ' ');
        text += number + "  " + instruction_text(program.code[pc]) + "\n";
    }
    return text;
}

}  // namespace hearth::vm
