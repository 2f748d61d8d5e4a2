// Python's operators on template values.
#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja/ast.h"
#include "text/jinja/python_text.h"
#include "text/jinja/runtime.h"

namespace hearth::jinja {

namespace {

std::string_view sign_of(char operation) {
    switch (operation) {
        case operation::kAdd: return "+";
        case operation::kSubtract: return "-";
        case operation::kMultiply: return "*";
        case operation::kDivide: return "/";
        case operation::kFloor: return "//";
        case operation::kModulo: return "%";
        default: return "** or pow()";
    }
}

bool is_list_or_tuple(const Value& value) {
    const Sequence* sequence = value.as_sequence();
    return sequence != nullptr && (sequence->kind == SequenceKind::List || sequence->kind == SequenceKind::Tuple);
}

}  // namespace

Status Runtime::refuse_undefined(const Value& value) const {
    if (const Undefined* undefined = value.as_undefined()) {
        return fail(undefined->reason == nullptr ? "a value is undefined" : std::string_view(*undefined->reason));
    }
    return {};
}

Error Runtime::unsupported(std::string_view sign, const Value& left, const Value& right) const {
    return fail("unsupported operand type(s) for " + std::string(sign) + ": " + quoted_type(left) + " and " +
                quoted_type(right));
}

Result<bool> Runtime::equal(const Value& left, const Value& right) {
    TRY(charge(1));
    if (left.is_number() && right.is_number()) {
        std::int64_t a = 0;
        std::int64_t b = 0;
        if (left.to_integer(a) && right.to_integer(b)) return a == b;
        double x = 0;
        double y = 0;
        left.to_number(x);
        right.to_number(y);
        return x == y;
    }
    const std::string* a = left.as_string();
    const std::string* b = right.as_string();
    if (a != nullptr && b != nullptr) {
        if (a == b) return true;
        if (a->size() != b->size()) return false;
        TRY(charge_work(a->size()));
        return *a == *b;
    }
    return equal_containers(left, right);
}

Result<bool> Runtime::equal_containers(const Value& left, const Value& right) {
    const Sequence* a = left.as_sequence();
    const Sequence* b = right.as_sequence();
    if (a != nullptr && b != nullptr && a != b) {
        if (a->kind != b->kind || a->kind == SequenceKind::Iterator || a->items.size() != b->items.size()) return false;
        for (std::size_t i = 0; i < a->items.size(); ++i) {
            if (!TRY(equal(a->items[i], b->items[i]))) return false;
        }
        return true;
    }
    const Dict* first = left.as_dict();
    const Dict* second = right.as_dict();
    if (first != nullptr && second != nullptr && first != second) {
        if (first->entries.size() != second->entries.size()) return false;
        for (const auto& [key, value] : first->entries) {
            const Value* other = second->find(key);
            if (other == nullptr || !TRY(equal(value, *other))) return false;
        }
        return true;
    }
    return left.same_object(right);
}

Result<bool> Runtime::less(const Value& left, const Value& right, std::string_view sign) {
    TRY(charge(1));
    TRY(refuse_undefined(left));
    TRY(refuse_undefined(right));
    if (left.is_number() && right.is_number()) {
        std::int64_t a = 0;
        std::int64_t b = 0;
        if (left.to_integer(a) && right.to_integer(b)) return a < b;
        double x = 0;
        double y = 0;
        left.to_number(x);
        right.to_number(y);
        return x < y;
    }
    const std::string* a = left.as_string();
    const std::string* b = right.as_string();
    if (a != nullptr && b != nullptr) {
        TRY(charge_work(std::min(a->size(), b->size())));
        return *a < *b;  // bytes of UTF-8 order as code points do
    }
    if (is_list_or_tuple(left) && is_list_or_tuple(right) && left.as_sequence()->kind == right.as_sequence()->kind) {
        const Values& x = left.as_sequence()->items;
        const Values& y = right.as_sequence()->items;
        for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
            if (!TRY(equal(x[i], y[i]))) return less(x[i], y[i], sign);
        }
        return x.size() < y.size();
    }
    return fail(quoted(sign) + " not supported between instances of " + quoted_type(left) + " and " +
                quoted_type(right));
}

Result<bool> Runtime::compare(char comparison, const Value& left, const Value& right) {
    const auto unordered = [&] {
        double x = 0;
        double y = 0;
        return left.to_number(x) && right.to_number(y) && (std::isnan(x) || std::isnan(y));
    };
    switch (comparison) {
        case comparison::kEqual: return equal(left, right);
        case comparison::kNotEqual: return !TRY(equal(left, right));
        case comparison::kLess: return less(left, right, "<");
        case comparison::kGreater: return less(right, left, ">");
        case comparison::kLessEqual: return !TRY(less(right, left, "<=")) && !unordered();
        case comparison::kGreaterEqual: return !TRY(less(left, right, ">=")) && !unordered();
        case comparison::kIn: return contains(right, left);
        default: return !TRY(contains(right, left));
    }
}

Result<bool> Runtime::contains(const Value& container, const Value& item) {
    if (const std::string* content = container.as_string()) {
        const std::string* needle = item.as_string();
        if (needle == nullptr) {
            return fail("'in <string>' requires string as left operand, not " + std::string(type_name(item)));
        }
        TRY(charge_work(content->size() + needle->size()));
        return find_text(*content, *needle) != std::string_view::npos;
    }
    if (const Dict* dict = container.as_dict()) {
        std::string identity;
        if (!item.is_undefined() && !key_identity(item, identity)) {
            return fail("unhashable type: " + quoted_type(item));
        }
        return dict->find(item) != nullptr;
    }
    if (!container.is_undefined() && container.as_sequence() == nullptr) {
        return fail("argument of type " + quoted_type(container) + " is not iterable");
    }
    const std::shared_ptr<const Sequence> items = TRY(iterate(container));
    for (const Value& candidate : items->items) {
        if (TRY(equal(candidate, item))) return true;
    }
    return false;
}

Result<Value> Runtime::binary(char operation, const Value& left, const Value& right) {
    TRY(refuse_undefined(left));
    if (operation != operation::kModulo || left.as_string() == nullptr) TRY(refuse_undefined(right));
    switch (operation) {
        case operation::kAdd: return add(left, right);
        case operation::kMultiply: return multiply(left, right);
        case operation::kPower: return power(left, right);
        case operation::kSubtract: {
            std::int64_t a = 0;
            std::int64_t b = 0;
            if (left.to_integer(a) && right.to_integer(b)) {
                std::int64_t difference = 0;
                if (__builtin_sub_overflow(a, b, &difference)) return fail("integer out of range");
                return Value(difference);
            }
            double x = 0;
            double y = 0;
            if (left.to_number(x) && right.to_number(y)) return Value(x - y);
            return unsupported("-", left, right);
        }
        default: return divide(operation, left, right);
    }
}

Result<Value> Runtime::add(const Value& left, const Value& right) {
    const std::string* a = left.as_string();
    const std::string* b = right.as_string();
    if (a != nullptr && b != nullptr) {
        TRY(charge_text(a->size() + b->size()));
        std::string joined;
        joined.reserve(a->size() + b->size());
        joined += *a;
        joined += *b;
        return Value(std::move(joined));
    }
    if (a != nullptr) {
        return fail("can only concatenate str (not \"" + std::string(type_name(right)) + "\") to str");
    }
    if (is_list_or_tuple(left) && is_list_or_tuple(right) && left.as_sequence()->kind == right.as_sequence()->kind) {
        const Values& first = left.as_sequence()->items;
        const Values& second = right.as_sequence()->items;
        TRY(charge(first.size() + second.size()));
        Values items(first);
        items.insert(items.end(), second.begin(), second.end());
        return sequence(left.as_sequence()->kind, std::move(items));
    }
    std::int64_t x = 0;
    std::int64_t y = 0;
    if (left.to_integer(x) && right.to_integer(y)) {
        std::int64_t sum = 0;
        if (__builtin_add_overflow(x, y, &sum)) return fail("integer out of range");
        return Value(sum);
    }
    double p = 0;
    double q = 0;
    if (left.to_number(p) && right.to_number(q)) return Value(p + q);
    return unsupported("+", left, right);
}

Result<Value> Runtime::repeat(const Value& content, std::int64_t count) {
    const std::size_t times = count < 0 ? 0 : static_cast<std::size_t>(count);
    std::size_t bytes = 0;
    if (const std::string* piece = content.as_string()) {
        if (__builtin_mul_overflow(piece->size(), times, &bytes)) return fail("repeats text beyond the limit");
        TRY(charge_text(bytes));
        std::string repeated;
        repeated.reserve(bytes);
        if (!piece->empty()) {
            for (std::size_t i = 0; i < times; ++i) repeated += *piece;
        }
        return Value(std::move(repeated));
    }
    const Values& pieces = content.as_sequence()->items;
    if (__builtin_mul_overflow(pieces.size(), times, &bytes) || bytes > limits_.steps) {
        return fail("repeats a list beyond the limit");
    }
    TRY(charge(bytes));
    TRY(charge_memory(bytes * sizeof(Value)));
    Values items;
    items.reserve(bytes);
    for (std::size_t i = 0; i < times && !pieces.empty(); ++i) items.insert(items.end(), pieces.begin(), pieces.end());
    return make_sequence(content.as_sequence()->kind, std::move(items));
}

Result<Value> Runtime::multiply(const Value& left, const Value& right) {
    std::int64_t x = 0;
    std::int64_t y = 0;
    if (left.to_integer(x) && right.to_integer(y)) {
        std::int64_t product = 0;
        if (__builtin_mul_overflow(x, y, &product)) return fail("integer out of range");
        return Value(product);
    }
    if ((left.as_string() != nullptr || is_list_or_tuple(left)) && right.to_integer(y)) return repeat(left, y);
    if ((right.as_string() != nullptr || is_list_or_tuple(right)) && left.to_integer(x)) return repeat(right, x);
    double p = 0;
    double q = 0;
    if (left.to_number(p) && right.to_number(q)) return Value(p * q);
    return unsupported("*", left, right);
}

Result<Value> Runtime::divide(char operation, const Value& left, const Value& right) {
    if (const std::string* pattern = left.as_string(); pattern != nullptr && operation == operation::kModulo) {
        const Sequence* tuple = right.as_sequence();
        const bool several = tuple != nullptr && tuple->kind == SequenceKind::Tuple;
        return text(TRY(format_percent(*pattern, several ? tuple->items : Values{right})));
    }
    double x = 0;
    double y = 0;
    if (!left.to_number(x) || !right.to_number(y)) return unsupported(sign_of(operation), left, right);
    if (y == 0) return fail("division by zero");
    std::int64_t a = 0;
    std::int64_t b = 0;
    const bool integers = left.to_integer(a) && right.to_integer(b);
    if (operation == operation::kDivide) return Value(x / y);
    if (!integers) {
        double remainder = std::fmod(x, y);
        if (remainder != 0 && (remainder < 0) != (y < 0)) remainder += y;
        if (operation == operation::kModulo) return Value(remainder == 0 ? std::copysign(0.0, y) : remainder);
        return Value(std::floor(x / y));
    }
    if (a == std::numeric_limits<std::int64_t>::min() && b == -1) return fail("integer out of range");
    const std::int64_t remainder = a % b;
    const bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
    if (operation == operation::kModulo) return Value(adjust ? remainder + b : remainder);
    return Value(a / b - (adjust ? 1 : 0));
}

Result<Value> Runtime::power(const Value& left, const Value& right) {
    std::int64_t base = 0;
    std::int64_t exponent = 0;
    if (left.to_integer(base) && right.to_integer(exponent) && exponent >= 0) {
        std::int64_t result = 1;
        std::int64_t square = base;
        for (std::int64_t rest = exponent; rest > 0; rest /= 2) {
            if (rest % 2 == 1 && __builtin_mul_overflow(result, square, &result)) return fail("integer out of range");
            if (rest > 1 && __builtin_mul_overflow(square, square, &square)) return fail("integer out of range");
        }
        return Value(result);
    }
    double x = 0;
    double y = 0;
    if (!left.to_number(x) || !right.to_number(y)) return unsupported("** or pow()", left, right);
    if (x == 0 && y < 0) return fail("0.0 cannot be raised to a negative power");
    const double result = std::pow(x, y);
    if (!std::isfinite(result)) return fail("number out of range");
    return Value(result);
}

Result<Value> Runtime::negative(const Value& operand) {
    TRY(refuse_undefined(operand));
    std::int64_t integer = 0;
    if (operand.to_integer(integer)) {
        if (integer == std::numeric_limits<std::int64_t>::min()) return fail("integer out of range");
        return Value(-integer);
    }
    if (const double* real = operand.as_float()) return Value(-*real);
    return fail("bad operand type for unary -: " + quoted_type(operand));
}

Result<Value> Runtime::positive(const Value& operand) {
    TRY(refuse_undefined(operand));
    std::int64_t integer = 0;
    if (operand.to_integer(integer)) return Value(integer);
    if (operand.as_float() != nullptr) return operand;
    return fail("bad operand type for unary +: " + quoted_type(operand));
}

}  // namespace hearth::jinja
