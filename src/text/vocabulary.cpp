// Loading and checking of the token list; every refusal names the key or the token.
#include "text/vocabulary.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <span>
#include <utility>

#include "base/aside.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/utf8.h"

namespace hearth {

namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kKindsKey = "tokenizer.ggml.token_type";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";

// Files of many models mark these as ordinary tokens, or do not name them as an end.
constexpr std::string_view kEndTexts[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<eos>",
    "<end_of_utterance>",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
    "<\xef\xbd\x9c"
    "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
};

// The tokens around the hole when a model fills in the middle; some of them end an answer.
struct MiddleToken {
    std::string_view key;
    std::string_view older_key;
    bool ends_generation;
    std::array<std::string_view, 8> texts;
};
constexpr MiddleToken kMiddleTokens[] = {
    {"tokenizer.ggml.fim_pre_token_id",
     "tokenizer.ggml.prefix_token_id",
     false,
     {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>",
      "<\xef\xbd\x9c"
      "fim\xe2\x96\x81"
      "begin\xef\xbd\x9c>",
      "<PRE>", "\xe2\x96\x81<PRE>", "<|code_prefix|>", "<|prefix|>"}},
    {"tokenizer.ggml.fim_suf_token_id",
     "tokenizer.ggml.suffix_token_id",
     false,
     {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>",
      "<\xef\xbd\x9c"
      "fim\xe2\x96\x81hole\xef\xbd\x9c>",
      "<SUF>", "\xe2\x96\x81<SUF>", "<|code_suffix|>", "<|suffix|>"}},
    {"tokenizer.ggml.fim_mid_token_id",
     "tokenizer.ggml.middle_token_id",
     false,
     {"<|fim_middle|>", "<fim-middle>", "<fim_middle>",
      "<\xef\xbd\x9c"
      "fim\xe2\x96\x81"
      "end\xef\xbd\x9c>",
      "<MID>", "\xe2\x96\x81<MID>", "<|code_middle|>", "<|middle|>"}},
    {"tokenizer.ggml.fim_pad_token_id", "", true, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {"tokenizer.ggml.fim_rep_token_id",
     "",
     true,
     {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {"tokenizer.ggml.fim_sep_token_id", "", true, {"<|file_sep|>"}},
};

// Far above what chance gives at this load; beyond it somebody has looked for collisions.
constexpr std::size_t kMostTries = 1024;

// Asked for while others are filled: the table is larger than the caches near by.
constexpr std::size_t kSlotsAhead = 16;
constexpr std::size_t kFoundTogether = 32;  // texts whose memory is asked for at once

Error invalid(const GgufFile& file, const std::string& what) {
    return Error{ErrorCode::InvalidModel, file.name() + ": " + what};
}

int hex_digit(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    return -1;
}

// The byte of "<0x0A>"; -1 for any other text.
int byte_of_escape(std::string_view text) {
    if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
    const int high = hex_digit(text[3]);
    const int low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

// What a token's text stands for, written to `out`; never longer than the text. Returns where it ends.
char* write_plain(std::string_view text, char* out) {
    return std::ranges::copy(text, out).out;
}

// Characters outside the alphabet can only come from tokens added later, which are plain text.
char* write_from_alphabet(std::string_view text, char* out) {
    for (std::size_t offset = 0; offset < text.size();) {
        if (text[offset] > ' ' && text[offset] < '\x7f') {  // most are themselves
            *out++ = text[offset++];
            continue;
        }
        const CodePoint point = decode_utf8(text, offset);
        const int byte = point.length == 0 ? -1 : byte_of_character(point.value);
        const std::size_t length = std::max<std::size_t>(point.length, 1);
        if (byte >= 0) {
            *out++ = static_cast<char>(static_cast<unsigned char>(byte));
        } else {
            out = write_plain(text.substr(offset, length), out);
        }
        offset += length;
    }
    return out;
}

char* write_with_spaces(std::string_view text, char* out) {
    for (std::size_t offset = 0; offset < text.size();) {
        const std::size_t next = std::min(text.find(kVisibleSpace, offset), text.size());
        out = write_plain(text.substr(offset, next - offset), out);
        if (next < text.size()) *out++ = ' ';
        offset = next + kVisibleSpace.size();
    }
    return out;
}

}  // namespace

std::uint32_t character_of_byte(std::uint8_t byte) {
    // Bytes without a glyph of their own take the code points from 256 on, in ascending order.
    if (byte <= 0x20) return 256u + byte;
    if (byte >= 0x7f && byte <= 0xa0) return 256u + 33u + (byte - 0x7fu);
    if (byte == 0xad) return 256u + 33u + 34u;
    return byte;
}

int byte_of_character(std::uint32_t code_point) {
    if (code_point < 256) {
        const std::uint8_t byte = static_cast<std::uint8_t>(code_point);
        return character_of_byte(byte) == code_point ? byte : -1;
    }
    if (code_point <= 256 + 0x20) return static_cast<int>(code_point - 256);
    if (code_point < 256 + 33 + 34) return static_cast<int>(code_point - 256 - 33 + 0x7f);
    return code_point == 256 + 33 + 34 ? 0xad : -1;
}

// The upper byte is the length of a text of up to seven bytes, which are the others; or all ones before a hash.
TokenIndex::Tag TokenIndex::tag_of(std::string_view text) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(text.data(), text.size()));
    if (bytes.size() < sizeof(Tag)) return few_bytes(bytes.data(), bytes.size()) | Tag{bytes.size()} << 56;
    return hash_bytes(bytes) | Tag{0xff} << 56;
}

bool TokenIndex::is_text(Tag tag) {
    return tag >> 56 != 0xff;
}

std::optional<TokenIndex> TokenIndex::create(const std::vector<std::string_view>& texts) {
    TokenIndex index;
    const std::size_t slots = std::bit_ceil(texts.size() * 3 / 2 + 1);
    reserve_large(index.slots_, slots);
    index.slots_.resize(slots);
    std::vector<Search> searches(texts.size());
    std::ranges::transform(texts, searches.begin(), [&](std::string_view text) { return index.begin_search(text); });
    for (std::size_t i = 0; i < texts.size(); ++i) {
        const std::string_view text = texts[i];
        if (i + kSlotsAhead < searches.size()) fetch_line(&index.slots_[searches[i + kSlotsAhead].slot]);
        if (text.empty()) continue;
        index.longest_ = std::max(index.longest_, text.size());
        const Tag tag = searches[i].tag;
        const auto is_free = [&](const Slot& slot) {
            return slot.token < 0 ||
                   (slot.tag == tag && (is_text(tag) || texts[static_cast<std::size_t>(slot.token)] == text));
        };
        std::size_t at = searches[i].slot;
        for (std::size_t tries = 0; !is_free(index.slots_[at]); at = (at + 1) & (slots - 1)) {
            if (++tries > kMostTries) return std::nullopt;
        }
        if (index.slots_[at].token >= 0) index.texts_differ_ = false;
        index.slots_[at] = {tag, static_cast<TokenId>(i)};
    }
    return index;
}

TokenIndex::Search TokenIndex::begin_search(std::string_view text) const {
    const Tag tag = tag_of(text);
    return {mix64(tag) & (slots_.size() - 1), tag};
}

void TokenIndex::skip_other_tags(Search& search) const {
    const std::size_t mask = slots_.size() - 1;
    while (slots_[search.slot].token >= 0 && slots_[search.slot].tag != search.tag) {
        search.slot = (search.slot + 1) & mask;
    }
}

TokenId TokenIndex::end_search(const std::vector<std::string_view>& texts, std::string_view text, Search search) const {
    const std::size_t mask = slots_.size() - 1;
    for (;; search.slot = (search.slot + 1) & mask) {
        skip_other_tags(search);
        const TokenId token = slots_[search.slot].token;
        if (token < 0 || is_text(search.tag) || texts[static_cast<std::size_t>(token)] == text) return token;
    }
}

TokenId TokenIndex::find(const std::vector<std::string_view>& texts, std::string_view text) const {
    if (text.empty() || text.size() > longest_) return -1;
    return end_search(texts, text, begin_search(text));
}

void TokenIndex::find_all(const std::vector<std::string_view>& texts, std::span<const std::string_view> wanted,
                          std::span<TokenId> found) const {
    std::array<Search, kFoundTogether> searches;
    const auto text_at = [&](const Search& search) { return texts.data() + std::max(slots_[search.slot].token, 0); };
    for (std::size_t first = 0; first < wanted.size(); first += kFoundTogether) {
        const std::size_t count = std::min(wanted.size() - first, kFoundTogether);
        for (std::size_t i = 0; i < count; ++i) {
            searches[i] = begin_search(wanted[first + i]);
            fetch_line_near(&slots_[searches[i].slot]);
        }
        for (std::size_t i = 0; i < count; ++i) {
            skip_other_tags(searches[i]);
            if (!is_text(searches[i].tag)) fetch_line_near(text_at(searches[i]));
        }
        for (std::size_t i = 0; i < count; ++i) {
            if (!is_text(searches[i].tag)) fetch_line_near(text_at(searches[i])->data());
        }
        for (std::size_t i = 0; i < count; ++i) {
            found[first + i] = end_search(texts, wanted[first + i], searches[i]);
        }
    }
}

Result<Vocabulary> Vocabulary::load(const GgufFile& file, VocabularyFamily family) {
    Vocabulary vocabulary;
    vocabulary.texts_ = TRY(file.strings(kTokensKey));
    if (vocabulary.texts_.empty()) return invalid(file, "key '" + std::string(kTokensKey) + "' is empty");
    if (vocabulary.texts_.size() > std::numeric_limits<TokenId>::max()) {
        return invalid(file, "key '" + std::string(kTokensKey) + "' has too many tokens");
    }
    TRY(vocabulary.load_kinds(file));
    Aside<Status> bytes([&] { return vocabulary.load_bytes(file, family); });
    std::optional<TokenIndex> index = TokenIndex::create(vocabulary.texts_);
    if (!index) return invalid(file, "key '" + std::string(kTokensKey) + "' has texts that are made to collide");
    vocabulary.index_ = std::move(*index);
    TRY(bytes.get());
    TRY(vocabulary.load_scores(file, family));
    TRY(vocabulary.load_special(file, family));
    TRY(vocabulary.load_ends(file));
    return vocabulary;
}

// One element for each token: asked before the array is copied.
Status Vocabulary::check_count(const GgufFile& file, std::string_view key) const {
    const GgufValue* stored = file.find(key);
    if (stored == nullptr || stored->type != GgufType::Array || stored->count == texts_.size()) return {};
    return invalid(file, "key '" + std::string(key) + "' has " + std::to_string(stored->count) + " elements for " +
                             std::to_string(texts_.size()) + " tokens");
}

Status Vocabulary::load_kinds(const GgufFile& file) {
    kinds_.assign(texts_.size(), TokenKind::Normal);
    if (file.find(kKindsKey) == nullptr) return {};
    TRY(check_count(file, kKindsKey));
    const std::vector<std::int32_t> numbers = TRY(file.integers(kKindsKey));
    // The numbers of the file format; 0 is "undefined".
    constexpr TokenKind kKinds[] = {TokenKind::Unused,      TokenKind::Normal, TokenKind::Unknown, TokenKind::Control,
                                    TokenKind::UserDefined, TokenKind::Unused, TokenKind::Byte};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (numbers[i] < 0 || static_cast<std::size_t>(numbers[i]) >= std::size(kKinds)) {
            return invalid(file, "element " + std::to_string(i) + " of key '" + std::string(kKindsKey) + "' is " +
                                     std::to_string(numbers[i]) + ", which is no type of token");
        }
        kinds_[i] = kKinds[numbers[i]];
    }
    return {};
}

Status Vocabulary::load_scores(const GgufFile& file, VocabularyFamily family) {
    if (family != VocabularyFamily::SentencePiece) return {};  // no other family reads them
    TRY(check_count(file, kScoresKey));
    scores_ = TRY(file.floats(kScoresKey));
    return {};
}

Result<std::optional<TokenId>> Vocabulary::load_id(const GgufFile& file, std::string_view key) const {
    const std::optional<std::uint32_t> id = TRY(file.find_u32(key));
    if (!id) return std::optional<TokenId>();
    if (*id >= texts_.size()) {
        return invalid(file, "key '" + std::string(key) + "' is " + std::to_string(*id) + ", but there are only " +
                                 std::to_string(texts_.size()) + " tokens");
    }
    return std::optional<TokenId>(static_cast<TokenId>(*id));
}

Status Vocabulary::load_special(const GgufFile& file, VocabularyFamily family) {
    special_.bos = TRY(load_id(file, "tokenizer.ggml.bos_token_id"));
    special_.eos = TRY(load_id(file, "tokenizer.ggml.eos_token_id"));
    special_.unknown = TRY(load_id(file, "tokenizer.ggml.unknown_token_id"));
    special_.separator = TRY(load_id(file, "tokenizer.ggml.seperator_token_id"));  // spelt so by the format
    const std::optional<TokenId> first = TRY(load_id(file, "tokenizer.ggml.cls_token_id"));
    if (!special_.bos && family == VocabularyFamily::WordPiece) special_.bos = first;

    // What older files leave unsaid is where the original vocabularies have it.
    const auto default_to = [&](std::optional<TokenId>& id, TokenId usual) {
        if (!id && static_cast<std::size_t>(usual) < texts_.size()) id = usual;
    };
    if (family == VocabularyFamily::SentencePiece) {
        default_to(special_.unknown, 0);
        default_to(special_.bos, 1);
        default_to(special_.eos, 2);
    } else if (family == VocabularyFamily::WordPiece) {
        default_to(special_.unknown, 100);
        default_to(special_.bos, 101);
        default_to(special_.separator, 102);
    }
    return {};
}

Status Vocabulary::load_ends(const GgufFile& file) {
    std::vector<TokenId> ends;
    for (const std::string_view text : kEndTexts) {
        const TokenId token = find(text);
        if (token < 0) continue;
        make(TokenKind::Control, token);
        ends.push_back(token);
    }
    for (const MiddleToken& middle : kMiddleTokens) {
        std::optional<TokenId> token = TRY(load_id(file, middle.key));
        if (!token && !middle.older_key.empty()) token = TRY(load_id(file, middle.older_key));
        for (std::size_t i = 0; !token && i < middle.texts.size(); ++i) {
            const TokenId found = find(middle.texts[i]);
            if (found < 0) continue;
            make(TokenKind::Control, found);
            token = found;
        }
        if (token && middle.ends_generation) ends.push_back(*token);
    }
    // These structure the answer of models that think in channels: they are part of it.
    for (const std::string_view text : {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"}) {
        if (const TokenId token = find(text); token >= 0) make(TokenKind::UserDefined, token);
    }
    if (special_.eos) ends.push_back(*special_.eos);
    for (const std::string_view key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
        if (const std::optional<TokenId> token = TRY(load_id(file, key))) ends.push_back(*token);
    }

    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    const auto is_end = [&](std::string_view text) {
        const TokenId token = find(text);
        return token >= 0 && std::binary_search(ends.begin(), ends.end(), token);
    };
    // Where an answer has several messages, <|end|> ends only one of them.
    const bool has_call = is_end("<|call|>") || is_end("<|calls|>");
    if (is_end("<|end|>") && has_call && (is_end("<|return|>") || is_end("<|flush|>"))) {
        make(TokenKind::UserDefined, find("<|end|>"));
        std::erase(ends, find("<|end|>"));
    }
    if (is_end("<|tool_response>") && is_end("</s>")) {  // there it is the tag that ends struck-out text
        make(TokenKind::Normal, find("</s>"));
        std::erase(ends, find("</s>"));
    }
    ends_generation_ = std::move(ends);
    return {};
}

// As the file has the kinds. The few that change afterwards are written as they are.
Status Vocabulary::load_bytes(const GgufFile& file, VocabularyFamily family) {
    const auto write_normal = family == VocabularyFamily::ByteLevelBpe ? write_from_alphabet : write_with_spaces;
    std::size_t most = 0;
    for (const std::string_view text : texts_) most += text.size();
    if (most > std::numeric_limits<std::uint32_t>::max()) {
        return invalid(file, "key '" + std::string(kTokensKey) + "' holds more than 4 GiB of text");
    }
    bytes_.resize(most);
    bytes_begin_.reserve(texts_.size() + 1);
    char* out = bytes_.data();
    const auto end = [&] { return static_cast<std::uint32_t>(out - bytes_.data()); };
    for (std::size_t i = 0; i < texts_.size(); ++i) {
        bytes_begin_.push_back(end());
        switch (kinds_[i]) {
            case TokenKind::Normal: out = write_normal(texts_[i], out); break;
            case TokenKind::Byte: {
                const int byte = byte_of_escape(texts_[i]);
                if (byte < 0) {
                    return invalid(file, "token " + std::to_string(i) + " of key '" + std::string(kTokensKey) +
                                             "' is of type byte, but not written as one");
                }
                *out++ = static_cast<char>(static_cast<unsigned char>(byte));
                break;
            }
            case TokenKind::UserDefined:
            case TokenKind::Unknown:
            case TokenKind::Control:
            case TokenKind::Unused: out = write_plain(texts_[i], out); break;
        }
    }
    bytes_begin_.push_back(end());
    bytes_.resize(end());
    return {};
}

std::string_view Vocabulary::bytes(TokenId token) const {
    const std::size_t i = static_cast<std::size_t>(token);
    if (kinds_[i] == TokenKind::Unknown || kinds_[i] == TokenKind::Control || kinds_[i] == TokenKind::Unused) return {};
    return std::string_view(bytes_).substr(bytes_begin_[i], bytes_begin_[i + 1] - bytes_begin_[i]);
}

bool Vocabulary::ends_generation(TokenId token) const {
    return std::binary_search(ends_generation_.begin(), ends_generation_.end(), token);
}

}  // namespace hearth
