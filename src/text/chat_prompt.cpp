#include "text/chat_prompt.h"

#include <algorithm>

#include "base/utf8.h"

namespace hearth {

namespace {

constexpr std::uint32_t kFirstNoncharacter = 0xfdd0;
constexpr std::uint32_t kLastNoncharacter = 0xfdef;

bool holds(const Json& value, std::string_view marker) {
    if (const std::string* text = value.as_string()) return text->find(marker) != std::string::npos;
    if (const Json::Array* items = value.as_array()) {
        return std::any_of(items->begin(), items->end(), [&](const Json& item) { return holds(item, marker); });
    }
    if (const Json::Object* members = value.as_object()) {
        return std::any_of(members->begin(), members->end(), [&](const Json::Member& member) {
            return member.first.find(marker) != std::string::npos || holds(member.second, marker);
        });
    }
    return false;
}

// A noncharacter that occurs nowhere in the messages and tools.
Result<std::string> choose_marker(const Json& messages, const Json& tools) {
    for (std::uint32_t point = kFirstNoncharacter; point <= kLastNoncharacter; ++point) {
        std::string marker;
        append_utf8(marker, point);
        if (!holds(messages, marker) && !holds(tools, marker)) return marker;
    }
    return Error{ErrorCode::Usage, "the messages hold every Unicode noncharacter: none is left to mark them with"};
}

std::string without(std::string_view text, std::string_view marker) {
    std::string out;
    while (!text.empty()) {
        const std::size_t found = std::min(text.find(marker), text.size());
        out += text.substr(0, found);
        text.remove_prefix(std::min(found + marker.size(), text.size()));
    }
    return out;
}

std::size_t leading_spaces(std::string_view text) {
    return std::min(text.find_first_not_of(" \t\n\v\f\r"), text.size());
}

// Some models' control texts are stored as tokens of the user's own, which the tokenizer finds in any text.
bool looks_like_control(std::string_view text) {
    return text.size() > 4 && text.starts_with("<|") && text.ends_with("|>");
}

void append(std::vector<TokenId>& out, const std::vector<TokenId>& more) {
    out.insert(out.end(), more.begin(), more.end());
}

}  // namespace

ChatEncoder::ChatEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
    for (std::size_t i = 0; i < tokenizer.vocabulary_size(); ++i) {
        const TokenId token = static_cast<TokenId>(i);
        const TokenKind kind = tokenizer.kind(token);
        const std::string_view text = tokenizer.text(token);
        const bool found_anywhere = kind == TokenKind::UserDefined && looks_like_control(text);
        if (kind != TokenKind::Control && kind != TokenKind::Unknown && !found_anywhere) continue;
        if (found_anywhere) found_anywhere_.push_back(text);
        if (!text.empty()) controls_[static_cast<unsigned char>(text[0])].push_back(text);
    }
    for (std::vector<std::string_view>& texts : controls_) {
        std::sort(texts.begin(), texts.end(),
                  [](std::string_view a, std::string_view b) { return a.size() > b.size(); });
    }
}

std::string_view ChatEncoder::control_at(std::string_view text, std::size_t at) const {
    for (const std::string_view control : controls_[static_cast<unsigned char>(text[at])]) {
        if (text.substr(at).starts_with(control)) return control;
    }
    return {};
}

bool ChatEncoder::begins_control_at(std::string_view content, std::size_t at) const {
    const std::string_view rest = content.substr(at);
    for (const std::string_view control : controls_[static_cast<unsigned char>(content[at])]) {
        // Whole, or cut off by the end of the content: what follows there might complete it.
        if (rest.size() >= control.size() ? rest.starts_with(control) : control.starts_with(rest)) return true;
    }
    return false;
}

std::string ChatEncoder::protect(std::string_view content, std::string_view marker) const {
    std::string out;
    for (std::size_t at = 0; at < content.size();) {
        const std::size_t length = std::max<std::size_t>(1, decode_utf8(content, at).length);
        out += content.substr(at, length);
        if (begins_control_at(content, at)) out += marker;
        at += length;
    }
    return out;
}

// A stretch without its markers, none of it a control token. Only where the tokenizer would find one all the same is
// the text encoded in the pieces between the markers.
void ChatEncoder::append_plain(std::vector<TokenId>& out, std::string_view stretch, std::string_view marker) const {
    const std::string text = without(stretch, marker);
    const bool in_pieces = std::any_of(found_anywhere_.begin(), found_anywhere_.end(), [&](std::string_view control) {
        return text.find(control) != std::string::npos;
    });
    if (!in_pieces) return append(out, tokenizer_.encode(text, AddSpecial::No, ParseSpecial::No));
    while (!stretch.empty()) {
        const std::size_t end = std::min(stretch.find(marker), stretch.size());
        append(out, tokenizer_.encode(stretch.substr(0, end), AddSpecial::No, ParseSpecial::No));
        stretch.remove_prefix(std::min(end + marker.size(), stretch.size()));
    }
}

std::vector<TokenId> ChatEncoder::encode_protected(std::string_view text, std::string_view marker) const {
    std::vector<TokenId> out;
    if (text.find(marker) == std::string_view::npos) return tokenizer_.encode(text, AddSpecial::No, ParseSpecial::Yes);
    std::string usual;  // control tokens and unmarked stretches, not encoded yet; ends with a control token
    std::string_view last_control;
    const auto add_stretch = [&](std::string_view stretch) {
        if (stretch.find(marker) == std::string_view::npos) {
            usual += stretch;
            return;
        }
        append(out, tokenizer_.encode(usual, AddSpecial::No, ParseSpecial::Yes));
        usual.clear();
        // Some models' control tokens take in the white space behind them.
        if (const std::size_t spaces = leading_spaces(stretch); spaces > 0 && !last_control.empty()) {
            const std::string probe = std::string(last_control) + std::string(stretch.substr(0, spaces));
            if (tokenizer_.encode(probe, AddSpecial::No, ParseSpecial::Yes).size() == 1) stretch.remove_prefix(spaces);
        }
        append_plain(out, stretch, marker);
    };
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
        const std::string_view control = control_at(text, at);
        // A control text of a single character cannot be broken up, so there the marker stands right behind it.
        if (control.empty() || text.substr(at + control.size()).starts_with(marker)) {
            ++at;
            continue;
        }
        add_stretch(text.substr(begin, at - begin));
        usual += control;
        last_control = control;
        at += control.size();
        begin = at;
    }
    add_stretch(text.substr(begin));
    append(out, tokenizer_.encode(usual, AddSpecial::No, ParseSpecial::Yes));
    return out;
}

Json ChatEncoder::protect_all(const Json& value, std::string_view marker) const {
    if (const std::string* text = value.as_string()) return Json(protect(*text, marker));
    if (const Json::Array* items = value.as_array()) {
        Json::Array out;
        out.reserve(items->size());
        for (const Json& item : *items) out.push_back(protect_all(item, marker));
        return Json(std::move(out));
    }
    if (const Json::Object* members = value.as_object()) {
        Json::Object out;
        out.reserve(members->size());
        for (const auto& [key, member] : *members) out.emplace_back(protect(key, marker), protect_all(member, marker));
        return Json(std::move(out));
    }
    return value;
}

Result<std::vector<TokenId>> ChatEncoder::encode(const ChatTemplate& chat_template,
                                                 const std::vector<ChatMessage>& messages, double now_seconds) const {
    Json::Array list;
    for (const ChatMessage& message : messages) {
        list.push_back(Json::Object{{"role", message.role}, {"content", message.content}});
    }
    return encode(chat_template, Json(std::move(list)), Json(), {}, now_seconds);
}

Result<std::vector<TokenId>> ChatEncoder::encode(const ChatTemplate& chat_template, const Json& messages,
                                                 const Json& tools, std::string_view continuation,
                                                 double now_seconds) const {
    const std::string marker = TRY(choose_marker(messages, tools));
    const std::string_view bos = tokenizer_.bos() ? tokenizer_.text(*tokenizer_.bos()) : std::string_view();
    const std::string_view eos = tokenizer_.eos() ? tokenizer_.text(*tokenizer_.eos()) : std::string_view();
    std::string text = TRY(render_chat(chat_template, protect_all(messages, marker), protect_all(tools, marker), true,
                                       bos, eos, now_seconds));
    text += continuation;
    std::vector<TokenId> tokens;
    // Most templates write the BOS themselves; two of them would confuse the model.
    if (tokenizer_.adds_bos() && tokenizer_.bos() && !text.starts_with(bos)) tokens.push_back(*tokenizer_.bos());
    append(tokens, encode_protected(text, marker));
    return tokens;
}

}  // namespace hearth
