#include "base/aside.h"

#include <pthread.h>
#include <sched.h>

namespace hearth {

void leave_cpu_of_maker(std::thread& thread) {
    cpu_set_t allowed;
    const int here = sched_getcpu();
    // Machines of more CPUs than the set holds stay as they are.
    if (here < 0 || pthread_getaffinity_np(pthread_self(), sizeof allowed, &allowed) != 0) return;
    cpu_set_t others = allowed;
    CPU_CLR(static_cast<std::size_t>(here), &others);
    if (CPU_COUNT(&others) == 0) return;
    if (pthread_setaffinity_np(thread.native_handle(), sizeof others, &others) != 0) return;
    pthread_setaffinity_np(thread.native_handle(), sizeof allowed, &allowed);
}

}  // namespace hearth
