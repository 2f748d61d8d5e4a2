// The option table: one description of a command drives parsing, --help, the manual and the completion scripts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace hearth {

enum class ValueKind : std::uint8_t { Flag, Text, Whole, Real, File, Model, Choice };
enum class Visibility : std::uint8_t { Shown, Hidden };

struct Option {
    std::string_view name = {};  // without dashes
    char letter = 0;             // short form; 0: none
    ValueKind kind = ValueKind::Flag;
    std::string_view value_name = {};    // how help calls the value: "N"
    std::string_view help = {};          // one sentence
    std::string_view default_text = {};  // shown in help; empty: nothing to say
    std::string_view choices = {};       // of a Choice, separated by '|'
    Visibility visibility = Visibility::Shown;
};

struct Positional {
    std::string_view name = {};  // "MODEL"
    ValueKind kind = ValueKind::Text;
    bool required = true;
    std::string_view help = {};
    std::string_view choices = {};
    bool repeats = false;  // the last one: may be given several times
};

struct Example {
    std::string_view command;
    std::string_view meaning;
};

class Arguments;
struct Session;

struct Command {
    std::string_view name;
    std::string_view summary;      // one line in the list of commands
    std::string_view description;  // a paragraph or two
    std::span<const Positional> positionals;
    std::span<const Option> options;
    std::span<const Example> examples;
    Status (*run)(const Arguments& arguments, Session& session);
};

// Options every command has.
std::span<const Option> common_options();

// What was given on the command line; getters give nothing when an option is absent and a Usage error naming the
// option, the value and the range when it is no good.
class Arguments {
public:
    static Result<Arguments> parse(const Command& command, std::span<const std::string> words);

    bool flag(std::string_view name) const { return find(name) != nullptr; }
    std::optional<std::string> text(std::string_view name) const;  // the last one given
    std::vector<std::string> texts(std::string_view name) const;   // all, in order
    Result<std::optional<std::uint64_t>> whole(std::string_view name, std::uint64_t lowest,
                                               std::uint64_t highest) const;
    Result<std::optional<float>> real(std::string_view name) const;

    std::size_t positional_count() const { return positionals_.size(); }
    std::optional<std::string> positional(std::size_t index) const;

private:
    const std::string* find(std::string_view name) const;
    std::vector<std::pair<std::string_view, std::string>> values_;  // names live in the command's table
    std::vector<std::string> positionals_;
};

Result<std::uint64_t> parse_whole(std::string_view what, std::string_view text, std::uint64_t lowest,
                                  std::uint64_t highest);
Result<float> parse_real(std::string_view what, std::string_view text);

// The word of `choices` nearest to `word`, when near enough to be a slip; empty otherwise.
std::string_view nearest(std::string_view word, std::span<const std::string_view> choices);
// " (did you mean X?)" or nothing.
std::string suggestion(std::string_view word, std::span<const std::string_view> choices, std::string_view prefix = "");

std::vector<std::string_view> split_choices(std::string_view choices);

}  // namespace hearth
