// Filters of sequences and dicts.
#include <algorithm>
#include <unordered_set>

#include "text/jinja/ast.h"
#include "text/jinja/filters.h"
#include "text/jinja/python_text.h"

namespace hearth::jinja {

namespace {

using Items = std::shared_ptr<const Sequence>;

// A key for comparing: strings lose their case unless asked not to.
Result<Value> comparison_key(Runtime& runtime, const Value& item, const Value* attribute, bool case_sensitive) {
    Value key = attribute == nullptr || attribute->is_none() ? item : TRY(runtime.attribute_path(item, *attribute));
    if (case_sensitive || key.as_string() == nullptr) return key;
    return runtime.text(to_lower(*key.as_string()));
}

Result<Value> first_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    TRY(Bound::bind(runtime, "first", arguments, {}));
    const Items items = TRY(runtime.iterate(input));
    return items->items.empty() ? Value::undefined("No first item, sequence was empty.") : items->items.front();
}

Result<Value> last_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    TRY(Bound::bind(runtime, "last", arguments, {}));
    const Items items = TRY(runtime.iterate(input));
    return items->items.empty() ? Value::undefined("No last item, sequence was empty.") : items->items.back();
}

Result<Value> list_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    TRY(Bound::bind(runtime, "list", arguments, {}));
    const Items items = TRY(runtime.iterate(input));
    TRY(runtime.charge(items->items.size() / 4));
    return runtime.sequence(SequenceKind::List, items->items);
}

Result<Value> join_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, "join", arguments, {"d", "attribute"}));
    const std::string separator = bound[0] == nullptr ? "" : TRY(runtime.print(*bound[0]));
    if (!bound.has(1) || bound[1]->is_none()) return runtime.join(input, separator, Runtime::JoinElements::Printed);
    const Items items = TRY(runtime.iterate(input));
    Values picked;
    for (const Value& item : items->items) picked.push_back(TRY(runtime.attribute_path(item, *bound[1])));
    return runtime.join(TRY(runtime.sequence(SequenceKind::List, std::move(picked))), separator,
                        Runtime::JoinElements::Printed);
}

Result<Value> reverse_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    TRY(Bound::bind(runtime, "reverse", arguments, {}));
    if (const std::string* text = input.as_string()) {
        TRY(runtime.charge_memory(text->size() * sizeof(std::string_view)));
        std::vector<std::string_view> points = code_points(*text);
        std::string out;
        for (auto point = points.rbegin(); point != points.rend(); ++point) out += *point;
        return runtime.text(std::move(out));
    }
    const Items items = TRY(runtime.iterate(input));
    TRY(runtime.charge(items->items.size() / 4));
    return runtime.sequence(SequenceKind::Iterator, Values(items->items.rbegin(), items->items.rend()));
}

Result<Value> items_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    TRY(Bound::bind(runtime, "items", arguments, {}));
    if (input.is_undefined()) return runtime.sequence(SequenceKind::Iterator, {});
    if (input.as_dict() == nullptr) return runtime.fail("Can only get item pairs from a mapping.");
    return runtime.dict_items(*input.as_dict(), SequenceKind::Iterator);
}

Result<Value> dictsort_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, "dictsort", arguments, {"case_sensitive", "by", "reverse"}));
    TRY(runtime.refuse_undefined(input));
    if (input.as_dict() == nullptr) return runtime.fail("dictsort needs a mapping");
    const bool by_value = bound.text(1) != nullptr && *bound.text(1) == "value";
    if (bound.text(1) != nullptr && !by_value && *bound.text(1) != "key") {
        return runtime.fail("You can only sort by either \"key\" or \"value\"");
    }
    Values items = TRY(runtime.dict_items(*input.as_dict(), SequenceKind::List)).as_sequence()->items;
    Values keys;
    for (const auto& [key, value] : input.as_dict()->entries) {
        keys.push_back(TRY(comparison_key(runtime, by_value ? value : key, nullptr, bound.flag(0, false))));
    }
    TRY(runtime.sort(items, std::move(keys), bound.flag(2, false)));
    return runtime.sequence(SequenceKind::List, std::move(items));
}

Result<Value> sort_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, "sort", arguments, {"reverse", "case_sensitive", "attribute"}));
    Values items = TRY(runtime.iterate(input))->items;
    Values keys;
    for (const Value& item : items) {
        keys.push_back(TRY(comparison_key(runtime, item, bound[2], bound.flag(1, false))));
    }
    TRY(runtime.charge(items.size()));
    TRY(runtime.sort(items, std::move(keys), bound.flag(0, false)));
    return runtime.sequence(SequenceKind::List, std::move(items));
}

Result<Value> unique_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, "unique", arguments, {"case_sensitive", "attribute"}));
    const Items items = TRY(runtime.iterate(input));
    std::unordered_set<std::string> seen;
    Values kept;
    for (const Value& item : items->items) {
        const Value key = TRY(comparison_key(runtime, item, bound[1], bound.flag(0, false)));
        std::string identity;
        if (!key_identity(key, identity)) return runtime.fail("unhashable type: " + quoted(type_name(key)));
        TRY(runtime.charge(1));
        TRY(runtime.charge_memory(identity.size()));
        if (seen.insert(std::move(identity)).second) kept.push_back(item);
    }
    return runtime.sequence(SequenceKind::Iterator, std::move(kept));
}

Result<Value> sum_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, "sum", arguments, {"attribute", "start"}));
    const Items items = TRY(runtime.iterate(input));
    Value total = bound[1] == nullptr ? Value(std::int64_t{0}) : *bound[1];
    if (total.as_string() != nullptr) return runtime.fail("sum() can't sum strings [use ''.join(seq) instead]");
    const bool by_attribute = bound.has(0) && !bound[0]->is_none();
    for (const Value& item : items->items) {
        TRY(runtime.charge(1));
        const Value term = by_attribute ? TRY(runtime.attribute_path(item, *bound[0])) : item;
        total = TRY(runtime.binary(operation::kAdd, total, term));
    }
    return total;
}

template <bool want_max>
Result<Value> extreme_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, want_max ? "max" : "min", arguments, {"case_sensitive", "attribute"}));
    const Items items = TRY(runtime.iterate(input));
    if (items->items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
    const Value* best = nullptr;
    Value best_key;
    for (const Value& item : items->items) {
        const Value key = TRY(comparison_key(runtime, item, bound[1], bound.flag(0, false)));
        if (best == nullptr || (want_max ? TRY(runtime.less(best_key, key)) : TRY(runtime.less(key, best_key)))) {
            best = &item;
            best_key = key;
        }
    }
    return *best;
}

Result<Value> map_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Items items = TRY(runtime.iterate(input));
    Values mapped;
    if (arguments.positional.empty()) {
        const Bound bound = TRY(Bound::bind(runtime, "map", arguments, {"attribute", "default"}, 1));
        for (const Value& item : items->items) {
            mapped.push_back(TRY(runtime.attribute_path(item, *bound[0], bound[1])));
        }
        return runtime.sequence(SequenceKind::Iterator, std::move(mapped));
    }
    const std::string* name = arguments.positional[0].as_string();
    if (name == nullptr) return runtime.fail("map needs the name of a filter or attribute=");
    Arguments rest;
    rest.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
    rest.named = arguments.named;
    if (*name == "map" || *name == "select" || *name == "reject") return runtime.fail("map does not nest");
    for (const Value& item : items->items) mapped.push_back(TRY(runtime.filter(*name, item, rest)));
    return runtime.sequence(SequenceKind::Iterator, std::move(mapped));
}

// select, reject, selectattr and rejectattr: [attribute,] [test name, arguments...].
template <bool keep, bool by_attribute>
Result<Value> select_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Items items = TRY(runtime.iterate(input));
    const std::size_t taken = by_attribute ? 1 : 0;
    if (arguments.positional.size() < taken) return runtime.fail("Missing parameter for attribute name");
    const std::string* name = nullptr;
    Arguments rest;
    if (arguments.positional.size() > taken) {
        name = arguments.positional[taken].as_string();
        if (name == nullptr) return runtime.fail("the name of a test is expected");
        rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(taken) + 1,
                               arguments.positional.end());
        rest.named = arguments.named;
    }
    Values kept;
    for (const Value& item : items->items) {
        TRY(runtime.charge(1));
        const Value tested = by_attribute ? TRY(runtime.attribute_path(item, arguments.positional[0])) : item;
        const bool holds = name == nullptr ? truthy(tested) : TRY(runtime.test(*name, tested, rest));
        if (holds == keep) kept.push_back(item);
    }
    return runtime.sequence(SequenceKind::Iterator, std::move(kept));
}

Result<Value> batch_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, "batch", arguments, {"linecount", "fill_with"}, 1));
    const Items items = TRY(runtime.iterate(input));
    const std::int64_t size = bound.integer(0, 0);
    if (size < 1 || static_cast<std::size_t>(size) > runtime.limits().steps)
        return runtime.fail("batch: size out of range");
    TRY(runtime.charge(items->items.size() + static_cast<std::size_t>(size)));
    Values batches;
    for (std::size_t start = 0; start < items->items.size(); start += static_cast<std::size_t>(size)) {
        const std::size_t end = std::min(start + static_cast<std::size_t>(size), items->items.size());
        Values batch(items->items.begin() + static_cast<std::ptrdiff_t>(start),
                     items->items.begin() + static_cast<std::ptrdiff_t>(end));
        if (bound.has(1) && !bound[1]->is_none()) batch.resize(static_cast<std::size_t>(size), *bound[1]);
        batches.push_back(TRY(runtime.sequence(SequenceKind::List, std::move(batch))));
    }
    return runtime.sequence(SequenceKind::Iterator, std::move(batches));
}

// Tuples (grouper, list), ordered by the grouper.
Result<Value> groupby_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, "groupby", arguments, {"attribute", "default", "case_sensitive"}, 1));
    Values items = TRY(runtime.iterate(input))->items;
    const auto grouper = [&](const Value& item) -> Result<Value> {
        return comparison_key(runtime, TRY(runtime.attribute_path(item, *bound[0], bound[1])), nullptr,
                              bound.flag(2, false));
    };
    Values keys;
    for (const Value& item : items) keys.push_back(TRY(grouper(item)));
    TRY(runtime.sort(items, std::move(keys), false));
    Values groups;
    for (std::size_t start = 0; start < items.size();) {
        const Value key = TRY(grouper(items[start]));
        Values members;
        std::size_t end = start;
        for (; end < items.size() && TRY(runtime.equal(key, TRY(grouper(items[end])))); ++end)
            members.push_back(items[end]);
        if (end == start) members.push_back(items[end++]);  // a key unequal to itself (NaN)
        const Value shown = TRY(runtime.attribute_path(items[start], *bound[0], bound[1]));
        groups.push_back(TRY(runtime.sequence(SequenceKind::Tuple,
                                              {shown, TRY(runtime.sequence(SequenceKind::List, std::move(members)))})));
        start = end;
    }
    return runtime.sequence(SequenceKind::List, std::move(groups));
}

constexpr NamedFilter kSequenceFilters[] = {
    {"batch", batch_filter},
    {"dictsort", dictsort_filter},
    {"first", first_filter},
    {"groupby", groupby_filter},
    {"items", items_filter},
    {"join", join_filter},
    {"last", last_filter},
    {"list", list_filter},
    {"map", map_filter},
    {"max", extreme_filter<true>},
    {"min", extreme_filter<false>},
    {"reject", select_filter<false, false>},
    {"rejectattr", select_filter<false, true>},
    {"reverse", reverse_filter},
    {"select", select_filter<true, false>},
    {"selectattr", select_filter<true, true>},
    {"sort", sort_filter},
    {"sum", sum_filter},
    {"unique", unique_filter},
};

}  // namespace

std::span<const NamedFilter> sequence_filters() {
    return kSequenceFilters;
}

Result<Value> Runtime::join(const Value& items, std::string_view separator, JoinElements elements) {
    const Items parts = TRY(iterate(items));
    std::string out;
    for (std::size_t i = 0; i < parts->items.size(); ++i) {
        TRY(charge(1));
        const Value& part = parts->items[i];
        if (elements == JoinElements::OnlyText && part.as_string() == nullptr) {
            return fail("sequence item " + std::to_string(i) + ": expected str instance, " +
                        std::string(type_name(part)) + " found");
        }
        if (i > 0) out += separator;
        out += TRY(print(part));
        if (out.size() > limits_.output_bytes) return fail("makes a text longer than the limit");
    }
    return text(std::move(out));
}

Result<Value> Runtime::dict_items(const Dict& content, SequenceKind kind) {
    TRY(charge(content.entries.size()));
    Values pairs;
    pairs.reserve(content.entries.size());
    for (const auto& [key, value] : content.entries) pairs.push_back(TRY(sequence(SequenceKind::Tuple, {key, value})));
    return sequence(kind, std::move(pairs));
}

}  // namespace hearth::jinja
