// Counts what operator new hands out in this test binary, and makes it fail.
#pragma once

#include <cstddef>

namespace hearth::gguf_test {

// Bytes requested since the program began, on all threads.
std::size_t allocated_bytes();

// While one lives, operator new fails on its thread.
struct NoMemory {
    NoMemory();
    ~NoMemory();
    NoMemory(const NoMemory&) = delete;
    NoMemory& operator=(const NoMemory&) = delete;
};

}  // namespace hearth::gguf_test
