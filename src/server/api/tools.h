// Tools (functions the model may call): how each family of models writes a call, finding calls in an answer as it
// comes, and the grammar that makes an answer be one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/api/fault.h"
#include "text/grammar.h"

namespace hearth {

inline constexpr std::size_t kToolLimit = 128;

struct Tool {
    std::string name;
    std::string description;
    Json parameters;   // a JSON schema; null: none given
    std::string path;  // of the schema in the request, for faults
};

enum class ToolMode : std::uint8_t { None, Auto, Required };

struct ToolUse {
    std::vector<Tool> tools;
    ToolMode mode = ToolMode::Auto;
    std::string only;      // Required: this one; empty: any
    bool parallel = true;  // an answer may hold several calls

    bool active() const { return !tools.empty() && mode != ToolMode::None; }
    bool forced() const { return !tools.empty() && mode == ToolMode::Required; }
};

// A name of 1 to 64 letters, digits, '_' and '-', as the APIs demand. Adds a fault when it is not.
void check_tool_name(std::string_view name, std::string_view path, Faults& faults);

// How a model was taught to write calls, judged by what its template mentions.
struct ToolFormat {
    std::string open;           // before a call or a list of calls, as text
    std::string close;          // behind it; may be empty
    std::string forced_prefix;  // the beginning of an answer that must be a call
    std::string arguments_key;  // "arguments" or "parameters"
    bool native = true;         // the template writes tools and calls itself; else they are put into messages
};
ToolFormat choose_tool_format(std::string_view template_source);

// The tools as templates expect them (OpenAI's form).
Json tools_for_template(const ToolUse& use);
// For templates that know no tools: the system message that explains them, and a call as text.
std::string describe_tools(const ToolUse& use);
std::string call_as_text(std::string_view name, const Json& arguments);

// The schema of one call of an allowed tool.
Json forced_call_schema(const ToolUse& use, std::string_view arguments_key);
std::shared_ptr<const Grammar> forced_call_grammar(const ToolUse& use, std::string_view arguments_key, Faults& faults);

// What an answer consists of, in order.
class AnswerParts {
public:
    virtual ~AnswerParts() = default;
    virtual void content(std::string_view text) = 0;
    virtual void call_begins(std::string_view name) = 0;
    virtual void call_arguments(std::string_view json) = 0;  // a piece of the arguments' JSON text
    virtual void call_ends() = 0;
};

// Splits an answer into text and calls while it comes. What is not a call after all comes out as text, unchanged.
class ToolCallParser {
public:
    enum class Start : std::uint8_t { Text, Call };  // Call: the answer was made to begin inside a call
    ToolCallParser(ToolFormat format, std::vector<std::string> tool_names, Start start);

    void feed(std::string_view text, AnswerParts& parts);
    void finish(AnswerParts& parts);
    bool found_call() const { return found_call_; }

private:
    enum class Where : std::uint8_t { Content, Between, Object };
    enum class Step : std::uint8_t { Key, InKey, Colon, Value, InValue };

    bool read_content(AnswerParts& parts, bool at_end);
    bool read_between(AnswerParts& parts);
    bool read_object(AnswerParts& parts);
    void begin_object();
    void give_up(AnswerParts& parts);  // no call: out with it as text
    bool value_ends(char c);
    void take_value(AnswerParts& parts);
    void announce(AnswerParts& parts);
    void flush_arguments(AnswerParts& parts);
    bool known(std::string_view name) const;

    ToolFormat format_;
    std::vector<std::string> names_;
    Where where_;
    bool trusted_;             // behind an opening: any object is a call; else only one that names a known tool
    bool may_be_bare_ = true;  // nothing but white space has come: an object here may be a call
    bool after_call_ = false;  // between: a call has just ended
    bool found_call_ = false;
    std::string input_;  // not consumed yet
    std::string raw_;    // of the object, until it is known to be a call

    // The object being read.
    Step step_ = Step::Key;
    std::string key_;
    std::string value_;
    int depth_ = 0;
    bool in_string_ = false;
    bool escaped_ = false;
    bool begun_ = false;  // the call was announced
    bool arguments_seen_ = false;
    std::string name_;
    std::string arguments_;  // not handed out yet
};

}  // namespace hearth
