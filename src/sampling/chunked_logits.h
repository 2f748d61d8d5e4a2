// A row of logits with the maximum of every chunk of 64, and the few of them that bias and penalties changed. Nothing
// that changes few tokens copies or rereads the vocabulary.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sampling/logit_row.h"

namespace hearth {

// -Inf for none, NaN when one of them is.
float largest_logit(std::span<const float> logits);

class ChunkedLogits {
public:
    // Sized once for a vocabulary; reset() begins another row.
    explicit ChunkedLogits(std::size_t vocabulary_size);

    // The row's memory must outlive the use of this. Maxima that do not come with it are computed here.
    void reset(const LogitRow& row);

    // Gives the logit of a token to change. Afterwards settle() brings the maxima up to date.
    float& change(std::size_t token);
    // Leaves the tokens whose bit is set and makes the others -Inf; call it after the changes, before settle(). One
    // word per chunk.
    void restrict_to(std::span<const std::uint64_t> mask);
    void settle();

    std::size_t size() const { return logits_.size(); }
    std::size_t chunk_count() const { return maxima_.size(); }
    std::span<const float> chunk(std::size_t index) const {
        const std::size_t begin = index * kLogitChunk;
        if (changed_[index] == kNothing) return {nothing_.data(), std::min(logits_.size() - begin, kLogitChunk)};
        const float* values = changed_[index] != 0 ? copies_.data() : logits_.data();
        return {values + begin, logits_.size() - begin < kLogitChunk ? logits_.size() - begin : kLogitChunk};
    }
    std::span<const float> maxima() const { return maxima_; }
    float highest() const { return highest_; }  // NaN when a logit is

    std::size_t capacity() const { return copies_.size(); }

private:
    static constexpr std::uint8_t kCopied = 1;
    static constexpr std::uint8_t kNothing = 2;  // no token of the chunk is allowed

    std::span<const float> logits_;  // the row's
    std::span<const float> maxima_;  // the row's or own_maxima_
    float highest_ = 0;
    std::vector<float> own_maxima_;
    std::vector<float> copies_;                  // the changed chunks, each at its place
    std::vector<std::uint8_t> changed_;          // by chunk: 0, kCopied or kNothing
    std::vector<float> nothing_;                 // a chunk of -Inf
    std::vector<std::uint32_t> changed_chunks_;  // which those are
};

}  // namespace hearth
