// The parts of the machine's definition; each function below fills some of them. In the order they are computed.
#pragma once

#include <initializer_list>

#include "vm/machine.h"

namespace hearth::vm {

struct MachineParts {
    Graph graph;
    const Program* baked = nullptr;

    // Inputs.
    Linear byte, is_byte;
    std::array<Linear, 8> bits;
    Linear power, inverse_power;  // of a byte: 2^(b mod 32) and 2^32 divided by it
    Linear ends, jumps, nesting, is_call, is_frame, is_commit, is_const;
    Linear after_sep, after_sep2, after_high, after_at;  // on the tokens themselves
    Linear opcode_x, opcode_y;

    // The run of bytes that ends here.
    Linear run_start;                        // position of the latest token that is no byte
    Linear run_length;                       // bytes since then
    Linear in_sep, in_sep2, in_high, in_at;  // what that token was
    Linear run_low, run_high;                // value of the run in 16-bit parts
    Linear previous_run;                     // value of the run before that token
    Linear before_previous;                  // and of the one before
    // At a token that ends a run: that run, and the upper half before it.
    Linear ended_low, ended_high, upper_low, upper_high, upper_run;

    // Where we are.
    Linear started, cursor, frame, depth, const_count;
    Linear old_cursor, old_frame;  // one token before
    Linear field_d, field_a, field_b, immediate;
    Linear return_cursor, return_frame;

    // Operands: 16-bit parts from the lowest, the position of the lowest byte.
    struct Operand {
        std::array<Linear, 4> parts;
        Linear end;
        Linear low, high;  // 32-bit halves
    };
    Operand a, b;
    Linear memory_pages;
    Linear low_byte, shift_power, shift_inverse;  // of b
    Linear address, memory_byte;

    // What is emitted.
    Linear number, divisor;  // the bytes of floor(number / divisor)
    Linear length, left;     // of the run, and how many bytes are still to come
    Linear bit_byte;         // the byte of a bitwise operation
    Linear emitted_byte;
    Linear wide_upper;  // an upper half comes first
    Linear ender;       // which of kEnders ends the run
    Linear trap, trap_kind;

    std::array<Linear, kOpcodeCount> flags;  // made when first asked for
    std::array<Linear, kOpcodeCount> gates;  // 1 on the opcode, at most -7 on others

    Linear is(Opcode opcode);
    Linear is(std::initializer_list<Opcode> opcodes);
};

void define_inputs(MachineParts& machine);
void define_runs(MachineParts& machine);
void define_fetch(MachineParts& machine);
void define_operands(MachineParts& machine);
void define_memory(MachineParts& machine);
void define_results(MachineParts& machine);
void define_digits(MachineParts& machine);
void define_choice(MachineParts& machine);

}  // namespace hearth::vm
