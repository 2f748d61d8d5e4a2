// ToolCallParser: an incremental reader of {"name": ..., "arguments": {...}} inside or instead of text.
#include <algorithm>

#include "server/api/tools.h"

namespace hearth {

namespace {

bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

std::size_t trailing_spaces(std::string_view text) {
    std::size_t count = 0;
    while (count < text.size() && is_space(text[text.size() - 1 - count])) ++count;
    return count;
}

// How many bytes at the end of `text` are the beginning of `word`.
std::size_t partial_match(std::string_view text, std::string_view word) {
    for (std::size_t length = std::min(text.size(), word.size() - 1); length > 0; --length) {
        if (word.starts_with(text.substr(text.size() - length))) return length;
    }
    return 0;
}

}  // namespace

ToolCallParser::ToolCallParser(ToolFormat format, std::vector<std::string> tool_names, Start start)
    : format_(std::move(format)),
      names_(std::move(tool_names)),
      where_(start == Start::Call ? Where::Between : Where::Content),
      trusted_(start == Start::Call) {}

bool ToolCallParser::known(std::string_view name) const {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
}

void ToolCallParser::feed(std::string_view text, AnswerParts& parts) {
    input_ += text;
    bool more = true;
    while (more && !input_.empty()) {
        switch (where_) {
            case Where::Content: more = read_content(parts, false); break;
            case Where::Between: more = read_between(parts); break;
            case Where::Object: more = read_object(parts); break;
        }
    }
    flush_arguments(parts);
}

void ToolCallParser::finish(AnswerParts& parts) {
    if (where_ == Where::Object) {
        if (begun_) {
            flush_arguments(parts);
            parts.call_ends();
        } else {
            give_up(parts);
        }
    }
    if (where_ == Where::Between) {
        if (after_call_) {
            input_.clear();  // white space or the beginning of a closing
        } else {
            give_up(parts);
        }
    }
    read_content(parts, true);
}

// Hands out text up to an opening; holds back what may yet become one, and white space before it. False: wait for more.
bool ToolCallParser::read_content(AnswerParts& parts, bool at_end) {
    if (may_be_bare_ && !at_end) {
        const std::size_t first =
            static_cast<std::size_t>(std::find_if_not(input_.begin(), input_.end(), is_space) - input_.begin());
        if (first == input_.size()) return false;
        const std::string_view begun = std::string_view(input_).substr(first);
        const bool opening = begun.starts_with(format_.open);  // which may begin with a bracket, too
        if (!opening && std::string_view(format_.open).starts_with(begun)) return false;
        if (!opening && (begun[0] == '{' || begun[0] == '[')) {
            raw_ = input_.substr(0, first);
            input_.erase(0, first);
            trusted_ = false;
            after_call_ = false;
            where_ = Where::Between;
            return true;
        }
    }
    const std::size_t found = at_end ? std::string::npos : input_.find(format_.open);
    if (found != std::string::npos) {
        const std::string_view before = std::string_view(input_).substr(0, found);
        const std::string_view trimmed = before.substr(0, before.size() - trailing_spaces(before));
        if (!trimmed.empty()) parts.content(trimmed);
        raw_ = input_.substr(trimmed.size(), found - trimmed.size() + format_.open.size());
        input_.erase(0, found + format_.open.size());
        may_be_bare_ = false;
        trusted_ = true;
        after_call_ = false;
        where_ = Where::Between;
        return true;
    }
    std::size_t held = 0;
    if (!at_end) {
        held = partial_match(input_, format_.open);
        held += trailing_spaces(std::string_view(input_).substr(0, input_.size() - held));
    }
    const std::size_t ready = input_.size() - held;
    if (ready > 0) {
        parts.content(std::string_view(input_).substr(0, ready));
        input_.erase(0, ready);
        may_be_bare_ = false;
    }
    return false;
}

// Around objects: brackets and separators of a list, the closing.
bool ToolCallParser::read_between(AnswerParts& parts) {
    const char c = input_[0];
    if (c == '{') {
        begin_object();
        return true;
    }
    const bool list_sign = c == '[' || (after_call_ && (c == ',' || c == ';' || c == ']'));
    if (is_space(c) || list_sign) {
        if (!after_call_) raw_ += c;
        input_.erase(0, 1);
        return true;
    }
    if (after_call_ && !format_.close.empty()) {
        if (input_.starts_with(format_.close)) {
            input_.erase(0, format_.close.size());
            // White space between calls is no text.
            where_ = Where::Content;
            may_be_bare_ = false;
            return true;
        }
        if (std::string_view(format_.close).starts_with(input_)) return false;
    }
    if (after_call_) {
        where_ = Where::Content;
        return true;
    }
    give_up(parts);
    return true;
}

void ToolCallParser::begin_object() {
    where_ = Where::Object;
    step_ = Step::Key;
    raw_ += '{';
    input_.erase(0, 1);
    begun_ = false;
    arguments_seen_ = false;
    name_.clear();
    arguments_.clear();
}

void ToolCallParser::give_up(AnswerParts& parts) {
    const std::string text = std::move(raw_) + input_;
    raw_.clear();
    input_.clear();
    where_ = Where::Content;
    may_be_bare_ = false;
    if (!text.empty()) parts.content(text);
}

void ToolCallParser::announce(AnswerParts& parts) {
    if (begun_ || name_.empty()) return;
    begun_ = true;
    found_call_ = true;
    raw_.clear();
    parts.call_begins(name_);
}

void ToolCallParser::flush_arguments(AnswerParts& parts) {
    if (!begun_ || arguments_.empty()) return;
    parts.call_arguments(arguments_);
    arguments_.clear();
}

// Follows one value; true when `c` is its last character. A scalar ends before the character that follows it.
bool ToolCallParser::value_ends(char c) {
    if (in_string_) {
        if (escaped_) {
            escaped_ = false;
        } else if (c == '\\') {
            escaped_ = true;
        } else if (c == '"') {
            in_string_ = false;
            return depth_ == 0;
        }
        return false;
    }
    if (c == '"') in_string_ = true;
    if (c == '{' || c == '[') ++depth_;
    if ((c == '}' || c == ']') && depth_ > 0) return --depth_ == 0;
    return false;
}

void ToolCallParser::take_value(AnswerParts& parts) {
    if (key_ == "name") {
        const Result<Json> name = Json::parse(value_, 1);
        if (name.ok() && name->as_string() != nullptr) name_ = *name->as_string();
        if (trusted_ || known(name_)) {
            announce(parts);
        } else {
            name_.clear();
        }
    } else if ((key_ == "arguments" || key_ == "parameters") && value_.starts_with('"')) {
        // Some models put the arguments' JSON into a string.
        const Result<Json> text = Json::parse(value_, 1);
        arguments_ = text.ok() && text->as_string() != nullptr ? *text->as_string() : value_;
        arguments_seen_ = true;
    }
    value_.clear();
    step_ = Step::Key;
}

// Reads what there is of an object. False: more is needed.
bool ToolCallParser::read_object(AnswerParts& parts) {
    std::size_t at = 0;
    for (; at < input_.size(); ++at) {
        const char c = input_[at];
        const bool scalar_over =
            step_ == Step::InValue && depth_ == 0 && !in_string_ && (c == ',' || c == '}' || is_space(c));
        if (scalar_over) take_value(parts);
        if (!begun_) raw_ += c;
        bool malformed = false;
        switch (step_) {
            case Step::Key:
                if (c == '"') {
                    key_.clear();
                    step_ = Step::InKey;
                } else if (c == '}') {
                    if (!begun_) {
                        input_.erase(0, at + 1);
                        give_up(parts);
                        return true;
                    }
                    if (!arguments_seen_) arguments_ = "{}";
                    flush_arguments(parts);
                    parts.call_ends();
                    raw_.clear();
                    trusted_ = true;
                    after_call_ = true;
                    input_.erase(0, at + 1);
                    where_ = Where::Between;
                    return true;
                } else {
                    malformed = !is_space(c) && c != ',';
                }
                break;
            case Step::InKey:
                if (c == '"') {
                    step_ = Step::Colon;
                } else {
                    key_ += c;
                }
                break;
            case Step::Colon:
                if (c == ':') {
                    step_ = Step::Value;
                } else {
                    malformed = !is_space(c);
                }
                break;
            case Step::Value:
                if (is_space(c)) break;
                step_ = Step::InValue;
                depth_ = 0;
                in_string_ = false;
                escaped_ = false;
                [[fallthrough]];
            case Step::InValue: {
                const bool streams =
                    (key_ == "arguments" || key_ == "parameters") && (value_.empty() ? c == '{' : value_[0] == '{');
                if (streams) {
                    arguments_seen_ = true;
                    arguments_ += c;
                    value_ = "{";
                } else {
                    value_ += c;
                }
                if (value_ends(c)) take_value(parts);
                break;
            }
        }
        if (malformed) {
            input_.erase(0, at + 1);
            if (begun_) {
                if (!arguments_seen_) arguments_ = "{}";
                flush_arguments(parts);
                parts.call_ends();
                raw_.clear();
                where_ = Where::Content;
            } else {
                give_up(parts);
            }
            return true;
        }
    }
    input_.clear();
    return false;
}

}  // namespace hearth
