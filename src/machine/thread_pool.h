// A pool of workers for short parallel regions. The caller is worker 0; the others spin briefly, then park.
// Running a region allocates nothing once it has run that many phases. Which worker does an item never changes what is
// computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "machine/placement.h"

namespace hearth {

class ThreadPool {
public:
    // At least one thread, the caller included. Worker i stays on places[i] where there is one and the kernel lets it;
    // the caller does only within a PlacedCaller.
    explicit ThreadPool(std::size_t threads, WorkerPlaces places = {});
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;
    ~ThreadPool();

    std::size_t size() const;

    // System calls made for waiting since the pool began: threads put to sleep, and calls to wake some. Busy regions
    // make none.
    struct Sleeps {
        std::uint64_t parks = 0;
        std::uint64_t wakes = 0;
    };
    Sleeps sleeps() const;

    // Calls body(item, worker) for every item in [0, count), each exactly once, and returns when all are done.
    // Items are handed out in ascending order from a shared counter, so uneven cores stay busy.
    template <typename Body>
    void for_each(std::size_t count, Body&& body) {
        using Callable = std::remove_reference_t<Body>;
        run(
            count,
            [](void* context, std::size_t item, std::size_t worker) {
                (*static_cast<Callable*>(context))(item, worker);
            },
            const_cast<void*>(static_cast<const void*>(&body)));
    }

    // Phases one after another in one region: body(phase, first, last, worker) does items [first, last) of a phase that
    // has items[phase] of them, each exactly once; a phase begins when the one before is complete. Every worker has a
    // part of its own, neighbouring items and as many as the others have, so that it finds the same data in its cache
    // the next time. It takes them bit by bit, and whoever has none left takes from the others. A phase ends with its
    // last item, not with the last worker to arrive. Only the first `workers` of the pool take part; the others go to
    // sleep.
    template <typename Body>
    void for_each_phase(std::span<const std::size_t> items, Body&& body, std::size_t workers = SIZE_MAX) {
        const auto nothing = [](std::size_t, std::size_t, std::size_t, std::size_t) { return false; };
        for_each_phase(items, body, nothing, workers);
    }

    // The same, and a worker that waits for the others calls prepare(phase, first, last, turn) meanwhile, for its part
    // of a phase to come and with turn = 0, 1, 2, ... until that returns false or the wait is over. It must be short
    // and without effect on what is computed.
    template <typename Body, typename Prepare>
    void for_each_phase(std::span<const std::size_t> items, Body&& body, Prepare&& prepare, std::size_t workers) {
        struct Both {
            std::remove_reference_t<Body>& body;
            std::remove_reference_t<Prepare>& prepare;
        };
        Both both{body, prepare};
        run_phases(
            items, workers,
            {.body = [](void* context, std::size_t phase, std::size_t first, std::size_t last,
                        std::size_t worker) { static_cast<Both*>(context)->body(phase, first, last, worker); },
             .prepare = [](void* context, std::size_t phase, std::size_t first, std::size_t last,
                           std::size_t turn) { return static_cast<Both*>(context)->prepare(phase, first, last, turn); },
             .context = &both});
    }

private:
    friend class PlacedCaller;
    using ItemFn = void (*)(void* context, std::size_t item, std::size_t worker);
    struct PhaseWork {
        void (*body)(void* context, std::size_t phase, std::size_t first, std::size_t last, std::size_t worker);
        bool (*prepare)(void* context, std::size_t phase, std::size_t first, std::size_t last, std::size_t turn);
        void* context;
    };
    void run(std::size_t count, ItemFn function, void* context);
    void run_phases(std::span<const std::size_t> items, std::size_t workers, const PhaseWork& work);
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// While it lives the thread that made it stays where the pool wants its first worker. What the thread starts meanwhile
// (threads, processes) would inherit that: hence a scope, for loops that only compute.
class PlacedCaller {
public:
    explicit PlacedCaller(const ThreadPool& pool);
    PlacedCaller(const PlacedCaller&) = delete;
    PlacedCaller& operator=(const PlacedCaller&) = delete;
    ~PlacedCaller();

private:
    std::vector<unsigned> before_;  // empty: nothing was changed
};

}  // namespace hearth
