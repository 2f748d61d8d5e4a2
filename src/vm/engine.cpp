#include "vm/engine.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "vm/machine.h"

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

std::int64_t whole_quotient(std::int64_t a, std::int64_t b) {
    return a / b;
}
double whole_quotient(double a, double b) {
    return std::floor(a / b);
}

// False for what is no number: a snapshot may hold any.
template <typename Number>
bool is_key(Number value) {
    return value >= 0 && value < static_cast<Number>(kKeyLimit);
}

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
bool TableState<Number>::same(const TableState& other) const {
    return hull == nullptr && other.hull == nullptr && numbers == other.numbers && keyed.same(other.keyed);
}

template <typename Number>
Engine<Number>::Engine(const Forward& forward, PlanCache* plans) : forward_(&forward), plans_(plans) {
    if (forward.fetch == forward.operations.size()) plans_ = nullptr;
    std::vector<Number> factors;
    for (const Term& term : forward.terms) factors.push_back(static_cast<Number>(term.factor));
    factors_ = std::make_shared<const std::vector<Number>>(std::move(factors));
    variables_.resize(forward.variable_count);
    for (const TableInfo& info : forward.tables) {
        TableState<Number> state;
        const std::size_t columns = info.columns.size();
        const bool by_key = info.kind == TableInfo::Kind::Keyed || info.kind == TableInfo::Kind::History;
        const bool by_time = info.kind == TableInfo::Kind::Recent || info.kind == TableInfo::Kind::History;
        if (by_time) state.numbers.resize(kRing * columns);
        if (info.kind == TableInfo::Kind::Class || info.kind == TableInfo::Kind::Sum) state.numbers.resize(columns);
        if (by_key) state.keyed = KeyedTable<Number>(columns);
        if (info.kind == TableInfo::Kind::Hull) state.hull = std::make_unique<HullCache>(columns, info.tie);
        states_.push_back(std::move(state));
    }
}

template <typename Number>
Engine<Number> Engine<Number>::clone() const {
    Engine copy(*forward_, plans_);
    copy.running_ = running_;
    copy.predicted_ = predicted_;
    copy.variables_ = variables_;
    copy.tokens_ = tokens_;
    copy.history_ = history_;
    copy.position_ = position_;
    copy.prompt_end_ = prompt_end_;
    for (std::size_t i = 0; i < states_.size(); ++i) copy.states_[i] = states_[i].clone();
    return copy;
}

template <typename Number>
void Engine<Number>::freeze() {
    for (TableState<Number>& state : states_) state.keyed.freeze();
}

template <typename Number>
void Engine<Number>::take_recent(Engine& other) {
    CHECK(position_ == other.position_);
    for (std::size_t i = 0; i < states_.size(); ++i) {
        const TableInfo::Kind kind = forward_->tables[i].kind;
        const bool by_position = kind == TableInfo::Kind::Recent || kind == TableInfo::Kind::History;
        if (by_position) states_[i].numbers.swap(other.states_[i].numbers);
    }
}

template <typename Number>
bool Engine<Number>::same_state(const Engine& other) const {
    return position_ == other.position_ && prompt_end_ == other.prompt_end_ && running_ == other.running_ &&
           std::equal(states_.begin(), states_.end(), other.states_.begin(), other.states_.end(),
                      [](const auto& mine, const auto& theirs) { return mine.same(theirs); });
}

template <typename Number>
Number Engine<Number>::dot(Span span) const {
    Number sum = 0;
    for (std::uint32_t i = span.begin; i < span.end; ++i) {
        sum = plus(sum, multiply((*factors_)[i], variables_[forward_->terms[i].variable]));
    }
    return sum;
}

template <typename Number>
void Engine<Number>::add_to(Span out, Number value) {
    for (std::uint32_t i = out.begin; i < out.end; ++i) {
        Number& target = variables_[forward_->terms[i].variable];
        target = plus(target, multiply((*factors_)[i], value));
    }
}

// Attention asks for the nearest key there is: outside [0, t] that is the first or the last.
template <typename Number>
std::uint64_t Engine<Number>::clamp_position(Number query) const {
    if (!(query > 0)) return 0;  // what is no number too
    const std::uint64_t last = position_ - 1;
    if (query >= static_cast<Number>(last)) return last;
    return static_cast<std::uint64_t>(query);
}

template <typename Number>
const Number* Engine<Number>::history_entry(const TableState<Number>& state, std::size_t columns,
                                            std::uint64_t position) const {
    if (is_program(position)) return state.keyed.read(position);
    if (position + kRing < position_) return nullptr;  // only in a trace that is not the machine's
    return state.numbers.data() + position % kRing * columns;
}

// Where the entry of this token goes; null where it is not kept.
template <typename Number>
Number* Engine<Number>::entry_to_write(const TableInfo& info, TableState<Number>& state, Number key) {
    const std::size_t columns = info.columns.size();
    switch (info.kind) {
        case TableInfo::Kind::Recent: return &state.numbers[(position_ - 1) % kRing * columns];
        case TableInfo::Kind::History:
            // Behind the prompt only the last few are ever asked for: the program lies in the prompt, and the
            // machine's own runs are at most four bytes long.
            if (is_program(position_ - 1)) return state.keyed.write(position_ - 1);
            return &state.numbers[(position_ - 1) % kRing * columns];
        case TableInfo::Kind::Class: return state.numbers.data();
        case TableInfo::Kind::Keyed:
            if (!is_key(key)) return nullptr;  // of a trace not the machine's
            return state.keyed.write(static_cast<std::uint64_t>(key));
        default: return nullptr;
    }
}

template <typename Number>
void Engine<Number>::write(std::uint32_t index) {
    const TableInfo& info = forward_->tables[index];
    TableState<Number>& state = states_[index];
    const std::size_t columns = info.columns.size();
    if (info.kind == TableInfo::Kind::Sum) {
        for (std::size_t i = 0; i < columns; ++i) state.numbers[i] = plus(state.numbers[i], dot(info.columns[i]));
        return;
    }
    if (info.kind == TableInfo::Kind::Hull) {
        std::vector<std::int64_t> values;
        for (const Span column : info.columns) values.push_back(static_cast<std::int64_t>(dot(column)));
        state.hull->insert(static_cast<std::int64_t>(dot(info.key_x)), static_cast<std::int64_t>(dot(info.key_y)),
                           values.data());
        return;
    }
    const bool by_member = info.kind == TableInfo::Kind::Class || info.kind == TableInfo::Kind::Keyed;
    // The first token takes part in everything, with nothing but zeros: tables hold those from the beginning.
    if (by_member && dot(info.member) <= 0) return;
    Number* entry = entry_to_write(info, state, dot(info.key));
    for (std::size_t i = 0; entry != nullptr && i < columns; ++i) entry[i] = dot(info.columns[i]);
}

template <typename Number>
void Engine<Number>::write_plan(const Plan& plan, const PlanOperation& operation) {
    const TableInfo& info = forward_->tables[operation.table];
    TableState<Number>& state = states_[operation.table];
    if (!operation.always && evaluate(plan, operation.gate) <= 0) return;
    const PlanExpression* column = plan.written.data() + operation.first_column;
    if (info.kind == TableInfo::Kind::Sum) {
        for (std::uint32_t i = 0; i < operation.column_count; ++i) {
            state.numbers[i] = plus(state.numbers[i], evaluate(plan, column[i]));
        }
        return;
    }
    Number* entry = entry_to_write(info, state, evaluate(plan, operation.value));
    for (std::uint32_t i = 0; entry != nullptr && i < operation.column_count; ++i) entry[i] = evaluate(plan, column[i]);
}

// Where the entry asked for is; null where there is none, which reads as zeros.
template <typename Number>
const Number* Engine<Number>::entry_to_read(const TableInfo& info, const TableState<Number>& state,
                                            Number query) const {
    const std::size_t columns = info.columns.size();
    switch (info.kind) {
        case TableInfo::Kind::Recent: return state.numbers.data() + clamp_position(query) % kRing * columns;
        case TableInfo::Kind::History: return history_entry(state, columns, clamp_position(query));
        case TableInfo::Kind::Keyed:
            return is_key(query) ? state.keyed.read(static_cast<std::uint64_t>(query)) : nullptr;
        default: return state.numbers.data();  // Class and Sum have one
    }
}

template <typename Number>
void Engine<Number>::read(const Operation& operation) {
    const TableInfo& info = forward_->tables[operation.table];
    const TableState<Number>& state = states_[operation.table];
    const auto add = [&](const auto& value_of) {
        for (std::size_t i = 0; i < operation.columns.size(); ++i) {
            add_to(operation.outs[i], static_cast<Number>(value_of(operation.columns[i])));
        }
    };
    if (info.kind == TableInfo::Kind::Tokens) {
        const Token there = token_at(clamp_position(dot(operation.query)));
        add([&](std::uint32_t column) { return info.token_values[column][there]; });
    } else if (info.kind == TableInfo::Kind::Hull) {
        std::vector<std::int64_t> values(info.columns.size());
        state.hull->find(static_cast<std::int64_t>(dot(operation.query)),
                         static_cast<std::int64_t>(dot(operation.query_y)), values.data());
        add([&](std::uint32_t column) { return values[column]; });
    } else if (const Number* entry = entry_to_read(info, state, dot(operation.query))) {
        add([&](std::uint32_t column) { return entry[column]; });
    }
}

template <typename Number>
void Engine<Number>::begin_token(Token token) {
    const Number position = static_cast<Number>(position_ - 1);
    std::fill(variables_.begin(), variables_.end(), Number{0});
    const Span embedding = forward_->embedding[token];
    for (std::uint32_t i = embedding.begin; i < embedding.end; ++i) {
        variables_[forward_->terms[i].variable] = (*factors_)[i];
    }
    variables_[forward_->position] = position;
    variables_[forward_->square] = multiply(position, position);
}

template <typename Number>
void Engine<Number>::feed_all(Token token, bool writes) {
    begin_token(token);
    for (const Operation& operation : forward_->operations) {
        switch (operation.kind) {
            case Operation::Kind::Neuron: {
                const Number gate = dot(operation.gate);
                if (gate > 0) add_to(operation.out, multiply(gate, dot(operation.value)));
                break;
            }
            case Operation::Kind::Write:
                if (writes) write(operation.table);
                break;
            case Operation::Kind::Read: read(operation); break;
        }
    }
    predicted_ = predict_groups();
}

template <typename Number>
std::optional<Opcode> Engine<Number>::current_opcode() const {
    const std::uint64_t at = std::uint64_t{kInstructionTokens} * cursor() + 1;
    if (at >= prompt_end_ || token_at(at) < token::kOpcode) return std::nullopt;
    return static_cast<Opcode>(token_at(at) - token::kOpcode);
}

template <typename Number>
void Engine<Number>::take(Token token) {
    if (history_.empty()) tokens_.push_back(token);
    ++position_;
    if (token == token::kStart && !running_) {
        running_ = true;
        prompt_end_ = position_;
    }
}

template <typename Number>
void Engine<Number>::feed(Token token) {
    take(token);
    if (plans_ == nullptr || token == token::kBegin) return feed_all(token, true);
    const std::uint32_t kind = token_class(token);
    begin_token(token);
    if (!running_) return run_plan(plans_->prompt(kind));
    run_plan(plans_->front(kind));
    predicted_ = token::kBegin;  // never right: an instruction outside the program is no instruction
    const std::optional<Opcode> opcode = current_opcode();
    if (!opcode) return;
    const Plan& plan = plans_->back(kind, *opcode);
    run_plan(plan);
    if (!predict_plan(plan)) feed_all(token, false);
}

template <typename Number>
Number Engine<Number>::evaluate(const Plan& plan, const PlanExpression& expression) const {
    Number sum = static_cast<Number>(expression.constant);
    const Term* term = plan.terms.data() + expression.terms.begin;
    const Term* end = plan.terms.data() + expression.terms.end;
    for (; term != end; ++term) {
        sum = plus(sum, multiply(static_cast<Number>(term->factor), variables_[term->variable]));
    }
    return sum;
}

template <typename Number>
void Engine<Number>::add_terms(const Plan& plan, Span out, Number value) {
    for (std::uint32_t i = out.begin; i < out.end; ++i) {
        const Term& term = plan.terms[i];
        variables_[term.variable] = plus(variables_[term.variable], multiply(static_cast<Number>(term.factor), value));
    }
}

template <typename Number>
void Engine<Number>::read_plan(const Plan& plan, const PlanOperation& operation) {
    const TableInfo& info = forward_->tables[operation.table];
    const std::uint32_t first = operation.first_column;
    const std::uint32_t end = first + operation.column_count;
    const Number query = evaluate(plan, operation.gate);
    if (info.kind == TableInfo::Kind::Tokens) {
        const Token there = token_at(clamp_position(query));
        for (std::uint32_t i = first; i < end; ++i) {
            add_terms(plan, plan.outs[i], static_cast<Number>(info.token_values[plan.columns[i]][there]));
        }
        return;
    }
    const Number* entry = entry_to_read(info, states_[operation.table], query);
    if (entry == nullptr) return;
    for (std::uint32_t i = first; i < end; ++i) add_terms(plan, plan.outs[i], entry[plan.columns[i]]);
}

template <typename Number>
void Engine<Number>::run_plan(const Plan& plan) {
    for (const auto& [variable, value] : plan.start) {
        variables_[variable] = plus(variables_[variable], static_cast<Number>(value));
    }
    for (const PlanOperation& operation : plan.operations) {
        switch (operation.kind) {
            case PlanOperation::Kind::Copy: add_terms(plan, operation.out, evaluate(plan, operation.value)); break;
            case PlanOperation::Kind::Relu: {
                const Number gate = evaluate(plan, operation.gate);
                if (gate > 0) add_terms(plan, operation.out, gate);
                break;
            }
            case PlanOperation::Kind::Product: {
                const Number gate = evaluate(plan, operation.gate);
                if (gate > 0) add_terms(plan, operation.out, multiply(gate, evaluate(plan, operation.value)));
                break;
            }
            case PlanOperation::Kind::Step:
                if (evaluate(plan, operation.gate) >= 0) add_terms(plan, operation.out, Number{1});
                break;
            case PlanOperation::Kind::Stairs: {
                const Number gate = evaluate(plan, operation.gate);
                const Number step = evaluate(plan, operation.value);
                Number count = 0;
                if (step > 0) {
                    if (gate < step) break;
                    count = std::min(static_cast<Number>(operation.count), whole_quotient(gate, step));
                } else {
                    for (std::uint32_t k = 1; k <= operation.count; ++k) {
                        if (gate >= multiply(static_cast<Number>(k), step)) count += 1;
                    }
                }
                add_terms(plan, operation.out, count);
                break;
            }
            case PlanOperation::Kind::Write: write_plan(plan, operation); break;
            case PlanOperation::Kind::Read: read_plan(plan, operation); break;
        }
    }
}

// The best token of a group and its score: base + 2 v x - v^2 is greatest at the v nearest to x.
template <typename Number>
std::pair<Number, Token> Engine<Number>::best_of(const ScoreGroup& group, Number base, Number at) {
    const Number last = static_cast<Number>(group.tokens.size() - 1);
    const std::size_t value = !(at > 0) ? 0 : at >= last ? group.tokens.size() - 1 : static_cast<std::size_t>(at);
    const Number v = static_cast<Number>(value);
    return {plus(base, multiply(v, plus(at, plus(at, -v)))), group.tokens[value]};
}

template <typename Number>
bool Engine<Number>::predict_plan(const Plan& plan) {
    Number greatest = static_cast<Number>(kKindScore / 2);
    bool found = false;
    for (const PlanGroup& group : plan.groups) {
        const auto [score, token] =
            best_of(forward_->groups[group.group], evaluate(plan, group.base), evaluate(plan, group.at));
        if (score <= greatest) continue;
        greatest = score;
        predicted_ = token;
        found = true;
    }
    return found;
}

template <typename Number>
Token Engine<Number>::predict_groups() const {
    std::optional<std::pair<Number, Token>> best;
    for (const ScoreGroup& group : forward_->groups) {
        const std::pair<Number, Token> one = best_of(group, dot(group.base), dot(group.at));
        if (!best || one.first > best->first) best = one;
    }
    return best ? best->second : Token{0};
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
