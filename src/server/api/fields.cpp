#include "server/api/fields.h"

#include <algorithm>
#include <charconv>

namespace hearth {

namespace {

std::string plain(double value) {
    char digits[32];
    const auto [end, code] = std::to_chars(digits, digits + sizeof digits, value);
    return std::string(digits, end);
}

std::string range(const std::string& lowest, const std::string& highest) {
    return " between " + lowest + " and " + highest;
}

}  // namespace

std::string_view type_name(const Json& value) {
    if (value.is_null()) return "null";
    if (value.as_bool() != nullptr) return "a boolean";
    if (value.as_int() != nullptr) return "an integer";
    if (value.as_double() != nullptr) return "a number";
    if (value.as_string() != nullptr) return "a string";
    return value.as_array() != nullptr ? "an array" : "an object";
}

Fields::Fields(const Json& value, std::string path, Faults& faults)
    : path_(std::move(path)), faults_(faults), members_(value.as_object()) {
    if (members_ == nullptr) {
        faults_.field(path_.empty() ? "body" : path_, "must be an object, not " + std::string(type_name(value)));
        return;
    }
    taken_.resize(members_->size());
    std::vector<std::string_view> keys;
    for (const Json::Member& member : *members_) keys.push_back(member.first);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) fault(*twice, "is given twice");
}

std::string Fields::path(std::string_view key) const {
    std::string shown(key.substr(0, 100));
    return path_.empty() ? shown : path_ + "." + shown;
}

const Json* Fields::take(std::string_view key) {
    if (members_ == nullptr) return nullptr;
    for (std::size_t i = 0; i < members_->size(); ++i) {
        if ((*members_)[i].first != key) continue;
        taken_[i] = true;
        return (*members_)[i].second.is_null() ? nullptr : &(*members_)[i].second;
    }
    return nullptr;
}

std::optional<std::int64_t> Fields::integer(std::string_view key, std::int64_t lowest, std::int64_t highest) {
    const Json* value = take(key);
    if (value == nullptr) return {};
    const std::string wanted = "must be an integer" + range(std::to_string(lowest), std::to_string(highest)) + ", not ";
    const std::int64_t* number = value->as_int();
    if (number == nullptr) {
        const double* real = value->as_double();
        fault(key, wanted + (real != nullptr ? plain(*real) : std::string(type_name(*value))));
        return {};
    }
    if (*number < lowest || *number > highest) {
        fault(key, wanted + std::to_string(*number));
        return {};
    }
    return *number;
}

std::optional<double> Fields::number(std::string_view key, double lowest, double highest) {
    const Json* value = take(key);
    if (value == nullptr) return {};
    const std::string wanted = "must be a number" + range(plain(lowest), plain(highest)) + ", not ";
    double number = 0;
    if (const std::int64_t* whole = value->as_int()) {
        number = static_cast<double>(*whole);
    } else if (const double* real = value->as_double()) {
        number = *real;
    } else {
        fault(key, wanted + std::string(type_name(*value)));
        return {};
    }
    if (!(number >= lowest && number <= highest)) {
        fault(key, wanted + plain(number));
        return {};
    }
    return number;
}

std::optional<bool> Fields::boolean(std::string_view key) {
    const Json* value = take(key);
    if (value == nullptr) return {};
    if (const bool* flag = value->as_bool()) return *flag;
    fault(key, "must be true or false, not " + std::string(type_name(*value)));
    return {};
}

std::optional<std::string> Fields::string(std::string_view key) {
    const Json* value = take(key);
    if (value == nullptr) return {};
    if (const std::string* text = value->as_string()) return *text;
    fault(key, "must be a string, not " + std::string(type_name(*value)));
    return {};
}

std::string Fields::required_string(std::string_view key) {
    const std::optional<std::string> text = string(key);
    if (!text) fault(key, "is missing");
    return text.value_or("");
}

std::optional<std::string> Fields::choice(std::string_view key, std::initializer_list<std::string_view> choices) {
    const std::optional<std::string> text = string(key);
    if (!text || std::find(choices.begin(), choices.end(), *text) != choices.end()) return text;
    std::string list;
    for (const std::string_view choice : choices) list += (list.empty() ? "" : ", ") + std::string(choice);
    fault(key, "must be one of " + list);
    return {};
}

const Json::Array* Fields::array(std::string_view key, std::size_t limit) {
    const Json* value = take(key);
    if (value == nullptr) return nullptr;
    const Json::Array* items = value->as_array();
    if (items == nullptr) {
        fault(key, "must be an array, not " + std::string(type_name(*value)));
    } else if (items->size() > limit) {
        fault(key,
              "holds " + std::to_string(items->size()) + " items, at most " + std::to_string(limit) + " are allowed");
        return nullptr;
    }
    return items;
}

const Json::Object* Fields::object(std::string_view key) {
    const Json* value = take(key);
    if (value == nullptr) return nullptr;
    const Json::Object* members = value->as_object();
    if (members == nullptr) fault(key, "must be an object, not " + std::string(type_name(*value)));
    return members;
}

void Fields::ignore(std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys) static_cast<void>(take(key));
}

void Fields::unsupported(std::string_view key, std::string_view reason, std::optional<std::int64_t> neutral) {
    const Json* value = take(key);
    if (value == nullptr) return;
    if (const bool* flag = value->as_bool(); flag != nullptr && !*flag) return;
    if (const std::int64_t* whole = value->as_int(); whole != nullptr && neutral && *whole == *neutral) return;
    faults_.add({400, path(key) + ": " + std::string(reason), path(key), "unsupported_value"});
}

void Fields::finish() {
    if (members_ == nullptr) return;
    for (std::size_t i = 0; i < members_->size(); ++i) {
        if (taken_[i]) continue;
        const std::string name = path((*members_)[i].first);
        faults_.add({400, name + ": unknown field", name, "unknown_field"});
        return;
    }
}

}  // namespace hearth
