#include "vm/engine.h"

#include <algorithm>
#include <type_traits>

#include "base/check.h"

namespace hearth::vm {

namespace {

// Integers wrap: numbers that are out of range belong to results nobody reads (see the ranges of the graph).
std::int64_t multiply(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
double multiply(double a, double b) {
    return a * b;
}
std::int64_t plus(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
double plus(double a, double b) {
    return a + b;
}

constexpr std::size_t kRing = 32;  // of Recent tables; reaches are at most 16

}  // namespace

template <typename Number>
TableState<Number> TableState<Number>::clone() const {
    TableState copy;
    copy.numbers = numbers;
    copy.keyed = keyed.clone();
    if (hull != nullptr) copy.hull = std::make_unique<HullCache>(*hull);
    return copy;
}

template <typename Number>
Engine<Number>::Engine(const Forward& forward) : forward_(&forward) {
    for (const Term& term : forward.terms) factors_.push_back(static_cast<Number>(term.factor));
    variables_.resize(forward.variable_count);
    for (const TableInfo& info : forward.tables) {
        TableState<Number> state;
        const std::size_t columns = info.columns.size();
        if (info.kind == TableInfo::Kind::Recent) state.numbers.resize(kRing * columns);
        if (info.kind == TableInfo::Kind::Class || info.kind == TableInfo::Kind::Sum) state.numbers.resize(columns);
        if (info.kind == TableInfo::Kind::Keyed) state.keyed = KeyedTable<Number>(columns);
        if (info.kind == TableInfo::Kind::Hull) state.hull = std::make_unique<HullCache>(columns, info.tie);
        states_.push_back(std::move(state));
    }
}

template <typename Number>
Engine<Number> Engine<Number>::clone() const {
    Engine copy(*forward_);
    copy.variables_ = variables_;
    copy.tokens_ = tokens_;
    for (std::size_t i = 0; i < states_.size(); ++i) copy.states_[i] = states_[i].clone();
    return copy;
}

template <typename Number>
Number Engine<Number>::dot(Span span) const {
    Number sum = 0;
    for (std::uint32_t i = span.begin; i < span.end; ++i) {
        sum = plus(sum, multiply(factors_[i], variables_[forward_->terms[i].variable]));
    }
    return sum;
}

template <typename Number>
void Engine<Number>::add_to(Span out, Number value) {
    for (std::uint32_t i = out.begin; i < out.end; ++i) {
        Number& target = variables_[forward_->terms[i].variable];
        target = plus(target, multiply(factors_[i], value));
    }
}

// Attention asks for the nearest key there is: outside [0, t] that is the first or the last.
template <typename Number>
std::uint64_t Engine<Number>::clamp_position(Number query) const {
    if (query <= 0) return 0;
    const std::uint64_t last = tokens_.size() - 1;
    if (query >= static_cast<Number>(last)) return last;
    return static_cast<std::uint64_t>(query);
}

template <typename Number>
void Engine<Number>::write(std::uint32_t index) {
    const TableInfo& info = forward_->tables[index];
    TableState<Number>& state = states_[index];
    const std::size_t columns = info.columns.size();
    Number* entry = nullptr;
    switch (info.kind) {
        case TableInfo::Kind::Tokens: return;
        case TableInfo::Kind::Recent: entry = &state.numbers[(tokens_.size() - 1) % kRing * columns]; break;
        case TableInfo::Kind::History:
            state.numbers.resize(state.numbers.size() + columns);
            entry = state.numbers.data() + state.numbers.size() - columns;
            break;
        case TableInfo::Kind::Sum:
            for (std::size_t i = 0; i < columns; ++i) state.numbers[i] = plus(state.numbers[i], dot(info.columns[i]));
            return;
        case TableInfo::Kind::Class:
            if (dot(info.member) <= 0) return;
            entry = state.numbers.data();
            break;
        case TableInfo::Kind::Keyed:
            if (dot(info.member) <= 0) return;
            entry = state.keyed.write(static_cast<std::uint64_t>(dot(info.key)));
            break;
        case TableInfo::Kind::Hull: {
            std::vector<std::int64_t> values;
            for (const Span column : info.columns) values.push_back(static_cast<std::int64_t>(dot(column)));
            state.hull->insert(static_cast<std::int64_t>(dot(info.key_x)), static_cast<std::int64_t>(dot(info.key_y)),
                               values.data());
            return;
        }
    }
    for (std::size_t i = 0; i < columns; ++i) entry[i] = dot(info.columns[i]);
}

template <typename Number>
void Engine<Number>::read(const Operation& operation) {
    const TableInfo& info = forward_->tables[operation.table];
    const TableState<Number>& state = states_[operation.table];
    const std::size_t columns = info.columns.size();
    const Number* entry = state.numbers.data();
    std::vector<Number> found;
    switch (info.kind) {
        case TableInfo::Kind::Class:
        case TableInfo::Kind::Sum: break;
        case TableInfo::Kind::Tokens: {
            const Token there = tokens_[clamp_position(dot(operation.query))];
            for (std::size_t i = 0; i < operation.columns.size(); ++i) {
                add_to(operation.outs[i], static_cast<Number>(info.token_values[operation.columns[i]][there]));
            }
            return;
        }
        case TableInfo::Kind::Recent: entry += clamp_position(dot(operation.query)) % kRing * columns; break;
        case TableInfo::Kind::History: entry += clamp_position(dot(operation.query)) * columns; break;
        case TableInfo::Kind::Keyed: {
            const Number key = dot(operation.query);
            entry = key < 0 ? nullptr : state.keyed.read(static_cast<std::uint64_t>(key));
            if (entry == nullptr) return;
            break;
        }
        case TableInfo::Kind::Hull: {
            std::vector<std::int64_t> values(columns);
            state.hull->find(static_cast<std::int64_t>(dot(operation.query)),
                             static_cast<std::int64_t>(dot(operation.query_y)), values.data());
            for (const std::int64_t value : values) found.push_back(static_cast<Number>(value));
            entry = found.data();
            break;
        }
    }
    for (std::size_t i = 0; i < operation.columns.size(); ++i) {
        add_to(operation.outs[i], entry[operation.columns[i]]);
    }
}

template <typename Number>
void Engine<Number>::feed(Token token) {
    const Number position = static_cast<Number>(tokens_.size());
    tokens_.push_back(token);
    std::fill(variables_.begin(), variables_.end(), Number{0});
    const Span embedding = forward_->embedding[token];
    for (std::uint32_t i = embedding.begin; i < embedding.end; ++i) {
        variables_[forward_->terms[i].variable] = factors_[i];
    }
    variables_[forward_->position] = position;
    variables_[forward_->square] = multiply(position, position);
    for (const Operation& operation : forward_->operations) {
        switch (operation.kind) {
            case Operation::Kind::Neuron: {
                const Number gate = dot(operation.gate);
                if (gate > 0) add_to(operation.out, multiply(gate, dot(operation.value)));
                break;
            }
            case Operation::Kind::Write: write(operation.table); break;
            case Operation::Kind::Read: read(operation); break;
        }
    }
}

template <typename Number>
Token Engine<Number>::predict() const {
    Token best = 0;
    Number greatest = 0;
    bool first = true;
    for (const ScoreGroup& group : forward_->groups) {
        const Number at = dot(group.at);
        const Number last = static_cast<Number>(group.tokens.size() - 1);
        const std::size_t value = at <= 0 ? 0 : at >= last ? group.tokens.size() - 1 : static_cast<std::size_t>(at);
        const Number v = static_cast<Number>(value);
        const Number score = plus(dot(group.base), multiply(v, plus(at, plus(at, -v))));
        if (first || score > greatest) {
            greatest = score;
            best = group.tokens[value];
            first = false;
        }
    }
    return best;
}

template <typename Number>
Token Engine<Number>::predict_full() const {
    Token best = 0;
    Number greatest = dot(forward_->logits[0]);
    for (Token t = 1; t < forward_->logits.size(); ++t) {
        const Number score = dot(forward_->logits[t]);
        if (score > greatest) {
            greatest = score;
            best = t;
        }
    }
    return best;
}

template struct TableState<std::int64_t>;
template struct TableState<double>;
template class Engine<std::int64_t>;
template class Engine<double>;

}  // namespace hearth::vm
