// Grammars and schemas made to hurt: each must be refused, or work within its limits. Sizes are such that anything but
// a bounded answer would not come back.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "unit/text/grammar_testing.h"

namespace hearth {
namespace {

using namespace testing_grammar;

std::string repeated(const std::string& text, std::size_t times) {
    std::string out;
    for (std::size_t i = 0; i < times; ++i) out += text;
    return out;
}

std::string refusal(const std::string& source) {
    const Result<GrammarPointer> grammar = Grammar::from_gbnf(source);
    return grammar.ok() ? "" : grammar.error().message;
}

TEST(GrammarLimits, RefuseDeepNesting) {
    EXPECT_NE(refusal("root ::= " + repeated("(", 60'000) + "\"a\"" + repeated(")", 60'000)).find("nested too deeply"),
              std::string::npos);
    EXPECT_NE(refusal("root ::= " + repeated("(", 60'000)).find("nested too deeply"), std::string::npos);
    EXPECT_EQ(refusal("root ::= " + repeated("(", 100) + "\"a\"" + repeated(")*", 100)), "");
}

TEST(GrammarLimits, RefuseLongSources) {
    EXPECT_NE(refusal("root ::= \"" + repeated("a", 300'000) + "\"").find("too long"), std::string::npos);
    EXPECT_NE(refusal("root ::= " + repeated("[a-z]", 50'000)).find("too large"), std::string::npos);
    EXPECT_NE(refusal("root ::= " + repeated("\"a\" |", 40'000) + "\"b\""), "nothing");  // may pass: one node suffices
}

TEST(GrammarLimits, TakeHugeRepetitionsWithoutWritingThemOut) {
    const GrammarPointer grammar = gbnf("root ::= (([a-z] [0-9]){0,1000000000} \"!\"){1,1000000000}");
    EXPECT_EQ(judge(grammar, repeated("a1", 500) + "!" + repeated("b2", 20) + "!"), Outcome::Accepted);
    EXPECT_EQ(judge(grammar, "aa"), Outcome::Rejected);
}

TEST(GrammarLimits, HandleLoopsOfNothing) {
    EXPECT_EQ(judge(gbnf("root ::= ((\"a\"*)*)*"), "aaaa"), Outcome::Accepted);
    EXPECT_EQ(judge(gbnf("root ::= ((\"a\"?){1000000}){1000000}"), "aaaa"), Outcome::Accepted);
    EXPECT_EQ(judge(gbnf("root ::= (e e)* \"x\"\ne ::= \"\"?"), "x"), Outcome::Accepted);
}

// Each rule may begin with an 'x' or go to the next.
std::string chain_of_rules(int length) {
    std::string out = "root ::= r0 \"!\"\n";
    for (int i = 0; i < length; ++i) {
        out += "r" + std::to_string(i) + " ::= \"x\"? r" + std::to_string(i + 1) + "\n";
    }
    return out + "r" + std::to_string(length) + " ::= \"y\"\n";
}

TEST(GrammarLimits, FollowLongChainsOfRules) {
    EXPECT_EQ(judge(gbnf(chain_of_rules(600)), repeated("x", 600) + "y!"), Outcome::Accepted);
    EXPECT_EQ(judge(gbnf(chain_of_rules(600)), repeated("x", 601)), Outcome::Rejected);
    EXPECT_NE(refusal(chain_of_rules(600) + "last ::= last").find("left-recursive"), std::string::npos);
    // More ways at one place than a state may hold.
    TokenGrammar tokens(gbnf(chain_of_rules(6'000)), single_bytes().trie);
    const Result<std::span<const std::uint64_t>> mask = tokens.mask(TokenGrammar::kStart);
    ASSERT_FALSE(mask.ok());
    EXPECT_EQ(mask.error().code, ErrorCode::OutOfResources);
}

TEST(GrammarLimits, ShareStacksOfAmbiguousGrammars) {
    // Each 'a' has two meanings that only the way back tells apart: 2^n stacks, n shared nodes.
    const GrammarPointer two = gbnf("root ::= \"a\" root \"x\" | \"a\" root \"y\" | \"a\" root (\"x\" \"y\")  | \"!\"");
    EXPECT_EQ(judge(two, repeated("a", 400) + "!" + repeated("x", 200) + repeated("y", 200)), Outcome::Accepted);
    const GrammarPointer catalan =
        gbnf("root ::= \"a\" | \"(\" root root \")\" | \"(\" root root root \")\" | \"(\" root \")\"");
    EXPECT_EQ(judge(catalan, repeated("(", 50) + "a" + repeated(")", 50)), Outcome::Accepted);
    const GrammarPointer left = gbnf(
        "root ::= x \"1\" | y \"2\"\nx ::= z \"3\" | w \"4\"\ny ::= z \"5\" | w \"6\"\n"
        "z ::= \"a\" x? \nw ::= \"a\" y?\n");
    EXPECT_EQ(judge(left, "aaaa35351"), judge(left, "aaaa35351"));
}

TEST(GrammarLimits, StopAtTooManyStatesAndTooDeepTexts) {
    GrammarLimits limits;
    limits.states = 300;
    TokenGrammar tokens(gbnf("root ::= \"a\" root \"b\" | \"c\""), single_bytes().trie, limits);
    TokenGrammar::State state = TokenGrammar::kStart;
    std::size_t length = 0;
    for (; length < 10'000; ++length) {
        const Result<TokenGrammar::State> next = tokens.advance(state, 'a');
        if (!next.ok()) {
            EXPECT_EQ(next.error().code, ErrorCode::OutOfResources);
            break;
        }
        state = next.value();
    }
    EXPECT_LT(length, 300u);
    EXPECT_GT(length, 50u);
    TokenGrammar deep(gbnf("root ::= \"a\" root \"b\" | \"c\""), single_bytes().trie);
    state = TokenGrammar::kStart;
    for (length = 0; length < 10'000; ++length) {
        const Result<TokenGrammar::State> next = deep.advance(state, 'a');
        if (!next.ok()) break;
        state = next.value();
    }
    EXPECT_LT(length, 2'000u);
}

TEST(GrammarLimits, BearGrammarsWhoseSubsetsAreMany) {
    // The 40th letter from the end: 2^40 subsets if they were all made.
    const GrammarPointer grammar = gbnf("root ::= [ab]* \"a\" " + repeated("[ab] ", 40) + "\"!\"");
    const std::string tail = repeated("ab", 20);
    EXPECT_EQ(judge(grammar, "bbabab" + ("a" + tail) + "!"), Outcome::Accepted);
    EXPECT_EQ(judge(grammar, "bb" + ("b" + tail) + "!"), Outcome::Rejected);
}

TEST(GrammarLimits, RefuseHostileSchemas) {
    const auto refused = [](const std::string& schema) {
        const Result<GrammarPointer> grammar = try_schema(schema);
        return !grammar.ok();
    };
    EXPECT_TRUE(refused(R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}})"));
    EXPECT_TRUE(refused(repeated(R"({"items":)", 60) + "{\"not\":1}" + repeated("}", 60)));
    std::string many;
    for (int i = 0; i < 300'000; ++i) many += (i > 0 ? ",1" : "1");
    EXPECT_TRUE(refused("{\"enum\":[" + many + "]}"));
    // Each definition is made of the next one twice: merged, not multiplied.
    std::string doubling = R"({"$ref": "#/$defs/d0", "$defs": {)";
    for (int i = 0; i < 40; ++i) {
        const std::string next = R"({"$ref": "#/$defs/d)" + std::to_string(i + 1) + "\"}";
        doubling += "\"d" + std::to_string(i) + R"(": {"allOf": [)" + next + ", " + next + R"(], "type": "object"},)";
    }
    EXPECT_TRUE(refused(doubling + R"("d40": {"not": {}}}})"));
    std::string properties;
    for (int i = 0; i < 40; ++i) {
        const std::string next = R"({"$ref": "#/$defs/d)" + std::to_string(i + 1) + "\"}";
        properties += "\"d" + std::to_string(i) + R"(": {"type": "object", "properties": {"a": )" + next +
                      ", \"b\": " + next + "}},";
    }
    const Result<GrammarPointer> wide =
        try_schema(R"({"$ref": "#/$defs/d0", "$defs": {)" + properties + R"("d40": {"type": "null"}}})");
    ASSERT_TRUE(wide.ok()) << wide.error().message;
    EXPECT_EQ(judge(wide.value(), R"({"a":{"b":{"a":{}}}})"), Outcome::Accepted);
}

TEST(GrammarLimits, TakeSchemasWithManyProperties) {
    std::string properties;
    for (int i = 0; i < 500; ++i) {
        properties += (i > 0 ? "," : "") + std::string("\"key") + std::to_string(i) +
                      R"(": {"type": "object", "properties": {"v": {"type": "integer"}}})";
    }
    const Result<GrammarPointer> grammar = try_schema(
        R"({"type": "object", "additionalProperties": {"type": "null"}, "properties": {)" + properties + "}}");
    ASSERT_TRUE(grammar.ok()) << grammar.error().message;
    EXPECT_EQ(judge(grammar.value(), R"({"key3":{"v":1},"key499":{},"other":null})"), Outcome::Accepted);
    EXPECT_EQ(judge(grammar.value(), R"({"key499":{},"key3")"), Outcome::Rejected);
}

TEST(GrammarLimits, SurviveRandomSources) {
    const std::string alphabet = "root ::=\"a\"[b-c]|()*+?{1,3}\n. x\\#";
    for (std::uint64_t seed = 0; seed < 3'000; ++seed) {
        std::string source = "root ::= ";
        for (std::uint64_t i = 0; i < 30; ++i) source.push_back(alphabet[random_bits(seed, i) % alphabet.size()]);
        const Result<GrammarPointer> grammar = Grammar::from_gbnf(source);
        if (grammar.ok()) {
            TokenGrammar tokens(grammar.value(), single_bytes().trie);
            EXPECT_TRUE(tokens.mask(TokenGrammar::kStart).ok()) << source;
        } else {
            EXPECT_TRUE(grammar.error().message.starts_with("grammar")) << source;
        }
    }
}

}  // namespace
}  // namespace hearth
