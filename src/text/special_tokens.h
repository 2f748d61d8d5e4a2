// Finds the tokens that are recognised in raw text before anything else is done with it: control and user-defined ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/vocabulary.h"

namespace hearth {

class SpecialTokens {
public:
    static Result<SpecialTokens> create(const GgufFile& file, const Vocabulary& vocabulary);

    struct Match {
        std::size_t begin = 0;  // with white space that belongs to the token, as some models have it
        std::size_t end = 0;
        TokenId token = -1;  // -1: no more
    };
    // The first match at or after `from`, of those that begin at one place the longest.
    Match next(std::string_view text, std::size_t from, ParseSpecial parse_special) const;

private:
    struct Entry {
        std::string_view text;
        TokenId token = -1;
        bool is_control = false;  // recognised only when control tokens are asked for
        bool strips_left = false;
        bool strips_right = false;
    };
    const Entry* longest_at(std::string_view text, std::size_t at, ParseSpecial parse_special) const;

    std::vector<Entry> entries_;                   // sorted by text
    std::array<std::uint32_t, 257> first_byte_{};  // where the entries with a first byte begin
};

}  // namespace hearth
