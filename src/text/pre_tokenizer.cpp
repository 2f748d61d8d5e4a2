// The matching of rules, over code points with their classes. Every rule scans forward from its place, and what it
// scans without taking is scanned a bounded number of times again.
#include "text/pre_tokenizer.h"

#include "base/utf8.h"

namespace hearth {

namespace {

struct Character {
    std::uint32_t code_point : 24;
    std::uint32_t length : 8;  // in bytes
    ClassBits bits;
};

bool contains(const CharacterSet& set, const Character& character) {
    return set.contains(character.code_point, character.bits);
}

// One fragment between the cuts of the stages before; matching never looks outside it.
class Fragment {
public:
    explicit Fragment(std::span<const Character> characters)
        : characters_(characters), trailing_space_(characters.size()) {
        while (trailing_space_ > 0 && is_space(trailing_space_ - 1)) --trailing_space_;
    }

    std::size_t size() const { return characters_.size(); }

    // The end of what the first rule that matches at `at` takes; `at` when none does.
    std::size_t match(Stage stage, std::size_t at) const {
        for (const Rule& rule : stage) {
            const std::size_t end = match(rule, at);
            if (end > at) return end;
        }
        return at;
    }

private:
    bool is_space(std::size_t at) const { return (characters_[at].bits & kSpace) != 0; }

    std::size_t match(const Rule& rule, std::size_t at) const {
        switch (rule.kind) {
            case RuleKind::Contraction: return contraction(at, false);
            case RuleKind::ContractionAnyCase: return contraction(at, true);
            case RuleKind::Run: return run(rule, at);
            case RuleKind::CasedWord: return cased_word(rule, at);
            case RuleKind::LineBreaks: return line_breaks(at);
            case RuleKind::SpaceBeforeText: return space_before_text(at, 1, kUnlimited);
            case RuleKind::SpaceBlock: return space_before_text(at, rule.least, rule.most);
            case RuleKind::SpaceAtEnd: return at >= trailing_space_ ? size() : at;
        }
        return at;
    }

    // The character at `at`, small when `any_case`; 0 beyond the end.
    std::uint32_t letter(std::size_t at, bool any_case) const {
        if (at >= size()) return 0;
        const std::uint32_t code_point = characters_[at].code_point;
        return any_case && code_point >= 'A' && code_point <= 'Z' ? code_point + ('a' - 'A') : code_point;
    }

    std::size_t contraction(std::size_t at, bool any_case) const {
        if (letter(at, false) != '\'') return at;
        const std::uint32_t first = letter(at + 1, any_case);
        if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
        const std::uint32_t second = letter(at + 2, any_case);
        if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) {
            return at + 3;
        }
        return at;
    }

    std::size_t skip(const CharacterSet& set, std::size_t at, std::size_t most = kUnlimited) const {
        std::size_t end = at;
        while (end < size() && end - at < most && contains(set, characters_[end])) ++end;
        return end;
    }

    std::size_t run(const Rule& rule, std::size_t at) const {
        if (rule.presence != Before::None && contains(rule.before, characters_[at])) {
            const std::size_t end = skip(rule.body, at + 1, rule.most);
            if (end - (at + 1) >= rule.least) return skip(rule.after, end);
        }
        if (rule.presence == Before::Required) return at;
        const std::size_t end = skip(rule.body, at, rule.most);
        return end - at >= rule.least ? skip(rule.after, end) : at;
    }

    static constexpr CharacterSet kCapitals = {.classes = kUpperLetter | kCaselessLetter | kMark};
    static constexpr CharacterSet kSmalls = {.classes = kLowerLetter | kCaselessLetter | kMark};

    // U*W+: caseless letters belong to both sets, so that W may have to take back the last of them.
    std::size_t capitals_then_smalls(std::size_t at) const {
        const std::size_t capitals_end = skip(kCapitals, at);
        const std::size_t end = skip(kSmalls, capitals_end);
        if (end > capitals_end) return end;
        for (std::size_t back = capitals_end; back > at; --back) {
            if (contains(kSmalls, characters_[back - 1])) return back;
        }
        return at;
    }

    // U+W*
    std::size_t capitals_and_smalls(std::size_t at) const {
        const std::size_t capitals_end = skip(kCapitals, at);
        return capitals_end > at ? skip(kSmalls, capitals_end) : at;
    }

    std::size_t cased_word(const Rule& rule, std::size_t at) const {
        const bool has_before = contains(rule.before, characters_[at]);
        for (const bool must_have_small : {true, false}) {
            for (const std::size_t begin : {at + 1, at}) {
                if (begin > at && !has_before) continue;
                const std::size_t end = must_have_small ? capitals_then_smalls(begin) : capitals_and_smalls(begin);
                if (end > begin) return rule.with_contraction ? contraction(end, true) : end;
            }
        }
        return at;
    }

    std::size_t line_breaks(std::size_t at) const {
        std::size_t end = at;
        for (std::size_t i = at; i < size() && is_space(i); ++i) {
            if ((characters_[i].bits & kNewline) != 0) end = i + 1;
        }
        return end;
    }

    // The last space before a text belongs to the text.
    std::size_t space_before_text(std::size_t at, std::size_t least, std::size_t most) const {
        std::size_t end = at;
        while (end < size() && end - at < most && is_space(end)) ++end;
        if (end < size() && !is_space(end) && end > at) --end;
        return end - at >= least ? end : at;
    }

    std::span<const Character> characters_;
    std::size_t trailing_space_;  // where the white space at the end begins
};

std::vector<Character> characters_of(std::string_view text) {
    std::vector<Character> characters;
    characters.reserve(text.size());
    for (std::size_t offset = 0; offset < text.size();) {
        CodePoint point = decode_utf8(text, offset);
        if (point.length == 0) point = {0xfffd, 1};
        characters.push_back({point.value & 0xffffffu, static_cast<std::uint8_t>(point.length), classify(point.value)});
        offset += point.length;
    }
    return characters;
}

void split_fragment(std::span<const Character> characters, std::size_t begin, std::size_t end, Stage stage,
                    std::vector<std::size_t>& ends) {
    const Fragment fragment(characters.subspan(begin, end - begin));
    std::size_t unmatched = 0;  // begin of what no rule has taken
    for (std::size_t at = 0; at < fragment.size();) {
        const std::size_t taken = fragment.match(stage, at);
        if (taken == at) {
            ++at;
            continue;
        }
        if (unmatched < at) ends.push_back(begin + at);
        ends.push_back(begin + taken);
        at = unmatched = taken;
    }
    if (unmatched < fragment.size()) ends.push_back(end);
}

}  // namespace

void split_words(std::string_view text, const PreTokenizer& pre_tokenizer, std::vector<std::size_t>& ends) {
    ends.clear();
    if (text.empty()) return;
    const std::vector<Character> characters = characters_of(text);
    ends.push_back(characters.size());
    std::vector<std::size_t> fragments;
    for (const Stage& stage : pre_tokenizer.stages) {
        fragments.swap(ends);
        ends.clear();
        std::size_t begin = 0;
        for (const std::size_t end : fragments) {
            split_fragment(characters, begin, end, stage, ends);
            begin = end;
        }
    }
    std::size_t character = 0;
    std::size_t offset = 0;
    for (std::size_t& end : ends) {
        for (; character < end; ++character) offset += characters[character].length;
        end = offset;
    }
}

}  // namespace hearth
