// From operands to the next token: results, their bytes, and the choice among all tokens.
#include "vm/machine_parts.h"

namespace hearth::vm {

using enum Opcode;

namespace {

constexpr std::int64_t k32 = std::int64_t{1} << 32;
constexpr std::int64_t k31 = std::int64_t{1} << 31;

struct Comparison {
    Linear equal, less_u, greater_u, less_s32, greater_s32, less_s64, greater_s64;
    Linear borrow;  // bl > al
    Linear a_negative32, b_negative32;
    Linear a_not_zero;
};

Comparison compare(MachineParts& m) {
    Graph& g = m.graph;
    Comparison c;
    c.borrow = g.step(m.b.low - m.a.low - g.one(), "low below");
    const Linear above = g.step(m.a.low - m.b.low - g.one(), "low above");
    const Linear high_below = g.step(m.b.high - m.a.high - g.one(), "high below");
    const Linear high_above = g.step(m.a.high - m.b.high - g.one(), "high above");
    c.a_negative32 = g.step(m.a.low - g.constant(k31), "a negative");
    c.b_negative32 = g.step(m.b.low - g.constant(k31), "b negative");
    const Linear a_negative64 = g.step(m.a.high - g.constant(k31), "a negative, 64 bits");
    const Linear b_negative64 = g.step(m.b.high - g.constant(k31), "b negative, 64 bits");
    // Signs weigh most, then upper halves, then lower ones.
    const Linear low = above - c.borrow;
    const Linear unsigned_order = 2 * (high_above - high_below) + low;
    const Linear order32 = 4 * (c.b_negative32 - c.a_negative32) + low;
    const Linear order64 = 8 * (b_negative64 - a_negative64) + unsigned_order;
    const auto less = [&](const Linear& order, std::string_view name) { return g.step(-order - g.one(), name); };
    const auto greater = [&](const Linear& order, std::string_view name) { return g.step(order - g.one(), name); };
    c.less_u = less(unsigned_order, "a < b");
    c.greater_u = greater(unsigned_order, "a > b");
    c.equal = g.one() - c.less_u - c.greater_u;
    c.less_s32 = less(order32, "a < b signed");
    c.greater_s32 = greater(order32, "a > b signed");
    c.less_s64 = less(order64, "a < b signed 64");
    c.greater_s64 = greater(order64, "a > b signed 64");
    c.a_not_zero = g.step(m.a.low + m.a.high - g.one(), "a is not 0");
    return c;
}

Linear comparison_result(MachineParts& m, const Comparison& c) {
    Graph& g = m.graph;
    return g.choose(m.is(Equal), c.equal, "equal") + g.choose(m.is(NotEqual), g.one() - c.equal, "not equal") +
           g.choose(m.is(LessU), c.less_u, "less") + g.choose(m.is(LessEqU), g.one() - c.greater_u, "less or equal") +
           g.choose(m.is(LessS32), c.less_s32, "less s32") +
           g.choose(m.is(LessEqS32), g.one() - c.greater_s32, "less or equal s32") +
           g.choose(m.is(LessS64), c.less_s64, "less s64") +
           g.choose(m.is(LessEqS64), g.one() - c.greater_s64, "less or equal s64");
}

// Number of bits of a 32-bit half without leading zeros.
Linear bit_length(MachineParts& m, const Linear& half, std::string_view name) {
    Linear bits;
    for (int k = 0; k < 32; ++k) {
        bits += m.graph.step(half - m.graph.constant(std::int64_t{1} << k),
                             std::string(name) + " >= 2^" + std::to_string(k));
    }
    return m.graph.sum(bits, std::string(name) + " bits");
}

struct WideResult {
    Linear low, high;
};

// Results of 64 bits; `low` is only of the opcodes that have one.
WideResult wide_result(MachineParts& m, const Comparison& c, const Linear& carry) {
    Graph& g = m.graph;
    const Linear carry_high = g.step(m.a.high + m.b.high + carry - g.constant(k32), "carry out");
    const Linear borrow_high = g.step(m.b.high + c.borrow - m.a.high - g.one(), "borrow out");
    const Linear moves = g.both(m.is(MoveIf), c.a_not_zero, "moves");
    WideResult result;
    result.high = g.choose(m.is(Move), m.a.high, "moved high") + g.choose(moves, m.b.high, "moved if, high") +
                  g.choose(m.is(Add64), m.a.high + m.b.high + carry - k32 * carry_high, "sum high") +
                  g.choose(m.is(Sub64), m.a.high - m.b.high - c.borrow + k32 * borrow_high, "difference high") +
                  g.choose(m.is(Pack), m.a.low, "packed high") +
                  g.choose(m.is(Extend32), (k32 - 1) * c.a_negative32, "sign high");
    result.high = g.sum(result.high, "upper result");
    g.narrow(result.high, {0, k32 - 1});
    result.low = g.choose(m.is({Move, Extend32}), m.a.low, "moved low") + g.choose(moves, m.b.low, "moved if, low") +
                 g.choose(m.is({Add32, Add64}), m.a.low + m.b.low - k32 * carry, "sum low") +
                 g.choose(m.is({Sub32, Sub64}), m.a.low - m.b.low + k32 * c.borrow, "difference low") +
                 g.choose(m.is(Pack), m.b.low, "packed low");
    return result;
}

// Multiplication, division and shifts: an intermediate run first, the result from it.
struct TwoStep {
    Linear first_number, divisor_less_one, second;
};

TwoStep two_step(MachineParts& m, const Comparison& c) {
    Graph& g = m.graph;
    const auto& a = m.a.parts;
    const auto& b = m.b.parts;
    const auto part = [&](std::size_t i, std::size_t k) {
        return g.product(a[i], b[k], "a" + std::to_string(i) + " b" + std::to_string(k));
    };
    const Linear lower = part(0, 0) + 65536 * (part(1, 0) + part(0, 1));
    const Linear upper =
        part(2, 0) + part(1, 1) + part(0, 2) + 65536 * (part(3, 0) + part(2, 1) + part(1, 2) + part(0, 3));
    const Linear first = g.one() - m.in_sep - m.in_sep2;  // before any intermediate run
    const auto during = [&](const Linear& flag, const Linear& phase, std::string_view name) {
        return g.both(flag, phase, name);
    };
    TwoStep s;
    // Multiplication.
    const Linear multiplies = m.is({Mul32, MulHigh64});
    const Linear multiply_first = during(multiplies, first, "product, carry");
    const Linear multiply_second = during(m.is(Mul32), m.in_sep, "product, result");
    const Linear high_second = during(m.is(MulHigh64), m.in_sep, "upper product, carry");
    const Linear high_third = during(m.is(MulHigh64), m.in_sep2, "upper product, result");
    s.first_number = g.choose(multiply_first, lower, "product carry") +
                     g.choose(high_second, upper + m.previous_run, "upper product carry");
    s.divisor_less_one = (k32 - 1) * (multiply_first + high_second);
    s.second =
        g.product_within(lower - k32 * m.previous_run, multiply_second, {0, k32 - 1}, "product low") +
        g.product_within(upper + m.before_previous - k32 * m.previous_run, high_third, {0, k32 - 1}, "product high");
    // Division.
    const Linear is_signed = m.is({DivS32, RemS32});
    const Linear a_minus = g.both(is_signed, c.a_negative32, "dividend negative");
    const Linear b_minus = g.both(is_signed, c.b_negative32, "divisor negative");
    const Linear size_a =
        g.sum(m.a.low + g.choose(a_minus, g.constant(k32) - 2 * m.a.low, "dividend turned"), "dividend");
    const Linear size_b =
        g.sum(m.b.low + g.choose(b_minus, g.constant(k32) - 2 * m.b.low, "divisor turned"), "divisor");
    const Linear divides = m.is({DivS32, RemU32, RemS32});
    const Linear divide_first = during(divides, first, "quotient");
    s.first_number += g.choose(divide_first, size_a, "dividend chosen") + g.choose(m.is(DivU32), m.a.low, "dividend u");
    s.divisor_less_one += g.choose(divide_first, size_b - g.one(), "divisor chosen") +
                          g.choose(m.is(DivU32), m.b.low - g.one(), "divisor u");
    const Linear remains = during(m.is({RemU32, RemS32}), m.in_sep, "remainder");
    const Linear whole = g.product_within(size_b, g.choose(remains, m.previous_run, "quotient kept"), {0, k32 - 1},
                                          "quotient * divisor");
    const Linear divided = during(m.is(DivS32), m.in_sep, "quotient signed");
    const Linear plain =
        g.sum(g.choose(divided, m.previous_run, "quotient again") + g.choose(remains, size_a, "dividend again") - whole,
              "size of the result");
    g.narrow(plain, {0, k32 - 1});
    const Linear not_zero = g.step(plain - g.one(), "result is not 0");
    const Linear signs = a_minus + b_minus;  // exactly one: a negative quotient
    const Linear one_sign = signs - 2 * g.product(g.one(), signs - g.one(), "both negative");
    const Linear quotient_minus =
        g.product(g.one(), m.is(DivS32) + one_sign + not_zero - g.constant(2), "quotient < 0");
    const Linear rest_minus = g.product(g.one(), m.is(RemS32) + a_minus + not_zero - g.constant(2), "remainder < 0");
    s.second += plain + g.choose(quotient_minus + rest_minus, g.constant(k32) - 2 * plain, "result turned");
    // Shifts: what leaves on the left first, or the quotient by a power of two.
    const Linear shifts_left = m.is({Shl32, Rotl32});
    const Linear left_first = during(shifts_left, first, "carried left");
    const Linear left_second = during(shifts_left, m.in_sep, "shifted left");
    const Linear sign_first = during(m.is(ShrS32), first, "shifted right");
    const Linear sign_second = during(m.is(ShrS32), m.in_sep, "shifted right, sign");
    const Linear flipped = g.product(g.one(), sign_first + c.a_negative32 - g.one(), "flipped");
    s.first_number += g.choose(left_first + m.is(ShrU32) + sign_first, m.a.low, "shifted") +
                      g.choose(flipped, g.constant(k32 - 1) - 2 * m.a.low, "shifted, flipped");
    s.divisor_less_one += g.choose(left_first, m.shift_inverse - g.one(), "inverse chosen") +
                          g.choose(m.is(ShrU32) + sign_first, m.shift_power - g.one(), "power chosen");
    const Linear carried = g.choose(left_second, m.previous_run, "carried");
    const Linear kept = g.choose(left_second, m.a.low, "shifted again") -
                        g.product_within(m.shift_inverse, carried, {0, k32 - 1}, "carried part");
    const Linear kept_sum = g.sum(kept, "kept part");
    g.narrow(kept_sum, {0, k32 - 1});
    s.second += g.product_within(m.shift_power, kept_sum, {0, k32 - 1}, "kept, shifted") +
                g.choose(g.both(m.is(Rotl32), m.in_sep, "rotates"), m.previous_run, "rotated in");
    const Linear back = g.product(g.one(), sign_second + c.a_negative32 - g.one(), "flipped back");
    s.second += g.choose(sign_second, m.previous_run, "shifted, sign") +
                g.choose(back, g.constant(k32 - 1) - 2 * m.previous_run, "shifted, flipped back");
    return s;
}

}  // namespace

void define_results(MachineParts& m) {
    Graph& g = m.graph;
    const Comparison c = compare(m);
    const Linear carry = g.step(m.a.low + m.b.low - g.constant(k32), "carry");
    const WideResult wide = wide_result(m, c, carry);
    const Linear is_wide = m.is({Move, MoveIf, Add64, Sub64, Pack, Extend32});
    const Linear upper_left = g.step(wide.high - g.one(), "upper result is not 0") - m.in_high;
    m.wide_upper = g.both(is_wide, upper_left, "upper half now");
    const TwoStep steps = two_step(m, c);

    const Linear bits_low = bit_length(m, m.a.low, "a low");
    const Linear bits_high = bit_length(m, m.a.high, "a high");
    const Linear high_some = g.step(m.a.high - g.one(), "a high >= 2^0");
    const Linear clz64 =
        g.choose(m.is(Clz64), g.constant(64) - bits_low, "clz64") +
        g.choose(g.both(m.is(Clz64), high_some, "clz64 of high"), bits_low - bits_high - g.constant(32), "clz64 high");
    const Linear byte_minus = g.step(m.low_byte - g.constant(128), "low byte negative");
    const Linear half_minus = g.step(m.a.parts[0] - g.constant(32768), "low half negative");

    // Control flow.
    const Linear taken = m.is({Branch, BranchTable}) + g.both(m.is(BranchIf), c.a_not_zero, "branch if") +
                         g.both(m.is(BranchIfZero), g.one() - c.a_not_zero, "branch if zero");
    const Linear chosen = m.a.low - g.product(g.one(), m.a.low - m.immediate, "index beyond");  // min(al, imm)
    const Linear calls = m.is({Call, CallSlot});
    const Linear second = m.in_sep;
    const Linear call_first = g.both(calls, g.one() - second, "call frame");
    const Linear return_first = g.both(m.is(Return), g.one() - second, "return frame");
    const Linear control =
        g.choose(taken - m.is(BranchTable), m.immediate, "branch target") +
        g.choose(m.is(BranchTable), m.cursor + g.one() + chosen, "table target") +
        g.choose(call_first, m.frame + m.field_d, "new frame") +
        g.choose(g.both(m.is(Call), second, "call target"), m.immediate, "called") +
        g.choose(g.both(m.is(CallSlot), second, "call slot target"), m.a.low, "called slot") +
        g.choose(return_first, m.return_frame, "old frame") +
        g.choose(g.both(m.is(Return), second, "return target"), m.return_cursor + g.one(), "returned");
    const Linear stored_upper = g.both(m.is(Store64), g.one() - m.in_high, "stores upper half");
    const Linear stored = g.choose(m.is({Store32, Store64}) - stored_upper, m.b.low, "stored") +
                          g.choose(stored_upper, m.b.high, "stored high") +
                          g.choose(m.is(Store16), m.b.parts[0], "stored 16") +
                          g.choose(m.is(Store8), m.low_byte, "stored 8");
    const Linear wide_low = g.sum(wide.low, "lower result");
    const Linear simple = wide_low + g.choose(m.wide_upper, wide.high - wide_low, "upper first") +
                          comparison_result(m, c) + g.choose(m.is(High), m.a.high, "high") +
                          g.choose(m.is(Low), m.a.low, "low") +
                          g.choose(m.is(Clz32), g.constant(32) - bits_low, "clz32") + clz64 +
                          g.choose(m.is(Extend8), m.low_byte + (k32 - 256) * byte_minus, "extended 8") +
                          g.choose(m.is(Extend16), m.a.parts[0] + (k32 - 65536) * half_minus, "extended 16");
    m.number = g.sum(simple + control + stored + steps.first_number + steps.second, "number");
    g.narrow(m.number, {0, std::int64_t{1} << 51});
    m.divisor = g.sum(steps.divisor_less_one + g.one(), "number divided by");
    g.narrow(m.divisor, {0, k32});

    // Which token ends the run: the numbers of kEnders.
    const Linear two_steps = m.is({Mul32, MulHigh64, DivS32, RemU32, RemS32, Shl32, Rotl32, ShrS32});
    const Linear stores = m.is({Store8, Store16, Store32, Store64});
    const Linear untaken = m.is({BranchIf, BranchIfZero, Branch, BranchTable}) - taken;
    const Linear wide_memory = g.both(m.is({Load64, TableGet, Store64}), g.one() - m.in_high, "upper half of memory");
    m.ender = g.choose(m.is(MoveIf), g.one() - c.a_not_zero, "does not move") + stores + untaken +
              2 * g.both(two_steps + calls + m.is(Return), g.one() - m.in_sep - m.in_sep2, "first run") +
              3 * g.both(m.is(MulHigh64), m.in_sep, "second run") + 4 * m.wide_upper + 4 * wide_memory -
              g.both(stores, wide_memory, "stores on") + 5 * taken + 6 * g.both(calls, second, "calls now") +
              7 * g.both(m.is(Return), second, "returns now");

    // Traps.
    const Linear divides = m.is({DivU32, DivS32, RemU32, RemS32});
    const Linear by_zero = g.both(divides, g.one() - g.step(m.b.low - g.one(), "b is not 0"), "divides by zero");
    const Linear smallest = c.a_negative32 - g.step(m.a.low - g.constant(k31 + 1), "a above the smallest");
    const Linear minus_one = g.step(m.b.low - g.constant(k32 - 1), "b is -1");
    const Linear overflows = g.product(g.one(), m.is(DivS32) + smallest + minus_one - g.constant(2), "overflows");
    const Linear accesses = m.is({Load8, Load16, Load32, Load64}) + stores;
    const Linear width =
        m.is({Load8, Store8}) + 2 * m.is({Load16, Store16}) + 4 * m.is({Load32, Store32}) + 8 * m.is({Load64, Store64});
    const Linear beyond = g.step(m.address + width - 65536 * m.memory_pages - g.one(), "beyond the memory");
    const Linear outside = g.both(accesses, beyond, "out of bounds");
    const Linear undefined = g.both(m.is(TableGet), g.step(m.a.low - m.immediate, "beyond the table"), "undefined");
    const Linear full = g.step(m.frame + m.field_d - g.constant(kStackLimit), "stack full") +
                        g.step(m.depth - g.constant(kMaxDepth), "too deep");
    const Linear exhausted = g.both(calls, g.step(full - g.one(), "no room"), "stack overflow");
    const Linear bottom = g.both(m.is(Return), g.one() - g.step(m.depth - g.one(), "inside a call"), "returns nowhere");
    m.trap = m.is(Trap) + by_zero + overflows + outside + undefined + exhausted + bottom;
    m.trap_kind = g.choose(m.is(Trap), m.immediate, "trap kind") + by_zero + 2 * overflows + 3 * outside +
                  4 * undefined + 7 * exhausted;
}

void define_digits(MachineParts& m) {
    Graph& g = m.graph;
    constexpr std::array<std::int64_t, 4> kPlaces = {1, 256, 65536, 16777216};
    const auto byte_count = [&](const Linear& half, std::string_view name) {
        Linear count;
        for (const std::int64_t place : kPlaces) count += g.step(half - g.constant(place), std::string(name));
        return count;
    };
    // Length: free, or fixed by the opcode.
    Linear free_length;
    for (std::size_t k = 0; k < 4; ++k) {
        free_length += g.step(m.number - kPlaces[k] * m.divisor, "digit " + std::to_string(k));
    }
    const Linear bytes_a = g.sum(byte_count(m.a.low, "a bytes"), "bytes of a");
    const Linear bytes_b = g.sum(byte_count(m.b.low, "b bytes"), "bytes of b");
    const Linear longer_b = g.product(g.one(), bytes_b - bytes_a, "b longer");
    const Linear joins = m.is({Or32, Xor32});
    const Linear bitwise = joins + m.is(And32);
    const Linear fixed =
        m.is({Load8, Store8}) + 2 * m.is({Load16, Store16}) + 4 * m.is({Load32, Store32, Load64, Store64, TableGet}) +
        g.choose(joins, bytes_a + longer_b, "longer") + g.choose(m.is(And32), bytes_b - longer_b, "shorter");
    const Linear is_fixed =
        bitwise + m.is({Load8, Load16, Load32, Load64, TableGet, Store8, Store16, Store32, Store64});
    m.length = g.sum(g.choose(g.one() - is_fixed, free_length, "free length") + fixed, "length");
    g.narrow(m.length, {0, 4});
    m.left = g.sum(m.length - m.run_length, "bytes left");

    // The digit at its place: D = divisor * 256^(left - 1), x = number - 256 D * (digits so far).
    Linear place = g.one();
    for (std::size_t k = 1; k < 4; ++k) {
        place += (kPlaces[k] - kPlaces[k - 1]) *
                 g.step(m.left - g.constant(static_cast<std::int64_t>(k) + 1), "left > " + std::to_string(k));
    }
    const Linear digit = g.product_within(m.divisor, place, {0, std::int64_t{1} << 48}, "place of the digit");
    const Linear run = m.run_low + 65536 * m.run_high;
    const Linear so_far = g.product_within(run, digit, {0, std::int64_t{1} << 43}, "digits so far");
    const Linear rest = g.sum(m.number - 256 * so_far, "rest");
    Linear upper;
    for (std::int64_t k = 1; k < 16; ++k) upper += g.step(rest - 16 * k * digit, "upper digit " + std::to_string(k));
    upper = g.sum(upper, "upper digit");
    const Linear rest_low =
        g.sum(rest - 16 * g.product_within(digit, upper, {0, std::int64_t{1} << 52}, "upper part"), "rest below 16");
    Linear lower;
    for (std::int64_t k = 1; k < 16; ++k) lower += g.step(rest_low - k * digit, "lower digit " + std::to_string(k));

    // Bitwise operations: the bits of both bytes come from the embedding.
    const auto bits_of = [&](const MachineParts::Operand& operand, const Linear& bytes, std::string_view name) {
        const std::string text(name);
        const Linear there = g.step(bytes - m.left, text + " has this byte");
        const Linear at = g.choose(there, operand.end - m.left + g.one(), text + " byte at");
        return g.gather(at, {m.bits[0], m.bits[1], m.bits[2], m.bits[3], m.bits[4], m.bits[5], m.bits[6], m.bits[7]},
                        text + " bits");
    };
    const std::vector<Linear> a = bits_of(m.a, bytes_a, "a");
    const std::vector<Linear> b = bits_of(m.b, bytes_b, "b");
    Linear both;
    Linear total;
    for (std::size_t k = 0; k < 8; ++k) {
        const std::int64_t weight = std::int64_t{1} << k;
        both += weight * g.both(a[k], b[k], "bit " + std::to_string(k) + " of both");
        total += weight * (a[k] + b[k]);
    }
    m.bit_byte = g.choose(m.is(And32), both, "and") + g.choose(m.is(Or32), total - both, "or") +
                 g.choose(m.is(Xor32), total - 2 * both, "xor");
    const Linear loads = m.is({Load8, Load16, Load32, Load64, TableGet});
    m.emitted_byte =
        g.sum(16 * upper + lower + g.choose(loads, m.memory_byte, "loaded byte") + m.bit_byte, "next byte");
    g.narrow(m.emitted_byte, {0, 255});
}

void define_choice(MachineParts& m) {
    Graph& g = m.graph;
    const Linear has_run = g.one() - m.is({Halt, Trap, Output});
    const Linear more = g.both(has_run, g.step(m.left - g.one(), "bytes left"), "next is a byte");
    const Linear ended = g.sum(has_run - more, "next ends the run");
    const Linear byte = g.choose(more, m.emitted_byte, "byte chosen");
    const Linear trap = g.sum(m.trap, "next is a trap");
    const Linear trap_kind = g.sum(m.trap_kind, "kind of trap");
    const Linear ender = g.sum(m.ender, "which end");
    const Linear outputs = m.is(Output);
    const Linear low_byte = m.low_byte;
    // 2 v x - v^2 is greatest at v = x.
    const auto peak = [&](std::int64_t value, const Linear& at) { return 2 * value * at - g.constant(value * value); };
    for (std::int64_t v = 0; v < 256; ++v) {
        g.set_logit(static_cast<Token>(token::kByte + v), kKindScore * more + peak(v, byte));
        g.set_logit(static_cast<Token>(token::kOut + v), kKindScore * outputs + peak(v, low_byte));
    }
    for (std::size_t i = 0; i < kEnders.size(); ++i) {
        g.set_logit(kEnders[i], kKindScore * ended + peak(static_cast<std::int64_t>(i), ender));
    }
    for (std::size_t i = 0; i < kTrapCount; ++i) {
        g.set_logit(static_cast<Token>(token::kTrap + i),
                    2 * kKindScore * trap + peak(static_cast<std::int64_t>(i), trap_kind));
    }
    g.set_logit(token::kHalt, kKindScore * m.is(Halt));
}

}  // namespace hearth::vm
