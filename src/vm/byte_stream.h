// Little-endian numbers into and out of byte strings. The reader never trusts a count further than the bytes behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hearth::vm {

class ByteWriter {
public:
    void u8(std::uint8_t value) { bytes_.push_back(static_cast<std::byte>(value)); }
    void u16(std::uint16_t value) { number(value, 2); }
    void u32(std::uint32_t value) { number(value, 4); }
    void u64(std::uint64_t value) { number(value, 8); }
    void bytes(std::span<const std::uint8_t> values) {
        for (const std::uint8_t value : values) u8(value);
    }
    void text(std::string_view value) {
        u32(static_cast<std::uint32_t>(value.size()));
        for (const char c : value) u8(static_cast<std::uint8_t>(c));
    }
    std::size_t size() const { return bytes_.size(); }
    std::vector<std::byte> take() { return std::move(bytes_); }

private:
    void number(std::uint64_t value, int count) {
        for (int i = 0; i < count; ++i) u8(static_cast<std::uint8_t>(value >> (8 * i)));
    }
    std::vector<std::byte> bytes_;
};

class ByteReader {
public:
    // `bytes` must outlive the reader; `what` names the file in errors.
    ByteReader(std::span<const std::byte> bytes, std::string_view what) : bytes_(bytes), what_(what) {}

    std::size_t left() const { return bytes_.size() - position_; }
    Result<std::uint8_t> u8() { return narrow<std::uint8_t>(1); }
    Result<std::uint16_t> u16() { return narrow<std::uint16_t>(2); }
    Result<std::uint32_t> u32() { return narrow<std::uint32_t>(4); }
    Result<std::uint64_t> u64() { return narrow<std::uint64_t>(8); }
    // A count of items of at least `item_bytes` each.
    Result<std::size_t> count(std::size_t item_bytes) {
        const std::size_t value = TRY(u32());
        if (value > left() / item_bytes) return truncated();
        return value;
    }
    Result<std::span<const std::byte>> take(std::size_t size) {
        if (size > left()) return truncated();
        const std::span<const std::byte> part = bytes_.subspan(position_, size);
        position_ += size;
        return part;
    }
    Result<std::vector<std::uint8_t>> blob() {
        const std::size_t size = TRY(count(1));
        const std::span<const std::byte> part = TRY(take(size));
        std::vector<std::uint8_t> values(size);
        for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<std::uint8_t>(part[i]);
        return values;
    }
    Result<std::string> text() {
        const std::vector<std::uint8_t> values = TRY(blob());
        return std::string(values.begin(), values.end());
    }

private:
    Error truncated() const {
        return Error{ErrorCode::InvalidModel,
                     std::string(what_) + ": ends inside a part, at byte " + std::to_string(position_)};
    }
    template <typename T>
    Result<T> narrow(std::size_t size) {
        const std::span<const std::byte> part = TRY(take(size));
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < size; ++i) value |= std::uint64_t{static_cast<std::uint8_t>(part[i])} << (8 * i);
        return static_cast<T>(value);
    }
    std::span<const std::byte> bytes_;
    std::string_view what_;
    std::size_t position_ = 0;
};

}  // namespace hearth::vm
