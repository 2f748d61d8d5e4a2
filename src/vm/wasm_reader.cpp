// Numbers and names of the WebAssembly binary format, and the names of what is refused.
#include <array>

#include "base/utf8.h"
#include "vm/wasm_module.h"

namespace hearth::vm {

Error WasmReader::error(std::string_view what) const {
    std::string digits;
    std::size_t value = offset();
    do {
        digits.insert(digits.begin(), "0123456789abcdef"[value & 15]);
        value >>= 4;
    } while (value != 0);
    return Error{ErrorCode::InvalidModel, "wasm: " + std::string(what) + " at byte offset 0x" + digits};
}

Result<std::uint8_t> WasmReader::byte() {
    if (left() == 0) return error("unexpected end");
    return static_cast<std::uint8_t>(bytes_[position_++]);
}

Result<std::uint64_t> WasmReader::leb(int bits, bool is_signed) {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        const std::uint8_t next = TRY(byte());
        value |= std::uint64_t{next & 0x7fu} << shift;
        const int used = bits - shift;  // bits of this byte that belong to the number
        if (used < 7) {
            // The bits beyond must be zero, or copies of the sign.
            const unsigned rest = (next & 0x7fu) >> (is_signed ? used - 1 : used);
            const unsigned ones = 0x7fu >> (is_signed ? used - 1 : used);
            if (rest != 0 && !(is_signed && rest == ones)) return error("number too large");
        }
        if ((next & 0x80) == 0) {
            if (is_signed && (next & 0x40) != 0 && shift + 7 < 64) value |= ~std::uint64_t{0} << (shift + 7);
            return value;
        }
        if (used <= 7) return error("number too long");
    }
}

Result<std::uint32_t> WasmReader::u32() {
    return static_cast<std::uint32_t>(TRY(leb(32, false)));
}
Result<std::int32_t> WasmReader::s32() {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(TRY(leb(32, true))));
}
Result<std::int64_t> WasmReader::s64() {
    return static_cast<std::int64_t>(TRY(leb(64, true)));
}

Result<std::size_t> WasmReader::count(std::size_t item_bytes) {
    const std::size_t value = TRY(u32());
    if (value > left() / item_bytes) return error("a count larger than what follows");
    return value;
}

Result<std::span<const std::byte>> WasmReader::take(std::size_t size) {
    if (size > left()) return error("unexpected end");
    const std::span<const std::byte> part = bytes_.subspan(position_, size);
    position_ += size;
    return part;
}

Result<std::string> WasmReader::name() {
    const std::size_t size = TRY(count());
    const std::span<const std::byte> part = TRY(take(size));
    std::string text(size, '\0');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(part[i]);
    if (repair_utf8(text) != text) return error("a name that is not UTF-8");
    return text;
}

std::string_view unsupported_instruction(std::uint8_t opcode) {
    struct Row {
        std::uint8_t opcode;
        std::string_view name;
    };
    static constexpr std::array kRows = {Row{0x06, "try"},
                                         Row{0x12, "return_call"},
                                         Row{0x13, "return_call_indirect"},
                                         Row{0x1c, "select with types"},
                                         Row{0x25, "table.get"},
                                         Row{0x26, "table.set"},
                                         Row{0x2a, "f32.load"},
                                         Row{0x2b, "f64.load"},
                                         Row{0x38, "f32.store"},
                                         Row{0x39, "f64.store"},
                                         Row{0x43, "f32.const"},
                                         Row{0x44, "f64.const"},
                                         Row{0xd0, "ref.null"},
                                         Row{0xd1, "ref.is_null"},
                                         Row{0xd2, "ref.func"},
                                         Row{0xfd, "a SIMD instruction"},
                                         Row{0xfe, "a threads instruction"}};
    for (const Row& row : kRows) {
        if (row.opcode == opcode) return row.name;
    }
    static constexpr std::array<std::string_view, 12> kCompare = {"f32.eq", "f32.ne", "f32.lt", "f32.gt",
                                                                  "f32.le", "f32.ge", "f64.eq", "f64.ne",
                                                                  "f64.lt", "f64.gt", "f64.le", "f64.ge"};
    if (opcode >= 0x5b && opcode <= 0x66) return kCompare[opcode - 0x5bu];
    static constexpr std::array<std::string_view, 14> kFloat32 = {
        "f32.abs", "f32.neg", "f32.ceil", "f32.floor", "f32.trunc", "f32.nearest", "f32.sqrt",
        "f32.add", "f32.sub", "f32.mul",  "f32.div",   "f32.min",   "f32.max",     "f32.copysign"};
    if (opcode >= 0x8b && opcode <= 0x98) return kFloat32[opcode - 0x8bu];
    static constexpr std::array<std::string_view, 14> kFloat64 = {
        "f64.abs", "f64.neg", "f64.ceil", "f64.floor", "f64.trunc", "f64.nearest", "f64.sqrt",
        "f64.add", "f64.sub", "f64.mul",  "f64.div",   "f64.min",   "f64.max",     "f64.copysign"};
    if (opcode >= 0x99 && opcode <= 0xa6) return kFloat64[opcode - 0x99u];
    static constexpr std::array<std::string_view, 25> kConvert = {
        "i32.wrap_i64",     "i32.trunc_f32_s",     "i32.trunc_f32_u",     "i32.trunc_f64_s",     "i32.trunc_f64_u",
        "i64.extend_i32_s", "i64.extend_i32_u",    "i64.trunc_f32_s",     "i64.trunc_f32_u",     "i64.trunc_f64_s",
        "i64.trunc_f64_u",  "f32.convert_i32_s",   "f32.convert_i32_u",   "f32.convert_i64_s",   "f32.convert_i64_u",
        "f32.demote_f64",   "f64.convert_i32_s",   "f64.convert_i32_u",   "f64.convert_i64_s",   "f64.convert_i64_u",
        "f64.promote_f32",  "i32.reinterpret_f32", "i64.reinterpret_f64", "f32.reinterpret_i32", "f64.reinterpret_i64"};
    if (opcode >= 0xa7 && opcode <= 0xbf && opcode != 0xa7 && opcode != 0xac && opcode != 0xad) {
        return kConvert[opcode - 0xa7u];
    }
    return {};
}

}  // namespace hearth::vm
