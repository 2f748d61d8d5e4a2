#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

namespace hearth {

namespace {

class Descriptor {
public:
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    int get() const { return fd_; }

private:
    int fd_;
};

std::int64_t nanoseconds(const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Error errno_error(ErrorCode code, const std::string& path) {
    return Error{code, path + ": " + std::strerror(errno)};
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
    // O_NONBLOCK: opening a FIFO without a writer returns at once instead of waiting.
    const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd.get() < 0) return errno_error(ErrorCode::InvalidModel, path);
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) return errno_error(ErrorCode::InvalidModel, path);
    if (S_ISDIR(info.st_mode)) return Error{ErrorCode::InvalidModel, path + ": is a directory"};
    if (!S_ISREG(info.st_mode)) return Error{ErrorCode::InvalidModel, path + ": not a regular file"};
    if (info.st_size <= 0) return Error{ErrorCode::InvalidModel, path + ": the file is empty"};
    MappedFile file;
    const std::size_t size_bytes = static_cast<std::size_t>(info.st_size);
    void* address = ::mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (address == MAP_FAILED) return errno_error(ErrorCode::OutOfResources, path);
    file.data_ = static_cast<const std::byte*>(address);
    file.size_bytes_ = size_bytes;
    file.version_ = {.device = info.st_dev,
                     .inode = info.st_ino,
                     .modified_ns = nanoseconds(info.st_mtim),
                     .changed_ns = nanoseconds(info.st_ctim)};
    return file;
}

void MappedFile::forget(std::span<const std::byte> bytes) const {
    const auto address = [](const std::byte* at) { return reinterpret_cast<std::uintptr_t>(at); };
    const std::uintptr_t first = std::max(address(bytes.data()), address(data_));
    const std::uintptr_t last = std::min(address(bytes.data() + bytes.size()), address(data_ + size_bytes_));
    const std::uintptr_t page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const std::uintptr_t begin = (first + page - 1) / page * page;
    const std::uintptr_t end = last / page * page;
    if (begin < end) ::madvise(const_cast<std::byte*>(data_) + (begin - address(data_)), end - begin, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_bytes_);
}

bool wait_until_changes_show(const FileVersion& version) {
    for (int i = 0; i < 20; ++i) {
        timespec now{};
        ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
        if (nanoseconds(now) > version.changed_ns) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
}

Result<std::string> read_file(const std::string& path, std::size_t limit_bytes) {
    const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd.get() < 0) return errno_error(ErrorCode::Failed, path);
    std::string content;
    char chunk[65536];
    for (;;) {
        const ssize_t got = ::read(fd.get(), chunk, sizeof chunk);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno_error(ErrorCode::Failed, path);
        if (got == 0) return content;
        content.append(chunk, static_cast<std::size_t>(got));
        if (content.size() > limit_bytes) {
            return Error{ErrorCode::Failed, path + ": larger than " + std::to_string(limit_bytes) + " bytes"};
        }
    }
}

Status write_file_atomically(const std::string& path, std::span<const std::byte> content) {
    const std::string temporary = path + ".tmp" + std::to_string(::getpid());
    {
        const Descriptor fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
        if (fd.get() < 0) return errno_error(ErrorCode::Failed, temporary);
        std::size_t offset = 0;
        while (offset < content.size()) {
            const ssize_t put = ::write(fd.get(), content.data() + offset, content.size() - offset);
            if (put < 0 && errno == EINTR) continue;
            if (put < 0) {
                const Error error = errno_error(ErrorCode::Failed, temporary);
                ::unlink(temporary.c_str());
                return error;
            }
            offset += static_cast<std::size_t>(put);
        }
        if (::fsync(fd.get()) != 0) {
            const Error error = errno_error(ErrorCode::Failed, temporary);
            ::unlink(temporary.c_str());
            return error;
        }
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
        const Error error = errno_error(ErrorCode::Failed, path);
        ::unlink(temporary.c_str());
        return error;
    }
    return {};
}

}  // namespace hearth
