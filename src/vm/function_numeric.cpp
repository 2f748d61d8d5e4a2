// Memory and arithmetic of a WebAssembly function.
#include <array>

#include "vm/function_compiler.h"

namespace hearth::vm {

using enum Opcode;

// ---- memory

Result<std::uint32_t> FunctionCompiler::memory_argument(unsigned width) {
    if (!shared_.module.has_memory) return error("memory access without a memory");
    const std::uint32_t align = TRY(in_.u32());
    if (align >= 32 || (1u << align) > width) return error("alignment larger than the access");
    return in_.u32();
}

Status FunctionCompiler::memory(std::uint8_t opcode) {
    if (opcode == 0x3f || opcode == 0x40) {
        if (TRY(in_.byte()) != 0) return error("unsupported feature multiple memories");
        if (!shared_.module.has_memory) return error("memory instruction without a memory");
        if (opcode == 0x40) return memory_grow();
        const Field slot = TRY(push_own(Type::I32));
        emit_result(Move, slot, static_cast<Field>(kAbsolute + kMemoryPagesSlot));
        return {};
    }
    const std::string_view refused = unsupported_instruction(opcode);
    if (!refused.empty()) return error("unsupported instruction " + std::string(refused));
    return opcode <= 0x35 ? load(opcode) : store(opcode);
}

Status FunctionCompiler::memory_grow() {
    const Entry delta = TRY(pop(Type::I32));
    const Field slot = TRY(push_own(Type::I32));
    const Field pages = static_cast<Field>(kAbsolute + kMemoryPagesSlot);
    const Field before = scratch();
    const Field after = static_cast<Field>(before + 1);
    const Field fits = static_cast<Field>(before + 2);
    emit(Move, before, pages);
    emit(Add64, after, before, delta.field);
    emit(LessEqU, fits, after, out_.constant(shared_.module.memory_max_pages));
    emit(Move, slot, out_.constant(0xffffffff));
    emit(MoveIf, slot, fits, before);
    emit(MoveIf, pages, fits, after);
    return {};
}

// Nothing is written unless all of it lies inside the memory. `test` and the slot behind it are free to use.
void FunctionCompiler::check_bounds(Field address, Field count, Field test) {
    const Field end = static_cast<Field>(test + 1);
    emit(Mul32, test, static_cast<Field>(kAbsolute + kMemoryPagesSlot), out_.constant(kPageBytes));
    emit(Add64, end, address, count);
    emit(LessEqU, test, end, test);
    const std::uint32_t inside = branch(BranchIf, test);
    emit(Trap, 0, 0, 0, static_cast<std::uint32_t>(TrapKind::OutOfBounds));
    if (reachable_) out_.patch_here(inside);
}

// body, over and over, as long as `left` is not zero before it.
template <typename Body>
void FunctionCompiler::repeat(Field left, const Body& body) {
    bind();
    const std::uint32_t start = out_.here();
    const std::uint32_t done = branch(BranchIfZero, left);
    body();
    emit(Sub32, left, left, out_.constant(1));
    branch(Branch, 0, start);
    if (reachable_) out_.patch_here(done);
    bind();
}

Status FunctionCompiler::memory_fill() {
    if (TRY(in_.byte()) != 0) return error("unsupported feature multiple memories");
    if (!shared_.module.has_memory) return error("memory instruction without a memory");
    const Entry count = TRY(pop(Type::I32));
    const Entry value = TRY(pop(Type::I32));
    const Entry address = TRY(pop(Type::I32));
    const Field left = scratch();
    const Field at = static_cast<Field>(left + 1);
    check_bounds(address.field, count.field, at);
    emit(Move, left, count.field);
    emit(Move, at, address.field);
    repeat(left, [&] {
        emit(Store8, 0, at, value.field);
        emit(Add32, at, at, out_.constant(1));
    });
    return {};
}

// Upwards where the target lies below the source, downwards elsewhere: the two may overlap.
Status FunctionCompiler::memory_copy() {
    if (TRY(in_.byte()) != 0 || TRY(in_.byte()) != 0) return error("unsupported feature multiple memories");
    if (!shared_.module.has_memory) return error("memory instruction without a memory");
    const Entry count = TRY(pop(Type::I32));
    const Entry source = TRY(pop(Type::I32));
    const Entry target = TRY(pop(Type::I32));
    const Field left = scratch();
    const Field from = static_cast<Field>(left + 1);
    const Field to = static_cast<Field>(left + 2);
    const Field step = static_cast<Field>(left + 3);
    const Field byte = static_cast<Field>(left + 4);
    check_bounds(source.field, count.field, from);
    check_bounds(target.field, count.field, from);
    emit(Move, left, count.field);
    emit(Move, from, source.field);
    emit(Move, to, target.field);
    emit(Move, step, out_.constant(1));
    emit(LessEqU, byte, to, from);
    const std::uint32_t upwards = branch(BranchIf, byte);
    emit(Move, step, out_.constant(0xffffffff));
    emit(Sub32, byte, left, out_.constant(1));
    emit(Add32, from, from, byte);
    emit(Add32, to, to, byte);
    if (reachable_) out_.patch_here(upwards);
    repeat(left, [&] {
        emit(Load8, byte, from);
        emit(Store8, 0, to, byte);
        emit(Add32, from, from, step);
        emit(Add32, to, to, step);
    });
    return {};
}

Status FunctionCompiler::load(std::uint8_t opcode) {
    struct Row {
        Opcode load;
        unsigned width;
        Type type;
        bool is_signed;
    };
    // From i32.load, 0x28, to i64.load32_u, 0x35; the two floating-point loads are refused before.
    static constexpr std::array<Row, 14> kRows = {{{Load32, 4, Type::I32, false},
                                                   {Load64, 8, Type::I64, false},
                                                   {Halt, 0, Type::Any, false},
                                                   {Halt, 0, Type::Any, false},
                                                   {Load8, 1, Type::I32, true},
                                                   {Load8, 1, Type::I32, false},
                                                   {Load16, 2, Type::I32, true},
                                                   {Load16, 2, Type::I32, false},
                                                   {Load8, 1, Type::I64, true},
                                                   {Load8, 1, Type::I64, false},
                                                   {Load16, 2, Type::I64, true},
                                                   {Load16, 2, Type::I64, false},
                                                   {Load32, 4, Type::I64, true},
                                                   {Load32, 4, Type::I64, false}}};
    const Row& row = kRows[opcode - 0x28u];
    const std::uint32_t offset = TRY(memory_argument(row.width));
    const Entry address = TRY(pop(Type::I32));
    const Field slot = TRY(push_own(row.type));
    emit_result(row.load, slot, address.field, 0, offset);
    if (!row.is_signed) return {};
    if (row.width < 4) emit_result(row.width == 1 ? Extend8 : Extend16, slot, slot, slot);
    if (row.type == Type::I64) emit_result(Extend32, slot, slot);
    return {};
}

Status FunctionCompiler::store(std::uint8_t opcode) {
    struct Row {
        Opcode store;
        unsigned width;
        Type type;
    };
    static constexpr std::array<Row, 9> kRows = {{{Store32, 4, Type::I32},
                                                  {Store64, 8, Type::I64},
                                                  {Halt, 0, Type::Any},
                                                  {Halt, 0, Type::Any},
                                                  {Store8, 1, Type::I32},
                                                  {Store16, 2, Type::I32},
                                                  {Store8, 1, Type::I64},
                                                  {Store16, 2, Type::I64},
                                                  {Store32, 4, Type::I64}}};
    const Row& row = kRows[opcode - 0x36u];
    const std::uint32_t offset = TRY(memory_argument(row.width));
    const Entry value = TRY(pop(row.type));
    const Entry address = TRY(pop(Type::I32));
    emit(row.store, 0, address.field, value.field, offset);
    return {};
}

// ---- arithmetic

Status FunctionCompiler::numeric(std::uint8_t opcode) {
    if (opcode == 0x41 || opcode == 0x42) {
        const std::uint64_t value =
            opcode == 0x41 ? static_cast<std::uint32_t>(TRY(in_.s32())) : static_cast<std::uint64_t>(TRY(in_.s64()));
        const Type type = opcode == 0x41 ? Type::I32 : Type::I64;
        TRY(push_own(type));
        stack_.back() = {Place::Constant, type, out_.constant(value)};
        return {};
    }
    if (opcode == 0xfc) {
        const std::uint32_t which = TRY(in_.u32());
        static constexpr std::array<std::string_view, 18> kNames = {
            "i32.trunc_sat_f32_s", "i32.trunc_sat_f32_u", "i32.trunc_sat_f64_s", "i32.trunc_sat_f64_u",
            "i64.trunc_sat_f32_s", "i64.trunc_sat_f32_u", "i64.trunc_sat_f64_s", "i64.trunc_sat_f64_u",
            "memory.init",         "data.drop",           "memory.copy",         "memory.fill",
            "table.init",          "elem.drop",           "table.copy",          "table.grow",
            "table.size",          "table.fill"};
        if (which == 10) return memory_copy();
        if (which == 11) return memory_fill();
        if (which >= kNames.size()) return error("unknown instruction");
        return error("unsupported instruction " + std::string(kNames[which]));
    }
    const std::string_view refused = unsupported_instruction(opcode);
    if (!refused.empty()) return error("unsupported instruction " + std::string(refused));
    if (opcode >= 0x45 && opcode <= 0x5a) return compare(opcode);
    if ((opcode >= 0x67 && opcode <= 0x69) || (opcode >= 0x79 && opcode <= 0x7b)) return unary(opcode);
    if (opcode >= 0x6a && opcode <= 0x78) return binary32(opcode);
    if (opcode >= 0x7c && opcode <= 0x8a) return binary64(opcode);
    if (opcode == 0xa7 || opcode == 0xac || opcode == 0xad || (opcode >= 0xc0 && opcode <= 0xc4)) return unary(opcode);
    return error("unknown instruction");
}

Status FunctionCompiler::compare(std::uint8_t opcode) {
    const bool wide = opcode >= 0x50;
    const Type type = wide ? Type::I64 : Type::I32;
    const unsigned which = opcode - (wide ? 0x50u : 0x45u);  // eqz eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u
    Entry right{Place::Constant, type, out_.constant(0)};
    if (which != 0) right = TRY(pop(type));
    const Entry left = TRY(pop(type));
    const Field slot = TRY(push_own(Type::I32));
    const Opcode less_s = wide ? LessS64 : LessS32;
    const Opcode less_eq_s = wide ? LessEqS64 : LessEqS32;
    static constexpr std::array<bool, 11> kSwapped = {false, false, false, false, false, true,
                                                      true,  false, false, true,  true};
    const std::array<Opcode, 11> opcodes = {Equal, Equal,     NotEqual, less_s,    LessU,  less_s,
                                            LessU, less_eq_s, LessEqU,  less_eq_s, LessEqU};
    const Field a = kSwapped[which] ? right.field : left.field;
    const Field b = kSwapped[which] ? left.field : right.field;
    emit_result(opcodes[which], slot, a, b);
    return {};
}

Status FunctionCompiler::unary(std::uint8_t opcode) {
    const bool from_wide = (opcode >= 0x79 && opcode <= 0x7b) || opcode == 0xa7 || opcode >= 0xc2;
    const bool to_wide = (opcode >= 0x79 && opcode <= 0x7b) || opcode == 0xac || opcode == 0xad || opcode >= 0xc2;
    const Entry value = TRY(pop(from_wide ? Type::I64 : Type::I32));
    const Type result = to_wide ? Type::I64 : Type::I32;
    const Field slot = TRY(push_own(result));
    const Field a = value.field;
    if (opcode == 0xad) {  // a 32-bit value has a zero upper half already
        stack_.back() = {value.place, Type::I64, a};
        if (value.place == Place::Own) stack_.back().field = slot;
        return {};
    }
    last_result_.reset();
    if (!reachable_) return {};
    Lowering lowering(out_, scratch());
    switch (opcode) {
        case 0x67: emit_result(Clz32, slot, a); break;
        case 0x68: lowering.count_trailing32(slot, a); break;
        case 0x69: lowering.population32(slot, a); break;
        case 0x79: emit_result(Clz64, slot, a); break;
        case 0x7a: lowering.count_trailing64(slot, a); break;
        case 0x7b: lowering.population64(slot, a); break;
        case 0xa7: emit_result(Low, slot, a); break;
        case 0xac:
        case 0xc4: emit_result(Extend32, slot, a); break;
        case 0xc0: emit_result(Extend8, slot, a, a); break;
        case 0xc1: emit_result(Extend16, slot, a); break;
        default:  // i64.extend8_s, i64.extend16_s
            emit(opcode == 0xc2 ? Extend8 : Extend16, slot, a, a);
            emit_result(Extend32, slot, slot);
    }
    return {};
}

Status FunctionCompiler::binary32(std::uint8_t opcode) {
    const Entry right = TRY(pop(Type::I32));
    const Entry left = TRY(pop(Type::I32));
    const Field slot = TRY(push_own(Type::I32));
    static constexpr std::array<Opcode, 15> kOpcodes = {Add32, Sub32, Mul32, DivS32, DivU32, RemS32, RemU32, And32,
                                                        Or32,  Xor32, Shl32, ShrS32, ShrU32, Rotl32, Halt};
    if (opcode == 0x78) {
        last_result_.reset();
        if (reachable_) Lowering(out_, scratch()).rotate_right32(slot, left.field, right.field);
        return {};
    }
    emit_result(kOpcodes[opcode - 0x6au], slot, left.field, right.field);
    return {};
}

Status FunctionCompiler::divide64(DivisionRoutines::Kind kind) {
    if (stack_.size() >= controls_.back().height + 2) {
        settle(stack_.size() - 2);
        settle(stack_.size() - 1);
    }
    const Entry right = TRY(pop(Type::I64));
    const Entry left = TRY(pop(Type::I64));
    const Field slot = TRY(push_own(Type::I64));
    if (!reachable_) return {};
    // Checked here, so that a trap names this place.
    std::uint32_t over = branch(BranchIf, right.field);
    emit(Trap, 0, 0, 0, static_cast<std::uint32_t>(TrapKind::DivideByZero));
    out_.patch_here(over);
    if (kind == DivisionRoutines::Kind::DivS) {
        const Field test = scratch();
        emit(Equal, test, right.field, out_.constant(~std::uint64_t{0}));
        over = branch(BranchIfZero, test);
        emit(Equal, test, left.field, out_.constant(std::uint64_t{1} << 63));
        const std::uint32_t over_too = branch(BranchIfZero, test);
        emit(Trap, 0, 0, 0, static_cast<std::uint32_t>(TrapKind::Overflow));
        out_.patch_here(over);
        out_.patch_here(over_too);
    }
    emit(Call, slot, 0);
    shared_.divisions.request(kind, out_.here() - 1);
    return {};
}

Status FunctionCompiler::binary64(std::uint8_t opcode) {
    using Kind = DivisionRoutines::Kind;
    switch (opcode) {
        case 0x7f: return divide64(Kind::DivS);
        case 0x80: return divide64(Kind::DivU);
        case 0x81: return divide64(Kind::RemS);
        case 0x82: return divide64(Kind::RemU);
        default: break;
    }
    const Entry right = TRY(pop(Type::I64));
    const Entry left = TRY(pop(Type::I64));
    const Field slot = TRY(push_own(Type::I64));
    const Field a = left.field;
    const Field b = right.field;
    if (opcode == 0x7c || opcode == 0x7d) {
        emit_result(opcode == 0x7c ? Add64 : Sub64, slot, a, b);
        return {};
    }
    last_result_.reset();
    if (!reachable_) return {};
    Lowering lowering(out_, scratch());
    switch (opcode) {
        case 0x7e: lowering.multiply64(slot, a, b); break;
        case 0x83: lowering.bitwise64(And32, slot, a, b); break;
        case 0x84: lowering.bitwise64(Or32, slot, a, b); break;
        case 0x85: lowering.bitwise64(Xor32, slot, a, b); break;
        case 0x86: lowering.shift_left64(slot, a, b); break;
        case 0x87: lowering.shift_right64(ShrS32, slot, a, b); break;
        case 0x88: lowering.shift_right64(ShrU32, slot, a, b); break;
        case 0x89: lowering.rotate_left64(slot, a, b); break;
        default: lowering.rotate_right64(slot, a, b); break;
    }
    last_result_.reset();
    return {};
}

}  // namespace hearth::vm
