// A model of tests/golden/families: the tokens it was given and the logits the original code computed for them.
// tools/make_golden.py made the files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/mapped_file.h"

namespace hearth {

struct GoldenModel {
    std::string path;  // of the GGUF file
    std::size_t context = 0;
    std::size_t vocabulary = 0;
    std::vector<std::int32_t> tokens;
    std::vector<float> logits;  // [tokens][vocabulary]
};

inline constexpr std::array<std::string_view, 11> kGoldenNames{
    "llama", "llama_linear", "llama3",     "llama_yarn", "mistral", "qwen2",
    "qwen3", "phi3",         "phi3_short", "phi3_long",  "gemma3",
};

inline std::string golden_path(std::string_view name, std::string_view ending) {
    return HEARTH_SOURCE_DIR "/tests/golden/families/" + std::string(name) + std::string(ending);
}

// Stops the test program when a file is absent or damaged.
inline GoldenModel load_golden(std::string_view name) {
    constexpr std::size_t kLimitBytes = 1 << 20;
    const Result<std::string> text = read_file(golden_path(name, ".json"), kLimitBytes);
    CHECK(text.ok());
    const Result<Json> about = Json::parse(text.value());
    CHECK(about.ok());
    const auto number = [&](std::string_view key) {
        const Json* value = about->find(key);
        CHECK(value != nullptr && value->as_int() != nullptr && *value->as_int() > 0);
        return static_cast<std::size_t>(*value->as_int());
    };
    GoldenModel golden;
    golden.path = golden_path(name, ".gguf");
    golden.context = number("context");
    golden.vocabulary = number("vocabulary");
    const Json* tokens = about->find("tokens");
    CHECK(tokens != nullptr && tokens->as_array() != nullptr);
    for (const Json& token : *tokens->as_array()) {
        CHECK(token.as_int() != nullptr);
        golden.tokens.push_back(static_cast<std::int32_t>(*token.as_int()));
    }
    const Result<std::string> raw = read_file(golden_path(name, ".logits"), kLimitBytes);
    CHECK(raw.ok() && raw->size() == golden.tokens.size() * golden.vocabulary * sizeof(float));
    golden.logits.resize(golden.tokens.size() * golden.vocabulary);
    std::memcpy(golden.logits.data(), raw->data(), raw->size());
    return golden;
}

}  // namespace hearth
