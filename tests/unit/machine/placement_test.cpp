// Where workers go on machines of one and several memory nodes, and that a pool keeps them there.
#include "machine/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "machine/thread_pool.h"

namespace hearth {
namespace {

using Cpus = std::vector<unsigned>;

// Nodes of two cores with two CPUs each: core c has CPUs c and c + cores, as Linux numbers them.
Topology nodes_of_two_cores(unsigned nodes) {
    Topology topology;
    const unsigned cores = 2 * nodes;
    for (unsigned cpu = 0; cpu < 2 * cores; ++cpu) topology.cpus.push_back({cpu, cpu % cores, CoreKind::Performance});
    for (unsigned node = 0; node < nodes; ++node) {
        const unsigned first = 2 * node;
        topology.nodes.push_back({node, 1u << 30, {first, first + 1, cores + first, cores + first + 1}});
    }
    return topology;
}

constexpr auto kNoQuota = std::nullopt;

TEST(Placement, LeavesWorkersFreeOnOneNode) {
    EXPECT_TRUE(place_workers(nodes_of_two_cores(1), {0, 1, 2, 3}, kNoQuota, 2, Pinning::Auto).empty());
    Topology without_nodes;
    without_nodes.cpus = {{.id = 0, .core = 0}, {.id = 1, .core = 1}};
    EXPECT_TRUE(place_workers(without_nodes, {0, 1}, kNoQuota, 2, Pinning::Auto).empty());
    EXPECT_EQ(place_workers(without_nodes, {0, 1}, kNoQuota, 2, Pinning::Core), (WorkerPlaces{{0}, {1}}));
}

TEST(Placement, KeepsNeighboursOnTheirNode) {
    const WorkerPlaces places =
        place_workers(nodes_of_two_cores(2), {0, 1, 2, 3, 4, 5, 6, 7}, kNoQuota, 4, Pinning::Auto);
    EXPECT_EQ(places, (WorkerPlaces{{0, 1, 4, 5}, {0, 1, 4, 5}, {2, 3, 6, 7}, {2, 3, 6, 7}}));
}

TEST(Placement, SharesWorkersOutByAllowedCpus) {
    const WorkerPlaces places = place_workers(nodes_of_two_cores(2), {0, 2, 3, 6}, kNoQuota, 3, Pinning::Auto);
    EXPECT_EQ(places, (WorkerPlaces{{0}, {2, 3, 6}, {2, 3, 6}}));
    // Only one node is left to us.
    EXPECT_TRUE(place_workers(nodes_of_two_cores(2), {2, 3, 6, 7}, kNoQuota, 2, Pinning::Auto).empty());
}

TEST(Placement, GivesEachWorkerACoreBeforeTwoShareOne) {
    const Topology topology = nodes_of_two_cores(1);
    EXPECT_EQ(place_workers(topology, {0, 1, 2, 3}, kNoQuota, 2, Pinning::Core), (WorkerPlaces{{0}, {1}}));
    EXPECT_EQ(place_workers(topology, {0, 1, 2, 3}, kNoQuota, 3, Pinning::Core), (WorkerPlaces{{0}, {1}, {2}}));
    EXPECT_EQ(place_workers(topology, {1, 2, 3}, kNoQuota, 2, Pinning::Core), (WorkerPlaces{{1}, {2}}));
}

TEST(Placement, TakesPerformanceCoresFirst) {
    Topology topology;
    for (unsigned cpu = 0; cpu < 4; ++cpu) {
        topology.cpus.push_back({cpu, cpu, cpu < 2 ? CoreKind::Efficiency : CoreKind::Performance});
    }
    EXPECT_EQ(place_workers(topology, {0, 1, 2, 3}, kNoQuota, 3, Pinning::Core), (WorkerPlaces{{2}, {3}, {0}}));
}

TEST(Placement, LeavesWorkersFreeWhenCpusAreSharedOrTooFewOrItIsOff) {
    const Topology topology = nodes_of_two_cores(2);
    const Cpus all{0, 1, 2, 3, 4, 5, 6, 7};
    for (const Pinning pinning : {Pinning::Auto, Pinning::Core}) {
        EXPECT_TRUE(place_workers(topology, all, 3.0, 3, pinning).empty());
        EXPECT_TRUE(place_workers(topology, all, kNoQuota, 9, pinning).empty());
        EXPECT_TRUE(place_workers(topology, {}, kNoQuota, 1, pinning).empty());
        EXPECT_TRUE(place_workers(topology, all, kNoQuota, 0, pinning).empty());
    }
    EXPECT_TRUE(place_workers(topology, all, kNoQuota, 4, Pinning::Off).empty());
}

TEST(Placement, PlacesEveryWorkerOnOneAllowedCpuOfItsOwn) {
    const Topology topology = nodes_of_two_cores(3);
    const Cpus allowed{0, 1, 3, 4, 6, 8, 9, 11};
    for (std::size_t workers = 1; workers <= allowed.size(); ++workers) {
        const WorkerPlaces places = place_workers(topology, allowed, kNoQuota, workers, Pinning::Core);
        ASSERT_EQ(places.size(), workers);
        Cpus taken;
        for (const Cpus& place : places) {
            ASSERT_EQ(place.size(), 1u);
            EXPECT_NE(std::ranges::find(allowed, place.front()), allowed.end());
            EXPECT_EQ(std::ranges::find(taken, place.front()), taken.end());
            taken.push_back(place.front());
        }
    }
}

TEST(Placement, ReadsItsEnvironmentVariable) {
    EXPECT_EQ(parse_pinning(""), Pinning::Auto);
    EXPECT_EQ(parse_pinning("0"), Pinning::Off);
    EXPECT_EQ(parse_pinning("1"), Pinning::Core);
    EXPECT_EQ(parse_pinning("yes"), std::nullopt);
}

Cpus cpus_of_worker_one(ThreadPool& pool) {
    Cpus cpus;
    std::atomic<int> arrived{0};
    pool.for_each(2, [&](std::size_t, std::size_t worker) {
        arrived.fetch_add(1);
        while (arrived.load() < 2) std::this_thread::yield();
        if (worker == 1) cpus = allowed_cpus();
    });
    return cpus;
}

TEST(Placement, IsKeptByAPoolsWorkersAndByNobodyElse) {
    const Cpus allowed = allowed_cpus();
    if (allowed.empty()) GTEST_SKIP() << "the kernel does not say which CPUs we may use";
    const Cpus last{allowed.back()};
    ThreadPool pool(2, {{allowed.front()}, last});
    EXPECT_EQ(cpus_of_worker_one(pool), last);
    EXPECT_EQ(allowed_cpus(), allowed);
    {
        const PlacedCaller placed(pool);
        EXPECT_EQ(allowed_cpus(), Cpus{allowed.front()});
    }
    EXPECT_EQ(allowed_cpus(), allowed);
}

TEST(Placement, IsGivenUpWhenTheKernelRefuses) {
    const Cpus allowed = allowed_cpus();
    const Cpus nowhere{65000};
    EXPECT_FALSE(keep_on_cpus(nowhere));
    EXPECT_FALSE(keep_on_cpus(Cpus{1u << 31}));
    EXPECT_FALSE(keep_on_cpus({}));
    ThreadPool pool(2, {nowhere, nowhere});
    const PlacedCaller placed(pool);
    EXPECT_EQ(cpus_of_worker_one(pool), allowed);
    EXPECT_EQ(allowed_cpus(), allowed);
}

}  // namespace
}  // namespace hearth
