#include "text/grammar/schema.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "text/grammar/compiled.h"

namespace hearth::grammar {

namespace {

// Say something to people or tools, nothing about values.
constexpr std::string_view kAnnotations[] = {"$schema",   "$id",        "$comment",     "$defs",    "definitions",
                                             "title",     "default",    "description",  "examples", "readOnly",
                                             "writeOnly", "deprecated", "discriminator"};
constexpr std::string_view kKeywords[] = {"type",
                                          "properties",
                                          "required",
                                          "additionalProperties",
                                          "items",
                                          "prefixItems",
                                          "minItems",
                                          "maxItems",
                                          "enum",
                                          "const",
                                          "anyOf",
                                          "oneOf",
                                          "allOf",
                                          "$ref",
                                          "minLength",
                                          "maxLength",
                                          "pattern",
                                          "format",
                                          "minimum",
                                          "maximum",
                                          "exclusiveMinimum",
                                          "exclusiveMaximum"};
constexpr std::string_view kTypes[] = {"object", "array", "string", "number", "integer", "boolean", "null"};

template <typename List>
bool contains(const List& list, std::string_view word) {
    return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

std::string_view type_of_value(const Json& value) {
    if (value.is_null()) return "null";
    if (value.as_bool() != nullptr) return "boolean";
    if (value.as_int() != nullptr) return "integer";
    if (value.as_double() != nullptr) return "number";
    if (value.as_string() != nullptr) return "string";
    return value.as_array() != nullptr ? "array" : "object";
}

bool allows_type(const std::vector<std::string>& types, const Json& value) {
    const std::string_view type = type_of_value(value);
    if (contains(types, type)) return true;
    if (type == "integer") return contains(types, "number");
    const double* real = value.as_double();
    return real != nullptr && *real == std::floor(*real) && contains(types, "integer");
}

// "~1" and "~0" stand for '/' and '~' in a JSON pointer.
std::string unescape_pointer(std::string_view part) {
    std::string out;
    for (std::size_t i = 0; i < part.size(); ++i) {
        if (part[i] == '~' && i + 1 < part.size() && (part[i + 1] == '0' || part[i + 1] == '1')) {
            out.push_back(part[++i] == '0' ? '~' : '/');
        } else {
            out.push_back(part[i]);
        }
    }
    return out;
}

bool has_any(const Json& schema, std::initializer_list<std::string_view> keywords) {
    return std::any_of(keywords.begin(), keywords.end(),
                       [&](std::string_view keyword) { return schema.find(keyword) != nullptr; });
}

}  // namespace

bool is_annotation(std::string_view keyword) {
    return contains(kAnnotations, keyword);
}

bool same_json(const Json& left, const Json& right) {
    return left.dump() == right.dump();
}

std::size_t weight_of(const Json& json) {
    std::size_t weight = 1;
    if (const std::string* text = json.as_string()) weight += text->size();
    if (const Json::Array* items = json.as_array()) {
        for (const Json& item : *items) weight += weight_of(item);
    }
    if (const Json::Object* members = json.as_object()) {
        for (const Json::Member& member : *members) weight += member.first.size() + weight_of(member.second);
    }
    return weight;
}

Json without(const Json& schema, std::string_view keyword) {
    Json::Object out;
    for (const Json::Member& member : *schema.as_object()) {
        if (member.first != keyword) out.push_back(member);
    }
    return Json(std::move(out));
}

bool constrains(const Json& schema) {
    const Json::Object* members = schema.as_object();
    return members != nullptr && std::any_of(members->begin(), members->end(),
                                             [](const Json::Member& member) { return !is_annotation(member.first); });
}

Status SchemaCompiler::run() {
    const RuleId root = source_.add_rule("#");
    references_.emplace("#", root);
    source_.set_body(root, TRY(compile(root_, Place{})));
    return {};
}

Status SchemaCompiler::check_keywords(const Json& schema, const Place& place) const {
    for (const Json::Member& member : *schema.as_object()) {
        if (!is_annotation(member.first) && !contains(kKeywords, member.first)) {
            return fail(place, "the keyword '" + member.first + "' is not supported");
        }
    }
    return {};
}

Result<const Json*> SchemaCompiler::resolve(const std::string& pointer, const Place& place) const {
    if (pointer != "#" && !pointer.starts_with("#/")) {
        return fail(place, "'$ref': '" + pointer + "' does not point into this schema");
    }
    const Json* at = &root_;
    for (std::size_t begin = 2; begin <= pointer.size();) {
        const std::size_t end = std::min(pointer.find('/', begin), pointer.size());
        const std::string step = unescape_pointer(std::string_view(pointer).substr(begin, end - begin));
        const Json* next = at->find(step);
        if (const Json::Array* items = at->as_array(); items != nullptr && !step.empty() && step.size() < 7 &&
                                                       step.find_first_not_of("0123456789") == std::string::npos) {
            const std::size_t index = std::stoul(step);
            next = index < items->size() ? &(*items)[index] : nullptr;
        }
        if (next == nullptr) return fail(place, "'$ref': there is no '" + pointer + "'");
        at = next;
        begin = end + 1;
    }
    return at;
}

Result<ExprId> SchemaCompiler::reference(const std::string& pointer, const Place& place) {
    const Json* target = TRY(resolve(pointer, place));
    const auto [found, added] = references_.try_emplace(pointer, 0);
    if (added) {
        const RuleId rule = source_.add_rule(pointer);
        found->second = rule;
        source_.set_body(rule, TRY(compile(*target, Place{pointer, place.depth + 1})));
        return source_.reference(rule);
    }
    return source_.reference(found->second);
}

Result<ExprId> SchemaCompiler::compile(const Json& schema, const Place& place) {
    if (place.depth > source_.limits().depth) return fail(place, "nested too deeply");
    if (source_.too_large()) return fail(place, "too large");
    if (const bool* anything = schema.as_bool()) {
        if (!*anything) return fail(place, "a schema of 'false' allows nothing");
        return rules_.any_value();
    }
    if (schema.as_object() == nullptr) return fail(place, "a schema must be an object");
    TRY(check_keywords(schema, place));
    if (const Json* pointer = schema.find("$ref")) {
        if (pointer->as_string() == nullptr) return fail(place, "'$ref' must be a string");
        const Json rest = without(schema, "$ref");
        if (!constrains(rest)) return reference(*pointer->as_string(), place);
        const Json target = TRY(follow(schema, place));
        return compile(TRY(merge(rest, target, place)), place.below("$ref"));
    }
    if (const Json* parts = schema.find("allOf")) {
        if (parts->as_array() == nullptr || parts->as_array()->empty()) return fail(place, "'allOf' must be a list");
        const Json merged = TRY(merge_all(without(schema, "allOf"), *parts->as_array(), place.below("allOf")));
        return compile(merged, place.below("allOf"));
    }
    if (const Json* value = schema.find("const")) {
        const Json rest = without(schema, "const");
        return values(rest, {*value}, place);
    }
    if (const Json* list = schema.find("enum")) {
        if (list->as_array() == nullptr || list->as_array()->empty()) return fail(place, "'enum' must be a list");
        return values(schema, *list->as_array(), place);
    }
    for (const std::string_view keyword : {"anyOf", "oneOf"}) {
        if (const Json* branches = schema.find(keyword)) return alternatives(schema, *branches, keyword, place);
    }
    std::vector<ExprId> ways;
    for (const std::string& type : TRY(types_of(schema, place))) ways.push_back(TRY(of_type(type, schema, place)));
    if (ways.empty()) return rules_.any_value();
    return source_.choice(std::move(ways));
}

Result<ExprId> SchemaCompiler::alternatives(const Json& schema, const Json& branches, std::string_view keyword,
                                            const Place& place) {
    const Json::Array* list = branches.as_array();
    const Place inner = place.below(keyword);
    if (list == nullptr || list->empty()) return fail(place, "'" + std::string(keyword) + "' must be a list");
    const Json rest = without(schema, keyword);
    const bool alone = !constrains(rest);
    std::vector<ExprId> ways;
    for (std::size_t i = 0; i < list->size(); ++i) {
        const Place branch = inner.below(std::to_string(i));
        if (alone) {
            ways.push_back(TRY(compile((*list)[i], branch)));
        } else {
            const Json target = TRY(follow((*list)[i], branch));
            ways.push_back(TRY(compile(TRY(merge(rest, target, branch)), branch)));
        }
    }
    return source_.choice(std::move(ways));
}

// Exactly this value, with the white space JSON may have.
ExprId SchemaCompiler::value(const Json& value) {
    std::vector<ExprId> parts;
    const auto add = [&](ExprId part) {
        if (!parts.empty()) parts.push_back(rules_.comma());
        parts.push_back(part);
    };
    if (const Json::Array* items = value.as_array()) {
        for (const Json& item : *items) add(this->value(item));
    } else if (const Json::Object* members = value.as_object()) {
        for (const Json::Member& member : *members) {
            add(source_.sequence(
                {source_.literal(json_quote(member.first)), rules_.colon(), this->value(member.second)}));
        }
    } else {
        return source_.literal(value.dump());
    }
    if (!parts.empty()) parts.push_back(rules_.gap());
    const ExprId content = source_.sequence(std::move(parts));
    return value.as_array() != nullptr ? rules_.array_of(content) : rules_.object_of(content);
}

// Other keywords beside them only choose among them by type.
Result<ExprId> SchemaCompiler::values(const Json& schema, const Json::Array& values, const Place& place) {
    const std::vector<std::string> types = TRY(types_of(schema, place));
    for (const Json::Member& member : *schema.as_object()) {
        if (!is_annotation(member.first) && member.first != "type" && member.first != "enum") {
            return fail(place, "'" + member.first + "' beside 'enum' or 'const' is not supported");
        }
    }
    const Json* list = schema.find("enum");
    std::vector<ExprId> ways;
    for (const Json& value : values) {
        if (!types.empty() && !allows_type(types, value)) continue;
        if (list != nullptr && list->as_array() != nullptr &&
            std::none_of(list->as_array()->begin(), list->as_array()->end(),
                         [&](const Json& other) { return same_json(other, value); })) {
            continue;
        }
        ways.push_back(this->value(value));
    }
    if (ways.empty()) return fail(place, "no value of 'enum' or 'const' has the right type");
    return source_.choice(std::move(ways));
}

// The types a schema speaks of: those it names, or else those its keywords are about. None: any.
Result<std::vector<std::string>> SchemaCompiler::types_of(const Json& schema, const Place& place) const {
    std::vector<std::string> types;
    const Json* named = schema.find("type");
    if (named == nullptr) {
        if (has_any(schema, {"properties", "required", "additionalProperties"})) types.emplace_back("object");
        if (has_any(schema, {"items", "prefixItems", "minItems", "maxItems"})) types.emplace_back("array");
        if (has_any(schema, {"minLength", "maxLength", "pattern", "format"})) types.emplace_back("string");
        if (has_any(schema, {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})) {
            types.emplace_back("number");
        }
        return types;
    }
    if (const std::string* one = named->as_string()) types.push_back(*one);
    if (const Json::Array* list = named->as_array()) {
        for (const Json& type : *list) {
            if (type.as_string() == nullptr) return fail(place, "'type' must be a string or a list of strings");
            if (!contains(types, *type.as_string())) types.push_back(*type.as_string());
        }
    }
    if (types.empty()) return fail(place, "'type' must be a string or a list of strings");
    for (const std::string& type : types) {
        if (!contains(kTypes, type)) return fail(place, "the type '" + type + "' does not exist");
    }
    return types;
}

Result<ExprId> SchemaCompiler::of_type(std::string_view type, const Json& schema, const Place& place) {
    if (type == "object") return object(schema, place);
    if (type == "array") return array(schema, place);
    if (type == "string") return string(schema, place);
    if (type == "number") return number(schema, place, /*whole=*/false);
    if (type == "integer") return number(schema, place, /*whole=*/true);
    if (type == "boolean") return rules_.boolean();
    return rules_.null();
}

Result<std::uint32_t> SchemaCompiler::count(const Json& schema, std::string_view keyword, std::uint32_t missing,
                                            const Place& place) const {
    const Json* value = schema.find(keyword);
    if (value == nullptr) return missing;
    const std::int64_t* number = value->as_int();
    if (number == nullptr || *number < 0 || *number > 1'000'000'000) {
        return fail(place, "'" + std::string(keyword) + "' must be a whole number from 0 to 1000000000");
    }
    return static_cast<std::uint32_t>(*number);
}

Result<ExprId> SchemaCompiler::string(const Json& schema, const Place& place) {
    const std::uint32_t min = TRY(count(schema, "minLength", 0, place));
    const std::uint32_t max = TRY(count(schema, "maxLength", kUnbounded, place));
    if (max < min) return fail(place, "'maxLength' is below 'minLength'");
    const bool bounded = schema.find("minLength") != nullptr || schema.find("maxLength") != nullptr;
    const Json* pattern = schema.find("pattern");
    const Json* format = schema.find("format");
    if ((pattern != nullptr) + (format != nullptr) + bounded > 1) {
        return fail(place, "'pattern', 'format' and a length exclude each other");
    }
    for (const auto& [value, keyword] : {std::pair(pattern, "pattern"), std::pair(format, "format")}) {
        if (value == nullptr) continue;
        if (value->as_string() == nullptr) return fail(place, "'" + std::string(keyword) + "' must be a string");
        const std::string& text = *value->as_string();
        Result<ExprId> content = value == pattern ? string_of_pattern(source_, text) : string_of_format(source_, text);
        if (!content.ok()) return in_place(place, keyword, content.error());
        return rules_.quoted(content.value());
    }
    if (!bounded) return rules_.string();
    return rules_.quoted(source_.repeat(rules_.character(), min, max));
}

Result<ExprId> SchemaCompiler::number(const Json& schema, const Place& place, bool whole) {
    Bounds bounds;
    for (const std::string_view keyword : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
        const Json* value = schema.find(keyword);
        if (value == nullptr) continue;
        const bool lower = keyword.ends_with("inimum");
        const bool excluded = keyword.starts_with("exclusive");
        std::int64_t bound = 0;
        bool inside = false;  // the whole number next to a fractional bound
        if (value->as_int() != nullptr) {
            bound = *value->as_int();
        } else if (value->as_double() != nullptr && std::fabs(*value->as_double()) < 1e15) {
            const double real = *value->as_double();
            inside = real != std::floor(real);
            if (inside && !whole) return fail(place, "'" + std::string(keyword) + "' must be whole to be supported");
            bound = static_cast<std::int64_t>(lower ? std::ceil(real) : std::floor(real));
        } else {
            return fail(place, "'" + std::string(keyword) + "' must be a number of at most 15 digits");
        }
        if (bound > 999'999'999'999'999'998 || bound < -999'999'999'999'999'998) {
            return fail(place, "'" + std::string(keyword) + "' has too many digits");
        }
        if (whole && excluded && !inside) bound += lower ? 1 : -1;
        std::optional<std::int64_t>& held = lower ? bounds.lower : bounds.upper;
        bool& held_excluded = lower ? bounds.lower_excluded : bounds.upper_excluded;
        const bool tighter = !held.has_value() || (lower ? bound > *held : bound < *held);
        if (tighter || bound == *held) held_excluded = (!tighter && held_excluded) || (excluded && !whole);
        if (tighter) held = bound;
    }
    if (!bounds.lower.has_value() && !bounds.upper.has_value()) return whole ? rules_.integer() : rules_.number();
    Result<ExprId> made = whole ? integer_between(source_, bounds) : number_between(source_, bounds);
    if (!made.ok()) return fail(place, made.error().message);
    return made;
}

Result<Source> source_of_schema(const Json& schema, const GrammarLimits& limits) {
    if (weight_of(schema) > limits.source_bytes) return Error{ErrorCode::Usage, "schema: too large"};
    Source source(limits);
    TRY(SchemaCompiler(schema, source).run());
    return source;
}

}  // namespace hearth::grammar
