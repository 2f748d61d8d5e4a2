// The pieces JSON texts are made of, as grammar. Whatever a model could repeat for ever without saying anything (white
// space, digits, nesting) is bounded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar/source.h"

namespace hearth::grammar {

class JsonRules {
public:
    explicit JsonRules(Source& source) : source_(source) {}

    // Nothing, one space, or a new line with indentation: after '{', '[' and ',' and before '}' and ']'.
    ExprId gap();
    ExprId colon();            // with at most one space after it
    ExprId comma();            // with a gap after it
    ExprId character();        // one character of a string, escaped or not
    ExprId plain_character();  // not escaped
    ExprId string();
    ExprId quoted(ExprId content);
    ExprId number();
    ExprId integer();
    ExprId boolean();
    ExprId null() { return source_.literal("null"); }
    ExprId any_value() { return any_value(kAnyDepth); }
    ExprId any_object() { return any_object(kAnyDepth); }
    ExprId any_array();
    ExprId object_of(ExprId members);
    ExprId array_of(ExprId items);
    // A key of plain characters that is none of these.
    ExprId key_except(const std::vector<std::string>& keys);

private:
    static constexpr std::uint32_t kAnyDepth = 12;
    using Cached = std::optional<RuleId>;

    template <typename Make>
    ExprId once(Cached& rule, std::string name, Make make);
    ExprId any_value(std::uint32_t depth);
    ExprId any_object(std::uint32_t depth);
    ExprId any_array(std::uint32_t depth);
    ExprId scalar();

    Source& source_;
    Cached gap_, character_, string_, number_, scalar_;
    std::vector<Cached> values_, objects_, arrays_;
};

// A number between bounds that are whole: every decimal spelling of a number, the exact digits of an integer.
struct Bounds {
    std::optional<std::int64_t> lower;
    std::optional<std::int64_t> upper;
    bool lower_excluded = false;
    bool upper_excluded = false;
};
Result<ExprId> integer_between(Source& source, const Bounds& bounds);  // no excluded ends
Result<ExprId> number_between(Source& source, const Bounds& bounds);

// The content of a JSON string that matches an anchored regular expression of the safe subset.
Result<ExprId> string_of_pattern(Source& source, std::string_view pattern);
// The content of a JSON string in one of the known formats; an error names the others.
Result<ExprId> string_of_format(Source& source, std::string_view format);

}  // namespace hearth::grammar
