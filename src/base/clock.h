// Monotonic time. What needs to be tested with time takes a Clock as an argument.
#pragma once

#include <chrono>

namespace hearth {

// Seconds since an arbitrary fixed point; never goes back.
inline double monotonic_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace hearth
