// What a command gets besides its arguments.
#pragma once

#include "cli/console.h"
#include "cli/environment.h"

namespace hearth {

struct Session {
    Environment environment;
    Console console;
};

}  // namespace hearth
