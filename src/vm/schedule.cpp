#include <algorithm>
#include <set>

#include "base/check.h"
#include "vm/model.h"

namespace hearth::vm {

namespace {

constexpr int kEmbedding = -1;

// Decides when every dimension is computed and where it is kept.
class Scheduler {
public:
    explicit Scheduler(const Graph& graph) : graph_(graph), dims_(graph.dims()) {}
    Model run();

private:
    void find_needed();
    void need(const Linear& row);
    void place_in_time();
    int ready(const Linear& row) const;
    void find_reads();
    void read_at(const Linear& row, int half);
    void colour();
    void emit();
    void emit_copies(Dim dim);
    Row row(const Linear& number) const;
    Row routes(Dim dim) const;
    Head head(const LookUp& look_up, int group, std::size_t first_value) const;

    const Graph& graph_;
    const std::vector<DimNode>& dims_;
    Model model_;
    std::vector<bool> needed_;      // contributes to some logit
    std::vector<bool> needs_slot_;  // some row reads it
    std::vector<Linear> flat_;      // of sums: without sums inside
    std::vector<int> half_;         // of products and results: when computed
    std::vector<int> ready_;        // first half layer that may read it
    std::vector<int> copy_half_;    // of sums with inputs in them: when those are copied
    std::vector<int> first_write_, last_read_;
    std::vector<std::int32_t> slot_;
    std::vector<std::vector<std::pair<Dim, std::int64_t>>> feeds_;  // product or result -> sums it is part of
    std::vector<std::pair<int, std::uint32_t>> erasures_;           // half, slot
    int last_half_ = 0;
};

void Scheduler::need(const Linear& row) {
    for (const auto& [dim, factor] : row.terms()) {
        const std::size_t d = static_cast<std::size_t>(dim);
        if (needed_[d]) continue;
        needed_[d] = true;
        const DimNode& node = dims_[d];
        if (node.kind == DimKind::Product) need(node.gate);
        if (node.kind == DimKind::Product || node.kind == DimKind::Sum) need(node.value);
        if (node.kind == DimKind::Result) {
            const LookUp& look_up = graph_.look_ups()[static_cast<std::size_t>(node.look_up)];
            need(look_up.query);
            need(look_up.key);
            need(look_up.key_square);
            need(look_up.blocked);
            for (const Linear& value : look_up.values) need(value);
        }
    }
}

void Scheduler::find_needed() {
    needed_.assign(dims_.size(), false);
    for (const Linear& logit : graph_.logits()) need(logit);
    need(graph_.one() + graph_.position() + Linear(Graph::kPositionSquare));
    // Dimensions are made in the order they depend on each other, so one pass flattens all sums.
    flat_.resize(dims_.size());
    feeds_.resize(dims_.size());
    for (std::size_t d = 0; d < dims_.size(); ++d) {
        if (dims_[d].kind != DimKind::Sum) {
            flat_[d] = Linear(static_cast<Dim>(d));
            continue;
        }
        for (const auto& [dim, factor] : dims_[d].value.terms()) {
            flat_[d] += factor * flat_[static_cast<std::size_t>(dim)];
        }
    }
}

int Scheduler::ready(const Linear& row) const {
    int half = 0;
    for (const auto& [dim, factor] : row.terms()) half = std::max(half, ready_[static_cast<std::size_t>(dim)]);
    return half;
}

void Scheduler::place_in_time() {
    half_.assign(dims_.size(), kEmbedding);
    ready_.assign(dims_.size(), 0);
    copy_half_.assign(dims_.size(), kEmbedding);
    std::vector<int> look_up_half(graph_.look_ups().size(), kEmbedding);
    for (std::size_t d = 0; d < dims_.size(); ++d) {
        const DimNode& node = dims_[d];
        if (!needed_[d] || node.kind == DimKind::Input) continue;
        if (node.kind == DimKind::Product) {
            half_[d] = std::max(ready(node.gate), ready(node.value)) | 1;
            ready_[d] = half_[d] + 1;
        } else if (node.kind == DimKind::Result) {
            int& half = look_up_half[static_cast<std::size_t>(node.look_up)];
            if (half == kEmbedding) {
                const LookUp& l = graph_.look_ups()[static_cast<std::size_t>(node.look_up)];
                half = std::max({ready(l.query), ready(l.key), ready(l.key_square), ready(l.blocked)});
                for (const Linear& value : l.values) half = std::max(half, ready(value));
                half = (half + 1) / 2 * 2;
            }
            half_[d] = half;
            ready_[d] = half + 1;
        } else {
            bool copies = false;
            for (const auto& [dim, factor] : flat_[d].terms()) {
                ready_[d] = std::max(ready_[d], ready_[static_cast<std::size_t>(dim)]);
                copies |= dims_[static_cast<std::size_t>(dim)].kind == DimKind::Input;
            }
            if (copies) {
                // Inputs go in with a neuron of their own, as late as the rest allows.
                copy_half_[d] = std::max(1, ready_[d] % 2 == 0 ? ready_[d] - 1 : ready_[d] - 2);
                ready_[d] = std::max(ready_[d], copy_half_[d] + 1);
            }
        }
        last_half_ = std::max(last_half_, ready_[d]);
    }
}

void Scheduler::read_at(const Linear& row, int half) {
    for (const auto& [dim, factor] : row.terms()) {
        const std::size_t d = static_cast<std::size_t>(dim);
        needs_slot_[d] = true;
        last_read_[d] = std::max(last_read_[d], half);
    }
}

void Scheduler::find_reads() {
    needs_slot_.assign(dims_.size(), false);
    last_read_.assign(dims_.size(), kEmbedding);
    const int end = last_half_ + 2;
    read_at(graph_.one() + graph_.position() + Linear(Graph::kPositionSquare), end);
    for (const Linear& logit : graph_.logits()) read_at(logit, end);
    for (std::size_t d = 0; d < dims_.size(); ++d) {
        const DimNode& node = dims_[d];
        if (!needed_[d]) continue;
        if (node.kind == DimKind::Product) {
            read_at(node.gate, half_[d]);
            read_at(node.value, half_[d]);
        } else if (node.kind == DimKind::Result) {
            const LookUp& l = graph_.look_ups()[static_cast<std::size_t>(node.look_up)];
            for (const Linear* part : {&l.query, &l.key, &l.key_square, &l.blocked}) read_at(*part, half_[d]);
            for (const Linear& value : l.values) read_at(value, half_[d]);
        }
    }
    // Sums that are read take what feeds them; inputs in them are read by the copying neuron.
    first_write_.assign(dims_.size(), kEmbedding);
    for (std::size_t d = 0; d < dims_.size(); ++d) {
        if (!needed_[d]) continue;
        if (dims_[d].kind != DimKind::Sum) {
            first_write_[d] = half_[d];
            continue;
        }
        if (!needs_slot_[d]) continue;
        int first = last_half_;
        for (const auto& [dim, factor] : flat_[d].terms()) {
            const std::size_t part = static_cast<std::size_t>(dim);
            if (dims_[part].kind == DimKind::Input) {
                read_at(Linear(dim), copy_half_[d]);
                first = std::min(first, copy_half_[d]);
            } else {
                feeds_[part].emplace_back(static_cast<Dim>(d), factor);
                first = std::min(first, half_[part]);
            }
        }
        first_write_[d] = first;
    }
}

// Interval colouring: a slot is taken by the first dimension that begins after the last one there was erased.
void Scheduler::colour() {
    slot_.assign(dims_.size(), -1);
    std::vector<std::vector<Dim>> born(static_cast<std::size_t>(last_half_) + 2);
    std::vector<std::vector<Dim>> dies(static_cast<std::size_t>(last_half_) + 4);
    for (std::size_t d = 0; d < dims_.size(); ++d) {
        if (!needed_[d] || !needs_slot_[d]) continue;
        born[static_cast<std::size_t>(first_write_[d] + 1)].push_back(static_cast<Dim>(d));
        if (last_read_[d] <= last_half_)
            dies[static_cast<std::size_t>(last_read_[d] | 1)].push_back(static_cast<Dim>(d));
    }
    std::set<std::uint32_t> free;
    for (int half = kEmbedding; half <= last_half_; ++half) {
        if (half % 2 == 1) {
            for (const Dim dim : dies[static_cast<std::size_t>(half)]) {
                const std::uint32_t slot = static_cast<std::uint32_t>(slot_[static_cast<std::size_t>(dim)]);
                // Nothing is erased that is never used again.
                if (half >= last_half_ - 1) continue;
                erasures_.emplace_back(half, slot);
                free.insert(slot);
            }
        }
        for (const Dim dim : born[static_cast<std::size_t>(half + 1)]) {
            std::uint32_t slot = model_.width;
            if (free.empty()) {
                ++model_.width;
            } else {
                slot = *free.begin();
                free.erase(free.begin());
            }
            slot_[static_cast<std::size_t>(dim)] = static_cast<std::int32_t>(slot);
            model_.uses.push_back({dims_[static_cast<std::size_t>(dim)].name, half,
                                   std::min(last_read_[static_cast<std::size_t>(dim)], last_half_), slot,
                                   dims_[static_cast<std::size_t>(dim)].range});
        }
    }
}

Row Scheduler::row(const Linear& number) const {
    Row result;
    for (const auto& [dim, factor] : number.terms()) {
        const std::int32_t slot = slot_[static_cast<std::size_t>(dim)];
        CHECK(slot >= 0);
        result.push_back({static_cast<std::uint32_t>(slot), factor});
    }
    std::sort(result.begin(), result.end(), [](const Weight& a, const Weight& b) { return a.slot < b.slot; });
    return result;
}

Row Scheduler::routes(Dim dim) const {
    Row result;
    const std::size_t d = static_cast<std::size_t>(dim);
    if (slot_[d] >= 0) result.push_back({static_cast<std::uint32_t>(slot_[d]), 1});
    for (const auto& [sum, factor] : feeds_[d]) {
        result.push_back({static_cast<std::uint32_t>(slot_[static_cast<std::size_t>(sum)]), factor});
    }
    std::sort(result.begin(), result.end(), [](const Weight& a, const Weight& b) { return a.slot < b.slot; });
    return result;
}

Head Scheduler::head(const LookUp& l, int group, std::size_t first_value) const {
    Head head;
    head.name = l.name;
    head.group = group;
    head.tie = l.tie;
    head.query_x = row(l.query);
    head.query_y = row(graph_.one());
    head.key_x = row(2 * l.key);
    head.key_y = row(-l.key_square - kBlocked * l.blocked);
    head.key = row(l.key);
    head.member = row(graph_.one() - l.blocked);
    for (std::size_t i = 0; i < 2 && first_value + i < l.values.size(); ++i) {
        head.value[i] = row(l.values[first_value + i]);
        head.out[i] = routes(l.results[first_value + i]);
    }
    return head;
}

void Scheduler::emit_copies(Dim dim) {
    const std::size_t d = static_cast<std::size_t>(dim);
    if (dims_[d].kind != DimKind::Sum || slot_[d] < 0 || copy_half_[d] == kEmbedding) return;
    Linear inputs;
    for (const auto& [part, factor] : flat_[d].terms()) {
        if (dims_[static_cast<std::size_t>(part)].kind == DimKind::Input) inputs.add(part, factor);
    }
    Neuron copy{row(graph_.one()), row(inputs), {{static_cast<std::uint32_t>(slot_[d]), 1}}, dims_[d].name + " copy"};
    model_.layers[static_cast<std::size_t>(copy_half_[d] / 2)].neurons.push_back(std::move(copy));
}

void Scheduler::emit() {
    model_.layers.resize(static_cast<std::size_t>(last_half_ / 2) + 1);
    std::vector<bool> done(graph_.look_ups().size(), false);
    for (std::size_t d = 0; d < dims_.size(); ++d) {
        const DimNode& node = dims_[d];
        if (!needed_[d]) continue;
        emit_copies(static_cast<Dim>(d));
        if (node.kind == DimKind::Product) {
            Neuron neuron{row(node.gate), row(node.value), routes(static_cast<Dim>(d)), node.name};
            model_.layers[static_cast<std::size_t>(half_[d] / 2)].neurons.push_back(std::move(neuron));
        } else if (node.kind == DimKind::Result && !done[static_cast<std::size_t>(node.look_up)]) {
            done[static_cast<std::size_t>(node.look_up)] = true;
            const LookUp& l = graph_.look_ups()[static_cast<std::size_t>(node.look_up)];
            for (std::size_t first = 0; first < l.values.size(); first += 2) {
                model_.layers[static_cast<std::size_t>(half_[d] / 2)].heads.push_back(head(l, node.look_up, first));
            }
        }
    }
    for (const auto& [half, slot] : erasures_) {
        Neuron erase{row(graph_.one()), {{slot, -1}}, {{slot, 1}}, "erase"};
        model_.layers[static_cast<std::size_t>(half / 2)].neurons.push_back(std::move(erase));
    }
    while (!model_.layers.empty() && model_.layers.back().heads.empty() && model_.layers.back().neurons.empty()) {
        model_.layers.pop_back();
    }
    for (Token t = 0; t < token::kCount; ++t) {
        Row input;
        for (std::size_t d = 0; d < dims_.size(); ++d) {
            const bool by_position = d == Graph::kPosition || d == Graph::kPositionSquare;
            if (dims_[d].kind != DimKind::Input || by_position || slot_[d] < 0) continue;
            const std::int64_t value = graph_.table(static_cast<Dim>(d))[t];
            if (value != 0) input.push_back({static_cast<std::uint32_t>(slot_[d]), value});
        }
        model_.embedding.push_back(std::move(input));
        model_.logits.push_back(row(graph_.logits()[t]));
    }
    model_.position_slot = static_cast<std::uint32_t>(slot_[Graph::kPosition]);
    model_.square_slot = static_cast<std::uint32_t>(slot_[Graph::kPositionSquare]);
    for (const Layer& layer : model_.layers) {
        model_.head_count = std::max(model_.head_count, static_cast<std::uint32_t>(layer.heads.size()));
        model_.neuron_count = std::max(model_.neuron_count, static_cast<std::uint32_t>(layer.neurons.size()));
    }
}

Model Scheduler::run() {
    find_needed();
    place_in_time();
    find_reads();
    colour();
    emit();
    for (std::size_t l = 0; l < model_.layers.size(); ++l) {
        for (std::size_t i = 0; i < model_.layers[l].heads.size(); ++i) {
            Classification found = classify_head(model_, l, i);
            model_.layers[l].heads[i].kind = found.kind;
            model_.layers[l].heads[i].proof = std::move(found.proof);
        }
    }
    return std::move(model_);
}

}  // namespace

Model schedule(const Graph& graph) {
    return Scheduler(graph).run();
}

}  // namespace hearth::vm
