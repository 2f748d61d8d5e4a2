#include "cli/interrupt.h"

namespace hearth {

namespace {

// A signal handler can reach nothing but a global.
volatile std::sig_atomic_t interrupt_requested = 0;

void note_interrupt(int) {
    interrupt_requested = 1;
}

}  // namespace

InterruptScope::InterruptScope() {
    clear();
    struct sigaction action = {};
    action.sa_handler = note_interrupt;  // without SA_RESTART: a waiting read returns
    ::sigaction(SIGINT, &action, &before_);
}

InterruptScope::~InterruptScope() {
    ::sigaction(SIGINT, &before_, nullptr);
}

bool InterruptScope::requested() {
    return interrupt_requested != 0;
}
void InterruptScope::clear() {
    interrupt_requested = 0;
}

}  // namespace hearth
