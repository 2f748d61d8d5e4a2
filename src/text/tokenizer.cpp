// Puts the parts together: special tokens first, then the family's own way for the text between them.
#include "text/tokenizer.h"

#include <optional>
#include <utility>
#include <variant>

#include "base/aside.h"
#include "base/check.h"
#include "base/utf8.h"
#include "text/byte_level_bpe.h"
#include "text/sentence_piece.h"
#include "text/special_tokens.h"
#include "text/vocabulary.h"
#include "text/word_piece.h"

namespace hearth {

namespace {

Result<VocabularyFamily> family_of(const GgufFile& file) {
    const std::string_view model = TRY(file.string("tokenizer.ggml.model"));
    if (model == "gpt2") return VocabularyFamily::ByteLevelBpe;
    if (model == "llama") return VocabularyFamily::SentencePiece;
    if (model == "bert") return VocabularyFamily::WordPiece;
    return Error{ErrorCode::InvalidModel,
                 file.name() + ": key 'tokenizer.ggml.model' is '" + repair_utf8(model) + "', which is not supported"};
}

}  // namespace

struct Tokenizer::Impl {
    Vocabulary vocabulary;
    SpecialTokens special;
    std::variant<ByteLevelBpe, SentencePiece, WordPiece> model;
    std::optional<TokenId> first;  // put before every text, when asked for
    std::optional<TokenId> last;   // and after it

    // Text between special tokens; `after_special` also at the beginning.
    void encode_text(std::string_view text, bool after_special, std::vector<TokenId>& out) const {
        if (const auto* bpe = std::get_if<ByteLevelBpe>(&model)) {
            bpe->encode(vocabulary, text, out);
        } else if (const auto* piece = std::get_if<SentencePiece>(&model)) {
            piece->encode(vocabulary, text, after_special && piece->adds_space_prefix(), out);
        } else if (const auto* word = std::get_if<WordPiece>(&model)) {
            word->encode(vocabulary, text, out);
        }
    }

    // `merges`: of byte-level BPE alone.
    static Result<std::variant<ByteLevelBpe, SentencePiece, WordPiece>> create_model(
        const GgufFile& file, VocabularyFamily family, const Vocabulary& vocabulary,
        std::optional<Aside<Result<ByteLevelBpe::MergeList>>>& merges) {
        using Model = std::variant<ByteLevelBpe, SentencePiece, WordPiece>;
        switch (family) {
            case VocabularyFamily::ByteLevelBpe:
                return Model(TRY(ByteLevelBpe::create(file, vocabulary, merges->get())));
            case VocabularyFamily::SentencePiece: return Model(TRY(SentencePiece::create(file, vocabulary)));
            case VocabularyFamily::WordPiece: break;
        }
        return Model(TRY(WordPiece::create(file, vocabulary)));
    }

    Status load_ends(const GgufFile& file) {
        const bool is_word_piece = std::holds_alternative<WordPiece>(model);
        const auto* bpe = std::get_if<ByteLevelBpe>(&model);
        const bool usual_bos = bpe == nullptr || bpe->adds_bos();
        const bool adds_bos = TRY(file.find_boolean("tokenizer.ggml.add_bos_token")).value_or(usual_bos);
        const bool adds_eos = TRY(file.find_boolean("tokenizer.ggml.add_eos_token")).value_or(false);
        if (adds_bos || is_word_piece) first = vocabulary.special().bos;
        if (is_word_piece) {
            last = vocabulary.special().separator;
        } else if (adds_eos) {
            last = vocabulary.special().eos;
        }
        return {};
    }
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::load(const GgufFile& file) {
    const VocabularyFamily family = TRY(family_of(file));
    std::optional<Aside<Result<ByteLevelBpe::MergeList>>>
        merges;  // read by another thread while this one reads the vocabulary
    if (family == VocabularyFamily::ByteLevelBpe) {
        merges.emplace([&] { return ByteLevelBpe::list_merges(file); });
    }
    Vocabulary vocabulary = TRY(Vocabulary::load(file, family));
    SpecialTokens special = TRY(SpecialTokens::create(file, vocabulary));
    auto model = TRY(Impl::create_model(file, family, vocabulary, merges));
    auto impl = std::make_unique<Impl>(Impl{.vocabulary = std::move(vocabulary),
                                            .special = std::move(special),
                                            .model = std::move(model),
                                            .first = std::nullopt,
                                            .last = std::nullopt});
    TRY(impl->load_ends(file));
    return Tokenizer(std::move(impl));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, AddSpecial add_special,
                                       ParseSpecial parse_special) const {
    std::vector<TokenId> out;
    if (add_special == AddSpecial::Yes && impl_->first) out.push_back(*impl_->first);
    bool after_special = true;
    for (std::size_t offset = 0; offset < text.size();) {
        const SpecialTokens::Match match = impl_->special.next(text, offset, parse_special);
        if (match.begin > offset) {
            impl_->encode_text(text.substr(offset, match.begin - offset), after_special, out);
            after_special = false;
        }
        if (match.token >= 0) {
            out.push_back(match.token);
            after_special = true;
        }
        offset = match.end;
    }
    if (add_special == AddSpecial::Yes && impl_->last) out.push_back(*impl_->last);
    return out;
}

std::string Tokenizer::decode(std::span<const TokenId> tokens, bool with_control) const {
    std::string out;
    bool strips_space = strips_leading_space();
    for (const TokenId token : tokens) {
        if (!contains(token)) continue;
        const TokenKind token_kind = kind(token);
        const bool is_control = token_kind == TokenKind::Control || token_kind == TokenKind::Unknown;
        std::string_view piece = is_control && with_control ? text(token) : bytes(token);
        if (piece.empty()) continue;
        if (strips_space && piece.front() == ' ') piece.remove_prefix(1);
        strips_space = false;
        out.append(piece);
    }
    return out;
}

std::size_t Tokenizer::vocabulary_size() const {
    return impl_->vocabulary.size();
}

bool Tokenizer::contains(TokenId token) const {
    return token >= 0 && static_cast<std::size_t>(token) < impl_->vocabulary.size();
}

TokenKind Tokenizer::kind(TokenId token) const {
    CHECK(contains(token));
    return impl_->vocabulary.kind(token);
}

std::string_view Tokenizer::text(TokenId token) const {
    CHECK(contains(token));
    return impl_->vocabulary.text(token);
}

std::string_view Tokenizer::bytes(TokenId token) const {
    CHECK(contains(token));
    return impl_->vocabulary.bytes(token);
}

std::optional<TokenId> Tokenizer::find(std::string_view text) const {
    const TokenId token = impl_->vocabulary.find(text);
    return token < 0 ? std::nullopt : std::optional<TokenId>(token);
}

std::optional<TokenId> Tokenizer::bos() const {
    return impl_->vocabulary.special().bos;
}
std::optional<TokenId> Tokenizer::eos() const {
    return impl_->vocabulary.special().eos;
}
bool Tokenizer::adds_bos() const {
    return impl_->first.has_value();
}

bool Tokenizer::strips_leading_space() const {
    if (const auto* piece = std::get_if<SentencePiece>(&impl_->model)) return piece->adds_space_prefix();
    return std::holds_alternative<WordPiece>(impl_->model);
}

bool Tokenizer::ends_generation(TokenId token) const {
    return impl_->vocabulary.ends_generation(token);
}

}  // namespace hearth
