#include "cli/input.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/mapped_file.h"

namespace hearth {

Result<std::string> read_standard_input() {
    std::string text;
    char chunk[65536];
    for (;;) {
        const ssize_t got = ::read(STDIN_FILENO, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Error{ErrorCode::Failed, std::string("standard input: ") + std::strerror(errno)};
        if (got == 0) return text;
        text.append(chunk, static_cast<std::size_t>(got));
        if (text.size() > kInputLimit) {
            return Error{ErrorCode::Failed, "standard input: larger than " + std::to_string(kInputLimit) + " bytes"};
        }
    }
}

Result<std::string> read_text_file(const std::string& path) {
    return path == "-" ? read_standard_input() : read_file(path, kInputLimit);
}

}  // namespace hearth
