// Bytes wait until their character is complete; what can never become one turns into U+FFFD, one for each byte.
#include "text/detokenizer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"

namespace hearth {

void detokenize(const Tokenizer& tokenizer, TokenId token, DetokenizerState& state, std::string& out) {
    if (!tokenizer.contains(token)) return;
    std::string_view bytes = tokenizer.bytes(token);
    if (bytes.empty()) return;
    if (state.begun == 0 && tokenizer.strips_leading_space() && bytes.front() == ' ') bytes.remove_prefix(1);
    state.begun = 1;

    while (state.pending_count > 0 && !bytes.empty()) {
        // Only what the waiting bytes need for one character: there are never more than four of them.
        std::array<char, 4> window;
        CHECK(state.pending_count < window.size());
        std::memcpy(window.data(), state.pending, state.pending_count);
        const std::size_t taken = std::min(bytes.size(), window.size() - state.pending_count);
        std::memcpy(window.data() + state.pending_count, bytes.data(), taken);
        const std::string_view joined(window.data(), state.pending_count + taken);
        const CodePoint point = decode_utf8(joined, 0);
        if (point.length > 0) {
            out.append(joined.substr(0, point.length));
            bytes.remove_prefix(point.length - state.pending_count);
            state.pending_count = 0;
        } else if (incomplete_utf8_tail(joined) == joined.size()) {
            std::memcpy(state.pending, joined.data(), joined.size());
            state.pending_count = static_cast<std::uint8_t>(joined.size());
            bytes = {};
        } else {
            append_utf8(out, 0xfffd);
            std::memmove(state.pending, state.pending + 1, --state.pending_count);
        }
    }
    const std::size_t waiting = incomplete_utf8_tail(bytes);
    out.append(repair_utf8(bytes.substr(0, bytes.size() - waiting)));
    if (waiting == 0) return;
    std::memcpy(state.pending, bytes.data() + bytes.size() - waiting, waiting);
    state.pending_count = static_cast<std::uint8_t>(waiting);
}

void flush(DetokenizerState& state, std::string& out) {
    for (; state.pending_count > 0; --state.pending_count) append_utf8(out, 0xfffd);
    state = DetokenizerState{.begun = state.begun};
}

}  // namespace hearth
