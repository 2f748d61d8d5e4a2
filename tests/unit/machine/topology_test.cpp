// The topology from sysfs trees, and both readers against each other on the running machine.
#include <gtest/gtest.h>

#include "fake_tree.h"

namespace hearth {
namespace {

std::string cpu_file(unsigned cpu, const std::string& file) {
    return "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/" + file;
}

void write_cache(const FakeTree& tree, unsigned cpu, unsigned index, const char* level, const char* type,
                 const char* size, const std::string& shared) {
    const std::string folder = "cache/index" + std::to_string(index) + "/";
    tree.write(cpu_file(cpu, folder + "level"), level);
    tree.write(cpu_file(cpu, folder + "type"), type);
    tree.write(cpu_file(cpu, folder + "size"), size);
    tree.write(cpu_file(cpu, folder + "shared_cpu_list"), shared);
}

// Two performance cores of two threads (CPUs 0-3) and four efficiency cores (4-7) that share an L2.
void write_hybrid(const FakeTree& tree) {
    tree.write("sys/devices/system/cpu/online", "0-7\n");
    for (unsigned cpu = 0; cpu < 8; ++cpu) {
        const std::string own = std::to_string(cpu);
        const std::string siblings = cpu >= 4 ? own : cpu < 2 ? "0-1" : "2-3";
        tree.write(cpu_file(cpu, "topology/core_cpus_list"), siblings + "\n");
        tree.write(cpu_file(cpu, "topology/physical_package_id"), "0\n");
        write_cache(tree, cpu, 0, "1\n", "Data\n", cpu < 4 ? "48K\n" : "32K\n", siblings);
        write_cache(tree, cpu, 1, "1\n", "Instruction\n", "32K\n", siblings);
        write_cache(tree, cpu, 2, "2\n", "Unified\n", "2048K\n", cpu < 4 ? siblings : "4-7");
        write_cache(tree, cpu, 3, "3\n", "Unified\n", "24M\n", "0-7");
    }
}

TEST(KernelTopology, CountsCoresThreadsAndCachesOfAHybridCpu) {
    const FakeTree tree;
    write_hybrid(tree);
    tree.write("sys/devices/cpu_core/cpus", "0-3\n");
    tree.write("sys/devices/cpu_atom/cpus", "4-7\n");
    const Topology topology = read_topology_from_kernel(tree.roots(), {});
    EXPECT_EQ(topology.source, "kernel");
    EXPECT_EQ(topology.cpus.size(), 8U);
    EXPECT_EQ(topology.physical_cores, 6U);
    EXPECT_EQ(topology.threads_per_core, 2U);
    EXPECT_EQ(topology.packages, 1U);
    EXPECT_EQ(topology.performance_cores, 2U);
    EXPECT_EQ(topology.efficiency_cores, 4U);
    EXPECT_EQ(topology.cpus[3].core, 1U);
    EXPECT_EQ(topology.cpus[4].kind, CoreKind::Efficiency);
    const std::vector<Cache> expected = {
        {1, 48 << 10, 2, 2}, {1, 32 << 10, 4, 1}, {2, 2 << 20, 2, 2}, {2, 2 << 20, 1, 4}, {3, 24 << 20, 1, 8}};
    EXPECT_EQ(topology.caches, expected);
}

TEST(KernelTopology, TellsCoreKindsApartByCapacityOrClock) {
    for (const char* file : {"cpu_capacity", "cpufreq/cpuinfo_max_freq"}) {
        const FakeTree tree;
        tree.write("sys/devices/system/cpu/online", "0-3");
        for (unsigned cpu = 0; cpu < 4; ++cpu) tree.write(cpu_file(cpu, file), cpu < 3 ? "446" : "1024");
        const Topology topology = read_topology_from_kernel(tree.roots(), {});
        EXPECT_EQ(topology.performance_cores, 1U) << file;
        EXPECT_EQ(topology.efficiency_cores, 3U) << file;
    }
}

TEST(KernelTopology, TakesFavouredCoresForTheSameKind) {
    const FakeTree tree;
    tree.write("sys/devices/system/cpu/online", "0-3");
    for (unsigned cpu = 0; cpu < 4; ++cpu)
        tree.write(cpu_file(cpu, "cpufreq/cpuinfo_max_freq"), cpu < 3 ? "4700000" : "5000000");
    EXPECT_EQ(read_topology_from_kernel(tree.roots(), {}).performance_cores, 4U);
}

TEST(KernelTopology, TakesCoresForAlikeWhenOneFigureIsMissing) {
    const FakeTree tree;
    tree.write("sys/devices/system/cpu/online", "0-1");
    tree.write(cpu_file(0, "cpu_capacity"), "100");
    EXPECT_EQ(read_topology_from_kernel(tree.roots(), {}).efficiency_cores, 0U);
}

TEST(KernelTopology, FindsCoresByPackageAndCoreIdOnOldKernels) {
    const FakeTree tree;
    tree.write("sys/devices/system/cpu/online", "0-3");
    for (unsigned cpu = 0; cpu < 4; ++cpu) {
        tree.write(cpu_file(cpu, "topology/core_id"), "0");
        tree.write(cpu_file(cpu, "topology/physical_package_id"), cpu < 2 ? "0" : "1");
    }
    const Topology topology = read_topology_from_kernel(tree.roots(), {});
    EXPECT_EQ(topology.physical_cores, 2U);
    EXPECT_EQ(topology.packages, 2U);
}

TEST(KernelTopology, ReadsNumaNodesWithTheirMemory) {
    const FakeTree tree;
    tree.write("sys/devices/system/node/online", "0-1\n");
    tree.write("sys/devices/system/node/node0/cpulist", "0-3\n");
    tree.write("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       1048576 kB\nNode 0 MemFree: 1 kB\n");
    tree.write("sys/devices/system/node/node1/cpulist", "\n");
    tree.write("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:       99999999999999999999 kB\n");
    const Topology topology = read_topology_from_kernel(tree.roots(), {});
    ASSERT_EQ(topology.nodes.size(), 2U);
    EXPECT_EQ(topology.nodes[0].memory_bytes, 1ULL << 30);
    EXPECT_EQ(topology.nodes[0].cpus.size(), 4U);
    EXPECT_EQ(topology.nodes[1].memory_bytes, 0U);
    EXPECT_TRUE(topology.nodes[1].cpus.empty());
}

TEST(KernelTopology, FallsBackOnTheAllowedCpusThenOnOne) {
    const FakeTree tree;
    const Topology topology = read_topology_from_kernel(tree.roots(), {2, 5});
    EXPECT_EQ(topology.source, "none");
    EXPECT_EQ(topology.physical_cores, 2U);
    EXPECT_EQ(topology.cpus[1].id, 5U);
    EXPECT_EQ(read_topology_from_kernel(tree.roots(), {}).physical_cores, 1U);
    tree.write("sys/devices/system/cpu/online", "0-4294967295\n");
    EXPECT_EQ(read_topology_from_kernel(tree.roots(), {0}).cpus.size(), 1U);
}

TEST(KernelTopology, IgnoresSiblingListsThatDoNotNameTheCpuItself) {
    const FakeTree tree;
    tree.write("sys/devices/system/cpu/online", "0-1");
    tree.write(cpu_file(0, "topology/core_cpus_list"), "7");
    tree.write(cpu_file(1, "topology/core_cpus_list"), "7");
    EXPECT_EQ(read_topology_from_kernel(tree.roots(), {}).physical_cores, 2U);
}

TEST(RecommendedThreads, FollowCoresAffinityAndQuota) {
    const FakeTree tree;
    write_hybrid(tree);
    const Topology topology = read_topology_from_kernel(tree.roots(), {});
    EXPECT_EQ(recommend_threads(topology, {0, 1, 2, 3, 4, 5, 6, 7}, {}), 6U);
    EXPECT_EQ(recommend_threads(topology, {0, 1}, {}), 1U);  // two threads of one core
    EXPECT_EQ(recommend_threads(topology, {0, 2, 4}, {}), 3U);
    EXPECT_EQ(recommend_threads(topology, {0, 2, 4}, 1.5), 2U);
    EXPECT_EQ(recommend_threads(topology, {0, 2, 4}, 0.5), 1U);
    EXPECT_EQ(recommend_threads(topology, {0, 2, 4}, 64.0), 3U);
    EXPECT_EQ(recommend_threads(topology, {}, {}), 6U);        // affinity unknown
    EXPECT_EQ(recommend_threads(topology, {100}, 1e300), 6U);  // affinity to CPUs that are not there
    EXPECT_EQ(recommend_threads(topology, {0, 2}, -1.0), 1U);
    EXPECT_EQ(recommend_threads(Topology{}, {}, {}), 1U);
}

TEST(HwlocTopology, AgreesWithTheKernelsFilesOnThisMachine) {
    const ProbeRoots roots;
    const std::optional<Topology> hwloc = read_topology_from_hwloc(roots);
    if (!hwloc) GTEST_SKIP() << "built without hwloc";
    const Topology kernel = read_topology_from_kernel(roots, allowed_cpus());
    EXPECT_EQ(hwloc->cpus.size(), kernel.cpus.size());
    EXPECT_EQ(hwloc->physical_cores, kernel.physical_cores);
    EXPECT_EQ(hwloc->threads_per_core, kernel.threads_per_core);
    EXPECT_EQ(hwloc->performance_cores, kernel.performance_cores);
    EXPECT_EQ(hwloc->caches, kernel.caches);
}

}  // namespace
}  // namespace hearth
