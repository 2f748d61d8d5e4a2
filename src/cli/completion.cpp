// Completion scripts for the shells, from the option table.
#include "base/json.h"
#include "cli/catalogue.h"
#include "cli/commands.h"
#include "gguf/quantize.h"

namespace hearth {

namespace {

void append_word(std::string& list, std::string_view word) {
    if (word.empty()) return;
    if (!list.empty()) list += ' ';
    list += word;
}

std::string names_of_commands() {
    std::string names;
    for (const Command& command : commands()) append_word(names, command.name);
    return names;
}

std::string joined(std::span<const std::string> words) {
    std::string out;
    for (const std::string& word : words) append_word(out, word);
    return out;
}

std::string spaced(std::string_view choices) {
    std::string out(choices);
    for (char& c : out) c = c == '|' ? ' ' : c;
    return out;
}

template <typename Visit>
void each_option(const Command& command, Visit visit) {
    for (const std::span<const Option> table : {command.options, common_options()}) {
        for (const Option& option : table) {
            if (option.visibility == Visibility::Shown) visit(option);
        }
    }
}

bool takes(const Command& command, ValueKind kind) {
    for (const Positional& positional : command.positionals) {
        if (positional.kind == kind) return true;
    }
    return false;
}

// Words that may stand in a positional place, besides files.
std::string positional_words(const Command& command, std::span<const std::string> models) {
    std::string words;
    if (command.name == kHelpCommand.name) words = names_of_commands();
    for (const Positional& positional : command.positionals) {
        append_word(words, spaced(positional.choices));
    }
    if (takes(command, ValueKind::Model)) append_word(words, joined(models));
    if (command.name == kQuantizeCommand.name) {
        for (const std::string_view mix : quantize_mixes()) append_word(words, mix);
    }
    if (command.name == kInspectCommand.name) append_word(words, "machine");
    return words;
}

bool takes_files(const Command& command) {
    return takes(command, ValueKind::Model) || takes(command, ValueKind::File);
}

std::string bash_script(std::span<const std::string> models) {
    std::string out =
        "# bash completion for hearth; load it with: source <(hearth completion bash)\n"
        "_hearth() {\n"
        "    local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\" options=\"\" words=\"\" "
        "files=\"\"\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "        COMPREPLY=($(compgen -W \"" +
        names_of_commands() +
        "\" -- \"$word\"))\n"
        "        return\n"
        "    fi\n"
        "    case \"${COMP_WORDS[1]}\" in\n";
    for (const Command& command : commands()) {
        out += "        " + std::string(command.name) + ")\n";
        std::string options;
        std::string values;
        each_option(command, [&](const Option& option) {
            append_word(options, "--" + std::string(option.name));
            if (option.kind == ValueKind::Flag) return;
            std::string pattern = "--" + std::string(option.name);
            if (option.letter != 0) pattern += std::string("|-") + option.letter;
            values += "                " + pattern + ") ";
            if (option.kind == ValueKind::File) {
                values += "COMPREPLY=($(compgen -f -- \"$word\"))";
            } else if (option.kind == ValueKind::Choice) {
                values += "COMPREPLY=($(compgen -W \"" + spaced(option.choices) + "\" -- \"$word\"))";
            } else {
                values += "COMPREPLY=()";
            }
            values += "; return ;;\n";
        });
        if (!values.empty()) {
            out += "            case \"$before\" in\n" + values + "            esac\n";
        }
        out += "            options=\"" + options + "\"\n            words=\"" + positional_words(command, models) +
               "\"\n";
        if (takes_files(command)) out += "            files=1\n";
        out += "            ;;\n";
    }
    out +=
        "    esac\n"
        "    case \"$word\" in\n"
        "        -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
        "        *) COMPREPLY=($(compgen -W \"$words\" -- \"$word\") $([ -n \"$files\" ] && compgen -f -- \"$word\")) "
        ";;\n"
        "    esac\n"
        "}\n"
        "complete -o filenames -F _hearth hearth\n";
    return out;
}

// For single quotes in zsh and fish; colons and brackets matter to zsh's _arguments and _describe.
std::string quoted(std::string_view text, std::string_view escaped = "") {
    std::string out = "'";
    for (const char c : text) {
        if (c == '\'') {
            out += "'\\''";
        } else if (escaped.find(c) != std::string_view::npos) {
            out += std::string("\\") + c;
        } else {
            out += c;
        }
    }
    return out + "'";
}

std::string zsh_script(std::span<const std::string> models) {
    std::string out =
        "#compdef hearth\n# zsh completion for hearth; load it with: source <(hearth completion zsh)\n"
        "_hearth() {\n    local -a commands\n    commands=(\n";
    for (const Command& command : commands()) {
        out += "        " + quoted(std::string(command.name) + ":" + std::string(command.summary)) + "\n";
    }
    out +=
        "    )\n"
        "    if (( CURRENT == 2 )); then\n        _describe command commands\n        return\n    fi\n"
        "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $command in\n";
    for (const Command& command : commands()) {
        out += "        " + std::string(command.name) + ")\n            _arguments";
        each_option(command, [&](const Option& option) {
            std::string action;
            if (option.kind == ValueKind::File) {
                action = ":" + std::string(option.value_name) + ":_files";
            } else if (option.kind == ValueKind::Choice) {
                action = ":" + std::string(option.value_name) + ":(" + spaced(option.choices) + ")";
            } else if (option.kind != ValueKind::Flag) {
                action = ":" + std::string(option.value_name) + ":";
            }
            const std::string help = quoted(option.help, "[]:");
            std::string text = "[";
            text.append(help, 1, help.size() - 2).append("]").append(action);
            out += " \\\n                '*--" + std::string(option.name) + text + "'";
            if (option.letter != 0) out += std::string(" \\\n                '*-") + option.letter + text + "'";
        });
        const std::string words = positional_words(command, models);
        if (!command.positionals.empty()) {
            const std::string files = takes_files(command) ? " \"files:file:_files\"" : "";
            out += " \\\n                '*:argument:_alternative \"words:word:(" + words + ")\"" + files + "'";
        }
        out += "\n            ;;\n";
    }
    out += "    esac\n}\ncompdef _hearth hearth\n";
    return out;
}

std::string fish_script(std::span<const std::string> models) {
    std::string out =
        "# fish completion for hearth; load it with: hearth completion fish | source\n"
        "complete -c hearth -f\n";
    for (const Command& command : commands()) {
        out += "complete -c hearth -n __fish_use_subcommand -a " + std::string(command.name) + " -d " +
               quoted(command.summary) + "\n";
        const std::string seen =
            "complete -c hearth -n '__fish_seen_subcommand_from " + std::string(command.name) + "'";
        const std::string words = positional_words(command, models);
        if (!words.empty()) out += seen + " -a " + quoted(words) + "\n";
        if (takes_files(command)) out += seen + " -F\n";
        each_option(command, [&](const Option& option) {
            out += seen + " -l " + std::string(option.name);
            if (option.letter != 0) out += std::string(" -s ") + option.letter;
            if (option.kind != ValueKind::Flag) out += option.kind == ValueKind::File ? " -r -F" : " -x";
            if (option.kind == ValueKind::Choice) out += " -a " + quoted(spaced(option.choices));
            out += " -d " + quoted(option.help) + "\n";
        });
    }
    return out;
}

constexpr Positional kPositionals[] = {
    {.name = "SHELL", .kind = ValueKind::Choice, .help = "bash, zsh or fish.", .choices = kShells}};
constexpr Example kExamples[] = {
    {"source <(hearth completion bash)", "Completes commands, options and model names in this shell."},
    {"hearth completion fish | source", "The same for fish."}};

Status run_completion(const Arguments& arguments, Session& session) {
    const Catalogue catalogue = TRY(Catalogue::load(session.environment));
    std::vector<std::string> models;
    for (const CatalogueModel& model : catalogue.models) models.push_back(model.name);
    const std::string script = TRY(completion_script(*arguments.positional(0), models));
    session.console.print(arguments.flag("json") ? json_quote(script) + "\n" : script);
    return {};
}

}  // namespace

Result<std::string> completion_script(std::string_view shell, std::span<const std::string> models) {
    if (shell == "bash") return bash_script(models);
    if (shell == "zsh") return zsh_script(models);
    if (shell == "fish") return fish_script(models);
    return Error{ErrorCode::Usage, "completion: unknown shell '" + std::string(shell) + "'"};
}

const Command kCompletionCommand = {
    "completion",
    "Print a completion script for bash, zsh or fish",
    "Prints a script that teaches a shell the commands, options and model names of hearth.",
    kPositionals,
    {},
    kExamples,
    run_completion};

}  // namespace hearth
