// Which CPUs the kernel lets this thread run on.
#pragma once

#include <span>
#include <vector>

namespace hearth {

// CPU numbers, ascending; empty when the kernel does not say.
std::vector<unsigned> allowed_cpus();

// Keeps the calling thread on these CPUs, and the threads it starts from now on. False when the kernel refuses, as it
// may in a container: the thread then runs where it ran before.
bool keep_on_cpus(std::span<const unsigned> cpus);

}  // namespace hearth
