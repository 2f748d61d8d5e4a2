// Sequences of machine instructions for WebAssembly operations without an opcode of their own.
#include "vm/program_builder.h"

namespace hearth::vm {

using enum Opcode;

Field Lowering::high(Field field, int temporary_index) {
    if (const std::optional<std::uint64_t> value = out_.constant_value(field)) return out_.constant(*value >> 32);
    out_.emit(High, temporary(temporary_index), field);
    return temporary(temporary_index);
}

void Lowering::rotate_right32(Field d, Field a, Field b) {
    if (const std::optional<std::uint64_t> value = out_.constant_value(b)) {
        const std::uint64_t left = (32 - (*value & 31)) & 31;
        out_.emit(Rotl32, d, a, out_.constant(left));
        return;
    }
    out_.emit(Sub32, temporary(0), out_.constant(0), b);
    out_.emit(Rotl32, d, a, temporary(0));
}

// ~a & (a - 1) has a one for every trailing zero and no other.
void Lowering::count_trailing32(Field d, Field a) {
    out_.emit(Sub32, temporary(0), a, out_.constant(1));
    out_.emit(Xor32, temporary(1), a, out_.constant(0xffffffff));
    out_.emit(And32, temporary(0), temporary(0), temporary(1));
    out_.emit(Clz32, temporary(0), temporary(0));
    out_.emit(Sub32, d, out_.constant(32), temporary(0));
}

void Lowering::count_trailing64(Field d, Field a) {
    const Field ones = out_.constant(~std::uint64_t{0});
    out_.emit(Sub64, temporary(4), a, out_.constant(1));
    bitwise64(Xor32, temporary(5), a, ones);
    bitwise64(And32, temporary(4), temporary(4), temporary(5));
    out_.emit(Clz64, temporary(4), temporary(4));
    out_.emit(Sub32, d, out_.constant(64), temporary(4));
}

// Sums of neighbouring bits, then pairs, nibbles and bytes.
void Lowering::population32(Field d, Field a) {
    const Field t = temporary(0);
    const Field u = temporary(1);
    out_.emit(ShrU32, t, a, out_.constant(1));
    out_.emit(And32, t, t, out_.constant(0x55555555));
    out_.emit(Sub32, t, a, t);
    out_.emit(ShrU32, u, t, out_.constant(2));
    out_.emit(And32, u, u, out_.constant(0x33333333));
    out_.emit(And32, t, t, out_.constant(0x33333333));
    out_.emit(Add32, t, t, u);
    out_.emit(ShrU32, u, t, out_.constant(4));
    out_.emit(Add32, t, t, u);
    out_.emit(And32, t, t, out_.constant(0x0f0f0f0f));
    out_.emit(Mul32, t, t, out_.constant(0x01010101));
    out_.emit(ShrU32, d, t, out_.constant(24));
}

void Lowering::population64(Field d, Field a) {
    out_.emit(High, temporary(2), a);
    out_.emit(Low, temporary(3), a);
    population32(temporary(2), temporary(2));
    population32(temporary(3), temporary(3));
    out_.emit(Add32, d, temporary(2), temporary(3));
}

void Lowering::multiply64(Field d, Field a, Field b) {
    out_.emit(MulHigh64, temporary(0), a, b);
    out_.emit(Mul32, temporary(1), a, b);
    out_.emit(Pack, d, temporary(0), temporary(1));
}

void Lowering::bitwise64(Opcode opcode, Field d, Field a, Field b) {
    const Field a_high = high(a, 0);
    const Field b_high = high(b, 1);
    out_.emit(opcode, temporary(0), a_high, b_high);
    out_.emit(opcode, temporary(1), a, b);
    out_.emit(Pack, d, temporary(0), temporary(1));
}

void Lowering::shift_left64(Field d, Field a, Field b) {
    if (const std::optional<std::uint64_t> value = out_.constant_value(b)) {
        const std::uint64_t by = *value & 63;
        if (by < 32) return multiply64(d, a, out_.constant(std::uint64_t{1} << by));
        out_.emit(Shl32, temporary(0), a, out_.constant(by - 32));
        out_.emit(Pack, d, temporary(0), out_.constant(0));
        return;
    }
    const Field power = temporary(2);
    out_.emit(Shl32, power, out_.constant(1), b);
    out_.emit(And32, temporary(3), b, out_.constant(32));
    out_.emit(Pack, temporary(4), power, out_.constant(0));
    out_.emit(MoveIf, power, temporary(3), temporary(4));
    multiply64(d, a, power);
}

void Lowering::shift_right64(Opcode shift_half, Field d, Field a, Field b) {
    const Field upper = temporary(0);
    const Field lower = temporary(1);
    const Field carried = temporary(2);
    const Field far = temporary(3);
    out_.emit(High, upper, a);
    // What falls out of the upper half: shifted left by 31 - s and 1, so that s = 0 gives nothing.
    out_.emit(Xor32, carried, b, out_.constant(31));
    out_.emit(Shl32, carried, upper, carried);
    out_.emit(Shl32, carried, carried, out_.constant(1));
    out_.emit(ShrU32, lower, a, b);
    out_.emit(Add32, lower, lower, carried);
    out_.emit(And32, far, b, out_.constant(32));
    Field fill = out_.constant(0);
    if (shift_half == ShrS32) {
        fill = temporary(4);
        out_.emit(ShrS32, fill, upper, out_.constant(31));
    }
    out_.emit(shift_half, upper, upper, b);
    out_.emit(MoveIf, lower, far, upper);
    out_.emit(MoveIf, upper, far, fill);
    out_.emit(Pack, d, upper, lower);
}

void Lowering::rotate_left64(Field d, Field a, Field b) {
    const Field upper = temporary(0);
    const Field lower = temporary(1);
    const Field far = temporary(2);
    const Field keep = temporary(3);
    const Field back = temporary(4);
    out_.emit(High, upper, a);
    out_.emit(Low, lower, a);
    out_.emit(And32, far, b, out_.constant(32));
    out_.emit(Move, keep, upper);
    out_.emit(MoveIf, upper, far, lower);
    out_.emit(MoveIf, lower, far, keep);
    out_.emit(Xor32, back, b, out_.constant(31));
    out_.emit(ShrU32, keep, upper, back);  // what leaves the upper half, to enter the lower one
    out_.emit(ShrU32, keep, keep, out_.constant(1));
    out_.emit(ShrU32, back, lower, back);
    out_.emit(ShrU32, back, back, out_.constant(1));
    out_.emit(Shl32, upper, upper, b);
    out_.emit(Shl32, lower, lower, b);
    out_.emit(Add32, upper, upper, back);
    out_.emit(Add32, lower, lower, keep);
    out_.emit(Pack, d, upper, lower);
}

void Lowering::rotate_right64(Field d, Field a, Field b) {
    out_.emit(Sub32, temporary(5), out_.constant(0), b);
    rotate_left64(d, a, temporary(5));
}

namespace {

// Slots of the unsigned routine: 0 dividend then quotient, 1 divisor then remainder, the rest its own.
void emit_core(ProgramBuilder& out) {
    const Field zero = out.constant(0);
    out.emit(High, 2, 0);
    out.emit(High, 3, 1);
    const std::uint32_t wide_divisor = out.branch(BranchIf, 3);
    const std::uint32_t wide_dividend = out.branch(BranchIf, 2);
    out.emit(DivU32, 4, 0, 1);
    out.emit(RemU32, 1, 0, 1);
    out.emit(Move, 0, 4);
    out.emit(Return, 0, 0);

    // A divisor of 16 bits: four digits of 16 bits, each one 32-bit division.
    out.patch_here(wide_dividend);
    out.emit(LessU, 3, 1, out.constant(65536));
    const std::uint32_t not_small = out.branch(BranchIfZero, 3);
    out.emit(DivU32, 4, 2, 1);  // upper quotient and remainder
    out.emit(RemU32, 5, 2, 1);
    const auto digit = [&](Field quotient) {  // slot 6: the next digit; slot 5: the remainder so far
        out.emit(Mul32, 5, 5, out.constant(65536));
        out.emit(Add32, 5, 5, 6);
        out.emit(DivU32, quotient, 5, 1);
        out.emit(RemU32, 5, 5, 1);
    };
    out.emit(ShrU32, 6, 0, out.constant(16));
    digit(7);
    out.emit(And32, 6, 0, out.constant(65535));
    digit(8);
    out.emit(Mul32, 7, 7, out.constant(65536));
    out.emit(Add32, 7, 7, 8);
    out.emit(Pack, 0, 4, 7);
    out.emit(Move, 1, 5);
    out.emit(Return, 0, 0);

    // Shift and subtract, over the bits of the quotient only.
    out.patch_here(wide_divisor);
    out.patch_here(not_small);
    out.emit(Move, 4, zero);
    out.emit(LessU, 2, 0, 1);
    const std::uint32_t nothing = out.branch(BranchIf, 2);
    out.emit(Clz64, 2, 1);
    out.emit(Clz64, 3, 0);
    out.emit(Sub32, 2, 2, 3);
    Lowering(out, 16).shift_left64(5, 1, 2);
    const std::uint32_t loop = out.here();
    out.emit(Add64, 4, 4, 4);
    out.emit(LessU, 3, 0, 5);
    const std::uint32_t too_large = out.branch(BranchIf, 3);
    out.emit(Sub64, 0, 0, 5);
    out.emit(Add64, 4, 4, out.constant(1));
    out.patch_here(too_large);
    const std::uint32_t done = out.branch(BranchIfZero, 2);
    out.emit(Sub32, 2, 2, out.constant(1));
    out.emit(High, 6, 5);
    out.emit(ShrU32, 7, 5, out.constant(1));
    out.emit(Shl32, 8, 6, out.constant(31));
    out.emit(Add32, 7, 7, 8);
    out.emit(ShrU32, 6, 6, out.constant(1));
    out.emit(Pack, 5, 6, 7);
    out.branch(Branch, 0, loop);
    out.patch_here(done);
    out.patch_here(nothing);
    out.emit(Move, 1, 0);
    out.emit(Move, 0, 4);
    out.emit(Return, 0, 0);
}

void emit_wrapper(ProgramBuilder& out, DivisionRoutines::Kind kind, std::uint32_t core) {
    using Kind = DivisionRoutines::Kind;
    const Field zero = out.constant(0);
    const bool is_signed = kind == Kind::DivS || kind == Kind::RemS;
    const bool remainder = kind == Kind::RemU || kind == Kind::RemS;
    if (!is_signed) {
        out.emit(Move, 8, 0);
        out.emit(Move, 9, 1);
        out.emit(Call, 8, 0, 0, core);
        out.emit(Move, 0, remainder ? 9 : 8);
        out.emit(Return, 0, 0);
        return;
    }
    out.emit(LessS64, 2, 0, zero);
    out.emit(LessS64, 3, 1, zero);
    out.emit(Sub64, 4, zero, 0);
    out.emit(Sub64, 5, zero, 1);
    out.emit(Move, 8, 0);
    out.emit(MoveIf, 8, 2, 4);
    out.emit(Move, 9, 1);
    out.emit(MoveIf, 9, 3, 5);
    out.emit(Call, 8, 0, 0, core);
    if (!remainder) out.emit(Xor32, 2, 2, 3);  // the sign of a remainder is the dividend's
    out.emit(Move, 0, remainder ? 9 : 8);
    out.emit(Sub64, 4, zero, 0);
    out.emit(MoveIf, 0, 2, 4);
    out.emit(Return, 0, 0);
}

}  // namespace

void DivisionRoutines::finish(ProgramBuilder& out) {
    if (calls_.empty()) return;
    out.set_offset(0);
    out.program.functions.push_back({"(64-bit division)", out.here()});
    const std::uint32_t core = out.here();
    emit_core(out);
    for (const Kind kind : {Kind::DivU, Kind::DivS, Kind::RemU, Kind::RemS}) {
        std::uint32_t entry = 0;
        for (const Request& request : calls_) {
            if (request.kind != kind) continue;
            if (entry == 0) {
                entry = out.here();
                emit_wrapper(out, kind, core);
            }
            out.patch(request.instruction, entry);
        }
    }
}

}  // namespace hearth::vm
