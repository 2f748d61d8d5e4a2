// Parking and adopting: a timeline that gave its blocks back, or begins with another's, says what it would have said.
#include <gtest/gtest.h>

#include "engine/engine_state.h"
#include "engine_support.h"
#include "kv/prefix_tree.h"

namespace hearth {
namespace {

using namespace test;

class SequencePark : public ::testing::Test {
protected:
    std::shared_ptr<Engine> engine_ =
        load_engine(write_tiny_model("park"), {.threads = 2, .context = 512, .kv_blocks = 40});
    BlockTree& tree() { return *engine_->impl().tree; }
    TokenId byte(const char* text) { return engine_->tokenizer().find(text).value(); }
};

TEST_F(SequencePark, AParkedSequenceHoldsNoBlockAndGoesOnTheSame) {
    Sequence straight(engine_, greedy());
    ASSERT_TRUE(straight.append(make_prompt(100)).ok());
    const Generation expected = generate(*engine_, straight, 60);
    Sequence parked(engine_, greedy());
    ASSERT_TRUE(parked.append(make_prompt(100)).ok());
    Generation run;
    for (int i = 0; i < 30; ++i) decode_one(*engine_, parked, run);
    const std::size_t free = engine_->kv_blocks_free();
    parked.park();
    EXPECT_EQ(engine_->kv_blocks_free(), free + 3);
    ASSERT_TRUE(parked.unpark().ok());
    EXPECT_EQ(parked.computed(), 0u);
    EXPECT_EQ(parked.length(), 130u);
    for (int i = 0; i < 30; ++i) decode_one(*engine_, parked, run);
    EXPECT_EQ(run, expected);
}

TEST_F(SequencePark, WithoutBlocksItStaysParked) {
    Sequence parked(engine_, greedy());
    ASSERT_TRUE(parked.append(make_prompt(200)).ok());
    parked.park();
    std::vector<Sequence> others;
    for (std::uint32_t i = 0; i < 5; ++i) {
        others.emplace_back(engine_, greedy());
        ASSERT_TRUE(others.back().append(make_prompt(64 * (i == 4 ? 6 : 8), i + 2)).ok());
    }
    EXPECT_EQ(engine_->kv_blocks_free(), 2u);
    EXPECT_FALSE(parked.unpark().ok());
    EXPECT_TRUE(parked.parked());
    EXPECT_EQ(engine_->kv_blocks_free(), 2u);
    others.clear();
    ASSERT_TRUE(parked.unpark().ok());
    EXPECT_EQ(parked.tokens(), make_prompt(200));
}

TEST_F(SequencePark, TheTextHeldBackSurvives) {
    const auto stops = std::make_shared<const StopStrings>(std::vector<std::string>{"bcd"});
    Sequence sequence(engine_, greedy(), stops);
    ASSERT_TRUE(sequence.append(make_prompt(10)).ok());
    std::string text;
    ASSERT_TRUE(sequence.accept(byte("b"), text).ok());
    ASSERT_TRUE(sequence.accept(byte("<0xC3>"), text).ok());
    sequence.park();
    ASSERT_TRUE(sequence.unpark().ok());
    ASSERT_TRUE(sequence.accept(byte("<0xA9>"), text).ok());
    EXPECT_EQ(text, "b\xc3\xa9");
    const Time before = sequence.mark();
    ASSERT_TRUE(sequence.accept(byte("b"), text).ok());
    sequence.park();
    ASSERT_TRUE(sequence.unpark().ok());
    ASSERT_TRUE(sequence.accept(byte("c"), text).ok());
    ASSERT_TRUE(sequence.accept(byte("d"), text).ok());
    EXPECT_TRUE(sequence.stopped());
    EXPECT_EQ(text, "b\xc3\xa9");
    ASSERT_TRUE(sequence.regress(before).ok());
    EXPECT_FALSE(sequence.stopped());
}

TEST_F(SequencePark, AnAdoptedPrefixBringsNoTextStateOfItsFormerOwner) {
    PrefixTree prefix(tree());
    std::vector<TokenId> tokens;
    {
        const auto stops = std::make_shared<const StopStrings>(std::vector<std::string>{"ab"});
        Sequence former(engine_, greedy(), stops);
        ASSERT_TRUE(former.append(make_prompt(80)).ok());
        std::string text;
        ASSERT_TRUE(former.accept(byte("a"), text).ok());
        ASSERT_TRUE(former.accept(byte("b"), text).ok());
        EXPECT_TRUE(former.stopped());
        ASSERT_TRUE(forward_pending(*engine_, former).ok());
        tokens = former.tokens();
        prefix.insert("", former.chain(), Tail::Keep);
    }
    Sequence adopting(engine_, greedy(), std::make_shared<const StopStrings>(std::vector<std::string>{"x"}));
    adopting.adopt(prefix.find("", tokens, tokens.size()).chain);
    EXPECT_EQ(adopting.length(), 82u);
    EXPECT_EQ(adopting.computed(), 82u);
    EXPECT_FALSE(adopting.stopped());
    std::string text;
    ASSERT_TRUE(adopting.accept(byte("c"), text).ok());
    EXPECT_EQ(text, "c");
    ASSERT_TRUE(adopting.regress(Time{82}).ok());
    EXPECT_FALSE(adopting.stopped());
    ASSERT_TRUE(adopting.regress(Time{81}).ok());
    text.clear();
    ASSERT_TRUE(adopting.accept(byte("b"), text).ok());
    EXPECT_EQ(text, "b");
}

TEST_F(SequencePark, ANewAnswerOnATimelineUsesItsOwnStops) {
    Sequence sequence(engine_, greedy(), std::make_shared<const StopStrings>(std::vector<std::string>{"long stop"}));
    ASSERT_TRUE(sequence.append(make_prompt(10)).ok());
    std::string text;
    for (const char* letter : {"l", "o", "n"}) ASSERT_TRUE(sequence.accept(byte(letter), text).ok());
    EXPECT_EQ(text, "");
    sequence.begin_answer(greedy(), std::make_shared<const StopStrings>(std::vector<std::string>{"g"}));
    const Time start = sequence.mark();
    for (int round = 0; round < 2; ++round) {
        text.clear();
        ASSERT_TRUE(sequence.accept(byte("h"), text).ok());
        EXPECT_EQ(text, "h");
        ASSERT_TRUE(sequence.accept(byte("g"), text).ok());
        EXPECT_TRUE(sequence.stopped());
        ASSERT_TRUE(sequence.regress(start).ok());
    }
}

TEST(KvSize, ForServingIsWhatMemorySparesAndNeverLessThanAContext) {
    const std::string model = write_tiny_model("kv_size");
    const std::size_t one = load_engine(model, {.threads = 1})->kv_block_count();
    EngineOptions options{.threads = 1, .kv_size = KvSize::FreeMemory, .kv_bytes = 1};
    EXPECT_EQ(load_engine(model, options)->kv_block_count(), one);
    const std::size_t block_bytes = load_engine(model, options)->info().kv_layout().block_bytes();
    options.kv_bytes = 100 * block_bytes;
    EXPECT_EQ(load_engine(model, options)->kv_block_count(), 100u);
    options.kv_bytes = 0;
    EXPECT_GT(load_engine(model, options)->kv_block_count(), one);
}

}  // namespace
}  // namespace hearth
