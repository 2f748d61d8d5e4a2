#include "kv/prefix_tree.h"

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"

namespace hearth {

namespace {

constexpr std::size_t kBlock = kKvBlockTokens;
constexpr std::size_t kEvictedRemembered = 4096;
constexpr std::size_t kWorthKeeping = 16;  // all prompts begin with the same few tokens: that is no use of a block

}  // namespace

PrefixTree::PrefixTree(BlockTree& tree, std::size_t block_limit, std::uint64_t hash_mask)
    : tree_(&tree),
      block_limit_(block_limit),
      hash_mask_(hash_mask),
      held_(tree.block_count()),
      freed_children_(tree.block_count()) {}

PrefixTree::~PrefixTree() {
    clear();
}

void PrefixTree::clear() {
    for (Node& node : nodes_) {
        if (node.used && node.block != kNone) tree_->let_go(node.block);
    }
    std::ranges::fill(held_, 0u);
    nodes_.clear();
    free_nodes_.clear();
    full_.clear();
    roots_.clear();
    used_ = 0;
}

std::uint64_t PrefixTree::hash_block(std::uint64_t before, Tokens tokens) const {
    return hash_bytes(std::as_bytes(tokens), before) & hash_mask_;
}

std::uint32_t PrefixTree::root_of(std::string_view scope) {
    const auto found = roots_.find(std::string(scope));
    if (found != roots_.end()) return found->second;
    const std::uint64_t hash = hash_bytes(std::as_bytes(std::span(scope)), 1) & hash_mask_;
    const std::uint32_t root = add_node(kNone, kNone, 0, hash);
    nodes_[root].scope = scope;
    roots_.emplace(std::string(scope), root);
    return root;
}

std::uint32_t PrefixTree::add_node(std::uint32_t parent, std::uint32_t block, std::uint32_t count, std::uint64_t hash) {
    std::uint32_t index = 0;
    if (free_nodes_.empty()) {
        index = static_cast<std::uint32_t>(nodes_.size());
        nodes_.emplace_back();
    } else {
        index = free_nodes_.back();
        free_nodes_.pop_back();
    }
    Node& node = nodes_[index];
    node.parent = parent;
    node.block = block;
    node.count = count;
    node.hash = hash;
    node.touched = tick_;
    node.used = true;
    if (block != kNone) {  // before anything that may run out of memory: clear() can then always put things right
        tree_->hold(block);
        ++held_[block];
        ++used_;
    }
    if (parent != kNone) nodes_[parent].children.push_back(index);
    if (count == kBlock) full_.emplace(hash, index);
    return index;
}

void PrefixTree::remove_node(std::uint32_t index) {
    Node& node = nodes_[index];
    DCHECK(node.used && node.children.empty());
    if (node.count == kBlock) {
        const auto [first, last] = full_.equal_range(node.hash);
        full_.erase(std::find_if(first, last, [&](const auto& entry) { return entry.second == index; }));
    }
    if (node.parent == kNone) {
        roots_.erase(node.scope);
    } else {
        std::erase(nodes_[node.parent].children, index);
    }
    if (node.block != kNone) {
        --held_[node.block];
        tree_->let_go(node.block);
        --used_;
    }
    node = Node{};
    free_nodes_.push_back(index);
}

// How many of `tokens` the block of a node begins with.
std::size_t PrefixTree::common(std::uint32_t node, Tokens tokens) const {
    const auto records = tree_->records(nodes_[node].block);
    const std::size_t limit = std::min<std::size_t>(nodes_[node].count, tokens.size());
    std::size_t count = 0;
    while (count < limit && records[count].token == tokens[count]) ++count;
    return count;
}

// The child with exactly these 64 tokens. The hash finds it, the tokens decide.
std::uint32_t PrefixTree::find_full(std::uint32_t parent, std::uint64_t hash, Tokens tokens) const {
    const auto [first, last] = full_.equal_range(hash);
    for (auto entry = first; entry != last; ++entry) {
        const std::uint32_t index = entry->second;
        if (nodes_[index].parent == parent && common(index, tokens) == kBlock) return index;
    }
    return kNone;
}

PrefixTree::Match PrefixTree::find(std::string_view scope, Tokens tokens, std::size_t limit) {
    Match match;
    const auto root = roots_.find(std::string(scope));
    std::uint32_t at = root != roots_.end() ? root->second : kNone;
    std::uint64_t hash = hash_bytes(std::as_bytes(std::span(scope)), 1) & hash_mask_;
    ++tick_;
    std::size_t matched = 0;
    std::uint32_t tip = kNone;
    bool evicted = false;
    while (matched < tokens.size()) {
        const Tokens rest = tokens.subspan(matched);
        if (rest.size() >= kBlock) {
            hash = hash_block(hash, rest.first(kBlock));
            const std::uint32_t child = at == kNone ? kNone : find_full(at, hash, rest.first(kBlock));
            if (child != kNone) {
                nodes_[child].touched = tick_;
                tip = nodes_[child].block;
                at = child;
                matched += kBlock;
                continue;
            }
            evicted = was_evicted(hash);
        }
        // No whole block any more: as much of one as there is.
        std::size_t longest = 0;
        std::uint32_t nearest = kNone;
        if (at != kNone) {
            for (const std::uint32_t child : nodes_[at].children) {
                const std::size_t count = common(child, rest);
                if (count > longest) {
                    longest = count;
                    nearest = child;
                }
            }
        }
        if (nearest != kNone) {
            tip = nodes_[nearest].block;
            if (longest >= kWorthKeeping) nodes_[nearest].touched = tick_;
        }
        matched += longest;
        break;
    }
    if (matched == 0) {
        match.note = evicted ? "evicted: the blocks were needed for other answers"
                             : "no prompt with this beginning in this scope";
        return match;
    }
    if (matched >= limit) {
        match.note = "found whole";
    } else if (evicted) {
        match.note = "evicted from token " + std::to_string(matched) + " on";
    } else {
        match.note = "differs from the nearest at token " + std::to_string(matched);
    }
    const std::uint32_t length = static_cast<std::uint32_t>(matched);
    tree_->hold(tip);
    match.chain = Chain{tip, length, length};
    if (limit < matched) tree_->truncate(match.chain, static_cast<std::uint32_t>(limit));
    return match;
}

void PrefixTree::insert(std::string_view scope, const Chain& chain, Tail tail) {
    const std::size_t full = chain.computed / kBlock;
    const std::size_t rest = tail == Tail::Keep ? chain.computed % kBlock : 0;
    if (full == 0 && rest == 0) return;
    const std::size_t blocks = (chain.length + kBlock - 1) / kBlock;
    table_.resize(std::max(table_.size(), blocks));
    tree_->write_block_table(chain, table_);
    ++tick_;
    block_tokens_.resize(kBlock);
    const auto tokens_of = [&](std::uint32_t block, std::size_t count) {
        const auto records = tree_->records(block);
        for (std::size_t i = 0; i < count; ++i) block_tokens_[i] = records[i].token;
        return Tokens(block_tokens_.data(), count);
    };
    std::uint32_t at = root_of(scope);
    for (std::size_t i = 0; i < full; ++i) {
        const Tokens tokens = tokens_of(table_[i], kBlock);
        const std::uint64_t hash = hash_block(nodes_[at].hash, tokens);
        std::uint32_t child = find_full(at, hash, tokens);
        if (child == kNone) {
            drop_covered(at, tokens);
            child = add_node(at, table_[i], static_cast<std::uint32_t>(kBlock), hash);
        }
        nodes_[child].touched = tick_;
        at = child;
    }
    if (rest > 0) keep_tail(at, table_[full], tokens_of(table_[full], rest));
    while (block_limit_ != 0 && used_ > block_limit_) {
        const std::uint32_t leaf = oldest_leaf(false);
        if (leaf == kNone) break;
        evict(leaf);
    }
}

void PrefixTree::keep_tail(std::uint32_t parent, std::uint32_t block, Tokens tokens) {
    for (const std::uint32_t child : nodes_[parent].children) {
        if (common(child, tokens) == tokens.size()) {
            nodes_[child].touched = tick_;
            return;
        }
    }
    drop_covered(parent, tokens);
    add_node(parent, block, static_cast<std::uint32_t>(tokens.size()), nodes_[parent].hash);
}

// A partial block that is the beginning of a longer one says nothing the longer one does not.
void PrefixTree::drop_covered(std::uint32_t parent, Tokens tokens) {
    for (std::size_t i = nodes_[parent].children.size(); i > 0; --i) {
        const std::uint32_t child = nodes_[parent].children[i - 1];
        if (nodes_[child].count < tokens.size() && common(child, tokens) == nodes_[child].count) remove_node(child);
    }
}

std::uint32_t PrefixTree::oldest_leaf(bool free_only) const {
    std::uint32_t oldest = kNone;
    for (std::uint32_t index = 0; index < nodes_.size(); ++index) {
        const Node& node = nodes_[index];
        if (!node.used || node.block == kNone || !node.children.empty()) continue;
        if (free_only && tree_->reference_count(node.block) > held_[node.block]) continue;
        if (oldest == kNone || node.touched < nodes_[oldest].touched) oldest = index;
    }
    return oldest;
}

void PrefixTree::evict(std::uint32_t leaf) {
    const Node& node = nodes_[leaf];
    const std::uint32_t parent = node.parent;
    if (node.count == kBlock) {
        if (evicted_.size() < kEvictedRemembered) {
            evicted_.push_back(node.hash);
        } else {
            evicted_[evicted_next_++ % kEvictedRemembered] = node.hash;
        }
    }
    remove_node(leaf);
    if (nodes_[parent].parent == kNone && nodes_[parent].children.empty()) remove_node(parent);
}

bool PrefixTree::evict_one() {
    const std::size_t before = tree_->blocks_free();
    while (tree_->blocks_free() == before) {  // a block kept in two scopes takes two rounds
        const std::uint32_t leaf = oldest_leaf(true);
        if (leaf == kNone) return false;
        evict(leaf);
    }
    return true;
}

bool PrefixTree::was_evicted(std::uint64_t hash) const {
    return std::ranges::find(evicted_, hash) != evicted_.end();
}

// A node's block can be freed when all its references come from here: its own, and those of blocks below it that can
// be freed as well.
std::size_t PrefixTree::evictable() {
    order_.clear();  // parents before children
    for (std::uint32_t index = 0; index < nodes_.size(); ++index) {
        if (nodes_[index].used && nodes_[index].parent == kNone) order_.push_back(index);
    }
    for (std::size_t i = 0; i < order_.size(); ++i) {
        for (const std::uint32_t child : nodes_[order_[i]].children) order_.push_back(child);
    }
    stays_.assign(nodes_.size(), false);  // itself or something below it
    std::size_t count = 0;
    for (std::size_t i = order_.size(); i > 0; --i) {
        const Node& node = nodes_[order_[i - 1]];
        if (node.block == kNone) continue;
        if (!stays_[order_[i - 1]] && tree_->reference_count(node.block) == 1 + freed_children_[node.block]) {
            ++count;
            if (tree_->parent(node.block) != kNone) ++freed_children_[tree_->parent(node.block)];
        } else {
            stays_[node.parent] = true;
        }
    }
    std::ranges::fill(freed_children_, 0u);
    return count;
}

}  // namespace hearth
