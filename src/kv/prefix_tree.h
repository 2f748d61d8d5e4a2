// PrefixTree: what was computed for earlier prompts and answers, found again by its tokens. A node stands for one KV
// block and keeps it from being freed; the least recently used leaves go when blocks are needed. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kv/block_tree.h"

namespace hearth {

// Whether the last, partly filled block is kept as well. Somebody who goes on writing to it then has to copy it.
enum class Tail : bool { Leave, Keep };

class PrefixTree {
public:
    // What a search found. The chain is the caller's, to be released; its blocks stay while it lives.
    struct Match {
        Chain chain;       // all of it computed
        std::string note;  // why it is no longer, in words
    };

    // `tree` must outlive this. `block_limit`: blocks kept at most, 0: no limit. `hash_mask`: for tests that want
    // collisions.
    explicit PrefixTree(BlockTree& tree, std::size_t block_limit = 0, std::uint64_t hash_mask = ~std::uint64_t{0});
    PrefixTree(const PrefixTree&) = delete;
    PrefixTree& operator=(const PrefixTree&) = delete;
    ~PrefixTree();

    // The longest kept beginning of `tokens`, of at most `limit` positions, within a scope.
    Match find(std::string_view scope, std::span<const std::int32_t> tokens, std::size_t limit);

    // Keeps the computed full blocks of a chain, which goes on as it is.
    void insert(std::string_view scope, const Chain& chain, Tail tail = Tail::Leave);

    // Frees at least one block: the least recently used that nobody else holds. False when there is none.
    bool evict_one();
    void clear();

    std::size_t block_count() const { return used_; }  // kept, shared with running chains or not
    // Blocks evict_one() could free, one after another; those kept in two scopes at once are not counted.
    std::size_t evictable();

private:
    static constexpr std::uint32_t kNone = Chain::kNone;
    struct Node {
        std::uint32_t parent = kNone;  // kNone: a scope's root, which has no block
        std::uint32_t block = kNone;
        std::uint32_t count = 0;    // tokens of the block that belong to it; fewer than 64 only in a leaf
        std::uint64_t hash = 0;     // of the scope and all tokens up to here; of partial nodes: the parent's
        std::uint64_t touched = 0;  // tick of the last use; a parent is never older than its children
        std::vector<std::uint32_t> children;
        std::string scope;  // of a root
        bool used = false;
    };
    using Tokens = std::span<const std::int32_t>;

    std::uint32_t root_of(std::string_view scope);
    std::uint32_t add_node(std::uint32_t parent, std::uint32_t block, std::uint32_t count, std::uint64_t hash);
    void remove_node(std::uint32_t index);
    std::uint64_t hash_block(std::uint64_t before, Tokens tokens) const;
    std::size_t common(std::uint32_t node, Tokens tokens) const;
    std::uint32_t find_full(std::uint32_t parent, std::uint64_t hash, Tokens tokens) const;
    void keep_tail(std::uint32_t parent, std::uint32_t block, Tokens tokens);
    void drop_covered(std::uint32_t parent, Tokens tokens);
    std::uint32_t oldest_leaf(bool free_only) const;
    void evict(std::uint32_t leaf);
    bool was_evicted(std::uint64_t hash) const;

    BlockTree* tree_;
    std::size_t block_limit_;
    std::uint64_t hash_mask_;
    std::vector<Node> nodes_;
    std::vector<std::uint32_t> free_nodes_;
    std::unordered_multimap<std::uint64_t, std::uint32_t> full_;  // full blocks by hash
    std::unordered_map<std::string, std::uint32_t> roots_;        // by scope
    std::vector<std::uint64_t> evicted_;                          // a ring of hashes, to say that something was here
    std::size_t evicted_next_ = 0;
    std::size_t used_ = 0;
    std::uint64_t tick_ = 0;
    std::vector<std::uint32_t> table_;  // of the chain being inserted
    std::vector<std::int32_t> block_tokens_;
    std::vector<std::uint32_t> held_;            // by block: how many nodes hold it
    std::vector<std::uint32_t> freed_children_;  // by block; zero between calls of evictable()
    std::vector<std::uint32_t> order_;
    std::vector<bool> stays_;
};

}  // namespace hearth
