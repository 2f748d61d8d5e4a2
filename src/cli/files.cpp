#include "cli/files.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>

#include "base/sha256.h"

namespace hearth {

namespace {

namespace fs = std::filesystem;

Error errno_error(const std::string& path) {
    const ErrorCode code = errno == ENOSPC || errno == EDQUOT ? ErrorCode::OutOfResources : ErrorCode::Failed;
    return Error{code, path + ": " + std::strerror(errno)};
}

class Descriptor {
public:
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (number_ >= 0) ::close(number_);
    }
    int get() const { return number_; }

private:
    int number_;
};

Status write_all(int descriptor, const std::string& path, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t put = ::write(descriptor, bytes.data(), bytes.size());
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return errno_error(path);
        bytes = bytes.subspan(static_cast<std::size_t>(put));
    }
    return {};
}

template <typename Take>
Status read_chunks(const std::string& path, const Take& take) {
    const Descriptor in(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (in.get() < 0) return errno_error(path);
    std::vector<std::byte> chunk(std::size_t{1} << 20);
    for (;;) {
        const ssize_t got = ::read(in.get(), chunk.data(), chunk.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno_error(path);
        if (got == 0) return {};
        TRY(take(std::span<const std::byte>(chunk.data(), static_cast<std::size_t>(got))));
    }
}

}  // namespace

Status make_folders(const std::string& path) {
    std::error_code failure;
    fs::create_directories(path, failure);
    if (failure) return Error{ErrorCode::Failed, path + ": " + failure.message()};
    return {};
}

void remove_tree(const std::string& path) {
    std::error_code ignored;
    fs::remove_all(path, ignored);
}

std::optional<std::uint64_t> file_size(const std::string& path) {
    std::error_code failure;
    if (!fs::is_regular_file(path, failure)) return std::nullopt;
    const std::uint64_t size = fs::file_size(path, failure);
    if (failure) return std::nullopt;
    return size;
}

std::uint64_t tree_size(const std::string& path) {
    std::uint64_t total = 0;
    std::error_code failure;
    // Files come and go below us while a download runs: an entry that vanishes counts nothing.
    for (fs::recursive_directory_iterator entry(path, failure), end; !failure && entry != end;
         entry.increment(failure)) {
        std::error_code vanished;
        if (!entry->is_regular_file(vanished) || vanished) continue;
        const std::uint64_t size = entry->file_size(vanished);
        if (!vanished) total += size;
    }
    return total;
}

std::vector<std::string> files_in(const std::string& folder) {
    std::vector<std::string> names;
    std::error_code failure;
    for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
        std::error_code vanished;
        if (entry->is_regular_file(vanished)) names.push_back(entry->path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::uint64_t free_space(const std::string& path) {
    struct statvfs info {};
    if (::statvfs(path.c_str(), &info) != 0) return std::numeric_limits<std::uint64_t>::max();
    return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

Status rename_file(const std::string& from, const std::string& to) {
    if (::rename(from.c_str(), to.c_str()) != 0) return errno_error(to);
    return {};
}

Result<std::string> hash_file(const std::string& path, const std::function<void(std::uint64_t)>& on_bytes) {
    Sha256 hash;
    std::uint64_t done = 0;
    TRY(read_chunks(path, [&](std::span<const std::byte> bytes) -> Status {
        hash.update(bytes);
        done += bytes.size();
        on_bytes(done);
        return {};
    }));
    return hash.finish();
}

Result<std::string> join_files(const std::vector<std::string>& parts, const std::string& target,
                               const std::function<void(std::uint64_t)>& on_bytes) {
    const Descriptor out(::open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (out.get() < 0) return errno_error(target);
    Sha256 hash;
    std::uint64_t done = 0;
    for (const std::string& part : parts) {
        TRY(read_chunks(part, [&](std::span<const std::byte> bytes) -> Status {
            hash.update(bytes);
            TRY(write_all(out.get(), target, bytes));
            done += bytes.size();
            on_bytes(done);
            return {};
        }));
    }
    if (::fsync(out.get()) != 0) return errno_error(target);
    return hash.finish();
}

}  // namespace hearth
