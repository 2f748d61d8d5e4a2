// Byte-pair merging shared by both BPE families: adjacent symbols are joined, best pair first, the leftmost of equals.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace hearth {

// How good it is to join two symbols; lower is sooner. The token is what they become, -1 when they do not join.
template <typename Priority>
struct Merge {
    Priority priority{};
    std::int32_t token = -1;
};

// A symbol: a token, or -1 for one that is none, over bytes [begin, begin + length) of the text.
struct Symbol {
    std::uint32_t begin = 0;
    std::uint32_t length = 0;
    std::int32_t token = -1;
};

// Joins the symbols in place until `merge_of(left, right)` joins no more. Work space is kept between calls.
template <typename Priority>
class Merger {
public:
    template <typename MergeOf>
    requires std::convertible_to<std::invoke_result_t<MergeOf, const Symbol&, const Symbol&>, Merge<Priority>>
    void run(std::vector<Symbol>& symbols, const MergeOf& merge_of) {
        if (symbols.size() <= kFew) {
            run_few(symbols, merge_of);
        } else {
            run_many(symbols, merge_of);
        }
    }

private:
    // Below this a scan for the best pair beats a heap.
    static constexpr std::size_t kFew = 24;

    template <typename MergeOf>
    void run_few(std::vector<Symbol>& symbols, const MergeOf& merge_of) {
        if (symbols.size() < 2) return;
        pairs_.clear();
        for (std::size_t i = 0; i + 1 < symbols.size(); ++i) pairs_.push_back(merge_of(symbols[i], symbols[i + 1]));
        for (;;) {
            std::size_t best = pairs_.size();
            for (std::size_t i = 0; i < pairs_.size(); ++i) {
                if (pairs_[i].token < 0) continue;
                if (best == pairs_.size() || pairs_[i].priority < pairs_[best].priority) best = i;
            }
            if (best == pairs_.size()) return;
            symbols[best].length += symbols[best + 1].length;
            symbols[best].token = pairs_[best].token;
            symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
            pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(best));
            if (best > 0) pairs_[best - 1] = merge_of(symbols[best - 1], symbols[best]);
            if (best < pairs_.size()) pairs_[best] = merge_of(symbols[best], symbols[best + 1]);
        }
    }

    struct Candidate {
        Priority priority;
        std::uint32_t left;
        std::uint32_t right;
        std::uint32_t length;  // of both together when it was found: another length means it is out of date
        std::int32_t token;
    };
    static bool later(const Candidate& a, const Candidate& b) {
        return a.priority > b.priority || (a.priority == b.priority && a.left > b.left);
    }
    static constexpr std::uint32_t kNone = 0xffffffff;

    template <typename MergeOf>
    void run_many(std::vector<Symbol>& symbols, const MergeOf& merge_of) {
        const std::uint32_t count = static_cast<std::uint32_t>(symbols.size());
        previous_.resize(count);
        next_.resize(count);
        heap_.clear();
        const auto consider = [&](std::uint32_t left, std::uint32_t right) {
            if (left == kNone || right == kNone) return;
            const Merge<Priority> merge = merge_of(symbols[left], symbols[right]);
            if (merge.token < 0) return;
            heap_.push_back({merge.priority, left, right, symbols[left].length + symbols[right].length, merge.token});
            std::push_heap(heap_.begin(), heap_.end(), later);
        };
        for (std::uint32_t i = 0; i < count; ++i) {
            previous_[i] = i == 0 ? kNone : i - 1;
            next_[i] = i + 1 == count ? kNone : i + 1;
        }
        for (std::uint32_t i = 0; i + 1 < count; ++i) consider(i, i + 1);
        while (!heap_.empty()) {
            std::pop_heap(heap_.begin(), heap_.end(), later);
            const Candidate candidate = heap_.back();
            heap_.pop_back();
            Symbol& left = symbols[candidate.left];
            Symbol& right = symbols[candidate.right];
            if (left.length == 0 || right.length == 0 || left.length + right.length != candidate.length) continue;
            left.length = candidate.length;
            left.token = candidate.token;
            right.length = 0;
            next_[candidate.left] = next_[candidate.right];
            if (next_[candidate.left] != kNone) previous_[next_[candidate.left]] = candidate.left;
            consider(previous_[candidate.left], candidate.left);
            consider(candidate.left, next_[candidate.left]);
        }
        std::erase_if(symbols, [](const Symbol& symbol) { return symbol.length == 0; });
    }

    std::vector<Merge<Priority>> pairs_;
    std::vector<Candidate> heap_;
    std::vector<std::uint32_t> previous_;
    std::vector<std::uint32_t> next_;
};

}  // namespace hearth
