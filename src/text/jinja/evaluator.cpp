#include "text/jinja/evaluator.h"

#include <unordered_map>

#include "text/jinja/python_text.h"

namespace hearth::jinja {

Evaluator::~Evaluator() {
    for (const std::shared_ptr<Scope>& scope : closures_) scope->variables.clear();
    runtime_.drop_namespaces();
}

Result<std::string> Evaluator::render(const Json& context) {
    const Json::Object* variables = context.as_object();
    if (variables == nullptr) return Error{ErrorCode::Usage, "chat template: the context is not an object"};
    std::unordered_map<std::string_view, std::uint32_t> symbols;
    for (std::size_t i = 0; i < program_.symbols.size(); ++i) {
        symbols.emplace(program_.symbols[i], static_cast<std::uint32_t>(i));
    }
    for (const Json::Member& variable : *variables) {
        const auto symbol = symbols.find(variable.first);
        if (symbol != symbols.end()) scope_->set(symbol->second, from_json(variable.second));
    }
    scope_ = open_scope(scope_);
    std::string output;
    output_ = &output;
    TRY(execute(program_.root));
    return output;
}

Status Evaluator::enter() {
    TRY(runtime_.charge(1));
    if (depth_ > runtime_.limits().depth) {
        return runtime_.fail("evaluation nested deeper than the limit of " + std::to_string(runtime_.limits().depth));
    }
    return {};
}

std::shared_ptr<Scope> Evaluator::open_scope(std::shared_ptr<Scope> parent) {
    auto scope = std::make_shared<Scope>();
    scope->parent = std::move(parent);
    return scope;
}

Status Evaluator::write(std::string_view text) {
    if (text.size() > runtime_.limits().output_bytes - output_->size()) {
        return runtime_.fail("output longer than the limit of " + std::to_string(runtime_.limits().output_bytes) +
                             " bytes");
    }
    TRY(runtime_.charge_work(text.size()));
    output_->append(text);
    return {};
}

Result<Evaluator::Flow> Evaluator::execute(NodeId id) {
    const Node& statement = node(id);
    const Level level(*this, statement.line);
    TRY(enter());
    switch (statement.kind) {
        case NodeKind::Body: return execute_body(statement);
        case NodeKind::Text: TRY(write(*statement.value.as_string())); break;
        case NodeKind::Output: {
            const Value printed = TRY(evaluate(statement.children[0]));
            if (const std::string* text = printed.as_string()) {
                TRY(write(*text));
            } else {
                TRY(write(TRY(runtime_.print(printed))));
            }
            break;
        }
        case NodeKind::If: return execute_if(statement);
        case NodeKind::For: TRY(execute_for(statement, id, TRY(evaluate(statement.children[1])), 0)); break;
        case NodeKind::Set:
        case NodeKind::SetBlock: TRY(execute_set(statement)); break;
        case NodeKind::Macro: TRY(define_macro(id)); break;
        case NodeKind::CallBlock: TRY(execute_call_block(statement)); break;
        case NodeKind::FilterBlock: {
            const Value value = TRY(filtered(statement.children[0], TRY(capture(statement.children[1]))));
            TRY(write(TRY(runtime_.print(value))));
            break;
        }
        case NodeKind::With: return execute_with(statement);
        case NodeKind::Break: return Flow::Break;
        case NodeKind::Continue: return Flow::Continue;
        default: return runtime_.fail("not a statement");
    }
    return Flow::Next;
}

Result<Evaluator::Flow> Evaluator::execute_body(const Node& body) {
    for (const NodeId statement : body.children) {
        const Flow flow = TRY(execute(statement));
        if (flow != Flow::Next) return flow;
    }
    return Flow::Next;
}

Result<Evaluator::Flow> Evaluator::execute_if(const Node& statement) {
    const std::vector<NodeId>& parts = statement.children;
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
        if (truthy(TRY(evaluate(parts[i])))) return execute(parts[i + 1]);
    }
    if (parts.size() % 2 == 1) return execute(parts.back());
    return Flow::Next;
}

// The items of a loop after its `if`, which sees the loop's variables.
Result<std::shared_ptr<const Sequence>> Evaluator::loop_items(const Node& statement, const Value& iterable) {
    std::shared_ptr<const Sequence> items = TRY(runtime_.iterate(iterable));
    const NodeId filter = statement.children[2];
    if (filter == kNoNode) return items;
    const std::shared_ptr<Scope> outer = scope_;
    Values kept;
    for (const Value& item : items->items) {
        scope_ = open_scope(outer);
        TRY(assign(statement.children[0], item));
        if (truthy(TRY(evaluate(filter)))) kept.push_back(item);
    }
    scope_ = outer;
    return TRY(runtime_.sequence(SequenceKind::List, std::move(kept))).shared_sequence();
}

Status Evaluator::execute_for(const Node& statement, NodeId id, const Value& iterable, std::size_t level) {
    const std::shared_ptr<Scope> outer = scope_;
    auto loop = std::make_shared<Loop>();
    loop->items = TRY(loop_items(statement, iterable));
    loop->level = level;
    loop->recursive = statement.flag ? id : 0;
    loop->depth = 1 + loop->items->depth;
    if (loop->depth > kValueDepthLimit) return runtime_.fail("values nested deeper than the limit");
    const auto symbol = program_.loop_symbol;
    for (std::size_t i = 0; i < loop->items->items.size(); ++i) {
        TRY(runtime_.charge(1));
        loop->index = i;
        // A scope nobody kept (no macro was defined in it) is used again.
        if (i > 0 && scope_.use_count() == 1) {
            scope_->variables.clear();
        } else {
            scope_ = open_scope(outer);
        }
        if (symbol != kNoSymbol) scope_->set(symbol, Value(loop));
        TRY(assign(statement.children[0], loop->items->items[i]));
        if (TRY(execute(statement.children[3])) == Flow::Break) break;
    }
    scope_ = outer;
    if (loop->items->items.empty() && statement.children[4] != kNoNode) {
        scope_ = open_scope(outer);
        TRY(execute(statement.children[4]));
        scope_ = outer;
    }
    return {};
}

Status Evaluator::execute_set(const Node& statement) {
    if (statement.kind == NodeKind::Set) return assign(statement.children[0], TRY(evaluate(statement.children[1])));
    const std::shared_ptr<Scope> outer = scope_;
    scope_ = open_scope(outer);
    Value value = TRY(capture(statement.children[2]));
    scope_ = outer;
    if (statement.children[1] != kNoNode) value = TRY(filtered(statement.children[1], std::move(value)));
    return assign(statement.children[0], std::move(value));
}

Result<Value> Evaluator::capture(NodeId body) {
    std::string text;
    std::string* const outer = std::exchange(output_, &text);
    const Result<Flow> flow = execute(body);
    output_ = outer;
    if (!flow.ok()) return flow.error();
    return runtime_.text(std::move(text));
}

Result<Value> Evaluator::filtered(NodeId filters, Value captured) {
    captured_.push_back(std::move(captured));
    Result<Value> value = evaluate(filters);
    captured_.pop_back();
    return value;
}

Status Evaluator::define_macro(NodeId id) {
    auto macro = std::make_shared<Callable>();
    macro->kind = Callable::Kind::Macro;
    macro->name = node(id).text;
    macro->node = id;
    macro->scope = scope_;
    TRY(runtime_.charge_memory(sizeof(Callable) + sizeof(Scope)));
    closures_.push_back(scope_);
    scope_->set(node(id).symbol, Value(std::shared_ptr<const Callable>(std::move(macro))));
    return {};
}

Status Evaluator::execute_call_block(const Node& statement) {
    const Node& call_node = node(statement.children[0]);
    const NodeId body = statement.children[1];
    auto caller = std::make_shared<Callable>();
    caller->kind = Callable::Kind::Macro;
    caller->name = "caller";
    caller->node = body;
    caller->scope = scope_;
    TRY(runtime_.charge_memory(sizeof(Callable) + sizeof(Scope)));
    closures_.push_back(scope_);
    const Value callee = TRY(evaluate(call_node.children[0]));
    Arguments made = TRY(arguments(call_node));
    made.named.emplace_back("caller", Value(std::shared_ptr<const Callable>(std::move(caller))));
    const Value value = TRY(call(callee, std::move(made)));
    return write(TRY(runtime_.print(value)));
}

Result<Evaluator::Flow> Evaluator::execute_with(const Node& statement) {
    const std::shared_ptr<Scope> outer = scope_;
    const std::shared_ptr<Scope> inner = open_scope(outer);
    // Values see the scope around the block, not each other.
    Values values;
    for (std::size_t i = 0; i + 1 < statement.children.size(); i += 2) {
        values.push_back(TRY(evaluate(statement.children[i + 1])));
    }
    scope_ = inner;
    for (std::size_t i = 0; i < values.size(); ++i) TRY(assign(statement.children[2 * i], std::move(values[i])));
    const Flow flow = TRY(execute(statement.children.back()));
    scope_ = outer;
    return flow;
}

Status Evaluator::assign(NodeId id, Value value) {
    const Node& target = node(id);
    if (target.kind == NodeKind::Name) {
        scope_->set(target.symbol, std::move(value));
        return {};
    }
    if (target.kind == NodeKind::Tuple) {
        const Level level(*this, target.line);
        TRY(enter());
        return assign_tuple(target, value);
    }
    Node name;
    name.symbol = target.symbol;
    const Value object = TRY(lookup(name));
    Namespace* names = object.as_namespace();
    if (names == nullptr) return runtime_.fail("cannot assign attribute on non-namespace object");
    TRY(runtime_.charge_memory(2 * sizeof(Value)));
    names->attributes.put(Value(target.text), std::move(value));
    return {};
}

Status Evaluator::assign_tuple(const Node& target, const Value& value) {
    const std::shared_ptr<const Sequence> items = TRY(runtime_.iterate(value));
    const std::size_t wanted = target.children.size();
    if (items->items.size() > wanted) {
        return runtime_.fail("too many values to unpack (expected " + std::to_string(wanted) + ")");
    }
    if (items->items.size() < wanted) {
        return runtime_.fail("not enough values to unpack (expected " + std::to_string(wanted) + ", got " +
                             std::to_string(items->items.size()) + ")");
    }
    for (std::size_t i = 0; i < wanted; ++i) TRY(assign(target.children[i], items->items[i]));
    return {};
}

}  // namespace hearth::jinja
