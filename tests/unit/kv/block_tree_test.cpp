// The tree of KV blocks: sharing, copy-on-write, truncation, and that every reference comes back.
#include "kv/block_tree.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "backend/cpu/cpu_backend.h"

namespace hearth {
namespace {

class BlockTreeTest : public ::testing::Test {
protected:
    static constexpr std::size_t kBlocks = 64;
    ThreadPool pool_{1};
    CpuBackend backend_ = CpuBackend::create("reference", pool_).value();
    KvLayout layout_{2, 2, 4};
    BlockTree tree_ = BlockTree::create(backend_, layout_, kBlocks).value();

    void push(Chain& chain, std::int32_t token) { ASSERT_TRUE(tree_.push(chain, PositionRecord{token, {}}).ok()); }

    // Stands for a forward pass: writes `mark` as K and V of every pending position, in every layer and head.
    void compute(Chain& chain, const std::vector<std::int32_t>& marks) {
        ASSERT_TRUE(tree_.own_pending_blocks(chain).ok());
        std::vector<std::uint32_t> table(kBlocks);
        tree_.write_block_table(chain, table);
        for (; chain.computed < chain.length; ++chain.computed) {
            for (std::size_t i = 0; i < layout_.layers * 2 * layout_.kv_heads; ++i) {
                std::memcpy(cell(table, chain.computed, i), &marks[chain.computed], sizeof(std::int32_t));
            }
        }
    }
    void expect_computed(const Chain& chain, const std::vector<std::int32_t>& marks) {
        std::vector<std::uint32_t> table(kBlocks);
        tree_.write_block_table(chain, table);
        for (std::uint32_t position = 0; position < chain.computed; ++position) {
            for (std::size_t i = 0; i < layout_.layers * 2 * layout_.kv_heads; ++i) {
                std::int32_t mark = 0;
                std::memcpy(&mark, cell(table, position, i), sizeof mark);
                ASSERT_EQ(mark, marks[position]) << "position " << position;
            }
        }
    }
    std::byte* cell(const std::vector<std::uint32_t>& table, std::uint32_t position, std::size_t row) {
        return tree_.pool() + table[position / kKvBlockTokens] * layout_.block_bytes() + row * layout_.head_bytes() +
               position % kKvBlockTokens * layout_.position_bytes();
    }
};

TEST_F(BlockTreeTest, TakesABlockAtEveryMultipleOf64) {
    Chain chain;
    for (int i = 0; i < 129; ++i) push(chain, i);
    EXPECT_EQ(tree_.blocks_free(), kBlocks - 3);
    EXPECT_EQ(tree_.at(chain, 0).token, 0);
    EXPECT_EQ(tree_.at(chain, 63).token, 63);
    EXPECT_EQ(tree_.at(chain, 128).token, 128);
    tree_.release(chain);
    EXPECT_EQ(tree_.blocks_free(), kBlocks);
}

TEST_F(BlockTreeTest, AForkCopiesNothingUntilItWrites) {
    Chain chain;
    for (int i = 0; i < 100; ++i) push(chain, i);
    Chain sibling = tree_.fork(chain, 80);
    EXPECT_EQ(sibling.tip, chain.tip);
    EXPECT_EQ(tree_.blocks_free(), kBlocks - 2);
    push(sibling, -1);
    EXPECT_NE(sibling.tip, chain.tip);
    EXPECT_EQ(tree_.blocks_free(), kBlocks - 3);
    EXPECT_EQ(tree_.at(sibling, 79).token, 79);
    EXPECT_EQ(tree_.at(sibling, 80).token, -1);
    EXPECT_EQ(tree_.at(chain, 80).token, 80);
    tree_.release(sibling);
    tree_.release(chain);
    EXPECT_EQ(tree_.blocks_free(), kBlocks);
}

TEST_F(BlockTreeTest, AForkAtABlockBoundaryNeverCopies) {
    Chain chain;
    for (int i = 0; i < 128; ++i) push(chain, i);
    Chain sibling = tree_.fork(chain, 64);
    push(sibling, -1);
    EXPECT_EQ(tree_.blocks_free(), kBlocks - 3);
    EXPECT_EQ(tree_.reference_count(tree_.fork(sibling, 64).tip), 3u);  // two children and the chain just made
}

TEST_F(BlockTreeTest, RunningOutOfBlocksLeavesTheChainAsItWas) {
    Chain chain;
    for (std::size_t i = 0; i < kBlocks * kKvBlockTokens; ++i) push(chain, static_cast<std::int32_t>(i));
    const Status status = tree_.push(chain, PositionRecord{1, {}});
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::OutOfResources);
    EXPECT_EQ(chain.length, kBlocks * kKvBlockTokens);
    tree_.release(chain);
    EXPECT_EQ(tree_.blocks_free(), kBlocks);
}

TEST_F(BlockTreeTest, AForkOfAHalfComputedPromptGetsBlocksOfItsOwn) {
    std::vector<std::int32_t> marks(200);
    for (int i = 0; i < 200; ++i) marks[static_cast<std::size_t>(i)] = 1000 + i;
    Chain chain;
    for (int i = 0; i < 30; ++i) push(chain, i);
    compute(chain, marks);
    for (int i = 30; i < 200; ++i) push(chain, i);  // pending
    Chain sibling = tree_.fork(chain, 200);
    EXPECT_EQ(sibling.computed, 30u);
    compute(chain, marks);
    std::vector<std::int32_t> other = marks;
    for (std::size_t i = 30; i < 200; ++i) other[i] += 5000;
    compute(sibling, other);
    expect_computed(chain, marks);
    expect_computed(sibling, other);
    tree_.release(chain);
    tree_.release(sibling);
    EXPECT_EQ(tree_.blocks_free(), kBlocks);
}

TEST_F(BlockTreeTest, RandomForksAndRegressionsKeepEveryHistoryApart) {
    struct Line {
        Chain chain;
        std::vector<std::int32_t> marks;
    };
    std::mt19937 random(7);
    std::vector<Line> lines(1);
    std::int32_t next = 1;
    for (int round = 0; round < 3000; ++round) {
        Line& line = lines[random() % lines.size()];
        switch (random() % 4) {
            case 0:
                if (lines.size() < 5) {
                    const std::uint32_t at =
                        line.chain.length == 0 ? 0 : static_cast<std::uint32_t>(random() % (line.chain.length + 1));
                    Line sibling{tree_.fork(line.chain, at), {line.marks.begin(), line.marks.begin() + at}};
                    lines.push_back(std::move(sibling));
                } else {
                    tree_.release(line.chain);
                    std::swap(line, lines.back());
                    lines.pop_back();
                }
                break;
            case 1: {
                const std::uint32_t at =
                    line.chain.length == 0 ? 0 : static_cast<std::uint32_t>(random() % (line.chain.length + 1));
                tree_.truncate(line.chain, at);
                line.marks.resize(at);
                break;
            }
            default:
                for (std::size_t i = random() % 40; i > 0 && line.chain.length < 400; --i) {
                    push(line.chain, next);
                    line.marks.push_back(next++);
                }
                if (random() % 2 == 0) compute(line.chain, line.marks);
        }
        for (const Line& each : lines) {
            expect_computed(each.chain, each.marks);
            for (std::uint32_t i = 0; i < each.chain.length; ++i)
                ASSERT_EQ(tree_.at(each.chain, i).token, each.marks[i]);
        }
    }
    for (Line& line : lines) tree_.release(line.chain);
    EXPECT_EQ(tree_.blocks_free(), kBlocks);
}

}  // namespace
}  // namespace hearth
