// Merges are kept as pairs of token ids, so that encoding compares numbers and never texts.
#include "text/byte_level_bpe.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <deque>
#include <future>
#include <span>
#include <string>
#include <thread>

#include "base/aside.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/merger.h"

namespace hearth {

namespace {

constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";

// Far above what chance gives at this load; beyond it somebody has looked for collisions.
constexpr std::size_t kMostTries = 1024;

constexpr std::size_t kReadTogether = 32;  // merges whose tokens are looked up together
constexpr std::size_t kSlotsAhead = 16;    // asked for while others are filled
constexpr std::size_t kMostThreads = 8;
constexpr std::size_t kPartMerges = 4096;  // that a thread takes at a time

std::uint64_t hash_of(TokenId left, TokenId right) {
    return mix64((static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
                 static_cast<std::uint32_t>(right));
}

// The word in GPT-2's alphabet.
void to_alphabet(std::string_view word, std::string& out) {
    out.clear();
    for (const char byte : word) append_utf8(out, character_of_byte(static_cast<std::uint8_t>(byte)));
}

// Merges mostly come in the order of the tokens they make: the one made before, another way, or the one after it.
// -1: it is neither, or another token may have the same text.
TokenId guess_joined(const Vocabulary& vocabulary, TokenId made, std::string_view left, std::string_view right) {
    if (made < 0 || !vocabulary.texts_differ()) return -1;
    const std::size_t end = std::min(vocabulary.size(), static_cast<std::size_t>(made) + 2);
    for (TokenId token = made; static_cast<std::size_t>(token) < end; ++token) {
        const std::string_view text = vocabulary.text(token);
        if (text.size() != left.size() + right.size()) continue;
        if (text.starts_with(left) && text.ends_with(right)) return token;
    }
    return -1;
}

}  // namespace

Result<ByteLevelBpe::MergeList> ByteLevelBpe::list_merges(const GgufFile& file) {
    MergeList list;
    list.texts = TRY(file.strings(kMergesKey));
    const std::size_t slots = std::bit_ceil(list.texts.size() * 3 / 2 + 1);
    reserve_large(list.slots, slots);
    list.slots.resize(slots);
    return list;
}

Result<ByteLevelBpe> ByteLevelBpe::create(const GgufFile& file, const Vocabulary& vocabulary,
                                          Result<MergeList> merges) {
    ByteLevelBpe model;
    const std::string_view name = TRY(file.find_string("tokenizer.ggml.pre")).value_or("default");
    model.pre_tokenizer_ = find_pre_tokenizer(name);
    if (model.pre_tokenizer_ == nullptr) {
        return Error{ErrorCode::InvalidModel,
                     file.name() + ": key 'tokenizer.ggml.pre' is '" + repair_utf8(name) + "', which is not supported"};
    }
    std::string character;
    for (std::size_t byte = 0; byte < model.byte_tokens_.size(); ++byte) {
        character.clear();
        append_utf8(character, character_of_byte(static_cast<std::uint8_t>(byte)));
        model.byte_tokens_[byte] = vocabulary.find(character);
    }
    MergeList list = TRY(std::move(merges));
    model.slots_ = std::move(list.slots);
    TRY(model.load_merges(file, vocabulary, list.texts));
    return model;
}

// Hundreds of thousands: several threads look up the tokens of a part after another. This one fills the table with
// those that are ready, in their order, and looks up too while none is.
Status ByteLevelBpe::load_merges(const GgufFile& file, const Vocabulary& vocabulary,
                                 std::span<const std::string_view> texts) {
    using Merges = Result<std::vector<Slot>>;
    std::vector<std::packaged_task<Merges()>> parts;
    std::vector<std::future<Merges>> read;
    for (std::size_t first = 0; first < texts.size(); first += kPartMerges) {
        const std::size_t count = std::min(texts.size() - first, kPartMerges);
        parts.emplace_back([&, first, count] { return read_merges(file, vocabulary, texts, first, count); });
        read.push_back(parts.back().get_future());
    }
    std::atomic<std::size_t> next_part = 0;
    const auto read_part = [&] {  // false: all are taken
        const std::size_t i = next_part++;
        if (i >= parts.size()) return false;
        parts[i]();
        return true;
    };
    const std::size_t threads =
        std::min<std::size_t>({parts.size(), std::thread::hardware_concurrency(), kMostThreads});
    std::deque<Aside<void>> helpers;  // none waits for this one, which may return early
    while (helpers.size() + 1 < threads) {
        helpers.emplace_back([&] {
            while (read_part()) continue;
        });
    }
    for (std::future<Merges>& part : read) {
        const auto is_ready = [&] { return part.wait_for(std::chrono::seconds(0)) == std::future_status::ready; };
        while (!is_ready() && read_part()) continue;
        const std::vector<Slot> merges = TRY(part.get());
        if (add_merges(merges)) continue;
        return Error{ErrorCode::InvalidModel,
                     file.name() + ": key '" + std::string(kMergesKey) + "' has pairs that are made to collide"};
    }
    return {};
}

// The `merge_count` merges from the `first` on.
Result<std::vector<ByteLevelBpe::Slot>> ByteLevelBpe::read_merges(const GgufFile& file, const Vocabulary& vocabulary,
                                                                  std::span<const std::string_view> merges,
                                                                  std::size_t first, std::size_t merge_count) {
    std::vector<Slot> out(merge_count);
    std::array<std::string_view, 3 * kReadTogether> texts;  // the left and right ones of a group, then joined ones
    std::array<TokenId, 3 * kReadTogether> tokens;
    std::array<std::string, kReadTogether> joined;     // those that could not be guessed
    std::array<std::size_t, kReadTogether> joined_of;  // and whose they are
    TokenId made = -1;                                 // by the merge before
    for (std::size_t begin = 0; begin < out.size(); begin += kReadTogether) {
        const std::size_t count = std::min(out.size() - begin, kReadTogether);
        const std::span<Slot> group = std::span(out).subspan(begin, count);
        std::size_t looked_up = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const std::string_view merge = merges[first + begin + i];
            // The alphabet has no space, so the first one (a part is never empty) is between the parts.
            const std::size_t space = merge.find(' ', 1);
            if (space == std::string_view::npos || space + 1 == merge.size()) {
                return Error{ErrorCode::InvalidModel, file.name() + ": element " + std::to_string(first + begin + i) +
                                                          " of key '" + std::string(kMergesKey) +
                                                          "' is not two parts with a space between"};
            }
            const std::string_view left = texts[2 * i] = merge.substr(0, space);
            const std::string_view right = texts[2 * i + 1] = merge.substr(space + 1);
            const TokenId guess = guess_joined(vocabulary, made, left, right);
            group[i] = {.left = -1, .right = -1, .rank = static_cast<Rank>(first + begin + i), .joined = guess};
            if (guess >= 0) {
                made = guess;
            } else {
                texts[2 * count + looked_up] = joined[looked_up].assign(left).append(right);
                joined_of[looked_up++] = i;
            }
        }
        vocabulary.find_all(std::span(texts).first(2 * count + looked_up), tokens);
        for (std::size_t i = 0; i < looked_up; ++i) group[joined_of[i]].joined = made = tokens[2 * count + i];
        for (std::size_t i = 0; i < count; ++i) {
            // A merge of or into something that is no token can never help to a token, and is left empty: shortened
            // vocabularies have some.
            if (tokens[2 * i] < 0 || tokens[2 * i + 1] < 0 || group[i].joined < 0) continue;
            group[i].left = tokens[2 * i];
            group[i].right = tokens[2 * i + 1];
        }
    }
    return out;
}

std::size_t ByteLevelBpe::first_slot(TokenId left, TokenId right) const {
    return hash_of(left, right) & (slots_.size() - 1);
}

bool ByteLevelBpe::add_merges(std::span<const Slot> merges) {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = 0; i < merges.size(); ++i) {
        const Slot& ahead = merges[std::min(i + kSlotsAhead, merges.size() - 1)];
        fetch_line_near(&slots_[first_slot(ahead.left, ahead.right)]);
        const Slot& merge = merges[i];
        if (merge.left < 0) continue;
        std::size_t at = first_slot(merge.left, merge.right);
        const auto is_equal = [&] { return slots_[at].left == merge.left && slots_[at].right == merge.right; };
        for (std::size_t tries = 0; slots_[at].left >= 0 && !is_equal(); at = (at + 1) & mask) {
            if (++tries > kMostTries) return false;
        }
        if (slots_[at].left < 0) slots_[at] = merge;  // the first of equals counts
    }
    return true;
}

const ByteLevelBpe::Slot* ByteLevelBpe::find_merge(TokenId left, TokenId right) const {
    if (left < 0 || right < 0) return nullptr;
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = first_slot(left, right); slots_[at].left >= 0; at = (at + 1) & mask) {
        if (slots_[at].left == left && slots_[at].right == right) return &slots_[at];
    }
    return nullptr;
}

void ByteLevelBpe::encode(const Vocabulary& vocabulary, std::string_view text, std::vector<TokenId>& out) const {
    std::vector<std::size_t> ends;
    split_words(text, *pre_tokenizer_, ends);
    Merger<Rank> merger;
    std::vector<Symbol> symbols;
    std::string spelling;
    const auto merge_of = [this](const Symbol& left, const Symbol& right) -> Merge<Rank> {
        const Slot* merge = find_merge(left.token, right.token);
        return merge == nullptr ? Merge<Rank>{} : Merge<Rank>{merge->rank, merge->joined};
    };
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
        const std::string_view word = text.substr(begin, end - begin);
        begin = end;
        if (pre_tokenizer_->ignore_merges && word.size() <= vocabulary.longest_text()) {
            to_alphabet(word, spelling);
            if (const TokenId token = vocabulary.find(spelling); token >= 0) {
                out.push_back(token);
                continue;
            }
        }
        symbols.clear();
        for (const char byte : word) symbols.push_back({0, 1, byte_tokens_[static_cast<unsigned char>(byte)]});
        merger.run(symbols, merge_of);
        for (const Symbol& symbol : symbols) {
            if (symbol.token >= 0) {
                out.push_back(symbol.token);
            } else if (vocabulary.special().unknown) {
                out.push_back(*vocabulary.special().unknown);
            }
        }
    }
}

}  // namespace hearth
