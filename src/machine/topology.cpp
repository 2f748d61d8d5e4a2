// Reads the topology from sysfs, and holds what the hwloc reader shares with that.
#include "machine/topology.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "machine/probe_files.h"

namespace hearth {
namespace {

// Below this share of the best core's figure a core is of the efficient kind. Favoured cores of one kind differ by
// a few percent only.
constexpr double kEfficiencyShare = 0.8;

std::string cpu_path(const ProbeRoots& roots, unsigned cpu) {
    return roots.sys + "/devices/system/cpu/cpu" + std::to_string(cpu);
}

std::optional<std::vector<unsigned>> read_cpu_list(const std::string& path) {
    const std::optional<std::string> text = read_probe_file(path);
    if (!text) return std::nullopt;
    std::optional<std::vector<unsigned>> cpus = parse_cpu_list(*text);
    if (cpus && cpus->empty()) return std::nullopt;
    return cpus;
}

// A number that CPUs of the same core share: the first of its siblings, or made of package and core id.
std::uint64_t core_key(const std::string& topology_path, unsigned cpu) {
    for (const char* name : {"/core_cpus_list", "/thread_siblings_list"}) {
        const std::optional<std::vector<unsigned>> siblings = read_cpu_list(topology_path + name);
        if (siblings && std::binary_search(siblings->begin(), siblings->end(), cpu)) return siblings->front();
    }
    const std::optional<std::uint64_t> core = read_probe_number(topology_path + "/core_id");
    const std::optional<std::uint64_t> package = read_probe_number(topology_path + "/physical_package_id");
    if (!core || *core > UINT32_MAX) return cpu;
    return (1ULL << 63) | (package.value_or(0) << 32) | *core;  // apart from the sibling numbers
}

struct CacheInstance {
    unsigned level;
    std::uint64_t size_bytes;
    unsigned first_cpu;

    bool operator<(const CacheInstance& other) const {
        return std::tie(level, size_bytes, first_cpu) < std::tie(other.level, other.size_bytes, other.first_cpu);
    }
};

void read_caches(const std::string& path, unsigned cpu, std::map<CacheInstance, unsigned>& instances) {
    for (unsigned index = 0; index < 10; ++index) {
        const std::string cache = path + "/cache/index" + std::to_string(index);
        const std::optional<std::uint64_t> level = read_probe_number(cache + "/level");
        if (!level) break;  // they are numbered without gaps
        const std::optional<std::string> type = read_probe_file(cache + "/type");
        if (*level < 1 || *level > 5 || !type || trim(*type) == "Instruction") continue;
        const std::optional<std::string> size = read_probe_file(cache + "/size");
        const std::optional<std::uint64_t> size_bytes = size ? parse_size(*size) : std::nullopt;
        if (!size_bytes || *size_bytes == 0) continue;
        const std::vector<unsigned> sharers = read_cpu_list(cache + "/shared_cpu_list").value_or(std::vector{cpu});
        instances.try_emplace({static_cast<unsigned>(*level), *size_bytes, sharers.front()},
                              static_cast<unsigned>(sharers.size()));
    }
}

std::vector<NumaNode> read_nodes(const ProbeRoots& roots) {
    std::vector<NumaNode> nodes;
    const std::string root = roots.sys + "/devices/system/node";
    const std::optional<std::vector<unsigned>> online = read_cpu_list(root + "/online");
    if (!online) return nodes;
    for (const unsigned id : *online) {
        const std::string path = root + "/node" + std::to_string(id);
        const std::optional<std::vector<unsigned>> cpus = read_cpu_list(path + "/cpulist");
        const std::optional<std::string> meminfo = read_probe_file(path + "/meminfo");
        if (!cpus && !meminfo) continue;
        NumaNode node{id, 0, cpus.value_or(std::vector<unsigned>{})};
        if (meminfo) {
            // "Node 0 MemTotal:       24550000 kB"
            std::string_view value = field_value(*meminfo, "Node " + std::to_string(id) + " MemTotal");
            if (value.ends_with(" kB")) value.remove_suffix(3);
            const std::optional<std::uint64_t> kib = parse_number(value);
            if (kib && *kib < (1ULL << 50)) node.memory_bytes = *kib * 1024;
        }
        nodes.push_back(std::move(node));
    }
    return nodes;
}

// One figure per CPU, e.g. its capacity; empty unless every CPU has one.
std::vector<std::uint64_t> read_figures(const ProbeRoots& roots, const Topology& topology, const char* file) {
    std::vector<std::uint64_t> figures;
    for (const LogicalCpu& cpu : topology.cpus) {
        const std::optional<std::uint64_t> figure = read_probe_number(cpu_path(roots, cpu.id) + file);
        if (!figure || *figure == 0) return {};
        figures.push_back(*figure);
    }
    return figures;
}

}  // namespace

void assign_core_kinds(const ProbeRoots& roots, Topology& topology) {
    // Intel's hybrid parts register one PMU for each kind.
    const std::optional<std::vector<unsigned>> atoms = read_cpu_list(roots.sys + "/devices/cpu_atom/cpus");
    const std::optional<std::vector<unsigned>> big = read_cpu_list(roots.sys + "/devices/cpu_core/cpus");
    if (atoms && big) {
        for (LogicalCpu& cpu : topology.cpus) {
            if (std::binary_search(atoms->begin(), atoms->end(), cpu.id)) cpu.kind = CoreKind::Efficiency;
        }
        return;
    }
    for (const char* file : {"/cpu_capacity", "/cpufreq/cpuinfo_max_freq"}) {
        const std::vector<std::uint64_t> figures = read_figures(roots, topology, file);
        if (figures.empty()) continue;
        const double best = static_cast<double>(*std::max_element(figures.begin(), figures.end()));
        for (std::size_t i = 0; i < figures.size(); ++i) {
            const bool slow = static_cast<double>(figures[i]) < kEfficiencyShare * best;
            topology.cpus[i].kind = slow ? CoreKind::Efficiency : CoreKind::Performance;
        }
        return;
    }
}

void settle_topology(Topology& topology) {
    if (topology.cpus.empty()) topology.cpus.push_back({});
    std::sort(topology.cpus.begin(), topology.cpus.end(),
              [](const LogicalCpu& a, const LogicalCpu& b) { return a.id < b.id; });
    std::map<unsigned, unsigned> renumbered;
    std::vector<unsigned> threads_of;
    topology.performance_cores = 0;
    topology.efficiency_cores = 0;
    for (LogicalCpu& cpu : topology.cpus) {
        const auto [entry, is_new] = renumbered.try_emplace(cpu.core, static_cast<unsigned>(renumbered.size()));
        cpu.core = entry->second;
        if (is_new) {
            threads_of.push_back(0);
            (cpu.kind == CoreKind::Performance ? topology.performance_cores : topology.efficiency_cores) += 1;
        }
        threads_of[cpu.core] += 1;
    }
    topology.physical_cores = static_cast<unsigned>(threads_of.size());
    topology.threads_per_core = *std::max_element(threads_of.begin(), threads_of.end());
    std::sort(topology.caches.begin(), topology.caches.end(), [](const Cache& a, const Cache& b) {
        return std::tie(a.level, b.size_bytes, a.shared_by) < std::tie(b.level, a.size_bytes, b.shared_by);
    });
}

void add_cache(Topology& topology, unsigned level, std::uint64_t size_bytes, unsigned shared_by) {
    for (Cache& cache : topology.caches) {
        if (cache.level == level && cache.size_bytes == size_bytes && cache.shared_by == shared_by) {
            cache.count += 1;
            return;
        }
    }
    if (topology.caches.size() < 64) topology.caches.push_back({level, size_bytes, 1, shared_by});
}

Topology read_topology_from_kernel(const ProbeRoots& roots, const std::vector<unsigned>& allowed) {
    Topology topology;
    topology.source = "kernel";
    std::optional<std::vector<unsigned>> online = read_cpu_list(roots.sys + "/devices/system/cpu/online");
    if (!online) {
        topology.source = "none";
        online = allowed;
    }
    std::map<std::uint64_t, unsigned> cores;
    std::set<std::uint64_t> packages;
    std::map<CacheInstance, unsigned> caches;
    for (const unsigned id : *online) {
        const std::string path = cpu_path(roots, id);
        const std::uint64_t key = core_key(path + "/topology", id);
        const unsigned core = cores.try_emplace(key, static_cast<unsigned>(cores.size())).first->second;
        topology.cpus.push_back({id, core, CoreKind::Performance});
        if (const auto package = read_probe_number(path + "/topology/physical_package_id")) packages.insert(*package);
        read_caches(path, id, caches);
    }
    topology.packages = std::max(1U, static_cast<unsigned>(packages.size()));
    for (const auto& [instance, shared_by] : caches)
        add_cache(topology, instance.level, instance.size_bytes, shared_by);
    topology.nodes = read_nodes(roots);
    assign_core_kinds(roots, topology);
    settle_topology(topology);
    return topology;
}

}  // namespace hearth
