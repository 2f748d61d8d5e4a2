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

constexpr double kSpinSeconds = 200e-6;   // longer than it takes to choose a token and send it between two decode steps
constexpr int kPausesPerClockLook = 32;   // reading the clock costs about as much as these
constexpr int kPausesBeforeHelping = 16;  // mostly the others are about to end too
constexpr int kCrowdedYields = 4;         // with more threads than CPUs, spinning only keeps the others from working

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

constexpr std::uint64_t kMaxItems = std::uint64_t{1} << 24;  // of a phase; leaves room to number 2^40 phases
constexpr std::size_t kPhasesPrepared = 2;  // at most so many ahead: attention lies between two that read weights

}  // namespace

// What workers share of one phase. Those who wait look at a cache line that is written once, not at the one all others
// count in.
struct PhaseState {
    alignas(kCacheLine) std::uint32_t items = 0;
    std::uint32_t parts = 0;                                 // one for each worker
    std::atomic<std::uint32_t> ended{0};                     // the last region in which all items were done
    alignas(kCacheLine) std::atomic<std::uint32_t> done{0};  // items

    void set(std::size_t count, std::size_t workers, std::uint32_t region) {
        if (count == 0) {
            ended.store(region, std::memory_order_relaxed);
        } else if (ended.load(std::memory_order_relaxed) == region) {
            ended.store(region - 1, std::memory_order_relaxed);  // of the same number, long ago
        }
        items = static_cast<std::uint32_t>(count);
        parts = static_cast<std::uint32_t>(workers);
        done.store(0, std::memory_order_relaxed);
    }
    // Rounded up: an item alone is the caller's, who is there.
    std::uint32_t part_begin(std::size_t part) const {
        return static_cast<std::uint32_t>((std::uint64_t{items} * part + parts - 1) / parts);
    }
    // What an owner takes of its part at once: with two workers most of it, and less the more there are of which one
    // may be late.
    std::uint32_t owners_bit(std::uint32_t left) const { return std::max(1u, left * 8 / (parts + 7)); }
};

// How much of a worker's part has been taken, and in which phase: whoever comes first to it in a new one begins it.
struct alignas(kCacheLine) TakenPart {
    std::atomic<std::uint64_t> state{0};  // number of the phase * kMaxItems + items taken

    struct Bit {
        std::uint32_t first = 0;  // of the part
        std::uint32_t count = 0;  // 0: there is none left
    };
    template <typename Size>
    Bit take(std::uint64_t phase, std::uint32_t items, Size size_of_bit) {
        std::uint64_t before = state.load(std::memory_order_relaxed);
        while (true) {
            const std::uint64_t last_phase = before / kMaxItems;
            if (last_phase > phase) return {};
            const std::uint32_t first = last_phase == phase ? static_cast<std::uint32_t>(before % kMaxItems) : 0;
            if (first >= items) return {};
            const Bit bit{first, size_of_bit(items - first)};
            const std::uint64_t after = phase * kMaxItems + first + bit.count;
            if (state.compare_exchange_weak(before, after, std::memory_order_relaxed)) return bit;
        }
    }
};

// How far a worker has come with preparing its part of a phase.
struct Prepared {
    std::size_t phase = 0;
    std::size_t turn = 0;
};

struct ThreadPool::Impl {
    alignas(kCacheLine) std::atomic<std::uint32_t> gate{0};
    alignas(kCacheLine) std::atomic<std::size_t> next_item{0};

    // Written by the caller while the gate is closed and nobody is inside; read by workers inside.
    alignas(kCacheLine) std::size_t count = 0;
    ItemFn function = nullptr;
    void* context = nullptr;
    PhaseWork phase_work = {};        // when it has a body, the region is made of phases
    std::vector<PhaseState> phases;   // at least as many as the region has
    std::vector<TakenPart> taken;     // by worker
    std::uint64_t phases_before = 0;  // in all regions before this one
    std::uint32_t region = 0;         // its number

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
    void prepare_while_waiting(std::size_t index, std::size_t worker, Prepared& prepared);
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
    const auto do_part = [&](std::size_t part, auto size_of_bit) {
        const std::uint32_t begin = phase.part_begin(part);
        const std::uint32_t size = phase.part_begin(part + 1) - begin;
        while (true) {
            const TakenPart::Bit bit = taken[part].take(phases_before + index + 1, size, size_of_bit);
            if (bit.count == 0) return;
            const std::size_t first = begin + bit.first;
            phase_work.body(phase_work.context, index, first, first + bit.count, worker);
            did += bit.count;
        }
    };
    const auto report = [&] {
        if (did == 0) return;
        const std::uint32_t done = phase.done.fetch_add(did, std::memory_order_acq_rel) + did;
        did = 0;
        if (done != phase.items) return;
        // Sequentially consistent against phase_parked: either the sleeper sees the end, or we see the sleeper.
        phase.ended.store(region);
        if (phase_parked.load() == 0) return;
        wakes.fetch_add(1, std::memory_order_relaxed);
        phase.ended.notify_all();
    };
    if (worker < phase.parts) do_part(worker, [&](std::uint32_t left) { return phase.owners_bit(left); });
    report();
    for (int i = 0; i < kPausesBeforeHelping; ++i) {
        if (ended(phase)) return;
        pause_cpu();
    }
    for (std::size_t i = 1; i <= phase.parts; ++i) {
        do_part((worker + i) % phase.parts, [](std::uint32_t) { return 1u; });
        report();
    }
}

void ThreadPool::Impl::prepare_while_waiting(std::size_t index, std::size_t worker, Prepared& prepared) {
    if (prepared.phase <= index) prepared = {.phase = index + 1};
    while (prepared.phase <= index + kPhasesPrepared && prepared.phase < count) {
        const PhaseState& next = phases[prepared.phase];
        if (worker < next.parts) {
            const std::uint32_t first = next.part_begin(worker);
            const std::uint32_t last = next.part_begin(worker + 1);
            do {
                if (ended(phases[index])) return;
            } while (first < last &&
                     phase_work.prepare(phase_work.context, prepared.phase, first, last, prepared.turn++));
        }
        prepared = {.phase = prepared.phase + 1};
    }
}

void ThreadPool::Impl::wait_for(PhaseState& phase) {
    if (spin_until([&] { return ended(phase); }, crowded)) return;
    parks.fetch_add(1, std::memory_order_relaxed);
    phase_parked.fetch_add(1);
    for (std::uint32_t last; (last = phase.ended.load()) != region;) phase.ended.wait(last);
    phase_parked.fetch_sub(1);
}

void ThreadPool::Impl::do_region(std::size_t worker) {
    if (phase_work.body == nullptr) return do_items(worker);
    Prepared prepared;
    for (std::size_t index = 0; index < count; ++index) {
        if (ended(phases[index])) continue;
        do_phase(index, worker);
        if (worker != 0 && index + 1 == count) continue;
        if (!crowded) prepare_while_waiting(index, worker, prepared);
        wait_for(phases[index]);
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
    impl_->taken = std::vector<TakenPart>(threads);
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
        impl.context = context;
        impl.phase_work = {};
        impl.next_item.store(0, std::memory_order_relaxed);
        impl.want(kMaxThreads);
        impl.run_region();
    }
    impl.running.store(false, std::memory_order_relaxed);
}

void ThreadPool::run_phases(std::span<const std::size_t> items, std::size_t workers, const PhaseWork& work) {
    Impl& impl = *impl_;
    workers = std::clamp<std::size_t>(workers, 1, size());
    CHECK(!impl.running.load(std::memory_order_relaxed));
    impl.running.store(true, std::memory_order_relaxed);
    if (workers == 1) {
        for (std::size_t phase = 0; phase < items.size(); ++phase) {
            if (items[phase] != 0) work.body(work.context, phase, 0, items[phase], 0);
        }
    } else {
        if (impl.phases.size() < items.size()) impl.phases = std::vector<PhaseState>(items.size());
        ++impl.region;
        for (std::size_t phase = 0; phase < items.size(); ++phase) {
            CHECK(items[phase] < kMaxItems);
            impl.phases[phase].set(items[phase], workers, impl.region);
        }
        impl.count = items.size();
        impl.phase_work = work;
        impl.want(workers == size() ? kMaxThreads : workers);
        impl.run_region();
        impl.phases_before += items.size();
    }
    impl.running.store(false, std::memory_order_relaxed);
}

}  // namespace hearth
