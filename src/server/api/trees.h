// Trees of timelines kept between requests: each node is a Sequence that shares its KV with its parent. They belong to
// the caller's key, a limited number is kept, and the one not used for the longest goes first.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/sequence.h"
#include "server/api/served_model.h"

namespace hearth {

struct TreeNode {
    std::size_t id = 0;
    std::optional<std::size_t> parent;  // the root has none
    std::string kind;                   // "prompt", "append", "sample", "fork"
    std::size_t base = 0;               // tokens before it
    std::vector<TokenId> tokens;        // its own
    std::vector<float> logprobs;        // of its own tokens when it was sampled with logprobs
    std::string text;
    std::string finish_reason;           // of a sampled one
    std::shared_ptr<Sequence> sequence;  // at its end; touched and dropped by the scheduler's thread only

    std::size_t end() const { return base + tokens.size(); }
};

struct Tree {
    std::string id;
    std::string scope;
    ServedModel* model = nullptr;
    std::int64_t created = 0;
    std::chrono::steady_clock::time_point used;
    std::size_t next_id = 0;
    std::vector<TreeNode> nodes;  // by id

    TreeNode* find(std::size_t node);
    bool has_children(std::size_t node) const;
    std::size_t token_count() const;
    std::size_t kv_blocks() const;  // at most
    // Why so many more nodes with so many tokens together have no room; empty: they have.
    std::string refusal(std::size_t more_nodes, std::size_t more_tokens) const;
    Json describe(const TreeNode& node) const;
    Json describe() const;
};

inline constexpr std::size_t kTreeNodeLimit = 4096;
inline constexpr std::size_t kTreeTokenLimit = std::size_t{1} << 20;  // of all nodes: each tells its own

class TreeStore {
public:
    TreeStore(std::size_t limit, std::chrono::seconds life) : limit_(limit), life_(life) {}

    // Adds a tree; those beyond the limits go, the least recently used first.
    void add(Tree tree);
    // Calls `act` with the tree of that id and scope under the lock; false: there is none.
    bool with(const std::string& id, const std::string& scope, const std::function<void(Tree&)>& act);
    bool remove(const std::string& id, const std::string& scope);
    std::vector<Json> list(const std::string& scope);
    std::size_t count() const { return count_; }  // never waits

private:
    using Trees = std::list<Tree>;
    void expire();                    // with the lock held
    void drop(Trees::iterator tree);  // with the lock held
    void make_room(ServedModel* model);

    const std::size_t limit_;
    const std::chrono::seconds life_;
    mutable std::mutex mutex_;
    Trees trees_;  // the most recently used first
    std::atomic<std::size_t> count_{0};
};

// What tokens [base, end) of `all` say: their text behind that of the tokens before them.
std::string text_between(const Tokenizer& tokenizer, std::span<const TokenId> all, std::size_t base);

}  // namespace hearth
