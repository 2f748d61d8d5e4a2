#include "text/grammar/automaton.h"

#include <algorithm>
#include <bitset>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "text/grammar/analysis.h"

namespace hearth::grammar {

namespace {

// A rule in Thompson's form: nodes with empty edges.
struct Draft {
    struct Call {
        std::uint32_t callee = 0;  // index into the compiler's list of automata to make
        std::uint32_t min = 0;     // 0: one call; otherwise a repetition
        std::uint32_t max = 0;
        std::uint32_t target = 0;
        auto symbol() const { return std::tuple(callee, min, max); }
    };
    struct State {
        std::vector<std::uint32_t> empty;
        std::vector<ByteEdge> bytes;  // targets are states of the draft
        std::vector<Call> calls;
    };
    std::vector<State> states;

    std::uint32_t add() {
        states.emplace_back();
        return static_cast<std::uint32_t>(states.size() - 1);
    }
    void add_empty(std::uint32_t from, std::uint32_t to) { states[from].empty.push_back(to); }
    void add_bytes(std::uint32_t from, ByteRange range, std::uint32_t to) {
        states[from].bytes.push_back({range.first, range.last, to});
    }
};

// Edges looked at, for each node there may be: with the usual limit a refusal takes less than 200 ms on a slow core.
constexpr std::size_t kWorkPerNode = 15;

class Compiler {
public:
    Compiler(const Source& source, Analysis analysis)
        : source_(source), analysis_(std::move(analysis)), job_of_expr_(source.exprs().size(), kNoExpr) {}

    Result<Automaton> run() {
        const ExprId root = source_.rules()[0].body;
        job_for(root);
        for (std::size_t job = 0; job < jobs_.size(); ++job) TRY(compile_job(job));
        for (CallEdge& call : out_.calls) call.start = starts_[call.start];
        for (Node& node : out_.nodes) {
            if (node.is_repeat) node.body = starts_[node.body];
        }
        out_.start = starts_[0];
        out_.may_be_empty = analysis_.nullable[root];
        make_classes();
        return std::move(out_);
    }

private:
    using States = std::vector<std::uint32_t>;
    // The states that one node stands for, ascending: a piece of `members_`. There may be as many as states, each
    // nearly as long, so they are kept in one place, and once.
    struct Subset {
        NodeId node = 0;
        std::size_t begin = 0;
        std::size_t size = 0;
    };

    static std::uint64_t hash_of(std::span<const std::uint32_t> states) {
        std::uint64_t hash = states.size();
        for (const std::uint32_t state : states) hash = (hash ^ state) * 0x9e3779b97f4a7c15u;
        return hash ^ (hash >> 32);
    }

    bool full() const { return out_.nodes.size() + draft_.states.size() > source_.limits().nodes || is_spent(); }
    // Long runs of parts that may all be missing make subsets as long as the run, and as many.
    bool is_spent() const { return work_ > kWorkPerNode * source_.limits().nodes; }

    // Each expression that is called, be it a rule's body or a repetition's, becomes an automaton of its own.
    std::uint32_t job_for(ExprId expr) {
        while (source_.exprs()[expr].kind == ExprKind::Reference)
            expr = source_.rules()[source_.exprs()[expr].rule].body;
        if (job_of_expr_[expr] == kNoExpr) {
            job_of_expr_[expr] = static_cast<std::uint32_t>(jobs_.size());
            jobs_.push_back(expr);
        }
        return job_of_expr_[expr];
    }

    void draw_class(const Expr& expr, std::uint32_t from, std::uint32_t to) {
        for (const CodeRange& range : expr.ranges) {
            for (const ByteSequence& sequence : utf8_sequences(range)) {
                std::uint32_t at = from;
                for (std::size_t i = 0; i < sequence.length; ++i) {
                    const std::uint32_t next = i + 1 == sequence.length ? to : draft_.add();
                    draft_.add_bytes(at, sequence.bytes[i], next);
                    at = next;
                }
            }
        }
    }

    void draw_repeat(ExprId id, std::uint32_t from, std::uint32_t to) {
        const Expr& expr = source_.exprs()[id];
        const ExprId child = expr.children[0];
        if (expr.min == 0 || analysis_.nullable[child]) draft_.add_empty(from, to);
        if (!analysis_.productive[child]) return;
        const bool endless = expr.max == kUnbounded;
        if (endless && expr.min <= 1) {
            const std::uint32_t begin = draft_.add();
            const std::uint32_t end = draft_.add();
            draft_.add_empty(from, begin);
            draw(child, begin, end);
            draft_.add_empty(end, begin);
            draft_.add_empty(end, to);
            return;
        }
        const std::size_t times = endless ? expr.min + std::size_t{1} : expr.max;
        if (times > 1 && analysis_.weight[child] * times + 2 > kInlineWeight) {
            // An empty body may stand for any number of missing ones.
            const std::uint32_t min = analysis_.nullable[child] ? 1 : std::max<std::uint32_t>(expr.min, 1);
            const std::uint32_t callee = job_for(child);
            draft_.states[from].calls.push_back({callee, min, expr.max, to});
            return;
        }
        std::uint32_t at = from;
        for (std::uint32_t i = 0; i < times; ++i) {
            const bool last = i + 1 == times;
            const std::uint32_t next = draft_.add();
            if (last && endless) {
                draft_.add_empty(at, next);
                const std::uint32_t end = draft_.add();
                draw(child, next, end);
                draft_.add_empty(end, next);
                draft_.add_empty(next, to);
                return;
            }
            draw(child, at, next);
            if (i + 1 >= expr.min) draft_.add_empty(next, to);
            at = next;
        }
    }

    // Adds no edge into `from` and none out of `to`, so that alternatives may share both.
    void draw(ExprId id, std::uint32_t from, std::uint32_t to) {
        if (!analysis_.productive[id] || full()) return;
        const Expr& expr = source_.exprs()[id];
        switch (expr.kind) {
            case ExprKind::Literal: {
                std::uint32_t at = from;
                for (const char byte : expr.bytes) {
                    const std::uint32_t next = draft_.add();
                    const auto value = static_cast<std::uint8_t>(byte);
                    draft_.add_bytes(at, {value, value}, next);
                    at = next;
                }
                draft_.add_empty(at, to);
                return;
            }
            case ExprKind::Class: draw_class(expr, from, to); return;
            case ExprKind::Sequence: {
                std::uint32_t at = from;
                for (const ExprId child : expr.children) {
                    const std::uint32_t next = draft_.add();
                    draw(child, at, next);
                    at = next;
                }
                draft_.add_empty(at, to);
                return;
            }
            case ExprKind::Choice:
                for (const ExprId child : expr.children) draw(child, from, to);
                return;
            case ExprKind::Repeat: draw_repeat(id, from, to); return;
            case ExprKind::Reference: {
                const ExprId body = source_.rules()[expr.rule].body;
                if (analysis_.inlined[expr.rule]) {
                    draw(body, from, to);
                    return;
                }
                if (analysis_.nullable[body]) draft_.add_empty(from, to);
                const std::uint32_t callee = job_for(body);
                draft_.states[from].calls.push_back({callee, 0, 0, to});
                return;
            }
        }
    }

    // Adds what empty edges lead to.
    void close(States& states) {
        ++stamp_;
        marks_.resize(draft_.states.size(), 0);
        open_.assign(states.begin(), states.end());
        states.clear();
        while (!open_.empty() && !is_spent()) {
            const std::uint32_t state = open_.back();
            open_.pop_back();
            ++work_;
            if (marks_[state] == stamp_) continue;
            marks_[state] = stamp_;
            const Draft::State& from = draft_.states[state];
            // States with nothing but empty edges would only make equal subsets look different.
            if (state == draft_end_ || !from.bytes.empty() || !from.calls.empty()) states.push_back(state);
            for (const std::uint32_t next : from.empty) open_.push_back(next);
        }
        sort_states(states);
    }

    // Where they lie close together, by walking over the states there are: most of a long run of parts that may all be
    // missing is in thousands of subsets.
    void sort_states(States& states) {
        if (states.size() <= 1) return;
        const auto [first, last] = std::ranges::minmax(states);
        if (states.size() < (last - first) / 8) {
            std::sort(states.begin(), states.end());
            return;
        }
        ++stamp_;
        for (const std::uint32_t state : states) marks_[state] = stamp_;
        states.clear();
        for (std::uint32_t state = first; state <= last; ++state) {
            if (marks_[state] == stamp_) states.push_back(state);
        }
    }

    Status compile_job(std::size_t job) {
        draft_.states.clear();
        marks_.clear();
        stamp_ = 0;
        const std::uint32_t begin = draft_.add();
        draft_end_ = draft_.add();
        draw(jobs_[job], begin, draft_end_);
        if (full()) return too_large_error();
        const Undo undo{out_.nodes.size(), out_.byte_edges.size(), out_.calls.size()};
        const std::size_t cap = 4 * draft_.states.size() + 64;
        const bool small = make_nodes(job, begin, cap, /*deterministic=*/true);
        if (!small && !full()) {
            // Too many subsets: the stacks, which hold sets anyway, decide at run time.
            out_.nodes.resize(undo.nodes);
            out_.byte_edges.resize(undo.byte_edges);
            out_.calls.resize(undo.calls);
            make_nodes(job, begin, source_.limits().nodes, /*deterministic=*/false);
        }
        if (full()) return too_large_error();
        return {};
    }

    std::span<const std::uint32_t> members_of(const Subset& subset) const {
        return std::span(members_).subspan(subset.begin, subset.size);
    }

    // A new node for these states, to be filled later.
    Subset add_node(std::span<const std::uint32_t> states) {
        const Subset added{static_cast<NodeId>(out_.nodes.size()), members_.size(), states.size()};
        members_.insert(members_.end(), states.begin(), states.end());
        out_.nodes.emplace_back();
        pending_.push_back(added);
        return added;
    }

    NodeId node_of(std::span<const std::uint32_t> states) {
        const std::uint64_t hash = hash_of(states);
        for (auto [same, end] = known_.equal_range(hash); same != end; ++same) {
            if (std::ranges::equal(members_of(same->second), states)) return same->second.node;
        }
        return known_.emplace(hash, add_node(states))->second.node;
    }

    bool make_nodes(std::size_t job, std::uint32_t begin, std::size_t cap, bool deterministic) {
        known_ = {};  // clear() would walk the buckets of the largest job for every small one
        pending_.clear();
        members_.clear();
        const std::size_t first = out_.nodes.size();
        States start{begin};
        close(start);
        // Not among the known: a call that reads nothing does not exist, so the first node never accepts.
        const NodeId start_node = add_node(start).node;
        starts_.resize(std::max(starts_.size(), job + 1));
        starts_[job] = start_node;
        while (!pending_.empty()) {
            if (out_.nodes.size() - first > cap || full()) return false;
            const Subset next = pending_.back();
            pending_.pop_back();
            fill_node(next, deterministic);
            if (next.node == start_node) out_.nodes[start_node].accept = false;
        }
        return true;
    }

    void fill_node(const Subset& subset, bool deterministic) {
        std::vector<ByteEdge> bytes;
        std::vector<Draft::Call> calls;
        bool accept = false;
        for (const std::uint32_t state : members_of(subset)) {
            const Draft::State& from = draft_.states[state];
            work_ += from.bytes.size() + from.calls.size();
            accept = accept || state == draft_end_;
            bytes.insert(bytes.end(), from.bytes.begin(), from.bytes.end());
            calls.insert(calls.end(), from.calls.begin(), from.calls.end());
        }
        const std::vector<ByteEdge> byte_edges =
            deterministic ? determine(std::move(bytes)) : separate(std::move(bytes));
        const std::vector<CallEdge> call_edges = calls_of(calls, deterministic);
        Node& filled = out_.nodes[subset.node];
        filled.accept = accept;
        filled.first_byte_edge = static_cast<std::uint32_t>(out_.byte_edges.size());
        filled.byte_edge_count = static_cast<std::uint32_t>(byte_edges.size());
        out_.byte_edges.insert(out_.byte_edges.end(), byte_edges.begin(), byte_edges.end());
        filled.first_call = static_cast<std::uint32_t>(out_.calls.size());
        filled.call_count = static_cast<std::uint32_t>(call_edges.size());
        out_.calls.insert(out_.calls.end(), call_edges.begin(), call_edges.end());
    }

    NodeId node_of_one(std::uint32_t state) {
        targets_.assign(1, state);
        return node_of_targets();
    }

    // What the targets that were put together lead to.
    NodeId node_of_targets() {
        close(targets_);
        return node_of(targets_);
    }

    std::vector<ByteEdge> separate(std::vector<ByteEdge> edges) {
        for (ByteEdge& edge : edges) {
            if (is_spent()) break;
            edge.target = node_of_one(edge.target);
        }
        return edges;
    }

    // Disjoint ranges, each leading to one subset; neighbours with the same subset are joined.
    std::vector<ByteEdge> determine(std::vector<ByteEdge> edges) {
        if (edges.size() <= 1) return separate(std::move(edges));
        std::sort(edges.begin(), edges.end(), [](const ByteEdge& a, const ByteEdge& b) { return a.first < b.first; });
        std::bitset<257> cuts;
        for (const ByteEdge& edge : edges) {
            cuts[edge.first] = true;
            cuts[edge.last + std::size_t{1}] = true;
        }
        std::vector<ByteEdge> out;
        std::vector<ByteEdge> active;
        std::size_t next_edge = 0;
        for (std::size_t byte = 0; byte < 256 && !is_spent();) {
            std::size_t end = byte + 1;
            while (end < 256 && !cuts[end]) ++end;
            std::erase_if(active, [&](const ByteEdge& edge) { return edge.last < byte; });
            while (next_edge < edges.size() && edges[next_edge].first <= byte) active.push_back(edges[next_edge++]);
            if (!active.empty()) {
                targets_.clear();
                for (const ByteEdge& edge : active) targets_.push_back(edge.target);
                work_ += active.size();
                const NodeId target = node_of_targets();
                if (!out.empty() && out.back().target == target && out.back().last + std::size_t{1} == byte) {
                    out.back().last = static_cast<std::uint8_t>(end - 1);
                } else {
                    out.push_back({static_cast<std::uint8_t>(byte), static_cast<std::uint8_t>(end - 1), target});
                }
            }
            byte = end;
        }
        return out;
    }

    std::vector<CallEdge> calls_of(std::vector<Draft::Call>& calls, bool deterministic) {
        std::sort(calls.begin(), calls.end(), [](const Draft::Call& a, const Draft::Call& b) {
            return std::tuple(a.symbol(), a.target) < std::tuple(b.symbol(), b.target);
        });
        std::vector<CallEdge> out;
        for (std::size_t i = 0; i < calls.size() && !is_spent();) {
            targets_.clear();
            const Draft::Call& call = calls[i];
            do {
                targets_.push_back(calls[i++].target);
            } while (deterministic && i < calls.size() && calls[i].symbol() == call.symbol());
            const NodeId after = node_of_targets();
            if (call.min == 0) {
                out.push_back({call.callee, after, 0});
                continue;
            }
            Node repeat;
            repeat.is_repeat = true;
            repeat.body = call.callee;
            repeat.next = after;
            repeat.min = call.min;
            repeat.max = call.max;
            out.push_back({call.callee, static_cast<NodeId>(out_.nodes.size()), 1});
            out_.nodes.push_back(repeat);
        }
        return out;
    }

    void make_classes() {
        std::bitset<257> cuts;
        for (const ByteEdge& edge : out_.byte_edges) {
            cuts[edge.first] = true;
            cuts[edge.last + std::size_t{1}] = true;
        }
        std::uint32_t count = 0;
        for (std::size_t byte = 0; byte < 256; ++byte) {
            if (byte == 0 || cuts[byte]) out_.byte_of_class[count++] = static_cast<std::uint8_t>(byte);
            out_.class_of[byte] = static_cast<std::uint8_t>(count - 1);
        }
        out_.class_count = count;
    }

    struct Undo {
        std::size_t nodes, byte_edges, calls;
    };

    const Source& source_;
    Analysis analysis_;
    Automaton out_;
    std::vector<ExprId> jobs_;
    std::vector<std::uint32_t> job_of_expr_;
    std::vector<NodeId> starts_;  // by job
    Draft draft_;
    std::uint32_t draft_end_ = 0;
    States members_;                                        // of all subsets of a job
    std::unordered_multimap<std::uint64_t, Subset> known_;  // by hash
    std::vector<Subset> pending_;
    States open_;     // while empty edges are followed
    States targets_;  // of one edge or call to come
    std::vector<std::uint32_t> marks_;
    std::uint32_t stamp_ = 0;
    std::size_t work_ = 0;  // edges looked at
};

}  // namespace

Result<Automaton> compile(const Source& source) {
    if (source.too_large()) return too_large_error();
    return Compiler(source, TRY(analyse(source))).run();
}

}  // namespace hearth::grammar
