#include <gtest/gtest.h>

#include "vm/interpreter.h"
#include "vm/wasm_compiler.h"

namespace hearth::vm {
namespace {

using Bytes = std::vector<std::uint8_t>;

void append(Bytes& to, const Bytes& part) {
    for (const std::uint8_t byte : part) to.push_back(byte);
}

void append(Bytes& to, std::string_view text) {
    for (const char c : text) to.push_back(static_cast<std::uint8_t>(c));
}

void append_number(Bytes& to, std::size_t value) {  // LEB128
    for (; value > 127; value >>= 7) to.push_back(static_cast<std::uint8_t>((value & 127) | 128));
    to.push_back(static_cast<std::uint8_t>(value));
}

void append_section(Bytes& to, std::uint8_t id, const Bytes& content) {
    to.push_back(id);
    append_number(to, content.size());
    append(to, content);
}

// A module with env.output_byte as function 0 and `compute` (i32) -> () as function 1, and as often as wanted again.
Bytes module_of(const Bytes& body, const Bytes& locals = {0}, std::size_t functions = 1) {
    Bytes import = {1, 3};
    append(import, "env");
    import.push_back(11);
    append(import, "output_byte");
    append(import, Bytes{0, 0});
    Bytes exported = {1, 7};
    append(exported, "compute");
    append(exported, Bytes{0, 1});
    Bytes types, bodies;
    append_number(types, functions);
    append_number(bodies, functions);
    for (std::size_t i = 0; i < functions; ++i) {
        types.push_back(0);
        append_number(bodies, locals.size() + body.size() + 1);
        append(bodies, locals);
        append(bodies, body);
        bodies.push_back(0x0b);
    }
    Bytes bytes = {0};
    append(bytes, "asm");
    append(bytes, Bytes{1, 0, 0, 0});
    append_section(bytes, 1, {1, 0x60, 1, 0x7f, 0});
    append_section(bytes, 2, import);
    append_section(bytes, 3, types);
    append_section(bytes, 5, {1, 0, 1});
    append_section(bytes, 7, exported);
    append_section(bytes, 10, bodies);
    return bytes;
}

std::span<const std::byte> view(const Bytes& bytes) {
    return std::as_bytes(std::span(bytes));
}

std::string refusal_of_module(const Bytes& module) {
    const Result<Program> program = compile_wasm(view(module));
    return program.ok() ? "" : program.error().message;
}

std::string refusal(const Bytes& body) {
    return refusal_of_module(module_of(body));
}

std::string output_of(const Bytes& module, std::string_view input = "") {
    const Result<Program> program = compile_wasm(view(module));
    if (!program.ok()) return program.error().message;
    Interpreter interpreter(program.value(), input);
    if (interpreter.run(100000) == Interpreter::State::Trapped) return std::string(trap_message(interpreter.trap()));
    return interpreter.output();
}

TEST(Wasm, RunsAProgramThatPrintsItsInput) {
    // output_byte(load8_u(local 0))
    EXPECT_EQ(output_of(module_of({0x20, 0, 0x2d, 0, 0, 0x10, 0}), "Q"), "Q");
}

TEST(Wasm, BranchesWithValuesUnwindTheStack) {
    // block (result i32) 1 2 3 "A" br 0 end; the three below are gone
    EXPECT_EQ(output_of(module_of({0x02, 0x7f, 0x41, 1, 0x41, 2, 0x41, 3, 0x41, 0xc1, 0, 0x0c, 0, 0x0b, 0x10, 0})),
              "A");
}

TEST(Wasm, ALocalReadBeforeItChangesKeepsItsValue) {
    // local.get 0, local.set 0 'B', output(the old value + 'A')
    EXPECT_EQ(output_of(module_of({0x41, 0xc1, 0, 0x21, 1, 0x20, 1, 0x41, 0xc2, 0, 0x21, 1, 0x10, 0, 0x20, 1, 0x10, 0},
                                  {1, 1, 0x7f})),
              "AB");
}

TEST(Wasm, TrapsAreNamed) {
    EXPECT_EQ(output_of(module_of({0x00})), "unreachable executed");
    EXPECT_EQ(output_of(module_of({0x41, 1, 0x41, 0, 0x6d, 0x1a})), "integer divide by zero");
    EXPECT_EQ(output_of(module_of({0x41, 0x7f, 0x28, 2, 0, 0x1a})), "out of bounds memory access");
}

TEST(Wasm, WhatTheMachineCannotDoIsRefusedByName) {
    EXPECT_NE(refusal({0x43, 0, 0, 0, 0, 0x1a}).find("f32.const"), std::string::npos);
    EXPECT_NE(refusal({0x41, 0, 0xb2, 0x1a}).find("f32.convert_i32_s"), std::string::npos);
    EXPECT_NE(refusal({0xfd, 0x0c}).find("SIMD"), std::string::npos);
    EXPECT_NE(refusal({0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 0x08, 0, 0}).find("memory.init"), std::string::npos);
    EXPECT_NE(refusal({0xd0, 0x70, 0x1a}).find("ref.null"), std::string::npos);
}

TEST(Wasm, WronglyTypedCodeIsRefused) {
    EXPECT_FALSE(refusal({0x6a}).empty());                          // nothing to add
    EXPECT_FALSE(refusal({0x41, 0, 0x42, 0, 0x6a, 0x1a}).empty());  // i32 + i64
    EXPECT_FALSE(refusal({0x41, 0}).empty());                       // a value is left
    EXPECT_FALSE(refusal({0x0c, 5}).empty());                       // no such block
    EXPECT_FALSE(refusal({0x20, 9, 0x1a}).empty());                 // no such local
    EXPECT_FALSE(refusal({0x10, 9}).empty());                       // no such function
    EXPECT_FALSE(refusal({0x28, 3, 0, 0x1a}).empty());              // alignment
    EXPECT_FALSE(refusal({0x05}).empty());                          // else without if
    EXPECT_TRUE(refusal({0x00, 0x6a, 0x1a}).empty());               // anything may follow unreachable
}

TEST(Wasm, EveryTruncationAndEveryChangedByteIsAnswered) {
    const Bytes whole = module_of({0x02, 0x40, 0x20, 0, 0x0d, 0, 0x41, 1, 0x10, 0, 0x0b});
    ASSERT_TRUE(compile_wasm(view(whole)).ok());
    for (std::size_t size = 0; size < whole.size(); ++size) {
        EXPECT_FALSE(compile_wasm(view(whole).first(size)).ok()) << size;
    }
    for (std::size_t i = 0; i < whole.size(); ++i) {
        for (int value = 0; value < 256; ++value) {
            Bytes changed = whole;
            changed[i] = static_cast<std::uint8_t>(value);
            static_cast<void>(compile_wasm(view(changed)));  // an answer, whatever it is
        }
    }
}

TEST(Wasm, LocalsAreCountedOverAllFunctions) {
    const Bytes locals = {1, 0x80, 0x80, 0x01, 0x7f};  // 16384 i32
    EXPECT_EQ(refusal_of_module(module_of({}, locals, 60)), "");
    EXPECT_NE(refusal_of_module(module_of({}, locals, 65)).find("1048576 locals in all functions"), std::string::npos);
}

TEST(Wasm, AFunctionThatGrowsTooLongIsRefusedBeforeItsEndIsRead) {
    Bytes body;
    for (int i = 0; i < 1100000; ++i) append(body, Bytes{0x20, 0, 0x10, 0});  // output_byte(local 0)
    body.push_back(0xff);                                                     // no instruction
    EXPECT_NE(refusal(body).find("more than 1048576 instructions"), std::string::npos);
}

TEST(Wasm, LaterDataLiesOverEarlierDataAndLongGapsAreLeftOut) {
    Bytes module = module_of({});
    append_section(module, 11, {3, 0, 0x41, 4, 0x0b, 3, 1, 2, 3, 0, 0x41, 32, 0x0b, 1, 9, 0, 0x41, 5, 0x0b, 1, 7});
    const Result<Program> program = compile_wasm(view(module));
    ASSERT_TRUE(program.ok()) << program.error().message;
    ASSERT_EQ(program->data.size(), 2u);
    EXPECT_EQ(program->data[0].address, 4u);
    EXPECT_EQ(program->data[0].bytes, (Bytes{1, 7, 3}));
    EXPECT_EQ(program->data[1].address, 32u);
    EXPECT_EQ(program->data[1].bytes, (Bytes{9}));
}

TEST(Wasm, ACountWithoutContentReservesNothing) {
    Bytes module = {0, 'a', 's', 'm', 1, 0, 0, 0, 1, 5, 0xff, 0xff, 0xff, 0xff, 0x0f};
    const Result<Program> program = compile_wasm(view(module));
    ASSERT_FALSE(program.ok());
    EXPECT_NE(program.error().message.find("count"), std::string::npos);
}

}  // namespace
}  // namespace hearth::vm
