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
constexpr int kPausesBeforeStealing = 16;  // those who have come will take their own part
constexpr int kCrowdedYields = 4;          // with more threads than CPUs, spinning only keeps the others from working

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
// Those who wait look at a cache line that is written once, not at the one all others count in.
struct PhaseState {
    alignas(kCacheLine) std::uint32_t items = 0;
    std::uint32_t dealt = 0;                                 // number of parts
    std::uint32_t part = 0;                                  // items of a part
    std::uint32_t bit = 0;                                   // items taken at a time from the rest
    std::atomic<std::uint32_t> ended{0};                     // the last region in which all items were done
    alignas(kCacheLine) std::atomic<std::uint32_t> next{0};  // of the rest
    std::atomic<std::uint32_t> done{0};                      // items

    void set(std::size_t count, std::size_t workers, std::uint32_t region) {
        if (count == 0) {
            ended.store(region, std::memory_order_relaxed);
        } else if (ended.load(std::memory_order_relaxed) == region) {
            ended.store(region - 1, std::memory_order_relaxed);  // of the same number, long ago
        }
        if (items != count || dealt != std::min(workers, kMaxDealt)) {
            items = static_cast<std::uint32_t>(count);
            dealt = static_cast<std::uint32_t>(std::min(workers, kMaxDealt));
            // One eighth stays for the faster ones, if there are items enough to share out that finely.
            part = count >= 4 * dealt ? items / dealt - items / (8 * dealt) : items / dealt;
            bit = std::max(1u, (items - dealt * part) / (2 * dealt));
        }
        next.store(dealt * part, std::memory_order_relaxed);
        done.store(0, std::memory_order_relaxed);
    }
};

// The last phase of which somebody has taken this worker's part.
struct alignas(kCacheLine) TakenPart {
    std::atomic<std::uint64_t> phase{0};

    bool take(std::uint64_t number) {
        std::uint64_t before = phase.load(std::memory_order_relaxed);
        return before < number && phase.compare_exchange_strong(before, number, std::memory_order_relaxed);
    }
};

struct ThreadPool::Impl {
    alignas(kCacheLine) std::atomic<std::uint32_t> gate{0};
    alignas(kCacheLine) std::atomic<std::size_t> next_item{0};

    // Written by the caller while the gate is closed and nobody is inside; read by workers inside.
    alignas(kCacheLine) std::size_t count = 0;
    ItemFn function = nullptr;
    PhaseFn phase_function = nullptr;  // when set, the region is made of phases
    std::vector<PhaseState> phases;    // at least as many as the region has
    std::vector<TakenPart> taken;      // by worker
    std::uint64_t phases_before = 0;   // in all regions before this one
    std::uint32_t region = 0;          // its number
    void* context = nullptr;

    alignas(kCacheLine) std::atomic<std::uint32_t> parked{0};  // workers waiting on the gate in the kernel
    std::atomic<std::uint32_t> phase_parked{0};                // workers asleep until a phase is complete
    std::atomic<std::uint32_t> caller_parked{0};               // 1 while the caller sleeps until all have left
    std::atomic<std::uint32_t> wanted{kMaxThreads};            // workers of the region: the first so many
    std::atomic<std::uint32_t> unwanted_parked{0};             // workers asleep until more are wanted
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
    bool ended(const PhaseState& phase) const { return phase.ended.load(std::memory_order_acquire) == region; }
    void wait_for(PhaseState& phase);
    void run_region();
    void leave();
    void want(std::size_t workers);
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
        if (phase.part == 0 || !taken[part].take(phases_before + index + 1)) return;
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
    const auto finish = [&] {
        if (did == 0 || phase.done.fetch_add(did, std::memory_order_acq_rel) + did != phase.items) return;
        // Sequentially consistent against phase_parked: either the sleeper sees the end, or we see the sleeper.
        phase.ended.store(region);
        if (phase_parked.load() == 0) return;
        wakes.fetch_add(1, std::memory_order_relaxed);
        phase.ended.notify_all();
    };
    finish();
    did = 0;
    for (int i = 0; i < kPausesBeforeStealing; ++i) {
        if (ended(phase)) return;
        pause_cpu();
    }
    for (std::size_t part = 0; part < phase.dealt; ++part) take(part);
    finish();
}

void ThreadPool::Impl::wait_for(PhaseState& phase) {
    if (spin_until([&] { return ended(phase); }, crowded)) return;
    parks.fetch_add(1, std::memory_order_relaxed);
    phase_parked.fetch_add(1);
    for (std::uint32_t last; (last = phase.ended.load()) != region;) phase.ended.wait(last);
    phase_parked.fetch_sub(1);
}

void ThreadPool::Impl::do_region(std::size_t worker) {
    if (phase_function == nullptr) return do_items(worker);
    for (std::size_t index = 0; index < count; ++index) {
        if (ended(phases[index])) continue;
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
            const bool is_new = (state & kOpen) != 0 && (state & ~(kInsideMask | kOpen)) != seen;
            return (state & kStopping) != 0 || (is_new && worker < wanted.load());
        };
        if (!spin_until(news, crowded)) {
            // The caller changes the gate, then looks at `parked`; we do it the other way round, so one sees the other.
            parks.fetch_add(1, std::memory_order_relaxed);
            parked.fetch_add(1);
            while (!news() && worker < wanted.load()) gate.wait(state);
            parked.fetch_sub(1);
            unwanted_parked.fetch_add(1);
            for (std::uint32_t number; worker >= (number = wanted.load());) wanted.wait(number);
            unwanted_parked.fetch_sub(1);
            if (!news()) continue;
        }
        if (state & kStopping) return;
        const std::uint32_t joined = gate.fetch_add(1);
        if (joined & kOpen) {
            seen = joined & ~(kInsideMask | kOpen);
            if (worker < wanted.load(std::memory_order_relaxed)) do_region(worker);  // it may be a later region by now
        }
        leave();
    }
}

void ThreadPool::Impl::want(std::size_t workers) {
    const auto number = static_cast<std::uint32_t>(workers);
    if (wanted.load(std::memory_order_relaxed) == number) return;
    wanted.store(number);
    if (unwanted_parked.load() == 0) return;
    wakes.fetch_add(1, std::memory_order_relaxed);
    wanted.notify_all();
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
    impl_->taken = std::vector<TakenPart>(std::min(threads, kMaxDealt));
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
    impl_->want(kMaxThreads);
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
        impl.want(kMaxThreads);
        impl.run_region();
    }
    impl.running.store(false, std::memory_order_relaxed);
}

void ThreadPool::run_phases(std::span<const std::size_t> items, std::size_t workers, PhaseFn function, void* context) {
    Impl& impl = *impl_;
    workers = std::clamp<std::size_t>(workers, 1, size());
    CHECK(!impl.running.load(std::memory_order_relaxed));
    impl.running.store(true, std::memory_order_relaxed);
    if (workers == 1) {
        for (std::size_t phase = 0; phase < items.size(); ++phase) {
            if (items[phase] != 0) function(context, phase, 0, items[phase], 0);
        }
    } else {
        if (impl.phases.size() < items.size()) impl.phases = std::vector<PhaseState>(items.size());
        ++impl.region;
        for (std::size_t phase = 0; phase < items.size(); ++phase) {
            impl.phases[phase].set(items[phase], workers, impl.region);
        }
        impl.count = items.size();
        impl.phase_function = function;
        impl.context = context;
        impl.want(workers == size() ? kMaxThreads : workers);
        impl.run_region();
        impl.phases_before += items.size();
    }
    impl.running.store(false, std::memory_order_relaxed);
}

}  // namespace hearth
