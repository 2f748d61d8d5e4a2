// What the weights of a head make it.
#include <algorithm>
#include <optional>

#include "vm/model.h"

namespace hearth::vm {

namespace {

bool same(const Row& a, const Row& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Weight& x, const Weight& y) { return x.slot == y.slot && x.factor == y.factor; });
}

// Compared by halves: factors of a file may be too large to double.
bool is_double(const Row& a, const Row& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Weight& x, const Weight& y) {
        return x.slot == y.slot && x.factor % 2 == 0 && x.factor / 2 == y.factor;
    });
}

std::int64_t factor_of(const Row& row, std::uint32_t slot) {
    for (const Weight& weight : row) {
        if (weight.slot == slot) return weight.factor;
    }
    return 0;
}

// Where slot `square` got its value: the neuron relu(key) * key, the last one before `layer` that writes it.
bool is_square_of(const Model& model, std::size_t layer, std::uint32_t square, const Row& key) {
    for (std::size_t l = layer; l-- > 0;) {
        for (const Neuron& neuron : model.layers[l].neurons) {
            const bool erases = factor_of(neuron.value, square) == -1;
            if (factor_of(neuron.out, square) != 1 || erases) continue;
            return same(neuron.gate, key) && same(neuron.value, key);
        }
    }
    return false;
}

}  // namespace

Classification classify_head(const Model& model, std::size_t layer, std::size_t index) {
    const Head& head = model.layers[layer].heads[index];
    if (head.out[0].empty() && head.out[1].empty()) return {HeadKind::Unused, "its result goes nowhere"};
    const Row position_key = {{model.position_slot, 2}};
    const Row position_square = {{model.square_slot, -1}};
    if (head.tie == Tie::Sum) {
        if (!head.key_x.empty() || !head.key_y.empty()) return {HeadKind::Search, "a sum over part of the entries"};
        return {HeadKind::RunningSum,
                "every key is (0, 0): all scores are equal, the result is the sum of all values so far"};
    }
    if (head.tie != Tie::Latest) return {HeadKind::Search, "averages"};
    const Row itself = {{model.position_slot, 1}};
    if (same(head.key_x, position_key) && same(head.key_y, position_square) && same(head.query_x, itself)) {
        return {HeadKind::PassThrough, "asks for its own position"};
    }
    if (same(head.key_x, position_key) && same(head.key_y, position_square)) {
        return {HeadKind::Gather,
                "score = q^2 - (q - s)^2 with integer q and s: the entry at s = q; the nearest one outside [0, t]"};
    }
    // key_y = kBlocked * (member - one) [- key squared]
    Row blocked;
    std::optional<std::uint32_t> square;
    for (const Weight& weight : head.key_y) {
        if (weight.factor == -1) {
            square = weight.slot;
        } else if (weight.factor % kBlocked == 0) {
            blocked.push_back({weight.slot, weight.factor / kBlocked});  // -1 where it takes no part
        } else {
            return {HeadKind::Search, "its key is of no known form"};
        }
    }
    // Entries take part where member = one - blocked is 1; `one` is what the query multiplies key_y with.
    if (head.query_y.size() != 1 || head.query_y[0].factor != 1)
        return {HeadKind::Search, "its query is of no known form"};
    Row member;
    bool has_one = false;
    for (const Weight& weight : blocked) {
        const bool is_one = weight.slot == head.query_y[0].slot;
        has_one |= is_one;
        if (weight.factor + (is_one ? 1 : 0) != 0) member.push_back({weight.slot, weight.factor + (is_one ? 1 : 0)});
    }
    if (!has_one) {
        member.push_back({head.query_y[0].slot, 1});
        std::sort(member.begin(), member.end(), [](const Weight& x, const Weight& y) { return x.slot < y.slot; });
    }
    if (!same(member, head.member)) return {HeadKind::Search, "its class is of no known form"};
    if (head.key_x.empty() && !square) {
        return {HeadKind::LatestOfClass,
                "scores are 0 for the class and the first token, -2^60 for all others; the latest of equals wins"};
    }
    if (square && is_double(head.key_x, head.key) && is_square_of(model, layer, *square, head.key)) {
        return {HeadKind::LatestByKey,
                "score = q^2 - (q - k)^2 with integer q and k, -2^60 more outside the class: k = q beats k != q by "
                "at least 1; the latest of equal keys wins; a key that was never written is not relied upon"};
    }
    return {HeadKind::Search, "its key is of no known form"};
}

std::string_view head_kind_name(HeadKind kind) {
    switch (kind) {
        case HeadKind::Unused: return "unused";
        case HeadKind::Search: return "search";
        case HeadKind::PassThrough: return "pass-through";
        case HeadKind::Gather: return "gather";
        case HeadKind::LatestOfClass: return "latest of class";
        case HeadKind::RunningSum: return "running sum";
        case HeadKind::LatestByKey: return "latest by key";
    }
    return "";
}

}  // namespace hearth::vm
