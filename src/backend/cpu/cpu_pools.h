// The threads of a CPU backend: passes with few rows are bound by memory, those with many by arithmetic, so each may
// want another number. One pool may be both.
#pragma once

#include "machine/thread_pool.h"

namespace hearth {

struct CpuPools {
    ThreadPool* decode = nullptr;
    ThreadPool* prefill = nullptr;

    ThreadPool& larger() const { return prefill->size() > decode->size() ? *prefill : *decode; }
};

}  // namespace hearth
