// The weights: a transformer without norms or biases, with two-dimensional hard-max heads and gated neurons, kept as
// sparse rows of integers. x += out * attention(x), then x += out * (relu(gate x) * (value x)), layer by layer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "vm/expression.h"

namespace hearth::vm {

struct Weight {
    std::uint32_t slot = 0;
    std::int64_t factor = 0;
};
using Row = std::vector<Weight>;

// What a head's arg-max comes down to, so that it need not be searched for. `proof` says why.
enum class HeadKind : std::uint8_t {
    Unused,       // nobody reads its result
    Search,       // the general case: a convex hull
    PassThrough,  // always itself
    Gather,       // the entry at the position asked for
    LatestOfClass,
    RunningSum,
    LatestByKey,
};
std::string_view head_kind_name(HeadKind kind);

// score(t, s) = query_x(t) key_x(s) + query_y(t) key_y(s); the result is value(s) of the greatest, ties as `tie` says.
struct Head {
    std::string name;
    Row query_x, query_y, key_x, key_y;
    std::array<Row, 2> value;
    std::array<Row, 2> out;  // slots the results are added to
    Tie tie = Tie::Latest;
    HeadKind kind = HeadKind::Search;
    std::string proof;
    Row key;                 // of LatestByKey: the integer key itself
    Row member;              // of LatestOfClass and LatestByKey: 1 where the entry takes part
    std::int32_t group = 0;  // heads of one look-up share queries and keys
};

struct Neuron {
    Row gate, value, out;
    std::string name;
};

struct Layer {
    std::vector<Head> heads;
    std::vector<Neuron> neurons;
};

struct SlotUse {
    std::string name;
    int first_half = 0;  // half layers: 2 l is attention of layer l, 2 l + 1 its neurons; -1: the embedding
    int last_half = 0;
    std::uint32_t slot = 0;
    Interval range;
};

struct Model {
    std::uint32_t width = 0;         // D, number of slots
    std::uint32_t head_count = 0;    // H, a layer
    std::uint32_t neuron_count = 0;  // F, a layer
    std::vector<Row> embedding;      // one a token
    std::uint32_t position_slot = 0;
    std::uint32_t square_slot = 0;
    std::vector<Layer> layers;
    std::vector<Row> logits;  // one a token
    std::vector<SlotUse> uses;
};

// What a head's weights make it; `proof` says why. Search where nothing simpler can be shown.
struct Classification {
    HeadKind kind = HeadKind::Search;
    std::string proof;
};
Classification classify_head(const Model& model, std::size_t layer, std::size_t head);

// A list schedule: every look-up and product in the first half layer where all it reads is there; slots are reused.
// The same graph always gives the same model.
Model schedule(const Graph& graph);

}  // namespace hearth::vm
