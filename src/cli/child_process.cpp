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
constexpr std::size_t kOutputKept = 1024 * 1024;
constexpr int kTickMilliseconds = 100;

// A pipe whose ends close themselves, and no program we start inherits.
struct Pipe {
    int ends[2] = {-1, -1};
    Pipe() = default;
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    ~Pipe() {
        close_end(0);
        close_end(1);
    }
    Status open() {
        if (::pipe2(ends, O_CLOEXEC) == 0) return {};
        return Error{ErrorCode::OutOfResources, std::string("pipe: ") + std::strerror(errno)};
    }
    void close_end(int index) {
        if (ends[index] >= 0) ::close(ends[index]);
        ends[index] = -1;
    }
};

// Runs in the child between fork and exec: only what is safe there. `output` -1: dropped. Exec's errno goes up
// `report`.
[[noreturn]] void become(char* const* words, int output, int errors, int report) {
#ifdef __linux__
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
    ::signal(SIGPIPE, SIG_DFL);
    const int nothing = ::open("/dev/null", O_RDWR);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(output >= 0 ? output : nothing, STDOUT_FILENO);
    ::dup2(errors, STDERR_FILENO);
    ::execvp(words[0], words);
    const int failure = errno;
    static_cast<void>(!::write(report, &failure, sizeof failure));
    ::_exit(127);
}

// Reads what is there into `text`, keeping its end; false at the end of the stream.
bool drain(int descriptor, std::string& text, std::size_t kept) {
    char chunk[4096];
    const ssize_t got = ::read(descriptor, chunk, sizeof chunk);
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    if (got == 0) return false;
    text.append(chunk, static_cast<std::size_t>(got));
    if (text.size() > kept) text.erase(0, text.size() - kept);
    return true;
}

// Collects both streams until both have ended.
void collect(Pipe& errors, Pipe& output, ChildResult& result, const std::function<void()>& on_tick) {
    while (errors.ends[0] >= 0 || output.ends[0] >= 0) {
        struct pollfd waits[2] = {{errors.ends[0], POLLIN, 0}, {output.ends[0], POLLIN, 0}};  // -1 is passed over
        if (::poll(waits, 2, kTickMilliseconds) > 0) {
            if (waits[0].revents != 0 && !drain(errors.ends[0], result.errors, kErrorsKept)) errors.close_end(0);
            if (waits[1].revents != 0 && !drain(output.ends[0], result.output, kOutputKept)) output.close_end(0);
        }
        on_tick();
    }
}

}  // namespace

Result<ChildResult> run_child(const std::vector<std::string>& words,
                              const std::vector<std::pair<std::string, std::string>>& environment,
                              const std::function<void()>& on_tick, ChildOutput output) {
    std::vector<char*> pointers;
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    Pipe errors;
    Pipe kept;
    Pipe report;
    TRY(errors.open());
    TRY(report.open());
    if (output == ChildOutput::Keep) TRY(kept.open());
    const pid_t child = ::fork();
    if (child < 0) return Error{ErrorCode::OutOfResources, std::string("fork: ") + std::strerror(errno)};
    if (child == 0) {
        // Safe after fork because a caller with threads gives no environment.
        for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
        become(pointers.data(), kept.ends[1], errors.ends[1], report.ends[1]);
    }
    errors.close_end(1);
    kept.close_end(1);
    report.close_end(1);
    ChildResult result;
    collect(errors, kept, result, on_tick);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + (WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    int exec_errno = 0;
    if (::read(report.ends[0], &exec_errno, sizeof exec_errno) == sizeof exec_errno) {
        return Error{ErrorCode::Failed, words[0] + ": " + std::strerror(exec_errno)};
    }
    return result;
}

}  // namespace hearth
