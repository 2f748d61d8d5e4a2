// A file mapped read-only. Only regular files are mapped, so a FIFO or an endless device cannot hang the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace hearth {

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
    std::int64_t modified_ns() const { return modified_ns_; }  // since 1970, when it was opened

    // Gives the memory of these bytes back to the system; they are read from the file again when looked at. Bytes
    // outside this file are left alone.
    void forget(std::span<const std::byte> bytes) const;

private:
    void swap(MappedFile& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_bytes_, other.size_bytes_);
        std::swap(modified_ns_, other.modified_ns_);
    }
    const std::byte* data_ = nullptr;
    std::size_t size_bytes_ = 0;
    std::int64_t modified_ns_ = 0;
};

// Whole small text or binary file, at most `limit_bytes`.
Result<std::string> read_file(const std::string& path, std::size_t limit_bytes);

// Writes PATH so that it is either the old content or all of the new: a temporary beside it, fsync, rename.
Status write_file_atomically(const std::string& path, std::span<const std::byte> content);

}  // namespace hearth
