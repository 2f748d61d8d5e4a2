// Iteration, length, attributes, items and slices of template values.
#include <algorithm>
#include <charconv>

#include "text/jinja/python_text.h"
#include "text/jinja/runtime.h"

namespace hearth::jinja {

namespace {

std::string object_name(const Value& object) {
    return object.is_none() ? "None" : std::string(type_name(object)) + " object";
}

Result<Value> loop_attribute(const Runtime& runtime, const Value& object, std::string_view name) {
    const Loop& loop = *object.as_loop();
    const Values& items = loop.items->items;
    if (name == "index") return Value::integer(loop.index + 1);
    if (name == "index0") return Value::integer(loop.index);
    if (name == "first") return Value(loop.index == 0);
    if (name == "last") return Value(loop.index + 1 == items.size());
    if (name == "length") return Value::integer(items.size());
    if (name == "revindex") return Value::integer(items.size() - loop.index);
    if (name == "revindex0") return Value::integer(items.size() - loop.index - 1);
    if (name == "depth") return Value::integer(loop.level + 1);
    if (name == "depth0") return Value::integer(loop.level);
    if (name == "previtem")
        return loop.index > 0 ? items[loop.index - 1] : Value::undefined("there is no previous item");
    if (name == "nextitem") {
        return loop.index + 1 < items.size() ? items[loop.index + 1] : Value::undefined("there is no next item");
    }
    if (name.starts_with('_')) return runtime.fail("access to attribute '" + std::string(name) + "' is unsafe");
    return Value::undefined("'LoopContext object' has no attribute " + quoted(name));
}

}  // namespace

Result<std::shared_ptr<const Sequence>> Runtime::iterate(const Value& value) {
    if (std::shared_ptr<const Sequence> sequence = value.shared_sequence()) {
        TRY(charge(1 + sequence->items.size() / 16));
        if (sequence->kind != SequenceKind::Iterator) return sequence;
        if (std::exchange(sequence->consumed, true)) return std::make_shared<const Sequence>();
        return sequence;
    }
    auto made = std::make_shared<Sequence>();
    if (const Dict* dict = value.as_dict()) {
        TRY(charge(dict->entries.size()));
        TRY(charge_memory(dict->entries.size() * sizeof(Value)));
        made->items.reserve(dict->entries.size());
        for (const auto& entry : dict->entries) made->items.push_back(entry.first);
    } else if (const std::string* content = value.as_string()) {
        TRY(charge(content->size()));
        TRY(charge_memory(content->size() * 64));  // a string object for each character
        for (const std::string_view point : code_points(*content)) made->items.emplace_back(point);
    } else if (!value.is_undefined()) {
        return fail(quoted_type(value) + " object is not iterable");
    }
    return std::shared_ptr<const Sequence>(std::move(made));
}

Result<std::size_t> Runtime::length(const Value& value) {
    if (value.is_undefined()) return std::size_t{0};
    if (const std::string* content = value.as_string()) {
        TRY(charge_work(content->size()));
        return code_point_count(*content);
    }
    if (const Dict* dict = value.as_dict()) return dict->entries.size();
    const Sequence* sequence = value.as_sequence();
    if (sequence == nullptr || sequence->kind == SequenceKind::Iterator) {
        return fail("object of type " + quoted_type(value) + " has no len()");
    }
    return sequence->items.size();
}

Result<Value> Runtime::attribute(const Value& object, std::string_view name) {
    TRY(refuse_undefined(object));
    if (object.as_loop() != nullptr && find_method(object, name) == MethodKind::None) {
        return loop_attribute(*this, object, name);
    }
    if (const Namespace* names = object.as_namespace()) {
        if (const Value* found = names->attributes.find(name)) return *found;
        return Value::undefined("'Namespace object' has no attribute " + quoted(name));
    }
    switch (find_method(object, name)) {
        case MethodKind::Safe: {
            auto callable = std::make_shared<Callable>();
            callable->kind = Callable::Kind::Method;
            callable->name = name;
            callable->self = object;
            callable->depth = 1 + object.depth();
            if (callable->depth > kValueDepthLimit) return fail("values nested deeper than the limit");
            return Value(std::shared_ptr<const Callable>(std::move(callable)));
        }
        case MethodKind::Unsafe:
            return Value::undefined("access to attribute " + quoted(name) + " of " + quoted(type_name(object)) +
                                    " object is unsafe.");
        case MethodKind::None: break;
    }
    if (const Dict* dict = object.as_dict()) {
        if (const Value* found = dict->find(name)) return *found;
    }
    const Callable* callable = object.as_callable();
    if (callable != nullptr && callable->kind == Callable::Kind::Macro && name == "name") return Value(callable->name);
    return Value::undefined(quoted(object_name(object)) + " has no attribute " + quoted(name));
}

Result<Value> Runtime::item(const Value& object, const Value& key) {
    TRY(refuse_undefined(object));
    std::int64_t index = 0;
    const Sequence* sequence = object.as_sequence();
    const bool indexed =
        sequence != nullptr && (sequence->kind == SequenceKind::List || sequence->kind == SequenceKind::Tuple ||
                                sequence->kind == SequenceKind::Range);
    if (const Dict* dict = object.as_dict()) {
        if (const Value* found = dict->find(key)) return *found;
    } else if (indexed && key.to_integer(index)) {
        const std::int64_t count = static_cast<std::int64_t>(sequence->items.size());
        if (index < 0) index += count;
        if (index >= 0 && index < count) return sequence->items[static_cast<std::size_t>(index)];
    } else if (const std::string* content = object.as_string(); content != nullptr && key.to_integer(index)) {
        TRY(charge_work(content->size()));
        const std::int64_t count = static_cast<std::int64_t>(code_point_count(*content));
        if (index < 0) index += count;
        if (index >= 0 && index < count) {
            std::size_t at = static_cast<std::size_t>(count) == content->size() ? static_cast<std::size_t>(index) : 0;
            for (std::int64_t i = static_cast<std::int64_t>(at); i < index; ++i)
                at += code_point_at(*content, at).length;
            return text(content->substr(at, code_point_at(*content, at).length));
        }
    }
    if (const std::string* name = key.as_string()) {
        if (object.as_dict() == nullptr || find_method(object, *name) != MethodKind::None)
            return attribute(object, *name);
        return Value::undefined(quoted(object_name(object)) + " has no attribute " + quoted(*name));
    }
    return Value::undefined(object_name(object) + " has no element " + TRY(repr(key)));
}

Result<Value> Runtime::slice(const Value& object, const Value& first, const Value& last, const Value& step) {
    TRY(refuse_undefined(object));
    const Sequence* sequence = object.as_sequence();
    const std::string* content = object.as_string();
    const bool sliced =
        sequence != nullptr && (sequence->kind == SequenceKind::List || sequence->kind == SequenceKind::Tuple ||
                                sequence->kind == SequenceKind::Range);
    if (content == nullptr && !sliced) return fail(quoted_type(object) + " object cannot be sliced");
    std::int64_t stride = 1;
    std::int64_t bounds[2] = {0, 0};
    const Value* given[2] = {&first, &last};
    if (!step.is_none() && !step.to_integer(stride)) return fail("slice indices must be integers or None");
    if (stride == 0) return fail("slice step cannot be zero");
    const std::int64_t count = static_cast<std::int64_t>(TRY(length(object)));
    for (int i = 0; i < 2; ++i) {
        const bool at_start = (i == 0) == (stride > 0);
        if (given[i]->is_none()) {
            bounds[i] = at_start ? (stride > 0 ? 0 : -1) : (stride > 0 ? count : count - 1);
            continue;
        }
        if (!given[i]->to_integer(bounds[i])) return fail("slice indices must be integers or None");
        if (bounds[i] < 0) bounds[i] += count;
        bounds[i] =
            std::clamp(bounds[i], stride > 0 ? std::int64_t{0} : std::int64_t{-1}, stride > 0 ? count : count - 1);
    }
    stride = std::clamp(stride, -count - 1, count + 1);
    if (content != nullptr) return slice_text(*content, bounds[0], bounds[1], stride);
    Values items;
    for (std::int64_t i = bounds[0]; stride > 0 ? i < bounds[1] : i > bounds[1]; i += stride) {
        items.push_back(sequence->items[static_cast<std::size_t>(i)]);
    }
    TRY(charge(items.size() / 4));
    return this->sequence(sequence->kind, std::move(items));
}

Result<Value> Runtime::slice_text(std::string_view content, std::int64_t first, std::int64_t last,
                                  std::int64_t stride) {
    TRY(charge_work(content.size()));
    if (stride == 1) {
        if (first >= last) return Value("");
        if (is_ascii(content)) {
            return text(
                std::string(content.substr(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first))));
        }
        std::size_t begin = 0;
        for (std::int64_t i = 0; i < first; ++i) begin += code_point_at(content, begin).length;
        std::size_t end = begin;
        for (std::int64_t i = first; i < last; ++i) end += code_point_at(content, end).length;
        return text(std::string(content.substr(begin, end - begin)));
    }
    TRY(charge_memory(content.size() * sizeof(std::string_view)));
    const std::vector<std::string_view> points = code_points(content);
    std::string taken;
    for (std::int64_t i = first; stride > 0 ? i < last : i > last; i += stride)
        taken += points[static_cast<std::size_t>(i)];
    return text(std::move(taken));
}

Result<Value> Runtime::attribute_path(const Value& object, const Value& path, const Value* otherwise) {
    const std::string* names = path.as_string();
    const auto or_otherwise = [&](Value found) {
        return found.is_undefined() && otherwise != nullptr && !otherwise->is_none() ? *otherwise : std::move(found);
    };
    if (names == nullptr) return or_otherwise(TRY(item(object, path)));
    Value reached = object;
    const std::string dot = ".";
    for (const std::string_view name : split(*names, &dot, -1)) {
        std::int64_t index = 0;
        const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
        const bool number = !name.empty() && error == std::errc{} && end == name.data() + name.size() && index >= 0;
        reached = or_otherwise(TRY(item(reached, number ? Value(index) : Value(name))));
    }
    return reached;
}

}  // namespace hearth::jinja
