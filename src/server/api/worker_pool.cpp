#include "server/api/worker_pool.h"

namespace hearth {

WorkerPool::WorkerPool(std::size_t threads, std::size_t queue_limit) : queue_limit_(queue_limit) {
    for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

WorkerPool::~WorkerPool() {
    {
        const std::scoped_lock lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    threads_.clear();  // joins
}

bool WorkerPool::submit(std::function<void()> task) {
    {
        const std::scoped_lock lock(mutex_);
        if (stopping_ || queue_.size() >= queue_limit_) return false;
        queue_.push_back(std::move(task));
    }
    changed_.notify_one();
    return true;
}

void WorkerPool::run() {
    for (;;) {
        std::function<void()> task;
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
            if (queue_.empty()) return;
            task = std::move(queue_.front());
            queue_.pop_front();
        }
        try {
            task();
        } catch (...) {  // the exchange that the task held is dropped with it and answers 500
        }
    }
}

}  // namespace hearth
