#include "vm/expression.h"

#include <algorithm>

#include "base/check.h"

namespace hearth::vm {

namespace {

__extension__ using Wide = __int128;

std::int64_t saturate(Wide value) {
    constexpr Wide kLimit = (Wide{1} << 63) - 1;
    return static_cast<std::int64_t>(std::clamp(value, -kLimit, kLimit));
}

}  // namespace

Graph::Graph() : logits_(token::kCount) {
    add({DimKind::Input, "one", {0, 1}, false, {}, {}, -1});
    add({DimKind::Input, "position", {0, kMaxPosition}, false, {}, {}, -1});
    add({DimKind::Input, "position squared", {0, kMaxPosition * kMaxPosition}, false, {}, {}, -1});
    for (Token t = 1; t < token::kCount; ++t) tables_[kOne][t] = 1;
}

Linear Graph::add(DimNode node) {
    if (node.kind == DimKind::Input) {
        tables_.resize(dims_.size() + 1);
        tables_.back().assign(token::kCount, 0);
    }
    dims_.push_back(std::move(node));
    return Linear(static_cast<Dim>(dims_.size() - 1));
}

Linear Graph::input(std::string_view name) {
    CHECK(tables_.size() == dims_.size());  // inputs come first, so that tables and dimensions have one numbering
    return add({DimKind::Input, std::string(name), {0, 0}, false, {}, {}, -1});
}

void Graph::set(const Linear& input, Token token, std::int64_t value) {
    const std::size_t dim = static_cast<std::size_t>(input.terms().begin()->first);
    tables_[dim][token] = value;
    Interval& range = dims_[dim].range;
    range = {std::min(range.low, value), std::max(range.high, value)};
}

Interval Graph::range(const Linear& number) const {
    Wide low = 0;
    Wide high = 0;
    for (const auto& [dim, factor] : number.terms()) {
        const Interval& part = dims_[static_cast<std::size_t>(dim)].range;
        const Wide one = Wide{factor} * part.low;
        const Wide other = Wide{factor} * part.high;
        low += std::min(one, other);
        high += std::max(one, other);
    }
    return {saturate(low), saturate(high)};
}

void Graph::narrow(const Linear& dim, Interval range) {
    DimNode& node = dims_[static_cast<std::size_t>(dim.terms().begin()->first)];
    node.range = range;
    node.assumed = true;
}

Linear Graph::product_within(const Linear& value, const Linear& gate, Interval range, std::string_view name) {
    const Linear made = product(value, gate, name);
    if (!made.terms().empty()) narrow(made, range);
    return made;
}

Linear Graph::product(const Linear& value, const Linear& gate, std::string_view name) {
    const Interval values = range(value);
    const Interval gates = range(gate);
    if (gates.high <= 0 || value.terms().empty()) return {};  // never lets anything through
    const auto [found, is_new] = products_.try_emplace({value, gate}, static_cast<Dim>(dims_.size()));
    if (!is_new) return Linear(found->second);
    const Wide one = Wide{values.low} * gates.high;
    const Wide other = Wide{values.high} * gates.high;
    Interval result{saturate(std::min<Wide>(one, 0)), saturate(std::max<Wide>(other, 0))};
    return add({DimKind::Product, std::string(name), result, false, value, gate, -1});
}

Linear Graph::step(const Linear& number, std::string_view name) {
    const Interval range = this->range(number);
    if (range.low >= 0) return one();
    if (range.high < 0) return {};
    const Linear above = product(one(), number + one(), std::string(name) + "+");
    const Linear at = product(one(), number, std::string(name) + "-");
    const Linear flag = sum(above - at, name);
    narrow(flag, {0, 1});
    dims_[static_cast<std::size_t>(flag.terms().begin()->first)].assumed = false;  // relu(n + 1) - relu(n) is a step
    return flag;
}

Linear Graph::sum(const Linear& number, std::string_view name) {
    if (number.terms().size() == 1 && number.terms().begin()->second == 1) return number;
    const auto [found, is_new] = sums_.try_emplace(number, static_cast<Dim>(dims_.size()));
    if (!is_new) return Linear(found->second);
    return add({DimKind::Sum, std::string(name), range(number), false, number, {}, -1});
}

Linear Graph::square(const Linear& number, std::string_view name) {
    if (number.terms().empty()) return {};
    if (number == position()) return Linear(kPositionSquare);
    if (number.terms().size() == 1 && number.terms().begin()->first == kOne) {
        const std::int64_t value = number.terms().begin()->second;
        return constant(value * value);
    }
    CHECK(range(number).low >= 0);  // relu(k) * k
    return product(number, number, name);
}

std::vector<Linear> Graph::look_up(LookUp look_up) {
    std::vector<Linear> results;
    for (std::size_t i = 0; i < look_up.values.size(); ++i) {
        const Interval range = this->range(look_up.values[i]);
        Interval result{std::min<std::int64_t>(range.low, 0), std::max<std::int64_t>(range.high, 0)};
        if (look_up.tie == Tie::Sum) {
            result = {saturate(Wide{result.low} * kMaxPosition), saturate(Wide{result.high} * kMaxPosition)};
        }
        DimNode node{DimKind::Result,
                     look_up.name + "." + std::to_string(i),
                     result,
                     false,
                     {},
                     {},
                     static_cast<int>(look_ups_.size())};
        results.push_back(add(std::move(node)));
        look_up.results.push_back(results.back().terms().begin()->first);
    }
    look_ups_.push_back(std::move(look_up));
    return results;
}

std::vector<Linear> Graph::gather(const Linear& at, std::vector<Linear> values, std::string_view name) {
    return look_up(
        {std::string(name), at, position(), Linear(kPositionSquare), {}, std::move(values), Tie::Latest, {}});
}

std::vector<Linear> Graph::latest(const Linear& member, std::vector<Linear> values, std::string_view name) {
    return look_up({std::string(name), {}, {}, {}, one() - member, std::move(values), Tie::Latest, {}});
}

std::vector<Linear> Graph::latest_by_key(const Linear& query, const Linear& key, const Linear& member,
                                         std::vector<Linear> values, std::string_view name) {
    const Linear kept = sum(key, std::string(name) + " key");
    const Linear key_square = square(kept, std::string(name) + " key squared");
    return look_up({std::string(name), query, kept, key_square, one() - member, std::move(values), Tie::Latest, {}});
}

std::vector<Linear> Graph::running_sum(std::vector<Linear> values, std::string_view name) {
    return look_up({std::string(name), {}, {}, {}, {}, std::move(values), Tie::Sum, {}});
}

}  // namespace hearth::vm
