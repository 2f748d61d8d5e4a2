// Tokens to a Program. Nesting is limited while parsing, so that no later walk of the tree can run out of stack.
#pragma once

#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace hearth::jinja {

Result<Program> parse_template(std::string_view source, std::size_t depth_limit);

class Parser {
public:
    Parser(std::vector<Token> tokens, std::size_t depth_limit)
        : tokens_(std::move(tokens)), depth_limit_(depth_limit) {}
    Result<Program> run();

private:
    // One level of nesting for as long as it lives.
    class Level {
    public:
        explicit Level(std::size_t& depth) : depth_(depth) { ++depth_; }
        ~Level() { --depth_; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;

    private:
        std::size_t& depth_;
    };
    struct MacroUse {
        bool varargs = false;
        bool kwargs = false;
        bool caller = false;
    };

    const Token& current() const { return tokens_[at_]; }
    const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
    void advance() {
        if (at_ + 1 < tokens_.size()) ++at_;
    }
    bool at_operator(std::string_view text) const {
        return current().kind == TokenKind::Operator && current().text == text;
    }
    bool at_name(std::string_view text) const { return current().kind == TokenKind::Name && current().text == text; }
    bool take_operator(std::string_view text);
    bool take_name(std::string_view text);
    Status expect_operator(std::string_view text);
    Status expect_block_end();
    Result<std::string> expect_identifier();
    Error fail(std::string_view reason) const { return template_error(current().line, reason); }
    std::string described() const;  // the current token, in words
    Error unexpected() const;
    Status check_depth() const;

    NodeId add(NodeKind kind, std::uint32_t line, std::vector<NodeId> children = {});
    Node& node(NodeId id) { return program_.nodes[id]; }
    std::uint32_t symbol(const std::string& name);
    NodeId name_node(const std::string& name, std::uint32_t line);

    // Statements (parser.cpp). A body ends before the tag of one of `ends`, which stays to be read.
    Result<NodeId> body(std::initializer_list<std::string_view> ends);
    Result<NodeId> block_body(std::initializer_list<std::string_view> ends);
    Status end_tag(std::string_view name);
    Result<NodeId> statement();
    Result<NodeId> if_statement();
    Result<NodeId> for_statement();
    Result<NodeId> set_statement();
    Result<NodeId> macro_statement();
    Result<NodeId> call_statement();
    Result<NodeId> filter_statement();
    Result<NodeId> with_statement();
    Result<NodeId> transparent_statement(std::string_view end);
    Status signature(NodeId macro);
    Result<NodeId> macro_body(NodeId macro, std::string_view end);
    Result<NodeId> target(bool namespaces);
    Result<NodeId> single_target(bool namespaces);

    // Expressions (expression_parser.cpp).
    enum class Conditional : std::uint8_t { Allowed, Refused };
    Result<NodeId> expression() { return conditional(); }
    Result<NodeId> tuple(Conditional mode, bool may_be_empty);
    bool at_tuple_end() const;
    Result<NodeId> conditional();
    Result<NodeId> operators(int lowest);
    Result<NodeId> negation();
    Result<NodeId> continue_operators(NodeId left, int level);
    int operator_level() const;
    Result<NodeId> comparison_chain(NodeId first);
    Result<NodeId> unary(bool with_filters);
    Result<NodeId> primary();
    Result<NodeId> list_literal();
    Result<NodeId> dict_literal();
    Result<NodeId> postfix(NodeId object);
    Result<NodeId> subscript(NodeId object);
    Result<NodeId> subscript_key();
    Result<NodeId> filters_and_tests(NodeId input);
    Result<NodeId> filter_chain(NodeId input, bool first_inline);
    Result<NodeId> test(NodeId input);
    Status arguments(NodeId call);

    std::vector<Token> tokens_;
    std::size_t depth_limit_;
    std::size_t at_ = 0;
    std::size_t depth_ = 0;
    std::size_t loops_ = 0;  // for statements around this place, for break and continue
    std::vector<MacroUse> macros_;
    std::unordered_map<std::string, std::uint32_t> symbol_index_;
    Program program_;
};

}  // namespace hearth::jinja
