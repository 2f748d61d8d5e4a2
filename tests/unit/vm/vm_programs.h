// What the tests of the vm room share: small programs assembled by hand, the model, traces.
#pragma once

#include <vector>

#include "vm/interpreter.h"
#include "vm/transformer.h"

namespace hearth::vm {

// A program over constants: g0 is the memory size, constants follow from g1 on.
inline Program make_program(std::vector<std::uint64_t> constants, std::vector<Instruction> code) {
    Program program;
    program.absolute = {1};
    program.absolute.insert(program.absolute.end(), constants.begin(), constants.end());
    program.code = std::move(code);
    program.offsets.assign(program.code.size(), 0);
    program.functions = {{"main", 0}};
    return program;
}

constexpr std::uint16_t constant_slot(std::size_t index) {
    return static_cast<std::uint16_t>(kAbsolute + 1 + index);
}

// d = opcode(a, b) for all pairs of constants, each followed by the output of all eight bytes of the result, so that
// a wrong upper half shows too.
inline Program all_pairs(Opcode opcode, std::vector<std::uint64_t> values) {
    std::vector<Instruction> code;
    const std::size_t count = values.size();
    for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t k = 0; k < count; ++k) {
            code.push_back({Opcode::Move, 0, constant_slot(0), 0, 0});
            code.push_back({opcode, 0, constant_slot(i), constant_slot(k), 0});
            code.push_back({Opcode::Output, 0, 0, 0, 0});
            code.push_back({Opcode::High, 1, 0, 0, 0});
            code.push_back({Opcode::Output, 0, 0, 1, 0});
        }
    }
    code.push_back({Opcode::Halt, 0, 0, 0, 0});
    return make_program(std::move(values), std::move(code));
}

// f(n) = n < 2 ? n : f(n - 1) + f(n - 2).
inline Program recursion(std::uint64_t n) {
    return make_program({n, 2, 1}, {{Opcode::Move, 0, constant_slot(0), 0, 0},
                                    {Opcode::Call, 0, 0, 0, 4},
                                    {Opcode::Output, 0, 0, 0, 0},
                                    {Opcode::Halt, 0, 0, 0, 0},
                                    {Opcode::LessU, 1, 0, constant_slot(1), 0},
                                    {Opcode::BranchIf, 0, 1, 0, 12},
                                    {Opcode::Sub32, 2, 0, constant_slot(2), 0},
                                    {Opcode::Call, 2, 0, 0, 4},
                                    {Opcode::Sub32, 3, 0, constant_slot(1), 0},
                                    {Opcode::Call, 3, 0, 0, 4},
                                    {Opcode::Add32, 0, 2, 3, 0},
                                    {Opcode::Return, 0, 0, 0, 0},
                                    {Opcode::Return, 0, 0, 0, 0}});
}

inline const Transformer& transformer(HeadMode mode = HeadMode::Auto) {
    static const std::unique_ptr<Transformer> automatic = build_transformer(HeadMode::Auto);
    static const std::unique_ptr<Transformer> hull = build_transformer(HeadMode::Hull);
    return mode == HeadMode::Auto ? *automatic : *hull;
}

inline std::vector<Token> whole_prompt(const Program& program, std::string_view input) {
    std::vector<Token> tokens = prompt_program(program);
    const std::vector<Token> last = prompt_input(program, input);
    tokens.insert(tokens.end(), last.begin(), last.end());
    return tokens;
}

inline std::vector<Token> native_trace(const Program& program, std::string_view input = "") {
    Interpreter interpreter(program, input);
    std::vector<Token> trace;
    interpreter.run_traced(trace, 1 << 20);
    return trace;
}

}  // namespace hearth::vm
