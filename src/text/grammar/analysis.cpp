#include "text/grammar/analysis.h"

#include <algorithm>
#include <string>
#include <utility>

namespace hearth::grammar {

namespace {

constexpr std::size_t kWeightCap = 1'000'000;
// Rules come callees first, so that one or two passes suffice for all but grammars made to need more.
constexpr int kPassLimit = 64;

class Analyser {
public:
    explicit Analyser(const Source& source) : exprs_(source.exprs()), rules_(source.rules()) {
        analysis_.nullable.assign(exprs_.size(), false);
        analysis_.productive.assign(exprs_.size(), false);
        analysis_.weight.assign(exprs_.size(), 0);
        analysis_.inlined.assign(rules_.size(), false);
    }

    Result<Analysis> run() {
        collect_references();
        order_rules();
        TRY(find_nullable());
        TRY(find_left_recursion());
        TRY(find_productive());
        for (const RuleId rule : order_) weigh(rule);
        if (!analysis_.productive[rules_[0].body]) {
            return Error{ErrorCode::Usage, "grammar: rule '" + rules_[0].name + "' can match no text"};
        }
        return std::move(analysis_);
    }

private:
    // Expressions of each rule, children before parents.
    void collect_references() {
        members_.resize(rules_.size());
        references_.resize(rules_.size());
        std::vector<std::uint32_t> seen(exprs_.size(), kNoExpr);
        for (RuleId rule = 0; rule < rules_.size(); ++rule) {
            std::vector<ExprId> open{rules_[rule].body};
            std::vector<ExprId>& members = members_[rule];
            while (!open.empty()) {
                const ExprId id = open.back();
                open.pop_back();
                if (seen[id] == rule) continue;
                seen[id] = rule;
                members.push_back(id);
                if (exprs_[id].kind == ExprKind::Reference) references_[rule].push_back(exprs_[id].rule);
                for (const ExprId child : exprs_[id].children) open.push_back(child);
            }
            // Children always have smaller numbers than what is made of them.
            std::sort(members.begin(), members.end());
        }
    }

    // Tarjan's components without recursion: callees before callers, and who is part of a cycle.
    void order_rules() {
        struct Frame {
            RuleId rule;
            std::size_t next;
        };
        const std::uint32_t kUnseen = 0xffffffff;
        std::vector<std::uint32_t> index(rules_.size(), kUnseen), low(rules_.size(), 0);
        std::vector<bool> on_stack(rules_.size(), false);
        std::vector<RuleId> stack;
        std::vector<Frame> frames;
        std::uint32_t counter = 0;
        recursive_.assign(rules_.size(), false);
        for (RuleId root = 0; root < rules_.size(); ++root) {
            if (index[root] != kUnseen) continue;
            frames.push_back({root, 0});
            while (!frames.empty()) {
                Frame& frame = frames.back();
                const RuleId rule = frame.rule;
                if (frame.next == 0) {
                    index[rule] = low[rule] = counter++;
                    stack.push_back(rule);
                    on_stack[rule] = true;
                }
                if (frame.next < references_[rule].size()) {
                    const RuleId callee = references_[rule][frame.next++];
                    if (callee == rule) recursive_[rule] = true;
                    if (index[callee] == kUnseen) {
                        frames.push_back({callee, 0});
                    } else if (on_stack[callee]) {
                        low[rule] = std::min(low[rule], index[callee]);
                    }
                    continue;
                }
                if (low[rule] == index[rule]) close_component(rule, stack, on_stack);
                frames.pop_back();
                if (!frames.empty()) {
                    const RuleId caller = frames.back().rule;
                    low[caller] = std::min(low[caller], low[rule]);
                }
            }
        }
    }

    void close_component(RuleId rule, std::vector<RuleId>& stack, std::vector<bool>& on_stack) {
        const bool alone = stack.back() == rule;
        for (;;) {
            const RuleId member = stack.back();
            stack.pop_back();
            on_stack[member] = false;
            order_.push_back(member);
            if (!alone) recursive_[member] = true;
            if (member == rule) return;
        }
    }

    bool nullable(const Expr& expr) const {
        const auto is_nullable = [&](ExprId child) { return analysis_.nullable[child]; };
        switch (expr.kind) {
            case ExprKind::Literal: return expr.bytes.empty();
            case ExprKind::Class: return false;
            case ExprKind::Sequence: return std::all_of(expr.children.begin(), expr.children.end(), is_nullable);
            case ExprKind::Choice: return std::any_of(expr.children.begin(), expr.children.end(), is_nullable);
            case ExprKind::Repeat: return expr.min == 0 || analysis_.nullable[expr.children[0]];
            case ExprKind::Reference: return analysis_.nullable[rules_[expr.rule].body];
        }
        return false;
    }

    bool productive(const Expr& expr) const {
        const auto is_productive = [&](ExprId child) { return analysis_.productive[child]; };
        switch (expr.kind) {
            case ExprKind::Literal: return true;
            case ExprKind::Class: return !expr.ranges.empty();
            case ExprKind::Sequence: return std::all_of(expr.children.begin(), expr.children.end(), is_productive);
            case ExprKind::Choice: return std::any_of(expr.children.begin(), expr.children.end(), is_productive);
            case ExprKind::Repeat: return expr.min == 0 || analysis_.productive[expr.children[0]];
            case ExprKind::Reference: return analysis_.productive[rules_[expr.rule].body];
        }
        return false;
    }

    template <typename Question>
    Status settle(std::vector<bool>& answers, Question question) {
        for (int pass = 0; pass < kPassLimit; ++pass) {
            bool changed = false;
            for (const RuleId rule : order_) {
                for (const ExprId id : members_[rule]) {
                    if (answers[id] || !question(exprs_[id])) continue;
                    answers[id] = true;
                    changed = true;
                }
            }
            if (!changed) return {};
        }
        return Error{ErrorCode::Usage, "grammar: the rules refer to each other in too complicated a way"};
    }
    Status find_nullable() {
        return settle(analysis_.nullable, [&](const Expr& expr) { return nullable(expr); });
    }
    Status find_productive() {
        return settle(analysis_.productive, [&](const Expr& expr) { return productive(expr); });
    }

    // Rules that can be called before anything is read.
    std::vector<RuleId> first_calls(RuleId rule) {
        std::vector<RuleId> out;
        std::vector<ExprId> open{rules_[rule].body};
        seen_in_.resize(exprs_.size(), kNoExpr);
        while (!open.empty()) {
            const ExprId id = open.back();
            open.pop_back();
            if (seen_in_[id] == rule) continue;
            seen_in_[id] = rule;
            const Expr& expr = exprs_[id];
            if (expr.kind == ExprKind::Reference) out.push_back(expr.rule);
            for (const ExprId child : expr.children) {
                open.push_back(child);
                if (expr.kind == ExprKind::Sequence && !analysis_.nullable[child]) break;
            }
        }
        return out;
    }

    Status find_left_recursion() {
        enum : std::uint8_t { New, Open, Done };
        std::vector<std::uint8_t> mark(rules_.size(), New);
        struct Frame {
            RuleId rule;
            std::vector<RuleId> callees;
        };
        std::vector<Frame> frames;
        for (RuleId root = 0; root < rules_.size(); ++root) {
            if (mark[root] != New) continue;
            mark[root] = Open;
            frames.push_back({root, first_calls(root)});
            while (!frames.empty()) {
                std::vector<RuleId>& callees = frames.back().callees;
                if (callees.empty()) {
                    mark[frames.back().rule] = Done;
                    frames.pop_back();
                    continue;
                }
                const RuleId callee = callees.back();
                callees.pop_back();
                if (mark[callee] == Open) {
                    return Error{ErrorCode::Usage, "grammar: rule '" + rules_[callee].name +
                                                       "' is left-recursive: it can begin with itself"};
                }
                if (mark[callee] == New) {
                    mark[callee] = Open;
                    frames.push_back({callee, first_calls(callee)});
                }
            }
        }
        return {};
    }

    void weigh(RuleId rule) {
        for (const ExprId id : members_[rule]) {
            const Expr& expr = exprs_[id];
            std::size_t weight = 1;
            switch (expr.kind) {
                case ExprKind::Literal: weight = expr.bytes.size() + 1; break;
                case ExprKind::Class:
                    weight = 1 + expr.ranges.size() * (expr.ranges.empty() || expr.ranges.back().last < 0x80 ? 1 : 4);
                    break;
                case ExprKind::Reference:
                    if (analysis_.inlined[expr.rule]) weight += analysis_.weight[rules_[expr.rule].body];
                    break;
                case ExprKind::Repeat: {
                    const std::size_t child = analysis_.weight[expr.children[0]];
                    const std::size_t times = expr.max == kUnbounded ? expr.min + std::size_t{1} : expr.max;
                    const std::size_t written_out = child * times + 2;
                    weight = written_out <= kInlineWeight || times == 1 ? written_out : 3;
                    break;
                }
                default:
                    for (const ExprId child : expr.children) weight += analysis_.weight[child];
                    break;
            }
            analysis_.weight[id] = std::min(weight, kWeightCap);
        }
        analysis_.inlined[rule] = !recursive_[rule] && analysis_.weight[rules_[rule].body] < kInlineWeight;
    }

    const std::vector<Expr>& exprs_;
    const std::vector<Rule>& rules_;
    Analysis analysis_;
    std::vector<std::vector<ExprId>> members_;
    std::vector<std::vector<RuleId>> references_;
    std::vector<RuleId> order_;
    std::vector<bool> recursive_;
    std::vector<RuleId> seen_in_;  // by expression: the last rule whose first calls passed it
};

}  // namespace

Result<Analysis> analyse(const Source& source) {
    return Analyser(source).run();
}

}  // namespace hearth::grammar
