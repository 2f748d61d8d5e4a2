// allOf, and keywords beside anyOf or $ref: several schemas for one value become one schema, where that is simple.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "text/grammar/schema.h"

namespace hearth::grammar {

namespace {

constexpr int kReferenceChain = 32;
constexpr std::size_t kMergedValues = 2'000'000;

Json both(const Json& left, const Json& right) {
    if (same_json(left, right)) return left;
    Json::Object out;
    out.emplace_back("allOf", Json(Json::Array{left, right}));
    return Json(std::move(out));
}

Json::Array as_list(const Json& json) {
    if (const Json::Array* list = json.as_array()) return *list;
    return {json};
}

Json shared(const Json& left, const Json& right) {
    const Json::Array others = as_list(right);
    Json::Array out;
    for (const Json& one : as_list(left)) {
        if (std::any_of(others.begin(), others.end(), [&](const Json& other) { return same_json(one, other); })) {
            out.push_back(one);
        }
    }
    return Json(std::move(out));
}

bool has_type(const Json::Array& types, std::string_view name) {
    return std::any_of(types.begin(), types.end(),
                       [&](const Json& type) { return type.as_string() != nullptr && *type.as_string() == name; });
}

// What is a number for one and an integer for the other is an integer for both.
Json shared_types(const Json& left, const Json& right) {
    Json::Array lefts = as_list(left);
    Json::Array rights = as_list(right);
    if (has_type(lefts, "integer") && has_type(rights, "number")) rights.emplace_back("integer");
    if (has_type(rights, "integer") && has_type(lefts, "number")) lefts.emplace_back("integer");
    return shared(Json(std::move(lefts)), Json(std::move(rights)));
}

double number_of(const Json& json) {
    if (json.as_int() != nullptr) return static_cast<double>(*json.as_int());
    return json.as_double() != nullptr ? *json.as_double() : 0;
}

}  // namespace

// A schema that is only a reference, as what it refers to.
Result<Json> SchemaCompiler::follow(const Json& schema, const Place& place) const {
    Json out = schema;
    for (int i = 0; i < kReferenceChain; ++i) {
        const Json* pointer = out.find("$ref");
        if (pointer == nullptr) return out;
        if (pointer->as_string() == nullptr) return fail(place, "'$ref' must be a string");
        if (i > 0 && constrains(without(out, "$ref")))
            return fail(place, "keywords beside '$ref' are nested too deeply");
        const Json* target = TRY(resolve(*pointer->as_string(), place));
        out = Json(*target);
    }
    return fail(place, "'$ref' leads round in a circle");
}

// No property of `other` may be one that `closed` does not know and forbids.
Status SchemaCompiler::check_closed(const Json& closed, const Json& other, const Place& place) const {
    const Json* rule = closed.find("additionalProperties");
    const Json* theirs = other.find("properties");
    if (rule == nullptr || theirs == nullptr || theirs->as_object() == nullptr) return {};
    if (rule->as_bool() != nullptr && *rule->as_bool()) return {};
    const Json* known = closed.find("properties");
    for (const Json::Member& member : *theirs->as_object()) {
        if (known == nullptr || known->find(member.first) == nullptr) {
            return fail(place, "'additionalProperties' of one part excludes '" + member.first + "' of another");
        }
    }
    return {};
}

Result<Json> SchemaCompiler::merge_keyword(const std::string& key, const Json& left, const Json& right,
                                           const Place& place) {
    if (same_json(left, right) || is_annotation(key)) return left;
    if (key == "properties" && left.as_object() != nullptr && right.as_object() != nullptr) {
        Json::Object out = *left.as_object();
        std::map<std::string, std::size_t> index;
        for (std::size_t i = 0; i < out.size(); ++i) index.emplace(out[i].first, i);
        for (const Json::Member& member : *right.as_object()) {
            const auto found = index.find(member.first);
            if (found == index.end()) {
                out.push_back(member);
            } else {
                out[found->second].second = both(out[found->second].second, member.second);
            }
        }
        return Json(std::move(out));
    }
    if (key == "required" || key == "allOf") {
        Json::Array out = as_list(left);
        for (const Json& one : as_list(right)) out.push_back(one);
        return Json(std::move(out));
    }
    if (key == "additionalProperties") {
        for (const auto& [one, other] : {std::pair(&left, &right), std::pair(&right, &left)}) {
            if (one->as_bool() != nullptr) return *one->as_bool() ? *other : *one;
        }
        return both(left, right);
    }
    if (key == "type" || key == "enum") {
        Json common = key == "type" ? shared_types(left, right) : shared(left, right);
        if (common.as_array()->empty()) return fail(place, "the parts have no '" + key + "' in common");
        return common;
    }
    if (key == "items") return both(left, right);
    if (key.starts_with("min") || key == "exclusiveMinimum") return number_of(left) < number_of(right) ? right : left;
    if (key.starts_with("max") || key == "exclusiveMaximum") return number_of(left) < number_of(right) ? left : right;
    return fail(place, "two different '" + key + "' for one value are not supported");
}

Result<Json> SchemaCompiler::merge(const Json& left, const Json& right, const Place& place) {
    if (left.as_bool() != nullptr && *left.as_bool()) return right;
    if (right.as_bool() != nullptr && *right.as_bool()) return left;
    if (left.as_object() == nullptr || right.as_object() == nullptr) return fail(place, "a schema must be an object");
    merged_values_ += weight_of(left) + weight_of(right);
    if (merged_values_ > kMergedValues) return fail(place, "too much to merge");
    TRY(check_closed(left, right, place));
    TRY(check_closed(right, left, place));
    Json::Object out = *left.as_object();
    for (const Json::Member& member : *right.as_object()) {
        const auto found = std::find_if(out.begin(), out.end(),
                                        [&](const Json::Member& other) { return other.first == member.first; });
        if (found == out.end()) {
            out.push_back(member);
        } else {
            found->second = TRY(merge_keyword(member.first, found->second, member.second, place));
        }
    }
    return Json(std::move(out));
}

Result<Json> SchemaCompiler::merge_all(const Json& schema, const Json::Array& parts, const Place& place) {
    Json out = schema;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const Place part = place.below(std::to_string(i));
        const Json target = TRY(follow(parts[i], part));
        out = TRY(merge(out, target, part));
    }
    return out;
}

}  // namespace hearth::grammar
