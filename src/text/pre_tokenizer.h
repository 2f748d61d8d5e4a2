// Cuts text into the words within which byte-level BPE merges. A pre-tokeniser is a list of stages, each an ordered
// list of small rules; together they say what a model's published regular expression says, in linear time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/unicode.h"

namespace hearth {

struct CodeRange {
    std::uint32_t first;
    std::uint32_t last;
};

// A character class: Unicode classes and explicit ranges, or everything but these.
struct CharacterSet {
    ClassBits classes = 0;
    std::span<const CodeRange> ranges = {};
    bool negated = false;

    bool contains(std::uint32_t code_point, ClassBits bits) const {
        if ((bits & classes) != 0) return !negated;
        for (const CodeRange& range : ranges) {
            if (code_point >= range.first && code_point <= range.last) return !negated;
        }
        return negated;
    }
};

enum class RuleKind : std::uint8_t {
    Contraction,         // 's|'t|'re|'ve|'m|'ll|'d
    ContractionAnyCase,  // the same, with capitals
    Run,                 // before?body{least,most}after*
    CasedWord,   // before?U*W+c?|before?U+W*c? with U capitals, W small letters, both with caseless letters and marks
    LineBreaks,  // \s*[\r\n]+
    SpaceBeforeText,  // \s+(?!\S)
    SpaceBlock,       // \s{least,most}(?!\S)
    SpaceAtEnd,       // \s+$
};

enum class Before : std::uint8_t { None, Optional, Required };

inline constexpr std::uint32_t kUnlimited = 0xffffffff;

struct Rule {
    RuleKind kind = RuleKind::Run;
    CharacterSet body = {};
    std::uint32_t least = 1;
    std::uint32_t most = kUnlimited;
    Before presence = Before::None;
    CharacterSet before = {};  // one character
    CharacterSet after = {};   // any number of characters; an empty set takes none
    bool with_contraction = false;
};

// What no rule matches stays together until the next match, as with a regular expression that isolates its matches.
using Stage = std::span<const Rule>;

struct PreTokenizer {
    std::span<const Stage> stages;  // each cuts the words of the one before
    bool ignore_merges = false;     // a word that is a token is that token, whatever the merges say
    bool adds_bos = false;          // unless the file says otherwise
};

// By the name in tokenizer.ggml.pre; null when it is not known.
const PreTokenizer* find_pre_tokenizer(std::string_view name);

// Replaces `ends` by the offset in bytes of the end of each word. Bytes that are not UTF-8 count as U+FFFD, one each.
void split_words(std::string_view text, const PreTokenizer& pre_tokenizer, std::vector<std::size_t>& ends);

}  // namespace hearth
