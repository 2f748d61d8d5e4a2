#include "vm/isa.h"

#include "base/check.h"

namespace hearth::vm {

namespace {

struct OpcodeRow {
    Opcode opcode;
    std::string_view name;
    std::string_view fields;  // of "dabi"; 't': imm is an instruction
};

constexpr std::array<OpcodeRow, kOpcodeCount> kOpcodes = {{
    {Opcode::Halt, "halt", ""},
    {Opcode::Trap, "trap", "i"},
    {Opcode::Move, "move", "da"},
    {Opcode::MoveIf, "move_if", "dab"},
    {Opcode::Add32, "add32", "dab"},
    {Opcode::Sub32, "sub32", "dab"},
    {Opcode::Mul32, "mul32", "dab"},
    {Opcode::MulHigh64, "mul_high64", "dab"},
    {Opcode::And32, "and32", "dab"},
    {Opcode::Or32, "or32", "dab"},
    {Opcode::Xor32, "xor32", "dab"},
    {Opcode::Shl32, "shl32", "dab"},
    {Opcode::ShrU32, "shr_u32", "dab"},
    {Opcode::ShrS32, "shr_s32", "dab"},
    {Opcode::Rotl32, "rotl32", "dab"},
    {Opcode::DivU32, "div_u32", "dab"},
    {Opcode::DivS32, "div_s32", "dab"},
    {Opcode::RemU32, "rem_u32", "dab"},
    {Opcode::RemS32, "rem_s32", "dab"},
    {Opcode::Clz32, "clz32", "da"},
    {Opcode::Add64, "add64", "dab"},
    {Opcode::Sub64, "sub64", "dab"},
    {Opcode::Clz64, "clz64", "da"},
    {Opcode::Equal, "equal", "dab"},
    {Opcode::NotEqual, "not_equal", "dab"},
    {Opcode::LessU, "less_u", "dab"},
    {Opcode::LessEqU, "less_eq_u", "dab"},
    {Opcode::LessS32, "less_s32", "dab"},
    {Opcode::LessEqS32, "less_eq_s32", "dab"},
    {Opcode::LessS64, "less_s64", "dab"},
    {Opcode::LessEqS64, "less_eq_s64", "dab"},
    {Opcode::High, "high", "da"},
    {Opcode::Low, "low", "da"},
    {Opcode::Pack, "pack", "dab"},
    {Opcode::Extend8, "extend8", "db"},
    {Opcode::Extend16, "extend16", "da"},
    {Opcode::Extend32, "extend32", "da"},
    {Opcode::Load8, "load8", "dai"},
    {Opcode::Load16, "load16", "dai"},
    {Opcode::Load32, "load32", "dai"},
    {Opcode::Load64, "load64", "dai"},
    {Opcode::Store8, "store8", "abi"},
    {Opcode::Store16, "store16", "abi"},
    {Opcode::Store32, "store32", "abi"},
    {Opcode::Store64, "store64", "abi"},
    {Opcode::TableGet, "table_get", "dai"},
    {Opcode::Output, "output", "b"},
    {Opcode::Branch, "branch", "t"},
    {Opcode::BranchIf, "branch_if", "at"},
    {Opcode::BranchIfZero, "branch_if_zero", "at"},
    {Opcode::BranchTable, "branch_table", "ai"},
    {Opcode::Call, "call", "dt"},
    {Opcode::CallSlot, "call_slot", "da"},
    {Opcode::Return, "return", ""},
}};

constexpr bool rows_are_in_order() {
    for (std::size_t i = 0; i < kOpcodes.size(); ++i) {
        if (static_cast<std::size_t>(kOpcodes[i].opcode) != i) return false;
    }
    return true;
}
static_assert(rows_are_in_order());

std::string hex_byte(unsigned value) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    return {kDigits[value >> 4], kDigits[value & 15]};
}

}  // namespace

std::string_view trap_message(TrapKind kind) {
    switch (kind) {
        case TrapKind::Unreachable: return "unreachable executed";
        case TrapKind::DivideByZero: return "integer divide by zero";
        case TrapKind::Overflow: return "integer overflow";
        case TrapKind::OutOfBounds: return "out of bounds memory access";
        case TrapKind::UndefinedElement: return "undefined table element";
        case TrapKind::UninitializedElement: return "uninitialized table element";
        case TrapKind::SignatureMismatch: return "indirect call signature mismatch";
        case TrapKind::StackOverflow: return "call stack exhausted";
    }
    return "trap";
}

std::string_view mnemonic(Opcode opcode) {
    return kOpcodes[static_cast<std::size_t>(opcode)].name;
}

std::optional<Opcode> opcode_by_name(std::string_view name) {
    for (const OpcodeRow& row : kOpcodes) {
        if (row.name == name) return row.opcode;
    }
    return std::nullopt;
}

OperandUse operand_use(Opcode opcode) {
    OperandUse use;
    for (const char field : kOpcodes[static_cast<std::size_t>(opcode)].fields) {
        use.d |= field == 'd';
        use.a |= field == 'a';
        use.b |= field == 'b';
        use.imm |= field == 'i' || field == 't';
        use.target |= field == 't';
    }
    return use;
}

std::string token_name(Token value) {
    using namespace token;
    CHECK(value < kCount);
    if (is_byte(value)) return hex_byte(static_cast<unsigned>(value - kByte));
    if (is_output(value)) {
        const unsigned byte = static_cast<unsigned>(value - kOut);
        return byte > 0x20 && byte < 0x7f ? std::string("out(") + static_cast<char>(byte) + ")"
                                          : "out(" + hex_byte(byte) + ")";
    }
    if (value >= kOpcode) return std::string(mnemonic(static_cast<Opcode>(value - kOpcode)));
    if (value >= kTrap) {
        static constexpr std::array<std::string_view, kTrapCount> kNames = {
            "unreachable",       "divide_by_zero",        "overflow",           "out_of_bounds",
            "undefined_element", "uninitialized_element", "signature_mismatch", "stack_overflow"};
        return "trap(" + std::string(kNames[static_cast<std::size_t>(value - kTrap)]) + ")";
    }
    switch (value) {
        case kBegin: return "{";
        case kEnd: return "}";
        case kConst: return "const";
        case kAt: return "at";
        case kStart: return "start";
        case kCommit: return "commit";
        case kSkip: return "skip";
        case kSep: return "sep";
        case kSep2: return "sep2";
        case kHigh: return "high!";
        case kJump: return "jump";
        case kCall: return "call!";
        case kReturn: return "return!";
        default: return "halt!";
    }
}

}  // namespace hearth::vm
