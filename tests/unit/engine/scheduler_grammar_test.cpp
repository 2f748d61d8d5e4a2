// Answers under a grammar: they follow it in company, as forks and after preemption, or they fail.
#include <gtest/gtest.h>

#include "scheduler_support.h"

namespace hearth {
namespace {

using namespace test;

class SchedulerGrammar : public ::testing::Test {
protected:
    std::string model_ = write_tiny_model("scheduler_grammar");
    std::shared_ptr<Engine> engine_ = load(100);

    std::shared_ptr<Engine> load(std::size_t blocks) {
        return load_engine(model_, {.threads = 2, .context = 512, .kv_blocks = blocks});
    }
    static AnswerRequest constrained(std::string_view gbnf, std::uint64_t seed, std::size_t prompt = 20) {
        AnswerRequest request = make_request(make_prompt(prompt, static_cast<std::uint32_t>(seed)), 150, drawing(seed));
        request.grammar = Grammar::from_gbnf(gbnf).value();
        request.ignore_end = false;
        return request;
    }
};

constexpr std::string_view kLetters = "root ::= (\"ab\" | \"cd\") {100} \".\"";

bool follows(const std::string& text) {
    for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
        if (text.substr(i, 2) != "ab" && text.substr(i, 2) != "cd") return text.substr(i) == ".";
    }
    return text.size() % 2 == 0 || text.ends_with('.');
}

TEST_F(SchedulerGrammar, AnAnswerFollowsItsGrammarToTheEnd) {
    Scheduler scheduler(engine_, {});
    const Submitted greedy_one = submit(scheduler, [] {
        AnswerRequest request = make_request(make_prompt(30), 0);
        request.grammar = Grammar::from_gbnf("root ::= \"yes\" | \"no\"").value();
        return request;
    }());
    const HeardChoice& heard = greedy_one.sink->wait_one();
    EXPECT_TRUE(heard.text == "yes" || heard.text == "no") << heard.text;
    EXPECT_EQ(heard.reason, FinishReason::EndOfText);
    EXPECT_FALSE(greedy_one.sink->error());
}

TEST_F(SchedulerGrammar, ManyTogetherAndTheirForksFollowTheirsAndSayWhatTheySayAlone) {
    std::vector<std::string> alone;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        Scheduler scheduler(engine_, {});
        alone.push_back(submit(scheduler, constrained(kLetters, seed)).sink->wait_one().text);
        EXPECT_TRUE(follows(alone.back())) << alone.back();
    }
    Scheduler scheduler(engine_, {});
    std::vector<Submitted> submitted;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) submitted.push_back(submit(scheduler, constrained(kLetters, seed)));
    AnswerRequest forked = constrained(kLetters, 1);
    forked.choices = 3;
    const Submitted choices = submit(scheduler, std::move(forked));
    const Submitted free = submit(scheduler, make_request(make_prompt(20, 9), 50));
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(submitted[i].sink->wait_one().text, alone[i]);
    EXPECT_EQ(choices.sink->wait().at(0).text, alone[0]);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(follows(choices.sink->wait().at(i).text)) << i;
    EXPECT_EQ(free.sink->wait_one().tokens.size(), 50u);
}

TEST_F(SchedulerGrammar, APreemptedAnswerKeepsItsPlaceInTheGrammar) {
    std::vector<std::string> alone;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        Scheduler scheduler(engine_, {});
        alone.push_back(submit(scheduler, constrained(kLetters, seed, 60)).sink->wait_one().text);
    }
    Scheduler scheduler(load(9), {});
    std::vector<Submitted> submitted;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        submitted.push_back(submit(scheduler, constrained(kLetters, seed, 60)));
    }
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(submitted[i].sink->wait_one().text, alone[i]) << i;
    EXPECT_GT(scheduler.stats().preemptions, 0u);
}

TEST_F(SchedulerGrammar, AnAnswerBeyondTheGrammarsLimitsFailsAndIsNeverLeftFree) {
    SchedulerOptions options;
    options.grammar.states = 3;
    Scheduler scheduler(engine_, options);
    const Submitted submitted = submit(scheduler, constrained(kLetters, 1));
    const HeardChoice& heard = submitted.sink->wait_one();
    EXPECT_EQ(heard.reason, FinishReason::Failed);
    ASSERT_TRUE(submitted.sink->error());
    EXPECT_NE(submitted.sink->error()->message, "");
    for (const char letter : heard.text) EXPECT_TRUE(letter >= 'a' && letter <= 'd') << heard.text;
    EXPECT_LE(heard.text.size(), 4u);
    const Submitted next = submit(scheduler, make_request(make_prompt(20), 5));
    EXPECT_EQ(next.sink->wait_one().tokens.size(), 5u);
}

}  // namespace
}  // namespace hearth
