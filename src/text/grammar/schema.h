// JSON Schema to grammar: the compiler over the pieces of json_rules.h. What it does not support is an error that names
// keyword and path; what it makes may be narrower than the schema (order of properties, white space), never wider.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/grammar/json_rules.h"

namespace hearth::grammar {

// Where a schema stands, for messages and for the depth.
struct Place {
    std::string path = "#";
    std::size_t depth = 0;
    Place below(std::string_view step) const { return {path + "/" + std::string(step), depth + 1}; }
};

class SchemaCompiler {
public:
    SchemaCompiler(const Json& root, Source& source) : root_(root), source_(source), rules_(source) {}
    Status run();

private:
    Error fail(const Place& place, const std::string& reason) const {
        return Error{ErrorCode::Usage, "schema at " + place.path + ": " + reason};
    }
    Error in_place(const Place& place, std::string_view keyword, const Error& error) const {
        return fail(place, "'" + std::string(keyword) + "': " + error.message);
    }

    // schema.cpp
    Result<ExprId> compile(const Json& schema, const Place& place);
    Status check_keywords(const Json& schema, const Place& place) const;
    Result<const Json*> resolve(const std::string& pointer, const Place& place) const;
    Result<ExprId> reference(const std::string& pointer, const Place& place);
    Result<ExprId> alternatives(const Json& schema, const Json& branches, std::string_view keyword, const Place& place);
    ExprId value(const Json& value);
    Result<ExprId> values(const Json& schema, const Json::Array& values, const Place& place);
    Result<std::vector<std::string>> types_of(const Json& schema, const Place& place) const;
    Result<ExprId> of_type(std::string_view type, const Json& schema, const Place& place);
    Result<ExprId> string(const Json& schema, const Place& place);
    Result<ExprId> number(const Json& schema, const Place& place, bool whole);
    Result<std::uint32_t> count(const Json& schema, std::string_view keyword, std::uint32_t missing,
                                const Place& place) const;

    // schema_merge.cpp
    Result<Json> merge(const Json& left, const Json& right, const Place& place);
    Result<Json> merge_all(const Json& schema, const Json::Array& parts, const Place& place);
    Result<Json> follow(const Json& schema, const Place& place) const;
    Result<Json> merge_keyword(const std::string& key, const Json& left, const Json& right, const Place& place);
    Status check_closed(const Json& closed, const Json& other, const Place& place) const;

    // schema_containers.cpp
    struct Property {
        std::string name;
        ExprId member = kNoExpr;
        bool required = false;
    };
    Result<ExprId> object(const Json& schema, const Place& place);
    Result<std::vector<Property>> properties(const Json& schema, const Json* extra, const Place& place);
    ExprId members(const std::vector<Property>& all, ExprId extra);
    Result<ExprId> array(const Json& schema, const Place& place);
    Result<ExprId> tuple(const Json::Array& prefix, ExprId more, std::uint32_t min, std::uint32_t max,
                         const Place& place);

    const Json& root_;
    Source& source_;
    JsonRules rules_;
    std::map<std::string, RuleId> references_;
    std::size_t merged_values_ = 0;
};

bool same_json(const Json& left, const Json& right);
// How many values and bytes of text there are, about.
std::size_t weight_of(const Json& json);
// `schema` without one keyword.
Json without(const Json& schema, std::string_view keyword);
bool is_annotation(std::string_view keyword);
// Whether anything but annotations and definitions is said.
bool constrains(const Json& schema);

}  // namespace hearth::grammar
