// A conversation to tokens, through the model's chat template. What people type can never become a control token.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace hearth {

struct ChatMessage {
    std::string role;  // "system", "user", "assistant"
    std::string content;
};

// How contents are kept from being read as control tokens. The template's output is one text in which only the
// template's own "<|im_end|>" may count. So before rendering, a marker (a noncharacter that occurs in no content) goes
// behind the first character of each control text inside a content, and of each beginning of one at a content's end.
// In the output the stretches between control tokens that hold a marker are encoded, without it, as plain text; all
// the rest is encoded as usual. A conversation without control texts is thus encoded as if none of this existed, and
// templates that trim or test contents see them unchanged but for the marker, which follows no space.
class ChatEncoder {
public:
    explicit ChatEncoder(const Tokenizer& tokenizer);  // the tokenizer must outlive it

    // The tokens of the prompt for the next answer, BOS included where the model wants one.
    Result<std::vector<TokenId>> encode(const ChatTemplate& chat_template, const std::vector<ChatMessage>& messages,
                                        double now_seconds) const;

    // The same for messages as the model hubs write them (with tool calls, names, ...) and the tools or null: every
    // text in them is kept from being read as control tokens. `continuation` is added behind the prompt as the
    // beginning of the answer, and may hold control tokens.
    Result<std::vector<TokenId>> encode(const ChatTemplate& chat_template, const Json& messages, const Json& tools,
                                        std::string_view continuation, double now_seconds) const;

    // Its steps, apart for tests.
    std::string protect(std::string_view content, std::string_view marker) const;
    std::vector<TokenId> encode_protected(std::string_view text, std::string_view marker) const;

private:
    // The longest control text at `at`; empty when there is none.
    std::string_view control_at(std::string_view text, std::size_t at) const;
    bool begins_control_at(std::string_view content, std::size_t at) const;
    void append_plain(std::vector<TokenId>& out, std::string_view stretch, std::string_view marker) const;
    Json protect_all(const Json& value, std::string_view marker) const;

    const Tokenizer& tokenizer_;
    std::array<std::vector<std::string_view>, 256> controls_;  // by first byte, longest first
    std::vector<std::string_view> found_anywhere_;             // those among them the tokenizer finds in any text
};

}  // namespace hearth
