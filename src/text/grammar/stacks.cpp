#include "text/grammar/stacks.h"

#include <algorithm>

#include "base/hash.h"

namespace hearth::grammar {

namespace {

constexpr std::size_t kSetEntries = 2'000;  // alternatives at one place
constexpr std::size_t kPoolEntries = 2'000'000;
constexpr std::uint32_t kStackDepth = 1'000;  // nesting of the text
constexpr std::size_t kClosureDepth = 3'000;  // calls without a byte between them

std::uint64_t hash_of(std::span<const Entry> entries) {
    std::uint64_t hash = entries.size();
    for (const Entry& entry : entries) {
        hash = mix64(hash ^ ((std::uint64_t{entry.node} << 32) | entry.below));
        hash = mix64(hash + entry.count);
    }
    return hash;
}

}  // namespace

Stacks::Stacks(const Automaton& automaton, std::size_t set_limit) : automaton_(automaton), set_limit_(set_limit) {
    table_.assign(256, kDeadSet);
    // Number 0 is the start's, but what it is made of comes after it.
    sets_.push_back({});
    const Entry end{kEndNode, 0, kEndSet};
    intern({&end, 1});
    sets_[kEndSet].expanded = kEndSet;
    std::vector<Entry> start;
    bool ok = add_closed(automaton.start, 0, kEndSet, start, 0);
    if (automaton.may_be_empty) start.push_back(end);
    const SetId set = ok ? intern_list(start) : kFailed;
    if (set == kFailed) {
        start_failed_ = true;
        return;
    }
    // The same stacks are met again under the number they were given first; the start has its own.
    sets_[kStartSet] = sets_[set];
}

void Stacks::grow_table() {
    std::vector<SetId> bigger(table_.size() * 2, kDeadSet);
    const std::size_t mask = bigger.size() - 1;
    for (const SetId set : table_) {
        if (set == kDeadSet) continue;
        std::size_t slot = hash_of(entries(set)) & mask;
        while (bigger[slot] != kDeadSet) slot = (slot + 1) & mask;
        bigger[slot] = set;
    }
    table_.swap(bigger);
}

SetId Stacks::intern(std::span<const Entry> sorted) {
    if (sorted.empty()) return kDeadSet;
    const std::size_t mask = table_.size() - 1;
    std::size_t slot = hash_of(sorted) & mask;
    for (; table_[slot] != kDeadSet; slot = (slot + 1) & mask) {
        const std::span<const Entry> other = entries(table_[slot]);
        if (std::equal(sorted.begin(), sorted.end(), other.begin(), other.end())) return table_[slot];
    }
    std::uint32_t depth = 0;
    for (const Entry& entry : sorted) {
        if (entry.node != kEndNode) depth = std::max(depth, sets_[entry.below].depth + 1);
    }
    if (sets_.size() >= set_limit_ || sorted.size() > kSetEntries || depth > kStackDepth ||
        entries_.size() + sorted.size() > kPoolEntries) {
        return kFailed;
    }
    const auto set = static_cast<SetId>(sets_.size());
    Set added;
    added.first = static_cast<std::uint32_t>(entries_.size());
    added.count = static_cast<std::uint32_t>(sorted.size());
    added.depth = depth;
    entries_.insert(entries_.end(), sorted.begin(), sorted.end());
    sets_.push_back(added);
    table_[slot] = set;
    if (sets_.size() * 2 > table_.size()) grow_table();
    return set;
}

SetId Stacks::intern_one(NodeId node, std::uint32_t count, SetId below) {
    const Entry entry{node, count, below};
    return intern({&entry, 1});
}

// Sorts, and joins what lies below equal tops.
SetId Stacks::intern_list(std::vector<Entry>& list) {
    std::sort(list.begin(), list.end());
    std::size_t kept = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
        const Entry entry = list[i];
        if (kept > 0 && list[kept - 1].node == entry.node && list[kept - 1].count == entry.count) {
            const SetId below = unite(list[kept - 1].below, entry.below);
            if (below == kFailed) return kFailed;
            list[kept - 1].below = below;
        } else {
            list[kept++] = entry;
        }
    }
    list.resize(kept);
    return intern(list);
}

// No deeper than the stacks are.
SetId Stacks::unite(SetId left, SetId right) {
    if (left == right) return left;
    if (left > right) std::swap(left, right);
    const std::uint64_t key = (std::uint64_t{left} << 32) | right;
    if (const auto found = unions_.find(key); found != unions_.end()) return found->second;
    const std::size_t cost = sets_[left].count + std::size_t{sets_[right].count};
    if (work_ < cost || unions_.size() > 4 * set_limit_) return kFailed;
    work_ -= cost;
    std::vector<Entry> list(entries(left).begin(), entries(left).end());
    list.insert(list.end(), entries(right).begin(), entries(right).end());
    const SetId united = intern_list(list);
    if (united != kFailed) unions_.emplace(key, united);
    return united;
}

SetId Stacks::expand(SetId set, std::size_t depth) {
    if (sets_[set].expanded != kDeadSet) return sets_[set].expanded;
    std::vector<Entry> out;
    for (std::uint32_t i = 0; i < sets_[set].count; ++i) {
        const Entry entry = entries(set)[i];
        if (entry.node == kEndNode) {
            out.push_back(entry);
        } else if (!add_closed(entry.node, entry.count, entry.below, out, depth)) {
            return kFailed;
        }
    }
    const SetId expanded = intern_list(out);
    if (expanded != kFailed) sets_[set].expanded = expanded;
    return expanded;
}

bool Stacks::add_expanded(SetId set, std::vector<Entry>& out, std::size_t depth) {
    const SetId expanded = expand(set, depth);
    if (expanded == kFailed) return false;
    const std::span<const Entry> all = entries(expanded);
    if (work_ < all.size()) return false;
    work_ -= all.size();
    out.insert(out.end(), all.begin(), all.end());
    return true;
}

bool Stacks::add_closed(NodeId id, std::uint32_t count, SetId below, std::vector<Entry>& out, std::size_t depth) {
    if (work_ == 0 || depth > kClosureDepth) return false;
    --work_;
    const Node& node = automaton_.nodes[id];
    if (node.is_repeat) {
        if (count < node.max) {
            // Without an upper bound, counts past the lower one mean the same.
            const std::uint32_t next = node.max == kUnbounded ? std::min(count + 1, node.min) : count + 1;
            const SetId back = intern_one(id, next, below);
            if (back == kFailed || !add_closed(node.body, 0, back, out, depth + 1)) return false;
        }
        return count < node.min || add_closed(node.next, 0, below, out, depth + 1);
    }
    if (node.byte_edge_count > 0) out.push_back({id, 0, below});
    if (node.accept && !add_expanded(below, out, depth + 1)) return false;
    for (std::uint32_t i = 0; i < node.call_count; ++i) {
        const CallEdge& call = automaton_.calls[node.first_call + i];
        // A call in last place leaves nothing to come back to.
        const SetId back = automaton_.nodes[call.back].is_final() ? below : intern_one(call.back, call.count, below);
        if (back == kFailed || !add_closed(call.start, 0, back, out, depth + 1)) return false;
    }
    return true;
}

SetId Stacks::step(SetId state, std::uint32_t byte_class) {
    const std::uint8_t byte = automaton_.byte_of_class[byte_class];
    std::vector<Entry> out;
    for (std::uint32_t i = 0; i < sets_[state].count; ++i) {
        const Entry entry = entries(state)[i];
        if (entry.node == kEndNode) continue;
        const Node& node = automaton_.nodes[entry.node];
        for (std::uint32_t e = 0; e < node.byte_edge_count; ++e) {
            const ByteEdge& edge = automaton_.byte_edges[node.first_byte_edge + e];
            if (byte < edge.first || byte > edge.last) continue;
            if (!add_closed(edge.target, 0, entry.below, out, 0)) return kFailed;
        }
    }
    return intern_list(out);
}

bool Stacks::may_end(SetId state) const {
    const std::span<const Entry> all = entries(state);
    return !all.empty() && all.back().node == kEndNode;
}

}  // namespace hearth::grammar
