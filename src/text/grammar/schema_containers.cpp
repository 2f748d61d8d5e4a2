// Objects and arrays of a schema.
#include <algorithm>
#include <set>
#include <utility>

#include "text/grammar/schema.h"

namespace hearth::grammar {

Result<std::vector<SchemaCompiler::Property>> SchemaCompiler::properties(const Json& schema, const Json* extra,
                                                                         const Place& place) {
    std::vector<Property> out;
    const Json* declared = schema.find("properties");
    const Json* needed = schema.find("required");
    std::set<std::string> required;
    if (needed != nullptr) {
        if (needed->as_array() == nullptr) return fail(place, "'required' must be a list");
        for (const Json& name : *needed->as_array()) {
            if (name.as_string() == nullptr) return fail(place, "'required' must be a list of strings");
            required.insert(*name.as_string());
        }
    }
    const auto member = [&](const std::string& name, const Json& value, const Place& where) -> Result<ExprId> {
        const ExprId made = TRY(compile(value, where));
        // A rule, because it may stand first or after others: written twice, nested objects would double.
        const ExprId whole = source_.sequence({source_.literal(json_quote(name)), rules_.colon(), made});
        return source_.reference(source_.add_rule("property " + name, whole));
    };
    std::set<std::string> known;
    if (declared != nullptr) {
        if (declared->as_object() == nullptr) return fail(place, "'properties' must be an object");
        for (const Json::Member& property : *declared->as_object()) {
            const Place inner = place.below("properties").below(property.first);
            if (!known.insert(property.first).second) return fail(inner, "declared twice");
            const ExprId made = TRY(member(property.first, property.second, inner));
            out.push_back({property.first, made, required.count(property.first) > 0});
        }
    }
    // Required but not declared: of the kind that additional properties have, in the order of the list.
    if (needed != nullptr) {
        for (const Json& name : *needed->as_array()) {
            if (!known.insert(*name.as_string()).second) continue;
            const Place inner = place.below("required").below(*name.as_string());
            if (extra == nullptr) return fail(inner, "required, but not among the properties");
            out.push_back({*name.as_string(), TRY(member(*name.as_string(), *extra, inner)), true});
        }
    }
    return out;
}

// In the declared order; `extra` members, where there are any, come last. Each rule below is what may follow once
// something was written: the comma belongs to what comes after it.
ExprId SchemaCompiler::members(const std::vector<Property>& all, ExprId extra) {
    std::vector<ExprId> first;
    ExprId after = source_.empty();
    if (extra != kNoExpr) {
        after = source_.repeat(source_.sequence({rules_.comma(), extra}), 0, kUnbounded);
        first.push_back(source_.sequence({extra, after}));
    }
    bool may_be_empty = true;
    for (std::size_t i = all.size(); i-- > 0;) {
        const Property& property = all[i];
        const RuleId rest = source_.add_rule("after " + property.name, after);
        const ExprId tail = source_.reference(rest);
        if (property.required) {
            first.clear();
            may_be_empty = false;
        }
        first.push_back(source_.sequence({property.member, tail}));
        const ExprId written = source_.sequence({rules_.comma(), property.member, tail});
        after = property.required ? written : source_.choice({written, tail});
    }
    if (first.empty()) return source_.empty();
    const ExprId some = source_.sequence({source_.choice(std::move(first)), rules_.gap()});
    return may_be_empty ? source_.optional(some) : some;
}

Result<ExprId> SchemaCompiler::object(const Json& schema, const Place& place) {
    const Json* additional = schema.find("additionalProperties");
    const bool open = schema.find("properties") == nullptr && schema.find("required") == nullptr;
    if (additional == nullptr && open) return rules_.any_object();
    static const Json kAnything(true);
    // Declared properties and no word about others: no others. A narrower text than the schema allows is still valid.
    const Json* extra = additional;
    if (additional == nullptr) extra = schema.find("properties") == nullptr ? &kAnything : nullptr;
    if (extra != nullptr && extra->as_bool() != nullptr && !*extra->as_bool()) extra = nullptr;
    const std::vector<Property> all = TRY(properties(schema, extra, place));
    ExprId more = kNoExpr;
    if (extra != nullptr) {
        const ExprId value = TRY(compile(*extra, place.below("additionalProperties")));
        std::vector<std::string> names;
        for (const Property& property : all) names.push_back(property.name);
        const ExprId whole = source_.sequence({rules_.key_except(names), rules_.colon(), value});
        more = source_.reference(source_.add_rule("additional property", whole));
    }
    return rules_.object_of(members(all, more));
}

Result<ExprId> SchemaCompiler::tuple(const Json::Array& prefix, ExprId more, std::uint32_t min, std::uint32_t max,
                                     const Place& place) {
    const auto length = static_cast<std::uint32_t>(prefix.size());
    if (max < length) return fail(place, "'maxItems' is below the number of 'prefixItems'");
    if (more == kNoExpr && min > length) return fail(place, "'minItems' is above the number of 'prefixItems'");
    ExprId after = source_.empty();
    if (more != kNoExpr) {
        const std::uint32_t most = max == kUnbounded ? kUnbounded : max - length;
        after = source_.repeat(source_.sequence({rules_.comma(), more}), min > length ? min - length : 0, most);
    }
    for (std::uint32_t i = length; i-- > 0;) {
        const Place inner = place.below("prefixItems").below(std::to_string(i));
        const ExprId item = TRY(compile(prefix[i], inner));
        const RuleId rest = source_.add_rule("after item " + std::to_string(i), after);
        const ExprId tail = source_.reference(rest);
        if (i == 0) {
            after = source_.sequence({item, tail, rules_.gap()});
        } else {
            after = source_.sequence({rules_.comma(), item, tail});
        }
        if (i >= min) after = source_.optional(after);
    }
    return rules_.array_of(after);
}

Result<ExprId> SchemaCompiler::array(const Json& schema, const Place& place) {
    const std::uint32_t min = TRY(count(schema, "minItems", 0, place));
    const std::uint32_t max = TRY(count(schema, "maxItems", kUnbounded, place));
    if (max < min) return fail(place, "'maxItems' is below 'minItems'");
    const Json* items = schema.find("items");
    const Json* prefix = schema.find("prefixItems");
    const bool closed = items != nullptr && items->as_bool() != nullptr && !*items->as_bool();
    if (prefix != nullptr && (prefix->as_array() == nullptr || prefix->as_array()->empty())) {
        return fail(place, "'prefixItems' must be a list");
    }
    ExprId item = kNoExpr;
    if (items != nullptr && !closed) item = TRY(compile(*items, place.below("items")));
    if (prefix != nullptr) return tuple(*prefix->as_array(), item, min, max, place);
    if (closed) {
        if (min > 0) return fail(place, "'items' of 'false' with 'minItems' allows nothing");
        return rules_.array_of(source_.empty());
    }
    if (items == nullptr && min == 0 && max == kUnbounded) return rules_.any_array();
    if (items == nullptr) item = rules_.any_value();
    if (max == 0) return rules_.array_of(source_.empty());
    // The item is written once: "item (comma item)*" would double a large one.
    const RuleId rule = source_.add_rule("item of " + place.path, item);
    const ExprId one = source_.reference(rule);
    const ExprId more = source_.repeat(source_.sequence({rules_.comma(), one}), min > 0 ? min - 1 : 0,
                                       max == kUnbounded ? kUnbounded : max - 1);
    const ExprId some = source_.sequence({one, more, rules_.gap()});
    return rules_.array_of(min > 0 ? some : source_.optional(some));
}

}  // namespace hearth::grammar
