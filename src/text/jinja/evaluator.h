// Walks a Program and writes what it renders. One evaluator renders once.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace hearth::jinja {

// Variables by symbol; few in each, so a walk finds them fastest.
struct Scope {
    std::vector<std::pair<std::uint32_t, Value>> variables;
    std::shared_ptr<Scope> parent;

    Value* find(std::uint32_t symbol) {
        for (auto& [name, value] : variables) {
            if (name == symbol) return &value;
        }
        return nullptr;
    }
    void set(std::uint32_t symbol, Value value) {
        if (Value* present = find(symbol)) {
            *present = std::move(value);
        } else {
            variables.emplace_back(symbol, std::move(value));
        }
    }
};

class Evaluator {
public:
    Evaluator(const Program& program, TemplateLimits limits, double now_seconds)
        : program_(program), runtime_(limits, now_seconds), scope_(std::make_shared<Scope>()) {}
    ~Evaluator();
    Evaluator(const Evaluator&) = delete;
    Evaluator& operator=(const Evaluator&) = delete;

    Result<std::string> render(const Json& context);

private:
    enum class Flow : std::uint8_t { Next, Break, Continue };

    // Counts nesting, and restores the line of the outer node for its later errors.
    class Level {
    public:
        Level(Evaluator& evaluator, std::uint32_t line) : evaluator_(evaluator), line_(evaluator.runtime_.line()) {
            ++evaluator_.depth_;
            evaluator_.runtime_.set_line(line);
        }
        ~Level() {
            --evaluator_.depth_;
            // Left behind on errors too: an Error has its line by then.
            evaluator_.runtime_.set_line(line_);
        }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;

    private:
        Evaluator& evaluator_;
        std::uint32_t line_;
    };
    Status enter();  // charges a step and checks the depth

    const Node& node(NodeId id) const { return program_.nodes[id]; }

    // Statements (evaluator.cpp).
    Result<Flow> execute(NodeId id);
    Result<Flow> execute_body(const Node& body);
    Result<Flow> execute_if(const Node& statement);
    Status execute_for(const Node& statement, NodeId id, const Value& items, std::size_t level);
    Result<std::shared_ptr<const Sequence>> loop_items(const Node& statement, const Value& iterable);
    Status execute_set(const Node& statement);
    Status execute_call_block(const Node& statement);
    Result<Flow> execute_with(const Node& statement);
    Status define_macro(NodeId id);
    Status assign(NodeId target, Value value);
    Status assign_tuple(const Node& target, const Value& value);
    Status write(std::string_view text);
    Result<Value> capture(NodeId body);  // what the body renders
    Result<Value> filtered(NodeId filters, Value captured);
    std::shared_ptr<Scope> open_scope(std::shared_ptr<Scope> parent);

    // Expressions (expressions.cpp).
    Result<Value> evaluate(NodeId id);
    Result<Value> lookup(const Node& name);
    Result<Value> evaluate_items(const Node& literal, SequenceKind kind);
    Result<Value> evaluate_dict(const Node& literal);
    Result<Value> evaluate_item(const Node& access);
    Result<Value> evaluate_logic(const Node& logic);
    Result<Value> evaluate_compare(const Node& comparison);
    Result<Value> evaluate_binary(NodeId id);
    Result<Value> evaluate_concat(const Node& concat);
    Result<Value> evaluate_conditional(const Node& conditional);
    Result<Value> evaluate_unary(const Node& unary);
    Result<Value> evaluate_filter(const Node& filter);
    Result<Value> evaluate_test(const Node& test);
    Result<Value> evaluate_call(const Node& call);
    Result<Value> optional(NodeId id);  // none when there is no node
    Result<Arguments> arguments(const Node& call);
    Status unpack_argument(Arguments& made, const std::string& kind, const Value& value);
    Result<Value> call(const Value& callee, Arguments arguments);
    Result<Value> call_macro(const Callable& macro, Arguments arguments);
    Status bind_macro(const Node& macro, const Callable& callable, Arguments& arguments);
    Result<Value> call_loop(const Value& loop, const Arguments& arguments);

    const Program& program_;
    Runtime runtime_;
    std::size_t depth_ = 0;
    std::shared_ptr<Scope> scope_;
    std::string* output_ = nullptr;
    std::vector<Value> captured_;                   // of the blocks around this place
    std::vector<std::shared_ptr<Scope>> closures_;  // scopes macros hold on to: emptied at the end, they may be cycles
};

}  // namespace hearth::jinja
