// A few threads for work that would hold up the sockets: parsing bodies, templates, tokenising, grammars.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace hearth {

class WorkerPool {
public:
    WorkerPool(std::size_t threads, std::size_t queue_limit);
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;
    ~WorkerPool();  // finishes what was taken

    bool submit(std::function<void()> task);  // false: the queue is full

private:
    void run();

    const std::size_t queue_limit_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> queue_;
    bool stopping_ = false;
    std::vector<std::jthread> threads_;
};

}  // namespace hearth
