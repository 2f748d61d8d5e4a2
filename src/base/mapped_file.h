// A file mapped read-only. Only regular files are mapped, so a FIFO or an endless device cannot hang the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace hearth {

// Which file it was when it was opened. Whoever writes to it, or puts another in its place, changes this.
struct FileVersion {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t modified_ns = 0;  // since 1970: of its content, which can be set to any time
    std::int64_t changed_ns = 0;   // of anything about it, which cannot
};

class MappedFile {
public:
    MappedFile() = default;
    // InvalidModel with "PATH: reason" when it cannot be opened, is not a regular file or is empty.
    static Result<MappedFile> open(const std::string& path);
    MappedFile(MappedFile&& other) noexcept { swap(other); }
    MappedFile& operator=(MappedFile&& other) noexcept {
        swap(other);
        return *this;
    }
    ~MappedFile();

    std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }
    const FileVersion& version() const { return version_; }

    // Gives the memory of these bytes back to the system; they are read from the file again when looked at. Bytes
    // outside this file are left alone.
    void forget(std::span<const std::byte> bytes) const;

private:
    void swap(MappedFile& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_bytes_, other.size_bytes_);
        std::swap(version_, other.version_);
    }
    const std::byte* data_ = nullptr;
    std::size_t size_bytes_ = 0;
    FileVersion version_;
};

// Files are dated by a clock of a few milliseconds: waits until it has moved on, so that every change from now on is
// another version. False where it does not, as with dates from a machine whose clock is ahead of ours.
bool wait_until_changes_show(const FileVersion& version);

// Whole small text or binary file, at most `limit_bytes`.
Result<std::string> read_file(const std::string& path, std::size_t limit_bytes);

// Writes PATH so that it is either the old content or all of the new: a temporary beside it, fsync, rename.
Status write_file_atomically(const std::string& path, std::span<const std::byte> content);

}  // namespace hearth
