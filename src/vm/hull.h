// The general head: the greatest of q_x k_x + q_y k_y over all entries, found on a convex hull in O(log n). Exact: keys
// are integers and products are taken in 128 bits.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "vm/expression.h"

namespace hearth::vm {

class HullCache {
public:
    HullCache(std::size_t columns, Tie tie) : columns_(columns), tie_(tie) {}

    void insert(std::int64_t key_x, std::int64_t key_y, const std::int64_t* values);
    // Adds nothing; gives the columns of the winner into `values`. The first entry must have been inserted.
    void find(std::int64_t query_x, std::int64_t query_y, std::int64_t* values) const;
    std::size_t size() const { return upper_.size() + lower_.size(); }

private:
    struct Payload {
        std::uint64_t latest = 0;
        std::uint64_t count = 0;
        std::vector<std::int64_t> last, sum;
    };
    struct Query {
        std::int64_t x, y;  // y > 0
    };
    // The line key_x * m + key_y; it is the highest up to m = end_above / end_below, where the next one takes over.
    struct Line {
        std::int64_t slope = 0;
        mutable std::int64_t height = 0;
        mutable std::int64_t end_above = 0;
        mutable std::int64_t end_below = 0;  // 0: no end
        mutable Payload payload;
    };
    struct Order {
        using is_transparent = void;
        bool operator()(const Line& a, const Line& b) const { return a.slope < b.slope; }
        bool operator()(const Line& line, const Query& query) const;
    };
    using Envelope = std::set<Line, Order>;

    void merge(Payload& payload, const std::int64_t* values) const;
    void insert_into(Envelope& envelope, std::int64_t slope, std::int64_t height, const std::int64_t* values) const;
    static bool needless(const Envelope& envelope, Envelope::const_iterator middle);
    static void set_end(const Envelope& envelope, Envelope::const_iterator line);
    void resolve(const std::vector<const Payload*>& best, std::int64_t* values) const;

    std::size_t columns_;
    Tie tie_;
    std::uint64_t arrivals_ = 0;
    Envelope upper_;  // for query_y > 0
    Envelope lower_;  // for query_y < 0: heights negated
    Payload all_;     // for the query (0, 0)
};

}  // namespace hearth::vm
