#include "vm/forward.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/check.h"
#include "vm/machine.h"

namespace hearth::vm {

namespace {

using Terms = std::vector<std::pair<std::uint32_t, std::int64_t>>;

class ForwardCompiler {
public:
    ForwardCompiler(const Model& model, HeadMode mode) : model_(model), mode_(mode) {}
    Forward run();

private:
    Span keep(const Terms& terms);
    Terms rename(const Row& row) const;
    Span row(const Row& weights) { return keep(rename(weights)); }
    std::uint32_t fresh();
    bool is_embedding_only(const Terms& terms) const;
    std::optional<std::int64_t> steps_back(const Row& query) const;
    void heads(const Layer& layer, std::uint32_t index);
    void neurons(const Layer& layer);
    std::uint32_t table_of(const Head& head, std::span<const Terms> values, std::uint32_t layer);
    std::uint32_t column_of(std::uint32_t table, const Terms& value);
    void groups();
    void take_ranges(int half);

    const Model& model_;
    HeadMode mode_;
    Forward out_;
    std::map<Terms, Span> kept_;
    std::vector<std::uint32_t> current_;  // variable a slot stands for now
    std::vector<bool> from_embedding_;    // of variables: nothing but the embedding writes it
    std::uint32_t one_ = 0;
    std::optional<std::uint32_t> fetch_;
    struct TableKey {
        TableInfo::Kind kind;
        Terms key, member;
        std::uint32_t reach;
        Tie tie;
        std::uint32_t layer;  // entries are made where a layer reads them
        auto operator<=>(const TableKey&) const = default;
    };
    std::map<TableKey, std::uint32_t> tables_;
    std::vector<std::map<Terms, std::uint32_t>> columns_;
};

std::uint32_t ForwardCompiler::fresh() {
    from_embedding_.push_back(false);
    return out_.variable_count++;
}

Span ForwardCompiler::keep(const Terms& terms) {
    const auto [found, is_new] = kept_.try_emplace(terms);
    if (is_new) {
        found->second.begin = static_cast<std::uint32_t>(out_.terms.size());
        for (const auto& [variable, factor] : terms) out_.terms.push_back({variable, factor});
        found->second.end = static_cast<std::uint32_t>(out_.terms.size());
    }
    return found->second;
}

Terms ForwardCompiler::rename(const Row& weights) const {
    Terms terms;
    for (const Weight& weight : weights) terms.emplace_back(current_[weight.slot], weight.factor);
    std::sort(terms.begin(), terms.end());
    return terms;
}

bool ForwardCompiler::is_embedding_only(const Terms& terms) const {
    return std::all_of(terms.begin(), terms.end(), [&](const auto& term) { return from_embedding_[term.first]; });
}

// c when the query is position - c.
std::optional<std::int64_t> ForwardCompiler::steps_back(const Row& query) const {
    std::int64_t back = 0;
    bool position = false;
    for (const Weight& weight : query) {
        if (weight.slot == model_.position_slot && weight.factor == 1) {
            position = true;
        } else if (current_[weight.slot] == one_) {
            back = -weight.factor;
        } else {
            return std::nullopt;
        }
    }
    if (!position || back < 0 || back > 16) return std::nullopt;
    return back;
}

std::uint32_t ForwardCompiler::table_of(const Head& head, std::span<const Terms> values, std::uint32_t layer) {
    TableKey key{TableInfo::Kind::Hull, rename(head.key), rename(head.member), 0, head.tie, layer};
    if (mode_ == HeadMode::Auto) {
        switch (head.kind) {
            case HeadKind::PassThrough:
            case HeadKind::Gather: {
                key.kind = TableInfo::Kind::History;
                if (std::all_of(values.begin(), values.end(), [&](const Terms& v) { return is_embedding_only(v); })) {
                    key.kind = TableInfo::Kind::Tokens;
                    key.layer = 0;
                } else if (const std::optional<std::int64_t> back = steps_back(head.query_x)) {
                    key.kind = TableInfo::Kind::Recent;
                    key.reach = static_cast<std::uint32_t>(*back);
                }
                break;
            }
            case HeadKind::LatestOfClass: key.kind = TableInfo::Kind::Class; break;
            case HeadKind::RunningSum: key.kind = TableInfo::Kind::Sum; break;
            case HeadKind::LatestByKey: key.kind = TableInfo::Kind::Keyed; break;
            default: break;
        }
    }
    const auto [found, is_new] = tables_.try_emplace(key, static_cast<std::uint32_t>(out_.tables.size()));
    if (is_new) {
        TableInfo info;
        info.kind = key.kind;
        info.name = head.name;
        info.key = keep(key.key);
        info.member = keep(key.member);
        info.key_x = row(head.key_x);
        info.key_y = row(head.key_y);
        info.tie = head.tie;
        out_.tables.push_back(info);
        columns_.emplace_back();
        Operation write;
        write.kind = Operation::Kind::Write;
        write.table = found->second;
        out_.operations.push_back(std::move(write));
    }
    return found->second;
}

std::uint32_t ForwardCompiler::column_of(std::uint32_t table, const Terms& value) {
    TableInfo& info = out_.tables[table];
    const auto [found, is_new] = columns_[table].try_emplace(value, static_cast<std::uint32_t>(info.columns.size()));
    if (!is_new) return found->second;
    info.columns.push_back(keep(value));
    if (info.kind == TableInfo::Kind::Tokens) {
        std::vector<std::int64_t> of_token;
        for (const Span& embedding : out_.embedding) {
            std::int64_t sum = 0;
            for (const auto& [variable, factor] : value) {
                for (const Term& term : out_.of(embedding)) {
                    if (term.variable == variable) sum += factor * term.factor;
                }
            }
            of_token.push_back(sum);
        }
        info.token_values.push_back(std::move(of_token));
    }
    return found->second;
}

void ForwardCompiler::heads(const Layer& layer, std::uint32_t index) {
    for (std::size_t first = 0; first < layer.heads.size();) {
        std::size_t end = first;
        while (end < layer.heads.size() && layer.heads[end].group == layer.heads[first].group) ++end;
        const Head& head = layer.heads[first];
        std::vector<Terms> values;
        std::vector<Span> outs;
        for (std::size_t i = first; i < end; ++i) {
            for (std::size_t k = 0; k < 2; ++k) {
                if (layer.heads[i].out[k].empty()) continue;
                values.push_back(rename(layer.heads[i].value[k]));
                outs.push_back(row(layer.heads[i].out[k]));
            }
        }
        Operation read;
        read.kind = Operation::Kind::Read;
        read.table = table_of(head, values, index);
        read.query = row(head.query_x);
        read.query_y = row(head.query_y);
        for (const Terms& value : values) read.columns.push_back(column_of(read.table, value));
        read.outs = std::move(outs);
        if (mode_ == HeadMode::Auto && head.name == kFetchName) {
            fetch_ = static_cast<std::uint32_t>(out_.operations.size());
        }
        out_.operations.push_back(std::move(read));
        first = end;
    }
}

void ForwardCompiler::neurons(const Layer& layer) {
    const auto erases = [&](const Neuron& neuron) {
        return neuron.gate.size() == 1 && current_[neuron.gate[0].slot] == one_ && neuron.gate[0].factor == 1 &&
               neuron.value.size() == 1 && neuron.value[0].factor == -1 && neuron.out.size() == 1 &&
               neuron.out[0].slot == neuron.value[0].slot && neuron.out[0].factor == 1;
    };
    // Reads see the slots as they were, writes what they become.
    std::vector<std::uint32_t> after = current_;
    for (const Neuron& neuron : layer.neurons) {
        if (erases(neuron)) after[neuron.out[0].slot] = fresh();
    }
    for (const Neuron& neuron : layer.neurons) {
        if (erases(neuron)) continue;
        Operation operation;
        operation.gate = row(neuron.gate);
        operation.value = row(neuron.value);
        Terms out;
        for (const Weight& weight : neuron.out) out.emplace_back(after[weight.slot], weight.factor);
        std::sort(out.begin(), out.end());
        operation.out = keep(out);
        out_.operations.push_back(std::move(operation));
    }
    current_ = std::move(after);
}

// What a slot holds from a half layer on has a name and a range.
void ForwardCompiler::take_ranges(int half) {
    out_.ranges.resize(out_.variable_count);
    for (const SlotUse& use : model_.uses) {
        if (use.first_half != half) continue;
        out_.ranges[current_[use.slot]] = use.range;
        if (use.name == "cursor") out_.cursor = current_[use.slot];
    }
}

// base + 2 v x - v^2, with v from the coefficient of x and of the constant.
void ForwardCompiler::groups() {
    std::map<std::pair<Terms, std::uint32_t>, std::map<std::int64_t, Token>> found;
    std::map<Terms, Token> alone;  // no such form: a group of one
    for (Token t = 0; t < model_.logits.size(); ++t) {
        const Terms terms = rename(model_.logits[t]);
        out_.logits.push_back(keep(terms));
        std::int64_t square = 0;
        std::optional<std::uint32_t> at;
        Terms base;
        for (const auto& [variable, factor] : terms) {
            if (variable == one_ && factor < 0) square = -factor;
        }
        std::int64_t root = 0;
        while (root * root < square) ++root;
        for (const auto& [variable, factor] : terms) {
            if (variable == one_ && factor < 0 && root * root == square) continue;
            if (root > 0 && factor == 2 * root && !at) {
                at = variable;
                continue;
            }
            base.emplace_back(variable, factor);
        }
        if (at && root > 0) {
            found[{base, *at}][root] = t;
        } else {
            alone.try_emplace(terms, t);
        }
    }
    for (const auto& [form, values] : found) {
        ScoreGroup group;
        group.base = keep(form.first);
        group.at = keep({{form.second, 1}});
        group.tokens.assign(static_cast<std::size_t>(values.rbegin()->first) + 1, 0);
        // v = 0 has the base alone for its score.
        const auto zero = alone.find(form.first);
        CHECK(zero != alone.end() && values.size() + 1 == group.tokens.size());
        group.tokens[0] = zero->second;
        for (const auto& [value, token] : values) group.tokens[static_cast<std::size_t>(value)] = token;
        out_.groups.push_back(std::move(group));
    }
    for (const auto& [terms, only] : alone) {
        bool used = false;
        for (const ScoreGroup& group : out_.groups) used = used || group.tokens[0] == only;
        if (!used) out_.groups.push_back({keep(terms), keep({}), {only}});
    }
}

Forward ForwardCompiler::run() {
    for (std::uint32_t slot = 0; slot < model_.width; ++slot) current_.push_back(fresh());
    // Slots the embedding fills stay its own until they are erased.
    std::vector<bool> embedded(model_.width, false);
    for (const Row& weights : model_.embedding) {
        for (const Weight& weight : weights) embedded[weight.slot] = true;
    }
    for (std::uint32_t slot = 0; slot < model_.width; ++slot) from_embedding_[slot] = embedded[slot];
    for (const Weight& weight : model_.embedding[token::kEnd]) {
        if (weight.factor == 1) one_ = current_[weight.slot];
    }
    out_.position = current_[model_.position_slot];
    out_.square = current_[model_.square_slot];
    for (const Row& weights : model_.embedding) out_.embedding.push_back(row(weights));
    take_ranges(-1);
    for (std::uint32_t i = 0; i < model_.layers.size(); ++i) {
        heads(model_.layers[i], i);
        take_ranges(static_cast<int>(2 * i));
        neurons(model_.layers[i]);
        take_ranges(static_cast<int>(2 * i + 1));
    }
    groups();
    out_.fetch = fetch_.value_or(static_cast<std::uint32_t>(out_.operations.size()));
    return std::move(out_);
}

}  // namespace

Forward compile_forward(const Model& model, HeadMode mode) {
    return ForwardCompiler(model, mode).run();
}

}  // namespace hearth::vm
