#include "text/grammar/mask_engine.h"

#include <algorithm>

#include "text/grammar/compiled.h"

namespace hearth::grammar {

namespace {

constexpr std::size_t kMaskBytes = 16 << 20;
constexpr std::size_t kRowBytes = 8 << 20;

Error limit_error() {
    return Error{ErrorCode::OutOfResources, "grammar: too ambiguous, too deeply nested or too long for its limits"};
}

void set_token(const TokenTrie& trie, TokenId token, std::vector<std::uint64_t>& bits) {
    for (; token >= 0; token = trie.next_same(token)) {
        const auto index = static_cast<std::size_t>(token);
        bits[index / 64] |= std::uint64_t{1} << (index % 64);
    }
}

}  // namespace

MaskEngine::MaskEngine(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie,
                       std::size_t set_limit)
    : grammar_(std::move(grammar)),
      trie_(std::move(trie)),
      set_limit_(set_limit),
      stacks_(grammar_->impl().automaton, set_limit),
      class_of_(grammar_->impl().automaton.class_of.data()),
      class_count_(grammar_->impl().automaton.class_count),
      path_(trie_->max_depth() + 1, kDeadSet) {}

SetId MaskEngine::find_next(SetId state, std::uint8_t byte) {
    if (state >= row_of_.size()) row_of_.resize(stacks_.size(), kNoRow);
    if (row_of_[state] == kNoRow) {
        if ((rows_.size() + class_count_) * sizeof(SetId) > kRowBytes) {
            rows_.clear();
            std::fill(row_of_.begin(), row_of_.end(), kNoRow);
        }
        row_of_[state] = static_cast<std::uint32_t>(rows_.size());
        rows_.resize(rows_.size() + class_count_, kUnknown);
    }
    const SetId found = stacks_.step(state, class_of_[byte]);
    if (found != kFailed) rows_[row_of_[state] + class_of_[byte]] = found;
    return found;
}

bool MaskEngine::walk(const std::vector<TokenTrie::Node>& nodes, SetId state, std::vector<std::uint64_t>& bits) {
    path_[0] = state;
    for (std::size_t i = 0; i < nodes.size();) {
        const TokenTrie::Node& node = nodes[i];
        const SetId after = next(path_[node.depth - std::size_t{1}], node.byte);
        if (after == kDeadSet) {
            i = node.skip;
            continue;
        }
        if (after == kFailed) return false;
        path_[node.depth] = after;
        if (node.token >= 0) set_token(*trie_, node.token, bits);
        ++i;
    }
    return true;
}

// Whether every way through the bytes first to last and then `more` continuation bytes leads to `target`.
bool MaskEngine::all_lead_to(SetId state, std::uint8_t first, std::uint8_t last, int more, SetId target) {
    SetId previous = kDeadSet;
    for (std::uint32_t byte = first; byte <= last; ++byte) {
        const SetId after = next(state, static_cast<std::uint8_t>(byte));
        if (after == kFailed) return false;
        if (byte != first && after == previous) continue;
        previous = after;
        if (more == 0 || after == kDeadSet) {
            if (after != target) return false;
        } else if (!all_lead_to(after, 0x80, 0xbf, more - 1, target)) {
            return false;
        }
    }
    return true;
}

MaskEngine::PlainStep MaskEngine::plain_step(SetId state) {
    if (const auto found = plain_steps_.find(state); found != plain_steps_.end()) return found->second;
    PlainStep step;
    step.next = next(state, 'a');
    // The lead bytes of each length, with what strict UTF-8 demands of the second byte.
    struct Lead {
        std::uint8_t first, last, second_first, second_last;
        int more;
    };
    constexpr Lead kLeads[] = {{0xe0, 0xe0, 0xa0, 0xbf, 1}, {0xe1, 0xec, 0x80, 0xbf, 1}, {0xed, 0xed, 0x80, 0x9f, 1},
                               {0xee, 0xef, 0x80, 0xbf, 1}, {0xf0, 0xf0, 0x90, 0xbf, 2}, {0xf1, 0xf3, 0x80, 0xbf, 2},
                               {0xf4, 0xf4, 0x80, 0x8f, 2}};
    step.uniform = step.next != kFailed && all_lead_to(state, 0x20, 0x21, 0, step.next) &&
                   all_lead_to(state, 0x23, 0x5b, 0, step.next) && all_lead_to(state, 0x5d, 0x7e, 0, step.next) &&
                   all_lead_to(state, 0xc2, 0xdf, 1, step.next);
    for (const Lead& lead : kLeads) {
        for (std::uint32_t byte = lead.first; step.uniform && byte <= lead.last; ++byte) {
            const SetId after = next(state, static_cast<std::uint8_t>(byte));
            if (after == kDeadSet || after == kFailed) {
                step.uniform = after == step.next;
            } else {
                step.uniform = all_lead_to(after, lead.second_first, lead.second_last, lead.more, step.next);
            }
        }
    }
    plain_steps_.emplace(state, step);
    return step;
}

MaskEngine::PlainRun MaskEngine::plain_run(SetId state) {
    PlainRun run;
    for (; run.characters < TokenTrie::kPlainCharacters; ++run.characters) {
        const PlainStep step = plain_step(state);
        if (!step.uniform) return run;
        if (step.next == kDeadSet) {
            run.exact = true;
            return run;
        }
        if (step.next == state) run.characters = TokenTrie::kPlainCharacters - 1;
        state = step.next;
    }
    run.exact = true;
    return run;
}

Status MaskEngine::fill(SetId state, std::vector<std::uint64_t>& bits) {
    const PlainRun run = plain_run(state);
    const bool split = run.exact && run.characters > 0;
    if (split) {
        bits = trie_->plain_up_to(run.characters);
    } else {
        bits.assign(trie_->mask_words(), 0);
    }
    if (!walk(split ? trie_->not_plain() : trie_->all(), state, bits)) return limit_error();
    if (stacks_.may_end(state)) {
        for (std::size_t i = 0; i < bits.size(); ++i) bits[i] |= trie_->ends()[i];
    }
    if (std::all_of(bits.begin(), bits.end(), [](std::uint64_t word) { return word == 0; })) {
        return Error{ErrorCode::Failed, "grammar: no token of the vocabulary can go on from here"};
    }
    return {};
}

// The hand goes round and takes the first mask that was not used since it last came by.
MaskEngine::Slot& MaskEngine::take_slot(SetId state) {
    const std::size_t capacity =
        std::max<std::size_t>(4, kMaskBytes / (trie_->mask_words() * sizeof(std::uint64_t) + 1));
    if (slots_.size() < capacity) {
        slots_.emplace_back();
        hand_ = slots_.size() - 1;
    } else {
        do {
            hand_ = (hand_ + 1) % slots_.size();
        } while (std::exchange(slots_[hand_].used, false));
        slot_of_.erase(slots_[hand_].state);
    }
    slot_of_[state] = hand_;
    slots_[hand_].state = state;
    slots_[hand_].used = true;
    return slots_[hand_];
}

Result<std::span<const std::uint64_t>> MaskEngine::mask(SetId state) {
    if (!knows(state)) return Error{ErrorCode::Usage, "grammar: unknown state"};
    if (const auto found = slot_of_.find(state); found != slot_of_.end()) {
        slots_[found->second].used = true;
        return std::span<const std::uint64_t>(slots_[found->second].bits);
    }
    if (stacks_.start_failed()) return limit_error();
    stacks_.refill_work();
    std::vector<std::uint64_t> bits;
    TRY(fill(state, bits));
    Slot& slot = take_slot(state);
    slot.bits = std::move(bits);
    return std::span<const std::uint64_t>(slot.bits);
}

Result<SetId> MaskEngine::advance(SetId state, TokenId token) {
    if (!knows(state) || token < 0 || static_cast<std::size_t>(token) >= trie_->vocabulary_size()) {
        return Error{ErrorCode::Usage, "grammar: unknown state or token"};
    }
    if (stacks_.start_failed()) return limit_error();
    stacks_.refill_work();
    const Error refused{ErrorCode::Usage, "grammar: token " + std::to_string(token) + " may not come here"};
    if (trie_->ends_generation(token)) {
        if (!stacks_.may_end(state)) return refused;
        return kEndSet;
    }
    const std::string_view bytes = trie_->bytes(token);
    if (bytes.empty()) return refused;
    for (const char byte : bytes) {
        state = next(state, static_cast<std::uint8_t>(byte));
        if (state == kFailed) return limit_error();
        if (state == kDeadSet) return refused;
    }
    return state;
}

}  // namespace hearth::grammar
