// Runs another program, without a shell, and watches over it.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace hearth {

struct ChildResult {
    int exit_code = 0;   // 128 + signal when it was ended by one
    std::string errors;  // the end of what it wrote to standard error, at most 16 KiB
};

// `words[0]` is looked up in PATH; standard input is empty, standard output is dropped. `environment` is set on top of
// ours. `on_tick` is called about ten times a second while it runs. The child dies with us.
// Error: the program cannot be started.
Result<ChildResult> run_child(const std::vector<std::string>& words,
                              const std::vector<std::pair<std::string, std::string>>& environment,
                              const std::function<void()>& on_tick);

}  // namespace hearth
