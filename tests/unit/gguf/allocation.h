// Counts what operator new hands out in this test binary.
#pragma once

#include <cstddef>

namespace hearth::gguf_test {

// Bytes requested since the program began, on all threads.
std::size_t allocated_bytes();

}  // namespace hearth::gguf_test
