// Counts the allocations of this test binary.
#pragma once

#include <cstddef>

namespace hearth {

std::size_t allocation_count();

}  // namespace hearth
