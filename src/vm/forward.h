// The forward pass, compiled from the weights: only what is not zero, slots renamed so that each number is written in
// one place, heads that share keys kept as one table, and the arg-max taken apart into kinds of token.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "vm/model.h"

namespace hearth::vm {

struct Span {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    bool empty() const { return begin == end; }
};

struct Term {
    std::uint32_t variable = 0;
    std::int64_t factor = 0;
};

// Where the entries of one or more look-ups are kept.
struct TableInfo {
    enum class Kind : std::uint8_t {
        Tokens,   // by position, values known from the token alone
        Recent,   // by position, a few tokens back: see kRing
        History,  // by position
        Class,    // the latest entry
        Sum,      // a running sum
        Keyed,    // the latest entry of every key
        Hull,     // by score
    };
    Kind kind = Kind::History;
    std::string name;           // of the first look-up that reads it
    std::vector<Span> columns;  // terms of the values kept
    Span key, member;
    Span key_x, key_y;  // Hull
    Tie tie = Tie::Latest;
    std::vector<std::vector<std::int64_t>> token_values;  // Tokens: [column][token]
};

struct Operation {
    enum class Kind : std::uint8_t { Neuron, Write, Read };
    Kind kind = Kind::Neuron;
    std::uint32_t table = 0;             // Write, Read
    Span gate, value;                    // Neuron
    Span query, query_y;                 // Read; query_y only for Hull
    Span out;                            // Neuron: terms added to
    std::vector<std::uint32_t> columns;  // Read
    std::vector<Span> outs;              // Read, one a column
};

// Tokens whose score is base + 2 v x - v^2 for v = 0, 1, ...: the greatest is at v = x.
struct ScoreGroup {
    Span base, at;
    std::vector<Token> tokens;
};

enum class HeadMode : std::uint8_t { Auto, Hull };

struct Forward {
    std::uint32_t variable_count = 0;
    std::uint32_t position = 0, square = 0;  // variables
    std::uint32_t fetch = 0;       // the operation that reads the opcode; the number of operations where there is none
    std::uint32_t cursor = 0;      // number of the current instruction
    std::vector<Interval> ranges;  // of variables
    std::vector<Term> terms;
    std::vector<Span> embedding;  // one a token
    std::vector<TableInfo> tables;
    std::vector<Operation> operations;
    std::vector<ScoreGroup> groups;
    std::vector<Span> logits;  // of every token, for the check of the groups

    std::span<const Term> of(Span span) const { return {terms.data() + span.begin, span.end - span.begin}; }
};

Forward compile_forward(const Model& model, HeadMode mode);

}  // namespace hearth::vm
