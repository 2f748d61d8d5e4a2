// Finds the first of several stop strings in a stream of text, however it is cut into pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {

// An Aho-Corasick automaton over bytes; immutable after construction, shared by all who use the same stops.
class StopStrings {
public:
    using State = std::uint32_t;  // 0 is the beginning

    explicit StopStrings(std::vector<std::string> stops);  // empty strings are ignored

    struct Scan {
        State state;            // after the text
        bool stopped;           // a stop string was completed
        std::size_t keep;       // stopped: bytes of `text` before the stop string (0 when it began in an earlier piece)
        std::size_t withdrawn;  // stopped: bytes already handed in earlier pieces that belong to the stop string
        std::size_t held;       // not stopped: bytes at the end that may yet become a stop string
    };
    Scan scan(State state, std::string_view text) const;
    bool empty() const { return stops_.empty(); }

private:
    State child(State at, unsigned char byte) const;  // 0: none
    State add_child(State at, unsigned char byte);
    State step(State at, unsigned char byte) const;

    std::vector<std::string> stops_;
    struct Node {
        std::vector<std::pair<unsigned char, State>> next;
        State fallback = 0;
        std::uint32_t depth = 0;
        std::uint32_t match_length = 0;  // longest stop string ending here
    };
    std::vector<Node> nodes_;
};

}  // namespace hearth
