// The values a template computes with: Python's, as far as templates see them. Data is shared and immutable (the
// sandbox of the original forbids mutation too); only namespaces and loops change, and the evaluator owns those until
// the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace hearth::jinja {

class Value;
struct Sequence;
struct Dict;
struct Namespace;
struct Loop;
struct Callable;

struct None {};
struct Undefined {
    std::shared_ptr<const std::string> reason;  // what an operation on it says, e.g. "'x' is undefined"; may be null
};

// Containers nest at most this deep: printing, comparing and destroying them recurses.
inline constexpr std::size_t kValueDepthLimit = 200;

class Value {
public:
    using Text = std::shared_ptr<const std::string>;

    Value() = default;  // undefined
    Value(None) : data_(None{}) {}
    Value(Undefined undefined) : data_(std::move(undefined)) {}
    Value(bool flag) : data_(flag) {}
    Value(std::int64_t integer) : data_(integer) {}
    Value(double real) : data_(real) {}
    Value(std::string text) : data_(std::make_shared<const std::string>(std::move(text))) {}
    Value(std::string_view text) : Value(std::string(text)) {}
    Value(const char* text) : Value(std::string(text)) {}
    Value(std::shared_ptr<const Sequence> sequence) : data_(std::move(sequence)) {}
    Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}
    Value(std::shared_ptr<Namespace> names) : data_(std::move(names)) {}
    Value(std::shared_ptr<Loop> loop) : data_(std::move(loop)) {}
    Value(std::shared_ptr<const Callable> callable) : data_(std::move(callable)) {}

    static Value integer(std::size_t count) { return Value(static_cast<std::int64_t>(count)); }
    static Value undefined(std::string reason);

    bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
    bool is_none() const { return std::holds_alternative<None>(data_); }
    const Undefined* as_undefined() const { return std::get_if<Undefined>(&data_); }
    const bool* as_bool() const { return std::get_if<bool>(&data_); }
    const std::int64_t* as_int() const { return std::get_if<std::int64_t>(&data_); }
    const double* as_float() const { return std::get_if<double>(&data_); }
    const std::string* as_string() const { return pointer<Text>(); }
    const Sequence* as_sequence() const { return pointer<std::shared_ptr<const Sequence>>(); }
    std::shared_ptr<const Sequence> shared_sequence() const {  // null when it is none
        const auto* held = std::get_if<std::shared_ptr<const Sequence>>(&data_);
        return held == nullptr ? nullptr : *held;
    }
    const Dict* as_dict() const { return pointer<std::shared_ptr<const Dict>>(); }
    Namespace* as_namespace() const { return pointer<std::shared_ptr<Namespace>>(); }
    Loop* as_loop() const { return pointer<std::shared_ptr<Loop>>(); }
    const Callable* as_callable() const { return pointer<std::shared_ptr<const Callable>>(); }

    // Bool and int, as Python counts a bool among its integers.
    bool to_integer(std::int64_t& out) const;
    bool to_number(double& out) const;  // bool, int and float
    bool is_number() const;
    std::size_t depth() const;  // 0 for scalars, 1 + the deepest element for containers
    bool same_object(const Value& other) const;

private:
    template <typename Pointer>
    typename Pointer::element_type* pointer() const {
        const Pointer* held = std::get_if<Pointer>(&data_);
        return held == nullptr ? nullptr : held->get();
    }

    std::variant<Undefined, None, bool, std::int64_t, double, Text, std::shared_ptr<const Sequence>,
                 std::shared_ptr<const Dict>, std::shared_ptr<Namespace>, std::shared_ptr<Loop>,
                 std::shared_ptr<const Callable>>
        data_;
};

using Values = std::vector<Value>;

// Iterator is what Python's generators are: true, without length, empty once it has been walked.
enum class SequenceKind : std::uint8_t { List, Tuple, Range, KeysView, ValuesView, ItemsView, Iterator };

struct Sequence {
    SequenceKind kind = SequenceKind::List;
    Values items;
    std::size_t depth = 1;
    mutable bool consumed = false;  // of an Iterator
};

// Keeps the order of insertion; keys compare as in Python (1 == 1.0 == True).
struct Dict {
    std::vector<std::pair<Value, Value>> entries;
    std::size_t depth = 1;

    const Value* find(std::string_view key) const;
    const Value* find(const Value& key) const;  // null as well for a key that cannot be hashed
    void put(Value key, Value value);           // `key` must be hashable

private:
    std::unordered_map<std::string, std::size_t> index_;  // by key_identity, from kIndexFrom entries on
};

// A string equal for equal keys; false when the value cannot be a key (lists, dicts).
bool key_identity(const Value& key, std::string& out);

struct Namespace {
    Dict attributes;
};

struct Loop {
    std::shared_ptr<const Sequence> items;
    std::size_t index = 0;
    std::size_t level = 0;      // of recursive loops, 0 for the outermost
    std::size_t recursive = 0;  // node of the loop when it is recursive, 0 otherwise
    Value last_changed;         // of loop.changed()
    bool has_changed_value = false;
    std::size_t depth = 1;
};

struct Scope;

// A macro, a global function, or a method bound to its object.
struct Callable {
    enum class Kind : std::uint8_t { Macro, Function, Method };
    Kind kind = Kind::Function;
    std::string name;
    Value self;                    // of a method
    std::size_t node = 0;          // of a macro
    std::shared_ptr<Scope> scope;  // where a macro was defined
    std::size_t depth = 1;
};

// Makes containers and records their depth.
Value make_sequence(SequenceKind kind, Values items);
Value make_dict(Dict dict);
Value from_json(const Json& json);

bool truthy(const Value& value);
// "str", "int", "dict", ...: Python's name of the type, for messages.
std::string_view type_name(const Value& value);
std::string quoted_type(const Value& value);  // 'str'

}  // namespace hearth::jinja
