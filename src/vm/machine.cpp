// From tokens to operands: inputs, runs of bytes, the instruction, its operands, memory.
#include "vm/machine_parts.h"

namespace hearth::vm {

using enum Opcode;

namespace {

// Integer points on the circle x^2 + y^2 = 32045, one an opcode: for two of them P.Q <= 32045 - 8, so that
// P.X - 32044 is 1 on the point itself and at most -7 on every other.
constexpr std::int64_t kCircle = 32045;

std::vector<std::pair<std::int64_t, std::int64_t>> circle_points() {
    std::vector<std::pair<std::int64_t, std::int64_t>> points;
    for (std::int64_t x = -179; x <= 179; ++x) {
        for (std::int64_t y = -179; y <= 179; ++y) {
            if (x * x + y * y == kCircle) points.emplace_back(x, y);
        }
    }
    return points;
}

}  // namespace

Linear MachineParts::is(Opcode opcode) {
    const std::size_t index = static_cast<std::size_t>(opcode);
    if (flags[index].terms().empty()) {
        flags[index] = graph.product(graph.one(), gates[index], "is " + std::string(mnemonic(opcode)));
        graph.narrow(flags[index], {0, 1});  // by the distance of the points
    }
    return flags[index];
}

Linear MachineParts::is(std::initializer_list<Opcode> opcodes) {
    Linear any;
    for (const Opcode opcode : opcodes) any += is(opcode);
    return any;
}

void define_inputs(MachineParts& m) {
    Graph& g = m.graph;
    m.byte = g.input("byte");
    m.is_byte = g.input("is byte");
    for (std::size_t k = 0; k < 8; ++k) m.bits[k] = g.input("bit " + std::to_string(k));
    m.power = g.input("power");
    m.inverse_power = g.input("inverse power");
    for (int value = 0; value < 256; ++value) {
        const Token t = static_cast<Token>(token::kByte + value);
        g.set(m.byte, t, value);
        g.set(m.is_byte, t, 1);
        for (std::size_t k = 0; k < 8; ++k) g.set(m.bits[k], t, (value >> k) & 1);
        g.set(m.power, t, std::int64_t{1} << (value & 31));
        g.set(m.inverse_power, t, std::int64_t{1} << (32 - (value & 31)));
    }
    const auto flag = [&](std::string_view name, std::initializer_list<Token> tokens) {
        const Linear made = g.input(name);
        for (const Token t : tokens) g.set(made, t, 1);
        return made;
    };
    using namespace token;
    m.ends = flag("ends", {kCommit, kSkip});
    for (int value = 0; value < 256; ++value) g.set(m.ends, static_cast<Token>(kOut + value), 1);
    m.jumps = flag("jumps", {kJump, kCall, kReturn, kStart});
    m.is_frame = flag("changes the frame", {kCall, kReturn});
    m.is_call = flag("calls", {kCall});
    m.nesting = flag("nesting", {kCall});
    g.set(m.nesting, kReturn, -1);
    m.is_commit = flag("commits", {kCommit});
    m.is_const = flag("constant", {kConst});
    m.after_sep = flag("sep", {kSep});
    m.after_sep2 = flag("sep2", {kSep2});
    m.after_high = flag("high", {kHigh});
    m.after_at = flag("at", {kAt});
    m.opcode_x = g.input("opcode x");
    m.opcode_y = g.input("opcode y");
    const std::vector<std::pair<std::int64_t, std::int64_t>> points = circle_points();
    for (std::size_t i = 0; i < kOpcodeCount; ++i) {
        g.set(m.opcode_x, static_cast<Token>(kOpcode + i), points[i].first);
        g.set(m.opcode_y, static_cast<Token>(kOpcode + i), points[i].second);
    }
}

void define_runs(MachineParts& m) {
    Graph& g = m.graph;
    const std::vector<Linear> start = g.latest(
        g.one() - m.is_byte, {g.position(), m.after_sep, m.after_sep2, m.after_high, m.after_at}, "start of the run");
    m.run_start = start[0];
    m.in_sep = start[1];
    m.in_sep2 = start[2];
    m.in_high = start[3];
    m.in_at = start[4];
    m.run_length = g.position() - m.run_start;
    std::array<Linear, 4> bytes = {m.byte, {}, {}, {}};
    for (int back = 1; back <= 3; ++back) {
        const std::string name = "byte " + std::to_string(back) + " back";
        const Linear there = g.gather(g.position() - g.constant(back), {m.byte}, name)[0];
        // Of this run only: [run_length > back].
        const Linear beyond = m.run_length - g.constant(back);
        bytes[static_cast<std::size_t>(back)] = g.sum(
            g.product(there, beyond, name + "+") - g.product(there, beyond - g.one(), name + "-"), name + " of run");
        g.narrow(bytes[static_cast<std::size_t>(back)], {0, 255});
    }
    m.run_low = g.sum(bytes[0] + 256 * bytes[1], "run low");
    m.run_high = g.sum(bytes[2] + 256 * bytes[3], "run high");
    const std::vector<Linear> before = g.gather(m.run_start - g.one(), {m.run_low, m.run_high}, "run before");
    m.previous_run = before[0] + 65536 * before[1];
    m.before_previous = g.gather(m.run_start - g.one(), {m.previous_run}, "run before that")[0];
    const std::vector<Linear> ended =
        g.gather(g.position() - g.one(), {m.run_low, m.run_high, m.in_high}, "run that ends");
    m.ended_low = ended[0];
    m.ended_high = ended[1];
    const std::vector<Linear> upper = g.gather(g.position() - g.one(), {before[0], before[1]}, "upper half");
    m.upper_run = upper[0] + 65536 * upper[1];
    m.upper_low = g.choose(ended[2], upper[0], "upper low");
    m.upper_high = g.choose(ended[2], upper[1], "upper high");
}

namespace {

void set_gates(MachineParts& m, const Linear& x, const Linear& y) {
    const std::vector<std::pair<std::int64_t, std::int64_t>> points = circle_points();
    for (std::size_t i = 0; i < kOpcodeCount; ++i) {
        m.gates[i] = points[i].first * x + points[i].second * y - m.graph.constant(kCircle - 1);
    }
}

void fetch_from_prompt(MachineParts& m) {
    Graph& g = m.graph;
    const Linear base = kInstructionTokens * m.cursor + g.one();
    const std::vector<Linear> opcode = g.gather(base, {m.opcode_x, m.opcode_y}, kFetchName);
    set_gates(m, opcode[0], opcode[1]);
    const std::vector<Linear> ad = g.gather(base + g.constant(4), {m.run_low, m.run_high}, "fetch a and d");
    m.field_a = ad[0];
    m.field_d = ad[1];
    m.field_b = g.gather(base + g.constant(6), {m.run_low}, "fetch b")[0];
    const std::vector<Linear> imm = g.gather(base + g.constant(10), {m.run_low, m.run_high}, "fetch immediate");
    m.immediate = imm[0] + 65536 * imm[1];
}

// f(cursor) = f(0) + sum over i of (f(i) - f(i - 1)) [cursor >= i]; all fields share the steps.
void fetch_baked(MachineParts& m) {
    Graph& g = m.graph;
    const std::vector<Instruction>& code = m.baked->code;
    const std::vector<std::pair<std::int64_t, std::int64_t>> points = circle_points();
    const auto fields = [&](const Instruction& i) {
        const auto& point = points[static_cast<std::size_t>(i.opcode)];
        return std::array<std::int64_t, 6>{point.first, point.second, i.d, i.a, i.b, std::int64_t{i.imm}};
    };
    constexpr std::array<std::string_view, 6> kNames = {"opcode x", "opcode y", "field d", "field a", "field b", "imm"};
    std::array<Linear, 6> tables;
    std::array<std::int64_t, 6> before = {};
    std::array<Interval, 6> ranges = {};
    for (std::size_t i = 0; i < code.size(); ++i) {
        const Linear reached =
            i == 0 ? g.one() : g.step(m.cursor - g.constant(static_cast<std::int64_t>(i)), "at " + std::to_string(i));
        const std::array<std::int64_t, 6> now = fields(code[i]);
        for (std::size_t k = 0; k < 6; ++k) {
            tables[k] += (now[k] - before[k]) * reached;
            ranges[k] = {std::min(ranges[k].low, now[k]), std::max(ranges[k].high, now[k])};
        }
        before = now;
    }
    for (std::size_t k = 0; k < 6; ++k) {
        tables[k] = g.sum(tables[k], "baked " + std::string(kNames[k]));
        if (!tables[k].terms().empty() && tables[k] != g.one()) g.narrow(tables[k], ranges[k]);
    }
    set_gates(m, tables[0], tables[1]);
    m.field_d = tables[2];
    m.field_a = tables[3];
    m.field_b = tables[4];
    m.immediate = tables[5];
}

}  // namespace

void define_fetch(MachineParts& m) {
    Graph& g = m.graph;
    const std::vector<Linear> sums = g.running_sum({m.ends, m.nesting, m.is_const}, "counts");
    m.depth = sums[1];
    g.narrow(m.depth, {0, kMaxDepth});  // a return needs a call, a call beyond the limit traps
    m.const_count = sums[2];
    g.narrow(m.const_count, {0, kAbsolute});  // as many as a program has
    const Linear target = m.ended_low + 65536 * m.ended_high;
    const std::vector<Linear> jump = g.latest(m.jumps, {target - sums[0], g.one()}, "latest jump");
    m.started = jump[1];
    m.cursor = g.sum(sums[0] + jump[0], "cursor");
    g.narrow(m.cursor, {0, kMaxInstructions});  // programs are checked to stay inside
    if (m.baked != nullptr) {
        fetch_baked(m);
    } else {
        fetch_from_prompt(m);
    }
    const Linear moved = g.latest(m.is_frame, {m.upper_run - g.constant(kFirstFrame)}, "frame")[0];
    m.frame = g.sum(moved + g.constant(kFirstFrame), "frame pointer");
    g.narrow(m.frame, {0, kStackLimit});  // a call beyond the limit traps
    m.old_cursor = g.gather(g.position() - g.one(), {m.cursor}, "cursor before")[0];
    m.old_frame = g.gather(g.position() - g.one(), {m.frame}, "frame before")[0];
    const std::vector<Linear> back =
        g.latest_by_key(m.depth, m.depth, m.is_call, {m.old_cursor, m.old_frame}, "call stack");
    m.return_cursor = back[0];
    m.return_frame = back[1];
}

namespace {

// field + frame where the field is below kAbsolute, the field alone elsewhere.
Linear slot_key(MachineParts& m, const Linear& field, std::string_view name) {
    Graph& g = m.graph;
    const Linear relative = g.constant(kAbsolute - 1) - field;  // >= 0: of the frame
    const std::string text(name);
    const Linear key = g.sum(field + g.product(m.frame, relative + g.one(), text + " frame+") -
                                 g.product(m.frame, relative, text + " frame-"),
                             text + " slot");
    g.narrow(key, {0, kStackLimit + kAbsolute});
    return key;
}

}  // namespace

void define_operands(MachineParts& m) {
    Graph& g = m.graph;
    // At a commit the cursor is at the next instruction already: the slot is the one named a token before.
    const Linear named = g.gather(g.position() - g.one(), {slot_key(m, m.field_d, "result")}, "slot of the result")[0];
    const Linear key = g.sum(g.choose(m.is_commit, named, "result slot") +
                                 g.choose(m.is_const, m.const_count + g.constant(kAbsolute - 1), "constant slot"),
                             "slot written");
    const Linear writes = m.is_commit + m.is_const;
    const auto operand = [&](const Linear& field, std::string_view name) {
        const Linear wanted = slot_key(m, field, name);
        const std::vector<Linear> found = g.latest_by_key(
            wanted, key, writes, {m.ended_low, m.ended_high, m.upper_low, m.upper_high, g.position() - g.one()}, name);
        MachineParts::Operand result{{found[0], found[1], found[2], found[3]}, found[4], {}, {}};
        result.low = g.sum(found[0] + 65536 * found[1], std::string(name) + " low half");
        result.high = g.sum(found[2] + 65536 * found[3], std::string(name) + " high half");
        return result;
    };
    m.a = operand(m.field_a, "operand a");
    m.b = operand(m.field_b, "operand b");
    m.memory_pages =
        g.latest_by_key(g.constant(kAbsolute + kMemoryPagesSlot), key, writes, {m.ended_low}, "memory pages")[0];
    g.narrow(m.memory_pages, {0, kMaxPages});  // memory.grow refuses more
    // The lowest byte of b, and the powers of two its embedding knows; 0 has no byte.
    const Linear some = g.step(m.b.low - g.one(), "b is not 0");
    const std::vector<Linear> byte =
        g.gather(g.choose(some, m.b.end, "low byte at"), {m.byte, m.power, m.inverse_power}, "low byte of b");
    m.low_byte = byte[0];
    m.shift_power = byte[1] + g.one() - some;
    m.shift_inverse = byte[2] + (std::int64_t{1} << 32) * (g.one() - some);
}

void define_memory(MachineParts& m) {
    Graph& g = m.graph;
    m.address = m.a.low + m.immediate;
    // Bytes are written most significant first, so the run counts addresses down; upper halves lie 4 higher.
    const Linear wide_store = m.is(Store64);
    const Linear stores = m.is({Store8, Store16, Store32, Store64});
    const Linear store_length = m.is(Store8) + 2 * m.is(Store16) + 4 * m.is({Store32, Store64});
    const Linear upper_store = wide_store - g.both(wide_store, m.in_high, "lower half stored");
    const Linear storing = g.product(g.one(), m.is_byte + m.started + stores - g.constant(2), "this byte is stored");
    const Linear preset = g.both(m.is_byte, m.in_at, "this byte is data");
    const Linear store_at = m.address + store_length - m.run_length + 4 * upper_store;
    const Linear data_at = m.previous_run + m.run_length - g.one();
    const Linear written =
        g.sum(g.choose(storing, store_at, "stored at") + g.choose(preset, data_at, "data at"), "address written");
    constexpr std::int64_t kTop = std::int64_t{kTableBase} + 8 * kMaxTable;
    g.narrow(written, {0, kTop});  // a store beyond the memory traps, segments are checked

    const Linear wide_load = m.is({Load64, TableGet});
    const Linear load_length = m.is(Load8) + 2 * m.is(Load16) + 4 * m.is({Load32, Load64, TableGet});
    const Linear upper_load = wide_load - g.both(wide_load, m.in_high, "lower half loaded");
    const Linear table_at = g.choose(m.is(TableGet), 7 * m.a.low - m.immediate + g.constant(kTableBase), "table at");
    const Linear read = m.address + table_at + load_length - g.one() - m.run_length + 4 * upper_load;
    const Linear wanted = g.sum(read, "address read");
    const std::vector<Linear> found = g.latest_by_key(wanted, written, storing + preset, {m.byte, written}, "memory");
    // Never written: the nearest address answers, and is not the one asked for.
    const Linear off = g.sum(found[1] - wanted, "address found - wanted");
    const Linear hit = g.product(found[0], off + g.one(), "memory hit 1") -
                       2 * g.product(found[0], off, "memory hit 0") +
                       g.product(found[0], off - g.one(), "memory hit -1");
    m.memory_byte = g.sum(hit, "memory byte");
    g.narrow(m.memory_byte, {0, 255});
}

Graph build_machine(const Program* baked) {
    MachineParts machine;
    machine.baked = baked;
    define_inputs(machine);
    define_runs(machine);
    define_fetch(machine);
    define_operands(machine);
    define_memory(machine);
    define_results(machine);
    define_digits(machine);
    define_choice(machine);
    return std::move(machine.graph);
}

}  // namespace hearth::vm
