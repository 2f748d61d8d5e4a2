// The prefix tree: what is found again, in which scope, what is thrown away first, and that every block comes back.
#include "kv/prefix_tree.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "backend/cpu/cpu_backend.h"

namespace hearth {
namespace {

class PrefixTreeTest : public ::testing::Test {
protected:
    static constexpr std::size_t kBlocks = 32;
    ThreadPool pool_{1};
    CpuBackend backend_ = CpuBackend::create("reference", pool_).value();
    BlockTree blocks_ = BlockTree::create(backend_, KvLayout{1, 1, 4}, kBlocks).value();

    static std::vector<std::int32_t> run(std::size_t length, std::int32_t first = 0) {
        std::vector<std::int32_t> tokens(length);
        for (std::size_t i = 0; i < length; ++i) tokens[i] = first + static_cast<std::int32_t>(i);
        return tokens;
    }
    static std::vector<std::int32_t> joined(std::vector<std::int32_t> a, const std::vector<std::int32_t>& b) {
        a.insert(a.end(), b.begin(), b.end());
        return a;
    }
    Chain make(const std::vector<std::int32_t>& tokens) {
        Chain chain;
        extend(chain, tokens);
        return chain;
    }
    void extend(Chain& chain, const std::vector<std::int32_t>& tokens) {
        for (std::size_t i = chain.length; i < tokens.size(); ++i) {
            ASSERT_TRUE(blocks_.push(chain, PositionRecord{tokens[i], {}}).ok());
        }
        chain.computed = chain.length;
    }
    // Computes it and lets it end.
    void keep(PrefixTree& tree, const std::string& scope, const std::vector<std::int32_t>& tokens) {
        Chain chain = make(tokens);
        tree.insert(scope, chain, Tail::Keep);
        blocks_.release(chain);
    }
    std::size_t found(PrefixTree& tree, const std::string& scope, const std::vector<std::int32_t>& tokens) {
        PrefixTree::Match match = tree.find(scope, tokens, tokens.size());
        for (std::uint32_t i = 0; i < match.chain.length; ++i) EXPECT_EQ(blocks_.at(match.chain, i).token, tokens[i]);
        note_ = match.note;
        const std::size_t length = match.chain.length;
        blocks_.release(match.chain);
        return length;
    }
    std::string note_;
};

TEST_F(PrefixTreeTest, FindsTheLongestCommonBeginning) {
    PrefixTree tree(blocks_);
    keep(tree, "", run(200));
    EXPECT_EQ(found(tree, "", run(200)), 200u);
    EXPECT_EQ(found(tree, "", run(300)), 200u);
    EXPECT_EQ(found(tree, "", run(130)), 130u);
    EXPECT_EQ(found(tree, "", run(10)), 10u);
    EXPECT_EQ(found(tree, "", joined(run(150), run(50, 9000))), 150u);
    EXPECT_EQ(note_, "differs from the nearest at token 150");
    EXPECT_EQ(found(tree, "", run(100, 1)), 0u);
    EXPECT_EQ(note_, "no prompt with this beginning in this scope");
}

TEST_F(PrefixTreeTest, GivesNoMoreThanTheLimit) {
    PrefixTree tree(blocks_);
    keep(tree, "", run(128));
    for (const std::size_t limit : {127u, 64u, 1u, 0u}) {
        PrefixTree::Match match = tree.find("", run(128), limit);
        EXPECT_EQ(match.chain.length, limit);
        EXPECT_EQ(match.chain.computed, limit);
        blocks_.release(match.chain);
    }
}

TEST_F(PrefixTreeTest, ScopesDoNotSeeEachOther) {
    PrefixTree tree(blocks_);
    keep(tree, "a", run(100));
    EXPECT_EQ(found(tree, "b", run(100)), 0u);
    EXPECT_EQ(found(tree, "a", run(100)), 100u);
}

TEST_F(PrefixTreeTest, ACollisionIsAMiss) {
    PrefixTree tree(blocks_, 0, 0);  // every hash is 0
    keep(tree, "a", run(200));
    keep(tree, "a", run(200, 5000));
    EXPECT_EQ(found(tree, "a", run(200)), 200u);
    EXPECT_EQ(found(tree, "a", run(200, 5000)), 200u);
    EXPECT_EQ(found(tree, "a", run(200, 7000)), 0u);
    EXPECT_EQ(found(tree, "b", run(200)), 0u);
    EXPECT_EQ(found(tree, "a", joined(run(64), run(64, 5064))), 64u);  // the second block of the other one
}

TEST_F(PrefixTreeTest, WhatIsKeptTwiceTakesItsBlocksOnce) {
    PrefixTree tree(blocks_);
    keep(tree, "", run(200));
    EXPECT_EQ(tree.block_count(), 4u);
    keep(tree, "", run(200));
    EXPECT_EQ(tree.block_count(), 4u);
    EXPECT_EQ(blocks_.blocks_free(), kBlocks - 4);
    // A longer one takes the place of the partial block it begins with.
    PrefixTree::Match match = tree.find("", run(260), 260);
    extend(match.chain, run(260));
    tree.insert("", match.chain, Tail::Keep);
    blocks_.release(match.chain);
    EXPECT_EQ(tree.block_count(), 5u);
    EXPECT_EQ(blocks_.blocks_free(), kBlocks - 5);
    EXPECT_EQ(found(tree, "", run(260)), 260u);
}

TEST_F(PrefixTreeTest, TheLeastRecentlyUsedGoesFirstAndFromItsEnd) {
    PrefixTree tree(blocks_);
    keep(tree, "", run(128));
    keep(tree, "", run(128, 1000));
    keep(tree, "", run(128, 2000));
    EXPECT_EQ(found(tree, "", run(128)), 128u);  // used again
    EXPECT_EQ(tree.evictable(), 6u);
    ASSERT_TRUE(tree.evict_one());
    EXPECT_EQ(found(tree, "", run(128, 1000)), 64u);
    EXPECT_EQ(note_, "evicted from token 64 on");
    ASSERT_TRUE(tree.evict_one());
    ASSERT_TRUE(tree.evict_one());
    EXPECT_EQ(found(tree, "", run(128, 2000)), 0u);
    EXPECT_EQ(note_, "evicted: the blocks were needed for other answers");
    EXPECT_EQ(found(tree, "", run(128)), 128u);
    EXPECT_EQ(found(tree, "", run(128, 1000)), 64u);
}

TEST_F(PrefixTreeTest, BlocksInUseAreNotEvicted) {
    PrefixTree tree(blocks_);
    keep(tree, "", run(128));
    PrefixTree::Match match = tree.find("", run(128), 100);  // both blocks
    EXPECT_EQ(tree.evictable(), 0u);
    EXPECT_FALSE(tree.evict_one());
    blocks_.release(match.chain);
    EXPECT_EQ(tree.evictable(), 2u);
    EXPECT_TRUE(tree.evict_one());
    EXPECT_TRUE(tree.evict_one());
    EXPECT_FALSE(tree.evict_one());
    EXPECT_EQ(blocks_.blocks_free(), kBlocks);
}

TEST_F(PrefixTreeTest, ABlockKeptInTwoScopesIsFreedInTheEnd) {
    PrefixTree tree(blocks_);
    Chain chain = make(run(64));
    tree.insert("a", chain);
    tree.insert("b", chain);
    blocks_.release(chain);
    EXPECT_TRUE(tree.evict_one());
    EXPECT_EQ(blocks_.blocks_free(), kBlocks);
    EXPECT_EQ(tree.block_count(), 0u);
}

TEST_F(PrefixTreeTest, KeepsNoMoreBlocksThanItMay) {
    PrefixTree tree(blocks_, 3);
    for (std::int32_t i = 0; i < 5; ++i) keep(tree, "", run(128, 1000 * i));
    EXPECT_EQ(tree.block_count(), 3u);
    EXPECT_EQ(blocks_.blocks_free(), kBlocks - 3);
    EXPECT_EQ(found(tree, "", run(128, 4000)), 128u);
    EXPECT_EQ(found(tree, "", run(128)), 0u);
}

TEST_F(PrefixTreeTest, GivesWayWhenAChainNeedsABlock) {
    PrefixTree tree(blocks_);
    blocks_.set_reclaimer([&] { return tree.evict_one(); });
    for (std::int32_t i = 0; i < 20; ++i) keep(tree, "", run(64 * 5, 1000 * i));
    Chain chain = make(run(64 * kBlocks, 90'000));  // all of them
    EXPECT_EQ(tree.block_count(), 0u);
    EXPECT_FALSE(blocks_.push(chain, PositionRecord{1, {}}).ok());
    blocks_.release(chain);
    blocks_.set_reclaimer({});
    EXPECT_EQ(blocks_.blocks_free(), kBlocks);
}

TEST_F(PrefixTreeTest, RandomUseLosesNoBlockAndFindsWhatAListFinds) {
    std::mt19937 random(5);
    {
        PrefixTree tree(blocks_, 0, 3);  // four hashes
        std::vector<std::vector<std::int32_t>> kept;
        for (int round = 0; round < 300; ++round) {
            std::vector<std::int32_t> tokens(1 + random() % 150);
            for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % 2);
            if (!kept.empty() && random() % 2 == 0) {  // goes on after a known beginning
                const std::vector<std::int32_t>& old = kept[random() % kept.size()];
                tokens =
                    joined({old.begin(), old.begin() + static_cast<std::ptrdiff_t>(random() % old.size())}, tokens);
                if (tokens.size() > 300) tokens.resize(300);
            }
            std::size_t longest = 0;
            for (const std::vector<std::int32_t>& old : kept) {
                std::size_t same = 0;
                while (same < old.size() && same < tokens.size() && old[same] == tokens[same]) ++same;
                longest = std::max(longest, same);
            }
            ASSERT_EQ(found(tree, "", tokens), longest);
            PrefixTree::Match match = tree.find("", tokens, tokens.size() - 1);
            while (blocks_.blocks_free() < 8) {
                ASSERT_TRUE(tree.evict_one());
                kept.clear();
            }
            extend(match.chain, tokens);
            if (kept.empty()) tree.clear();
            tree.insert("", match.chain, Tail::Keep);
            kept.push_back(tokens);
            blocks_.release(match.chain);
        }
    }
    EXPECT_EQ(blocks_.blocks_free(), kBlocks);
}

}  // namespace
}  // namespace hearth
