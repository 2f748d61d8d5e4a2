// The machine of isa.h, written as expressions: what every token of a trace makes the next one be.
#pragma once

#include "vm/expression.h"
#include "vm/program.h"

namespace hearth::vm {

// The machine for every program; or, with one baked in, for that program alone: its instructions become steps of the
// cursor, two neurons an instruction, and leave the prompt.
Graph build_machine(const Program* baked = nullptr);
inline constexpr std::size_t kMaxBaked = 2048;  // instructions of a program to bake in

// The scores of all kinds of token stand apart by this; differences inside a kind are smaller.
inline constexpr std::int64_t kKindScore = std::int64_t{1} << 20;

// The look-up that brings the opcode; the forward pass is specialised behind it.
inline constexpr std::string_view kFetchName = "fetch opcode";

// Tokens that end a run of bytes, in the order of the number that chooses among them.
inline constexpr std::array<Token, 8> kEnders = {token::kCommit, token::kSkip, token::kSep,  token::kSep2,
                                                 token::kHigh,   token::kJump, token::kCall, token::kReturn};

}  // namespace hearth::vm
