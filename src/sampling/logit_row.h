// What the sampler is given: one row of logits and, when whoever made it has looked already, its chunk maxima.
#pragma once

#include <concepts>
#include <span>

#include "tensor/logits.h"

namespace hearth {

struct LogitRow {
    std::span<const float> logits;
    std::span<const float> maxima;  // of every kLogitChunk logits (Kernels::chunk_maxima); empty: not known

    LogitRow() = default;
    LogitRow(std::span<const float> all, std::span<const float> of_chunks) : logits(all), maxima(of_chunks) {}
    // Logits alone, as any contiguous range of them.
    template <typename Range>
    requires std::convertible_to<const Range&, std::span<const float>> LogitRow(const Range& all) : logits(all) {}
};

}  // namespace hearth
