// Work that another thread does meanwhile.
#pragma once

#include <functional>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

namespace hearth {

// Moves a thread that has just begun off the CPU of its maker, where some systems leave it waiting for milliseconds
// though others are idle. A wish.
void leave_cpu_of_maker(std::thread& thread);

// Begins in the constructor. get() waits for what it gives or throws, once, and the destructor for its end. Where the
// system has no thread to give, get() does the work.
template <typename T>
class Aside {
public:
    explicit Aside(std::function<T()> work) : task_(std::move(work)), result_(task_.get_future()) {
        try {
            thread_ = std::thread(std::ref(task_));
            leave_cpu_of_maker(thread_);
        } catch (const std::system_error&) {
            // get() will do it
        }
    }
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;
    ~Aside() {
        if (thread_.joinable()) thread_.join();
    }

    T get() {
        if (!thread_.joinable()) task_();
        return result_.get();
    }

private:
    std::packaged_task<T()> task_;
    std::future<T> result_;
    std::thread thread_;
};

}  // namespace hearth
