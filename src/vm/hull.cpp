#include "vm/hull.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace hearth::vm {

namespace {

__extension__ using Wide = __int128;

}  // namespace

// The line ends before m = x / y.
bool HullCache::Order::operator()(const Line& line, const Query& query) const {
    return line.end_below != 0 && Wide{line.end_above} * query.y < Wide{query.x} * line.end_below;
}

void HullCache::merge(Payload& payload, const std::int64_t* values) const {
    payload.latest = arrivals_;
    ++payload.count;
    payload.last.assign(values, values + columns_);
    payload.sum.resize(columns_);
    for (std::size_t i = 0; i < columns_; ++i) payload.sum[i] += values[i];
}

// Whether a line is nowhere the highest. Lines that touch where their neighbours meet stay: they tie there.
bool HullCache::needless(const Envelope& envelope, Envelope::const_iterator middle) {
    if (middle == envelope.begin() || std::next(middle) == envelope.end()) return false;
    const auto left = std::prev(middle);
    const auto right = std::next(middle);
    // Left and right meet at m = (hl - hr) / (sr - sl); there the middle must be lower than left.
    const Wide slopes = Wide{right->slope} - left->slope;
    return (Wide{middle->height} - left->height) * slopes +
               (Wide{middle->slope} - left->slope) * (Wide{left->height} - right->height) <
           0;
}

void HullCache::set_end(const Envelope& envelope, Envelope::const_iterator line) {
    const auto next = std::next(line);
    line->end_below = next == envelope.end() ? 0 : next->slope - line->slope;
    line->end_above = next == envelope.end() ? 0 : line->height - next->height;
}

void HullCache::insert_into(Envelope& envelope, std::int64_t slope, std::int64_t height,
                            const std::int64_t* values) const {
    Line fresh;
    fresh.slope = slope;
    fresh.height = height;
    const auto [line, is_new] = envelope.insert(std::move(fresh));
    if (!is_new) {
        if (height < line->height) return;
        if (height == line->height) return merge(line->payload, values);
        line->height = height;
        line->payload = {};
    } else if (needless(envelope, line)) {
        envelope.erase(line);
        return;
    }
    merge(line->payload, values);
    while (std::next(line) != envelope.end() && needless(envelope, std::next(line))) envelope.erase(std::next(line));
    while (line != envelope.begin() && needless(envelope, std::prev(line))) envelope.erase(std::prev(line));
    set_end(envelope, line);
    if (line != envelope.begin()) set_end(envelope, std::prev(line));
}

void HullCache::insert(std::int64_t key_x, std::int64_t key_y, const std::int64_t* values) {
    ++arrivals_;
    merge(all_, values);
    insert_into(upper_, key_x, key_y, values);
    insert_into(lower_, key_x, -key_y, values);
}

void HullCache::resolve(const std::vector<const Payload*>& best, std::int64_t* values) const {
    const Payload* latest = best[0];
    for (const Payload* payload : best) {
        if (payload->latest > latest->latest) latest = payload;
    }
    if (tie_ == Tie::Latest) {
        std::copy(latest->last.begin(), latest->last.end(), values);
        return;
    }
    std::int64_t count = 0;
    std::fill(values, values + columns_, 0);
    for (const Payload* payload : best) {
        count += static_cast<std::int64_t>(payload->count);
        for (std::size_t i = 0; i < columns_; ++i) values[i] += payload->sum[i];
    }
    if (tie_ == Tie::Average) {
        for (std::size_t i = 0; i < columns_; ++i) values[i] /= count;
    }
}

void HullCache::find(std::int64_t query_x, std::int64_t query_y, std::int64_t* values) const {
    CHECK(arrivals_ > 0);
    if (query_x == 0 && query_y == 0) return resolve({&all_}, values);
    const Envelope& envelope = query_y >= 0 ? upper_ : lower_;
    // Without a y component only the steepest line counts.
    if (query_y == 0) {
        return resolve({query_x > 0 ? &envelope.rbegin()->payload : &envelope.begin()->payload}, values);
    }
    const Query query{query_x, query_y < 0 ? -query_y : query_y};
    const auto score = [&](const Line& line) { return Wide{query.x} * line.slope + Wide{query.y} * line.height; };
    auto line = envelope.lower_bound(query);
    std::vector<const Payload*> best = {&line->payload};
    const Wide greatest = score(*line);
    for (++line; line != envelope.end() && score(*line) == greatest; ++line) best.push_back(&line->payload);
    resolve(best, values);
}

}  // namespace hearth::vm
