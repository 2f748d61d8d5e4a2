#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/text/grammar_testing.h"

namespace hearth {
namespace {

using namespace testing_grammar;

struct Case {
    const char* grammar;
    std::vector<std::string> accepted;
    std::vector<std::string> rejected;  // not even the beginning of an accepted text
};

const Case kCases[] = {
    {"root ::= \"ab\"", {"ab"}, {"b", "aa", "abc"}},
    {"root ::= \"\"", {""}, {"a"}},
    {"root ::= \"a\" | \"b\" # either\n", {"a", "b"}, {"c", "ab"}},
    {"root ::= \"a\"\n  | \"b\"", {"a", "b"}, {"c"}},
    {"root ::= |\n\"b\"", {"", "b"}, {"a"}},
    {"root ::= [a-c]+", {"a", "abcabc"}, {"d", "ad"}},
    {"root ::= [^a-c\\n]*",
     {"", "xyz", "\xc3\xa9", "\xf0\x9f\x91\x8d"},
     {"a", "x\n", "\x80", "\xc0\x80", "\xed\xa0\x80"}},
    {"root ::= [\\]\\-x-]", {"]", "-", "x"}, {"\\", "y"}},
    {"root ::= [a\\]]{2}", {"a]", "]]"}, {"b", "aaa"}},
    {"root ::= . .", {"ab", "\n\n", "\xe2\x82\xac\xe2\x82\xac"}, {"abc", "\xff"}},
    {"root ::= \"\\x41\\u00e9\\U0001F44D\\\"\\\\\\n\\t\"", {"A\xc3\xa9\xf0\x9f\x91\x8d\"\\\n\t"}, {"a"}},
    {"root ::= (\"a\" | \"b\" \"c\")? \"d\"", {"d", "ad", "bcd"}, {"bd", "c", "abcd"}},
    {"root ::= \"a\"{3}", {"aaa"}, {"aaaa"}},
    {"root ::= \"a\"{2,}", {"aa", "aaaaaaaaaa"}, {"b"}},
    {"root ::= \"a\"{1,3} \"b\"", {"ab", "aaab"}, {"b", "aaaa"}},
    {"root ::= \"a\"{0,2}", {"", "a", "aa"}, {"aaa"}},
    {"root ::= \"a\"{0}", {""}, {"a"}},
    {"root ::= \"x\" item+ \"y\"\nitem ::= \"(\" item* \")\"\n", {"x()y", "x(()())()y"}, {"xy", "x)", "x()y("}},
    {"root ::= a \"!\"\na ::= b? c*\nb ::= \"b\" | \"\"\nc ::= \"c\"", {"!", "b!", "bcc!", "c!"}, {"bb", "cb"}},
    {"root ::= (\"a\"*)*", {"", "aaa"}, {"b"}},
    {"root ::= ((\"a\"?)+ | \"b\"?){2,3} \".\"", {".", "aaaa.", "bb.", "ab.", "aba."}, {"bbbb", "c"}},
    {"root ::= \"a\" root \"b\" | \"\"", {"", "ab", "aaabbb"}, {"b", "aba"}},
    {"root ::= \"a\" root | \"b\"", {"b", "aaaaaab"}, {"ba"}},
    {"root ::= number \" \"\nnumber ::= \"-\"? ([0-9] | [1-9] [0-9]*) (\".\" [0-9]+)?",
     {"0 ", "-10.5 "},
     {"01", "1..", "--"}},
    {"# comment\n\nroot ::= # here\n  \"a\" # and here\n\n# end", {"a"}, {"b"}},
    {"root ::= (\n  \"a\"\n  \"b\" # both\n)", {"ab"}, {"ba"}},
    {"root::=x_1 x-2\nx_1::=\"1\"\nx-2::=\"2\"", {"12"}, {"2"}},
};

TEST(Gbnf, AcceptsAndRejects) {
    for (const Case& each : kCases) {
        const Result<GrammarPointer> grammar = Grammar::from_gbnf(each.grammar);
        ASSERT_TRUE(grammar.ok()) << each.grammar << "\n" << grammar.error().message;
        for (const std::string& text : each.accepted) {
            EXPECT_EQ(judge(grammar.value(), text), Outcome::Accepted) << each.grammar << " with " << text;
        }
        for (const std::string& text : each.rejected) {
            EXPECT_EQ(judge(grammar.value(), text), Outcome::Rejected) << each.grammar << " with " << text;
        }
    }
}

TEST(Gbnf, CountsLongRepetitionsExactly) {
    const GrammarPointer grammar = gbnf("root ::= ([a-z] [0-9]){70,90} (\"--\"){100,}");
    const auto text = [](std::size_t pairs, std::size_t dashes) {
        std::string out;
        for (std::size_t i = 0; i < pairs; ++i) out += "k7";
        for (std::size_t i = 0; i < dashes; ++i) out += "--";
        return out;
    };
    EXPECT_EQ(judge(grammar, text(69, 0) + "-"), Outcome::Rejected);
    EXPECT_EQ(judge(grammar, text(70, 99)), Outcome::Prefix);
    EXPECT_EQ(judge(grammar, text(70, 100)), Outcome::Accepted);
    EXPECT_EQ(judge(grammar, text(90, 1000)), Outcome::Accepted);
    EXPECT_EQ(judge(grammar, text(90, 0) + "a"), Outcome::Rejected);
}

TEST(Gbnf, RefusesWithLineAndColumn) {
    const std::pair<const char*, const char*> kWrong[] = {
        {"", "line 1, column 1: there is no rule 'root'"},
        {"a ::= \"x\"", "there is no rule 'root'"},
        {"root ::= \"a\"\n\nroot ::= \"b\"", "line 3, column 1: rule 'root' is defined twice"},
        {"root ::= \"a\" missing", "line 1, column 14: there is no rule 'missing'"},
        {"root = \"a\"", "line 1, column 6: '::=' is expected"},
        {"root ::= \"a", "line 1, column 10: this string is not closed"},
        {"root ::= [a", "line 1, column 10: this class is not closed"},
        {"root ::= [b-a]", "line 1, column 11: the range is in the wrong order"},
        {"root ::= (\"a\"", "line 1, column 10: this '(' is not closed"},
        {"root ::= \"a\")", "line 1, column 13: the end of the rule is expected"},
        {"root ::= *", "line 1, column 10: there is nothing to repeat"},
        {"root ::= \"a\"{2,1}", "line 1, column 13: the upper bound is below the lower one"},
        {"root ::= \"a\"{x}", "a number is expected"},
        {"root ::= \"a\"{99999999999999999999}", "the number is too large"},
        {"root ::= \"\\q\"", "line 1, column 11: unknown escape"},
        {"root ::= \"\\ud800\"", "this is no character"},
        {"root ::= \"\\x4\"", "2 hex digits are expected"},
        {"root ::= \"\xff\"", "invalid UTF-8"},
        {"root ::= \"a\nb\"", "line 1, column 12: it does not end in its line"},
        {"root ::= <[10]>", "tokens by name are not supported"},
        {"root ::= root \"a\" | \"a\"", "rule 'root' is left-recursive"},
        {"root ::= a\na ::= b \"x\"\nb ::= a | \"c\"", "left-recursive"},
        {"root ::= e root \"x\" | \"y\"\ne ::= \"e\"?", "rule 'root' is left-recursive"},
        {"root ::= \"x\"\nunused ::= unused", "rule 'unused' is left-recursive"},
        {"root ::= (root)*", "rule 'root' is left-recursive"},
        {"root ::= \"a\" root", "rule 'root' can match no text"},
        {"root ::= [^\\x00-\\U0010FFFF]", "rule 'root' can match no text"},
        {"root ::= \"a\"******", "too many quantifiers"},
    };
    for (const auto& [source, message] : kWrong) {
        const Result<GrammarPointer> grammar = Grammar::from_gbnf(source);
        ASSERT_FALSE(grammar.ok()) << source;
        EXPECT_NE(grammar.error().message.find(message), std::string::npos)
            << source << ": " << grammar.error().message;
        EXPECT_EQ(grammar.error().code, ErrorCode::Usage);
        EXPECT_EQ(grammar.error().message.find('\n'), std::string::npos);
    }
}

TEST(Gbnf, LeavesOutWaysThatCannotEnd) {
    // 'b' leads to a rule that never ends, so it may not even begin.
    const GrammarPointer grammar = gbnf("root ::= \"a\" | \"b\" endless\nendless ::= \"c\" endless");
    EXPECT_EQ(judge(grammar, "a"), Outcome::Accepted);
    EXPECT_EQ(judge(grammar, "b"), Outcome::Rejected);
}

TEST(Gbnf, ReadsTheUsualJsonGrammar) {
    const GrammarPointer grammar = gbnf(R"(root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
)");
    EXPECT_EQ(judge(grammar, "{\"a\": [1, -2.5e3, {\"\xc3\xa9\\u00e9\": null}], \"b\":\n\ttrue}"), Outcome::Accepted);
    EXPECT_EQ(judge(grammar, "{\"a\": [1, -2.5e3, {\""), Outcome::Prefix);
    EXPECT_EQ(judge(grammar, "[]"), Outcome::Rejected);
    EXPECT_EQ(judge(grammar, "{\"a\" 1"), Outcome::Rejected);
    EXPECT_EQ(judge(grammar, "{\"a\n"), Outcome::Rejected);
}

}  // namespace
}  // namespace hearth
