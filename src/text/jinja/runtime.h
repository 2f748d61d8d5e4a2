// What evaluation needs everywhere: the budget, the current line for errors, and Python's operations on values.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/jinja/value.h"

namespace hearth::jinja {

struct Arguments {
    Values positional;
    std::vector<std::pair<std::string, Value>> named;
};

class Runtime {
public:
    Runtime(TemplateLimits limits, double now_seconds);

    Error fail(std::string_view reason) const;
    void set_line(std::uint32_t line) { line_ = line; }
    std::uint32_t line() const { return line_; }
    double now_seconds() const { return now_seconds_; }
    const TemplateLimits& limits() const { return limits_; }

    // Steps are nodes evaluated or elements touched; walking long text costs a step for each 128 bytes.
    Status charge(std::size_t steps);
    Status charge_work(std::size_t bytes) { return charge(bytes / 128); }
    // All text and elements made during a rendering, freed or not: an upper bound of the memory it holds.
    Status charge_memory(std::size_t bytes);

    Status charge_text(std::size_t bytes);  // memory for one text, which may not be longer than the whole output

    // Values made under the budget.
    Result<Value> text(std::string content);
    Result<Value> sequence(SequenceKind kind, Values items);
    Result<Value> dict(Dict content);

    // Printing: str(), repr() and json.dumps().
    Result<std::string> print(const Value& value);
    Result<std::string> repr(const Value& value);
    struct JsonStyle {
        bool ascii_only = false;
        bool sort_keys = false;
        bool indented = false;
        std::string indent;
        std::string item_separator = ", ";
        std::string key_separator = ": ";
    };
    Result<std::string> to_json(const Value& value, const JsonStyle& style);

    // Operators. Using an undefined value is an error where Python raises one.
    Status refuse_undefined(const Value& value) const;
    Result<bool> equal(const Value& left, const Value& right);
    Result<bool> less(const Value& left, const Value& right, std::string_view sign = "<");
    Result<bool> compare(char comparison, const Value& left, const Value& right);
    Result<bool> contains(const Value& container, const Value& item);
    Result<Value> binary(char operation, const Value& left, const Value& right);
    Result<Value> negative(const Value& operand);
    Result<Value> positive(const Value& operand);

    // Access.
    Result<std::shared_ptr<const Sequence>> iterate(const Value& value);
    Result<std::size_t> length(const Value& value);
    Result<Value> attribute(const Value& object, std::string_view name);
    Result<Value> item(const Value& object, const Value& key);
    Result<Value> slice(const Value& object, const Value& first, const Value& last, const Value& step);
    // "a.b.0": as the `attribute` argument of filters; `otherwise` stands in for each step that is undefined.
    Result<Value> attribute_path(const Value& object, const Value& path, const Value* otherwise = nullptr);

    // "%s %d" % values and "{} {name}".format(values).
    Result<std::string> format_percent(std::string_view pattern, const Values& values);
    Result<std::string> format_braces(std::string_view pattern, const Arguments& arguments);

    // Pieces that methods and filters share.
    enum class JoinElements : std::uint8_t { OnlyText, Printed };
    Result<Value> join(const Value& items, std::string_view separator, JoinElements elements);
    Result<std::string> replaced(std::string_view text, std::string_view from, std::string_view to, std::int64_t limit);
    Result<Value> dict_items(const Dict& dict, SequenceKind kind);  // of (key, value) tuples

    // Built-ins, by name.
    Result<Value> filter(std::string_view name, const Value& input, const Arguments& arguments);
    Result<bool> test(std::string_view name, const Value& input, const Arguments& arguments);
    Result<Value> method(const Value& self, std::string_view name, const Arguments& arguments);
    Result<Value> function(std::string_view name, const Arguments& arguments);

    // Stable; `reverse` keeps equal elements in their order, as Python does.
    Status sort(Values& items, Values keys, bool reverse);

    // Namespaces live until the end, so that a cycle of them is no leak.
    Value make_namespace(Dict attributes);
    void drop_namespaces();

private:
    Status write_repr(std::string& out, const Value& value, std::size_t level);
    Status write_json(std::string& out, const Value& value, const JsonStyle& style, std::size_t level);
    Status write_json_dict(std::string& out, const Dict& dict, const JsonStyle& style, std::size_t level);
    Result<bool> equal_containers(const Value& left, const Value& right);
    Result<Value> add(const Value& left, const Value& right);
    Result<Value> multiply(const Value& left, const Value& right);
    Result<Value> repeat(const Value& content, std::int64_t count);
    Result<Value> divide(char operation, const Value& left, const Value& right);
    Result<Value> power(const Value& left, const Value& right);
    Result<Value> slice_text(std::string_view content, std::int64_t first, std::int64_t last, std::int64_t stride);
    Result<Value> make_range(const Arguments& arguments);

    Error unsupported(std::string_view sign, const Value& left, const Value& right) const;

    TemplateLimits limits_;
    double now_seconds_;
    std::uint32_t line_ = 1;
    std::size_t steps_ = 0;
    std::size_t memory_ = 0;
    std::size_t memory_limit_;
    std::vector<std::shared_ptr<Namespace>> namespaces_;
};

// The parameters of a built-in by name, absent ones null; refuses what it does not know.
class Bound {
public:
    static Result<Bound> bind(const Runtime& runtime, std::string_view callee, const Arguments& arguments,
                              std::initializer_list<std::string_view> names, std::size_t required = 0);
    const Value* operator[](std::size_t index) const { return values_[index]; }
    bool has(std::size_t index) const { return values_[index] != nullptr && !values_[index]->is_undefined(); }
    bool flag(std::size_t index, bool otherwise) const {
        return values_[index] == nullptr ? otherwise : truthy(*values_[index]);
    }
    std::int64_t integer(std::size_t index, std::int64_t otherwise) const {
        std::int64_t value = otherwise;
        if (values_[index] != nullptr) values_[index]->to_integer(value);
        return value;
    }
    const std::string* text(std::size_t index) const {
        return values_[index] == nullptr ? nullptr : values_[index]->as_string();
    }

private:
    std::vector<const Value*> values_;  // point into the Arguments it was bound from
};

// Whether `object` has a method of this name, and whether a template may call it.
enum class MethodKind : std::uint8_t { None, Safe, Unsafe };
MethodKind find_method(const Value& object, std::string_view name);
bool is_global_function(std::string_view name);
bool is_known_filter(std::string_view name);
bool is_known_test(std::string_view name);

std::string format_time(std::string_view pattern, double seconds);  // strftime in UTC, English names

}  // namespace hearth::jinja
