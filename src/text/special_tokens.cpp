// A sorted list serves as the trie: each further byte of the text narrows the range of entries that still match.
#include "text/special_tokens.h"

#include <algorithm>
#include <string>

namespace hearth {

namespace {

// Bounds the work at one place of the text; real ones have a few dozen bytes.
constexpr std::size_t kLongest = 512;

bool is_ascii_space(char character) {
    return character == ' ' || (character >= '\t' && character <= '\r');
}

bool contains_any_case(std::string_view text, std::string_view lower_word) {
    const auto same = [](char left, char right) {
        return (left >= 'A' && left <= 'Z' ? static_cast<char>(left - 'A' + 'a') : left) == right;
    };
    return std::search(text.begin(), text.end(), lower_word.begin(), lower_word.end(), same) != text.end();
}

// Files do not say which tokens swallow the white space beside them; the original tokenisers of these models do.
struct Stripping {
    bool all_right = false;         // but for the texts of documents
    std::string_view left_of = {};  // one text
};

Result<Stripping> stripping_of(const GgufFile& file) {
    const std::string_view pre = TRY(file.find_string("tokenizer.ggml.pre")).value_or("");
    const std::string_view architecture = TRY(file.find_string("general.architecture")).value_or("");
    const std::string_view name = TRY(file.find_string("general.name")).value_or("");
    if (pre == "jina-v2-de" || pre == "jina-v2-es" || pre == "jina-v2-code" || architecture == "nomic-bert-moe" ||
        architecture == "jina-bert-v3") {
        return Stripping{.left_of = "<mask>"};
    }
    if (contains_any_case(name, "phi-3") || contains_any_case(name, "phi3")) return Stripping{.all_right = true};
    if (contains_any_case(name, "modern-bert")) return Stripping{.left_of = "[MASK]"};
    return Stripping{};
}

}  // namespace

Result<SpecialTokens> SpecialTokens::create(const GgufFile& file, const Vocabulary& vocabulary) {
    const Stripping stripping = TRY(stripping_of(file));
    SpecialTokens special;
    for (std::size_t i = 0; i < vocabulary.size(); ++i) {
        const TokenId token = static_cast<TokenId>(i);
        const TokenKind kind = vocabulary.kind(token);
        const bool is_control = kind == TokenKind::Control || kind == TokenKind::Unknown;
        if ((!is_control && kind != TokenKind::UserDefined) || vocabulary.text(token).empty()) continue;
        const std::string_view text = vocabulary.text(token);
        if (text.size() > kLongest) {
            return Error{ErrorCode::InvalidModel, file.name() + ": token " + std::to_string(i) +
                                                      " of key 'tokenizer.ggml.tokens' is special and longer than " +
                                                      std::to_string(kLongest) + " bytes"};
        }
        const bool begins_or_ends_documents = text == "<unk>" || text == "<s>" || text == "<|endoftext|>";
        special.entries_.push_back({.text = text,
                                    .token = token,
                                    .is_control = is_control,
                                    .strips_left = text == stripping.left_of,
                                    .strips_right = stripping.all_right && !begins_or_ends_documents});
    }
    std::stable_sort(special.entries_.begin(), special.entries_.end(),
                     [](const Entry& left, const Entry& right) { return left.text < right.text; });
    for (const Entry& entry : special.entries_) ++special.first_byte_[static_cast<unsigned char>(entry.text[0]) + 1u];
    for (std::size_t i = 1; i < special.first_byte_.size(); ++i) special.first_byte_[i] += special.first_byte_[i - 1];
    return special;
}

const SpecialTokens::Entry* SpecialTokens::longest_at(std::string_view text, std::size_t at,
                                                      ParseSpecial parse_special) const {
    const unsigned char first = static_cast<unsigned char>(text[at]);
    auto low = entries_.begin() + first_byte_[first];
    auto high = entries_.begin() + first_byte_[first + 1u];
    const Entry* best = nullptr;
    for (std::size_t length = 1; low != high; ++length) {
        // [low, high) agree with the text in `length` bytes; what is not longer comes first.
        for (; low != high && low->text.size() == length; ++low) {
            if (!low->is_control || parse_special == ParseSpecial::Yes) best = &*low;
        }
        if (low == high || at + length >= text.size()) break;
        const unsigned char next = static_cast<unsigned char>(text[at + length]);
        const auto byte_of = [length](const Entry& entry) { return static_cast<unsigned char>(entry.text[length]); };
        low = std::partition_point(low, high, [&](const Entry& entry) { return byte_of(entry) < next; });
        high = std::partition_point(low, high, [&](const Entry& entry) { return byte_of(entry) <= next; });
    }
    return best;
}

SpecialTokens::Match SpecialTokens::next(std::string_view text, std::size_t from, ParseSpecial parse_special) const {
    for (std::size_t at = from; at < text.size(); ++at) {
        const unsigned char first = static_cast<unsigned char>(text[at]);
        if (first_byte_[first] == first_byte_[first + 1u]) continue;
        const Entry* entry = longest_at(text, at, parse_special);
        if (entry == nullptr) continue;
        Match match = {at, at + entry->text.size(), entry->token};
        while (entry->strips_left && match.begin > from && is_ascii_space(text[match.begin - 1])) --match.begin;
        while (entry->strips_right && match.end < text.size() && is_ascii_space(text[match.end])) ++match.end;
        return match;
    }
    return {text.size(), text.size(), -1};
}

}  // namespace hearth
