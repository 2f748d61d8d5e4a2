// Small programs for the tests of the vm room, assembled by hand.
#pragma once

#include <vector>

#include "vm/program.h"

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

}  // namespace hearth::vm
