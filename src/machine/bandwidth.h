// Measures how fast this machine reads memory: the roof that decoding is compared with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/memory.h"
#include "machine/machine.h"
#include "machine/thread_pool.h"

namespace hearth {

// Bytes that do not fit the caches of this machine: at least 192 MiB, and two and a half times all of its last level.
std::size_t bytes_beyond_caches(const Topology& topology);

// Memory to read with all workers of a pool, which must outlive it. Choose `bytes` larger than the caches.
class ReadProbe {
public:
    ReadProbe(ThreadPool& pool, std::size_t bytes);

    // GB/s (10^9 bytes) that reading all of it gives now, for about `seconds` (at least once). It is read in several
    // ways; what counts is the one that has been the fastest in all measurements so far, not a single lucky read. 0
    // when the memory could not be had.
    double measure(double seconds = 0.1);

private:
    std::size_t chunks() const;
    std::span<std::uint64_t> chunk(std::size_t index) const;

    ThreadPool& pool_;
    Reservation memory_;
    std::span<std::uint64_t> words_;
    std::vector<double> seconds_of_way_;  // in all measurements
};

}  // namespace hearth
