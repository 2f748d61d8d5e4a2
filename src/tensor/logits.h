// How a row of logits is cut for those who look for its largest: chunks of 64, each with its maximum.
#pragma once

#include <cstddef>

namespace hearth {

inline constexpr std::size_t kLogitChunk = 64;

constexpr std::size_t logit_chunks(std::size_t logits) {
    return (logits + kLogitChunk - 1) / kLogitChunk;
}

}  // namespace hearth
