// Sets of stacks of the automaton, made unique and numbered. A set is sorted entries (node, count, the set of stacks
// below), at most one per (node, count): stacks share what they have in common from either end, so that ambiguity costs
// nodes, not copies, and equal sets have equal numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/grammar/automaton.h"

namespace hearth::grammar {

using SetId = std::uint32_t;
inline constexpr SetId kStartSet = 0;
inline constexpr SetId kEndSet = 1;            // only the end may come
inline constexpr SetId kDeadSet = 0xfffffffe;  // no stack: not a set that exists
inline constexpr SetId kFailed = 0xffffffff;   // a limit was reached
inline constexpr NodeId kEndNode = 0xffffffff;

struct Entry {
    NodeId node = 0;
    std::uint32_t count = 0;  // bodies read, when the node is a repetition
    SetId below = 0;
    bool operator==(const Entry&) const = default;
    auto operator<=>(const Entry&) const = default;
};

// The sets that are states have only entries that read a byte, and kEndNode.
class Stacks {
public:
    Stacks(const Automaton& automaton, std::size_t set_limit);

    // The state after a byte of this class; kDeadSet when it may not come, kFailed when a limit is reached.
    SetId step(SetId state, std::uint32_t byte_class);
    bool may_end(SetId state) const;
    bool must_end(SetId state) const { return sets_[state].count == 1 && may_end(state); }
    std::size_t size() const { return sets_.size(); }
    // Each operation may do so much work from here on.
    void refill_work() { work_ = kWorkPerOperation; }
    bool start_failed() const { return start_failed_; }

private:
    static constexpr std::uint64_t kWorkPerOperation = 1'000'000;
    struct Set {
        std::uint32_t first = 0;
        std::uint32_t count = 0;
        SetId expanded = kDeadSet;  // kDeadSet: not known yet
        std::uint32_t depth = 0;
    };

    std::span<const Entry> entries(SetId set) const { return {entries_.data() + sets_[set].first, sets_[set].count}; }
    SetId intern(std::span<const Entry> sorted);
    SetId intern_one(NodeId node, std::uint32_t count, SetId below);
    SetId intern_list(std::vector<Entry>& list);
    SetId unite(SetId left, SetId right);
    SetId expand(SetId set, std::size_t depth);
    bool add_expanded(SetId set, std::vector<Entry>& out, std::size_t depth);
    bool add_closed(NodeId node, std::uint32_t count, SetId below, std::vector<Entry>& out, std::size_t depth);
    void grow_table();

    const Automaton& automaton_;
    std::size_t set_limit_;
    std::vector<Entry> entries_;
    std::vector<Set> sets_;
    std::vector<SetId> table_;  // open addressing over the sets' hashes
    std::unordered_map<std::uint64_t, SetId> unions_;
    std::uint64_t work_ = kWorkPerOperation;
    bool start_failed_ = false;
};

}  // namespace hearth::grammar
