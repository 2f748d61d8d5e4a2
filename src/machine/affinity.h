// Which CPUs the kernel lets this process run on.
#pragma once

#include <vector>

namespace hearth {

// CPU numbers, ascending; empty when the kernel does not say.
std::vector<unsigned> allowed_cpus();

}  // namespace hearth
