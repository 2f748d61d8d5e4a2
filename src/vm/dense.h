// The same transformer the usual way: dense matrices of doubles, many positions at once, heads that need no search
// answered directly and the others by their keys. It runs our weights and upstream's model.bin; `Multiply` is where a
// BLAS goes in.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "vm/model.h"
#include "vm/model_file.h"

namespace hearth::vm {

struct DenseHead {
    enum class Kind : std::uint8_t {
        Unused,       // nobody reads it
        PassThrough,  // itself
        Gather,       // the entry at position q
        Latest,       // the latest entry with key q, or the nearest key
        Average,      // of all entries whose key_y is positive
        Sum,          // of all entries
    };
    Kind kind = Kind::Unused;
};

struct DenseLayer {
    std::vector<DenseHead> heads;
    std::vector<double> qkv;  // [3][2 heads][width]: queries, keys, values
    std::vector<double> out;  // [width][2 heads]
    std::size_t neurons = 0;
    std::vector<double> ffn_in;   // [2 neurons][width]: gates, then values
    std::vector<double> ffn_out;  // [width][neurons]
};

struct DenseModel {
    std::size_t width = 0, vocabulary = 0;
    std::vector<double> embedding, score;  // [vocabulary][width]
    std::vector<DenseLayer> layers;
    std::size_t position_slot = 0, square_slot = 0;
    bool has_clock = false;  // upstream: slot 1 rises with the position, for ties
};
DenseModel dense_model(const Model& model);
// Its erase lists are advice: the weights subtract what they name.
DenseModel dense_model(const UpstreamModel& model);

// c [rows][columns] = (or +=) a [rows][inner] times the transpose of b [columns][inner]
enum class Write : std::uint8_t { Set, Add };
using Multiply = void (*)(std::size_t rows, std::size_t columns, std::size_t inner, const double* a, const double* b,
                          double* c, Write write);
void multiply_plain(std::size_t rows, std::size_t columns, std::size_t inner, const double* a, const double* b,
                    double* c, Write write);

class DenseRunner {
public:
    // `model` must outlive it.
    explicit DenseRunner(const DenseModel& model, Multiply multiply = multiply_plain);

    // Takes the tokens at the next positions in, and says for each what the model expects after it.
    std::vector<std::uint32_t> feed(std::span<const std::uint32_t> tokens);

private:
    struct Pair {
        double first = 0, second = 0;
        std::uint64_t position = 0;
    };
    struct HeadState {
        std::vector<Pair> history;                // Gather
        std::map<std::int64_t, Pair> latest;      // Latest
        double first = 0, second = 0, count = 0;  // Average, Sum
    };
    void attend(const DenseLayer& layer, std::size_t layer_index, std::size_t rows);
    Pair look_up(DenseHead::Kind kind, HeadState& state, const double* query, const double* key, const Pair& own) const;

    const DenseModel& model_;
    Multiply multiply_;
    std::uint64_t position_ = 0;
    std::vector<std::vector<HeadState>> states_;
    std::vector<double> x_, qkv_, attended_, hidden_, gated_, scores_;
};

}  // namespace hearth::vm
