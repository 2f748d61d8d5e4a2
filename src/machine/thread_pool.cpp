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
#include <utility>
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

constexpr double kSpinSeconds = 200e-6;  // longer than it takes to choose a token and send it between two decode steps
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

constexpr std::size_t kMaxDealt = 64;  // workers with a part of their own in a phase: one bit each

}  // namespace

// What workers share of one phase. Items [0, dealt * part) lie in parts, one a worker; the rest is taken bit by bit.
struct alignas(kCacheLine) PhaseState {
    std::uint32_t items = 0;
    std::uint32_t dealt = 0;              // number of parts
    std::uint32_t part = 0;               // items of a part
    std::uint32_t bit = 0;                // items taken at a time from the rest
    std::atomic<std::uint64_t> taken{0};  // parts somebody has taken
    std::atomic<std::uint32_t> next{0};   // of the rest
    std::atomic<std::uint32_t> done{0};   // items

    void set(std::size_t count, std::size_t workers) {
        items = static_cast<std::uint32_t>(count);
        dealt = static_cast<std::uint32_t>(std::min(workers, kMaxDealt));
        // One eighth stays for the faster ones, if there are items enough to share out that finely.
        part = count >= 4 * dealt ? items / dealt - items / (8 * dealt) : items / dealt;
        bit = std::max(1u, (items - dealt * part) / (2 * dealt));
        taken.store(0, std::memory_order_relaxed);
        next.store(dealt * part, std::memory_order_relaxed);
        done.store(0, std::memory_order_relaxed);
    }
    bool take_part(std::size_t index) {
        const std::uint64_t mask = std::uint64_t{1} << index;
        if ((taken.load(std::memory_order_relaxed) & mask) != 0) return false;
        return (taken.fetch_or(mask, std::memory_order_relaxed) & mask) == 0;
    }
    bool complete() const { return done.load(std::memory_order_acquire) == items; }
};

struct ThreadPool::Impl {
    alignas(kCacheLine) std::atomic<std::uint32_t> gate{0};
    alignas(kCacheLine) std::atomic<std::size_t> next_item{0};

    // Written by the caller while the gate is closed and nobody is inside; read by workers inside.
    alignas(kCacheLine) std::size_t count = 0;
    ItemFn function = nullptr;
    PhaseFn phase_function = nullptr;  // when set, the region is made of phases
    std::vector<PhaseState> phases;    // at least as many as the region has
    void* context = nullptr;

    alignas(kCacheLine) std::atomic<std::uint32_t> parked{0};  // workers waiting on the gate in the kernel
    std::atomic<std::uint32_t> phase_parked{0};                // workers asleep until a phase is complete
    std::atomic<std::uint32_t> caller_parked{0};               // 1 while the caller sleeps until all have left
    std::atomic<bool> running{false};                          // catches nested and concurrent regions
    std::atomic<std::uint64_t> parks{0};
    std::atomic<std::uint64_t> wakes{0};
    WorkerPlaces places;
    bool crowded = false;
    std::vector<std::thread> threads;

    void work(std::size_t worker);
    void do_region(std::size_t worker);
    void do_items(std::size_t worker);
    void do_phase(std::size_t index, std::size_t worker);
    void wait_for(PhaseState& phase);
    void run_region();
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

void ThreadPool::Impl::do_phase(std::size_t index, std::size_t worker) {
    PhaseState& phase = phases[index];
    std::uint32_t did = 0;
    const auto take = [&](std::size_t part) {
        if (phase.part == 0 || !phase.take_part(part)) return;
        phase_function(context, index, part * phase.part, (part + 1) * phase.part, worker);
        did += phase.part;
    };
    if (worker < phase.dealt) take(worker);
    while (phase.next.load(std::memory_order_relaxed) < phase.items) {
        const std::uint32_t first = phase.next.fetch_add(phase.bit, std::memory_order_relaxed);
        if (first >= phase.items) break;
        const std::uint32_t last = std::min(first + phase.bit, phase.items);
        phase_function(context, index, first, last, worker);
        did += last - first;
    }
    for (std::size_t part = 0; part < phase.dealt; ++part) take(part);
    if (did == 0) return;
    // Sequentially consistent against phase_parked: either the sleeper sees the last item, or we see the sleeper.
    if (phase.done.fetch_add(did) + did == phase.items && phase_parked.load() != 0) {
        wakes.fetch_add(1, std::memory_order_relaxed);
        phase.done.notify_all();
    }
}

void ThreadPool::Impl::wait_for(PhaseState& phase) {
    if (spin_until([&] { return phase.complete(); }, crowded)) return;
    parks.fetch_add(1, std::memory_order_relaxed);
    phase_parked.fetch_add(1);
    for (std::uint32_t done; (done = phase.done.load()) != phase.items;) phase.done.wait(done);
    phase_parked.fetch_sub(1);
}

void ThreadPool::Impl::do_region(std::size_t worker) {
    if (phase_function == nullptr) return do_items(worker);
    for (std::size_t index = 0; index < count; ++index) {
        if (phases[index].complete()) continue;
        do_phase(index, worker);
        if (worker == 0 || index + 1 < count) wait_for(phases[index]);
    }
}

void ThreadPool::Impl::run_region() {
    open_gate();
    do_region(0);
    close_gate_and_wait();
}

void ThreadPool::Impl::leave() {
    const std::uint32_t before = gate.fetch_sub(1);
    if ((before & kInsideMask) == 1 && caller_parked.load() == 1) {
        caller_parked.store(0);
        wakes.fetch_add(1, std::memory_order_relaxed);
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
            parks.fetch_add(1, std::memory_order_relaxed);
            parked.fetch_add(1);
            while (!news()) gate.wait(state);
            parked.fetch_sub(1);
        }
        if (state & kStopping) return;
        const std::uint32_t joined = gate.fetch_add(1);
        if (joined & kOpen) {
            seen = joined & ~(kInsideMask | kOpen);
            do_region(worker);
        }
        leave();
    }
}

void ThreadPool::Impl::open_gate() {
    gate.fetch_add(kGeneration | kOpen);
    if (parked.load() == 0) return;
    wakes.fetch_add(1, std::memory_order_relaxed);
    gate.notify_all();
}

void ThreadPool::Impl::close_gate_and_wait() {
    gate.fetch_sub(kOpen);
    const auto empty = [&] { return (gate.load() & kInsideMask) == 0; };
    if (spin_until(empty, crowded)) return;
    parks.fetch_add(1, std::memory_order_relaxed);
    while (true) {
        caller_parked.store(1);
        if (empty()) break;
        caller_parked.wait(1);
    }
    caller_parked.store(0);
}

ThreadPool::ThreadPool(std::size_t threads, WorkerPlaces places) : impl_(std::make_unique<Impl>()) {
    impl_->places = std::move(places);
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
                if (worker < impl->places.size()) static_cast<void>(keep_on_cpus(impl->places[worker]));
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

ThreadPool::Sleeps ThreadPool::sleeps() const {
    return {impl_->parks.load(std::memory_order_relaxed), impl_->wakes.load(std::memory_order_relaxed)};
}

PlacedCaller::PlacedCaller(const ThreadPool& pool) {
    const WorkerPlaces& places = pool.impl_->places;
    if (places.empty()) return;
    std::vector<unsigned> before = allowed_cpus();
    if (keep_on_cpus(places.front())) before_ = std::move(before);
}

PlacedCaller::~PlacedCaller() {
    static_cast<void>(keep_on_cpus(before_));
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
        impl.phase_function = nullptr;
        impl.context = context;
        impl.next_item.store(0, std::memory_order_relaxed);
        impl.run_region();
    }
    impl.running.store(false, std::memory_order_relaxed);
}

void ThreadPool::run_phases(std::span<const std::size_t> items, PhaseFn function, void* context) {
    Impl& impl = *impl_;
    CHECK(!impl.running.load(std::memory_order_relaxed));
    impl.running.store(true, std::memory_order_relaxed);
    if (impl.threads.empty()) {
        for (std::size_t phase = 0; phase < items.size(); ++phase) {
            if (items[phase] != 0) function(context, phase, 0, items[phase], 0);
        }
    } else {
        if (impl.phases.size() < items.size()) impl.phases = std::vector<PhaseState>(items.size());
        for (std::size_t phase = 0; phase < items.size(); ++phase) impl.phases[phase].set(items[phase], size());
        impl.count = items.size();
        impl.phase_function = function;
        impl.context = context;
        impl.run_region();
    }
    impl.running.store(false, std::memory_order_relaxed);
}

}  // namespace hearth
