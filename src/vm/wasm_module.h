// A WebAssembly binary taken apart: the integer MVP. What it does not hold is refused by name; nothing is reserved
// from a count that the bytes behind it do not bear out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hearth::vm {

enum class ValueType : std::uint8_t { I32 = 0x7f, I64 = 0x7e };

// Walks over WebAssembly bytes; errors carry the offset in the file.
class WasmReader {
public:
    WasmReader(std::span<const std::byte> bytes, std::size_t origin) : bytes_(bytes), origin_(origin) {}

    std::size_t left() const { return bytes_.size() - position_; }
    std::size_t offset() const { return origin_ + position_; }
    Result<std::uint8_t> byte();
    Result<std::uint32_t> u32();  // LEB128
    Result<std::int32_t> s32();
    Result<std::int64_t> s64();
    Result<std::size_t> count(std::size_t item_bytes = 1);
    Result<std::span<const std::byte>> take(std::size_t size);
    Result<std::string> name();
    Error error(std::string_view what) const;

private:
    Result<std::uint64_t> leb(int bits, bool is_signed);
    std::span<const std::byte> bytes_;
    std::size_t origin_;
    std::size_t position_ = 0;
};

struct WasmType {
    std::vector<ValueType> parameters;
    std::optional<ValueType> result;
    bool operator==(const WasmType&) const = default;
};

struct WasmGlobal {
    ValueType type = ValueType::I32;
    bool is_mutable = false;
    std::uint64_t value = 0;
};

struct WasmFunction {
    std::uint32_t type = 0;
    bool imported = false;  // only env.output_byte
    std::string name;
    std::vector<ValueType> locals;  // without the parameters
    std::span<const std::byte> body;
    std::size_t body_offset = 0;
};

struct WasmElement {
    std::uint32_t offset = 0;
    std::vector<std::uint32_t> functions;
};

struct WasmData {
    std::uint32_t offset = 0;
    std::span<const std::byte> bytes;
};

struct WasmModule {
    std::vector<WasmType> types;
    std::vector<WasmFunction> functions;  // imports first
    std::vector<WasmGlobal> globals;
    std::vector<WasmElement> elements;
    std::vector<WasmData> data;
    std::optional<std::uint32_t> table_size;
    bool has_memory = false;
    std::uint32_t memory_pages = 0;
    std::uint32_t memory_max_pages = 0;
    std::optional<std::uint32_t> start;
    std::vector<std::pair<std::string, std::uint32_t>> function_exports;
    std::optional<std::uint32_t> heap_base;  // value of the exported global __heap_base
};

// The module refers to `bytes`, which must outlive it.
Result<WasmModule> read_wasm(std::span<const std::byte> bytes);
bool is_wasm_file(std::span<const std::byte> bytes);

// The name of an instruction this machine has no arithmetic for ("f32.add"), or empty.
std::string_view unsupported_instruction(std::uint8_t opcode);

}  // namespace hearth::vm
