#include "cli/child_process.h"

#include <fcntl.h>
#include <poll.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace hearth {

namespace {

constexpr std::size_t kErrorsKept = 16 * 1024;
constexpr int kTickMilliseconds = 100;

// Runs in the child between fork and exec: only what is safe there. Exec's errno goes up `report`.
[[noreturn]] void become(char* const* words, int errors, int report) {
#ifdef __linux__
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
    ::signal(SIGPIPE, SIG_DFL);
    const int nothing = ::open("/dev/null", O_RDWR);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(nothing, STDOUT_FILENO);
    ::dup2(errors, STDERR_FILENO);
    ::execvp(words[0], words);
    const int failure = errno;
    static_cast<void>(!::write(report, &failure, sizeof failure));
    ::_exit(127);
}

// Reads what is there into `text`, keeping its end; false at the end of the stream.
bool drain(int descriptor, std::string& text) {
    char chunk[4096];
    const ssize_t got = ::read(descriptor, chunk, sizeof chunk);
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    if (got == 0) return false;
    text.append(chunk, static_cast<std::size_t>(got));
    if (text.size() > kErrorsKept) text.erase(0, text.size() - kErrorsKept);
    return true;
}

}  // namespace

Result<ChildResult> run_child(const std::vector<std::string>& words,
                              const std::vector<std::pair<std::string, std::string>>& environment,
                              const std::function<void()>& on_tick) {
    std::vector<char*> pointers;
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    int errors[2];
    int report[2];
    if (::pipe2(errors, O_CLOEXEC) != 0) return Error{ErrorCode::OutOfResources, std::strerror(errno)};
    if (::pipe2(report, O_CLOEXEC) != 0) {
        ::close(errors[0]);
        ::close(errors[1]);
        return Error{ErrorCode::OutOfResources, std::strerror(errno)};
    }
    const pid_t child = ::fork();
    if (child == 0) {
        // We run no other threads here, so setenv after fork is safe.
        for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
        become(pointers.data(), errors[1], report[1]);
    }
    const int fork_errno = errno;
    ::close(errors[1]);
    ::close(report[1]);
    ChildResult result;
    int exec_errno = 0;
    if (child > 0) {
        bool open = true;
        while (open) {
            struct pollfd wait {
                errors[0], POLLIN, 0
            };
            const int ready = ::poll(&wait, 1, kTickMilliseconds);
            if (ready > 0) open = drain(errors[0], result.errors);
            on_tick();
        }
        int status = 0;
        while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
        result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + (WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        if (::read(report[0], &exec_errno, sizeof exec_errno) != sizeof exec_errno) exec_errno = 0;
    }
    ::close(errors[0]);
    ::close(report[0]);
    if (child < 0) return Error{ErrorCode::OutOfResources, std::string("fork: ") + std::strerror(fork_errno)};
    if (exec_errno != 0) return Error{ErrorCode::Failed, words[0] + ": " + std::strerror(exec_errno)};
    return result;
}

}  // namespace hearth
