// The expression half of the parser: precedence climbing, so that a parenthesis costs few stack frames.
#include <algorithm>

#include "text/jinja/parser.h"

namespace hearth::jinja {

namespace {

// Binding strength, weakest first. kNot stands between `and` and the comparisons.
enum : int { kNone = -1, kOr, kAnd, kNot, kCompare, kAdd, kConcat, kMultiply, kPower };

char comparison_character(std::string_view text) {
    if (text == "==") return comparison::kEqual;
    if (text == "!=") return comparison::kNotEqual;
    if (text == "<") return comparison::kLess;
    if (text == "<=") return comparison::kLessEqual;
    if (text == ">") return comparison::kGreater;
    if (text == ">=") return comparison::kGreaterEqual;
    return '\0';
}

}  // namespace

bool Parser::at_tuple_end() const {
    return current().kind == TokenKind::VariableEnd || current().kind == TokenKind::BlockEnd || at_operator(")");
}

Result<NodeId> Parser::tuple(Conditional mode, bool may_be_empty) {
    const std::uint32_t line = current().line;
    std::vector<NodeId> items;
    bool is_tuple = false;
    while (!at_tuple_end()) {
        items.push_back(mode == Conditional::Allowed ? TRY(conditional()) : TRY(operators(kOr)));
        if (!take_operator(",")) break;
        is_tuple = true;
    }
    if (!is_tuple && !items.empty()) return items[0];
    if (!is_tuple && !may_be_empty) return fail("expected an expression");
    return add(NodeKind::Tuple, line, std::move(items));
}

Result<NodeId> Parser::conditional() {
    const Level level(depth_);
    TRY(check_depth());
    NodeId chosen = TRY(operators(kOr));
    while (at_name("if")) {
        const std::uint32_t line = current().line;
        advance();
        const NodeId test = TRY(operators(kOr));
        NodeId otherwise = kNoNode;
        if (take_name("else")) otherwise = TRY(conditional());
        chosen = add(NodeKind::Conditional, line, {test, chosen, otherwise});
    }
    return chosen;
}

int Parser::operator_level() const {
    const Token& token = current();
    if (token.kind == TokenKind::Name) {
        if (token.text == "or") return kOr;
        if (token.text == "and") return kAnd;
        if (token.text == "in") return kCompare;
        if (token.text == "not" && next().kind == TokenKind::Name && next().text == "in") return kCompare;
        return kNone;
    }
    if (token.kind != TokenKind::Operator) return kNone;
    if (comparison_character(token.text) != '\0') return kCompare;
    if (token.text == "+" || token.text == "-") return kAdd;
    if (token.text == "~") return kConcat;
    if (token.text == "*" || token.text == "/" || token.text == "//" || token.text == "%") return kMultiply;
    if (token.text == "**") return kPower;
    return kNone;
}

// Everything that binds at least as strongly as `lowest`.
Result<NodeId> Parser::operators(int lowest) {
    NodeId left = lowest <= kNot && at_name("not") ? TRY(negation()) : TRY(unary(true));
    for (int level = operator_level(); level >= lowest && level != kNone; level = operator_level()) {
        left = TRY(continue_operators(left, level));
    }
    return left;
}

Result<NodeId> Parser::negation() {
    const std::uint32_t line = current().line;
    std::size_t count = 0;
    while (take_name("not")) ++count;
    NodeId operand = TRY(operators(kCompare));
    // A chain of nots is worth its last one or two: the tree stays shallow however long it is.
    operand = add(NodeKind::Not, line, {operand});
    return count % 2 == 1 ? operand : add(NodeKind::Not, line, {operand});
}

Result<NodeId> Parser::continue_operators(NodeId left, int level) {
    const std::uint32_t line = current().line;
    if (level == kCompare) return comparison_chain(left);
    if (level == kOr || level == kAnd || level == kConcat) {
        const NodeKind kind = level == kOr ? NodeKind::Or : level == kAnd ? NodeKind::And : NodeKind::Concat;
        std::vector<NodeId> operands = {left};
        while (operator_level() == level) {
            advance();
            operands.push_back(TRY(operators(level + 1)));
        }
        return add(kind, line, std::move(operands));
    }
    const std::string sign = current().text;
    advance();
    const NodeId right = TRY(operators(level + 1));
    const NodeId id = add(NodeKind::Binary, line, {left, right});
    const char operation = sign == "//" ? operation::kFloor : sign == "**" ? operation::kPower : sign[0];
    node(id).text = std::string(1, operation);
    return id;
}

Result<NodeId> Parser::comparison_chain(NodeId first) {
    const std::uint32_t line = current().line;
    std::vector<NodeId> operands = {first};
    std::string signs;
    while (operator_level() == kCompare) {
        if (take_name("in")) {
            signs.push_back(comparison::kIn);
        } else if (take_name("not")) {
            advance();
            signs.push_back(comparison::kNotIn);
        } else {
            signs.push_back(comparison_character(current().text));
            advance();
        }
        operands.push_back(TRY(operators(kAdd)));
    }
    const NodeId id = add(NodeKind::Compare, line, std::move(operands));
    node(id).text = std::move(signs);
    return id;
}

Result<NodeId> Parser::unary(bool with_filters) {
    const Level level(depth_);
    TRY(check_depth());
    const std::uint32_t line = current().line;
    NodeId operand = kNoNode;
    if (take_operator("-")) {
        operand = add(NodeKind::Negative, line, {TRY(unary(false))});
    } else if (take_operator("+")) {
        operand = add(NodeKind::Positive, line, {TRY(unary(false))});
    } else {
        operand = TRY(primary());
    }
    operand = TRY(postfix(operand));
    return with_filters ? filters_and_tests(operand) : operand;
}

Result<NodeId> Parser::primary() {
    const Token token = current();
    if (token.kind == TokenKind::Name) {
        constexpr std::string_view kReserved[] = {"not", "and", "or", "in", "is", "if", "else"};
        if (std::find(std::begin(kReserved), std::end(kReserved), token.text) != std::end(kReserved))
            return unexpected();
        advance();
        const bool yes = token.text == "true" || token.text == "True";
        const bool none = token.text == "none" || token.text == "None";
        if (!yes && !none && token.text != "false" && token.text != "False") return name_node(token.text, token.line);
        const NodeId id = add(NodeKind::Constant, token.line);
        node(id).value = none ? Value(None{}) : Value(yes);
        return id;
    }
    if (token.kind == TokenKind::String) {
        std::string text;
        for (; current().kind == TokenKind::String; advance()) text += current().text;
        const NodeId id = add(NodeKind::Constant, token.line);
        node(id).value = Value(std::move(text));
        return id;
    }
    if (token.kind == TokenKind::Integer || token.kind == TokenKind::Float) {
        advance();
        const NodeId id = add(NodeKind::Constant, token.line);
        node(id).value = token.kind == TokenKind::Integer ? Value(token.integer) : Value(token.real);
        return id;
    }
    if (at_operator("[")) return list_literal();
    if (at_operator("{")) return dict_literal();
    if (!take_operator("(")) return unexpected();
    const NodeId inner = TRY(tuple(Conditional::Allowed, true));
    TRY(expect_operator(")"));
    return inner;
}

Result<NodeId> Parser::list_literal() {
    const std::uint32_t line = current().line;
    std::vector<NodeId> items;
    advance();
    while (!at_operator("]")) {
        if (!items.empty()) {
            TRY(expect_operator(","));
            if (at_operator("]")) break;
        }
        items.push_back(TRY(expression()));
    }
    advance();
    return add(NodeKind::List, line, std::move(items));
}

Result<NodeId> Parser::dict_literal() {
    const std::uint32_t line = current().line;
    std::vector<NodeId> items;
    advance();
    while (!at_operator("}")) {
        if (!items.empty()) {
            TRY(expect_operator(","));
            if (at_operator("}")) break;
        }
        items.push_back(TRY(expression()));
        TRY(expect_operator(":"));
        items.push_back(TRY(expression()));
    }
    advance();
    return add(NodeKind::DictLiteral, line, std::move(items));
}

Result<NodeId> Parser::postfix(NodeId object) {
    for (;;) {
        if (at_operator(".") || at_operator("[")) {
            object = TRY(subscript(object));
        } else if (at_operator("(")) {
            object = add(NodeKind::Call, current().line, {object});
            TRY(arguments(object));
        } else {
            return object;
        }
    }
}

Result<NodeId> Parser::subscript(NodeId object) {
    const std::uint32_t line = current().line;
    if (take_operator(".")) {
        const Token name = current();
        advance();
        if (name.kind == TokenKind::Name) {
            const NodeId id = add(NodeKind::Attribute, line, {object});
            node(id).text = name.text;
            return id;
        }
        if (name.kind != TokenKind::Integer) return fail("expected name or number");
        const NodeId key = add(NodeKind::Constant, line);
        node(key).value = Value(name.integer);
        return add(NodeKind::Item, line, {object, key});
    }
    advance();  // [
    std::vector<NodeId> keys;
    bool is_tuple = false;
    while (!at_operator("]")) {
        if (!keys.empty()) {
            TRY(expect_operator(","));
            is_tuple = true;
        }
        keys.push_back(TRY(subscript_key()));
    }
    advance();
    const NodeId key = is_tuple || keys.empty() ? add(NodeKind::Tuple, line, std::move(keys)) : keys[0];
    return add(NodeKind::Item, line, {object, key});
}

Result<NodeId> Parser::subscript_key() {
    const std::uint32_t line = current().line;
    const auto at_end = [&] { return at_operator(":") || at_operator("]") || at_operator(","); };
    NodeId first = kNoNode;
    if (!at_operator(":")) {
        first = TRY(expression());
        if (!at_operator(":")) return first;
    }
    advance();
    NodeId last = kNoNode;
    NodeId step = kNoNode;
    if (!at_end()) last = TRY(expression());
    if (take_operator(":") && !at_end()) step = TRY(expression());
    return add(NodeKind::Slice, line, {first, last, step});
}

Result<NodeId> Parser::filters_and_tests(NodeId input) {
    for (;;) {
        if (at_operator("|")) {
            input = TRY(filter_chain(input, false));
        } else if (at_name("is")) {
            input = TRY(test(input));
        } else if (at_operator("(")) {
            input = add(NodeKind::Call, current().line, {input});
            TRY(arguments(input));
        } else {
            return input;
        }
    }
}

Result<NodeId> Parser::filter_chain(NodeId input, bool first_inline) {
    while (first_inline || at_operator("|")) {
        if (!first_inline) advance();
        first_inline = false;
        const std::uint32_t line = current().line;
        const std::string name = TRY(expect_identifier());
        input = add(NodeKind::Filter, line, {input});
        node(input).text = name;
        if (at_operator("(")) TRY(arguments(input));
    }
    return input;
}

Result<NodeId> Parser::test(NodeId input) {
    const std::uint32_t line = current().line;
    advance();  // is
    const bool negated = take_name("not");
    const std::string name = TRY(expect_identifier());
    const NodeId id = add(NodeKind::Test, line, {input});
    node(id).text = name;
    const TokenKind kind = current().kind;
    const bool literal = kind == TokenKind::String || kind == TokenKind::Integer || kind == TokenKind::Float ||
                         at_operator("[") || at_operator("{");
    // Words that continue the expression around the test are not its argument.
    constexpr std::string_view kContinues[] = {"else", "or", "and", "if", "not", "in", "recursive"};
    const bool named = kind == TokenKind::Name &&
                       std::find(std::begin(kContinues), std::end(kContinues), current().text) == std::end(kContinues);
    if (at_operator("(")) {
        TRY(arguments(id));
    } else if (literal || named) {
        if (at_name("is")) return fail("tests cannot be chained with 'is'");
        const Level level(depth_);
        TRY(check_depth());
        const NodeId argument = TRY(postfix(TRY(primary())));
        node(id).children.push_back(argument);
        node(id).names.emplace_back();
    }
    return negated ? add(NodeKind::Not, line, {id}) : id;
}

Status Parser::arguments(NodeId call) {
    TRY(expect_operator("("));
    std::vector<NodeId> values;
    std::vector<std::string> names;
    bool positional_allowed = true;
    while (!at_operator(")")) {
        if (!values.empty()) {
            TRY(expect_operator(","));
            if (at_operator(")")) break;
        }
        std::string_view name;
        std::string keyword;
        if (take_operator("*")) {
            name = "*";
            positional_allowed = false;
        } else if (take_operator("**")) {
            name = "**";
            positional_allowed = false;
        } else if (current().kind == TokenKind::Name && next().kind == TokenKind::Operator && next().text == "=") {
            keyword = current().text;
            name = keyword;
            advance();
            advance();
            positional_allowed = false;
        } else if (!positional_allowed) {
            return fail("invalid syntax for function call expression");
        }
        values.push_back(TRY(expression()));
        names.emplace_back(name);
    }
    advance();
    node(call).children.insert(node(call).children.end(), values.begin(), values.end());
    node(call).names.insert(node(call).names.end(), std::make_move_iterator(names.begin()),
                            std::make_move_iterator(names.end()));
    return {};
}

}  // namespace hearth::jinja
