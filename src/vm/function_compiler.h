// Compiles one WebAssembly function, checking its types on the way.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "vm/program_builder.h"
#include "vm/wasm_module.h"

namespace hearth::vm {

// What functions of one module share.
struct ModuleCompilation {
    const WasmModule& module;
    ProgramBuilder out;
    DivisionRoutines divisions;
    std::vector<std::uint32_t> entries;                          // first instruction of each function
    std::vector<std::pair<std::uint32_t, std::uint32_t>> calls;  // instruction, function: patched at the end
    std::vector<std::uint32_t> type_ids;                         // equal types have equal ids, from 1 on

    Field global(std::uint32_t index) const { return static_cast<Field>(kAbsolute + 1 + index); }
};

class FunctionCompiler {
public:
    FunctionCompiler(ModuleCompilation& compilation, const WasmFunction& function);
    Status compile();

private:
    enum class Type : std::uint8_t { I32, I64, Any };  // Any: below unreachable code
    enum class Place : std::uint8_t { Own, Local, Constant };
    // A value on the operand stack: in the slot of its height, or still where it came from.
    struct Entry {
        Place place = Place::Own;
        Type type = Type::I32;
        Field field = 0;
    };
    enum class Block : std::uint8_t { Function, Block, Loop, If, Else };
    struct Control {
        Block kind = Block::Block;
        std::optional<Type> result;
        std::size_t height = 0;
        bool entered = true;       // the code before it can be reached
        bool unreachable = false;  // after an unconditional branch the stack may hold anything
        std::uint32_t loop_start = 0;
        std::vector<std::uint32_t> exits;      // branches to its end
        std::optional<std::uint32_t> to_else;  // of an If
    };

    // Types and stack.
    static Type type_of(ValueType type) { return type == ValueType::I32 ? Type::I32 : Type::I64; }
    Error error(std::string_view what) const { return in_.error(name_ + std::string(what)); }
    Result<Entry> pop(Type expected);
    Field own_slot(std::size_t height) const { return static_cast<Field>(locals_.size() + height); }
    Result<Field> push_own(Type type);
    Field scratch() const { return own_slot(stack_.size() + 3); }  // above the operands just popped
    void settle(std::size_t index);                                // moves an entry into its own slot
    void settle_locals();                                          // all that still lie in a local
    void move_to(Field slot, const Entry& entry);
    void set_unreachable();

    // Emission; nothing is emitted for code that cannot be reached.
    void emit(Opcode opcode, Field d, Field a, Field b = 0, std::uint32_t imm = 0);
    void emit_result(Opcode opcode, Field d, Field a, Field b = 0, std::uint32_t imm = 0);
    std::uint32_t branch(Opcode opcode, Field a = 0, std::uint32_t target = 0);
    void bind();  // a label: what came before may not be changed any more
    std::pair<Opcode, Field> condition(Opcode opcode, const Entry& entry);

    // Instructions.
    Status instruction(std::uint8_t opcode);
    Status control(std::uint8_t opcode);
    Result<std::optional<Type>> block_type();
    Status begin(Block kind);
    Status end_block();
    Status else_block();
    Result<std::size_t> label();
    Status branch_to(std::size_t depth);
    Status branch_if();
    Status branch_table();
    Field label_slot(const Control& target) const;
    bool carries_value(const Control& target) const { return target.result && target.kind != Block::Loop; }
    void jump(std::size_t depth);
    Status call();
    Status call_indirect();
    Status finish_call(const WasmType& type, Opcode opcode, Field target, std::optional<std::uint32_t> function);
    Status variable(std::uint8_t opcode);
    Status local_set(bool keep);
    Status select();
    Status memory(std::uint8_t opcode);
    Status load(std::uint8_t opcode);
    Status store(std::uint8_t opcode);
    Status memory_grow();
    Status memory_fill();
    Status memory_copy();
    void check_bounds(Field address, Field count, Field test);
    template <typename Body>
    void repeat(Field left, const Body& body);
    Result<std::uint32_t> memory_argument(unsigned width);
    Status numeric(std::uint8_t opcode);
    Status compare(std::uint8_t opcode);
    Status binary32(std::uint8_t opcode);
    Status binary64(std::uint8_t opcode);
    Status unary(std::uint8_t opcode);
    Status divide64(DivisionRoutines::Kind kind);

    ModuleCompilation& shared_;
    ProgramBuilder& out_;
    const WasmFunction& function_;
    WasmReader in_;
    std::string name_;  // "function NAME: ", for errors
    std::vector<Type> locals_;
    std::size_t parameters_;
    std::vector<Entry> stack_;
    std::vector<Control> controls_;
    bool reachable_ = true;
    std::optional<std::uint32_t> last_result_;  // the last instruction, when its d may still be changed
};

}  // namespace hearth::vm
