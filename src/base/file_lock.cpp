#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace hearth {

namespace {

constexpr std::chrono::milliseconds kPause{20};

Error errno_error(const std::string& path) {
    return Error{ErrorCode::Failed, path + ": " + std::strerror(errno)};
}

// By whoever held the lock before: another file may be in its place by now.
bool is_removed(int descriptor) {
    struct stat file {};
    return ::fstat(descriptor, &file) == 0 && file.st_nlink == 0;
}

}  // namespace

Result<FileLock> FileLock::take(const std::string& path, const std::function<bool()>& keep_waiting) {
    for (;;) {
        const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (descriptor < 0) return errno_error(path);
        FileLock lock(descriptor);
        while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
            if (errno == EINTR) continue;
            if (errno != EWOULDBLOCK) return errno_error(path);
            if (!keep_waiting()) return Error{ErrorCode::Failed, path + ": another process holds it"};
            std::this_thread::sleep_for(kPause);
        }
        if (!is_removed(descriptor)) return lock;
    }
}

FileLock::~FileLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace hearth
