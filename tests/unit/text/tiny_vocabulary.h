// Vocabularies made in memory, as the bytes of a GGUF file, for tests and fuzzing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "gguf/gguf.h"
#include "text/vocabulary.h"

namespace hearth::tiny {

// The metadata of a GGUF file without tensors, key by key.
class Metadata {
public:
    Metadata& string(std::string_view key, std::string_view value) {
        begin(key, GgufType::String);
        text(value);
        return *this;
    }
    Metadata& number(std::string_view key, std::uint32_t value) {
        begin(key, GgufType::U32);
        put(value);
        return *this;
    }
    Metadata& boolean(std::string_view key, bool value) {
        begin(key, GgufType::Bool);
        put(static_cast<std::uint8_t>(value));
        return *this;
    }
    Metadata& strings(std::string_view key, const std::vector<std::string>& values) {
        begin_array(key, GgufType::String, values.size());
        for (const std::string& value : values) text(value);
        return *this;
    }
    Metadata& floats(std::string_view key, const std::vector<float>& values) {
        begin_array(key, GgufType::F32, values.size());
        for (const float value : values) put(value);
        return *this;
    }
    Metadata& integers(std::string_view key, const std::vector<std::int32_t>& values) {
        begin_array(key, GgufType::I32, values.size());
        for (const std::int32_t value : values) put(value);
        return *this;
    }

    std::string file() const {
        Metadata head;
        head.bytes_ = "GGUF";
        head.put(std::uint32_t{3});
        head.put(std::uint64_t{0});  // tensors
        head.put(count_);
        return head.bytes_ + bytes_;
    }

private:
    template <typename T>
    void put(T value) {
        char raw[sizeof(T)];
        std::memcpy(raw, &value, sizeof(T));
        bytes_.append(raw, sizeof(T));
    }
    void text(std::string_view value) {
        put(static_cast<std::uint64_t>(value.size()));
        bytes_.append(value);
    }
    void begin(std::string_view key, GgufType type) {
        ++count_;
        text(key);
        put(static_cast<std::uint32_t>(type));
    }
    void begin_array(std::string_view key, GgufType type, std::size_t count) {
        begin(key, GgufType::Array);
        put(static_cast<std::uint32_t>(type));
        put(static_cast<std::uint64_t>(count));
    }

    std::string bytes_;
    std::uint64_t count_ = 0;
};

inline constexpr std::int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

// Tokens and what goes with them, to be changed before the file is made.
struct Vocabulary {
    std::string model;
    std::string pre = "default";
    std::vector<std::string> tokens;
    std::vector<std::int32_t> kinds;
    std::vector<float> scores;
    std::vector<std::string> merges;

    void add(std::string token, std::int32_t kind = kNormal, float score = 0) {
        tokens.push_back(std::move(token));
        kinds.push_back(kind);
        scores.push_back(score);
    }

    Metadata metadata() const {
        Metadata out;
        out.string("tokenizer.ggml.model", model).string("tokenizer.ggml.pre", pre);
        out.strings("tokenizer.ggml.tokens", tokens).integers("tokenizer.ggml.token_type", kinds);
        if (model == "llama") out.floats("tokenizer.ggml.scores", scores);
        if (model == "gpt2") out.strings("tokenizer.ggml.merges", merges);
        return out;
    }
};

inline std::string in_alphabet(std::string_view bytes) {
    std::string out;
    for (const char byte : bytes) append_utf8(out, character_of_byte(static_cast<std::uint8_t>(byte)));
    return out;
}

// Tokens 0 to 255 are the bytes; each merge adds its joined token. Parts are given as plain bytes.
inline Vocabulary byte_level(const std::vector<std::pair<std::string, std::string>>& merges) {
    Vocabulary out{.model = "gpt2", .pre = "gpt-2", .tokens = {}, .kinds = {}, .scores = {}, .merges = {}};
    for (int byte = 0; byte < 256; ++byte) out.add(in_alphabet(std::string(1, static_cast<char>(byte))));
    for (const auto& [left, right] : merges) {
        out.merges.push_back(in_alphabet(left) + " " + in_alphabet(right));
        out.add(in_alphabet(left + right));
    }
    return out;
}

// So many that several threads read them: of all words such as Rg, then of all such as RgV.
inline std::vector<std::pair<std::string, std::string>> many_merges() {
    std::vector<std::pair<std::string, std::string>> merges;
    for (char first = 'A'; first <= 'Z'; ++first) {
        for (char second = 'a'; second <= 'z'; ++second) merges.push_back({{first}, {second}});
    }
    for (std::size_t pair = 0; pair < 26 * 26; ++pair) {
        for (char third = 'A'; third <= 'Z'; ++third)
            merges.push_back({merges[pair].first + merges[pair].second, {third}});
    }
    return merges;
}

// Tokens 0 to 2 are <unk>, <s> and </s>, 3 to 258 the bytes; then the given ones with falling scores.
inline Vocabulary sentence_piece(const std::vector<std::string>& pieces) {
    Vocabulary out{.model = "llama", .pre = "default", .tokens = {}, .kinds = {}, .scores = {}, .merges = {}};
    out.add("<unk>", kUnknown);
    out.add("<s>", kControl);
    out.add("</s>", kControl);
    for (int byte = 0; byte < 256; ++byte) {
        constexpr std::string_view kDigits = "0123456789ABCDEF";
        out.add(std::string("<0x") + kDigits[static_cast<std::size_t>(byte / 16)] +
                    kDigits[static_cast<std::size_t>(byte % 16)] + ">",
                kByte);
    }
    for (std::size_t i = 0; i < pieces.size(); ++i) out.add(pieces[i], kNormal, -static_cast<float>(i));
    return out;
}

// Tokens 0 to 3 are [PAD], [UNK], [CLS] and [SEP]; then the given ones, words with U+2581 before them.
inline Vocabulary word_piece(const std::vector<std::string>& pieces) {
    Vocabulary out{.model = "bert", .pre = "default", .tokens = {}, .kinds = {}, .scores = {}, .merges = {}};
    for (const char* special : {"[PAD]", "[UNK]", "[CLS]", "[SEP]"}) out.add(special, kControl);
    for (const std::string& piece : pieces) out.add(piece);
    return out;
}

inline Metadata word_piece_metadata(const std::vector<std::string>& pieces) {
    Metadata out = word_piece(pieces).metadata();
    out.number("tokenizer.ggml.unknown_token_id", 1).number("tokenizer.ggml.bos_token_id", 2);
    out.number("tokenizer.ggml.seperator_token_id", 3);
    return out;
}

// A tokenizer with the file it lives on.
struct Loaded {
    std::string bytes;
    Result<Tokenizer> tokenizer;

    explicit Loaded(const Metadata& metadata) : bytes(metadata.file()), tokenizer(load(bytes)) {}
    Loaded(const Loaded&) = delete;  // the tokenizer views the bytes
    const Tokenizer& operator*() const {
        CHECK(tokenizer.ok());
        return tokenizer.value();
    }
    const Tokenizer* operator->() const { return &**this; }

private:
    static Result<Tokenizer> load(const std::string& bytes) {
        // The tokenizer needs only the bytes to live on.
        const GgufFile file = TRY(GgufFile::parse(std::as_bytes(std::span(bytes.data(), bytes.size())), "tiny"));
        return Tokenizer::load(file);
    }
};

}  // namespace hearth::tiny
