// Builds GGUF bytes field by field, right or wrong: the tests' own idea of the format, independent of the writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gguf/gguf.h"

namespace hearth::gguf_test {

template <typename T>
std::string raw(T value) {
    std::string out(sizeof value, '\0');
    std::memcpy(out.data(), &value, sizeof value);
    return out;
}

inline std::string raw_string(std::string_view text) {
    return raw(std::uint64_t{text.size()}) + std::string(text);
}

inline std::string raw_array(GgufType element, std::uint64_t count, const std::string& payload) {
    return raw(static_cast<std::uint32_t>(element)) + raw(count) + payload;
}

struct ModelBytes {
    std::string magic = "GGUF";
    std::uint32_t version = 3;
    std::optional<std::uint64_t> tensor_count;  // otherwise the true one
    std::optional<std::uint64_t> key_count;
    std::uint64_t alignment = 32;  // of the data that follows
    std::vector<std::string> keys;
    std::vector<std::string> tensors;
    std::string data;

    ModelBytes& key(std::string_view name, std::uint32_t type, const std::string& payload) {
        keys.push_back(raw_string(name) + raw(type) + payload);
        return *this;
    }
    ModelBytes& key(std::string_view name, GgufType type, const std::string& payload) {
        return key(name, static_cast<std::uint32_t>(type), payload);
    }
    ModelBytes& tensor(std::string_view name, const std::vector<std::uint64_t>& extents, std::uint32_t type,
                       std::uint64_t offset) {
        std::string info = raw_string(name) + raw(static_cast<std::uint32_t>(extents.size()));
        for (const std::uint64_t extent : extents) info += raw(extent);
        tensors.push_back(info + raw(type) + raw(offset));
        return *this;
    }
    // What comes before the tensor data, without padding.
    std::string head() const {
        std::string out =
            magic + raw(version) + raw(tensor_count.value_or(tensors.size())) + raw(key_count.value_or(keys.size()));
        for (const std::string& entry : keys) out += entry;
        for (const std::string& entry : tensors) out += entry;
        return out;
    }
    std::string build() const {
        std::string out = head();
        if (!data.empty()) out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
        return out + data;
    }
};

// Every metadata type once, alone and in arrays, and two tensors; nothing after the last byte of the last one.
inline ModelBytes tiny_model() {
    using enum GgufType;
    ModelBytes model;
    model.key("general.architecture", String, raw_string("tiny"))
        .key("general.name", String, raw_string("Tiny \xc3\xa9"))
        .key("tiny.context_length", U32, raw(std::uint32_t{128}))
        .key("tiny.block_count", U8, raw(std::uint8_t{2}))
        .key("a.i8", I8, raw(std::int8_t{-3}))
        .key("a.u16", U16, raw(std::uint16_t{65535}))
        .key("a.i16", I16, raw(std::int16_t{-300}))
        .key("a.i32", I32, raw(std::int32_t{-70000}))
        .key("a.f32", F32, raw(1.5f))
        .key("a.bool", Bool, raw(std::uint8_t{1}))
        .key("a.u64", U64, raw(~std::uint64_t{0}))
        .key("a.i64", I64, raw(std::int64_t{7}))
        .key("a.f64", F64, raw(0.25))
        .key("tokenizer.ggml.tokens", Array, raw_array(String, 3, raw_string("<s>") + raw_string("") + raw_string("b")))
        .key("tokenizer.ggml.scores", Array, raw_array(F32, 3, raw(0.0f) + raw(-1.0f) + raw(2.5f)))
        .key("tokenizer.ggml.token_type", Array, raw_array(I32, 3, raw(3) + raw(1) + raw(-1)))
        .key("b.flags", Array, raw_array(Bool, 4, std::string("\0\1\1\0", 4)))
        .key("b.wide", Array, raw_array(U64, 1, raw(std::uint64_t{1} << 40)))
        .key("b.empty", Array, raw_array(String, 0, ""));
    model.tensor("token_embd.weight", {32, 1}, 8, 0).tensor("output_norm.weight", {8, 2}, 0, 64);
    model.data = std::string(34, '\x11') + std::string(30, '\0') + std::string(64, '\0');
    return model;
}

// No metadata but the architecture, an alignment of 64, one tensor of four dimensions.
inline ModelBytes aligned_model() {
    ModelBytes model;
    model.version = 2;
    model.alignment = 64;
    model.key("general.architecture", GgufType::String, raw_string("wide"))
        .key("general.alignment", GgufType::U32, raw(std::uint32_t{64}));
    model.tensor("a", {256, 1, 2, 1}, 12, 0).tensor("b", {3, 5, 1, 2}, 1, 320);
    model.data = std::string(320, '\x22') + std::string(60, '\x33');
    return model;
}

// Only metadata, as a vocabulary file.
inline ModelBytes vocabulary_model() {
    ModelBytes model;
    std::string tokens;
    for (int i = 0; i < 20; ++i) tokens += raw_string("token" + std::to_string(i));
    model.key("general.architecture", GgufType::String, raw_string("vocab"))
        .key("tokenizer.ggml.tokens", GgufType::Array, raw_array(GgufType::String, 20, tokens));
    return model;
}

// A copy of exactly this size on the heap, so that a sanitizer sees the first byte read past the end.
class ExactBytes {
public:
    explicit ExactBytes(std::string_view text) : bytes_(text.size()) {
        if (!text.empty()) std::memcpy(bytes_.data(), text.data(), text.size());
    }
    std::span<const std::byte> span() const { return bytes_; }

private:
    std::vector<std::byte> bytes_;
};

}  // namespace hearth::gguf_test
