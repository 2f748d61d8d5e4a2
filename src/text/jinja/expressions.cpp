// The expression half of the evaluator.
#include "text/jinja/evaluator.h"
#include "text/jinja/python_text.h"

namespace hearth::jinja {

Result<Value> Evaluator::evaluate(NodeId id) {
    const Node& expression = node(id);
    const Level level(*this, expression.line);
    TRY(enter());
    switch (expression.kind) {
        case NodeKind::Constant: return expression.value;
        case NodeKind::Name: return lookup(expression);
        case NodeKind::Captured: return captured_.back();
        case NodeKind::List: return evaluate_items(expression, SequenceKind::List);
        case NodeKind::Tuple: return evaluate_items(expression, SequenceKind::Tuple);
        case NodeKind::DictLiteral: return evaluate_dict(expression);
        case NodeKind::Attribute: return runtime_.attribute(TRY(evaluate(expression.children[0])), expression.text);
        case NodeKind::Item: return evaluate_item(expression);
        case NodeKind::Call: return evaluate_call(expression);
        case NodeKind::Filter: return evaluate_filter(expression);
        case NodeKind::Test: return evaluate_test(expression);
        case NodeKind::Negative:
        case NodeKind::Positive:
        case NodeKind::Not: return evaluate_unary(expression);
        case NodeKind::And:
        case NodeKind::Or: return evaluate_logic(expression);
        case NodeKind::Compare: return evaluate_compare(expression);
        case NodeKind::Binary: return evaluate_binary(id);
        case NodeKind::Concat: return evaluate_concat(expression);
        case NodeKind::Conditional: return evaluate_conditional(expression);
        case NodeKind::Slice: return runtime_.fail("a slice stands outside a subscript");
        default: return runtime_.fail("not an expression");
    }
}

Result<Value> Evaluator::lookup(const Node& name) {
    for (Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
        if (const Value* found = scope->find(name.symbol)) return *found;
    }
    const std::string& text = program_.symbols[name.symbol];
    if (is_global_function(text)) {
        auto callable = std::make_shared<Callable>();
        callable->name = text;
        return Value(std::shared_ptr<const Callable>(std::move(callable)));
    }
    return Value::undefined("'" + text + "' is undefined");
}

Result<Value> Evaluator::evaluate_items(const Node& literal, SequenceKind kind) {
    Values items;
    items.reserve(literal.children.size());
    for (const NodeId item : literal.children) items.push_back(TRY(evaluate(item)));
    return runtime_.sequence(kind, std::move(items));
}

Result<Value> Evaluator::evaluate_dict(const Node& literal) {
    Dict dict;
    for (std::size_t i = 0; i + 1 < literal.children.size(); i += 2) {
        Value key = TRY(evaluate(literal.children[i]));
        Value value = TRY(evaluate(literal.children[i + 1]));
        std::string identity;
        if (!key_identity(key, identity)) return runtime_.fail("unhashable type: " + quoted(type_name(key)));
        TRY(runtime_.charge_memory(identity.size()));
        dict.put(std::move(key), std::move(value));
    }
    return runtime_.dict(std::move(dict));
}

Result<Value> Evaluator::optional(NodeId id) {
    if (id == kNoNode) return Value(None{});
    return evaluate(id);
}

Result<Value> Evaluator::evaluate_item(const Node& access) {
    const Value object = TRY(evaluate(access.children[0]));
    const Node& key = node(access.children[1]);
    if (key.kind != NodeKind::Slice) return runtime_.item(object, TRY(evaluate(access.children[1])));
    const Value first = TRY(optional(key.children[0]));
    const Value last = TRY(optional(key.children[1]));
    return runtime_.slice(object, first, last, TRY(optional(key.children[2])));
}

Result<Value> Evaluator::evaluate_unary(const Node& unary) {
    const Value operand = TRY(evaluate(unary.children[0]));
    if (unary.kind == NodeKind::Not) return Value(!truthy(operand));
    return unary.kind == NodeKind::Negative ? runtime_.negative(operand) : runtime_.positive(operand);
}

Result<Value> Evaluator::evaluate_logic(const Node& logic) {
    Value value;
    for (const NodeId operand : logic.children) {
        value = TRY(evaluate(operand));
        if (truthy(value) == (logic.kind == NodeKind::Or)) break;
    }
    return value;
}

Result<Value> Evaluator::evaluate_compare(const Node& comparison) {
    Value left = TRY(evaluate(comparison.children[0]));
    for (std::size_t i = 0; i < comparison.text.size(); ++i) {
        Value right = TRY(evaluate(comparison.children[i + 1]));
        if (!TRY(runtime_.compare(comparison.text[i], left, right))) return Value(false);
        left = std::move(right);
    }
    return Value(true);
}

Result<Value> Evaluator::evaluate_binary(NodeId id) {
    // `a + b + c + ...` leans to the left: walk down its spine instead of recursing, so that length is not depth.
    std::vector<NodeId> spine;
    NodeId leaf = id;
    for (; node(leaf).kind == NodeKind::Binary; leaf = node(leaf).children[0]) spine.push_back(leaf);
    TRY(runtime_.charge(spine.size()));
    Value value = TRY(evaluate(leaf));
    for (auto step = spine.rbegin(); step != spine.rend(); ++step) {
        const Value right = TRY(evaluate(node(*step).children[1]));
        value = TRY(runtime_.binary(node(*step).text[0], value, right));
    }
    return value;
}

Result<Value> Evaluator::evaluate_concat(const Node& concat) {
    std::string joined;
    for (const NodeId operand : concat.children) {
        joined += TRY(runtime_.print(TRY(evaluate(operand))));
        if (joined.size() > runtime_.limits().output_bytes) break;
    }
    return runtime_.text(std::move(joined));
}

Result<Value> Evaluator::evaluate_conditional(const Node& conditional) {
    if (truthy(TRY(evaluate(conditional.children[0])))) return evaluate(conditional.children[1]);
    if (conditional.children[2] != kNoNode) return evaluate(conditional.children[2]);
    return Value::undefined("the inline if-expression evaluated to false and no else section was defined");
}

Result<Value> Evaluator::evaluate_filter(const Node& filter) {
    const Value input = TRY(evaluate(filter.children[0]));
    return runtime_.filter(filter.text, input, TRY(arguments(filter)));
}

Result<Value> Evaluator::evaluate_test(const Node& test) {
    const Value input = TRY(evaluate(test.children[0]));
    return Value(TRY(runtime_.test(test.text, input, TRY(arguments(test)))));
}

Result<Arguments> Evaluator::arguments(const Node& call) {
    Arguments made;
    for (std::size_t i = 0; i < call.names.size(); ++i) {
        Value value = TRY(evaluate(call.children[i + 1]));
        const std::string& name = call.names[i];
        if (name.empty()) {
            made.positional.push_back(std::move(value));
        } else if (name == "*" || name == "**") {
            TRY(unpack_argument(made, name, value));
        } else {
            made.named.emplace_back(name, std::move(value));
        }
    }
    return made;
}

Status Evaluator::unpack_argument(Arguments& made, const std::string& kind, const Value& value) {
    if (kind == "*") {
        const std::shared_ptr<const Sequence> items = TRY(runtime_.iterate(value));
        TRY(runtime_.charge(items->items.size()));
        made.positional.insert(made.positional.end(), items->items.begin(), items->items.end());
        return {};
    }
    const Dict* dict = value.as_dict();
    if (dict == nullptr) return runtime_.fail("argument after ** must be a mapping");
    TRY(runtime_.charge(dict->entries.size()));
    for (const auto& [key, content] : dict->entries) {
        if (key.as_string() == nullptr) return runtime_.fail("keywords must be strings");
        made.named.emplace_back(*key.as_string(), content);
    }
    return {};
}

Result<Value> Evaluator::evaluate_call(const Node& call_node) {
    const Value callee = TRY(evaluate(call_node.children[0]));
    return call(callee, TRY(arguments(call_node)));
}

Result<Value> Evaluator::call(const Value& callee, Arguments arguments) {
    if (callee.as_loop() != nullptr) return call_loop(callee, arguments);
    const Callable* callable = callee.as_callable();
    if (callable == nullptr) {
        if (const Undefined* undefined = callee.as_undefined(); undefined != nullptr && undefined->reason != nullptr) {
            return runtime_.fail(*undefined->reason);
        }
        return runtime_.fail(quoted_type(callee) + " object is not callable");
    }
    switch (callable->kind) {
        case Callable::Kind::Macro: return call_macro(*callable, std::move(arguments));
        case Callable::Kind::Method: return runtime_.method(callable->self, callable->name, arguments);
        case Callable::Kind::Function: break;
    }
    return runtime_.function(callable->name, arguments);
}

Result<Value> Evaluator::call_macro(const Callable& callable, Arguments arguments) {
    const Node& macro = node(static_cast<NodeId>(callable.node));
    const Level level(*this, runtime_.line());
    TRY(enter());
    const std::shared_ptr<Scope> outer = std::exchange(scope_, open_scope(callable.scope));
    const Status bound = bind_macro(macro, callable, arguments);
    if (!bound.ok()) return bound.error();
    Result<Value> rendered = capture(macro.children[0]);
    scope_ = outer;
    return rendered;
}

Status Evaluator::bind_macro(const Node& macro, const Callable& callable, Arguments& arguments) {
    const std::size_t count = macro.names.size();
    std::vector<bool> given(count, false);
    Values extra;
    for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
        if (i < count) {
            given[i] = true;
            scope_->set(macro.symbols[i], std::move(arguments.positional[i]));
        } else {
            extra.push_back(std::move(arguments.positional[i]));
        }
    }
    if (!extra.empty() && !macro.takes_extra_positional) {
        return runtime_.fail("macro " + quoted(callable.name) + " takes not more than " + std::to_string(count) +
                             " argument(s)");
    }
    Dict named;
    Value caller = Value::undefined("No caller defined");
    for (auto& [name, value] : arguments.named) {
        std::size_t i = 0;
        while (i < count && macro.names[i] != name) ++i;
        if (i < count) {
            if (given[i])
                return runtime_.fail("macro " + quoted(callable.name) + " got twice the argument " + quoted(name));
            given[i] = true;
            scope_->set(macro.symbols[i], std::move(value));
        } else if (name == "caller" && macro.takes_caller) {
            caller = std::move(value);
        } else if (macro.takes_extra_named) {
            named.put(Value(name), std::move(value));
        } else {
            return runtime_.fail("macro " + quoted(callable.name) + " takes no keyword argument " + quoted(name));
        }
    }
    for (std::size_t i = 0; i < count; ++i) {
        if (given[i]) continue;
        const NodeId otherwise = macro.children[i + 1];
        scope_->set(macro.symbols[i],
                    otherwise == kNoNode ? Value::undefined("parameter " + quoted(macro.names[i]) + " was not provided")
                                         : TRY(evaluate(otherwise)));
    }
    for (std::size_t i = 0;
         i < program_.symbols.size() && (macro.takes_caller || macro.takes_extra_named || macro.takes_extra_positional);
         ++i) {
        const std::string& symbol = program_.symbols[i];
        if (symbol == "caller" && macro.takes_caller) scope_->set(static_cast<std::uint32_t>(i), caller);
        if (symbol == "varargs" && macro.takes_extra_positional) {
            scope_->set(static_cast<std::uint32_t>(i), TRY(runtime_.sequence(SequenceKind::Tuple, std::move(extra))));
        }
        if (symbol == "kwargs" && macro.takes_extra_named) {
            scope_->set(static_cast<std::uint32_t>(i), TRY(runtime_.dict(std::move(named))));
        }
    }
    return {};
}

Result<Value> Evaluator::call_loop(const Value& loop_value, const Arguments& arguments) {
    const Loop& loop = *loop_value.as_loop();
    if (loop.recursive == 0 || arguments.positional.size() != 1) {
        return runtime_.fail("the loop must have the 'recursive' marker to be called with one argument");
    }
    const Level level(*this, runtime_.line());
    TRY(enter());
    const NodeId id = static_cast<NodeId>(loop.recursive);
    std::string text;
    std::string* const outer = std::exchange(output_, &text);
    const Status status = execute_for(node(id), id, arguments.positional[0], loop.level + 1);
    output_ = outer;
    if (!status.ok()) return status.error();
    return runtime_.text(std::move(text));
}

}  // namespace hearth::jinja
