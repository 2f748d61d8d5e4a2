// One atomic word, the gate, holds the whole protocol: generation | stopping | open | workers inside.
// Workers join a region if they come in time and leave it; the caller closes the gate when the items have run out and
// waits only for those inside, so a worker that is parked or preempted never delays a region.
#include "machine/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "machine/affinity.h"

namespace hearth {
namespace {

constexpr std::size_t kMaxThreads = 1024;  // fits the count in the gate with room for latecomers

constexpr std::uint32_t kInsideMask = (1U << 12) - 1;
constexpr std::uint32_t kOpen = 1U << 12;
constexpr std::uint32_t kStopping = 1U << 13;
constexpr std::uint32_t kGeneration =
    1U << 14;  // one step; wraps around, which at worst makes a worker sit one region out

constexpr double kSpinSeconds = 50e-6;   // longer than the gaps between the operations of a decode step
constexpr int kPausesPerClockLook = 32;  // reading the clock costs about as much as these
constexpr int kCrowdedYields = 4;        // with more threads than CPUs, spinning only keeps the others from working

void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");  // `yield` is a no-op on most cores; this really idles the pipeline for a moment
#endif
}

// Busy-waits for a bounded time; false when `ready` did not come true.
template <typename Ready>
bool spin_until(Ready ready, bool crowded) {
    if (crowded) {
        for (int i = 0; i < kCrowdedYields; ++i) {
            if (ready()) return true;
            sched_yield();
        }
        return ready();
    }
    const double deadline = monotonic_seconds() + kSpinSeconds;
    do {
        for (int i = 0; i < kPausesPerClockLook; ++i) {
            if (ready()) return true;
            pause_cpu();
        }
    } while (monotonic_seconds() < deadline);
    return false;
}

}  // namespace

struct ThreadPool::Impl {
    alignas(kCacheLine) std::atomic<std::uint32_t> gate{0};
    alignas(kCacheLine) std::atomic<std::size_t> next_item{0};

    // Written by the caller while the gate is closed and nobody is inside; read by workers inside.
    alignas(kCacheLine) std::size_t count = 0;
    ItemFn function = nullptr;
    void* context = nullptr;

    alignas(kCacheLine) std::atomic<std::uint32_t> parked{0};  // workers waiting on the gate in the kernel
    std::atomic<std::uint32_t> caller_parked{0};               // 1 while the caller sleeps until all have left
    std::atomic<bool> running{false};                          // catches nested and concurrent regions
    bool crowded = false;
    std::vector<std::thread> threads;

    void work(std::size_t worker);
    void do_items(std::size_t worker);
    void leave();
    void open_gate();
    void close_gate_and_wait();
};

void ThreadPool::Impl::do_items(std::size_t worker) {
    // Relaxed is enough: the gate orders everything else.
    for (std::size_t item; (item = next_item.fetch_add(1, std::memory_order_relaxed)) < count;) {
        function(context, item, worker);
    }
}

void ThreadPool::Impl::leave() {
    const std::uint32_t before = gate.fetch_sub(1);
    if ((before & kInsideMask) == 1 && caller_parked.load() == 1) {
        caller_parked.store(0);
        caller_parked.notify_one();
    }
}

void ThreadPool::Impl::work(std::size_t worker) {
    std::uint32_t seen = gate.load() & ~(kInsideMask | kOpen);
    seen -= kGeneration;  // a region opened while this thread started is new to it
    while (true) {
        std::uint32_t state = 0;
        const auto news = [&] {
            state = gate.load();
            return (state & kStopping) != 0 || ((state & kOpen) != 0 && (state & ~(kInsideMask | kOpen)) != seen);
        };
        if (!spin_until(news, crowded)) {
            // The caller changes the gate, then looks at `parked`; we do it the other way round, so one sees the other.
            parked.fetch_add(1);
            while (!news()) gate.wait(state);
            parked.fetch_sub(1);
        }
        if (state & kStopping) return;
        const std::uint32_t joined = gate.fetch_add(1);
        if (joined & kOpen) {
            seen = joined & ~(kInsideMask | kOpen);
            do_items(worker);
        }
        leave();
    }
}

void ThreadPool::Impl::open_gate() {
    gate.fetch_add(kGeneration | kOpen);
    if (parked.load() != 0) gate.notify_all();
}

void ThreadPool::Impl::close_gate_and_wait() {
    gate.fetch_sub(kOpen);
    const auto empty = [&] { return (gate.load() & kInsideMask) == 0; };
    if (spin_until(empty, crowded)) return;
    while (true) {
        caller_parked.store(1);
        if (empty()) break;
        caller_parked.wait(1);
    }
    caller_parked.store(0);
}

ThreadPool::ThreadPool(std::size_t threads) : impl_(std::make_unique<Impl>()) {
    threads = std::clamp<std::size_t>(threads, 1, kMaxThreads);
    const std::size_t cpus = allowed_cpus().size();
    impl_->crowded = cpus != 0 && threads > cpus;
    impl_->threads.reserve(threads - 1);
    for (std::size_t worker = 1; worker < threads; ++worker) {
        try {
            impl_->threads.emplace_back([impl = impl_.get(), worker] {
                char name[16];  // the kernel's limit, with its zero
                std::snprintf(name, sizeof(name), "hearth-%u", static_cast<unsigned>(worker));
                pthread_setname_np(pthread_self(), name);
                impl->work(worker);
            });
        } catch (const std::system_error&) {
            break;  // the system has no more threads to give; size() says how many there are
        }
    }
}

ThreadPool::~ThreadPool() {
    CHECK(!impl_->running.load(std::memory_order_relaxed));
    impl_->gate.fetch_or(kStopping);
    impl_->gate.notify_all();
    for (std::thread& thread : impl_->threads) thread.join();
}

std::size_t ThreadPool::size() const {
    return impl_->threads.size() + 1;
}

void ThreadPool::run(std::size_t count, ItemFn function, void* context) {
    if (count == 0) return;
    Impl& impl = *impl_;
    CHECK(!impl.running.load(std::memory_order_relaxed));
    impl.running.store(true, std::memory_order_relaxed);
    if (count == 1 || impl.threads.empty()) {
        for (std::size_t item = 0; item < count; ++item) function(context, item, 0);
    } else {
        impl.count = count;
        impl.function = function;
        impl.context = context;
        impl.next_item.store(0, std::memory_order_relaxed);
        impl.open_gate();
        impl.do_items(0);
        impl.close_gate_and_wait();
    }
    impl.running.store(false, std::memory_order_relaxed);
}

}  // namespace hearth
