// The model at work: one token in, the next one out. int64 is exact on every machine; double is the transformer as it
// stands. Both keep per head what the head's kind needs, not every key ever seen.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "vm/byte_stream.h"
#include "vm/forward.h"
#include "vm/hull.h"
#include "vm/keyed_table.h"
#include "vm/plan.h"

namespace hearth::vm {

inline constexpr std::size_t kRing = 32;  // entries of Recent tables; their reach is at most 16

// What a table of the forward pass has seen so far.
template <typename Number>
struct TableState {
    std::vector<Number> numbers;  // Recent, and History behind the prompt: a ring; Class and Sum: one entry
    KeyedTable<Number> keyed{0};  // Keyed; History: the prompt, by position
    std::unique_ptr<HullCache> hull;
    TableState clone() const;
    bool same(const TableState& other) const;  // never of hulls
};

template <typename Number>
class Engine {
public:
    // Both must outlive the engine. Without plans every token goes through the whole pass.
    explicit Engine(const Forward& forward, PlanCache* plans = nullptr);
    Engine clone() const;  // the same state, to go on from separately
    // From here on clones share what is in the tables; whoever writes copies what it writes to.
    void freeze();
    // Whether both have seen the same: equal tables at the same position.
    bool same_state(const Engine& other) const;
    // The tokens to come are `history`, which the caller keeps: engines of one trace share it.
    void share_history(std::span<const Token> history) { history_ = history; }

    // The whole state as bytes, and back; only of engines without hulls and without a shared history.
    void save(ByteWriter& out) const;
    Status load(ByteReader& in);

    // Takes the token at the next position in. Gives no answer: predict() does.
    void feed(Token token);
    // The most likely next token after the last one fed. Before the start token nothing is predicted.
    Token predict() const { return predicted_; }
    // The same from the scores of all tokens, after a pass without plans.
    Token predict_full() const;
    std::uint64_t position() const { return position_; }

    // For what brings the tables forward without the model (see forerunner.h).
    TableState<Number>& table(std::size_t index) { return states_[index]; }
    void set_position(std::uint64_t position) { position_ = position; }
    // Takes over what is found by position, from one at the same position.
    void take_recent(Engine& other);
    std::uint32_t cursor() const {
        const Number value = variables_[forward_->cursor];
        return value >= 0 && value < static_cast<Number>(kMaxInstructions) ? static_cast<std::uint32_t>(value)
                                                                           : kMaxInstructions;
    }

private:
    void feed_all(Token token, bool writes);
    void take(Token token);
    void begin_token(Token token);
    Token token_at(std::uint64_t position) const {
        return history_.empty() ? tokens_[static_cast<std::size_t>(position)]
                                : history_[static_cast<std::size_t>(position)];
    }
    std::optional<Opcode> current_opcode() const;
    bool is_program(std::uint64_t position) const { return prompt_end_ == 0 || position + 1 < prompt_end_; }
    const Number* history_entry(const TableState<Number>& state, std::size_t columns, std::uint64_t position) const;
    const Number* entry_to_read(const TableInfo& info, const TableState<Number>& state, Number query) const;
    static std::pair<Number, Token> best_of(const ScoreGroup& group, Number base, Number at);
    Token predict_groups() const;
    Number evaluate(const Plan& plan, const PlanExpression& expression) const;
    void add_terms(const Plan& plan, Span out, Number value);
    void run_plan(const Plan& plan);
    void read_plan(const Plan& plan, const PlanOperation& operation);
    void write_plan(const Plan& plan, const PlanOperation& operation);
    Number* entry_to_write(const TableInfo& info, TableState<Number>& state, Number key);
    bool predict_plan(const Plan& plan);
    Number dot(Span span) const;
    void add_to(Span out, Number value);
    void write(std::uint32_t table);
    void read(const Operation& operation);
    std::uint64_t clamp_position(Number query) const;

    const Forward* forward_;
    std::shared_ptr<const std::vector<Number>> factors_;  // of Forward::terms
    std::vector<Number> variables_;
    std::vector<Token> tokens_;  // all so far, where no history is shared
    std::span<const Token> history_;
    std::uint64_t position_ = 0;    // of the next token
    std::uint64_t prompt_end_ = 0;  // behind the start token; 0 before it
    std::vector<TableState<Number>> states_;
    PlanCache* plans_;
    bool running_ = false;  // the start token has been fed
    Token predicted_ = 0;
};

extern template class Engine<std::int64_t>;
extern template class Engine<double>;

}  // namespace hearth::vm
