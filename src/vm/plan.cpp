#include "vm/plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "vm/machine.h"

namespace hearth::vm {

namespace {

__extension__ using Wide = __int128;
using Terms = std::map<std::uint32_t, std::int64_t>;

std::int64_t saturate(Wide value) {
    constexpr Wide kLimit = (Wide{1} << 63) - 1;
    return static_cast<std::int64_t>(std::clamp(value, -kLimit, kLimit));
}

struct Expression {
    std::int64_t constant = 0;
    Terms terms;
    bool operator==(const Expression&) const = default;
};

struct Draft {
    PlanOperation operation;
    Expression gate, value;
    std::vector<std::pair<std::uint32_t, std::int64_t>> out;
    std::vector<std::pair<std::uint32_t, std::vector<std::pair<std::uint32_t, std::int64_t>>>> columns;  // Read
    std::vector<Expression> written;                                                                     // Write
};

class PlanCompiler {
public:
    PlanCompiler(const Forward& forward, std::uint32_t token_class) : forward_(forward) { begin(token_class); }

    void run(std::size_t first, std::size_t end, std::optional<Opcode> opcode, bool emits);
    void keep_predictions();
    void keep_all_read_after(std::size_t operation);
    void keep_variable(std::uint32_t variable) { live_.insert(variable); }
    Plan finish();

private:
    struct Variable {
        Interval range;         // so far
        bool dynamic = false;   // some operation adds to it
        std::int64_t base = 0;  // what is known to be in it
    };
    void begin(std::uint32_t token_class);
    Expression simplify(Span span) const;
    Interval range(const Expression& expression) const;
    Interval range_of(std::uint32_t variable) const;
    void add(std::uint32_t variable, Interval part);
    void neuron(const Operation& operation);
    void write(const Operation& operation);
    void read_itself(const Operation& operation);
    void read(const Operation& operation, std::uint32_t index, std::optional<Opcode> opcode);
    void fuse_step();
    void fuse_stairs();
    void drop_dead();
    void need(const Expression& expression) {
        for (const auto& [variable, factor] : expression.terms) live_.insert(variable);
    }

    const Forward& forward_;
    std::vector<Variable> variables_;
    std::vector<std::int64_t> done_;               // part of the bases that is in the variables already
    std::vector<std::uint32_t> writers_;           // operations that add to a variable
    std::map<std::uint32_t, Expression> aliases_;  // variables that are not computed: what they equal
    std::set<std::uint32_t> sure_;                 // tables of a class this token belongs to
    std::vector<Draft> drafts_;
    std::set<std::uint32_t> live_;
    std::vector<std::pair<Expression, std::pair<Expression, std::uint32_t>>> groups_;
};

std::vector<std::pair<Token, Token>> class_bounds() {
    std::vector<std::pair<Token, Token>> bounds = {{token::kByte, token::kOut}, {token::kOut, token::kEnd}};
    for (Token t = token::kEnd; t <= token::kReturn; ++t) bounds.emplace_back(t, static_cast<Token>(t + 1));
    bounds.emplace_back(token::kOpcode, token::kCount);
    return bounds;
}

void PlanCompiler::begin(std::uint32_t token_class) {
    variables_.resize(forward_.variable_count);
    const auto [first, end] = class_bounds()[token_class];
    std::vector<std::vector<std::int64_t>> values(forward_.variable_count);
    for (Token t = first; t < end; ++t) {
        for (const Term& term : forward_.of(forward_.embedding[t])) values[term.variable].push_back(term.factor);
    }
    for (std::uint32_t v = 0; v < forward_.variable_count; ++v) {
        if (values[v].empty()) continue;
        const auto [low, high] = std::minmax_element(values[v].begin(), values[v].end());
        const bool all = values[v].size() == static_cast<std::size_t>(end - first);
        variables_[v].range = {all ? *low : std::min<std::int64_t>(*low, 0),
                               all ? *high : std::max<std::int64_t>(*high, 0)};
        if (variables_[v].range.low != variables_[v].range.high) variables_[v].dynamic = true;
        if (!variables_[v].dynamic) variables_[v].base = *low;
    }
    for (const std::uint32_t v : {forward_.position, forward_.square}) {
        variables_[v].range = forward_.ranges[v];
        variables_[v].dynamic = true;
    }
    for (const Variable& v : variables_) done_.push_back(v.base);
    writers_.resize(forward_.variable_count);
    const auto count = [&](Span out) {
        for (const Term& term : forward_.of(out)) ++writers_[term.variable];
    };
    for (const Operation& operation : forward_.operations) {
        count(operation.out);
        for (const Span out : operation.outs) count(out);
    }
}

Interval PlanCompiler::range_of(std::uint32_t variable) const {
    const Variable& v = variables_[variable];
    if (!v.dynamic) return {v.base, v.base};
    const Interval& declared = forward_.ranges[variable];
    return {std::max(v.range.low, declared.low), std::min(v.range.high, declared.high)};
}

Expression PlanCompiler::simplify(Span span) const {
    Expression result;
    for (const Term& term : forward_.of(span)) {
        const Variable& v = variables_[term.variable];
        const auto alias = aliases_.find(term.variable);
        if (alias != aliases_.end()) {
            result.constant += term.factor * alias->second.constant;
            for (const auto& [variable, factor] : alias->second.terms) result.terms[variable] += term.factor * factor;
        } else if (v.dynamic) {
            result.terms[term.variable] += term.factor;
        } else {
            result.constant += term.factor * v.base;
        }
    }
    std::erase_if(result.terms, [](const auto& term) { return term.second == 0; });
    return result;
}

Interval PlanCompiler::range(const Expression& expression) const {
    Wide low = expression.constant;
    Wide high = expression.constant;
    for (const auto& [variable, factor] : expression.terms) {
        const Interval part = range_of(variable);
        low += std::min(Wide{factor} * part.low, Wide{factor} * part.high);
        high += std::max(Wide{factor} * part.low, Wide{factor} * part.high);
    }
    return {saturate(low), saturate(high)};
}

void PlanCompiler::add(std::uint32_t variable, Interval part) {
    Variable& v = variables_[variable];
    if (!v.dynamic) v.range = {v.base, v.base};
    v.dynamic = true;
    v.range = {saturate(Wide{v.range.low} + part.low), saturate(Wide{v.range.high} + part.high)};
}

void PlanCompiler::neuron(const Operation& operation) {
    Draft draft;
    draft.gate = simplify(operation.gate);
    draft.value = simplify(operation.value);
    const Interval gate = range(draft.gate);
    if (gate.high <= 0 || (draft.value.terms.empty() && draft.value.constant == 0)) return;
    const Interval value = range(draft.value);
    for (const Term& term : forward_.of(operation.out)) draft.out.emplace_back(term.variable, term.factor);
    const bool fixed_gate = draft.gate.terms.empty();
    const bool fixed_value = draft.value.terms.empty();
    if (fixed_gate && fixed_value) {
        for (const auto& [variable, factor] : draft.out) {
            const std::int64_t part = factor * draft.gate.constant * draft.value.constant;
            Variable& v = variables_[variable];
            v.base += part;
            if (v.dynamic) v.range = {saturate(Wide{v.range.low} + part), saturate(Wide{v.range.high} + part)};
        }
        return;
    }
    const Wide most = gate.high;
    const Wide least = std::max<std::int64_t>(gate.low, 0);
    const Wide low = std::min(least * value.low, most * value.low);
    const Wide high = std::max(least * value.high, most * value.high);
    for (const auto& [variable, factor] : draft.out) {
        const Wide one = factor * low;
        const Wide other = factor * high;
        add(variable, {saturate(std::min(one, other)), saturate(std::max(one, other))});
    }
    if (fixed_gate) {
        draft.operation.kind = PlanOperation::Kind::Copy;
        for (auto& [variable, factor] : draft.out) factor *= draft.gate.constant;
        draft.gate = {};
    } else if (fixed_value) {
        draft.operation.kind = PlanOperation::Kind::Relu;
        for (auto& [variable, factor] : draft.out) factor *= draft.value.constant;
        draft.value = {1, {}};
    } else {
        draft.operation.kind = PlanOperation::Kind::Product;
    }
    drafts_.push_back(std::move(draft));
    fuse_step();
}

// relu(n + 1) - relu(n) is [n >= 0] for integers.
void PlanCompiler::fuse_step() {
    if (drafts_.size() < 2) return;
    Draft& above = drafts_[drafts_.size() - 2];
    const Draft& at = drafts_.back();
    if (above.operation.kind != PlanOperation::Kind::Relu || at.operation.kind != PlanOperation::Kind::Relu) return;
    if (above.gate.terms != at.gate.terms || above.gate.constant != at.gate.constant + 1) return;
    if (above.out.size() != at.out.size()) return;
    for (std::size_t i = 0; i < at.out.size(); ++i) {
        if (above.out[i].first != at.out[i].first || above.out[i].second != -at.out[i].second) return;
    }
    above.operation.kind = PlanOperation::Kind::Step;
    above.gate = at.gate;
    drafts_.pop_back();
}

void PlanCompiler::write(const Operation& operation) {
    const TableInfo& info = forward_.tables[operation.table];
    if (info.kind == TableInfo::Kind::Tokens) return;
    Draft draft;
    draft.operation.kind = PlanOperation::Kind::Write;
    draft.operation.table = operation.table;
    draft.operation.always = true;
    if (info.kind == TableInfo::Kind::Class || info.kind == TableInfo::Kind::Keyed) {
        draft.gate = simplify(info.member);
        const Interval member = range(draft.gate);
        if (member.high <= 0) return;
        draft.operation.always = member.low >= 1;
        if (draft.operation.always && info.kind == TableInfo::Kind::Class) sure_.insert(operation.table);
    }
    if (info.kind == TableInfo::Kind::Keyed) draft.value = simplify(info.key);
    for (const Span column : info.columns) draft.written.push_back(simplify(column));
    drafts_.push_back(std::move(draft));
}

// The latest of a class is this token itself where it belongs to the class.
void PlanCompiler::read_itself(const Operation& operation) {
    const TableInfo& info = forward_.tables[operation.table];
    for (std::size_t i = 0; i < operation.columns.size(); ++i) {
        const Expression own = simplify(info.columns[operation.columns[i]]);
        const Interval own_range = range(own);
        Draft copy;
        for (const Term& term : forward_.of(operation.outs[i])) {
            Variable& v = variables_[term.variable];
            if (own.terms.empty()) {
                const std::int64_t part = term.factor * own.constant;
                v.base += part;
                if (v.dynamic) v.range = {saturate(Wide{v.range.low} + part), saturate(Wide{v.range.high} + part)};
            } else if (term.factor == 1 && writers_[term.variable] == 1 && !v.dynamic && v.base == 0) {
                aliases_.emplace(term.variable, own);
            } else {
                const Wide one = Wide{term.factor} * own_range.low;
                const Wide other = Wide{term.factor} * own_range.high;
                add(term.variable, {saturate(std::min(one, other)), saturate(std::max(one, other))});
                copy.out.emplace_back(term.variable, term.factor);
            }
        }
        if (copy.out.empty()) continue;
        copy.value = own;
        drafts_.push_back(std::move(copy));
    }
}

void PlanCompiler::read(const Operation& operation, std::uint32_t index, std::optional<Opcode> opcode) {
    if (sure_.contains(operation.table)) return read_itself(operation);
    const TableInfo& info = forward_.tables[operation.table];
    Draft draft;
    draft.operation.kind = PlanOperation::Kind::Read;
    draft.operation.table = operation.table;
    draft.gate = simplify(operation.query);
    const bool is_fetch = index == forward_.fetch;
    for (std::size_t i = 0; i < operation.columns.size(); ++i) {
        std::vector<std::pair<std::uint32_t, std::int64_t>> out;
        for (const Term& term : forward_.of(operation.outs[i])) out.emplace_back(term.variable, term.factor);
        if (is_fetch && opcode) {
            const std::int64_t known =
                info.token_values[operation.columns[i]]
                                 [static_cast<std::size_t>(token::kOpcode) + static_cast<std::size_t>(*opcode)];
            for (const auto& [variable, factor] : out) variables_[variable].base += factor * known;
            continue;
        }
        for (const auto& [variable, factor] : out) {
            const Interval declared = forward_.ranges[variable];
            add(variable, declared);
        }
        draft.columns.emplace_back(operation.columns[i], std::move(out));
    }
    if (!draft.columns.empty()) drafts_.push_back(std::move(draft));
}

void PlanCompiler::run(std::size_t first, std::size_t end, std::optional<Opcode> opcode, bool emits) {
    for (std::size_t i = first; i < end; ++i) {
        const Operation& operation = forward_.operations[i];
        switch (operation.kind) {
            case Operation::Kind::Neuron: neuron(operation); break;
            case Operation::Kind::Write: write(operation); break;
            case Operation::Kind::Read: read(operation, static_cast<std::uint32_t>(i), opcode); break;
        }
    }
    if (emits) return;
    // Done by an earlier plan: its operations, and what it put into the variables.
    drafts_.clear();
    for (std::uint32_t v = 0; v < variables_.size(); ++v) done_[v] = variables_[v].base;
}

// Kinds of token that cannot come are not scored; the engine checks that one of the others does.
void PlanCompiler::keep_predictions() {
    for (std::uint32_t i = 0; i < forward_.groups.size(); ++i) {
        const Expression base = simplify(forward_.groups[i].base);
        if (range(base).high <= 0) continue;
        const Expression at = simplify(forward_.groups[i].at);
        need(base);
        need(at);
        groups_.push_back({base, {at, i}});
    }
}

void PlanCompiler::keep_all_read_after(std::size_t operation) {
    const auto need_span = [&](Span span) {
        for (const Term& term : forward_.of(span)) live_.insert(term.variable);
    };
    for (std::size_t i = operation; i < forward_.operations.size(); ++i) {
        const Operation& later = forward_.operations[i];
        need_span(later.gate);
        need_span(later.value);
        need_span(later.query);
        if (later.kind != Operation::Kind::Write) continue;
        const TableInfo& info = forward_.tables[later.table];
        need_span(info.key);
        need_span(info.member);
        for (const Span column : info.columns) need_span(column);
    }
    for (const Span logit : forward_.logits) need_span(logit);
    for (const auto& [variable, own] : aliases_) need(own);
}

// Steps over gate - k * value for k = 1, 2, ... that add to the same places are one division.
void PlanCompiler::fuse_stairs() {
    std::vector<Draft> result;
    const auto difference = [](const Expression& a, const Expression& b) {
        Expression d{a.constant - b.constant, a.terms};
        for (const auto& [variable, factor] : b.terms) {
            d.terms[variable] -= factor;
            if (d.terms[variable] == 0) d.terms.erase(variable);
        }
        return d;
    };
    for (std::size_t i = 0; i < drafts_.size();) {
        std::size_t end = i + 1;
        const auto same_stairs = [&](std::size_t k) {
            return drafts_[k].operation.kind == PlanOperation::Kind::Step && drafts_[k].out == drafts_[i].out &&
                   difference(drafts_[k - 1].gate, drafts_[k].gate) == difference(drafts_[i].gate, drafts_[i + 1].gate);
        };
        if (drafts_[i].operation.kind == PlanOperation::Kind::Step) {
            while (end < drafts_.size() && same_stairs(end)) ++end;
        }
        if (end - i < 4) {
            result.push_back(std::move(drafts_[i]));
            ++i;
            continue;
        }
        Draft stairs = drafts_[i];
        stairs.operation.kind = PlanOperation::Kind::Stairs;
        stairs.operation.count = static_cast<std::uint32_t>(end - i);
        stairs.value = difference(drafts_[i].gate, drafts_[i + 1].gate);
        const Expression step = stairs.value;  // gate of the first is base - step
        stairs.gate.constant += step.constant;
        for (const auto& [variable, factor] : step.terms) {
            stairs.gate.terms[variable] += factor;
            if (stairs.gate.terms[variable] == 0) stairs.gate.terms.erase(variable);
        }
        result.push_back(std::move(stairs));
        i = end;
    }
    drafts_ = std::move(result);
}

void PlanCompiler::drop_dead() {
    std::vector<Draft> kept;
    for (std::size_t i = drafts_.size(); i-- > 0;) {
        Draft& draft = drafts_[i];
        const auto dead = [&](const std::pair<std::uint32_t, std::int64_t>& out) { return !live_.contains(out.first); };
        std::erase_if(draft.out, dead);
        if (draft.operation.kind == PlanOperation::Kind::Read) {
            for (auto& [column, out] : draft.columns) std::erase_if(out, dead);
            std::erase_if(draft.columns, [](const auto& column) { return column.second.empty(); });
            if (draft.columns.empty()) continue;
            need(draft.gate);
        } else if (draft.operation.kind == PlanOperation::Kind::Write) {
            if (!draft.operation.always) need(draft.gate);
            need(draft.value);
            for (const Expression& column : draft.written) need(column);
        } else {
            if (draft.out.empty()) continue;
            need(draft.gate);
            need(draft.value);
        }
        kept.push_back(std::move(draft));
    }
    std::reverse(kept.begin(), kept.end());
    drafts_ = std::move(kept);
}

Plan PlanCompiler::finish() {
    fuse_stairs();
    drop_dead();
    Plan plan;
    const auto keep = [&](const auto& pairs) {
        Span span{static_cast<std::uint32_t>(plan.terms.size()), 0};
        for (const auto& [variable, factor] : pairs) plan.terms.push_back({variable, factor});
        span.end = static_cast<std::uint32_t>(plan.terms.size());
        return span;
    };
    const auto expression = [&](const Expression& e) { return PlanExpression{e.constant, keep(e.terms)}; };
    for (const Draft& draft : drafts_) {
        PlanOperation operation = draft.operation;
        operation.gate = expression(draft.gate);
        operation.value = expression(draft.value);
        operation.out = keep(draft.out);
        operation.first_column = static_cast<std::uint32_t>(plan.columns.size());
        operation.column_count = static_cast<std::uint32_t>(draft.columns.size());
        if (operation.kind == PlanOperation::Kind::Write) {
            operation.first_column = static_cast<std::uint32_t>(plan.written.size());
            operation.column_count = static_cast<std::uint32_t>(draft.written.size());
            for (const Expression& column : draft.written) plan.written.push_back(expression(column));
        }
        for (const auto& [column, out] : draft.columns) {
            plan.columns.push_back(column);
            plan.outs.push_back(keep(out));
        }
        plan.operations.push_back(operation);
    }
    for (const auto& [base, rest] : groups_) {
        plan.groups.push_back({expression(base), expression(rest.first), rest.second});
    }
    for (std::uint32_t v = 0; v < variables_.size(); ++v) {
        const std::int64_t part = variables_[v].base - done_[v];
        if (part != 0 && (variables_[v].dynamic || live_.contains(v))) plan.start.emplace_back(v, part);
    }
    return plan;
}

}  // namespace

std::uint32_t token_class(Token value) {
    if (is_byte(value)) return 0;
    if (is_output(value)) return 1;
    if (value >= token::kEnd && value <= token::kReturn) return static_cast<std::uint32_t>(value - token::kEnd) + 2;
    return kTokenClasses - 1;
}

Plan plan_prompt(const Forward& forward, std::uint32_t token_class) {
    PlanCompiler compiler(forward, token_class);
    compiler.run(0, forward.operations.size(), std::nullopt, true);
    return compiler.finish();
}

Plan plan_front(const Forward& forward, std::uint32_t token_class) {
    PlanCompiler compiler(forward, token_class);
    compiler.run(0, forward.fetch, std::nullopt, true);
    compiler.keep_all_read_after(forward.fetch);
    compiler.keep_variable(forward.cursor);
    return compiler.finish();
}

Plan plan_back(const Forward& forward, std::uint32_t token_class, Opcode opcode) {
    PlanCompiler compiler(forward, token_class);
    compiler.run(0, forward.fetch, opcode, false);
    compiler.run(forward.fetch, forward.operations.size(), opcode, true);
    compiler.keep_predictions();
    return compiler.finish();
}

template <typename Make>
const Plan& PlanCache::get(std::atomic<const Plan*>& place, Make make) {
    const Plan* plan = place.load(std::memory_order_acquire);
    if (plan != nullptr) return *plan;
    const std::lock_guard lock(mutex_);
    plan = place.load(std::memory_order_acquire);
    if (plan == nullptr) {
        made_.push_back(std::make_unique<Plan>(make()));
        plan = made_.back().get();
        place.store(plan, std::memory_order_release);
    }
    return *plan;
}

const Plan& PlanCache::prompt(std::uint32_t token_class) {
    return get(prompt_[token_class], [&] { return plan_prompt(forward_, token_class); });
}

const Plan& PlanCache::front(std::uint32_t token_class) {
    return get(front_[token_class], [&] { return plan_front(forward_, token_class); });
}

const Plan& PlanCache::back(std::uint32_t token_class, Opcode opcode) {
    return get(back_[token_class * kOpcodeCount + static_cast<std::size_t>(opcode)],
               [&] { return plan_back(forward_, token_class, opcode); });
}

}  // namespace hearth::vm
