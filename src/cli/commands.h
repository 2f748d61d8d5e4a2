// The list of commands. One file a command beside this one.
#pragma once

#include <span>
#include <string>

#include "cli/options.h"
#include "cli/session.h"

namespace hearth {

std::span<const Command> commands();
const Command* find_command(std::string_view name);

// Help of one command, of the whole program, and the manual (docs/cli.md).
std::string command_help(const Command& command, const Console& console);
std::string program_help(const Console& console);
std::string manual();

inline constexpr std::string_view kShells = "bash|zsh|fish";
Result<std::string> completion_script(std::string_view shell, std::span<const std::string> models);

// 0 ok, 1 failed, 2 usage, 3 model, 4 resources.
int exit_code(const Error& error);

// The whole program: parses, runs one command, reports an error as one line. Gives the exit code.
int run_program(std::span<const std::string> words, Session& session);

extern const Command kBenchCommand;
extern const Command kCompletionCommand;
extern const Command kDoctorCommand;
extern const Command kHelpCommand;
extern const Command kInspectCommand;
extern const Command kPerplexityCommand;
extern const Command kPlanCommand;
extern const Command kPullCommand;
extern const Command kQuantizeCommand;
extern const Command kRunCommand;
extern const Command kServeCommand;
extern const Command kTokenizeCommand;
extern const Command kTopCommand;
extern const Command kTreeCommand;
extern const Command kVersionCommand;
extern const Command kVmCommand;

}  // namespace hearth
