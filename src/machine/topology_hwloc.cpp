// Reads the topology through hwloc, which knows more odd machines than we do. Built in when its header is found.
#include "machine/topology.h"

#ifdef HEARTH_HWLOC
#include <hwloc.h>

#include <algorithm>
#include <cstdlib>
#endif

namespace hearth {

#ifdef HEARTH_HWLOC
namespace {

unsigned weight(hwloc_const_bitmap_t set) {
    return static_cast<unsigned>(std::max(0, hwloc_bitmap_weight(set)));
}

void read_cpus(hwloc_topology_t source, Topology& topology) {
    const auto core_count = static_cast<unsigned>(std::max(0, hwloc_get_nbobjs_by_type(source, HWLOC_OBJ_CORE)));
    hwloc_obj_t unit = nullptr;
    while ((unit = hwloc_get_next_obj_by_type(source, HWLOC_OBJ_PU, unit)) != nullptr) {
        const hwloc_obj* core = hwloc_get_ancestor_obj_by_type(source, HWLOC_OBJ_CORE, unit);
        // A unit without a core counts as one, numbered after the others.
        const unsigned core_index = core != nullptr ? core->logical_index : core_count + unit->logical_index;
        topology.cpus.push_back({unit->os_index, core_index, CoreKind::Performance});
    }
}

void read_caches(hwloc_topology_t source, Topology& topology) {
    constexpr hwloc_obj_type_t kLevels[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE,
                                            HWLOC_OBJ_L5CACHE};
    for (const hwloc_obj_type_t type : kLevels) {
        hwloc_obj_t cache = nullptr;
        while ((cache = hwloc_get_next_obj_by_type(source, type, cache)) != nullptr) {
            if (cache->attr == nullptr || cache->attr->cache.size == 0) continue;
            add_cache(topology, cache->attr->cache.depth, cache->attr->cache.size, weight(cache->cpuset));
        }
    }
}

void read_nodes(hwloc_topology_t source, Topology& topology) {
    hwloc_obj_t node = nullptr;
    while ((node = hwloc_get_next_obj_by_type(source, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
        NumaNode entry{node->os_index, node->attr != nullptr ? node->attr->numanode.local_memory : 0, {}};
        for (int cpu = hwloc_bitmap_first(node->cpuset); cpu >= 0; cpu = hwloc_bitmap_next(node->cpuset, cpu)) {
            entry.cpus.push_back(static_cast<unsigned>(cpu));
        }
        topology.nodes.push_back(std::move(entry));
    }
}

}  // namespace

std::optional<Topology> read_topology_from_hwloc(const ProbeRoots& roots) {
    setenv("HWLOC_HIDE_ERRORS", "2", 0);  // it would write to stderr about firmware it finds odd
    hwloc_topology_t source = nullptr;
    if (hwloc_topology_init(&source) != 0) return std::nullopt;
    unsigned long flags = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED;  // limits are applied by us, not hidden by it
#if HWLOC_API_VERSION >= 0x00020500
    flags |= HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
#endif
    std::optional<Topology> topology;
    if (hwloc_topology_set_flags(source, flags) == 0 && hwloc_topology_load(source) == 0) {
        topology.emplace();
        topology->source = "hwloc";
        read_cpus(source, *topology);
        read_caches(source, *topology);
        read_nodes(source, *topology);
        topology->packages = static_cast<unsigned>(std::max(1, hwloc_get_nbobjs_by_type(source, HWLOC_OBJ_PACKAGE)));
    }
    hwloc_topology_destroy(source);
    if (!topology || topology->cpus.empty()) return std::nullopt;
    assign_core_kinds(roots, *topology);
    settle_topology(*topology);
    return topology;
}
#else
std::optional<Topology> read_topology_from_hwloc(const ProbeRoots&) {
    return std::nullopt;
}
#endif

}  // namespace hearth
