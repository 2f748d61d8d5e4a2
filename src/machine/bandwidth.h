// Measures how fast this machine reads memory: the roof that decoding is compared with.
#pragma once

#include <cstddef>

#include "machine/machine.h"
#include "machine/thread_pool.h"

namespace hearth {

// Bytes that do not fit the caches of this machine: at least 192 MiB, and two and a half times all of its last level.
std::size_t bytes_beyond_caches(const Topology& topology);

// GB/s (10^9 bytes) of the best of several plain reads over `bytes` of memory by all workers, taking about `seconds`
// (at least one read). Choose `bytes` larger than the caches. 0 when the memory cannot be had.
double measure_read_bandwidth(ThreadPool& pool, std::size_t bytes, double seconds = 0.1);

}  // namespace hearth
