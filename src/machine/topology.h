// What both readers of the topology share: telling core kinds apart, and the counts that follow from the CPU list.
#pragma once

#include "machine/machine.h"

namespace hearth {

// Marks efficiency cores: by Intel's PMU lists, else by cpu_capacity, else by the highest clock.
void assign_core_kinds(const ProbeRoots& roots, Topology& topology);
// Renumbers cores from 0, sorts, and fills the counts. Gives a topology without CPUs one.
void settle_topology(Topology& topology);
// Adds one cache instance to the group of its level, size and sharing.
void add_cache(Topology& topology, unsigned level, std::uint64_t size_bytes, unsigned shared_by);

}  // namespace hearth
