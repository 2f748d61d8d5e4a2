#include "vm/wasm_module.h"

#include <algorithm>
#include <array>

#include "vm/isa.h"

namespace hearth::vm {

namespace {

constexpr std::array<std::uint8_t, 8> kMagic = {0x00, 'a', 's', 'm', 0x01, 0x00, 0x00, 0x00};
constexpr std::size_t kMaxLocals = 16384;  // of one function; the frame of the machine has 32768 slots

enum class Section : std::uint8_t {
    Custom,
    Type,
    Import,
    Function,
    Table,
    Memory,
    Global,
    Export,
    Start,
    Element,
    Code,
    Data,
    DataCount
};

class ModuleReader {
public:
    explicit ModuleReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
    Result<WasmModule> read();

private:
    Status section(Section id, WasmReader in);
    Status types(WasmReader& in);
    Status imports(WasmReader& in);
    Status functions(WasmReader& in);
    Status tables(WasmReader& in);
    Status memories(WasmReader& in);
    Status globals(WasmReader& in);
    Status exports(WasmReader& in);
    Status elements(WasmReader& in);
    Status code(WasmReader& in);
    Status data(WasmReader& in);
    Status names(WasmReader in);
    Status finish();

    Result<ValueType> value_type(WasmReader& in);
    Result<std::uint64_t> constant(WasmReader& in, ValueType type);

    std::span<const std::byte> bytes_;
    WasmModule module_;
    std::size_t imported_ = 0;
    std::size_t bodies_ = 0;
    std::size_t locals_ = 0;                       // of all functions
    std::vector<std::uint32_t> exported_globals_;  // those named __heap_base
};

std::string_view type_name(std::uint8_t byte) {
    switch (byte) {
        case 0x7d: return "f32";
        case 0x7c: return "f64";
        case 0x7b: return "v128";
        case 0x70: return "funcref";
        case 0x6f: return "externref";
        default: return "an unknown type";
    }
}

Result<ValueType> ModuleReader::value_type(WasmReader& in) {
    const std::uint8_t byte = TRY(in.byte());
    if (byte == 0x7f) return ValueType::I32;
    if (byte == 0x7e) return ValueType::I64;
    return in.error("unsupported value type " + std::string(type_name(byte)));
}

Result<std::uint64_t> ModuleReader::constant(WasmReader& in, ValueType type) {
    const std::uint8_t opcode = TRY(in.byte());
    std::uint64_t value = 0;
    ValueType found = ValueType::I32;
    if (opcode == 0x41) {
        value = static_cast<std::uint32_t>(TRY(in.s32()));
    } else if (opcode == 0x42) {
        value = static_cast<std::uint64_t>(TRY(in.s64()));
        found = ValueType::I64;
    } else if (opcode == 0x23) {
        // Without extensions only imported globals may be named here, and those are refused.
        return in.error("global.get in a constant expression");
    } else {
        return in.error("unsupported constant expression");
    }
    if (found != type) return in.error("constant expression of the wrong type");
    if (TRY(in.byte()) != 0x0b) return in.error("unsupported constant expression");
    return value;
}

Status ModuleReader::types(WasmReader& in) {
    const std::size_t count = TRY(in.count(3));
    for (std::size_t i = 0; i < count; ++i) {
        if (TRY(in.byte()) != 0x60) return in.error("unsupported kind of type");
        WasmType type;
        const std::size_t parameters = TRY(in.count());
        if (parameters > 1000) return in.error("more than 1000 parameters");
        for (std::size_t k = 0; k < parameters; ++k) type.parameters.push_back(TRY(value_type(in)));
        const std::size_t results = TRY(in.count());
        if (results > 1) return in.error("unsupported feature multi-value");
        if (results == 1) type.result = TRY(value_type(in));
        module_.types.push_back(std::move(type));
    }
    return {};
}

Status ModuleReader::imports(WasmReader& in) {
    const std::size_t count = TRY(in.count(4));
    for (std::size_t i = 0; i < count; ++i) {
        const std::string module = TRY(in.name());
        const std::string field = TRY(in.name());
        const std::uint8_t kind = TRY(in.byte());
        if (kind > 3) return in.error("unknown kind of import");
        if (kind != 0 || module != "env" || field != "output_byte") {
            return in.error("unsupported import " + module + "." + field + " (only the function env.output_byte)");
        }
        WasmFunction function;
        function.type = TRY(in.u32());
        function.imported = true;
        function.name = field;
        const WasmType expected{{ValueType::I32}, std::nullopt};
        if (function.type >= module_.types.size() || module_.types[function.type] != expected) {
            return in.error("env.output_byte must take one i32 and return nothing");
        }
        module_.functions.push_back(std::move(function));
    }
    imported_ = count;
    return {};
}

Status ModuleReader::functions(WasmReader& in) {
    const std::size_t count = TRY(in.count());
    for (std::size_t i = 0; i < count; ++i) {
        WasmFunction function;
        function.type = TRY(in.u32());
        if (function.type >= module_.types.size()) return in.error("unknown type of a function");
        function.name = "func" + std::to_string(module_.functions.size());
        module_.functions.push_back(std::move(function));
    }
    return {};
}

Status ModuleReader::tables(WasmReader& in) {
    const std::size_t count = TRY(in.count(3));
    if (count > 1) return in.error("more than one table");
    if (count == 0) return {};
    const std::uint8_t type = TRY(in.byte());
    if (type != 0x70) return in.error("unsupported table of " + std::string(type_name(type)));
    const std::uint8_t flags = TRY(in.byte());
    if (flags > 1) return in.error("unsupported kind of table");
    module_.table_size = TRY(in.u32());
    if (flags == 1 && TRY(in.u32()) < *module_.table_size) return in.error("table limits out of order");
    if (*module_.table_size > kMaxTable) return in.error("a table of more than 65536 entries");
    return {};
}

Status ModuleReader::memories(WasmReader& in) {
    const std::size_t count = TRY(in.count(2));
    if (count > 1) return in.error("more than one memory");
    if (count == 0) return {};
    const std::uint8_t flags = TRY(in.byte());
    if (flags > 1) return in.error(flags == 3 ? "unsupported shared memory (threads)" : "unsupported kind of memory");
    module_.has_memory = true;
    module_.memory_pages = TRY(in.u32());
    module_.memory_max_pages = flags == 1 ? TRY(in.u32()) : 65536;
    if (module_.memory_max_pages > 65536 || module_.memory_pages > 65536) return in.error("memory over 65536 pages");
    if (module_.memory_max_pages < module_.memory_pages) return in.error("memory limits out of order");
    if (module_.memory_pages > kMaxPages) return in.error("a memory of more than 1024 pages (64 MiB)");
    module_.memory_max_pages = std::min(module_.memory_max_pages, kMaxPages);
    return {};
}

Status ModuleReader::globals(WasmReader& in) {
    const std::size_t count = TRY(in.count(4));
    for (std::size_t i = 0; i < count; ++i) {
        WasmGlobal global;
        global.type = TRY(value_type(in));
        const std::uint8_t mutability = TRY(in.byte());
        if (mutability > 1) return in.error("unknown mutability");
        global.is_mutable = mutability == 1;
        global.value = TRY(constant(in, global.type));
        module_.globals.push_back(global);
    }
    return {};
}

Status ModuleReader::exports(WasmReader& in) {
    const std::size_t count = TRY(in.count(3));
    for (std::size_t i = 0; i < count; ++i) {
        std::string name = TRY(in.name());
        const std::uint8_t kind = TRY(in.byte());
        const std::uint32_t index = TRY(in.u32());
        const std::size_t limit = kind == 0   ? module_.functions.size()
                                  : kind == 1 ? (module_.table_size ? 1u : 0u)
                                  : kind == 2 ? (module_.has_memory ? 1u : 0u)
                                              : module_.globals.size();
        if (kind > 3) return in.error("unknown kind of export");
        if (index >= limit) return in.error("export of something that does not exist");
        if (kind == 3 && name == "__heap_base") exported_globals_.push_back(index);
        if (kind == 0) module_.function_exports.emplace_back(std::move(name), index);
    }
    return {};
}

Status ModuleReader::elements(WasmReader& in) {
    const std::size_t count = TRY(in.count(4));
    for (std::size_t i = 0; i < count; ++i) {
        if (TRY(in.u32()) != 0) return in.error("unsupported kind of element segment");
        if (!module_.table_size) return in.error("element segment without a table");
        WasmElement element;
        element.offset = static_cast<std::uint32_t>(TRY(constant(in, ValueType::I32)));
        const std::size_t functions = TRY(in.count());
        if (std::uint64_t{element.offset} + functions > *module_.table_size) {
            return in.error("element segment does not fit in the table");
        }
        for (std::size_t k = 0; k < functions; ++k) {
            const std::uint32_t index = TRY(in.u32());
            if (index >= module_.functions.size()) return in.error("unknown function in an element segment");
            element.functions.push_back(index);
        }
        module_.elements.push_back(std::move(element));
    }
    return {};
}

Status ModuleReader::code(WasmReader& in) {
    const std::size_t count = TRY(in.count());
    if (count != module_.functions.size() - imported_) return in.error("as many bodies as functions are needed");
    for (std::size_t i = 0; i < count; ++i) {
        WasmFunction& function = module_.functions[imported_ + i];
        const std::size_t size = TRY(in.count());
        const std::size_t offset = in.offset();
        WasmReader body(TRY(in.take(size)), offset);
        const std::size_t groups = TRY(body.count(2));
        for (std::size_t k = 0; k < groups; ++k) {
            const std::size_t locals = TRY(body.u32());
            const ValueType type = TRY(value_type(body));
            if (locals > kMaxLocals - function.locals.size()) return body.error("more than 16384 locals");
            // Each is set to zero by an instruction of its own, so that more could not be compiled.
            locals_ += locals;
            if (locals_ > kMaxInstructions) return body.error("more than 1048576 locals in all functions");
            function.locals.insert(function.locals.end(), locals, type);
        }
        function.body_offset = body.offset();
        function.body = TRY(body.take(body.left()));
    }
    bodies_ = count;
    return {};
}

Status ModuleReader::data(WasmReader& in) {
    const std::size_t count = TRY(in.count(3));
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t kind = TRY(in.u32());
        if (kind != 0) return in.error("unsupported kind of data segment (bulk memory)");
        if (!module_.has_memory) return in.error("data segment without a memory");
        WasmData segment;
        segment.offset = static_cast<std::uint32_t>(TRY(constant(in, ValueType::I32)));
        segment.bytes = TRY(in.take(TRY(in.count())));
        if (std::uint64_t{segment.offset} + segment.bytes.size() > std::uint64_t{module_.memory_pages} * kPageBytes) {
            return in.error("data segment does not fit in the memory");
        }
        module_.data.push_back(segment);
    }
    return {};
}

// Debug names. The section is free of rules, so whatever does not parse only ends the reading of names.
Status ModuleReader::names(WasmReader in) {
    if (TRY(in.name()) != "name") return {};
    while (in.left() > 0) {
        const std::uint8_t kind = TRY(in.byte());
        const std::size_t size = TRY(in.count());
        const std::size_t offset = in.offset();
        WasmReader part(TRY(in.take(size)), offset);
        if (kind != 1) continue;
        const std::size_t count = TRY(part.count(2));
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t index = TRY(part.u32());
            std::string name = TRY(part.name());
            if (index < module_.functions.size()) module_.functions[index].name = std::move(name);
        }
    }
    return {};
}

Status ModuleReader::section(Section id, WasmReader in) {
    switch (id) {
        case Section::Custom: return {};
        case Section::Type: TRY(types(in)); break;
        case Section::Import: TRY(imports(in)); break;
        case Section::Function: TRY(functions(in)); break;
        case Section::Table: TRY(tables(in)); break;
        case Section::Memory: TRY(memories(in)); break;
        case Section::Global: TRY(globals(in)); break;
        case Section::Export: TRY(exports(in)); break;
        case Section::Start: module_.start = TRY(in.u32()); break;
        case Section::Element: TRY(elements(in)); break;
        case Section::Code: TRY(code(in)); break;
        case Section::Data: TRY(data(in)); break;
        case Section::DataCount: TRY(in.u32()); break;
    }
    if (in.left() != 0) return in.error("a section is longer than its content");
    return {};
}

Status ModuleReader::finish() {
    const WasmReader end({}, bytes_.size());
    if (bodies_ != module_.functions.size() - imported_) return end.error("functions without bodies");
    if (module_.start) {
        if (*module_.start >= module_.functions.size() ||
            module_.types[module_.functions[*module_.start].type] != WasmType{}) {
            return end.error("the start function must exist, take and return nothing");
        }
    }
    for (const std::uint32_t index : exported_globals_) {
        if (module_.globals[index].type == ValueType::I32) {
            module_.heap_base = static_cast<std::uint32_t>(module_.globals[index].value);
        }
    }
    return {};
}

Result<WasmModule> ModuleReader::read() {
    if (!is_wasm_file(bytes_)) {
        return Error{ErrorCode::InvalidModel, "wasm: not a WebAssembly 1.0 binary (magic number or version)"};
    }
    WasmReader in(bytes_.subspan(kMagic.size()), kMagic.size());
    int last = 0;
    std::vector<WasmReader> custom;
    while (in.left() > 0) {
        const std::uint8_t id = TRY(in.byte());
        if (id > static_cast<std::uint8_t>(Section::DataCount)) return in.error("unknown section");
        const std::size_t size = TRY(in.count());
        const std::size_t offset = in.offset();
        const WasmReader part(TRY(in.take(size)), offset);
        if (id == 0) {
            custom.push_back(part);
            continue;
        }
        // The data count section stands before the code.
        const int order = id == 12 ? 19 : id * 2;
        if (order <= last) return in.error("a section out of order or twice");
        last = order;
        TRY(section(static_cast<Section>(id), part));
    }
    TRY(finish());
    for (const WasmReader& part : custom) static_cast<void>(names(part));
    return std::move(module_);
}

}  // namespace

bool is_wasm_file(std::span<const std::byte> bytes) {
    return bytes.size() >= kMagic.size() &&
           std::equal(kMagic.begin(), kMagic.end(), bytes.begin(),
                      [](std::uint8_t a, std::byte b) { return a == static_cast<std::uint8_t>(b); });
}

Result<WasmModule> read_wasm(std::span<const std::byte> bytes) {
    return ModuleReader(bytes).read();
}

}  // namespace hearth::vm
