// Stack, locals, control flow and calls; arithmetic is in function_numeric.cpp.
#include "vm/function_compiler.h"

#include <algorithm>

namespace hearth::vm {

namespace {

constexpr std::size_t kMaxNesting = 10000;

}  // namespace

FunctionCompiler::FunctionCompiler(ModuleCompilation& compilation, const WasmFunction& function)
    : shared_(compilation),
      out_(compilation.out),
      function_(function),
      in_(function.body, function.body_offset),
      name_("function " + function.name + ": ") {
    const WasmType& type = shared_.module.types[function.type];
    for (const ValueType parameter : type.parameters) locals_.push_back(type_of(parameter));
    parameters_ = locals_.size();
    for (const ValueType local : function.locals) locals_.push_back(type_of(local));
    // The frame has a slot for the result even where there are no locals.
    Control whole;
    whole.kind = Block::Function;
    if (type.result) whole.result = type_of(*type.result);
    controls_.push_back(std::move(whole));
}

Status FunctionCompiler::compile() {
    for (std::size_t i = parameters_; i < locals_.size(); ++i) {
        emit(Opcode::Move, static_cast<Field>(i), out_.constant(0));
    }
    while (!controls_.empty()) {
        if (in_.left() == 0) return error("body without an end");
        out_.set_offset(in_.offset());
        TRY(instruction(TRY(in_.byte())));
        if (out_.here() > kMaxInstructions) return error("the program needs more than 1048576 instructions");
    }
    if (in_.left() != 0) return error("bytes after the end of the body");
    return {};
}

// ---- the operand stack

Result<FunctionCompiler::Entry> FunctionCompiler::pop(Type expected) {
    Control& top = controls_.back();
    if (stack_.size() == top.height) {
        if (top.unreachable) return Entry{Place::Constant, expected, out_.constant(0)};
        return error("the operand stack is empty");
    }
    const Entry entry = stack_.back();
    if (expected != Type::Any && entry.type != Type::Any && entry.type != expected) {
        return error(expected == Type::I32 ? "an i32 is needed" : "an i64 is needed");
    }
    stack_.pop_back();
    return entry;
}

Result<Field> FunctionCompiler::push_own(Type type) {
    const std::size_t slot = locals_.size() + stack_.size();
    // Room for operands, temporaries and a callee's frame beside it.
    if (slot + 64 >= kAbsolute) return error("more than 32768 locals and operands");
    stack_.push_back({Place::Own, type, static_cast<Field>(slot)});
    return static_cast<Field>(slot);
}

void FunctionCompiler::settle(std::size_t index) {
    Entry& entry = stack_[index];
    if (entry.place == Place::Own) return;
    emit(Opcode::Move, own_slot(index), entry.field);
    entry.place = Place::Own;
    entry.field = own_slot(index);
}

void FunctionCompiler::settle_locals() {
    for (std::size_t i = 0; i < stack_.size(); ++i) {
        if (stack_[i].place == Place::Local) settle(i);
    }
}

void FunctionCompiler::move_to(Field slot, const Entry& entry) {
    if (entry.field == slot) return;
    // The instruction that has just computed the value may put it there itself.
    if (reachable_ && entry.place == Place::Own && last_result_ && out_.program.code[*last_result_].d == entry.field) {
        out_.program.code[*last_result_].d = slot;
        last_result_.reset();
        return;
    }
    emit(Opcode::Move, slot, entry.field);
}

void FunctionCompiler::set_unreachable() {
    stack_.resize(controls_.back().height);
    controls_.back().unreachable = true;
    reachable_ = false;
    last_result_.reset();
}

// ---- emission

void FunctionCompiler::emit(Opcode opcode, Field d, Field a, Field b, std::uint32_t imm) {
    last_result_.reset();
    if (reachable_) out_.emit(opcode, d, a, b, imm);
}

void FunctionCompiler::emit_result(Opcode opcode, Field d, Field a, Field b, std::uint32_t imm) {
    emit(opcode, d, a, b, imm);
    if (reachable_) last_result_ = out_.here() - 1;
}

std::uint32_t FunctionCompiler::branch(Opcode opcode, Field a, std::uint32_t target) {
    last_result_.reset();
    return reachable_ ? out_.branch(opcode, a, target) : 0;
}

void FunctionCompiler::bind() {
    last_result_.reset();
}

// A comparison with zero that has just been made only turns the branch around.
std::pair<Opcode, Field> FunctionCompiler::condition(Opcode opcode, const Entry& entry) {
    if (!reachable_ || entry.place != Place::Own || !last_result_) return {opcode, entry.field};
    const Instruction last = out_.program.code.back();
    const bool equal = last.opcode == Opcode::Equal;
    if (last.d != entry.field || !(equal || last.opcode == Opcode::NotEqual)) return {opcode, entry.field};
    if (out_.constant_value(last.b) != std::uint64_t{0}) return {opcode, entry.field};
    out_.program.code.pop_back();
    out_.program.offsets.pop_back();
    last_result_.reset();
    if (!equal) return {opcode, last.a};
    return {opcode == Opcode::BranchIf ? Opcode::BranchIfZero : Opcode::BranchIf, last.a};
}

// ---- instructions

Status FunctionCompiler::instruction(std::uint8_t opcode) {
    if (opcode <= 0x11) return control(opcode);
    if (opcode == 0x1a) {
        TRY(pop(Type::Any));
        return {};
    }
    if (opcode == 0x1b) return select();
    if (opcode >= 0x20 && opcode <= 0x24) return variable(opcode);
    if (opcode >= 0x28 && opcode <= 0x40) return memory(opcode);
    return numeric(opcode);
}

Status FunctionCompiler::control(std::uint8_t opcode) {
    switch (opcode) {
        case 0x00:  // unreachable
            emit(Opcode::Trap, 0, 0, 0, static_cast<std::uint32_t>(TrapKind::Unreachable));
            set_unreachable();
            return {};
        case 0x01: return {};
        case 0x02: return begin(Block::Block);
        case 0x03: return begin(Block::Loop);
        case 0x04: return begin(Block::If);
        case 0x05: return else_block();
        case 0x0b: return end_block();
        case 0x0c: return branch_to(TRY(label()));
        case 0x0d: return branch_if();
        case 0x0e: return branch_table();
        case 0x0f: return branch_to(controls_.size() - 1);
        case 0x10: return call();
        case 0x11: return call_indirect();
        default: {
            const std::string_view name = unsupported_instruction(opcode);
            return error(name.empty() ? "unknown instruction" : "unsupported instruction " + std::string(name));
        }
    }
}

Result<std::optional<FunctionCompiler::Type>> FunctionCompiler::block_type() {
    const std::int64_t code = TRY(in_.s32());
    if (code == -64) return std::optional<Type>();
    if (code == -1) return std::optional<Type>(Type::I32);
    if (code == -2) return std::optional<Type>(Type::I64);
    if (code == -3 || code == -4) return error("unsupported floating-point block");
    if (code < 0 || static_cast<std::size_t>(code) >= shared_.module.types.size()) return error("unknown block type");
    const WasmType& type = shared_.module.types[static_cast<std::size_t>(code)];
    if (!type.parameters.empty()) return error("unsupported feature multi-value (a block with parameters)");
    return type.result ? std::optional<Type>(type_of(*type.result)) : std::nullopt;
}

Status FunctionCompiler::begin(Block kind) {
    if (controls_.size() >= kMaxNesting) return error("blocks nested too deeply");
    Control block;
    block.kind = kind;
    block.result = TRY(block_type());
    block.entered = reachable_;
    std::pair<Opcode, Field> skip;
    if (kind == Block::If) {
        const Entry test = TRY(pop(Type::I32));
        skip = condition(Opcode::BranchIfZero, test);
    }
    // Locals may change inside, on one of several ways: what still lies in them is copied before.
    settle_locals();
    block.height = stack_.size();
    if (kind == Block::If && reachable_) block.to_else = branch(skip.first, skip.second);
    bind();
    block.loop_start = out_.here();
    controls_.push_back(std::move(block));
    return {};
}

Status FunctionCompiler::else_block() {
    Control& block = controls_.back();
    if (block.kind != Block::If) return error("else without if");
    if (block.result) {
        const Entry value = TRY(pop(*block.result));
        move_to(label_slot(block), value);
    }
    if (stack_.size() != block.height) return error("values left on the operand stack");
    if (reachable_) block.exits.push_back(branch(Opcode::Branch));
    bind();
    if (block.to_else) out_.patch_here(*block.to_else);
    block.to_else.reset();
    block.kind = Block::Else;
    block.unreachable = false;
    reachable_ = block.entered;
    return {};
}

Status FunctionCompiler::end_block() {
    Control& block = controls_.back();
    if (block.kind == Block::If && block.result) return error("if with a result and without else");
    if (block.result) {
        const Entry value = TRY(pop(*block.result));
        move_to(label_slot(block), value);
    }
    if (stack_.size() != block.height) return error("values left on the operand stack");
    bind();
    const bool is_function = block.kind == Block::Function;
    reachable_ = reachable_ || !block.exits.empty() || block.to_else.has_value();
    for (const std::uint32_t exit : block.exits) out_.patch_here(exit);
    if (block.to_else) out_.patch_here(*block.to_else);
    const std::optional<Type> result = block.result;
    controls_.pop_back();
    if (is_function) {
        emit(Opcode::Return, 0, 0);
        return {};
    }
    if (result) TRY(push_own(*result));
    return {};
}

// Where the value of a branch to a block must be.
Field FunctionCompiler::label_slot(const Control& target) const {
    return target.kind == Block::Function ? Field{0} : own_slot(target.height);
}

Result<std::size_t> FunctionCompiler::label() {
    const std::size_t depth = TRY(in_.u32());
    if (depth >= controls_.size()) return error("branch to a block that does not exist");
    return depth;
}

void FunctionCompiler::jump(std::size_t depth) {
    Control& target = controls_[controls_.size() - 1 - depth];
    if (!reachable_) return;
    if (target.kind == Block::Function) {
        emit(Opcode::Return, 0, 0);
    } else if (target.kind == Block::Loop) {
        branch(Opcode::Branch, 0, target.loop_start);
    } else {
        target.exits.push_back(branch(Opcode::Branch));
    }
}

Status FunctionCompiler::branch_to(std::size_t depth) {
    const Control& target = controls_[controls_.size() - 1 - depth];
    if (carries_value(target)) {
        const Entry value = TRY(pop(*target.result));
        move_to(label_slot(target), value);
    }
    jump(depth);
    set_unreachable();
    return {};
}

Status FunctionCompiler::branch_if() {
    const std::size_t depth = TRY(label());
    const Entry test = TRY(pop(Type::I32));
    Control& target = controls_[controls_.size() - 1 - depth];
    const std::pair<Opcode, Field> taken = condition(Opcode::BranchIf, test);
    Field value = 0;
    bool moves = false;
    if (carries_value(target)) {
        Entry entry = TRY(pop(*target.result));
        entry.type = *target.result;
        stack_.push_back(entry);
        value = entry.field;
        moves = value != label_slot(target);
    }
    if (!moves && target.kind != Block::Function) {
        const std::uint32_t from = branch(taken.first, taken.second, target.loop_start);
        if (reachable_ && target.kind != Block::Loop) target.exits.push_back(from);
        return {};
    }
    // The way that is taken has something to do first: go around it.
    const Opcode around = taken.first == Opcode::BranchIf ? Opcode::BranchIfZero : Opcode::BranchIf;
    const std::uint32_t over = branch(around, taken.second);
    if (moves) emit(Opcode::Move, label_slot(target), value);
    jump(depth);
    if (reachable_) out_.patch_here(over);
    bind();
    return {};
}

Status FunctionCompiler::branch_table() {
    const std::size_t count = TRY(in_.count());
    std::vector<std::size_t> depths;
    for (std::size_t i = 0; i <= count; ++i) depths.push_back(TRY(label()));
    const Entry index = TRY(pop(Type::I32));
    const Control& last = controls_[controls_.size() - 1 - depths.back()];
    std::optional<Entry> value;
    if (carries_value(last)) value = TRY(pop(*last.result));
    for (const std::size_t depth : depths) {
        const Control& target = controls_[controls_.size() - 1 - depth];
        if (carries_value(target) != carries_value(last) || (value && *target.result != *last.result)) {
            return error("branch table over blocks of different types");
        }
    }
    emit(Opcode::BranchTable, 0, index.field, 0, static_cast<std::uint32_t>(count));
    // One branch an entry; those whose value must move go to a stub behind them, one for each block.
    std::vector<std::pair<std::uint32_t, std::size_t>> stubs;  // branch, depth
    for (const std::size_t depth : depths) {
        const Control& target = controls_[controls_.size() - 1 - depth];
        if (value && value->field != label_slot(target)) {
            stubs.emplace_back(branch(Opcode::Branch), depth);
        } else {
            jump(depth);
        }
    }
    std::stable_sort(stubs.begin(), stubs.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    for (std::size_t i = 0; reachable_ && i < stubs.size(); ++i) {
        const bool first = i == 0 || stubs[i].second != stubs[i - 1].second;
        if (!first) {
            out_.patch(stubs[i].first, out_.program.code[stubs[i - 1].first].imm);
            continue;
        }
        out_.patch_here(stubs[i].first);
        emit(Opcode::Move, label_slot(controls_[controls_.size() - 1 - stubs[i].second]), value->field);
        jump(stubs[i].second);
    }
    set_unreachable();
    return {};
}

// ---- calls

// The arguments lie in consecutive slots: they are the first slots of the callee's frame.
Status FunctionCompiler::finish_call(const WasmType& type, Opcode opcode, Field target,
                                     std::optional<std::uint32_t> function) {
    const std::size_t count = type.parameters.size();
    const bool complete = stack_.size() >= controls_.back().height + count;
    if (complete) {
        for (std::size_t i = stack_.size() - count; i < stack_.size(); ++i) settle(i);
    }
    for (std::size_t i = count; i-- > 0;) TRY(pop(type_of(type.parameters[i])));
    const Field frame = own_slot(stack_.size());
    if (reachable_) {
        emit(opcode, frame, target);
        if (function) shared_.calls.emplace_back(out_.here() - 1, *function);
    }
    last_result_.reset();
    if (type.result) TRY(push_own(type_of(*type.result)));
    return {};
}

Status FunctionCompiler::call() {
    const std::uint32_t index = TRY(in_.u32());
    if (index >= shared_.module.functions.size()) return error("call of a function that does not exist");
    const WasmFunction& function = shared_.module.functions[index];
    if (function.imported) {
        const Entry value = TRY(pop(Type::I32));
        emit(Opcode::Output, 0, 0, value.field);
        return {};
    }
    return finish_call(shared_.module.types[function.type], Opcode::Call, 0, index);
}

Status FunctionCompiler::call_indirect() {
    const std::uint32_t type_index = TRY(in_.u32());
    if (TRY(in_.u32()) != 0) return error("unsupported feature reference types (more than one table)");
    if (type_index >= shared_.module.types.size()) return error("indirect call of an unknown type");
    if (!shared_.module.table_size) return error("indirect call without a table");
    const Entry index = TRY(pop(Type::I32));
    const Field entry = scratch();
    const Field type = static_cast<Field>(entry + 1);
    const Field same = static_cast<Field>(entry + 2);
    emit(Opcode::TableGet, entry, index.field, 0, *shared_.module.table_size);
    emit(Opcode::High, type, entry);
    const auto trap_unless = [&](Field test, TrapKind kind) {
        const std::uint32_t over = branch(Opcode::BranchIf, test);
        emit(Opcode::Trap, 0, 0, 0, static_cast<std::uint32_t>(kind));
        if (reachable_) out_.patch_here(over);
    };
    trap_unless(type, TrapKind::UninitializedElement);
    emit(Opcode::Equal, same, type, out_.constant(shared_.type_ids[type_index]));
    trap_unless(same, TrapKind::SignatureMismatch);
    emit(Opcode::Low, entry, entry);
    return finish_call(shared_.module.types[type_index], Opcode::CallSlot, entry, std::nullopt);
}

// ---- variables

Status FunctionCompiler::local_set(bool keep) {
    const std::uint32_t index = TRY(in_.u32());
    if (index >= locals_.size()) return error("a local that does not exist");
    const Entry value = TRY(pop(locals_[index]));
    for (std::size_t i = 0; i < stack_.size(); ++i) {
        if (stack_[i].place == Place::Local && stack_[i].field == index) settle(i);
    }
    move_to(static_cast<Field>(index), value);
    if (!keep) return {};
    TRY(push_own(locals_[index]));
    stack_.back() = {Place::Local, locals_[index], static_cast<Field>(index)};
    return {};
}

Status FunctionCompiler::variable(std::uint8_t opcode) {
    if (opcode == 0x21 || opcode == 0x22) return local_set(opcode == 0x22);
    const std::uint32_t index = TRY(in_.u32());
    if (opcode == 0x20) {
        if (index >= locals_.size()) return error("a local that does not exist");
        TRY(push_own(locals_[index]));
        stack_.back() = {Place::Local, locals_[index], static_cast<Field>(index)};
        return {};
    }
    if (index >= shared_.module.globals.size()) return error("a global that does not exist");
    const WasmGlobal& global = shared_.module.globals[index];
    if (opcode == 0x23) {
        const Field slot = TRY(push_own(type_of(global.type)));
        if (!global.is_mutable) {
            stack_.back() = {Place::Constant, type_of(global.type), out_.constant(global.value)};
        } else {
            emit_result(Opcode::Move, slot, shared_.global(index));
        }
        return {};
    }
    if (!global.is_mutable) return error("an immutable global is set");
    const Entry value = TRY(pop(type_of(global.type)));
    move_to(shared_.global(index), value);
    return {};
}

Status FunctionCompiler::select() {
    const Entry test = TRY(pop(Type::I32));
    const Entry second = TRY(pop(Type::Any));
    const Entry first = TRY(pop(second.type));
    const Field slot = TRY(push_own(first.type == Type::Any ? second.type : first.type));
    if (first.field != slot) {
        emit(Opcode::Move, slot, second.field);
        emit(Opcode::MoveIf, slot, test.field, first.field);
        return {};
    }
    // The first value lies in the result's slot already: replace it where the test is zero.
    const Field zero = scratch();
    emit(Opcode::Equal, zero, test.field, out_.constant(0));
    emit(Opcode::MoveIf, slot, zero, second.field);
    return {};
}

}  // namespace hearth::vm
