// From words on the command line to an exit code.
#include <algorithm>

#include "cli/commands.h"

namespace hearth {

int exit_code(const Error& error) {
    switch (error.code) {
        case ErrorCode::Failed: return 1;
        case ErrorCode::Usage: return 2;
        case ErrorCode::InvalidModel: return 3;
        case ErrorCode::Busy:
        case ErrorCode::OutOfResources: return 4;
        case ErrorCode::Cancelled: return 130;  // as shells report Ctrl-C
    }
    return 1;
}

namespace {

int report(const Error& error, Session& session) {
    std::string line = error.message;
    // An error is one line, whatever a file name or a child process brought in.
    for (char& c : line) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    }
    session.console.note(session.console.for_error(Style::Red, "hearth: ") + line);
    return exit_code(error);
}

Error unknown_command(std::string_view word) {
    std::vector<std::string_view> names;
    for (const Command& command : commands()) names.push_back(command.name);
    std::string hint = suggestion(word, names);
    if (hint.empty()) hint = " (hearth help lists the commands)";
    return Error{ErrorCode::Usage, "unknown command '" + std::string(word) + "'" + hint};
}

}  // namespace

int run_program(std::span<const std::string> words, Session& session) {
    if (words.empty()) {
        session.console.write_error(program_help(session.console));
        return 2;
    }
    std::string_view name = words[0];
    if (name == "--help" || name == "-h") name = "help";
    if (name == "--version" || name == "-V") name = "version";
    const Command* command = find_command(name);
    if (command == nullptr) return report(unknown_command(words[0]), session);
    const Result<Arguments> arguments = Arguments::parse(*command, words.subspan(1));
    if (!arguments.ok()) return report(arguments.error(), session);
    Status status;
    if (arguments->flag("help")) {
        session.console.print(command_help(*command, session.console));
    } else {
        status = command->run(arguments.value(), session);
    }
    if (status.ok()) status = session.console.finish();
    return status.ok() ? 0 : report(status.error(), session);
}

}  // namespace hearth
