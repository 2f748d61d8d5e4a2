// Collects instructions, constants and forward branches of a program that is being compiled.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/result.h"
#include "vm/program.h"

namespace hearth::vm {

using Field = std::uint16_t;  // a slot as an instruction names it

class ProgramBuilder {
public:
    Program program;

    std::uint32_t here() const { return static_cast<std::uint32_t>(program.code.size()); }
    void set_offset(std::size_t offset) { offset_ = static_cast<std::uint32_t>(offset); }

    std::uint32_t emit(Opcode opcode, Field d, Field a, Field b, std::uint32_t imm = 0) {
        program.code.push_back({opcode, d, a, b, imm});
        program.offsets.push_back(offset_);
        return here() - 1;
    }
    void emit(Opcode opcode, Field d, Field a) { emit(opcode, d, a, 0, 0); }
    std::uint32_t branch(Opcode opcode, Field a = 0, std::uint32_t target = 0) { return emit(opcode, 0, a, 0, target); }
    void patch(std::uint32_t instruction, std::uint32_t target) { program.code[instruction].imm = target; }
    void patch_here(std::uint32_t instruction) { patch(instruction, here()); }

    // The slot of a constant; equal constants share one.
    Field constant(std::uint64_t value) {
        const auto [found, is_new] = constants_.try_emplace(value, static_cast<std::uint32_t>(program.absolute.size()));
        if (is_new) program.absolute.push_back(value);
        return static_cast<Field>(kAbsolute + found->second);
    }
    std::optional<std::uint64_t> constant_value(Field field) const {
        if (field < kAbsolute || field - kAbsolute >= program.absolute.size()) return std::nullopt;
        const std::uint64_t value = program.absolute[field - kAbsolute];
        const auto found = constants_.find(value);
        if (found == constants_.end() || found->second + kAbsolute != field) return std::nullopt;
        return value;
    }
    // More constants than fields can name is found once, at the end.
    bool too_many_slots() const { return program.absolute.size() > kAbsolute; }

private:
    std::uint32_t offset_ = 0;
    std::map<std::uint64_t, std::uint32_t> constants_;
};

// Instruction sequences for what one instruction cannot do. Operands are slots, `scratch` the first free slot above
// everything in use; d may be one of the operands.
class Lowering {
public:
    Lowering(ProgramBuilder& out, Field scratch) : out_(out), scratch_(scratch) {}

    void rotate_right32(Field d, Field a, Field b);
    void count_trailing32(Field d, Field a);
    void population32(Field d, Field a);
    void multiply64(Field d, Field a, Field b);
    void bitwise64(Opcode opcode, Field d, Field a, Field b);
    void shift_left64(Field d, Field a, Field b);
    void shift_right64(Opcode shift_half, Field d, Field a, Field b);  // ShrU32 or ShrS32
    void rotate_left64(Field d, Field a, Field b);
    void rotate_right64(Field d, Field a, Field b);
    void count_trailing64(Field d, Field a);
    void population64(Field d, Field a);

private:
    Field temporary(int index) const { return static_cast<Field>(scratch_ + index); }
    Field high(Field field, int temporary_index);

    ProgramBuilder& out_;
    Field scratch_;
};

// 64-bit division as four routines, made where a program needs them: arguments in slots 0 and 1, result in slot 0.
class DivisionRoutines {
public:
    enum class Kind : std::uint8_t { DivU, DivS, RemU, RemS };
    void request(Kind kind, std::uint32_t call_instruction) { calls_.push_back({kind, call_instruction}); }
    void finish(ProgramBuilder& out);  // emits the routines and patches the calls

private:
    struct Request {
        Kind kind;
        std::uint32_t instruction;
    };
    std::vector<Request> calls_;
};

}  // namespace hearth::vm
