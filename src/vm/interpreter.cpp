#include "vm/interpreter.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace hearth::vm {

namespace {

constexpr std::size_t kFrameReach = kAbsolute;  // a field can name any of these slots

std::uint32_t low_half(std::uint64_t value) {
    return static_cast<std::uint32_t>(value);
}
std::uint32_t high_half(std::uint64_t value) {
    return static_cast<std::uint32_t>(value >> 32);
}
std::int32_t as_signed(std::uint32_t value) {
    return static_cast<std::int32_t>(value);
}
std::int64_t as_signed(std::uint64_t value) {
    return static_cast<std::int64_t>(value);
}

}  // namespace

struct Interpreter::NoTrace {
    void token(Token) {}
    void number(std::uint32_t) {}
    void number(std::uint32_t, int) {}
    void slot(std::uint32_t, std::uint64_t) {}
    void stored(std::uint64_t, std::uint64_t, int) {}
    void called(std::size_t, std::uint32_t, std::uint32_t) {}
};

struct Interpreter::Trace {
    std::vector<Token>& tokens;
    void token(Token value) { tokens.push_back(value); }
    void number(std::uint32_t value) { number(value, byte_length(value)); }
    void number(std::uint32_t value, int bytes) {
        for (int i = bytes - 1; i >= 0; --i) {
            tokens.push_back(static_cast<Token>(token::kByte + ((value >> (8 * i)) & 255)));
        }
    }
    void slot(std::uint32_t, std::uint64_t) {}
    void stored(std::uint64_t, std::uint64_t, int) {}
    void called(std::size_t, std::uint32_t, std::uint32_t) {}
};

// Its calls come when the tokens they belong to are written.
struct Interpreter::FollowedTrace : Trace {
    std::vector<StateChange>& changes;
    void slot(std::uint32_t key, std::uint64_t value) {
        changes.push_back({StateChange::Kind::Slot, key, 0, value, tokens.size() - 1});
    }
    void stored(std::uint64_t address, std::uint64_t value, int width) {
        for (int k = 0; k < width; ++k) {
            changes.push_back({StateChange::Kind::Byte,
                               static_cast<std::uint32_t>(address) + static_cast<std::uint32_t>(k), 0,
                               (value >> (8 * k)) & 255, tokens.size() - 1});
        }
    }
    void called(std::size_t depth, std::uint32_t pc, std::uint32_t frame) {
        changes.push_back({StateChange::Kind::Call, static_cast<std::uint32_t>(depth), frame, pc, tokens.size() - 1});
    }
};

Interpreter::Interpreter(const Program& program, std::string_view input)
    : program_(&program), absolute_(program.absolute), frames_(kFrameReach), pc_(program.entry) {
    for (const DataSegment& segment : program.data) {
        const bool table = segment.address >= kTableBase;
        std::vector<std::uint8_t>& target = table ? table_ : memory_;
        const std::size_t at = table ? segment.address - kTableBase : segment.address;
        if (target.size() < at + segment.bytes.size()) target.resize(at + segment.bytes.size());
        std::copy(segment.bytes.begin(), segment.bytes.end(), target.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (places_input(program, input)) {
        reserve_memory(std::uint64_t{program.input_base} + input.size() + 1);
        std::copy(input.begin(), input.end(), memory_.begin() + static_cast<std::ptrdiff_t>(program.input_base));
        memory_[program.input_base + input.size()] = 0;
    }
}

bool Interpreter::reserve_memory(std::uint64_t end) {
    if (end > memory_limit()) return false;
    if (end > memory_.size()) memory_.resize(std::max<std::uint64_t>(end, memory_.size() + memory_.size() / 2));
    return true;
}

template <typename Sink>
void Interpreter::stop(TrapKind kind, Sink& sink) {
    state_ = State::Trapped;
    trap_ = kind;
    sink.token(static_cast<Token>(token::kTrap + static_cast<Token>(kind)));
}

template <typename Sink>
void Interpreter::finish32(std::uint32_t d, std::uint32_t value, Sink& sink) {
    sink.number(value);
    sink.token(token::kCommit);
    write(d, value, sink);
    ++pc_;
}

template <typename Sink>
void Interpreter::finish64(std::uint32_t d, std::uint64_t value, Sink& sink) {
    if (high_half(value) != 0) {
        sink.number(high_half(value));
        sink.token(token::kHigh);
    }
    sink.number(low_half(value));
    sink.token(token::kCommit);
    write(d, value, sink);
    ++pc_;
}

// Q = floor(X / B) first, where the result is made from Q and what is left.
template <typename Sink>
void Interpreter::divide(const Instruction& i, Sink& sink) {
    const std::uint32_t a = low(i.a);
    const std::uint32_t b = low(i.b);
    if (b == 0) return stop(TrapKind::DivideByZero, sink);
    const bool is_signed = i.opcode == Opcode::DivS32 || i.opcode == Opcode::RemS32;
    if (i.opcode == Opcode::DivU32) return finish32(i.d, a / b, sink);
    if (i.opcode == Opcode::DivS32 && a == 0x80000000u && b == 0xffffffffu) return stop(TrapKind::Overflow, sink);
    const bool negative_a = is_signed && as_signed(a) < 0;
    const bool negative_b = is_signed && as_signed(b) < 0;
    const std::uint32_t size_a = negative_a ? 0u - a : a;
    const std::uint32_t size_b = negative_b ? 0u - b : b;
    const std::uint32_t quotient = size_a / size_b;
    sink.number(quotient);
    sink.token(token::kSep);
    if (i.opcode == Opcode::DivS32) return finish32(i.d, negative_a != negative_b ? 0u - quotient : quotient, sink);
    const std::uint32_t rest = size_a - quotient * size_b;
    finish32(i.d, negative_a ? 0u - rest : rest, sink);
}

template <typename Sink>
void Interpreter::shift(const Instruction& i, Sink& sink) {
    const std::uint32_t a = low(i.a);
    const std::uint32_t by = low(i.b) & 31;
    if (i.opcode == Opcode::ShrU32) return finish32(i.d, a >> by, sink);
    if (i.opcode == Opcode::ShrS32) {
        const bool negative = as_signed(a) < 0;
        const std::uint32_t quotient = (negative ? ~a : a) >> by;
        sink.number(quotient);
        sink.token(token::kSep);
        return finish32(i.d, negative ? ~quotient : quotient, sink);
    }
    const std::uint32_t carried = by == 0 ? 0 : a >> (32 - by);  // what leaves on the left
    sink.number(carried);
    sink.token(token::kSep);
    finish32(i.d, (a << by) | (i.opcode == Opcode::Rotl32 ? carried : 0), sink);
}

template <typename Sink>
void Interpreter::arithmetic(const Instruction& i, Sink& sink) {
    const std::uint64_t a = read(i.a);
    const std::uint64_t b = read(i.b);
    const std::uint32_t al = low_half(a);
    const std::uint32_t bl = low_half(b);
    switch (i.opcode) {
        case Opcode::Add32: return finish32(i.d, al + bl, sink);
        case Opcode::Sub32: return finish32(i.d, al - bl, sink);
        case Opcode::Mul32:
        case Opcode::MulHigh64: {
            // Products of 16-bit parts, so that every intermediate number is exact in a double.
            const std::uint64_t a0 = al & 0xffff, a1 = al >> 16, a2 = (a >> 32) & 0xffff, a3 = a >> 48;
            const std::uint64_t b0 = bl & 0xffff, b1 = bl >> 16, b2 = (b >> 32) & 0xffff, b3 = b >> 48;
            const std::uint64_t lower = a0 * b0 + ((a1 * b0 + a0 * b1) << 16);
            sink.number(static_cast<std::uint32_t>(lower >> 32));
            sink.token(token::kSep);
            if (i.opcode == Opcode::Mul32) return finish32(i.d, low_half(lower), sink);
            const std::uint64_t upper =
                a2 * b0 + a1 * b1 + a0 * b2 + ((a3 * b0 + a2 * b1 + a1 * b2 + a0 * b3) << 16) + (lower >> 32);
            sink.number(static_cast<std::uint32_t>(upper >> 32));
            sink.token(token::kSep2);
            return finish32(i.d, low_half(upper), sink);
        }
        case Opcode::And32:
        case Opcode::Or32:
        case Opcode::Xor32: {
            const bool both = i.opcode == Opcode::And32;
            const std::uint32_t value = both ? al & bl : i.opcode == Opcode::Or32 ? al | bl : al ^ bl;
            const int length =
                both ? std::min(byte_length(al), byte_length(bl)) : std::max(byte_length(al), byte_length(bl));
            sink.number(value, length);
            sink.token(token::kCommit);
            write(i.d, value, sink);
            ++pc_;
            return;
        }
        case Opcode::Clz32: return finish32(i.d, static_cast<std::uint32_t>(std::countl_zero(al)), sink);
        case Opcode::Clz64: return finish32(i.d, static_cast<std::uint32_t>(std::countl_zero(a)), sink);
        case Opcode::Add64: return finish64(i.d, a + b, sink);
        case Opcode::Sub64: return finish64(i.d, a - b, sink);
        case Opcode::Equal: return finish32(i.d, a == b, sink);
        case Opcode::NotEqual: return finish32(i.d, a != b, sink);
        case Opcode::LessU: return finish32(i.d, a < b, sink);
        case Opcode::LessEqU: return finish32(i.d, a <= b, sink);
        case Opcode::LessS32: return finish32(i.d, as_signed(al) < as_signed(bl), sink);
        case Opcode::LessEqS32: return finish32(i.d, as_signed(al) <= as_signed(bl), sink);
        case Opcode::LessS64: return finish32(i.d, as_signed(a) < as_signed(b), sink);
        case Opcode::LessEqS64: return finish32(i.d, as_signed(a) <= as_signed(b), sink);
        case Opcode::High: return finish32(i.d, high_half(a), sink);
        case Opcode::Low: return finish32(i.d, al, sink);
        case Opcode::Pack: return finish64(i.d, (std::uint64_t{al} << 32) | bl, sink);
        case Opcode::Extend8:
            return finish32(i.d, static_cast<std::uint32_t>(static_cast<std::int8_t>(bl & 255)), sink);
        case Opcode::Extend16:
            return finish32(i.d, static_cast<std::uint32_t>(static_cast<std::int16_t>(al & 0xffff)), sink);
        default: return finish64(i.d, static_cast<std::uint64_t>(std::int64_t{as_signed(al)}), sink);  // Extend32
    }
}

template <typename Sink>
void Interpreter::load(const Instruction& i, Sink& sink) {
    const bool table = i.opcode == Opcode::TableGet;
    const int width = i.opcode == Opcode::Load8    ? 1
                      : i.opcode == Opcode::Load16 ? 2
                      : i.opcode == Opcode::Load32 ? 4
                                                   : 8;
    if (table && low(i.a) >= i.imm) return stop(TrapKind::UndefinedElement, sink);
    const std::uint64_t address = table ? std::uint64_t{low(i.a)} * 8 : std::uint64_t{low(i.a)} + i.imm;
    const std::uint64_t end = address + static_cast<std::uint64_t>(width);
    if (!table && end > memory_limit()) return stop(TrapKind::OutOfBounds, sink);
    const std::vector<std::uint8_t>& bytes = table ? table_ : memory_;
    std::uint64_t value = 0;
    for (std::uint64_t at = address; at < end && at < bytes.size(); ++at) {
        value |= std::uint64_t{bytes[at]} << (8 * (at - address));
    }
    if (width == 8) {
        sink.number(high_half(value), 4);
        sink.token(token::kHigh);
    }
    sink.number(low_half(value), std::min(width, 4));
    sink.token(token::kCommit);
    write(i.d, value, sink);
    ++pc_;
}

template <typename Sink>
void Interpreter::store(const Instruction& i, Sink& sink) {
    const int width = i.opcode == Opcode::Store8    ? 1
                      : i.opcode == Opcode::Store16 ? 2
                      : i.opcode == Opcode::Store32 ? 4
                                                    : 8;
    const std::uint64_t address = std::uint64_t{low(i.a)} + i.imm;
    if (!reserve_memory(address + static_cast<std::uint64_t>(width))) return stop(TrapKind::OutOfBounds, sink);
    const std::uint64_t value = read(i.b);
    for (int k = 0; k < width; ++k) {
        memory_[address + static_cast<std::uint64_t>(k)] = static_cast<std::uint8_t>(value >> (8 * k));
    }
    if (width == 8) {
        sink.number(high_half(value), 4);
        sink.token(token::kHigh);
    }
    sink.number(low_half(value), std::min(width, 4));
    sink.token(token::kSkip);
    sink.stored(address, value, width);
    ++pc_;
}

template <typename Sink>
void Interpreter::branch(bool taken, std::uint32_t target, Sink& sink) {
    if (taken) {
        sink.number(target);
        sink.token(token::kJump);
        pc_ = target;
    } else {
        sink.token(token::kSkip);
        ++pc_;
    }
}

template <typename Sink>
void Interpreter::call(std::uint32_t target, std::uint32_t advance, Sink& sink) {
    if (frame_ + advance >= kStackLimit || calls_.size() >= kMaxDepth) return stop(TrapKind::StackOverflow, sink);
    sink.number(frame_ + advance);
    sink.token(token::kSep);
    sink.number(target);
    sink.token(token::kCall);
    calls_.push_back({pc_, frame_});
    sink.called(calls_.size(), pc_, frame_);
    frame_ += advance;
    const std::size_t reach = frame_ - kFirstFrame + kFrameReach;
    if (reach > frames_.size()) frames_.resize(std::max(reach, frames_.size() * 2));
    pc_ = target;
}

template <typename Sink>
void Interpreter::leave(Sink& sink) {
    if (calls_.empty()) return stop(TrapKind::Unreachable, sink);  // only in a program no compiler made
    const Frame back = calls_.back();
    calls_.pop_back();
    frame_ = back.frame;
    pc_ = back.pc + 1;
    sink.number(frame_);
    sink.token(token::kSep);
    sink.number(pc_);
    sink.token(token::kReturn);
}

template <typename Sink>
void Interpreter::step(Sink& sink) {
    const Instruction& i = program_->code[pc_];
    switch (i.opcode) {
        case Opcode::Halt: state_ = State::Halted; return sink.token(token::kHalt);
        case Opcode::Trap: return stop(static_cast<TrapKind>(i.imm), sink);
        case Opcode::Move: return finish64(i.d, read(i.a), sink);
        case Opcode::MoveIf:
            if (read(i.a) != 0) return finish64(i.d, read(i.b), sink);
            return branch(false, 0, sink);
        case Opcode::Shl32:
        case Opcode::ShrU32:
        case Opcode::ShrS32:
        case Opcode::Rotl32: return shift(i, sink);
        case Opcode::DivU32:
        case Opcode::DivS32:
        case Opcode::RemU32:
        case Opcode::RemS32: return divide(i, sink);
        case Opcode::Load8:
        case Opcode::Load16:
        case Opcode::Load32:
        case Opcode::Load64:
        case Opcode::TableGet: return load(i, sink);
        case Opcode::Store8:
        case Opcode::Store16:
        case Opcode::Store32:
        case Opcode::Store64: return store(i, sink);
        case Opcode::Output:
            output_.push_back(static_cast<char>(low(i.b) & 255));
            sink.token(static_cast<Token>(token::kOut + (low(i.b) & 255)));
            ++pc_;
            return;
        case Opcode::Branch: return branch(true, i.imm, sink);
        case Opcode::BranchIf: return branch(read(i.a) != 0, i.imm, sink);
        case Opcode::BranchIfZero: return branch(read(i.a) == 0, i.imm, sink);
        case Opcode::BranchTable: return branch(true, pc_ + 1 + std::min(low(i.a), i.imm), sink);
        case Opcode::Call: return call(i.imm, i.d, sink);
        case Opcode::CallSlot:
            if (low(i.a) >= program_->code.size()) return stop(TrapKind::UninitializedElement, sink);
            return call(low(i.a), i.d, sink);
        case Opcode::Return: return leave(sink);
        default: return arithmetic(i, sink);
    }
}

Interpreter::State Interpreter::run_traced(std::vector<Token>& trace, std::size_t want) {
    Trace sink{trace};
    while (state_ == State::Running && trace.size() < want) step(sink);
    return state_;
}

Interpreter::State Interpreter::run_followed(std::vector<Token>& trace, std::size_t want,
                                             std::vector<StateChange>& changes) {
    FollowedTrace sink{{trace}, changes};
    while (state_ == State::Running && trace.size() < want) step(sink);
    return state_;
}

Interpreter::State Interpreter::run(std::uint64_t instructions) {
    NoTrace sink;
    for (std::uint64_t done = 0; state_ == State::Running && done < instructions; ++done) step(sink);
    return state_;
}

}  // namespace hearth::vm
