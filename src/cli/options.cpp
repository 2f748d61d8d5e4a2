#include "cli/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace hearth {

namespace {

constexpr Option kCommonOptions[] = {
    {.name = "json", .help = "Print the result as JSON, for programs."},
    {.name = "help", .letter = 'h', .help = "Show this help."},
};

Error usage(const Command& command, const std::string& message) {
    return Error{ErrorCode::Usage, std::string(command.name) + ": " + message};
}

const Option* find_option(const Command& command, std::string_view name, char letter) {
    for (const std::span<const Option> table : {command.options, common_options()}) {
        for (const Option& option : table) {
            if (letter != 0 ? option.letter == letter : option.name == name) return &option;
        }
    }
    return nullptr;
}

Error unknown_option(const Command& command, std::string_view word, std::string_view name) {
    std::vector<std::string_view> names;
    for (const std::span<const Option> table : {command.options, common_options()}) {
        for (const Option& option : table) {
            if (option.visibility == Visibility::Shown) names.push_back(option.name);
        }
    }
    std::string hint = suggestion(name, names, "--");
    if (hint.empty()) hint = " (hearth help " + std::string(command.name) + " lists the options)";
    return usage(command, "unknown option '" + std::string(word) + "'" + hint);
}

Status check_choice(const Command& command, std::string_view what, std::string_view value, std::string_view choices) {
    const std::vector<std::string_view> allowed = split_choices(choices);
    if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return {};
    return usage(command, std::string(what) + ": '" + std::string(value) + "' is not one of " + std::string(choices) +
                              suggestion(value, allowed));
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
        }
    }
    return row[b.size()];
}

}  // namespace

std::span<const Option> common_options() {
    return kCommonOptions;
}

Result<Arguments> Arguments::parse(const Command& command, std::span<const std::string> words) {
    Arguments arguments;
    bool options_ended = false;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::string_view word = words[i];
        if (options_ended || word.size() < 2 || word[0] != '-') {
            arguments.positionals_.emplace_back(word);
            continue;
        }
        if (word == "--") {
            options_ended = true;
            continue;
        }
        const bool is_long = word.starts_with("--");
        std::string_view name = is_long ? word.substr(2) : word.substr(1, 1);
        std::optional<std::string_view> attached;
        if (is_long) {
            if (const std::size_t equals = name.find('='); equals != std::string_view::npos) {
                attached = name.substr(equals + 1);
                name = name.substr(0, equals);
            }
        } else if (word.size() > 2) {
            attached = word.substr(2);
        }
        const Option* option = find_option(command, name, is_long ? '\0' : name[0]);
        if (option == nullptr) return unknown_option(command, word, name);
        const std::string shown = is_long ? "--" + std::string(option->name) : std::string("-") + option->letter;
        if (option->kind == ValueKind::Flag) {
            if (attached) return usage(command, shown + " takes no value");
            arguments.values_.emplace_back(option->name, "");
            continue;
        }
        if (!attached) {
            if (i + 1 == words.size()) {
                return usage(command, shown + " needs a value: " + shown + " " + std::string(option->value_name));
            }
            attached = words[++i];
        }
        if (option->kind == ValueKind::Choice) TRY(check_choice(command, shown, *attached, option->choices));
        arguments.values_.emplace_back(option->name, std::string(*attached));
    }
    if (arguments.flag("help")) return arguments;
    const std::span<const Positional> expected = command.positionals;
    const bool open_ended = !expected.empty() && expected.back().repeats;
    if (arguments.positionals_.size() > expected.size() && !open_ended) {
        return usage(command, "unexpected argument '" + arguments.positionals_[expected.size()] +
                                  "' (quote a text of several words)");
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
        if (i >= arguments.positionals_.size()) {
            if (!expected[i].required) break;
            return usage(command,
                         std::string(expected[i].name) + " is missing (hearth help " + std::string(command.name) + ")");
        }
        if (expected[i].kind == ValueKind::Choice) {
            TRY(check_choice(command, expected[i].name, arguments.positionals_[i], expected[i].choices));
        }
    }
    return arguments;
}

const std::string* Arguments::find(std::string_view name) const {
    for (auto entry = values_.rbegin(); entry != values_.rend(); ++entry) {
        if (entry->first == name) return &entry->second;
    }
    return nullptr;
}

std::optional<std::string> Arguments::text(std::string_view name) const {
    const std::string* value = find(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(*value);
}

std::vector<std::string> Arguments::texts(std::string_view name) const {
    std::vector<std::string> all;
    for (const auto& [key, value] : values_) {
        if (key == name) all.push_back(value);
    }
    return all;
}

Result<std::optional<std::uint64_t>> Arguments::whole(std::string_view name, std::uint64_t lowest,
                                                      std::uint64_t highest) const {
    const std::string* value = find(name);
    if (value == nullptr) return std::optional<std::uint64_t>();
    return std::optional<std::uint64_t>(TRY(parse_whole("--" + std::string(name), *value, lowest, highest)));
}

Result<std::optional<float>> Arguments::real(std::string_view name) const {
    const std::string* value = find(name);
    if (value == nullptr) return std::optional<float>();
    return std::optional<float>(TRY(parse_real("--" + std::string(name), *value)));
}

std::optional<std::string> Arguments::positional(std::size_t index) const {
    if (index >= positionals_.size()) return std::nullopt;
    return positionals_[index];
}

Result<std::uint64_t> parse_whole(std::string_view what, std::string_view text, std::uint64_t lowest,
                                  std::uint64_t highest) {
    std::uint64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || code != std::errc{} || end != text.data() + text.size() || value < lowest || value > highest) {
        return Error{ErrorCode::Usage, std::string(what) + ": '" + std::string(text) + "' is not a whole number from " +
                                           std::to_string(lowest) + " to " + std::to_string(highest)};
    }
    return value;
}

Result<float> parse_real(std::string_view what, std::string_view text) {
    float value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || code != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) {
        return Error{ErrorCode::Usage, std::string(what) + ": '" + std::string(text) + "' is not a number"};
    }
    return value;
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> choices) {
    std::string_view best;
    std::size_t best_distance = std::max<std::size_t>(1, std::min<std::size_t>(word.size() / 3 + 1, 3)) + 1;
    if (word.size() > 64) return best;  // no slip of the finger
    for (const std::string_view choice : choices) {
        const std::size_t distance = word.size() >= 3 && choice.starts_with(word) ? 1 : edit_distance(word, choice);
        if (distance < best_distance) {
            best_distance = distance;
            best = choice;
        }
    }
    return best;
}

std::string suggestion(std::string_view word, std::span<const std::string_view> choices, std::string_view prefix) {
    const std::string_view best = nearest(word, choices);
    if (best.empty()) return "";
    return " (did you mean " + std::string(prefix) + std::string(best) + "?)";
}

std::vector<std::string_view> split_choices(std::string_view choices) {
    std::vector<std::string_view> all;
    while (!choices.empty()) {
        const std::size_t bar = std::min(choices.find('|'), choices.size());
        all.push_back(choices.substr(0, bar));
        choices.remove_prefix(std::min(bar + 1, choices.size()));
    }
    return all;
}

}  // namespace hearth
