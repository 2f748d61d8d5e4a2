// Aho and Corasick: the state is the longest end of the text so far that begins a stop string.
#include "text/stop_strings.h"

#include <algorithm>
#include <utility>

namespace hearth {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
    std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
    nodes_.emplace_back();
    for (const std::string& stop : stops_) {
        State at = 0;
        for (const char byte : stop) {
            const State known = child(at, static_cast<unsigned char>(byte));
            at = known != 0 ? known : add_child(at, static_cast<unsigned char>(byte));
        }
        nodes_[at].match_length = nodes_[at].depth;
    }
    // Breadth first, so that what is shorter is finished before it is needed.
    std::vector<State> order = {0};
    for (std::size_t i = 0; i < order.size(); ++i) {
        for (const auto& [byte, to] : nodes_[order[i]].next) {
            order.push_back(to);
            if (order[i] != 0) nodes_[to].fallback = step(nodes_[order[i]].fallback, byte);
            if (nodes_[to].match_length == 0) nodes_[to].match_length = nodes_[nodes_[to].fallback].match_length;
        }
    }
}

StopStrings::State StopStrings::child(State at, unsigned char byte) const {
    const auto& next = nodes_[at].next;
    const auto place = std::lower_bound(next.begin(), next.end(), std::pair<unsigned char, State>(byte, 0));
    return place != next.end() && place->first == byte ? place->second : 0;
}

StopStrings::State StopStrings::add_child(State at, unsigned char byte) {
    const State added = static_cast<State>(nodes_.size());
    nodes_.emplace_back();
    nodes_[added].depth = nodes_[at].depth + 1;
    auto& next = nodes_[at].next;
    next.insert(std::lower_bound(next.begin(), next.end(), std::pair<unsigned char, State>(byte, 0)), {byte, added});
    return added;
}

StopStrings::State StopStrings::step(State at, unsigned char byte) const {
    for (;; at = nodes_[at].fallback) {
        const State to = child(at, byte);
        if (to != 0 || at == 0) return to;
    }
}

StopStrings::Scan StopStrings::scan(State state, std::string_view text) const {
    if (state >= nodes_.size()) state = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        state = step(state, static_cast<unsigned char>(text[i]));
        const std::size_t length = nodes_[state].match_length;
        if (length == 0) continue;
        const std::size_t end = i + 1;
        return {.state = state,
                .stopped = true,
                .keep = end > length ? end - length : 0,
                .withdrawn = length > end ? length - end : 0,
                .held = 0};
    }
    return {.state = state, .stopped = false, .keep = text.size(), .withdrawn = 0, .held = nodes_[state].depth};
}

}  // namespace hearth
