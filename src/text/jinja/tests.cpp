// The tests after `is`.
#include <algorithm>

#include "text/jinja/ast.h"
#include "text/jinja/python_text.h"
#include "text/jinja/runtime.h"

namespace hearth::jinja {

namespace {

struct NamedComparison {
    std::string_view name;
    char comparison;
};
constexpr NamedComparison kComparisons[] = {
    {"==", comparison::kEqual},        {"eq", comparison::kEqual},
    {"equalto", comparison::kEqual},   {"!=", comparison::kNotEqual},
    {"ne", comparison::kNotEqual},     {">", comparison::kGreater},
    {"gt", comparison::kGreater},      {"greaterthan", comparison::kGreater},
    {">=", comparison::kGreaterEqual}, {"ge", comparison::kGreaterEqual},
    {"<", comparison::kLess},          {"lt", comparison::kLess},
    {"lessthan", comparison::kLess},   {"<=", comparison::kLessEqual},
    {"le", comparison::kLessEqual},    {"in", comparison::kIn},
};

using Predicate = bool (*)(const Value&);
struct NamedPredicate {
    std::string_view name;
    Predicate holds;
};

bool is_iterable(const Value& value) {
    return value.is_undefined() || value.as_string() != nullptr || value.as_sequence() != nullptr ||
           value.as_dict() != nullptr || value.as_loop() != nullptr;
}
bool is_sequence(const Value& value) {
    const Sequence* sequence = value.as_sequence();
    if (sequence == nullptr) return value.is_undefined() || value.as_string() != nullptr || value.as_dict() != nullptr;
    return sequence->kind == SequenceKind::List || sequence->kind == SequenceKind::Tuple ||
           sequence->kind == SequenceKind::Range;
}
bool has_case(const Value& value, std::string (*convert)(std::string_view)) {
    const std::string* text = value.as_string();
    return text != nullptr && convert(*text) == *text && to_upper(*text) != to_lower(*text);
}

constexpr NamedPredicate kPredicates[] = {
    {"defined", [](const Value& v) { return !v.is_undefined(); }},
    {"undefined", [](const Value& v) { return v.is_undefined(); }},
    {"none", [](const Value& v) { return v.is_none(); }},
    {"string", [](const Value& v) { return v.as_string() != nullptr; }},
    {"mapping", [](const Value& v) { return v.as_dict() != nullptr; }},
    {"iterable", is_iterable},
    {"sequence", is_sequence},
    {"number", [](const Value& v) { return v.is_number(); }},
    {"integer", [](const Value& v) { return v.as_int() != nullptr; }},
    {"float", [](const Value& v) { return v.as_float() != nullptr; }},
    {"boolean", [](const Value& v) { return v.as_bool() != nullptr; }},
    {"true", [](const Value& v) { return v.as_bool() != nullptr && *v.as_bool(); }},
    {"false", [](const Value& v) { return v.as_bool() != nullptr && !*v.as_bool(); }},
    {"callable",
     [](const Value& v) { return v.as_callable() != nullptr || v.as_loop() != nullptr || v.is_undefined(); }},
    {"lower", [](const Value& v) { return has_case(v, to_lower); }},
    {"upper", [](const Value& v) { return has_case(v, to_upper); }},
    {"escaped", [](const Value&) { return false; }},
};

template <typename Table>
auto find_named(const Table& table, std::string_view name) {
    return std::find_if(std::begin(table), std::end(table), [&](const auto& entry) { return entry.name == name; });
}

}  // namespace

bool is_known_test(std::string_view name) {
    constexpr std::string_view kOthers[] = {"odd", "even", "divisibleby", "sameas", "filter", "test"};
    return find_named(kPredicates, name) != std::end(kPredicates) ||
           find_named(kComparisons, name) != std::end(kComparisons) ||
           std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers);
}

Result<bool> Runtime::test(std::string_view name, const Value& input, const Arguments& arguments) {
    TRY(charge(1));
    if (const auto* predicate = find_named(kPredicates, name); predicate != std::end(kPredicates)) {
        TRY(Bound::bind(*this, name, arguments, {}));
        if (const std::string* content = input.as_string())
            TRY(charge_work(name.ends_with("er") ? content->size() : 0));
        return predicate->holds(input);
    }
    if (const auto* named = find_named(kComparisons, name); named != std::end(kComparisons)) {
        const Bound bound = TRY(Bound::bind(*this, name, arguments, {"other"}, 1));
        return compare(named->comparison, input, *bound[0]);
    }
    if (name == "sameas") {
        const Bound bound = TRY(Bound::bind(*this, name, arguments, {"other"}, 1));
        return input.same_object(*bound[0]);
    }
    if (name == "filter" || name == "test") {
        const std::string* wanted = input.as_string();
        return wanted != nullptr && (name == "filter" ? is_known_filter(*wanted) : is_known_test(*wanted));
    }
    if (name == "odd" || name == "even") {
        const Value rest = TRY(binary(operation::kModulo, input, Value(std::int64_t{2})));
        return equal(rest, Value(std::int64_t{name == "odd" ? 1 : 0}));
    }
    if (name == "divisibleby") {
        const Bound bound = TRY(Bound::bind(*this, name, arguments, {"num"}, 1));
        return equal(TRY(binary(operation::kModulo, input, *bound[0])), Value(std::int64_t{0}));
    }
    return fail("No test named " + quoted(name) + ".");
}

}  // namespace hearth::jinja
