// Tokens to text, one at a time, never half a character. Its whole state is small and copyable, so that a sequence can
// go back in time.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace hearth {

// Plain data: copying it is all that mark, fork and regress need.
struct DetokenizerState {
    std::uint8_t pending[4] = {};    // bytes of a character not complete yet
    std::uint8_t pending_count = 0;  // 0 to 3
    std::uint8_t begun = 0;          // some text has come out already: no leading space is stripped any more
    bool operator==(const DetokenizerState&) const = default;
};

// Appends to `out` the text that becomes certain with `token`. Control tokens add nothing.
void detokenize(const Tokenizer& tokenizer, TokenId token, DetokenizerState& state, std::string& out);

// Appends what is still pending, invalid bytes as U+FFFD: at the end of an answer.
void flush(DetokenizerState& state, std::string& out);

}  // namespace hearth
