#include "vm/dense.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace hearth::vm {

namespace {

// Keys of blocked entries lie below: 2^60 is taken off ours, 10^30 off upstream's, and squares stay above.
constexpr double kBlockedBelow = -2.9e17;
constexpr double kLargest = 4.6e18;  // of what is rounded to an integer

void fill(std::vector<double>& matrix, std::size_t at, const Row& row) {
    for (const Weight& weight : row) matrix[at + weight.slot] = static_cast<double>(weight.factor);
}

DenseHead::Kind kind_of(const Head& head) {
    switch (head.kind) {
        case HeadKind::Unused: return DenseHead::Kind::Unused;
        case HeadKind::PassThrough: return DenseHead::Kind::PassThrough;
        case HeadKind::Gather: return DenseHead::Kind::Gather;
        default: return head.tie == Tie::Sum ? DenseHead::Kind::Sum : DenseHead::Kind::Latest;
    }
}

DenseLayer dense_layer(const Layer& layer, std::size_t width) {
    DenseLayer made;
    const std::size_t rows = 2 * layer.heads.size();
    made.qkv.resize(3 * rows * width);
    made.out.resize(width * rows);
    for (std::size_t h = 0; h < layer.heads.size(); ++h) {
        const Head& head = layer.heads[h];
        made.heads.push_back({kind_of(head)});
        const Row* parts[] = {&head.query_x, &head.query_y, &head.key_x, &head.key_y, &head.value[0], &head.value[1]};
        for (std::size_t i = 0; i < 6; ++i) fill(made.qkv, (i / 2 * rows + 2 * h + i % 2) * width, *parts[i]);
        for (std::size_t k = 0; k < 2; ++k) {
            for (const Weight& weight : head.out[k]) {
                made.out[weight.slot * rows + 2 * h + k] = static_cast<double>(weight.factor);
            }
        }
    }
    made.neurons = layer.neurons.size();
    made.ffn_in.resize(2 * made.neurons * width);
    made.ffn_out.resize(width * made.neurons);
    for (std::size_t n = 0; n < made.neurons; ++n) {
        fill(made.ffn_in, n * width, layer.neurons[n].gate);
        fill(made.ffn_in, (made.neurons + n) * width, layer.neurons[n].value);
        for (const Weight& weight : layer.neurons[n].out) {
            made.ffn_out[weight.slot * made.neurons + n] = static_cast<double>(weight.factor);
        }
    }
    return made;
}

bool all_zero(const double* first, std::size_t count, std::size_t stride) {
    for (std::size_t i = 0; i < count; ++i) {
        if (first[i * stride] != 0) return false;
    }
    return true;
}

// Type 1 passes through, 2 gathers; the others by how they resolve ties.
DenseHead::Kind upstream_kind(const UpstreamModel& model, std::size_t layer, std::size_t head) {
    const std::size_t width = model.width;
    const UpstreamModel::Layer& weights = model.layer[layer];
    const bool read = !all_zero(weights.out.data() + 2 * head, width, width) ||
                      !all_zero(weights.out.data() + 2 * head + 1, width, width);
    if (!read) return DenseHead::Kind::Unused;
    const std::size_t at = layer * model.heads + head;
    const std::int32_t type = model.head_type.empty() ? 0 : model.head_type[at];
    if (type == 1) return DenseHead::Kind::PassThrough;
    if (type == 2) return DenseHead::Kind::Gather;
    const bool latest = model.tie_break.empty() || model.tie_break[at] == 1;
    return latest ? DenseHead::Kind::Latest : DenseHead::Kind::Average;
}

}  // namespace

DenseModel dense_model(const Model& model) {
    DenseModel made;
    made.width = model.width;
    made.vocabulary = model.embedding.size();
    made.position_slot = model.position_slot;
    made.square_slot = model.square_slot;
    made.embedding.resize(made.vocabulary * made.width);
    made.score.resize(made.vocabulary * made.width);
    for (std::size_t t = 0; t < made.vocabulary; ++t) {
        fill(made.embedding, t * made.width, model.embedding[t]);
        fill(made.score, t * made.width, model.logits[t]);
    }
    for (const Layer& layer : model.layers) made.layers.push_back(dense_layer(layer, made.width));
    return made;
}

DenseModel dense_model(const UpstreamModel& model) {
    DenseModel made;
    made.width = model.width;
    made.vocabulary = model.vocabulary;
    made.embedding = model.embedding;
    made.score = model.head;
    made.position_slot = 0;
    made.square_slot = 2;
    made.has_clock = true;
    for (std::size_t l = 0; l < model.layers; ++l) {
        const UpstreamModel::Layer& from = model.layer[l];
        DenseLayer layer{{}, from.qkv, from.out, model.neurons, from.ffn_in, from.ffn_out};
        for (std::size_t h = 0; h < model.heads; ++h) layer.heads.push_back({upstream_kind(model, l, h)});
        made.layers.push_back(std::move(layer));
    }
    return made;
}

void multiply_plain(std::size_t rows, std::size_t columns, std::size_t inner, const double* a, const double* b,
                    double* c, Write write) {
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t k = 0; k < columns; ++k) {
            double sum = 0;
            for (std::size_t i = 0; i < inner; ++i) sum += a[r * inner + i] * b[k * inner + i];
            double& place = c[r * columns + k];
            place = write == Write::Add ? place + sum : sum;
        }
    }
}

DenseRunner::DenseRunner(const DenseModel& model, Multiply multiply) : model_(model), multiply_(multiply) {
    for (const DenseLayer& layer : model.layers) states_.emplace_back(layer.heads.size());
}

// Entries are integers k with score q^2 - (q - k)^2, so that the nearest key wins and the latest of equals.
DenseRunner::Pair DenseRunner::look_up(DenseHead::Kind kind, HeadState& state, const double* query, const double* key,
                                       const Pair& own) const {
    // Not the first token, which asks for nothing, nor what is no number.
    const bool asks = query[1] != 0 && !std::isnan(query[0] / query[1]);
    const double wanted = asks ? std::clamp(std::round(query[0] / query[1]), -kLargest, kLargest) : 0;
    switch (kind) {
        case DenseHead::Kind::Gather: {
            state.history.push_back(own);
            const double last = static_cast<double>(state.history.size() - 1);
            return asks ? state.history[static_cast<std::size_t>(std::clamp(wanted, 0.0, last))] : own;
        }
        case DenseHead::Kind::Latest: {
            if (key[1] > kBlockedBelow && std::abs(key[0]) < kLargest) state.latest[std::llround(key[0] / 2)] = own;
            if (!asks || state.latest.empty()) return own;
            const std::int64_t q = static_cast<std::int64_t>(wanted);
            const auto above = state.latest.lower_bound(q);
            if (above == state.latest.begin()) return above->second;
            const auto below = std::prev(above);
            if (above == state.latest.end()) return below->second;
            const std::int64_t up = above->first - q;
            const std::int64_t down = q - below->first;
            if (up != down) return up < down ? above->second : below->second;
            return above->second.position > below->second.position ? above->second : below->second;
        }
        case DenseHead::Kind::Average:
        case DenseHead::Kind::Sum: {
            if (kind == DenseHead::Kind::Sum || key[1] > 0) {
                state.first += own.first;
                state.second += own.second;
                state.count += 1;
            }
            if (kind == DenseHead::Kind::Sum) return {state.first, state.second};
            return state.count == 0 ? own : Pair{state.first / state.count, state.second / state.count};
        }
        default: return own;
    }
}

void DenseRunner::attend(const DenseLayer& layer, std::size_t layer_index, std::size_t rows) {
    const std::size_t pairs = 2 * layer.heads.size();
    attended_.assign(rows * pairs, 0);
    for (std::size_t h = 0; h < layer.heads.size(); ++h) {
        const DenseHead::Kind kind = layer.heads[h].kind;
        if (kind == DenseHead::Kind::Unused) continue;
        HeadState& state = states_[layer_index][h];
        for (std::size_t t = 0; t < rows; ++t) {
            const double* query = qkv_.data() + t * 3 * pairs + 2 * h;
            const Pair own{query[2 * pairs], query[2 * pairs + 1], position_ + t};
            const Pair found = look_up(kind, state, query, query + pairs, own);
            attended_[t * pairs + 2 * h] = found.first;
            attended_[t * pairs + 2 * h + 1] = found.second;
        }
    }
}

std::vector<std::uint32_t> DenseRunner::feed(std::span<const std::uint32_t> tokens) {
    const std::size_t rows = tokens.size();
    const std::size_t width = model_.width;
    x_.resize(rows * width);
    for (std::size_t t = 0; t < rows; ++t) {
        CHECK(tokens[t] < model_.vocabulary);
        double* x = x_.data() + t * width;
        std::copy_n(model_.embedding.data() + tokens[t] * width, width, x);
        const double position = static_cast<double>(position_ + t);
        x[model_.position_slot] += position;
        x[model_.square_slot] += position * position;
        if (model_.has_clock) x[1] += 1 / std::log(2.0) - 1 / std::log(position + 2);
    }
    for (std::size_t l = 0; l < model_.layers.size(); ++l) {
        const DenseLayer& layer = model_.layers[l];
        const std::size_t pairs = 2 * layer.heads.size();
        if (pairs != 0) {
            qkv_.resize(rows * 3 * pairs);
            multiply_(rows, 3 * pairs, width, x_.data(), layer.qkv.data(), qkv_.data(), Write::Set);
            attend(layer, l, rows);
            multiply_(rows, width, pairs, attended_.data(), layer.out.data(), x_.data(), Write::Add);
        }
        const std::size_t neurons = layer.neurons;
        if (neurons == 0) continue;
        hidden_.resize(rows * 2 * neurons);
        multiply_(rows, 2 * neurons, width, x_.data(), layer.ffn_in.data(), hidden_.data(), Write::Set);
        gated_.resize(rows * neurons);
        for (std::size_t t = 0; t < rows; ++t) {
            const double* hidden = hidden_.data() + t * 2 * neurons;
            for (std::size_t n = 0; n < neurons; ++n) {
                gated_[t * neurons + n] = hidden[n] > 0 ? hidden[n] * hidden[neurons + n] : 0;
            }
        }
        multiply_(rows, width, neurons, gated_.data(), layer.ffn_out.data(), x_.data(), Write::Add);
    }
    scores_.resize(rows * model_.vocabulary);
    multiply_(rows, model_.vocabulary, width, x_.data(), model_.score.data(), scores_.data(), Write::Set);
    std::vector<std::uint32_t> expected;
    for (std::size_t t = 0; t < rows; ++t) {
        const double* first = scores_.data() + t * model_.vocabulary;
        expected.push_back(static_cast<std::uint32_t>(std::max_element(first, first + model_.vocabulary) - first));
    }
    position_ += rows;
    return expected;
}

}  // namespace hearth::vm
