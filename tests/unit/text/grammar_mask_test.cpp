#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "unit/text/grammar_testing.h"

namespace hearth {
namespace {

using namespace testing_grammar;

// All texts over an alphabet up to a length that a naive recogniser accepts, and all their beginnings.
struct Language {
    std::set<std::string> texts;
    std::set<std::string> beginnings;

    Language(std::string_view alphabet, std::size_t longest, const std::function<bool(const std::string&)>& accepts) {
        std::string text;
        std::function<void()> go = [&] {
            if (accepts(text)) {
                texts.insert(text);
                for (std::size_t n = 0; n <= text.size(); ++n) beginnings.insert(text.substr(0, n));
            }
            if (text.size() == longest) return;
            for (const char c : alphabet) {
                text.push_back(c);
                go();
                text.pop_back();
            }
        };
        go();
    }
};

// Every state reached by at most `depth` bytes: its mask is exactly the tokens after which some text goes on.
void expect_exact_masks(const GrammarPointer& grammar, const Words& words, const Language& language,
                        std::string_view alphabet, std::size_t depth) {
    TokenGrammar tokens(grammar, words.trie);
    std::function<void(const std::string&, TokenGrammar::State)> go = [&](const std::string& text,
                                                                          TokenGrammar::State state) {
        ASSERT_EQ(tokens.may_end(state), language.texts.count(text) > 0) << text;
        const Result<std::span<const std::uint64_t>> mask = tokens.mask(state);
        ASSERT_TRUE(mask.ok()) << text << ": " << mask.error().message;
        bool anything = false;
        for (std::size_t i = 0; i < words.tokenizer->vocabulary_size(); ++i) {
            const auto token = static_cast<TokenId>(i);
            const bool allowed = allows(mask.value(), token);
            const std::string after = text + std::string(words.tokenizer->bytes(token));
            if (token == words.end()) {
                ASSERT_EQ(allowed, tokens.may_end(state)) << text;
            } else if (words.tokenizer->kind(token) == TokenKind::Control) {
                ASSERT_FALSE(allowed) << text;
            } else {
                ASSERT_EQ(allowed, language.beginnings.count(after) > 0) << "'" << text << "' then '" << after << "'";
                anything = anything || allowed;
            }
        }
        ASSERT_EQ(tokens.must_end(state), !anything) << text;
        if (text.size() == depth) return;
        for (const char c : alphabet) {
            const Result<TokenGrammar::State> next = tokens.advance(state, static_cast<std::uint8_t>(c));
            ASSERT_EQ(next.ok(), language.beginnings.count(text + c) > 0) << text << c;
            if (next.ok()) go(text + c, next.value());
        }
    };
    go("", TokenGrammar::kStart);
}

const Words& letters() {
    static const Words* const kWords =
        new Words({"aa", "ab", "ba", "bb", "aab", "aba", "aaa", "abab", "bbbb", "aabb", "ab"});
    return *kWords;
}

TEST(TokenMasks, AreExactForRecursionAndAmbiguity) {
    const auto is_palindrome = [](const std::string& text) {
        return std::equal(text.begin(), text.end(), text.rbegin());
    };
    const auto same_counts = [](const std::string& text) {
        const auto half = static_cast<std::ptrdiff_t>(text.size() / 2);
        return text.size() % 2 == 0 && std::count(text.begin(), text.begin() + half, 'a') == half &&
               std::count(text.begin() + half, text.end(), 'b') == half;
    };
    const auto balanced = [](const std::string& text) {
        int open = 0;
        for (const char c : text) {
            open += c == 'a' ? 1 : -1;
            if (open < 0) return false;
        }
        return open == 0;
    };
    // Polish notation: 'a' takes two operands.
    const auto polish = [](const std::string& text) {
        int needed = 1;
        for (const char c : text) {
            if (needed == 0) return false;
            needed += c == 'a' ? 1 : -1;
        }
        return needed == 0;
    };
    const struct {
        const char* grammar;
        std::function<bool(const std::string&)> accepts;
    } kCases[] = {
        {"root ::= \"a\" root \"a\" | \"b\" root \"b\" | [ab]?", is_palindrome},
        {"root ::= \"a\" root \"b\" | \"\"", same_counts},
        {"root ::= (\"a\" root \"b\")*", balanced},
        {"root ::= \"a\" root root | \"b\"", polish},
        {"root ::= (\"a\" | \"aa\" | \"aaa\"){2,4}",
         [](const std::string& text) {
             return text.size() >= 2 && text.size() <= 12 && text.find('b') == std::string::npos;
         }},
        {"root ::= x x x\nx ::= y? y?\ny ::= \"a\" | \"b\" \"b\"",
         [](const std::string& text) {
             std::size_t units = 0;
             for (std::size_t i = 0; i < text.size(); ++units) {
                 if (text[i] == 'a') {
                     ++i;
                 } else if (text.compare(i, 2, "bb") == 0) {
                     i += 2;
                 } else {
                     return false;
                 }
             }
             return units <= 6;
         }},
    };
    for (const auto& each : kCases) {
        SCOPED_TRACE(each.grammar);
        expect_exact_masks(gbnf(each.grammar), letters(), Language("ab", 14, each.accepts), "ab", 3);
    }
}

// A random regular expression over a and b: as GBNF, and as a function from the places where it begins to those where
// it ends.
struct RandomExpression {
    std::string text;
    std::function<std::set<std::size_t>(const std::string&, const std::set<std::size_t>&)> match;
};

RandomExpression random_expression(std::uint64_t seed, std::uint64_t& draw, int depth) {
    const auto pick = [&](std::uint64_t n) { return random_bits(seed, draw++) % n; };
    if (depth == 0 || pick(4) == 0) {
        const std::string literal = pick(2) == 0 ? "a" : "b";
        return {"\"" + literal + "\"", [literal](const std::string& text, const std::set<std::size_t>& from) {
                    std::set<std::size_t> out;
                    for (const std::size_t at : from) {
                        if (at < text.size() && text[at] == literal[0]) out.insert(at + 1);
                    }
                    return out;
                }};
    }
    const RandomExpression left = random_expression(seed, draw, depth - 1);
    const std::uint64_t kind = pick(3);
    if (kind == 0) {
        const std::size_t min = pick(3);
        const std::size_t max = pick(3) == 0 ? 100 : min + pick(3);
        const std::string bound = max == 100 ? "" : std::to_string(max);
        return {"(" + left.text + "){" + std::to_string(min) + "," + bound + "}",
                [left, min, max](const std::string& text, const std::set<std::size_t>& from) {
                    std::set<std::size_t> out;
                    std::set<std::size_t> now = from;
                    for (std::size_t i = 0; i <= std::min<std::size_t>(max, min + text.size() + 1); ++i) {
                        if (i >= min) out.insert(now.begin(), now.end());
                        now = left.match(text, now);
                    }
                    return out;
                }};
    }
    const RandomExpression right = random_expression(seed, draw, depth - 1);
    if (kind == 1) {
        return {"(" + left.text + " | " + right.text + ")",
                [left, right](const std::string& text, const std::set<std::size_t>& from) {
                    std::set<std::size_t> out = left.match(text, from);
                    out.merge(right.match(text, from));
                    return out;
                }};
    }
    return {left.text + " " + right.text, [left, right](const std::string& text, const std::set<std::size_t>& from) {
                return right.match(text, left.match(text, from));
            }};
}

TEST(TokenMasks, AgreeWithANaiveMatcherOnRandomExpressions) {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        std::uint64_t draw = 0;
        const RandomExpression expression = random_expression(seed, draw, 4);
        const GrammarPointer grammar = gbnf("root ::= " + expression.text);
        std::string text;
        std::function<void()> go = [&] {
            const bool expected = expression.match(text, {0}).count(text.size()) > 0;
            ASSERT_EQ(judge(grammar, text) == Outcome::Accepted, expected) << expression.text << " with " << text;
            if (text.size() == 6) return;
            for (const char c : {'a', 'b'}) {
                text.push_back(c);
                go();
                text.pop_back();
            }
        };
        go();
    }
}

// Masks of each state along a text, token by token against a walk of its bytes: shortcuts must not show.
void expect_masks_as_walked(const GrammarPointer& grammar, const Words& words, std::string_view text) {
    TokenGrammar tokens(grammar, words.trie);
    TokenGrammar::State state = TokenGrammar::kStart;
    for (std::size_t at = 0;; ++at) {
        const Result<std::span<const std::uint64_t>> found = tokens.mask(state);
        ASSERT_TRUE(found.ok()) << at;
        const std::vector<std::uint64_t> mask(found->begin(), found->end());
        for (std::size_t i = 0; i < words.tokenizer->vocabulary_size(); ++i) {
            const auto token = static_cast<TokenId>(i);
            ASSERT_EQ(allows(mask, token), tokens.advance(state, token).ok())
                << "token " << token << " after " << text.substr(0, at);
        }
        if (at == text.size()) return;
        const Result<TokenGrammar::State> next = tokens.advance(state, static_cast<std::uint8_t>(text[at]));
        ASSERT_TRUE(next.ok()) << text.substr(0, at + 1);
        state = next.value();
    }
}

const Words& json_words() {
    static const Words* const kWords = new Words({"{\"",
                                                  "\":",
                                                  "\": \"",
                                                  "\",\"",
                                                  "\"}",
                                                  "abc",
                                                  "caf\xc3\xa9",
                                                  "\xa9\"",
                                                  "\xc3\xa9\xc3",
                                                  "\xf0\x9f",
                                                  "\x91\x8d",
                                                  "  ",
                                                  "\n  ",
                                                  "true",
                                                  "null}",
                                                  "\\u00",
                                                  "\\\\",
                                                  "\\",
                                                  "12",
                                                  "0.5",
                                                  "]}",
                                                  "[[",
                                                  std::string(31, 'x'),
                                                  std::string(32, 'x'),
                                                  std::string(33, 'x'),
                                                  std::string(40, ' '),
                                                  "\x7f",
                                                  "hello world",
                                                  "\xe2\x82\xac\xe2\x82\xac"});
    return *kWords;
}

TEST(TokenMasks, TakeNoWrongShortcutThroughStrings) {
    const std::string text = "{\"name\":\"caf\xc3\xa9 \xf0\x9f\x91\x8d \\u00e9\\n\",\"list\":[1,2.5,{}]}";
    expect_masks_as_walked(Grammar::json_object(), json_words(), text);
    const char* const kSchemas[] = {
        R"({"type": "string", "maxLength": 35, "minLength": 20})",
        R"({"type": "string", "maxLength": 3})",
        R"({"type": "string", "pattern": "^[^x]*$"})",
        R"({"type": "string", "pattern": "^.{0,5}[a-z ]{2}$"})",
        R"({"type": "object", "additionalProperties": {"type": "string"}})",
    };
    const char* const kTexts[] = {"\"abcdefghijklmnopqrstuvwxyz\xc3\xa9\xe2\x82\xac\"", "\"a\\u00e9\"", "\"abc\"",
                                  "\"\xf0\x9f\x91\x8d xy\"", "{\"a b\":\"c\"}"};
    for (std::size_t i = 0; i < std::size(kSchemas); ++i) {
        SCOPED_TRACE(kSchemas[i]);
        const Result<GrammarPointer> grammar = try_schema(kSchemas[i]);
        ASSERT_TRUE(grammar.ok()) << grammar.error().message;
        expect_masks_as_walked(grammar.value(), json_words(), kTexts[i]);
    }
    expect_masks_as_walked(gbnf("root ::= [^\"\\\\]* \"\\\"\" .*"), json_words(), "a\xc3\xa9\"\x7f\"");
    expect_masks_as_walked(gbnf("root ::= [ -~\\u00e9]*"), json_words(), "a\xc3\xa9");
    expect_masks_as_walked(gbnf("root ::= [^\\u20ac]*"), json_words(), "a\xc3\xa9");
}

TEST(TokenMasks, LetACharacterComeInPieces) {
    const GrammarPointer grammar = gbnf("root ::= [\\u00e9\\U0001F44D]+");
    TokenGrammar tokens(grammar, json_words().trie);
    const Result<TokenGrammar::State> half = tokens.advance(TokenGrammar::kStart, 0xf0);
    ASSERT_TRUE(half.ok());
    EXPECT_FALSE(tokens.may_end(half.value()));
    EXPECT_FALSE(tokens.advance(half.value(), 0xc3).ok());
    const Result<TokenGrammar::State> three = tokens.advance(half.value(), 0x9f);
    ASSERT_TRUE(three.ok());
    const TokenId tail = 256 + 10;  // \x91\x8d
    ASSERT_EQ(json_words().tokenizer->bytes(tail), "\x91\x8d");
    EXPECT_TRUE(allows(tokens.mask(three.value()).value(), tail));
    EXPECT_TRUE(tokens.may_end(tokens.advance(three.value(), tail).value()));
}

TEST(TokenMasks, EndOnlyWhereTheTextMayEnd) {
    TokenGrammar tokens(gbnf("root ::= \"a\"+ \"b\"?"), letters().trie);
    const TokenId end = letters().end();
    EXPECT_FALSE(allows(tokens.mask(TokenGrammar::kStart).value(), end));
    EXPECT_FALSE(tokens.advance(TokenGrammar::kStart, end).ok());
    const TokenGrammar::State a = tokens.advance(TokenGrammar::kStart, 'a').value();
    EXPECT_TRUE(allows(tokens.mask(a).value(), end));
    EXPECT_FALSE(tokens.must_end(a));
    const TokenGrammar::State ab = tokens.advance(a, 'b').value();
    EXPECT_TRUE(tokens.must_end(ab));
    const TokenGrammar::State over = tokens.advance(a, end).value();
    EXPECT_TRUE(tokens.must_end(over));
    EXPECT_TRUE(allows(tokens.mask(over).value(), end));
    EXPECT_FALSE(tokens.advance(over, 'a').ok());
}

TEST(TokenMasks, ComeBackTheSameAfterGoingBackInTime) {
    TokenGrammar tokens(Grammar::json_object(), json_words().trie);
    const std::string text = "{\"a\":[1,{\"b\":\"c\"}],\"d\":null}";
    std::vector<TokenGrammar::State> states{TokenGrammar::kStart};
    std::vector<std::vector<std::uint64_t>> masks;
    for (const char c : text) {
        const auto mask = tokens.mask(states.back()).value();
        masks.emplace_back(mask.begin(), mask.end());
        states.push_back(tokens.advance(states.back(), static_cast<std::uint8_t>(c)).value());
    }
    EXPECT_TRUE(tokens.must_end(states.back()));
    for (std::size_t i = text.size(); i-- > 0;) {
        const auto mask = tokens.mask(states[i]).value();
        EXPECT_TRUE(std::equal(mask.begin(), mask.end(), masks[i].begin(), masks[i].end())) << i;
        EXPECT_EQ(tokens.advance(states[i], static_cast<std::uint8_t>(text[i])).value(), states[i + 1]) << i;
    }
}

TEST(TokenMasks, StayRightWhenTheNextAnswerUsesTheSameGrammar) {
    const GrammarPointer grammar = Grammar::json_object();
    for (int answer = 0; answer < 4; ++answer) {
        TokenGrammar first(grammar, json_words().trie);
        TokenGrammar second(grammar, letters().trie);  // another vocabulary
        TokenGrammar third(grammar, json_words().trie);
        for (TokenGrammar* tokens : {&first, &second, &third}) {
            EXPECT_TRUE(allows(tokens->mask(TokenGrammar::kStart).value(), '{'));
            EXPECT_FALSE(allows(tokens->mask(TokenGrammar::kStart).value(), 'a'));
            EXPECT_TRUE(
                tokens->must_end(tokens->advance(tokens->advance(TokenGrammar::kStart, '{').value(), '}').value()));
        }
        EXPECT_EQ(first.mask(TokenGrammar::kStart).value().size(),
                  (json_words().tokenizer->vocabulary_size() + 63) / 64);
    }
}

TEST(TokenMasks, AreAnErrorWhenTheVocabularyCannotGoOn) {
    tiny::Vocabulary vocabulary = tiny::word_piece({"a", "b"});
    const tiny::Loaded tokenizer(tiny::word_piece_metadata({"a", "b"}));
    TokenGrammar tokens(gbnf("root ::= \"z\""), make_token_trie(*tokenizer));
    EXPECT_FALSE(tokens.mask(TokenGrammar::kStart).ok());
}

TEST(TokenMasks, KnowTheBytesOfSentencePieces) {
    const tiny::Loaded tokenizer(tiny::sentence_piece({std::string(kVisibleSpace) + "a", "ab"}).metadata());
    TokenGrammar tokens(gbnf("root ::= \" a\" | \"\\u00e9\""), make_token_trie(*tokenizer));
    const auto mask = tokens.mask(TokenGrammar::kStart).value();
    EXPECT_TRUE(allows(mask, 3 + 256));
    EXPECT_FALSE(allows(mask, 3 + 257));
    EXPECT_TRUE(allows(mask, 3 + 0xc3));
    EXPECT_FALSE(allows(mask, 3 + 0xa9));
    EXPECT_FALSE(allows(mask, 0));
    EXPECT_FALSE(allows(mask, 2));
    EXPECT_TRUE(
        tokens.must_end(tokens.advance(tokens.advance(TokenGrammar::kStart, 3 + 0xc3).value(), 3 + 0xa9).value()));
}

TEST(TokenMasks, RefuseUnknownStatesAndTokens) {
    TokenGrammar tokens(gbnf("root ::= \"a\""), letters().trie);
    EXPECT_FALSE(tokens.mask(12345).ok());
    EXPECT_FALSE(tokens.advance(12345, 'a').ok());
    EXPECT_FALSE(tokens.advance(TokenGrammar::kStart, -1).ok());
    EXPECT_FALSE(tokens.advance(TokenGrammar::kStart, 1 << 30).ok());
    EXPECT_FALSE(tokens.may_end(12345));
}

}  // namespace
}  // namespace hearth
