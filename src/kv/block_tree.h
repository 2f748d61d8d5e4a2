// Paged history: blocks of 64 positions in a tree. A node holds the tokens of its positions and owns the KV block of
// the same number; a sequence is a Chain from its tip to the root. Forking shares the tip, whatever the length; a
// shared block is copied by whoever writes to it first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/memory.h"
#include "base/result.h"
#include "tensor/attention.h"

namespace hearth {

// What is remembered of one position besides its K and V.
struct PositionRecord {
    std::int32_t token = 0;
    std::array<std::byte, 16> note{};  // whatever the owner of the sequence wants back when it returns here
};

// One timeline through the tree. A value without an owner: BlockTree::release gives its blocks back.
struct Chain {
    static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

    std::uint32_t tip = kNone;   // node of the last position
    std::uint32_t length = 0;    // positions recorded
    std::uint32_t computed = 0;  // of these, how many have their K and V
};

class BlockTree {
public:
    static Result<BlockTree> create(Backend& backend, const KvLayout& layout, std::size_t block_count);

    // Adds a position. Takes a new block at every multiple of 64, copies the last one if it is shared.
    // OutOfResources when no block is free; the chain is then unchanged.
    Status push(Chain& chain, const PositionRecord& record);

    // Goes back to `length` positions; blocks nobody else uses become free.
    void truncate(Chain& chain, std::uint32_t length);
    void release(Chain& chain) { truncate(chain, 0); }

    // A sibling that shares the first `length` positions: no byte is copied, the cost does not depend on the length.
    // Positions recorded but not computed are not shared by two writers: they are copied when one of them is computed.
    Chain fork(const Chain& chain, std::uint32_t length);

    // Before K and V of positions [computed, length) are written: makes their blocks this chain's own.
    Status own_pending_blocks(Chain& chain);

    const PositionRecord& at(const Chain& chain, std::uint32_t position) const;

    // The block of each 64 positions, as attention wants it; `table` has room for them. Entries below `first` are left
    // as they are.
    void write_block_table(const Chain& chain, std::span<std::uint32_t> table, std::size_t first = 0) const;

    // For who keeps blocks beyond the life of a chain: one reference more, one fewer.
    void hold(std::uint32_t block) {
        ++nodes_[block].references;
        ++changes_;
    }
    void let_go(std::uint32_t block) { drop(block); }
    std::span<const PositionRecord, kKvBlockTokens> records(std::uint32_t block) const { return nodes_[block].records; }
    std::uint32_t parent(std::uint32_t block) const { return nodes_[block].parent; }

    // Asked when no block is free, before that becomes an error: frees some, or says false. It must not touch chains.
    void set_reclaimer(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }

    std::byte* pool() { return pool_.data(); }
    const KvLayout& layout() const { return layout_; }
    std::size_t block_count() const { return nodes_.size(); }
    std::size_t blocks_free() const { return free_.size(); }
    std::uint64_t changes() const { return changes_; }  // grows whenever a block is taken, shared or let go
    std::uint32_t reference_count(std::uint32_t block) const { return nodes_[block].references; }

private:
    struct Node {
        std::uint32_t parent = Chain::kNone;
        std::uint32_t references = 0;  // children, and chains whose tip it is
        std::array<PositionRecord, kKvBlockTokens> records;
    };
    Result<std::uint32_t> take_block();
    void drop(std::uint32_t block);  // one reference fewer; frees it and goes on with its parent at zero
    Result<std::uint32_t> copy_block(std::uint32_t block, std::size_t positions, std::size_t computed);
    std::uint32_t block_of(const Chain& chain, std::uint32_t position) const;

    Backend* backend_ = nullptr;  // owned by the engine
    KvLayout layout_;
    Reservation pool_;
    std::vector<Node> nodes_;
    std::vector<std::uint32_t> free_;
    std::uint64_t changes_ = 0;
    std::function<bool()> reclaim_;
};

}  // namespace hearth
