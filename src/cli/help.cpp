// Help and the manual, from the option table.
#include <algorithm>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/wrapped.h"

namespace hearth {

namespace {

constexpr std::size_t kWidth = 80;

std::string usage_of(const Command& command) {
    std::string usage = "hearth " + std::string(command.name);
    for (const Positional& positional : command.positionals) {
        usage += positional.required ? " " : " [";
        usage += positional.name;
        if (positional.repeats) usage += "...";
        if (!positional.required) usage += "]";
    }
    return usage + (command.options.empty() ? "" : " [OPTIONS]");
}

std::string option_head(const Option& option) {
    std::string head = option.letter != 0 ? std::string("-") + option.letter + ", " : std::string("    ");
    head += "--" + std::string(option.name);
    if (option.kind != ValueKind::Flag) head += " " + std::string(option.value_name);
    return head;
}

std::string option_text(const Option& option) {
    std::string text(option.help);
    if (!option.default_text.empty()) text += " [default: " + std::string(option.default_text) + "]";
    return text;
}

// `|` would end a cell.
std::string cell(std::string_view text) {
    std::string out;
    for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
    return out;
}

std::string list_line(std::string_view head, std::string_view text, std::size_t indent) {
    std::string line = "  " + std::string(head);
    if (line.size() + 2 > indent) {
        line += "\n" + std::string(indent, ' ');
    } else {
        line.resize(indent, ' ');
    }
    return line + wrapped(text, indent, kWidth) + "\n";
}

}  // namespace

std::string command_help(const Command& command, const Console& console) {
    const auto title = [&](std::string_view text) { return console.for_output(Style::Bold, text) + "\n"; };
    std::string out = wrapped(command.description, 0, kWidth) + "\n\n";
    out += title("Usage") + "  " + usage_of(command) + "\n\n";
    if (!command.positionals.empty()) {
        out += title("Arguments");
        for (const Positional& positional : command.positionals) out += list_line(positional.name, positional.help, 30);
        out += "\n";
    }
    out += title("Options");
    for (const std::span<const Option> table : {command.options, common_options()}) {
        for (const Option& option : table) {
            if (option.visibility == Visibility::Hidden) continue;
            out += list_line(option_head(option), option_text(option), 30);
        }
    }
    if (!command.examples.empty()) {
        out += "\n" + title("Examples");
        for (const Example& example : command.examples) {
            out += "  " + console.for_output(Style::Cyan, example.command) + "\n      " +
                   wrapped(example.meaning, 6, kWidth) + "\n";
        }
    }
    return out;
}

std::string program_help(const Console& console) {
    const auto title = [&](std::string_view text) { return console.for_output(Style::Bold, text) + "\n"; };
    std::string out = "Hearth runs language models on this machine.\n\n";
    out += title("Usage") + "  hearth COMMAND [ARGUMENTS]\n\n" + title("Commands");
    for (const Command& command : commands()) out += list_line(command.name, command.summary, 14);
    out += "\n" + title("First steps");
    out += "  hearth run                        chat with the default model, fetched once\n";
    out += "  hearth run smollm2-135m \"Hello!\"  one answer\n";
    out += "  hearth inspect machine            what Hearth sees of this computer\n";
    out += "  hearth help COMMAND               a command's options and examples\n\n";
    out += title("Environment");
    out += list_line("HEARTH_HOME", "where models are kept [default: ${XDG_CACHE_HOME:-~/.cache}/hearth]", 24);
    out += list_line("HEARTH_CPU_THREADS", "default of --threads", 24);
    out += list_line("HEARTH_CPU_PIN", "1 keeps each thread on one core, 0 on none; else each on its memory node", 24);
    out += list_line("HEARTH_ISA", "default of --isa", 24);
    out += list_line("NO_COLOR", "no colours when set", 24);
    out += list_line("HEARTH_API_KEY", "a key of hearth serve", 24);
    out += list_line("HF_ENDPOINT", "the model hub that hf: names refer to", 24);
    out += "\nExit codes: 0 ok, 1 failed, 2 usage, 3 model file, 4 resources (memory, disk), 130 interrupted.\n";
    return out;
}

std::string manual() {
    std::string out = "# Commands\n\n";
    out += "Written by `hearth help --markdown` from the option table; a test keeps it current.\n\n";
    out +=
        "Results go to standard output, progress and notes to standard error. `--json` makes the result JSON.\n"
        "Exit codes: 0 ok, 1 failed, 2 usage, 3 model file, 4 resources (memory, disk), 130 interrupted.\n"
        "MODEL is a path of a GGUF file, or the name of a model that was pulled.\n\n";
    for (const Command& command : commands()) {
        out += "## hearth " + std::string(command.name) + "\n\n" + std::string(command.description) + "\n\n```\n" +
               usage_of(command) + "\n```\n\n";
        if (!command.positionals.empty()) {
            out += "| argument | meaning |\n|---|---|\n";
            for (const Positional& positional : command.positionals) {
                out += "| `" + std::string(positional.name) + "` | " + cell(positional.help) + " |\n";
            }
            out += "\n";
        }
        out += "| option | meaning | default |\n|---|---|---|\n";
        for (const std::span<const Option> table : {command.options, common_options()}) {
            for (const Option& option : table) {
                if (option.visibility == Visibility::Hidden) continue;
                std::string head = option_head(option);
                head.erase(0, head.find_first_not_of(' '));
                out += "| `" + cell(head) + "` | " + cell(option.help) + " | " + cell(option.default_text) + " |\n";
            }
        }
        out += "\n";
        for (const Example& example : command.examples) {
            out += "    " + std::string(example.command) + "\n\n" + std::string(example.meaning) + "\n\n";
        }
    }
    while (out.ends_with("\n\n")) out.pop_back();
    return out;
}

namespace {

constexpr Positional kHelpPositionals[] = {
    {.name = "COMMAND", .required = false, .help = "The command to explain; none: the list of commands."}};
constexpr Option kHelpOptions[] = {{.name = "markdown", .help = "Print the whole manual as Markdown (docs/cli.md)."}};
constexpr Example kHelpExamples[] = {{"hearth help run", "Explains the command run."}};

Json describe(const Command& command) {
    Json::Array options;
    for (const std::span<const Option> table : {command.options, common_options()}) {
        for (const Option& option : table) {
            if (option.visibility == Visibility::Hidden) continue;
            options.push_back(
                Json::Object{{"name", option.name},
                             {"letter", option.letter != 0 ? Json(std::string(1, option.letter)) : Json()},
                             {"value", option.kind == ValueKind::Flag ? Json() : Json(option.value_name)},
                             {"help", option.help},
                             {"default", option.default_text}});
        }
    }
    return Json::Object{{"name", command.name},
                        {"summary", command.summary},
                        {"usage", usage_of(command)},
                        {"options", std::move(options)}};
}

Status run_help(const Arguments& arguments, Session& session) {
    Console& console = session.console;
    if (arguments.flag("markdown")) {
        console.print(manual());
        return {};
    }
    const std::optional<std::string> name = arguments.positional(0);
    if (name) {
        const Command* command = find_command(*name);
        if (command == nullptr) {
            std::vector<std::string_view> names;
            for (const Command& known : commands()) names.push_back(known.name);
            return Error{ErrorCode::Usage, "help: unknown command '" + *name + "'" + suggestion(*name, names)};
        }
        if (arguments.flag("json")) {
            console.print_line(describe(*command).dump(2));
        } else {
            console.print(command_help(*command, console));
        }
        return {};
    }
    if (arguments.flag("json")) {
        Json::Array all;
        for (const Command& command : commands()) all.push_back(describe(command));
        console.print_line(Json(std::move(all)).dump(2));
    } else {
        console.print(program_help(console));
    }
    return {};
}

Status run_version(const Arguments& arguments, Session& session) {
    if (arguments.flag("json")) {
        session.console.print_line(Json(Json::Object{{"name", "hearth"}, {"version", HEARTH_VERSION}}).dump());
    } else {
        session.console.print_line("hearth " HEARTH_VERSION);
    }
    return {};
}

}  // namespace

const Command kHelpCommand = {"help",           "Explain the commands", "Explains the program or one of its commands.",
                              kHelpPositionals, kHelpOptions,           kHelpExamples,
                              run_help};
const Command kVersionCommand = {"version", "Print the version", "Prints the version.", {}, {}, {}, run_version};

}  // namespace hearth
