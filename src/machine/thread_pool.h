// A pool of workers for short parallel regions. The caller is worker 0; the others spin briefly, then park.
// Running a region allocates nothing. Which worker does an item never changes what is computed.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

namespace hearth {

class ThreadPool {
public:
    explicit ThreadPool(std::size_t threads);  // at least 1, the caller included
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;
    ~ThreadPool();

    std::size_t size() const;

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

private:
    using ItemFn = void (*)(void* context, std::size_t item, std::size_t worker);
    void run(std::size_t count, ItemFn function, void* context);
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace hearth
