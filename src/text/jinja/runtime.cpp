#include "text/jinja/runtime.h"

#include <algorithm>

#include "text/jinja/lexer.h"
#include "text/jinja/python_text.h"

namespace hearth::jinja {

namespace {

constexpr std::size_t kMemoryPerOutput = 16;  // bytes a rendering may make for each byte it may print

}  // namespace

Runtime::Runtime(TemplateLimits limits, double now_seconds)
    : limits_(limits), now_seconds_(now_seconds), memory_limit_(limits.output_bytes * kMemoryPerOutput) {}

Error Runtime::fail(std::string_view reason) const {
    return template_error(line_, reason);
}

Status Runtime::charge(std::size_t steps) {
    steps_ += steps;
    if (steps_ > limits_.steps) return fail("more steps than the limit of " + std::to_string(limits_.steps));
    return {};
}

Status Runtime::charge_memory(std::size_t bytes) {
    if (bytes > memory_limit_ - memory_) {
        return fail("makes more data than the limit of " + std::to_string(memory_limit_) + " bytes");
    }
    memory_ += bytes;
    return {};
}

Status Runtime::charge_text(std::size_t bytes) {
    if (bytes > limits_.output_bytes) {
        return fail("makes a text longer than the limit of " + std::to_string(limits_.output_bytes) + " bytes");
    }
    return charge_memory(bytes);
}

Result<Value> Runtime::text(std::string content) {
    TRY(charge_text(content.size()));
    return Value(std::move(content));
}

Result<Value> Runtime::sequence(SequenceKind kind, Values items) {
    TRY(charge_memory(items.size() * sizeof(Value)));
    Value made = make_sequence(kind, std::move(items));
    if (made.depth() > kValueDepthLimit) {
        return fail("values nested deeper than the limit of " + std::to_string(kValueDepthLimit));
    }
    return made;
}

Result<Value> Runtime::dict(Dict content) {
    TRY(charge_memory(content.entries.size() * 4 * sizeof(Value)));
    if (content.depth > kValueDepthLimit) {
        return fail("values nested deeper than the limit of " + std::to_string(kValueDepthLimit));
    }
    return make_dict(std::move(content));
}

Value Runtime::make_namespace(Dict attributes) {
    auto made = std::make_shared<Namespace>();
    made->attributes = std::move(attributes);
    namespaces_.push_back(made);
    return Value(std::move(made));
}

void Runtime::drop_namespaces() {
    for (const std::shared_ptr<Namespace>& names : namespaces_) names->attributes = Dict{};
    namespaces_.clear();
}

Status Runtime::sort(Values& items, Values keys, bool reverse) {
    // A merge sort of our own: std::sort may run out of bounds when keys do not order (NaN), and comparing can fail.
    std::vector<std::size_t> order(items.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::vector<std::size_t> merged(order.size());
    for (std::size_t width = 1; width < order.size(); width *= 2) {
        for (std::size_t start = 0; start < order.size(); start += 2 * width) {
            const std::size_t middle = std::min(start + width, order.size());
            const std::size_t end = std::min(start + 2 * width, order.size());
            std::size_t left = start;
            std::size_t right = middle;
            for (std::size_t out = start; out < end; ++out) {
                bool take_right = left == middle;
                if (!take_right && right < end) {
                    const Value& a = keys[order[left]];
                    const Value& b = keys[order[right]];
                    take_right = reverse ? TRY(less(a, b)) : TRY(less(b, a));
                }
                merged[out] = order[take_right ? right++ : left++];
            }
        }
        order.swap(merged);
    }
    Values sorted;
    sorted.reserve(items.size());
    for (const std::size_t i : order) sorted.push_back(std::move(items[i]));
    items = std::move(sorted);
    return {};
}

Status Runtime::write_repr(std::string& out, const Value& value, std::size_t level) {
    TRY(charge(1));
    if (out.size() > memory_limit_) return fail("makes more data than its limit");
    if (level > kValueDepthLimit) return fail("values nested deeper than the limit");
    if (const std::string* content = value.as_string()) {
        TRY(charge_work(content->size()));
        out += quoted(*content);
    } else if (const Sequence* sequence = value.as_sequence()) {
        if (sequence->kind == SequenceKind::Iterator) {
            out += "<generator object>";
            return {};
        }
        const bool tuple = sequence->kind == SequenceKind::Tuple;
        const bool plain = tuple || sequence->kind == SequenceKind::List;
        if (!plain) out += std::string(type_name(value)) + "(";
        out += tuple ? '(' : '[';
        for (std::size_t i = 0; i < sequence->items.size(); ++i) {
            if (i > 0) out += ", ";
            TRY(write_repr(out, sequence->items[i], level + 1));
        }
        if (tuple && sequence->items.size() == 1) out += ',';
        out += tuple ? ")" : plain ? "]" : "])";
    } else if (value.as_dict() != nullptr || value.as_namespace() != nullptr) {
        const Dict& entries = value.as_dict() != nullptr ? *value.as_dict() : value.as_namespace()->attributes;
        out += value.as_dict() != nullptr ? "{" : "<Namespace {";
        bool first = true;
        for (const auto& [key, held] : entries.entries) {
            if (!first) out += ", ";
            first = false;
            TRY(write_repr(out, key, level + 1));
            out += ": ";
            TRY(write_repr(out, held, level + 1));
        }
        out += value.as_dict() != nullptr ? "}" : "}>";
    } else if (value.is_undefined()) {
        out += "Undefined";
    } else {
        out += TRY(print(value));
    }
    return {};
}

Result<std::string> Runtime::repr(const Value& value) {
    std::string out;
    TRY(write_repr(out, value, 0));
    TRY(charge_memory(out.size()));
    return out;
}

Result<std::string> Runtime::print(const Value& value) {
    if (const std::string* content = value.as_string()) {
        TRY(charge_work(content->size()));
        return *content;
    }
    if (value.is_undefined()) return std::string();
    if (value.is_none()) return std::string("None");
    if (const bool* flag = value.as_bool()) return std::string(*flag ? "True" : "False");
    if (const std::int64_t* integer = value.as_int()) return std::to_string(*integer);
    if (const double* real = value.as_float()) return float_text(*real);
    if (const Loop* loop = value.as_loop()) {
        return "<LoopContext " + std::to_string(loop->index + 1) + "/" + std::to_string(loop->items->items.size()) +
               ">";
    }
    if (const Callable* callable = value.as_callable()) {
        if (callable->kind == Callable::Kind::Macro) return "<Macro " + quoted(callable->name) + ">";
        return "<function " + callable->name + ">";
    }
    return repr(value);
}

Result<Bound> Bound::bind(const Runtime& runtime, std::string_view callee, const Arguments& arguments,
                          std::initializer_list<std::string_view> names, std::size_t required) {
    Bound bound;
    bound.values_.assign(names.size(), nullptr);
    if (arguments.positional.size() > names.size()) {
        return runtime.fail(std::string(callee) + "() takes at most " + std::to_string(names.size()) + " arguments, " +
                            std::to_string(arguments.positional.size()) + " are given");
    }
    for (std::size_t i = 0; i < arguments.positional.size(); ++i) bound.values_[i] = &arguments.positional[i];
    for (const auto& [name, value] : arguments.named) {
        const auto place = std::find(names.begin(), names.end(), name);
        if (place == names.end() || bound.values_[static_cast<std::size_t>(place - names.begin())] != nullptr) {
            return runtime.fail(std::string(callee) + "() got an unexpected keyword argument '" + name + "'");
        }
        bound.values_[static_cast<std::size_t>(place - names.begin())] = &value;
    }
    for (std::size_t i = 0; i < required; ++i) {
        if (bound.values_[i] == nullptr) {
            return runtime.fail(std::string(callee) + "() misses its argument '" + std::string(names.begin()[i]) + "'");
        }
    }
    return bound;
}

}  // namespace hearth::jinja
