// A prompt read back into the program it lists.
#include <algorithm>
#include <optional>

#include "vm/program.h"

namespace hearth::vm {

namespace {

class PromptReader {
public:
    explicit PromptReader(std::span<const Token> tokens) : tokens_(tokens) {}
    Result<Program> read();

private:
    Error bad() const {
        return Error{ErrorCode::InvalidModel, "prompt: not of a program, at position " + std::to_string(next_)};
    }
    bool at(Token token) const { return next_ < tokens_.size() && tokens_[next_] == token; }
    bool take(Token token) {
        if (!at(token)) return false;
        ++next_;
        return true;
    }
    std::optional<std::uint32_t> fixed(int bytes);
    std::optional<std::uint32_t> run();  // of any length up to four bytes
    bool instructions();
    bool values();

    std::span<const Token> tokens_;
    std::size_t next_ = 0;
    Program program_;
};

std::optional<std::uint32_t> PromptReader::fixed(int bytes) {
    std::uint32_t value = 0;
    for (int i = 0; i < bytes; ++i) {
        if (next_ >= tokens_.size() || !is_byte(tokens_[next_])) return std::nullopt;
        value = (value << 8) | static_cast<std::uint32_t>(tokens_[next_++] - token::kByte);
    }
    return value;
}

std::optional<std::uint32_t> PromptReader::run() {
    int bytes = 0;
    while (next_ + static_cast<std::size_t>(bytes) < tokens_.size() &&
           is_byte(tokens_[next_ + static_cast<std::size_t>(bytes)])) {
        if (++bytes > 4) return std::nullopt;
    }
    return fixed(bytes);
}

bool PromptReader::instructions() {
    while (next_ < tokens_.size() && tokens_[next_] >= token::kOpcode && tokens_[next_] < token::kCount) {
        Instruction made;
        made.opcode = static_cast<Opcode>(tokens_[next_++] - token::kOpcode);
        const std::optional<std::uint32_t> d = fixed(2), a = fixed(2), b = fixed(2), imm = fixed(4);
        if (!d || !a || !b || !imm) return false;
        made.d = static_cast<std::uint16_t>(*d);
        made.a = static_cast<std::uint16_t>(*a);
        made.b = static_cast<std::uint16_t>(*b);
        made.imm = *imm;
        program_.code.push_back(made);
        program_.offsets.push_back(0);
    }
    return take(token::kEnd);
}

// Slots, then data, then the entry; each begins with a number and is told by what ends it.
bool PromptReader::values() {
    std::uint64_t high = 0;
    for (;;) {
        const std::optional<std::uint32_t> value = run();
        if (!value) return false;
        if (take(token::kHigh)) {
            high = std::uint64_t{*value} << 32;
        } else if (take(token::kConst)) {
            program_.absolute.push_back(high | *value);
            high = 0;
        } else if (take(token::kAt)) {
            DataSegment segment{*value, {}};
            while (next_ < tokens_.size() && is_byte(tokens_[next_])) {
                segment.bytes.push_back(static_cast<std::uint8_t>(tokens_[next_++] - token::kByte));
            }
            program_.data.push_back(std::move(segment));
            if (!take(token::kEnd)) return false;
        } else {
            program_.entry = *value;
            return take(token::kStart) && next_ == tokens_.size();
        }
    }
}

Result<Program> PromptReader::read() {
    if (!take(token::kBegin) || !instructions() || !values()) return bad();
    TRY(check_program(program_));
    return std::move(program_);
}

}  // namespace

Result<Program> program_of_prompt(std::span<const Token> prompt) {
    return PromptReader(prompt).read();
}

Result<std::string> input_of_prompt(const Program& program, std::span<const Token> prompt) {
    const std::vector<Token> listed = prompt_program(program);
    if (prompt.size() < listed.size() || !std::equal(listed.begin(), listed.end(), prompt.begin())) {
        return Error{ErrorCode::InvalidModel, "prompt: of another program"};
    }
    const std::span<const Token> rest = prompt.subspan(listed.size());
    std::string input;
    auto next = std::find(rest.begin(), rest.end(), token::kAt);
    while (next != rest.end() && ++next != rest.end() && is_byte(*next) && *next != token::kByte) {
        input.push_back(static_cast<char>(*next - token::kByte));
    }
    // Whatever else stands there would change the program's memory or begin somewhere else.
    const std::vector<Token> expected = prompt_input(program, input);
    if (!std::equal(expected.begin(), expected.end(), rest.begin(), rest.end())) {
        return Error{ErrorCode::InvalidModel, "prompt: holds more than the program and its input"};
    }
    return input;
}

}  // namespace hearth::vm
