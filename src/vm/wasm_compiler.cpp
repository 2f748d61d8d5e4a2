#include "vm/wasm_compiler.h"

#include <algorithm>
#include <map>

#include "vm/function_compiler.h"

namespace hearth::vm {

namespace {

// What lies from `base` on, as segments; long runs of zeros need no tokens.
std::vector<DataSegment> to_segments(std::uint32_t base, std::span<const std::uint8_t> bytes) {
    constexpr std::uint32_t kGap = 6;  // about what a new segment costs
    std::vector<DataSegment> segments;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i] == 0) continue;
        const std::uint32_t address = base + static_cast<std::uint32_t>(i);
        if (segments.empty() || address - segments.back().address >= segments.back().bytes.size() + kGap) {
            segments.push_back({address, {}});
        }
        segments.back().bytes.resize(address - segments.back().address);
        segments.back().bytes.push_back(bytes[i]);
    }
    return segments;
}

// Later segments lie over earlier ones. All fit in the module's memory, so at most 64 MiB are needed.
std::vector<DataSegment> memory_segments(const WasmModule& module) {
    std::vector<std::uint8_t> bytes;
    for (const WasmData& segment : module.data) {
        bytes.resize(std::max(bytes.size(), segment.offset + segment.bytes.size()));
        std::transform(segment.bytes.begin(), segment.bytes.end(),
                       bytes.begin() + static_cast<std::ptrdiff_t>(segment.offset),
                       [](std::byte byte) { return static_cast<std::uint8_t>(byte); });
    }
    return to_segments(0, bytes);
}

// Entry i of the table: eight bytes, the first instruction below and the id of the type above.
void add_table(ModuleCompilation& compilation) {
    std::vector<std::uint8_t> bytes(8 * std::size_t{compilation.module.table_size.value_or(0)});
    for (const WasmElement& element : compilation.module.elements) {
        for (std::size_t i = 0; i < element.functions.size(); ++i) {
            const std::uint32_t function = element.functions[i];
            const std::uint32_t type = compilation.type_ids[compilation.module.functions[function].type];
            const std::uint64_t entry = (std::uint64_t{type} << 32) | compilation.entries[function];
            for (std::uint32_t k = 0; k < 8; ++k) {
                bytes[(element.offset + i) * 8 + k] = static_cast<std::uint8_t>(entry >> (8 * k));
            }
        }
    }
    for (DataSegment& segment : to_segments(kTableBase, bytes)) {
        compilation.out.program.data.push_back(std::move(segment));
    }
}

struct Entry {
    std::uint32_t function;
    bool takes_input;
};

Result<Entry> find_entry(const WasmModule& module) {
    for (const std::string_view wanted : {"compute", "main", "_start"}) {
        for (const auto& [name, index] : module.function_exports) {
            if (name != wanted) continue;
            const std::vector<ValueType>& parameters = module.types[module.functions[index].type].parameters;
            if (parameters.size() > 1 || (parameters.size() == 1 && parameters[0] != ValueType::I32)) {
                return Error{ErrorCode::InvalidModel, "wasm: the entry '" + name + "' must take nothing or one i32"};
            }
            return Entry{index, !parameters.empty()};
        }
    }
    return Error{ErrorCode::InvalidModel, "wasm: no function 'compute' (or 'main', '_start') is exported"};
}

// Behind __heap_base, or behind the data of a module that does not export it.
std::uint32_t input_base(const WasmModule& module) {
    std::uint64_t base = 16;
    for (const WasmData& segment : module.data)
        base = std::max<std::uint64_t>(base, segment.offset + segment.bytes.size());
    if (module.heap_base) base = *module.heap_base;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>((base + 15) / 16 * 16, 0xfffffff0u));
}

void emit_entry(ModuleCompilation& compilation, const Entry& entry) {
    ProgramBuilder& out = compilation.out;
    out.program.functions.push_back({"(entry)", 0});
    if (compilation.module.start) {
        compilation.calls.emplace_back(out.emit(Opcode::Call, 0, 0, 0), *compilation.module.start);
    }
    if (entry.takes_input) out.emit(Opcode::Move, 0, out.constant(out.program.input_base));
    compilation.calls.emplace_back(out.emit(Opcode::Call, 0, 0, 0), entry.function);
    out.emit(Opcode::Halt, 0, 0);
}

// The import as a function: it can be in the table.
void emit_import(ProgramBuilder& out) {
    out.emit(Opcode::Output, 0, 0, 0);
    out.emit(Opcode::Return, 0, 0);
}

}  // namespace

Result<Program> compile_wasm(std::span<const std::byte> bytes) {
    const WasmModule module = TRY(read_wasm(bytes));
    const Entry entry = TRY(find_entry(module));
    ModuleCompilation compilation{module, {}, {}, {}, {}, {}};
    ProgramBuilder& out = compilation.out;
    if (module.globals.size() > 10000) return Error{ErrorCode::InvalidModel, "wasm: more than 10000 globals"};
    out.program.absolute.push_back(module.memory_pages);
    for (const WasmGlobal& global : module.globals) out.program.absolute.push_back(global.value);
    std::map<std::string, std::uint32_t> ids;
    for (const WasmType& type : module.types) {
        std::string key;
        for (const ValueType parameter : type.parameters) key += parameter == ValueType::I32 ? 'i' : 'l';
        if (type.result) key += *type.result == ValueType::I32 ? "=i" : "=l";
        compilation.type_ids.push_back(ids.try_emplace(key, static_cast<std::uint32_t>(ids.size()) + 1).first->second);
    }
    out.program.takes_input = entry.takes_input && module.has_memory;
    out.program.input_base = module.has_memory ? input_base(module) : 0;
    emit_entry(compilation, entry);
    for (const WasmFunction& function : module.functions) {
        compilation.entries.push_back(out.here());
        out.program.functions.push_back({function.name, out.here()});
        out.set_offset(function.body_offset);
        if (function.imported) {
            emit_import(out);
        } else {
            TRY(FunctionCompiler(compilation, function).compile());
        }
    }
    for (const auto& [instruction, function] : compilation.calls) out.patch(instruction, compilation.entries[function]);
    compilation.divisions.finish(out);
    if (out.too_many_slots()) return Error{ErrorCode::InvalidModel, "wasm: more than 32768 globals and constants"};
    out.program.data = memory_segments(module);
    add_table(compilation);
    TRY(check_program(out.program));
    return std::move(out.program);
}

}  // namespace hearth::vm
