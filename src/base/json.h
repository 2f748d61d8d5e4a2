// JSON values: bounded parsing of foreign text, and writing. Objects keep the order of their keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace hearth {

class Json {
public:
    using Array = std::vector<Json>;
    using Member = std::pair<std::string, Json>;
    using Object = std::vector<Member>;

    Json() = default;  // null
    Json(std::nullptr_t) {}
    Json(bool value) : value_(value) {}
    Json(int value) : value_(static_cast<std::int64_t>(value)) {}
    Json(std::int64_t value) : value_(value) {}
    Json(std::uint64_t value) : value_(static_cast<std::int64_t>(value)) {}
    Json(std::uint32_t value) : value_(static_cast<std::int64_t>(value)) {}
    Json(double value) : value_(value) {}
    Json(const char* value) : value_(std::string(value)) {}
    Json(std::string_view value) : value_(std::string(value)) {}
    Json(std::string value) : value_(std::move(value)) {}
    Json(Array value) : value_(std::move(value)) {}
    Json(Object value) : value_(std::move(value)) {}

    // At most `depth_limit` nested arrays and objects; the error names the byte offset. Strict UTF-8.
    static Result<Json> parse(std::string_view text, std::size_t depth_limit = 64);

    bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
    // Each returns null when the value is of another type.
    const bool* as_bool() const { return std::get_if<bool>(&value_); }
    const std::int64_t* as_int() const { return std::get_if<std::int64_t>(&value_); }
    const double* as_double() const { return std::get_if<double>(&value_); }
    const std::string* as_string() const { return std::get_if<std::string>(&value_); }
    const Array* as_array() const { return std::get_if<Array>(&value_); }
    const Object* as_object() const { return std::get_if<Object>(&value_); }
    Array* as_array() { return std::get_if<Array>(&value_); }
    Object* as_object() { return std::get_if<Object>(&value_); }
    const Json* find(std::string_view key) const;  // in an object; null when absent or not an object

    // One line without `indent`; non-finite numbers are written as null, invalid UTF-8 as U+FFFD.
    std::string dump(int indent = 0) const;

private:
    std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> value_;
};

// `text` as a JSON string with its quotes.
std::string json_quote(std::string_view text);

}  // namespace hearth
