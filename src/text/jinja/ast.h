// The parsed template. Nodes lie in one vector and name each other by index, so that destroying even a hostile tree
// never recurses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/jinja/value.h"

namespace hearth::jinja {

using NodeId = std::uint32_t;
inline constexpr NodeId kNoNode = UINT32_MAX;

// Beside each kind: what `children` hold ("?" may be kNoNode) and what the other fields mean.
enum class NodeKind : std::uint8_t {
    // Expressions
    Constant,     // value
    Name,         // symbol
    Captured,     // what the enclosing set, filter or call block rendered: the input of its first filter
    List,         // items
    Tuple,        // items
    DictLiteral,  // key, value, key, value, ...
    Attribute,    // object; text: name
    Item,         // object, key
    Slice,        // first?, last?, step?; stands as the key of an Item
    Call,         // callee, arguments...; names: see below
    Filter,       // input, arguments...; text: name
    Test,         // input, arguments...; text: name
    Negative,     // operand
    Positive,     // operand
    Not,          // operand
    And,          // operands
    Or,           // operands
    Compare,      // operands; text: one Comparison character between each two
    Binary,       // left, right; text: one Operation character
    Concat,       // operands
    Conditional,  // test, then, otherwise?
    // Statements
    Body,         // statements
    Text,         // value
    Output,       // expression
    If,           // test, body, test, body, ..., else body when the count is odd
    For,          // target, iterable, filter?, body, else?; flag: recursive
    Set,          // target, expression
    SetBlock,     // target, filters?, body
    Macro,        // body, default?...; names: parameters, symbol: its name
    CallBlock,    // call, macro made of the body
    FilterBlock,  // filters, body
    With,         // target, expression, ..., body
    Break,
    Continue,
    NamespaceTarget,  // symbol: the namespace, text: the attribute; only as a target
};

// Arguments of calls, filters and tests are children from 1 on; names[i] belongs to children[i + 1]: "" for a
// positional one, "*" and "**" for unpacked ones, else the keyword.
struct Node {
    NodeKind kind = NodeKind::Body;
    bool flag = false;
    bool takes_extra_positional = false;  // of a macro: its body names `varargs`,
    bool takes_extra_named = false;       // `kwargs`,
    bool takes_caller = false;            // `caller`
    std::uint32_t line = 1;
    std::uint32_t symbol = 0;
    std::string text;
    Value value;
    std::vector<NodeId> children;
    std::vector<std::string> names;
    std::vector<std::uint32_t> symbols;  // of a macro: one for each parameter
};

namespace operation {
inline constexpr char kAdd = '+', kSubtract = '-', kMultiply = '*', kDivide = '/', kFloor = 'f', kModulo = '%',
                      kPower = '^';
}
namespace comparison {
inline constexpr char kEqual = '=', kNotEqual = '!', kLess = '<', kLessEqual = 'l', kGreater = '>', kGreaterEqual = 'g',
                      kIn = 'i', kNotIn = 'n';
}

inline constexpr std::uint32_t kNoSymbol = UINT32_MAX;

struct Program {
    std::vector<Node> nodes;
    NodeId root = kNoNode;
    std::vector<std::string> symbols;       // every name in the template, by its index
    std::uint32_t loop_symbol = kNoSymbol;  // of `loop`, when the template names it
};

}  // namespace hearth::jinja
