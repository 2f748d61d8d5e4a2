// Text to tokens and back, as the model's vocabulary demands. One class over the three families: byte-level BPE,
// SentencePiece BPE with byte fallback, WordPiece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"

namespace hearth {

using TokenId = std::int32_t;

enum class AddSpecial : bool { No, Yes };    // BOS, EOS (or CLS, SEP) as the model's file asks
enum class ParseSpecial : bool { No, Yes };  // "<|im_end|>" in the text is the control token, not its letters
enum class TokenKind : std::uint8_t { Normal, Unknown, Control, UserDefined, Unused, Byte };

class Tokenizer {
public:
    // Fails on an unknown model or pre-tokeniser: a guess would give wrong tokens in silence. The texts of the tokens
    // stay in the bytes of `file`, which must outlive the tokenizer.
    static Result<Tokenizer> load(const GgufFile& file);

    Tokenizer(Tokenizer&&) noexcept;
    Tokenizer& operator=(Tokenizer&&) noexcept;
    ~Tokenizer();

    // Linear in the text's length (up to a log factor) for any input. Text that is not UTF-8 is encoded byte by byte.
    std::vector<TokenId> encode(std::string_view text, AddSpecial add_special, ParseSpecial parse_special) const;

    // All text of the tokens. Control tokens give nothing unless `with_control`.
    std::string decode(std::span<const TokenId> tokens, bool with_control = false) const;

    std::size_t vocabulary_size() const;
    bool contains(TokenId token) const;
    TokenKind kind(TokenId token) const;
    std::string_view text(TokenId token) const;   // as stored in the file
    std::string_view bytes(TokenId token) const;  // what it contributes to the output, possibly a part of a character
    std::optional<TokenId> find(std::string_view text) const;  // a token by its stored text

    std::optional<TokenId> bos() const;
    std::optional<TokenId> eos() const;
    bool adds_bos() const;
    bool strips_leading_space() const;  // SentencePiece: the first piece of a text loses the space put before it
    bool ends_generation(TokenId token) const;  // EOS, EOT, <|im_end|> and their like

private:
    struct Impl;
    explicit Tokenizer(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace hearth
