// A file mapped read-only. Only regular files are mapped, so a FIFO or an endless device cannot hang the caller.
#pragma once

#include <cstddef>
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

private:
    void swap(MappedFile& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_bytes_, other.size_bytes_);
    }
    const std::byte* data_ = nullptr;
    std::size_t size_bytes_ = 0;
};

// Whole small text or binary file, at most `limit_bytes`.
Result<std::string> read_file(const std::string& path, std::size_t limit_bytes);

// Writes PATH so that it is either the old content or all of the new: a temporary beside it, fsync, rename.
Status write_file_atomically(const std::string& path, std::span<const std::byte> content);

}  // namespace hearth
