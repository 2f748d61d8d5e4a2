#include "server/api/trees.h"

#include <algorithm>

namespace hearth {

namespace {

constexpr std::size_t kBlockTokens = 64;

// A share of the KV that trees may keep from the running answers.
constexpr std::size_t kTreeShareDivisor = 2;

}  // namespace

TreeNode* Tree::find(std::size_t node) {
    const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const TreeNode& one) { return one.id == node; });
    return found == nodes.end() ? nullptr : &*found;
}

bool Tree::has_children(std::size_t node) const {
    return std::any_of(nodes.begin(), nodes.end(), [&](const TreeNode& one) { return one.parent == node; });
}

std::size_t Tree::token_count() const {
    std::size_t tokens = 0;
    for (const TreeNode& node : nodes) tokens += node.tokens.size();
    return tokens;
}

std::string Tree::refusal(std::size_t more_nodes, std::size_t more_tokens) const {
    if (nodes.size() + more_nodes > kTreeNodeLimit) {
        return "the tree has " + std::to_string(nodes.size()) + " nodes and may have " +
               std::to_string(kTreeNodeLimit) + " at most";
    }
    const std::size_t tokens = token_count();
    if (tokens + more_tokens > kTreeTokenLimit) {
        return "the nodes of the tree have " + std::to_string(tokens) + " tokens and may have " +
               std::to_string(kTreeTokenLimit) + " at most";
    }
    return {};
}

std::size_t Tree::kv_blocks() const {
    std::size_t blocks = 0;
    for (const TreeNode& node : nodes) blocks += node.tokens.size() / kBlockTokens + 2;
    return blocks;
}

Json Tree::describe(const TreeNode& node) const {
    Json::Object object{{"id", std::uint64_t{node.id}},
                        {"parent", node.parent ? Json(std::uint64_t{*node.parent}) : Json()},
                        {"kind", node.kind},
                        {"text", node.text},
                        {"tokens", Json(Json::Array(node.tokens.begin(), node.tokens.end()))},
                        {"length", std::uint64_t{node.end()}}};
    if (!node.logprobs.empty()) {
        object.emplace_back("logprobs", Json(Json::Array(node.logprobs.begin(), node.logprobs.end())));
    }
    if (!node.finish_reason.empty()) object.emplace_back("finish_reason", node.finish_reason);
    return Json(std::move(object));
}

Json Tree::describe() const {
    Json::Array list;
    for (const TreeNode& node : nodes) list.push_back(describe(node));
    return Json::Object{
        {"id", id}, {"object", "tree"}, {"model", model->name}, {"created", created}, {"nodes", Json(std::move(list))}};
}

void TreeStore::drop(Trees::iterator tree) {
    std::vector<std::shared_ptr<Sequence>> sequences;
    for (TreeNode& node : tree->nodes) sequences.push_back(std::move(node.sequence));
    ServedModel* model = tree->model;
    trees_.erase(tree);
    count_ = trees_.size();
    // The last references must go on the thread that owns the sequences.
    model->scheduler.run_between_steps([kept = std::move(sequences)]() mutable { kept.clear(); });
}

void TreeStore::expire() {
    const auto now = std::chrono::steady_clock::now();
    while (!trees_.empty() && now - trees_.back().used > life_) drop(std::prev(trees_.end()));
}

void TreeStore::make_room(ServedModel* model) {
    while (trees_.size() > limit_) drop(std::prev(trees_.end()));
    const std::size_t share = model->engine->kv_block_count() / kTreeShareDivisor;
    const auto used = [&] {
        std::size_t blocks = 0;
        for (const Tree& tree : trees_) blocks += tree.model == model ? tree.kv_blocks() : 0;
        return blocks;
    };
    while (trees_.size() > 1 && used() > share) {
        auto last = std::prev(trees_.end());
        while (last != trees_.begin() && last->model != model) --last;
        if (last == trees_.begin()) return;
        drop(last);
    }
}

void TreeStore::add(Tree tree) {
    const std::scoped_lock lock(mutex_);
    expire();
    tree.used = std::chrono::steady_clock::now();
    ServedModel* model = tree.model;
    trees_.push_front(std::move(tree));
    count_ = trees_.size();
    make_room(model);
}

bool TreeStore::with(const std::string& id, const std::string& scope, const std::function<void(Tree&)>& act) {
    const std::scoped_lock lock(mutex_);
    expire();
    const auto found = std::find_if(trees_.begin(), trees_.end(),
                                    [&](const Tree& tree) { return tree.id == id && tree.scope == scope; });
    if (found == trees_.end()) return false;
    found->used = std::chrono::steady_clock::now();
    trees_.splice(trees_.begin(), trees_, found);
    act(trees_.front());
    make_room(trees_.front().model);
    return true;
}

bool TreeStore::remove(const std::string& id, const std::string& scope) {
    const std::scoped_lock lock(mutex_);
    const auto found = std::find_if(trees_.begin(), trees_.end(),
                                    [&](const Tree& tree) { return tree.id == id && tree.scope == scope; });
    if (found == trees_.end()) return false;
    drop(found);
    return true;
}

std::vector<Json> TreeStore::list(const std::string& scope) {
    const std::scoped_lock lock(mutex_);
    expire();
    std::vector<Json> all;
    for (const Tree& tree : trees_) {
        if (tree.scope != scope) continue;
        all.push_back(Json::Object{{"id", tree.id},
                                   {"object", "tree"},
                                   {"model", tree.model->name},
                                   {"created", tree.created},
                                   {"node_count", std::uint64_t{tree.nodes.size()}}});
    }
    return all;
}

std::string text_between(const Tokenizer& tokenizer, std::span<const TokenId> all, std::size_t base) {
    const std::string before = tokenizer.decode(all.first(base));
    const std::string whole = tokenizer.decode(all);
    return whole.substr(std::min(before.size(), whole.size()));
}

}  // namespace hearth
