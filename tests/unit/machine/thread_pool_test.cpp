// The pool: every item once, whoever does it; nothing lost between regions, nothing allocated in one.
#include "machine/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "machine/affinity.h"

namespace {
std::atomic<std::size_t> allocation_count{0};
}

// Not inlined: GCC takes one half of a pair for a mistake when it sees only the other.
[[gnu::noinline]] void* operator new(std::size_t size) {
    allocation_count.fetch_add(1, std::memory_order_relaxed);
    void* memory = std::malloc(size == 0 ? 1 : size);
    if (memory == nullptr) std::abort();
    return memory;
}
// std::stable_sort asks for memory this way; a sanitizer's own form would meet our delete.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    allocation_count.fetch_add(1, std::memory_order_relaxed);
    return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace hearth {
namespace {

constexpr std::size_t kThreadCounts[] = {1, 2, 3, 4, 7};

TEST(ThreadPool, DoesEveryItemExactlyOnce) {
    for (std::size_t threads : kThreadCounts) {
        ThreadPool pool(threads);
        ASSERT_EQ(pool.size(), threads);
        for (std::size_t count : {0U, 1U, 2U, 3U, 4U, 5U, 7U, 8U, 15U, 16U, 17U, 63U, 64U, 65U, 1000U, 4097U}) {
            std::vector<std::atomic<int>> done(count);
            std::atomic<bool> worker_in_range{true};
            pool.for_each(count, [&](std::size_t item, std::size_t worker) {
                done.at(item).fetch_add(1);
                if (worker >= threads) worker_in_range = false;
            });
            EXPECT_TRUE(worker_in_range);
            for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(done[i].load(), 1) << threads << " threads, item " << i;
        }
    }
}

TEST(ThreadPool, MakesPlainWritesVisibleToTheCallerAndToTheNextRegion) {
    for (std::size_t threads : kThreadCounts) {
        ThreadPool pool(threads);
        // Not atomic: the end of a region must order these.
        std::vector<std::uint64_t> from(257);
        std::vector<std::uint64_t> to(257);
        for (std::uint64_t round = 1; round <= 500; ++round) {
            pool.for_each(to.size(), [&](std::size_t item, std::size_t) {
                to[item] = from[from.size() - 1 - item] + 1;  // most likely written by another worker
            });
            for (std::uint64_t value : to) ASSERT_EQ(value, round);
            from.swap(to);
        }
    }
}

TEST(ThreadPool, RunsManyShortRegionsBackToBack) {
    for (std::size_t threads : {2U, 4U}) {
        ThreadPool pool(threads);
        struct alignas(64) Sum {
            std::uint64_t value = 0;
        };
        std::vector<Sum> sums(threads);
        constexpr std::uint64_t kRegions = 100'000;
        for (std::uint64_t region = 0; region < kRegions; ++region) {
            pool.for_each(3, [&](std::size_t item, std::size_t worker) { sums[worker].value += item + 1; });
        }
        std::uint64_t total = 0;
        for (const Sum& sum : sums) total += sum.value;
        EXPECT_EQ(total, kRegions * 6);
    }
}

TEST(ThreadPool, HandsItemsOutInAscendingOrder) {
    ThreadPool pool(4);
    std::vector<std::vector<std::size_t>> items_of(4);
    pool.for_each(10'000, [&](std::size_t item, std::size_t worker) { items_of[worker].push_back(item); });
    for (const std::vector<std::size_t>& items : items_of) EXPECT_TRUE(std::is_sorted(items.begin(), items.end()));
}

TEST(ThreadPool, UsesItsOtherWorkers) {
    ThreadPool pool(3);
    // Two items that wait for each other can only finish when two workers are inside; the third wakes from parking too.
    for (int round = 0; round < 50; ++round) {
        std::atomic<int> arrived{0};
        std::atomic<unsigned> worker_mask{0};
        pool.for_each(3, [&](std::size_t, std::size_t worker) {
            worker_mask.fetch_or(1U << worker);
            arrived.fetch_add(1);
            while (arrived.load() < 3) std::this_thread::yield();
        });
        EXPECT_EQ(worker_mask.load(), 7U);
    }
}

TEST(ThreadPool, NamesItsThreads) {
    ThreadPool pool(2);
    std::string name;
    std::atomic<int> arrived{0};
    pool.for_each(2, [&](std::size_t, std::size_t worker) {
        arrived.fetch_add(1);
        while (arrived.load() < 2) std::this_thread::yield();
        if (worker == 1) {
            char buffer[16] = {};
            pthread_getname_np(pthread_self(), buffer, sizeof(buffer));
            name = buffer;
        }
    });
    EXPECT_EQ(name, "hearth-1");
}

TEST(ThreadPool, AllocatesNothingInARegion) {
    ThreadPool pool(3);
    std::atomic<std::uint64_t> sum{0};
    const auto body = [&](std::size_t item, std::size_t) { sum.fetch_add(item); };
    pool.for_each(100, body);
    const std::size_t before = allocation_count.load();
    for (int region = 0; region < 1000; ++region) pool.for_each(100, body);
    EXPECT_EQ(allocation_count.load(), before);
    EXPECT_EQ(sum.load(), 1001U * 4950U);
}

TEST(ThreadPool, StopsWhetherItsWorkersHaveStartedSpunOrParked) {
    for (int round = 0; round < 200; ++round) ThreadPool unused(4);
    for (int round = 0; round < 20; ++round) {
        ThreadPool used(4);
        used.for_each(8, [](std::size_t, std::size_t) {});
        // Yielding for longer than the workers spin leaves them parked in most rounds.
        for (int i = 0; i < 50 * round; ++i) std::this_thread::yield();
    }
}

TEST(ThreadPool, RunsARegionAfterItsWorkersHaveParked) {
    ThreadPool pool(4);
    std::atomic<int> done{0};
    for (int round = 0; round < 100; ++round) {
        for (int i = 0; i < 20 * (round % 10); ++i) std::this_thread::yield();
        pool.for_each(16, [&](std::size_t, std::size_t) { done.fetch_add(1); });
    }
    EXPECT_EQ(done.load(), 1600);
}

TEST(ThreadPool, WaitsForAWorkerThatIsSlowerThanTheCaller) {
    ThreadPool pool(2);
    for (int round = 0; round < 5; ++round) {
        std::atomic<int> arrived{0};
        std::uint64_t result = 0;
        pool.for_each(2, [&](std::size_t, std::size_t worker) {
            arrived.fetch_add(1);
            while (arrived.load() < 2) std::this_thread::yield();
            if (worker == 0) return;  // the caller goes to wait, past its spinning
            std::uint64_t value = 1;
            for (int i = 0; i < 2'000'000; ++i) value = value * 6364136223846793005ULL + 1442695040888963407ULL;
            result = value | 1;
        });
        EXPECT_NE(result, 0U);
    }
}

TEST(ThreadPool, DoesEveryItemOfEveryPhaseOnceAndKeepsPhasesApart) {
    for (const std::size_t threads : {1u, 2u, 3u, 8u}) {
        ThreadPool pool(threads);
        for (std::size_t round = 0; round < 50; ++round) {
            const std::vector<std::size_t> items{1, 0, 7, 100, 2, 1000, threads, 33};
            std::vector<std::vector<int>> seen;
            for (const std::size_t count : items) seen.emplace_back(count, 0);
            std::atomic<std::size_t> finished{0};
            std::vector<std::size_t> before(items.size(), 0);  // items of all earlier phases
            for (std::size_t p = 1; p < items.size(); ++p) before[p] = before[p - 1] + items[p - 1];
            std::atomic<bool> early{false};
            pool.for_each_phase(items, [&](std::size_t phase, std::size_t first, std::size_t last, std::size_t worker) {
                ASSERT_LT(worker, pool.size());
                ASSERT_LE(last, items[phase]);
                if (finished.load() < before[phase]) early = true;
                for (std::size_t item = first; item < last; ++item) ++seen[phase][item];
                finished += last - first;
            });
            EXPECT_FALSE(early.load());
            for (std::size_t p = 0; p < items.size(); ++p) {
                for (const int times : seen[p]) ASSERT_EQ(times, 1) << "phase " << p << " with " << threads;
            }
        }
    }
}

// Lets a worker go to sleep. Not for ever: one that woke too late for its region sleeps again without counting anew.
void give_way_to_a_park(const ThreadPool& pool, std::uint64_t parks_before) {
    for (int turn = 0; turn < 1000 && pool.sleeps().parks == parks_before; ++turn) std::this_thread::yield();
}

TEST(ThreadPool, LeavesOutTheWorkersThatAreNotWantedUntilTheyAre) {
    ThreadPool pool(6);
    const std::vector<std::size_t> items{40, 3, 0, 100};
    for (std::size_t round = 0; round < 3000; ++round) {
        const std::size_t wanted = 1 + round / 10 * 5 % 7;  // also more than there are
        const std::uint64_t parks = pool.sleeps().parks;
        std::atomic<std::size_t> done{0};
        std::atomic<bool> uninvited{false};
        pool.for_each_phase(
            items,
            [&](std::size_t, std::size_t first, std::size_t last, std::size_t worker) {
                if (worker >= wanted) uninvited = true;
                done += last - first;
            },
            wanted);
        ASSERT_EQ(done.load(), 143U);
        ASSERT_FALSE(uninvited.load());
        if (round % 97 == 0) give_way_to_a_park(pool, parks);
    }
}

TEST(ThreadPool, EndsWhileSomeWorkersAreNotWanted) {
    for (int round = 0; round < 50; ++round) {
        ThreadPool pool(4);
        const std::uint64_t parks = pool.sleeps().parks;
        pool.for_each_phase(
            std::vector<std::size_t>(3, 9), [](std::size_t, std::size_t, std::size_t, std::size_t) {}, 2);
        if (round % 2 == 0) give_way_to_a_park(pool, parks);
    }
}

TEST(ThreadPool, OthersDoWhatALateWorkerHasNotTaken) {
    for (const std::size_t threads : {2u, 3u, 5u}) {
        ThreadPool pool(threads);
        const std::vector<std::size_t> items{64};
        std::atomic<std::size_t> done{0};
        bool helped = false;
        pool.for_each_phase(items, [&](std::size_t, std::size_t first, std::size_t last, std::size_t) {
            if (first == 0) {
                ASSERT_LT(last, 64 / threads) << "an owner must not take all of its part at once";
                const auto begun = std::chrono::steady_clock::now();
                while (done.load() < 64 - last && std::chrono::steady_clock::now() - begun < std::chrono::seconds(20))
                    std::this_thread::yield();
                helped = done.load() == 64 - last;
            }
            done += last - first;
        });
        EXPECT_TRUE(helped) << threads << " threads";
        EXPECT_EQ(done.load(), 64u);
    }
}

TEST(ThreadPool, WorkersThatWaitPrepareTheirOwnPartsOfLaterPhases) {
    if (allowed_cpus().size() < 2) GTEST_SKIP() << "with one CPU a thread that waits lets the others go on";
    constexpr std::size_t kTurns = 3;
    ThreadPool pool(2);
    const std::vector<std::size_t> items{9, 0, 1, 30, 6, 12};
    std::atomic<std::size_t> running{0};  // the latest phase of which an item was begun
    std::atomic<std::size_t> prepared{0};
    std::atomic<bool> wrong{false};
    // Somebody waits for the sleeper of each phase, if not in the first region then in a later one.
    for (int region = 0; region < 1000 && prepared.load() == 0; ++region) {
        std::atomic<std::size_t> done{0};
        running = 0;
        pool.for_each_phase(
            items,
            [&](std::size_t phase, std::size_t first, std::size_t last, std::size_t) {
                running = phase;
                if (first == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                done += last - first;
            },
            [&](std::size_t phase, std::size_t first, std::size_t last, std::size_t turn) {
                ++prepared;
                const bool is_a_part = first < last && last <= items[phase] && last - first <= items[phase] / 2 + 1;
                if (!is_a_part || phase == 0 || phase > running.load() + 2 || turn >= kTurns) wrong = true;
                return turn + 1 < kTurns;
            },
            2);
        ASSERT_EQ(done.load(), 58u);
    }
    EXPECT_GT(prepared.load(), 0u);
    EXPECT_FALSE(wrong.load());
}

TEST(ThreadPool, MakesPlainWritesOfAPhaseVisibleToTheNext) {
    ThreadPool pool(4);
    std::vector<std::uint64_t> values(64, 1);
    const std::vector<std::size_t> items(200, values.size() / 2);
    pool.for_each_phase(items, [&](std::size_t phase, std::size_t first, std::size_t last, std::size_t) {
        const std::size_t from = phase % 2 == 0 ? 0 : 32;
        for (std::size_t i = first; i < last; ++i) values[32 - from + i] = values[from + (i + 1) % 32] + 1;
    });
    for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(values[i], 201u);
}

TEST(ThreadPool, AllocatesNothingInPhasesItHasSeenTheNumberOf) {
    ThreadPool pool(2);
    const std::vector<std::size_t> items(20, 5);
    const auto nothing = [](std::size_t, std::size_t, std::size_t, std::size_t) {};
    pool.for_each_phase(items, nothing);
    const std::size_t before = allocation_count.load();
    pool.for_each_phase(items, nothing);
    EXPECT_EQ(allocation_count.load(), before);
}

TEST(ThreadPool, MakesNoSystemCallInABusyRegion) {
    ThreadPool alone(1);
    alone.for_each_phase(std::vector<std::size_t>(50, 8), [](std::size_t, std::size_t, std::size_t, std::size_t) {});
    EXPECT_EQ(alone.sleeps().parks + alone.sleeps().wakes, 0U);

    if (allowed_cpus().size() < 2) GTEST_SKIP() << "with one CPU two threads can only take turns";
    // The first phase brings both together, the second and the last look at the counts. Another program may put one of
    // the two aside in the middle of an item, and the other then sleeps; on a machine so busy that both find themselves
    // on one CPU that is the rule. Of those that begin on two CPUs some region must go through.
    ThreadPool pool(2);
    std::vector<std::size_t> items(50, 8);
    items[0] = 2;
    items[1] = 1;
    items.back() = 1;
    std::vector<std::uint64_t> values(8, 1);
    bool undisturbed = false;
    int apart = 0;
    for (int region = 0; region < 20'000 && !undisturbed; ++region) {
        std::atomic<int> arrived{0};
        int cpus[2] = {};
        ThreadPool::Sleeps before;
        ThreadPool::Sleeps after;
        pool.for_each_phase(items, [&](std::size_t phase, std::size_t first, std::size_t last, std::size_t) {
            if (phase == 0) {
                cpus[first] = sched_getcpu();
                arrived.fetch_add(1);
                while (arrived.load() < 2) std::this_thread::yield();
            } else if (phase == 1) {
                before = pool.sleeps();
            } else if (phase + 1 == items.size()) {
                after = pool.sleeps();
            } else {
                for (std::size_t i = first; i < last; ++i) values[i] = values[i] * 3 + 1;
            }
        });
        undisturbed = after.parks == before.parks && after.wakes == before.wakes;
        apart += cpus[0] != cpus[1] ? 1 : 0;
    }
    if (!undisturbed && apart < 1000) GTEST_SKIP() << "this machine is too busy for two threads";
    EXPECT_TRUE(undisturbed) << apart << " regions on two CPUs";
}

TEST(ThreadPool, CountsItsSleeps) {
    ThreadPool pool(2);
    // The worker finds nothing to do and parks; only then is there somebody to wake.
    while (pool.sleeps().parks == 0) std::this_thread::yield();
    EXPECT_EQ(pool.sleeps().wakes, 0U);
    while (pool.sleeps().wakes == 0) pool.for_each(2, [](std::size_t, std::size_t) {});
}

TEST(ThreadPool, TreatsZeroThreadsAsOne) {
    ThreadPool pool(0);
    EXPECT_EQ(pool.size(), 1U);
    int items = 0;
    pool.for_each(5, [&](std::size_t, std::size_t worker) { items += worker == 0; });
    EXPECT_EQ(items, 5);
}

TEST(ThreadPool, LetsSeveralPoolsLiveSideBySide) {
    ThreadPool first(2);
    ThreadPool second(3);
    std::atomic<int> sum{0};
    for (int round = 0; round < 100; ++round) {
        first.for_each(4, [&](std::size_t, std::size_t) { sum.fetch_add(1); });
        second.for_each(5, [&](std::size_t, std::size_t) { sum.fetch_add(100); });
    }
    EXPECT_EQ(sum.load(), 100 * (4 + 500));
}

TEST(ThreadPoolDeathTest, RefusesNestedRegions) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    for (std::size_t threads : {1U, 2U}) {
        EXPECT_DEATH(
            {
                ThreadPool pool(threads);
                pool.for_each(2, [&](std::size_t, std::size_t) { pool.for_each(2, [](std::size_t, std::size_t) {}); });
            },
            "running");
    }
}

}  // namespace
}  // namespace hearth
