#include "text/jinja/value.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace hearth::jinja {

namespace {

constexpr std::size_t kTupleKeyLimit = 1 << 16;
constexpr std::size_t kIndexFrom = 9;  // below it a walk is faster than hashing

bool has_number_identity(const Value& key, std::string& out) {
    std::int64_t integer = 0;
    if (key.to_integer(integer)) {
        out += 'i' + std::to_string(integer) + ';';
        return true;
    }
    const double* real = key.as_float();
    if (real == nullptr) return false;
    // A whole float equals the integer of the same value, so it must have the same identity.
    if (std::abs(*real) < 9e15 && *real == std::floor(*real)) {
        out += 'i' + std::to_string(static_cast<std::int64_t>(*real)) + ';';
    } else {
        out += 'f' + std::to_string(std::bit_cast<std::uint64_t>(*real)) + ';';
    }
    return true;
}

std::size_t deepest(const Values& items) {
    std::size_t depth = 0;
    for (const Value& item : items) depth = std::max(depth, item.depth());
    return depth;
}

}  // namespace

Value Value::undefined(std::string reason) {
    return Value(Undefined{std::make_shared<const std::string>(std::move(reason))});
}

bool Value::to_integer(std::int64_t& out) const {
    if (const std::int64_t* integer = as_int()) {
        out = *integer;
        return true;
    }
    if (const bool* flag = as_bool()) {
        out = *flag ? 1 : 0;
        return true;
    }
    return false;
}

bool Value::to_number(double& out) const {
    std::int64_t integer = 0;
    if (to_integer(integer)) {
        out = static_cast<double>(integer);
        return true;
    }
    if (const double* real = as_float()) {
        out = *real;
        return true;
    }
    return false;
}

bool Value::is_number() const {
    return as_bool() != nullptr || as_int() != nullptr || as_float() != nullptr;
}

std::size_t Value::depth() const {
    if (const Sequence* sequence = as_sequence()) return sequence->depth;
    if (const Dict* dict = as_dict()) return dict->depth;
    if (const Loop* loop = as_loop()) return loop->depth;
    if (const Callable* callable = as_callable()) return callable->depth;
    return as_namespace() != nullptr ? 1 : 0;
}

bool Value::same_object(const Value& other) const {
    if (data_.index() != other.data_.index()) return false;
    if (const bool* flag = as_bool()) return *flag == *other.as_bool();
    if (const std::int64_t* integer = as_int()) return *integer == *other.as_int();
    if (const double* real = as_float()) return *real == *other.as_float();
    if (const std::string* text = as_string()) return text == other.as_string() || *text == *other.as_string();
    if (const Sequence* sequence = as_sequence()) return sequence == other.as_sequence();
    if (const Dict* dict = as_dict()) return dict == other.as_dict();
    if (const Namespace* names = as_namespace()) return names == other.as_namespace();
    if (const Loop* loop = as_loop()) return loop == other.as_loop();
    if (const Callable* callable = as_callable()) return callable == other.as_callable();
    return true;
}

bool key_identity(const Value& key, std::string& out) {
    if (const std::string* text = key.as_string()) {
        out += 's' + std::to_string(text->size()) + ':' + *text;
        return true;
    }
    if (has_number_identity(key, out)) return true;
    if (key.is_none()) {
        out += 'n';
        return true;
    }
    const Sequence* sequence = key.as_sequence();
    if (sequence == nullptr || sequence->kind != SequenceKind::Tuple) return false;
    out += '(';
    for (const Value& item : sequence->items) {
        // Tuples of tuples may share their parts and be exponentially long written out.
        if (out.size() > kTupleKeyLimit || !key_identity(item, out)) return false;
    }
    out += ')';
    return true;
}

const Value* Dict::find(std::string_view key) const {
    if (index_.empty()) {
        for (const auto& [name, value] : entries) {
            const std::string* text = name.as_string();
            if (text != nullptr && *text == key) return &value;
        }
        return nullptr;
    }
    const auto found = index_.find('s' + std::to_string(key.size()) + ':' + std::string(key));
    return found == index_.end() ? nullptr : &entries[found->second].second;
}

const Value* Dict::find(const Value& key) const {
    if (const std::string* text = key.as_string()) return find(std::string_view(*text));
    std::string identity;
    if (!key_identity(key, identity)) return nullptr;
    if (!index_.empty()) {
        const auto found = index_.find(identity);
        return found == index_.end() ? nullptr : &entries[found->second].second;
    }
    for (const auto& [name, value] : entries) {
        std::string other;
        if (key_identity(name, other) && other == identity) return &value;
    }
    return nullptr;
}

void Dict::put(Value key, Value value) {
    depth = std::max({depth, 1 + value.depth(), 1 + key.depth()});
    if (const Value* present = find(key)) {
        const auto place =
            std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return &e.second == present; });
        place->second = std::move(value);
        return;
    }
    entries.emplace_back(std::move(key), std::move(value));
    if (entries.size() < kIndexFrom) return;
    for (std::size_t i = index_.size(); i < entries.size(); ++i) {
        std::string identity;
        key_identity(entries[i].first, identity);
        index_.emplace(std::move(identity), i);
    }
}

Value make_sequence(SequenceKind kind, Values items) {
    auto sequence = std::make_shared<Sequence>();
    sequence->kind = kind;
    sequence->depth = 1 + deepest(items);
    sequence->items = std::move(items);
    return Value(std::shared_ptr<const Sequence>(std::move(sequence)));
}

Value make_dict(Dict dict) {
    return Value(std::make_shared<const Dict>(std::move(dict)));
}

Value from_json(const Json& json) {
    if (const bool* flag = json.as_bool()) return Value(*flag);
    if (const std::int64_t* integer = json.as_int()) return Value(*integer);
    if (const double* real = json.as_double()) return Value(*real);
    if (const std::string* text = json.as_string()) return Value(*text);
    if (const Json::Array* array = json.as_array()) {
        Values items;
        items.reserve(array->size());
        for (const Json& item : *array) items.push_back(from_json(item));
        return make_sequence(SequenceKind::List, std::move(items));
    }
    if (const Json::Object* object = json.as_object()) {
        Dict dict;
        dict.entries.reserve(object->size());
        for (const Json::Member& member : *object) dict.put(Value(member.first), from_json(member.second));
        return make_dict(std::move(dict));
    }
    return Value(None{});
}

bool truthy(const Value& value) {
    if (value.is_undefined() || value.is_none()) return false;
    if (const bool* flag = value.as_bool()) return *flag;
    if (const std::int64_t* integer = value.as_int()) return *integer != 0;
    if (const double* real = value.as_float()) return *real != 0;
    if (const std::string* text = value.as_string()) return !text->empty();
    if (const Sequence* sequence = value.as_sequence()) {
        return sequence->kind == SequenceKind::Iterator || !sequence->items.empty();
    }
    if (const Dict* dict = value.as_dict()) return !dict->entries.empty();
    return true;
}

std::string_view type_name(const Value& value) {
    if (value.is_undefined()) return "Undefined";
    if (value.is_none()) return "NoneType";
    if (value.as_bool() != nullptr) return "bool";
    if (value.as_int() != nullptr) return "int";
    if (value.as_float() != nullptr) return "float";
    if (value.as_string() != nullptr) return "str";
    if (value.as_dict() != nullptr) return "dict";
    if (value.as_namespace() != nullptr) return "Namespace";
    if (value.as_loop() != nullptr) return "LoopContext";
    if (const Sequence* sequence = value.as_sequence()) {
        switch (sequence->kind) {
            case SequenceKind::List: return "list";
            case SequenceKind::Tuple: return "tuple";
            case SequenceKind::Range: return "range";
            case SequenceKind::KeysView: return "dict_keys";
            case SequenceKind::ValuesView: return "dict_values";
            case SequenceKind::ItemsView: return "dict_items";
            case SequenceKind::Iterator: return "generator";
        }
    }
    return "function";
}

std::string quoted_type(const Value& value) {
    std::string text(1, '\'');
    text += type_name(value);
    text += '\'';
    return text;
}

}  // namespace hearth::jinja
