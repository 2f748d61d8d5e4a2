#include "text/grammar/json_rules.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/utf8.h"
#include "text/grammar/compiled.h"

namespace hearth::grammar {

namespace {

constexpr std::uint32_t kIndentSpaces = 24;
constexpr std::uint32_t kIndentTabs = 8;

const std::vector<CodeRange> kPlain = {{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x10ffff}};

ExprId digits(Source& source, std::uint32_t min, std::uint32_t max) {
    return source.repeat(source.character_class({{'0', '9'}}), min, max);
}

}  // namespace

template <typename Make>
ExprId JsonRules::once(Cached& rule, std::string name, Make make) {
    if (!rule.has_value()) {
        rule = source_.add_rule(std::move(name));
        source_.set_body(*rule, make());
    }
    return source_.reference(*rule);
}

ExprId JsonRules::gap() {
    return once(gap_, "gap", [&] {
        const ExprId spaces = source_.repeat(source_.literal(" "), 0, kIndentSpaces);
        const ExprId tabs = source_.repeat(source_.literal("\t"), 1, kIndentTabs);
        const ExprId line = source_.sequence({source_.literal("\n"), source_.choice({spaces, tabs})});
        return source_.optional(source_.choice({source_.literal(" "), line}));
    });
}

ExprId JsonRules::colon() {
    return source_.sequence({source_.literal(":"), source_.optional(source_.literal(" "))});
}

ExprId JsonRules::comma() {
    return source_.sequence({source_.literal(","), gap()});
}

ExprId JsonRules::plain_character() {
    return source_.character_class(kPlain);
}

ExprId JsonRules::character() {
    return once(character_, "character", [&] {
        const ExprId hex = source_.character_class({{'0', '9'}, {'a', 'f'}, {'A', 'F'}});
        const ExprId two = source_.sequence({hex, hex});
        const ExprId d = source_.character_class({{'d', 'd'}, {'D', 'D'}});
        const ExprId not_d = source_.character_class({{'0', '9'}, {'a', 'c'}, {'e', 'f'}, {'A', 'C'}, {'E', 'F'}});
        const ExprId below = source_.character_class({{'0', '7'}});
        const ExprId high = source_.character_class({{'8', '9'}, {'a', 'b'}, {'A', 'B'}});
        const ExprId low = source_.character_class({{'c', 'f'}, {'C', 'F'}});
        // Surrogates come in pairs: a lone one is no character.
        const ExprId unit = source_.choice({
            source_.sequence({not_d, hex, two}),
            source_.sequence({d, below, two}),
            source_.sequence({d, high, two, source_.literal("\\u"), d, low, two}),
        });
        const ExprId simple = source_.character_class(
            {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}});
        const ExprId escape = source_.choice({simple, source_.sequence({source_.literal("u"), unit})});
        return source_.choice({plain_character(), source_.sequence({source_.literal("\\"), escape})});
    });
}

ExprId JsonRules::quoted(ExprId content) {
    return source_.sequence({source_.literal("\""), content, source_.literal("\"")});
}

ExprId JsonRules::string() {
    return once(string_, "string", [&] { return quoted(source_.repeat(character(), 0, kUnbounded)); });
}

ExprId JsonRules::integer() {
    const ExprId positive = source_.sequence({source_.character_class({{'1', '9'}}), digits(source_, 0, 17)});
    return source_.choice({source_.literal("0"), source_.sequence({source_.optional(source_.literal("-")), positive})});
}

ExprId JsonRules::number() {
    return once(number_, "number", [&] {
        const ExprId whole = source_.choice(
            {source_.literal("0"), source_.sequence({source_.character_class({{'1', '9'}}), digits(source_, 0, 15)})});
        const ExprId fraction = source_.optional(source_.sequence({source_.literal("."), digits(source_, 1, 16)}));
        const ExprId sign = source_.optional(source_.character_class({{'+', '+'}, {'-', '-'}}));
        const ExprId exponent = source_.optional(
            source_.sequence({source_.character_class({{'e', 'e'}, {'E', 'E'}}), sign, digits(source_, 1, 2)}));
        return source_.sequence({source_.optional(source_.literal("-")), whole, fraction, exponent});
    });
}

ExprId JsonRules::boolean() {
    return source_.choice({source_.literal("true"), source_.literal("false")});
}

ExprId JsonRules::scalar() {
    return once(scalar_, "scalar", [&] { return source_.choice({string(), number(), boolean(), null()}); });
}

ExprId JsonRules::object_of(ExprId members) {
    return source_.sequence({source_.literal("{"), gap(), members, source_.literal("}")});
}

ExprId JsonRules::array_of(ExprId items) {
    return source_.sequence({source_.literal("["), gap(), items, source_.literal("]")});
}

ExprId JsonRules::any_value(std::uint32_t depth) {
    if (depth == 0) return scalar();
    values_.resize(kAnyDepth + 1);
    return once(values_[depth], "value-" + std::to_string(depth), [&] {
        return source_.choice({scalar(), any_object(depth), any_array(depth)});
    });
}

ExprId JsonRules::any_object(std::uint32_t depth) {
    objects_.resize(kAnyDepth + 1);
    return once(objects_[depth], "object-" + std::to_string(depth), [&] {
        const ExprId member = source_.sequence({string(), colon(), any_value(depth - 1)});
        const ExprId more = source_.repeat(source_.sequence({comma(), member}), 0, kUnbounded);
        return object_of(source_.optional(source_.sequence({member, more, gap()})));
    });
}

ExprId JsonRules::any_array(std::uint32_t depth) {
    arrays_.resize(kAnyDepth + 1);
    return once(arrays_[depth], "array-" + std::to_string(depth), [&] {
        const ExprId item = any_value(depth - 1);
        const ExprId more = source_.repeat(source_.sequence({comma(), item}), 0, kUnbounded);
        return array_of(source_.optional(source_.sequence({item, more, gap()})));
    });
}

ExprId JsonRules::any_array() {
    return any_array(kAnyDepth);
}

// A trie of the forbidden keys: leave it at any place but the end of a key.
ExprId JsonRules::key_except(const std::vector<std::string>& keys) {
    if (keys.empty()) return quoted(source_.repeat(plain_character(), 0, kUnbounded));
    struct Place {
        std::map<std::uint32_t, std::size_t> next;
        bool ends = false;
    };
    std::vector<Place> places(1);
    for (const std::string& key : keys) {
        std::size_t at = 0;
        bool plain = true;
        for (std::size_t i = 0; i < key.size() && plain;) {
            const CodePoint point = decode_utf8(key, i);
            plain = point.length > 0 && point.value >= 0x20 && point.value != '"' && point.value != '\\';
            if (!plain) break;  // cannot be spelt with plain characters, so it needs no guard
            const auto [found, added] = places[at].next.try_emplace(point.value, places.size());
            at = found->second;
            if (added) places.emplace_back();
            i += point.length;
        }
        if (plain) places[at].ends = true;
    }
    std::vector<RuleId> rules;
    for (std::size_t i = 0; i < places.size(); ++i) rules.push_back(source_.add_rule("key-" + std::to_string(i)));
    for (std::size_t i = 0; i < places.size(); ++i) {
        std::vector<ExprId> ways;
        std::vector<CodeRange> taken;
        for (const auto& [character, next] : places[i].next) {
            taken.push_back({character, character});
            ways.push_back(
                source_.sequence({source_.character_class({{character, character}}), source_.reference(rules[next])}));
        }
        const ExprId rest = source_.repeat(plain_character(), 0, kUnbounded);
        ways.push_back(
            source_.sequence({source_.character_class(subtract(kPlain, taken)), rest, source_.literal("\"")}));
        if (!places[i].ends) ways.push_back(source_.literal("\""));
        source_.set_body(rules[i], source_.choice(std::move(ways)));
    }
    return source_.sequence({source_.literal("\""), source_.reference(rules[0])});
}

Source source_of_any_object() {
    Source source{GrammarLimits{}};
    const RuleId root = source.add_rule("root");
    JsonRules rules(source);
    source.set_body(root, rules.any_object());
    return source;
}

}  // namespace hearth::grammar
