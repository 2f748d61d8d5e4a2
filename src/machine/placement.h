// Where the workers of a pool run. Workers that stay on a memory node find near them the pages they have touched first;
// within a node the kernel knows better than we do which core is free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "machine/machine.h"

namespace hearth {

// Auto: by node where there are several nodes, else free. A worker tied to one core shares it with whatever else comes
// to run there, and the others wait for it at the end of each phase: that is for machines with nothing else to do.
enum class Pinning : std::uint8_t { Auto, Off, Core };

// By worker: the CPUs it may use. Empty: all of them anywhere.
using WorkerPlaces = std::vector<std::vector<unsigned>>;

// Empty where nothing is to be gained or lost: more workers than CPUs, a quota (the CPUs are then shared by others),
// or one node and no wish for cores. Physical cores come before their siblings, and neighbouring workers on one node.
WorkerPlaces place_workers(const Topology& topology, const std::vector<unsigned>& allowed, std::optional<double> quota,
                           std::size_t workers, Pinning pinning);

// "0" is Off, "1" is Core, nothing is Auto; anything else is not known.
std::optional<Pinning> parse_pinning(std::string_view text);

}  // namespace hearth
