// sched_getaffinity with a mask that grows: the fixed cpu_set_t ends at 1024 CPUs.
#include "machine/affinity.h"

#include <sched.h>

#include <climits>
#include <cstddef>

namespace hearth {

std::vector<unsigned> allowed_cpus() {
    constexpr std::size_t kWordBits = sizeof(unsigned long) * CHAR_BIT;
    std::vector<unsigned> cpus;
    for (std::size_t words = 1024 / kWordBits; words <= 65536 / kWordBits; words *= 2) {
        std::vector<unsigned long> mask(words);
        // The kernel refuses masks shorter than its own; then the next size is tried.
        if (sched_getaffinity(0, words * sizeof(unsigned long), reinterpret_cast<cpu_set_t*>(mask.data())) != 0) {
            continue;
        }
        for (std::size_t bit = 0; bit < words * kWordBits; ++bit) {
            if ((mask[bit / kWordBits] >> (bit % kWordBits)) & 1UL) cpus.push_back(static_cast<unsigned>(bit));
        }
        break;
    }
    return cpus;
}

}  // namespace hearth
