// An exclusive lock between processes, gone with the process that holds it.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "base/result.h"

namespace hearth {

class FileLock {
public:
    // Locks the file at `path`, made when it is not there. While another holds it `keep_waiting` is asked some times a
    // second; when it says no, that is the error. Whoever holds the lock may remove the file.
    static Result<FileLock> take(const std::string& path, const std::function<bool()>& keep_waiting);
    FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    FileLock& operator=(FileLock&&) = delete;
    ~FileLock();

private:
    explicit FileLock(int descriptor) : descriptor_(descriptor) {}
    int descriptor_;
};

}  // namespace hearth
