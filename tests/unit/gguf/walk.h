// Touches everything an opened file offers: every key through every accessor, both ends of every tensor, the
// description.
#pragma once

#include <string>
#include <string_view>

#include "gguf/describe.h"
#include "gguf/gguf.h"

namespace hearth::gguf_test {

template <typename T>
void consume(const T& value) {
    __asm__ volatile("" : : "g"(&value) : "memory");
}

// Returns a fault in words, or an empty string.
inline std::string fault_of_error(const Error& error, std::string_view file) {
    if (error.message.find('\n') != std::string::npos) return "more than one line: " + error.message;
    if (!error.message.starts_with(std::string(file) + ": ")) return "does not name the file: " + error.message;
    return "";
}

inline std::string walk(const GgufFile& file) {
    std::string fault;
    const auto note = [&](const auto& result, std::string_view key) {
        consume(result);
        if (result.ok() || !fault.empty()) return;
        fault = fault_of_error(result.error(), file.name());
        if (result.error().message.find(key) == std::string::npos) fault = "no key in: " + result.error().message;
    };
    for (const std::string_view key : file.keys()) {
        note(file.u32(key), key);
        note(file.f32(key), key);
        note(file.boolean(key), key);
        note(file.string(key), key);
        note(file.find_u32(key), key);
        note(file.find_f32(key), key);
        note(file.find_boolean(key), key);
        note(file.find_string(key), key);
        note(file.strings(key), key);
        note(file.floats(key), key);
        note(file.integers(key), key);
        if (const Result<std::string_view> text = file.string(key); text.ok()) {
            for (const char letter : text.value()) consume(letter);
        }
        if (const Result<std::vector<std::string_view>> texts = file.strings(key); texts.ok()) {
            for (const std::string_view text : texts.value()) {
                for (const char letter : text) consume(letter);
            }
        }
    }
    for (const GgufTensor& tensor : file.tensors()) {
        const std::byte first = tensor.view.data[0];
        const std::byte last = tensor.view.data[tensor.view.size_bytes() - 1];
        consume(first);
        consume(last);
        if (file.find_tensor(tensor.name) != &tensor) return "a tensor is not found by its name";
        note(file.tensor(tensor.name, tensor.view.shape), tensor.name);
        note(file.tensor(tensor.name, Shape{{1, 2, 3, 4}}), tensor.name);
    }
    consume(describe(file).dump());
    consume(summary_text(file));
    return fault;
}

}  // namespace hearth::gguf_test
