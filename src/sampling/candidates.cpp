#include "sampling/candidates.h"

#include <bit>
#include <limits>
#include <utility>

namespace hearth {

namespace {

constexpr float kLowestFinite = std::numeric_limits<float>::lowest();
constexpr std::size_t kLanes = 16;

// Whether one of kLanes values reaches `bar`.
bool any_at_least(const float* values, float bar) {
    std::uint32_t reached = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane) reached |= values[lane] >= bar ? 1u : 0u;
    return reached != 0;
}

// Keeps the best `count` of what is put in, in no order, within a given memory.
class BestOf {
public:
    // `memory` has room for all that is put in.
    BestOf(std::span<Candidate> memory, std::size_t count, float bar)
        : memory_(memory),
          count_(count),
          bar_(bar),
          capacity_(std::min(memory.size(), std::max<std::size_t>(2 * count, 256) + kLanes)) {}

    // Passes over values below the bar at the speed of a comparison.
    void put(std::span<const float> values, std::size_t first_token) {
        for (std::size_t i = 0; i < values.size(); i += kLanes) {
            const std::size_t end = std::min(i + kLanes, values.size());
            if (end - i == kLanes && !any_at_least(values.data() + i, bar_)) continue;
            if (held_ + kLanes > capacity_ && capacity_ < memory_.size()) shrink();
            for (std::size_t k = i; k < end; ++k) {
                if (values[k] >= bar_) {
                    memory_[held_++] = Candidate{values[k], static_cast<TokenId>(first_token + k)};
                }
            }
        }
    }

    std::span<Candidate> finish() {
        shrink();
        return memory_.first(held_);
    }

private:
    void shrink() {
        if (held_ <= count_) return;
        const auto begin = memory_.begin();
        std::nth_element(begin, begin + static_cast<std::ptrdiff_t>(count_) - 1,
                         begin + static_cast<std::ptrdiff_t>(held_), likelier);
        held_ = count_;
        bar_ = memory_[count_ - 1].logit;
    }

    std::span<Candidate> memory_;
    std::size_t count_;
    float bar_;  // what does not reach it cannot be among the best
    std::size_t capacity_;
    std::size_t held_ = 0;
};

// Ascending keys are descending logits; equal logits, the two zeros among them, have equal keys.
std::uint32_t sort_key(float logit) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(logit + 0.0f);
    return (bits >> 31) != 0 ? bits : ~bits & 0x7fffffffu;
}

}  // namespace

std::span<Candidate> Selection::top(const ChunkedLogits& row, std::size_t count) {
    count = std::min(count, row.size());
    if (count == 0) return {};
    if (count >= row.chunk_count()) {
        const std::span<Candidate> sorted = descending(row);
        return sorted.first(std::min(count, sorted.size()));
    }
    // The best `count` chunks hold the best `count` tokens: one from any other chunk would stand behind the maxima of
    // all of these. Equal maxima go to the lower chunk as equal logits do to the lower token.
    BestOf best_chunks(chunks_, count, kLowestFinite);
    best_chunks.put(row.maxima(), 0);
    const std::span<Candidate> chosen = best_chunks.finish();
    // Likewise no token below the lowest of these maxima is among them.
    float bound = std::numeric_limits<float>::max();
    for (const Candidate& chunk : chosen) bound = std::min(bound, chunk.logit);
    if (chosen.size() < count) bound = kLowestFinite;
    BestOf best(candidates_, count, bound);
    for (const Candidate& chunk : chosen) {
        const std::size_t index = static_cast<std::size_t>(chunk.token);
        best.put(row.chunk(index), index * kLogitChunk);
    }
    const std::span<Candidate> found = best.finish();
    std::sort(found.begin(), found.end(), likelier);
    return found;
}

// By radix, from the order of the ids and stable: a comparing sort of a vocabulary takes tens of milliseconds.
std::span<Candidate> Selection::descending(const ChunkedLogits& row) {
    constexpr unsigned kDigitBits = 11;
    constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
    std::span<Candidate> from = all(row);
    std::span<Candidate> to = std::span<Candidate>(sorted_).first(from.size());
    for (unsigned shift = 0; shift < 32; shift += kDigitBits) {
        const auto digit_of = [shift](const Candidate& candidate) {
            return (sort_key(candidate.logit) >> shift) & (kDigits - 1);
        };
        std::uint32_t places[kDigits] = {};
        for (const Candidate& candidate : from) ++places[digit_of(candidate)];
        std::uint32_t sum = 0;
        for (std::uint32_t& place : places) place = std::exchange(sum, sum + place);
        for (const Candidate& candidate : from) to[places[digit_of(candidate)]++] = candidate;
        std::swap(from, to);
    }
    return from;
}

std::span<Candidate> Selection::at_least(const ChunkedLogits& row, float bar) {
    bar = std::max(bar, kLowestFinite);
    std::size_t held = 0;
    for (std::size_t c = 0; c < row.chunk_count(); ++c) {
        if (row.maxima()[c] < bar) continue;
        const std::span<const float> chunk = row.chunk(c);
        for (std::size_t i = 0; i < chunk.size(); ++i) {
            if (chunk[i] >= bar) candidates_[held++] = Candidate{chunk[i], static_cast<TokenId>(c * kLogitChunk + i)};
        }
    }
    return std::span<Candidate>(candidates_).first(held);
}

std::span<Candidate> Selection::all(const ChunkedLogits& row) {
    return at_least(row, kLowestFinite);
}

}  // namespace hearth
