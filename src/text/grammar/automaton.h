// The grammar as a pushdown automaton over bytes. Each rule is a finite automaton whose edges are bytes or calls of
// rules; a call always consumes something (where a rule may be empty, the caller has a way around it), so closures end
// as soon as there is no left recursion.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "text/grammar/source.h"

namespace hearth::grammar {

using NodeId = std::uint32_t;

struct ByteEdge {
    std::uint8_t first = 0;
    std::uint8_t last = 0;
    NodeId target = 0;
};

struct CallEdge {
    NodeId start = 0;         // of the called rule
    NodeId back = 0;          // where it returns to
    std::uint32_t count = 0;  // with which count, when `back` is a repetition
};

struct Node {
    std::uint32_t first_byte_edge = 0;
    std::uint32_t byte_edge_count = 0;
    std::uint32_t first_call = 0;
    std::uint32_t call_count = 0;
    bool accept = false;
    bool is_repeat = false;
    // A repetition is reached with the number of bodies already read: it may call the body again or go on to `next`.
    NodeId body = 0;
    NodeId next = 0;
    std::uint32_t min = 0;
    std::uint32_t max = 0;

    // Nothing may follow within the rule.
    bool is_final() const { return accept && byte_edge_count == 0 && call_count == 0 && !is_repeat; }
};

struct Automaton {
    std::vector<Node> nodes;
    std::vector<ByteEdge> byte_edges;
    std::vector<CallEdge> calls;
    NodeId start = 0;
    bool may_be_empty = false;
    // Bytes that no edge tells apart share a class.
    std::array<std::uint8_t, 256> class_of{};
    std::uint32_t class_count = 0;
    std::array<std::uint8_t, 256> byte_of_class{};
};

// An error names the rule: left recursion, a text that can never end, too large.
Result<Automaton> compile(const Source& source);

}  // namespace hearth::grammar
