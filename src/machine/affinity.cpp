// sched_getaffinity and sched_setaffinity with a mask that grows: the fixed cpu_set_t ends at 1024 CPUs.
#include "machine/affinity.h"

#include <sched.h>

#include <algorithm>
#include <climits>
#include <cstddef>

namespace hearth {

namespace {

constexpr std::size_t kWordBits = sizeof(unsigned long) * CHAR_BIT;
constexpr std::size_t kMaxCpus = 65536;

}  // namespace

std::vector<unsigned> allowed_cpus() {
    std::vector<unsigned> cpus;
    for (std::size_t words = 1024 / kWordBits; words <= kMaxCpus / kWordBits; words *= 2) {
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

bool keep_on_cpus(std::span<const unsigned> cpus) {
    if (cpus.empty()) return false;
    const std::size_t highest = *std::ranges::max_element(cpus);
    if (highest >= kMaxCpus) return false;
    std::vector<unsigned long> mask(highest / kWordBits + 1);
    for (const unsigned cpu : cpus) mask[cpu / kWordBits] |= 1UL << (cpu % kWordBits);
    const auto* set = reinterpret_cast<const cpu_set_t*>(mask.data());
    return sched_setaffinity(0, mask.size() * sizeof(unsigned long), set) == 0;
}

}  // namespace hearth
