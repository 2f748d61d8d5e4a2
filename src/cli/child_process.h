// Runs another program, without a shell, and watches over it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace hearth {

struct ChildResult {
    int exit_code = 0;   // 128 + signal when it was ended by one
    std::string errors;  // the end of what it wrote to standard error, at most 16 KiB
    std::string output;  // what it wrote to standard output, when that is kept: the end, at most 1 MiB
};

enum class ChildOutput : std::uint8_t { Drop, Keep };

// `words[0]` is looked up in PATH; standard input is empty. `environment` is set on top of ours; it must be empty where
// other threads run. `on_tick` is called about ten times a second while it runs. The child dies with us.
// Error: the program cannot be started.
Result<ChildResult> run_child(const std::vector<std::string>& words,
                              const std::vector<std::pair<std::string, std::string>>& environment,
                              const std::function<void()>& on_tick, ChildOutput output = ChildOutput::Drop);

}  // namespace hearth
