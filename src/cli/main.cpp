// The program `hearth`.
#include <csignal>
#include <new>
#include <string>
#include <vector>

#include "cli/commands.h"

int main(int argc, char** argv) {
    // A closed pipe and a file-size limit are errors of the write, not reasons to die.
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);
    try {
        const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
        const hearth::Environment environment = hearth::read_environment();
        hearth::Session session{environment, hearth::Console(environment.no_color)};
        return hearth::run_program(words, session);
    } catch (const std::bad_alloc&) {
        hearth::Console(true).note("hearth: out of memory");
        return 4;
    }
}
