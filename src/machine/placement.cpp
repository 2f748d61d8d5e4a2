#include "machine/placement.h"

#include <algorithm>
#include <set>

namespace hearth {

namespace {

struct Place {
    std::size_t node = 0;  // index among the nodes; 0 where they are not known
    bool sibling = false;  // another CPU of its core comes before
    CoreKind kind = CoreKind::Performance;
    unsigned cpu = 0;
};

std::size_t node_of(const Topology& topology, unsigned cpu) {
    for (std::size_t node = 0; node < topology.nodes.size(); ++node) {
        const std::vector<unsigned>& cpus = topology.nodes[node].cpus;
        if (std::ranges::find(cpus, cpu) != cpus.end()) return node;
    }
    return 0;
}

// Allowed CPUs, the best first.
std::vector<Place> list_places(const Topology& topology, const std::vector<unsigned>& allowed) {
    std::vector<Place> places;
    std::set<unsigned> cores;
    for (const LogicalCpu& cpu : topology.cpus) {
        if (std::ranges::find(allowed, cpu.id) == allowed.end()) continue;
        places.push_back({node_of(topology, cpu.id), !cores.insert(cpu.core).second, cpu.kind, cpu.id});
    }
    std::ranges::stable_sort(places, [](const Place& a, const Place& b) {
        if (a.sibling != b.sibling) return !a.sibling;
        return a.kind < b.kind;
    });
    return places;
}

// Workers of a node in proportion to its CPUs; what is left over goes to the first nodes.
std::vector<std::size_t> share_out(std::size_t workers, const std::vector<std::size_t>& cpus) {
    std::size_t all = 0;
    for (const std::size_t count : cpus) all += count;
    std::vector<std::size_t> shares;
    std::size_t given = 0;
    for (const std::size_t count : cpus) {
        shares.push_back(workers * count / all);
        given += shares.back();
    }
    for (std::size_t node = 0; given < workers; node = (node + 1) % cpus.size()) {
        if (shares[node] == cpus[node]) continue;
        ++shares[node];
        ++given;
    }
    return shares;
}

}  // namespace

WorkerPlaces place_workers(const Topology& topology, const std::vector<unsigned>& allowed, std::optional<double> quota,
                           std::size_t workers, Pinning pinning) {
    if (pinning == Pinning::Off || quota.has_value() || workers == 0) return {};
    const std::vector<Place> places = list_places(topology, allowed);
    if (workers > places.size()) return {};
    std::vector<std::vector<unsigned>> nodes(std::max<std::size_t>(topology.nodes.size(), 1));
    for (const Place& place : places) nodes[place.node].push_back(place.cpu);
    std::erase_if(nodes, [](const std::vector<unsigned>& cpus) { return cpus.empty(); });
    if (pinning == Pinning::Auto && nodes.size() < 2) return {};

    std::vector<std::size_t> counts;
    for (const std::vector<unsigned>& cpus : nodes) counts.push_back(cpus.size());
    const std::vector<std::size_t> shares = share_out(workers, counts);
    WorkerPlaces result;
    for (std::size_t node = 0; node < nodes.size(); ++node) {
        for (std::size_t i = 0; i < shares[node]; ++i) {
            result.push_back(pinning == Pinning::Core ? std::vector<unsigned>{nodes[node][i]} : nodes[node]);
        }
    }
    return result;
}

std::optional<Pinning> parse_pinning(std::string_view text) {
    if (text.empty()) return Pinning::Auto;
    if (text == "0") return Pinning::Off;
    if (text == "1") return Pinning::Core;
    return std::nullopt;
}

}  // namespace hearth
