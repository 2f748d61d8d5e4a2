// The machine's instructions and the tokens its traces are written in. A register machine: every instruction reads
// at most two slots and writes at most one; slots hold 64 bits, and a 32-bit value has a zero upper half.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hearth::vm {

// What an instruction does; d, a, b are its slot fields, imm its 32-bit immediate. Values are a = (ah, al).
enum class Opcode : std::uint8_t {
    Halt,       // stop
    Trap,       // stop with the trap `imm`
    Move,       // d = a, both halves
    MoveIf,     // d = b where al or ah is not zero; otherwise nothing
    Add32,      // d = al + bl
    Sub32,      // d = al - bl
    Mul32,      // d = al * bl
    MulHigh64,  // d = upper half of a * b modulo 2^64
    And32,      // d = al & bl
    Or32,       // d = al | bl
    Xor32,      // d = al ^ bl
    Shl32,      // d = al << (bl mod 32)
    ShrU32,     // d = al >> (bl mod 32), zeros from the left
    ShrS32,     // d = al >> (bl mod 32), sign from the left
    Rotl32,     // d = al rotated left by bl mod 32
    DivU32,     // unsigned quotient; traps on bl = 0
    DivS32,     // signed quotient towards zero; traps on bl = 0 and on overflow
    RemU32,     // unsigned remainder; traps on bl = 0
    RemS32,     // signed remainder; traps on bl = 0
    Clz32,      // leading zeros of al
    Add64,      // d = a + b
    Sub64,      // d = a - b
    Clz64,      // leading zeros of a
    Equal,      // d = [a = b], on 64 bits as the unsigned comparisons below
    NotEqual,   // d = [a != b]
    LessU,      // d = [a < b]
    LessEqU,    // d = [a <= b]
    LessS32,    // d = [al < bl] as signed numbers
    LessEqS32,  // d = [al <= bl]
    LessS64,    // d = [a < b]
    LessEqS64,  // d = [a <= b]
    High,       // d = ah
    Low,        // d = al
    Pack,       // d = (al, bl)
    Extend8,    // d = the low byte of b, its sign extended to 32 bits
    Extend16,   // d = the low 16 bits of a, their sign extended to 32 bits
    Extend32,   // d = al, its sign extended to 64 bits
    Load8,      // d = the byte at al + imm; all loads and stores trap beyond the memory
    Load16,     // two bytes, little endian in memory
    Load32,     // four
    Load64,     // eight
    Store8,     // the low byte of b to al + imm
    Store16,    // the low two bytes of b
    Store32,    // the low four bytes of b
    Store64,    // all of b
    TableGet,   // d = entry al of the function table; traps when al >= imm
    Output,     // one byte of output: the lowest of b
    Branch,     // continue at imm
    BranchIf,   // continue at imm where a is not zero
    BranchIfZero,
    BranchTable,  // continue at the next instruction + min(al, imm)
    Call,         // the callee's slot 0 is our slot d; continue at imm; traps when the stack is full
    CallSlot,     // the same, continue at al
    Return,
};
inline constexpr std::size_t kOpcodeCount = static_cast<std::size_t>(Opcode::Return) + 1;

enum class TrapKind : std::uint8_t {
    Unreachable,
    DivideByZero,
    Overflow,
    OutOfBounds,
    UndefinedElement,
    UninitializedElement,
    SignatureMismatch,
    StackOverflow,
};
inline constexpr std::size_t kTrapCount = 8;
std::string_view trap_message(TrapKind kind);

std::string_view mnemonic(Opcode opcode);
std::optional<Opcode> opcode_by_name(std::string_view name);

// Which fields of an instruction mean something, for the disassembler and the checker of program files.
struct OperandUse {
    bool d = false;
    bool a = false;
    bool b = false;
    bool imm = false;
    bool target = false;  // imm is the number of an instruction
};
OperandUse operand_use(Opcode opcode);

struct Instruction {
    Opcode opcode = Opcode::Halt;
    std::uint16_t d = 0;
    std::uint16_t a = 0;
    std::uint16_t b = 0;
    std::uint32_t imm = 0;
};

// A field below kAbsolute is a slot of the frame; from there on one of the program's own slots (globals, constants).
inline constexpr std::uint32_t kAbsolute = 32768;
inline constexpr std::uint32_t kFirstFrame = 65536;     // the frame pointer of the entry
inline constexpr std::uint32_t kStackLimit = 1u << 22;  // frame pointers stay below
inline constexpr std::uint32_t kMaxDepth = 65536;       // calls inside each other
inline constexpr std::uint32_t kMemoryPagesSlot = 0;    // the absolute slot that holds memory.size
inline constexpr std::uint32_t kPageBytes = 65536;
inline constexpr std::uint32_t kMaxPages = 1024;  // 64 MiB: squares of addresses stay exact in a double
inline constexpr std::uint32_t kTableBase = kMaxPages * kPageBytes;  // the function table lies behind the memory
inline constexpr std::uint32_t kMaxTable = 65536;
inline constexpr std::uint32_t kMaxInstructions = 1u << 20;
inline constexpr std::uint32_t kInstructionTokens = 11;  // opcode, d, a, b (two bytes each), imm (four bytes)

// Tokens. Bytes are written most significant first, and leading zero bytes are left out where the length is free.
using Token = std::uint16_t;
namespace token {
inline constexpr Token kBegin = 0;     // "{": position 0, the entry every look-up falls back to
inline constexpr Token kByte = 1;      // 256 of them
inline constexpr Token kOut = 257;     // 256 of them: a byte of output, ends an instruction
inline constexpr Token kEnd = 513;     // "}": ends the program or a run of data
inline constexpr Token kConst = 514;   // the value before it is the next absolute slot
inline constexpr Token kAt = 515;      // the bytes after it are memory from the address before it
inline constexpr Token kStart = 516;   // execution begins at the instruction before it
inline constexpr Token kCommit = 517;  // the value before it is the result; ends an instruction
inline constexpr Token kSkip = 518;    // ends an instruction that has no result
inline constexpr Token kSep = 519;     // ends an intermediate value
inline constexpr Token kSep2 = 520;    // ends a second intermediate value
inline constexpr Token kHigh = 521;    // the value before it is an upper half, the lower one follows
inline constexpr Token kJump = 522;    // the value before it is where to continue
inline constexpr Token kCall = 523;    // frame pointer, kSep, instruction number, kCall
inline constexpr Token kReturn = 524;  // the same on the way back
inline constexpr Token kHalt = 525;
inline constexpr Token kTrap = 526;                                       // kTrapCount of them
inline constexpr Token kOpcode = kTrap + static_cast<Token>(kTrapCount);  // kOpcodeCount of them
inline constexpr Token kCount = kOpcode + static_cast<Token>(kOpcodeCount);
}  // namespace token

std::string token_name(Token token);

constexpr bool is_stop(Token value) {
    return value == token::kHalt || (value >= token::kTrap && value < token::kTrap + kTrapCount);
}
constexpr bool is_output(Token value) {
    return value >= token::kOut && value < token::kOut + 256;
}
constexpr bool is_byte(Token value) {
    return value >= token::kByte && value < token::kByte + 256;
}

// Bytes needed for `value` without leading zero bytes; 0 for 0.
constexpr int byte_length(std::uint32_t value) {
    return (value >= 1 ? 1 : 0) + (value >= 256 ? 1 : 0) + (value >= 65536 ? 1 : 0) + (value >= 16777216 ? 1 : 0);
}

}  // namespace hearth::vm
