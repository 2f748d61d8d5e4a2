// Tokens still in the running, and how they are found: through the chunk maxima, sorted no further than is looked at.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "sampling/chunked_logits.h"
#include "text/tokenizer.h"

namespace hearth {

struct Candidate {
    float logit;
    TokenId token;
};

// Likelier first, then the lower id: a total order.
inline bool likelier(const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

inline constexpr std::size_t kFirstSortStep =
    128;  // candidates sorted at once when it is not known how many are needed

// Orders more and more of the front of `set`: nothing is sorted that nobody looks at.
template <typename Before>
class GrowingFront {
public:
    GrowingFront(std::span<Candidate> set, Before before) : set_(set), before_(before) {}

    // Nothing behind the last.
    const Candidate* at(std::size_t index) {
        if (index >= set_.size()) return nullptr;
        if (index >= sorted_) grow(index);
        return &set_[index];
    }

private:
    void grow(std::size_t index) {
        const std::size_t wanted = std::min(set_.size(), std::max({index + 1, 4 * sorted_, kFirstSortStep}));
        const auto begin = set_.begin() + static_cast<std::ptrdiff_t>(sorted_);
        const auto middle = set_.begin() + static_cast<std::ptrdiff_t>(wanted);
        if (middle != set_.end()) std::nth_element(begin, middle, set_.end(), before_);
        std::sort(begin, middle, before_);
        sorted_ = wanted;
    }
    std::span<Candidate> set_;
    Before before_;
    std::size_t sorted_ = 0;
};

// Memory to select in, sized once for a vocabulary.
class Selection {
public:
    explicit Selection(std::size_t vocabulary_size)
        : candidates_(vocabulary_size), sorted_(vocabulary_size), chunks_(logit_chunks(vocabulary_size)) {}

    // Each gives a set that lives until the next call. A logit of -Inf is never part of one.

    // The `count` likeliest, in order.
    std::span<Candidate> top(const ChunkedLogits& row, std::size_t count);
    // Those of at least `bar`, in the order of their ids.
    std::span<Candidate> at_least(const ChunkedLogits& row, float bar);
    std::span<Candidate> all(const ChunkedLogits& row);

private:
    std::span<Candidate> descending(const ChunkedLogits& row);

    std::vector<Candidate> candidates_;
    std::vector<Candidate> sorted_;  // where a sort of everything moves to and fro
    std::vector<Candidate> chunks_;  // chunk numbers in place of tokens, their maxima as logits
};

// The whole row in descending order, found step by step.
class DescendingRow {
public:
    DescendingRow(const ChunkedLogits& row, Selection& selection) : row_(row), selection_(selection) {}

    // Nothing behind the last that can be drawn.
    const Candidate* at(std::size_t index) {
        while (index >= found_.size() && found_.size() == asked_) {
            if (asked_ == row_.size()) return nullptr;
            asked_ = std::max({index + 1, 4 * asked_, kFirstSortStep});
            if (asked_ >= row_.chunk_count()) asked_ = row_.size();  // at the cost of sorting all, which then is once
            found_ = selection_.top(row_, asked_);
        }
        return index < found_.size() ? &found_[index] : nullptr;
    }
    std::span<Candidate> first(std::size_t count) const { return found_.first(count); }

private:
    const ChunkedLogits& row_;
    Selection& selection_;
    std::span<Candidate> found_;
    std::size_t asked_ = 0;
};

}  // namespace hearth
