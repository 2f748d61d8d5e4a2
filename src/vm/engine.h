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
#include "vm/plan.h"

namespace hearth::vm {

inline constexpr std::size_t kRing = 32;  // entries of Recent tables; their reach is at most 16
inline constexpr std::int64_t kKeyLimit = std::int64_t{1} << 27;

// Entries by integer key, in pages made when first written; what was never written reads as zero.
template <typename Number>
class KeyedTable {
public:
    explicit KeyedTable(std::size_t columns) : columns_(columns) {}
    Number* write(std::uint64_t key) {
        const std::size_t page = static_cast<std::size_t>(key >> kPageBits);
        if (page >= pages_.size()) pages_.resize(page + 1);
        if (pages_[page] == nullptr) pages_[page] = std::make_unique<Number[]>(columns_ << kPageBits);
        return pages_[page].get() + (key & kPageMask) * columns_;
    }
    const Number* read(std::uint64_t key) const {
        const std::uint64_t page = key >> kPageBits;
        if (page >= pages_.size() || pages_[static_cast<std::size_t>(page)] == nullptr) return nullptr;
        return pages_[static_cast<std::size_t>(page)].get() + (key & kPageMask) * columns_;
    }
    std::size_t page_count() const { return pages_.size(); }
    const Number* page(std::size_t index) const { return pages_[index].get(); }
    Number* make_page(std::size_t index) { return write(std::uint64_t{index} << kPageBits); }
    std::size_t page_numbers() const { return columns_ << kPageBits; }
    KeyedTable clone() const {
        KeyedTable copy(columns_);
        copy.pages_.resize(pages_.size());
        for (std::size_t i = 0; i < pages_.size(); ++i) {
            if (pages_[i] == nullptr) continue;
            copy.pages_[i] = std::make_unique<Number[]>(page_numbers());
            std::copy(pages_[i].get(), pages_[i].get() + page_numbers(), copy.pages_[i].get());
        }
        return copy;
    }

private:
    static constexpr int kPageBits = 10;
    static constexpr std::uint64_t kPageMask = (1u << kPageBits) - 1;
    std::size_t columns_;
    std::vector<std::unique_ptr<Number[]>> pages_;
};

inline constexpr std::uint32_t kMaxKeyPages = static_cast<std::uint32_t>(kKeyLimit >> 10);

// What a table of the forward pass has seen so far.
template <typename Number>
struct TableState {
    std::vector<Number> numbers;  // Recent: a ring; History: the prompt, then a ring; Class and Sum: one entry
    std::vector<Number> ring;     // History, behind the prompt
    KeyedTable<Number> keyed{0};
    std::unique_ptr<HullCache> hull;
    TableState clone() const;
};

template <typename Number>
class Engine {
public:
    // Both must outlive the engine. Without plans every token goes through the whole pass.
    explicit Engine(const Forward& forward, PlanCache* plans = nullptr);
    Engine clone() const;  // the same state, to go on from separately
    // The tokens to come are `history`, which the caller keeps: engines of one trace share it.
    void share_history(std::span<const Token> history) { history_ = history; }

    // The whole state as bytes, and back; only of engines without hulls and without a shared history.
    void save(ByteWriter& out) const;
    Status load(ByteReader& in);

    // Takes the token at the next position in. Gives no answer: predict() does.
    void feed(Token token);
    // The same without a prediction, for what comes later: only entries are written.
    void feed_state(Token token);
    // The most likely next token after the last one fed. Before the start token nothing is predicted.
    Token predict() const { return predicted_; }
    // The same from the scores of all tokens, after a pass without plans.
    Token predict_full() const;
    std::uint64_t position() const { return position_; }
    std::uint32_t cursor() const {
        const Number value = variables_[forward_->cursor];
        return value < 0 || value > static_cast<Number>(kMaxInstructions) ? kMaxInstructions
                                                                          : static_cast<std::uint32_t>(value);
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
    const Number* history_entry(const TableState<Number>& state, std::size_t columns, std::uint64_t position) const;
    Token predict_groups() const;
    Number evaluate(const Plan& plan, const PlanExpression& expression) const;
    void add_terms(const Plan& plan, Span out, Number value);
    void run_plan(const Plan& plan);
    void read_plan(const Plan& plan, const PlanOperation& operation);
    bool predict_plan(const Plan& plan);
    Number dot(Span span) const;
    void add_to(Span out, Number value);
    void write(std::uint32_t table);
    void read(const Operation& operation);
    std::uint64_t clamp_position(Number query) const;

    const Forward* forward_;
    std::vector<Number> factors_;  // of Forward::terms
    std::vector<Number> variables_;
    std::vector<Token> tokens_;  // all so far, where no history is shared
    std::span<const Token> history_;
    std::uint64_t position_ = 0;    // of the next token
    std::uint64_t prompt_end_ = 0;  // of the start token; 0 before it
    std::vector<TableState<Number>> states_;
    PlanCache* plans_;
    bool running_ = false;  // the start token has been fed
    Token predicted_ = 0;
};

extern template class Engine<std::int64_t>;
extern template class Engine<double>;

}  // namespace hearth::vm
