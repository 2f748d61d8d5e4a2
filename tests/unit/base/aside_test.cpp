#include "base/aside.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <memory>
#include <new>
#include <thread>

namespace hearth {
namespace {

TEST(Aside, GivesWhatAnotherThreadMade) {
    const std::thread::id here = std::this_thread::get_id();
    Aside<std::unique_ptr<std::thread::id>> there(
        [] { return std::make_unique<std::thread::id>(std::this_thread::get_id()); });
    EXPECT_NE(*there.get(), here);
}

TEST(Aside, ThrowsWhatTheWorkThrew) {
    Aside<void> work([] { throw std::bad_alloc(); });
    EXPECT_THROW(work.get(), std::bad_alloc);
}

TEST(Aside, EndsBeforeItIsGone) {
    std::atomic<bool> ended = false;
    {
        const Aside<bool> work([&] { return ended = true; });
    }
    EXPECT_TRUE(ended);
}

TEST(Aside, MayUseTheSameCpusAsItsMaker) {
    const auto allowed = [] {
        cpu_set_t set;
        CPU_ZERO(&set);
        EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
        return set;
    };
    // It may look before its maker has given it all of them back.
    Aside<bool> work([&, all = allowed()] {
        for (;;) {
            const cpu_set_t mine = allowed();
            if (CPU_EQUAL(&mine, &all)) return true;
            std::this_thread::yield();
        }
    });
    EXPECT_TRUE(work.get());
}

}  // namespace
}  // namespace hearth
