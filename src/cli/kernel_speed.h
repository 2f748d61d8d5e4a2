// How fast this CPU's kernels compute when their data is in the cache: what `hearth plan` predicts prompts with, and
// the limit of decoding where memory is not the limit. Measured on zeros, in a few milliseconds a weight type.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "kernels/kernels.h"
#include "machine/thread_pool.h"

namespace hearth {

// Multiply-adds a second of all threads together.
struct MatmulSpeed {
    DType type = DType::F32;
    double one_token = 0;
    double many_tokens = 0;
};

struct KernelSpeed {
    std::vector<MatmulSpeed> matmul;
    double attention_one_token = 0;
    double attention_many_tokens = 0;

    const MatmulSpeed* find(DType type) const;
};

KernelSpeed measure_kernels(const Kernels& kernels, ThreadPool& pool, std::span<const DType> types,
                            const AttentionShape& attention, KvType kv_type = KvType::F16);

}  // namespace hearth
