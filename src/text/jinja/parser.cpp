#include "text/jinja/parser.h"

#include <algorithm>

#include "text/jinja/python_text.h"

namespace hearth::jinja {

namespace {

constexpr std::size_t kSourceLimit = 512 << 10;  // bytes; the longest templates in use have some 30 kB

}  // namespace

Result<Program> parse_template(std::string_view source, std::size_t depth_limit) {
    if (source.size() > kSourceLimit) {
        return template_error(1, "the template has " + std::to_string(source.size()) + " bytes, the limit is " +
                                     std::to_string(kSourceLimit));
    }
    return Parser(TRY(tokenize_template(source)), depth_limit).run();
}

Result<Program> Parser::run() {
    program_.root = TRY(body({}));
    if (current().kind != TokenKind::End) return unexpected();
    if (const auto loop = symbol_index_.find("loop"); loop != symbol_index_.end()) program_.loop_symbol = loop->second;
    return std::move(program_);
}

bool Parser::take_operator(std::string_view text) {
    if (!at_operator(text)) return false;
    advance();
    return true;
}

bool Parser::take_name(std::string_view text) {
    if (!at_name(text)) return false;
    advance();
    return true;
}

Status Parser::expect_operator(std::string_view text) {
    if (!take_operator(text)) return fail("expected '" + std::string(text) + "', got " + described());
    return {};
}

Status Parser::expect_block_end() {
    take_operator(":");
    if (current().kind != TokenKind::BlockEnd) return unexpected();
    advance();
    return {};
}

Result<std::string> Parser::expect_identifier() {
    if (current().kind != TokenKind::Name) return unexpected();
    std::string name = current().text;
    advance();
    return name;
}

std::string Parser::described() const {
    const Token& token = current();
    switch (token.kind) {
        case TokenKind::End: return "end of template";
        case TokenKind::BlockEnd: return "end of statement block";
        case TokenKind::VariableEnd: return "end of print statement";
        case TokenKind::String: return "string " + quoted(token.text);
        case TokenKind::Float: return "number";
        case TokenKind::Text: return "text";
        case TokenKind::VariableBegin:
        case TokenKind::BlockBegin: return "tag";
        case TokenKind::Name:
        case TokenKind::Integer:
        case TokenKind::Operator: break;
    }
    return "'" + token.text + "'";
}

Error Parser::unexpected() const {
    return fail("unexpected " + described());
}

Status Parser::check_depth() const {
    if (depth_ > depth_limit_) return fail("nested deeper than the limit of " + std::to_string(depth_limit_));
    return {};
}

NodeId Parser::add(NodeKind kind, std::uint32_t line, std::vector<NodeId> children) {
    Node made;
    made.kind = kind;
    made.line = line;
    made.children = std::move(children);
    program_.nodes.push_back(std::move(made));
    return static_cast<NodeId>(program_.nodes.size() - 1);
}

std::uint32_t Parser::symbol(const std::string& name) {
    const auto [place, is_new] = symbol_index_.try_emplace(name, static_cast<std::uint32_t>(program_.symbols.size()));
    if (is_new) program_.symbols.push_back(name);
    return place->second;
}

NodeId Parser::name_node(const std::string& name, std::uint32_t line) {
    for (MacroUse& use : macros_) {
        use.varargs = use.varargs || name == "varargs";
        use.kwargs = use.kwargs || name == "kwargs";
        use.caller = use.caller || name == "caller";
    }
    const NodeId id = add(NodeKind::Name, line);
    node(id).symbol = symbol(name);
    return id;
}

Result<NodeId> Parser::body(std::initializer_list<std::string_view> ends) {
    const Level level(depth_);
    TRY(check_depth());
    const NodeId id = add(NodeKind::Body, current().line);
    std::vector<NodeId> statements;
    for (;;) {
        const Token& token = current();
        if (token.kind == TokenKind::End) {
            if (ends.size() > 0) return fail("unexpected end of template, expected " + std::string(*ends.begin()));
            break;
        }
        if (token.kind == TokenKind::Text) {
            const NodeId text = add(NodeKind::Text, token.line);
            node(text).value = Value(token.text);
            statements.push_back(text);
            advance();
        } else if (token.kind == TokenKind::VariableBegin) {
            const std::uint32_t line = token.line;
            advance();
            const NodeId printed = TRY(tuple(Conditional::Allowed, false));
            if (current().kind != TokenKind::VariableEnd) return unexpected();
            advance();
            statements.push_back(add(NodeKind::Output, line, {printed}));
        } else if (token.kind == TokenKind::BlockBegin) {
            const std::string& tag = next().text;
            if (next().kind == TokenKind::Name && std::find(ends.begin(), ends.end(), tag) != ends.end()) {
                advance();
                break;
            }
            advance();
            statements.push_back(TRY(statement()));
        } else {
            return unexpected();
        }
    }
    node(id).children = std::move(statements);
    return id;
}

Result<NodeId> Parser::block_body(std::initializer_list<std::string_view> ends) {
    TRY(expect_block_end());
    return body(ends);
}

Status Parser::end_tag(std::string_view name) {
    if (!take_name(name)) return unexpected();
    return expect_block_end();
}

Result<NodeId> Parser::statement() {
    if (current().kind != TokenKind::Name) return unexpected();
    const std::uint32_t line = current().line;
    const std::string tag = current().text;
    if (tag == "if") return if_statement();
    if (tag == "for") return for_statement();
    if (tag == "set") return set_statement();
    if (tag == "macro") return macro_statement();
    if (tag == "call") return call_statement();
    if (tag == "filter") return filter_statement();
    if (tag == "with") return with_statement();
    if (tag == "generation") return transparent_statement("endgeneration");
    if (tag == "break" || tag == "continue") {
        if (loops_ == 0) return fail("'" + tag + "' outside a loop");
        advance();
        TRY(expect_block_end());
        return add(tag == "break" ? NodeKind::Break : NodeKind::Continue, line);
    }
    if (tag == "include" || tag == "import" || tag == "from" || tag == "extends" || tag == "block") {
        return fail("'" + tag + "' is not supported in a chat template");
    }
    return fail("unknown tag '" + tag + "'");
}

Result<NodeId> Parser::if_statement() {
    const std::uint32_t line = current().line;
    std::vector<NodeId> parts;
    do {
        advance();  // if, elif
        parts.push_back(TRY(tuple(Conditional::Refused, false)));
        parts.push_back(TRY(block_body({"endif", "elif", "else"})));
    } while (at_name("elif"));
    if (take_name("else")) parts.push_back(TRY(block_body({"endif"})));
    TRY(end_tag("endif"));
    return add(NodeKind::If, line, std::move(parts));
}

Result<NodeId> Parser::for_statement() {
    const std::uint32_t line = current().line;
    advance();
    const NodeId item = TRY(target(false));
    if (!take_name("in")) return unexpected();
    const NodeId iterable = TRY(tuple(Conditional::Refused, false));
    NodeId filter = kNoNode;
    if (take_name("if")) filter = TRY(expression());
    const bool recursive = take_name("recursive");
    ++loops_;
    const NodeId inner = TRY(block_body({"endfor", "else"}));
    --loops_;
    NodeId otherwise = kNoNode;
    if (take_name("else")) otherwise = TRY(block_body({"endfor"}));
    TRY(end_tag("endfor"));
    const NodeId id = add(NodeKind::For, line, {item, iterable, filter, inner, otherwise});
    node(id).flag = recursive;
    return id;
}

Result<NodeId> Parser::set_statement() {
    const std::uint32_t line = current().line;
    advance();
    const NodeId place = TRY(target(true));
    if (take_operator("=")) {
        const NodeId value = TRY(tuple(Conditional::Allowed, false));
        TRY(expect_block_end());
        return add(NodeKind::Set, line, {place, value});
    }
    NodeId filters = kNoNode;
    if (at_operator("|")) filters = TRY(filter_chain(add(NodeKind::Captured, line), false));
    const NodeId inner = TRY(block_body({"endset"}));
    TRY(end_tag("endset"));
    return add(NodeKind::SetBlock, line, {place, filters, inner});
}

Status Parser::signature(NodeId macro) {
    TRY(expect_operator("("));
    std::vector<NodeId> defaults;
    std::vector<std::string> names;
    std::vector<std::uint32_t> symbols;
    bool has_default = false;
    while (!at_operator(")")) {
        if (!names.empty()) TRY(expect_operator(","));
        names.push_back(TRY(expect_identifier()));
        symbols.push_back(symbol(names.back()));
        defaults.push_back(kNoNode);
        if (take_operator("=")) {
            defaults.back() = TRY(expression());
            has_default = true;
        } else if (has_default) {
            return fail("non-default argument follows default argument");
        }
    }
    TRY(expect_operator(")"));
    node(macro).children.insert(node(macro).children.end(), defaults.begin(), defaults.end());
    node(macro).names = std::move(names);
    node(macro).symbols = std::move(symbols);
    return {};
}

Result<NodeId> Parser::macro_body(NodeId macro, std::string_view end) {
    macros_.push_back({});
    const std::size_t loops_outside = std::exchange(loops_, 0);  // a break inside may not leave the macro
    const NodeId inner = TRY(block_body({end}));
    loops_ = loops_outside;
    TRY(end_tag(end));
    node(macro).children[0] = inner;
    node(macro).takes_extra_positional = macros_.back().varargs;
    node(macro).takes_extra_named = macros_.back().kwargs;
    node(macro).takes_caller = macros_.back().caller;
    macros_.pop_back();
    return macro;
}

Result<NodeId> Parser::macro_statement() {
    const NodeId macro = add(NodeKind::Macro, current().line, {kNoNode});
    advance();
    const std::string name = TRY(expect_identifier());
    node(macro).text = name;
    node(macro).symbol = symbol(name);
    TRY(signature(macro));
    return macro_body(macro, "endmacro");
}

Result<NodeId> Parser::call_statement() {
    const std::uint32_t line = current().line;
    const NodeId macro = add(NodeKind::Macro, line, {kNoNode});
    node(macro).text = "caller";
    advance();
    if (at_operator("(")) TRY(signature(macro));
    const NodeId call = TRY(expression());
    if (node(call).kind != NodeKind::Call) return fail("expected call");
    TRY(macro_body(macro, "endcall"));
    return add(NodeKind::CallBlock, line, {call, macro});
}

Result<NodeId> Parser::filter_statement() {
    const std::uint32_t line = current().line;
    advance();
    const NodeId filters = TRY(filter_chain(add(NodeKind::Captured, line), true));
    const NodeId inner = TRY(block_body({"endfilter"}));
    TRY(end_tag("endfilter"));
    return add(NodeKind::FilterBlock, line, {filters, inner});
}

Result<NodeId> Parser::with_statement() {
    const std::uint32_t line = current().line;
    std::vector<NodeId> parts;
    advance();
    while (current().kind != TokenKind::BlockEnd) {
        if (!parts.empty()) TRY(expect_operator(","));
        parts.push_back(TRY(target(false)));
        TRY(expect_operator("="));
        parts.push_back(TRY(expression()));
    }
    parts.push_back(TRY(block_body({"endwith"})));
    TRY(end_tag("endwith"));
    return add(NodeKind::With, line, std::move(parts));
}

Result<NodeId> Parser::transparent_statement(std::string_view end) {
    advance();
    const NodeId inner = TRY(block_body({end}));
    TRY(end_tag(end));
    return inner;
}

Result<NodeId> Parser::target(bool namespaces) {
    const std::uint32_t line = current().line;
    std::vector<NodeId> parts;
    bool is_tuple = false;
    do {
        if (is_tuple && (at_name("in") || at_operator("=") || at_operator(")"))) break;
        parts.push_back(TRY(single_target(namespaces)));
        if (!at_operator(",")) break;
        is_tuple = true;
        advance();
    } while (true);
    return is_tuple ? add(NodeKind::Tuple, line, std::move(parts)) : parts[0];
}

Result<NodeId> Parser::single_target(bool namespaces) {
    const Level level(depth_);
    TRY(check_depth());
    const std::uint32_t line = current().line;
    if (take_operator("(")) {
        const NodeId inner = TRY(target(namespaces));
        TRY(expect_operator(")"));
        return inner;
    }
    const std::string name = TRY(expect_identifier());
    constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
    if (std::find(std::begin(kConstants), std::end(kConstants), name) != std::end(kConstants)) {
        return fail("can't assign to 'const'");
    }
    if (namespaces && take_operator(".")) {
        const std::string attribute = TRY(expect_identifier());
        const NodeId id = add(NodeKind::NamespaceTarget, line);
        node(id).symbol = symbol(name);
        node(id).text = attribute;
        return id;
    }
    return name_node(name, line);
}

}  // namespace hearth::jinja
