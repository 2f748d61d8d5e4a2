// Which tokens may come next, by walking a vocabulary's trie with a grammar's automaton. Transitions and masks that
// were found are kept, both up to a number of bytes; states stay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/grammar/stacks.h"
#include "text/grammar/token_trie.h"

namespace hearth::grammar {

class MaskEngine {
public:
    MaskEngine(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie, std::size_t set_limit);

    Result<std::span<const std::uint64_t>> mask(SetId state);
    Result<SetId> advance(SetId state, TokenId token);
    bool may_end(SetId state) const { return knows(state) && stacks_.may_end(state); }
    bool must_end(SetId state) const { return knows(state) && stacks_.must_end(state); }

    const TokenTrie& trie() const { return *trie_; }
    std::size_t set_limit() const { return set_limit_; }
    std::size_t set_count() const { return stacks_.size(); }
    // The engine of an answer that is over may serve the next one as long as most numbers are free. An idle one does
    // not hold on to its grammar, which holds on to it.
    bool is_reusable() const { return stacks_.size() < set_limit_ / 2 && !stacks_.start_failed(); }
    void release_grammar() { grammar_.reset(); }
    void attach_grammar(std::shared_ptr<const Grammar> grammar) { grammar_ = std::move(grammar); }

private:
    // What follows when only plain characters come: how many are free, and whether more may come after them.
    struct PlainRun {
        std::size_t characters = 0;  // at most TokenTrie::kPlainCharacters
        bool exact = false;          // no longer token of plain characters is allowed
    };
    struct PlainStep {
        SetId next = kDeadSet;  // where every plain character leads
        bool uniform = false;
    };
    struct Slot {
        SetId state = kDeadSet;
        bool used = false;  // since the hand passed
        std::vector<std::uint64_t> bits;
    };

    bool knows(SetId state) const { return state < stacks_.size(); }
    SetId next(SetId state, std::uint8_t byte) {
        const std::uint32_t row = state < row_of_.size() ? row_of_[state] : kNoRow;
        if (row != kNoRow) {
            const SetId found = rows_[row + class_of_[byte]];
            if (found != kUnknown) return found;
        }
        return find_next(state, byte);
    }
    SetId find_next(SetId state, std::uint8_t byte);
    bool walk(const std::vector<TokenTrie::Node>& nodes, SetId state, std::vector<std::uint64_t>& bits);
    PlainStep plain_step(SetId state);
    bool all_lead_to(SetId state, std::uint8_t first, std::uint8_t last, int more, SetId target);
    PlainRun plain_run(SetId state);
    Status fill(SetId state, std::vector<std::uint64_t>& bits);
    Slot& take_slot(SetId state);

    static constexpr SetId kUnknown = 0xfffffffd;
    static constexpr std::uint32_t kNoRow = 0xffffffff;

    std::shared_ptr<const Grammar> grammar_;
    std::shared_ptr<const TokenTrie> trie_;
    std::size_t set_limit_;
    Stacks stacks_;
    const std::uint8_t* class_of_;  // of the grammar's automaton
    std::uint32_t class_count_;
    std::vector<SetId> rows_;            // [class_count_] per state that has one
    std::vector<std::uint32_t> row_of_;  // by state: where its row begins
    std::vector<SetId> path_;            // states along the walk, by depth
    std::unordered_map<SetId, PlainStep> plain_steps_;
    std::unordered_map<SetId, std::size_t> slot_of_;
    std::vector<Slot> slots_;
    std::size_t hand_ = 0;
};

}  // namespace hearth::grammar
