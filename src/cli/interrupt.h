// Ctrl-C as a request: while an InterruptScope lives, it sets a flag instead of ending the process.
#pragma once

#include <csignal>

namespace hearth {

class InterruptScope {
public:
    InterruptScope();
    InterruptScope(const InterruptScope&) = delete;
    InterruptScope& operator=(const InterruptScope&) = delete;
    ~InterruptScope();

    static bool requested();
    static void clear();

private:
    struct sigaction before_;
};

}  // namespace hearth
