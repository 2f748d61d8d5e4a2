#include "cli/commands.h"

#include <array>

namespace hearth {

std::span<const Command> commands() {
    // In the order of help.
    static const std::array kCommands = {kRunCommand,      kServeCommand,      kTopCommand,        kTreeCommand,
                                         kPullCommand,     kPlanCommand,       kDoctorCommand,     kInspectCommand,
                                         kTokenizeCommand, kQuantizeCommand,   kPerplexityCommand, kBenchCommand,
                                         kVmCommand,       kCompletionCommand, kHelpCommand,       kVersionCommand};
    return kCommands;
}

const Command* find_command(std::string_view name) {
    for (const Command& command : commands()) {
        if (command.name == name) return &command;
    }
    return nullptr;
}

}  // namespace hearth
