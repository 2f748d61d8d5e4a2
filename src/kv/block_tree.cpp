#include "kv/block_tree.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace hearth {

namespace {

constexpr std::uint32_t kBlock = static_cast<std::uint32_t>(kKvBlockTokens);

// Blocks needed for `length` positions.
std::uint32_t blocks_for(std::uint32_t length) {
    return (length + kBlock - 1) / kBlock;
}

}  // namespace

Result<BlockTree> BlockTree::create(Backend& backend, const KvLayout& layout, std::size_t block_count) {
    CHECK(block_count > 0 && block_count < Chain::kNone);
    BlockTree tree;
    tree.backend_ = &backend;
    tree.layout_ = layout;
    tree.pool_ = TRY(backend.allocate(block_count * layout.block_bytes()));
    tree.nodes_.resize(block_count);
    tree.free_.reserve(block_count);
    for (std::size_t i = block_count; i > 0; --i) tree.free_.push_back(static_cast<std::uint32_t>(i - 1));
    return tree;
}

Result<std::uint32_t> BlockTree::take_block() {
    if (free_.empty() && (!reclaim_ || !reclaim_())) {
        return Error{ErrorCode::OutOfResources,
                     "all " + std::to_string(nodes_.size()) + " KV blocks of 64 positions are in use"};
    }
    const std::uint32_t block = free_.back();
    free_.pop_back();
    ++changes_;
    nodes_[block].parent = Chain::kNone;
    nodes_[block].references = 1;
    return block;
}

void BlockTree::drop(std::uint32_t block) {
    ++changes_;
    while (block != Chain::kNone) {
        Node& node = nodes_[block];
        DCHECK(node.references > 0);
        if (--node.references > 0) return;
        free_.push_back(block);
        block = node.parent;
    }
}

// A block of its own with the first `positions` records and `computed` K and V positions of another one.
Result<std::uint32_t> BlockTree::copy_block(std::uint32_t block, std::size_t positions, std::size_t computed) {
    const std::uint32_t copy = TRY(take_block());
    const Node& from = nodes_[block];
    Node& to = nodes_[copy];
    std::copy_n(from.records.begin(), positions, to.records.begin());
    to.parent = from.parent;
    if (to.parent != Chain::kNone) ++nodes_[to.parent].references;
    if (computed > 0) {
        const std::byte* source = pool_.data() + block * layout_.block_bytes();
        std::byte* target = pool_.data() + copy * layout_.block_bytes();
        const std::size_t rows = layout_.layers * 2 * layout_.kv_heads;
        for (std::size_t i = 0; i < rows; ++i) {
            const std::size_t offset = i * layout_.head_bytes();
            backend_->copy(target + offset, source + offset, computed * layout_.position_bytes());
        }
    }
    return copy;
}

Status BlockTree::push(Chain& chain, const PositionRecord& record) {
    const std::uint32_t inside = chain.length % kBlock;
    if (inside == 0) {
        const std::uint32_t block = TRY(take_block());
        nodes_[block].parent = chain.tip;  // the chain's reference to its old tip becomes the child's
        chain.tip = block;
    } else if (nodes_[chain.tip].references > 1) {
        const std::uint32_t begin = chain.length - inside;
        const std::uint32_t computed = chain.computed > begin ? chain.computed - begin : 0;
        const std::uint32_t copy = TRY(copy_block(chain.tip, inside, computed));
        drop(chain.tip);
        chain.tip = copy;
    }
    nodes_[chain.tip].records[inside] = record;
    ++chain.length;
    return {};
}

void BlockTree::truncate(Chain& chain, std::uint32_t length) {
    CHECK(length <= chain.length);
    const std::uint32_t keep = blocks_for(length);
    std::uint32_t tip = chain.tip;
    if (keep == 0) {
        tip = Chain::kNone;
    } else {
        for (std::uint32_t blocks = blocks_for(chain.length); blocks > keep; --blocks) tip = nodes_[tip].parent;
    }
    if (tip != chain.tip) {
        if (tip != Chain::kNone) ++nodes_[tip].references;
        drop(chain.tip);  // goes on to the first block somebody else, or the new tip, still holds
        chain.tip = tip;
    }
    chain.length = length;
    chain.computed = std::min(chain.computed, length);
}

Chain BlockTree::fork(const Chain& chain, std::uint32_t length) {
    CHECK(length <= chain.length);
    Chain sibling{chain.tip, chain.length, chain.computed};
    if (sibling.tip != Chain::kNone) hold(sibling.tip);
    truncate(sibling, length);
    return sibling;
}

Status BlockTree::own_pending_blocks(Chain& chain) {
    if (chain.computed == chain.length) return {};
    std::uint32_t child = Chain::kNone;
    std::uint32_t block = chain.tip;
    for (std::uint32_t index = blocks_for(chain.length); index > chain.computed / kBlock; --index) {
        if (nodes_[block].references > 1) {
            const std::uint32_t begin = (index - 1) * kBlock;
            const std::uint32_t computed = chain.computed > begin ? chain.computed - begin : 0;
            const std::uint32_t positions = std::min(chain.length - begin, kBlock);
            const std::uint32_t copy = TRY(copy_block(block, positions, computed));
            (child == Chain::kNone ? chain.tip : nodes_[child].parent) = copy;
            drop(block);
            block = copy;
        }
        child = block;
        block = nodes_[block].parent;
    }
    return {};
}

std::uint32_t BlockTree::block_of(const Chain& chain, std::uint32_t position) const {
    CHECK(position < chain.length);
    std::uint32_t block = chain.tip;
    for (std::uint32_t index = (chain.length - 1) / kBlock; index > position / kBlock; --index)
        block = nodes_[block].parent;
    return block;
}

const PositionRecord& BlockTree::at(const Chain& chain, std::uint32_t position) const {
    return nodes_[block_of(chain, position)].records[position % kBlock];
}

void BlockTree::write_block_table(const Chain& chain, std::span<std::uint32_t> table, std::size_t first) const {
    std::uint32_t block = chain.tip;
    for (std::size_t index = blocks_for(chain.length); index > first; --index) {
        table[index - 1] = block;
        block = nodes_[block].parent;
    }
}

}  // namespace hearth
