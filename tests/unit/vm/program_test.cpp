#include "vm/program.h"

#include <gtest/gtest.h>

#include "vm/interpreter.h"
#include "vm_programs.h"

namespace hearth::vm {
namespace {

Program sample() {
    Program program = make_program({5, 0xffffffffffffffff}, {{Opcode::Add32, 0, constant_slot(0), constant_slot(1), 0},
                                                             {Opcode::Output, 0, 0, 0, 0},
                                                             {Opcode::Halt, 0, 0, 0, 0}});
    program.data = {{16, {1, 2, 3}}};
    program.offsets = {7, 8, 9};
    return program;
}

TEST(Program, ReadsBackFromItsFile) {
    const Program program = sample();
    const Result<Program> read = read_program(write_program(program));
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->absolute, program.absolute);
    EXPECT_EQ(read->offsets, program.offsets);
    EXPECT_EQ(read->functions[0].name, "main");
    EXPECT_EQ(disassemble(read.value()), disassemble(program));
    EXPECT_EQ(prompt_program(read.value()), prompt_program(program));
}

TEST(Program, EveryTruncationOfItsFileIsRefused) {
    const std::vector<std::byte> bytes = write_program(sample());
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        EXPECT_FALSE(read_program(std::span(bytes).first(size)).ok()) << size;
    }
    std::vector<std::byte> longer = bytes;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(read_program(longer).ok());
}

TEST(Program, WhatWouldLeaveTheMachinesTablesIsRefused) {
    const auto refuses = [](auto change) {
        Program program = sample();
        change(program);
        return !check_program(program).ok();
    };
    EXPECT_FALSE(refuses([](Program&) {}));
    EXPECT_TRUE(refuses([](Program& p) { p.code[0].a = static_cast<std::uint16_t>(kAbsolute + 3); }));
    EXPECT_TRUE(refuses([](Program& p) { p.code[1] = {Opcode::Branch, 0, 0, 0, 3}; }));
    EXPECT_TRUE(refuses([](Program& p) { p.code[1] = {Opcode::Call, 40000, 0, 0, 0}; }));
    EXPECT_TRUE(refuses([](Program& p) { p.code[1] = {Opcode::BranchTable, 0, 0, 0, 1}; }));
    EXPECT_TRUE(refuses([](Program& p) { p.code.back().opcode = Opcode::Add32; }));
    EXPECT_TRUE(refuses([](Program& p) { p.absolute[0] = kMaxPages + 1; }));
    EXPECT_TRUE(refuses([](Program& p) { p.data[0].address = kPageBytes - 2; }));
    EXPECT_TRUE(refuses([](Program& p) { p.entry = 3; }));
    // The number of memory pages changes by memory.grow alone.
    EXPECT_TRUE(refuses([](Program& p) { p.code[0].d = static_cast<std::uint16_t>(kAbsolute + kMemoryPagesSlot); }));
    EXPECT_FALSE(refuses([](Program& p) {
        p.code[0].opcode = Opcode::MoveIf;
        p.code[0].d = static_cast<std::uint16_t>(kAbsolute + kMemoryPagesSlot);
    }));
    EXPECT_TRUE(refuses([](Program& p) { p.code.clear(); }));
}

TEST(Program, PromptsHoldElevenTokensAnInstruction) {
    const std::vector<Token> prompt = prompt_program(sample());
    EXPECT_EQ(prompt[0], token::kBegin);
    EXPECT_EQ(prompt[1], token::kOpcode + static_cast<Token>(Opcode::Add32));
    EXPECT_EQ(prompt[12], token::kOpcode + static_cast<Token>(Opcode::Output));
    EXPECT_EQ(prompt[34], token::kEnd);
    // 16 at 01 02 03 }
    const std::vector<Token> data = {token::kByte + 16, token::kAt,       token::kByte + 1,
                                     token::kByte + 2,  token::kByte + 3, token::kEnd};
    EXPECT_EQ(std::vector<Token>(prompt.end() - 6, prompt.end()), data);
}

TEST(Program, EveryTokenHasItsOwnName) {
    std::vector<std::string> names;
    for (Token t = 0; t < token::kCount; ++t) names.push_back(token_name(t));
    std::sort(names.begin(), names.end());
    EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
    for (std::size_t i = 0; i < kOpcodeCount; ++i) {
        EXPECT_EQ(opcode_by_name(mnemonic(static_cast<Opcode>(i))), static_cast<Opcode>(i));
    }
}

TEST(Interpreter, TracesValuesWithoutLeadingZeroBytes) {
    const Program program = make_program({0, 0x1234}, {{Opcode::Move, 0, constant_slot(0), 0, 0},
                                                       {Opcode::Move, 0, constant_slot(1), 0, 0},
                                                       {Opcode::Halt, 0, 0, 0, 0}});
    Interpreter interpreter(program, "");
    std::vector<Token> trace;
    EXPECT_EQ(interpreter.run_traced(trace, 100), Interpreter::State::Halted);
    const std::vector<Token> expected = {token::kCommit, token::kByte + 0x12, token::kByte + 0x34, token::kCommit,
                                         token::kHalt};
    EXPECT_EQ(trace, expected);
}

}  // namespace
}  // namespace hearth::vm
