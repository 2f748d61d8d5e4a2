// The forward pass narrowed down to what one kind of token and one opcode can make happen: interval analysis over the
// compiled weights shows which neurons stay shut and which entries are not written, and what nobody reads is left out.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "vm/forward.h"

namespace hearth::vm {

// constant + sum of terms
struct PlanExpression {
    std::int64_t constant = 0;
    Span terms;
};

struct PlanOperation {
    enum class Kind : std::uint8_t {
        Copy,     // out += value
        Relu,     // out += relu(gate) * value.constant
        Product,  // out += relu(gate) * value
        Step,     // out += value.constant where gate >= 0
        Stairs,   // out += value.constant * number of k in 1..count with gate >= k * value
        Write,    // where gate > 0 (or always), at the key value, the expressions from first_column on
        Read,     // at gate
    };
    Kind kind = Kind::Copy;
    PlanExpression gate, value;
    Span out;                 // Step, Stairs and the rest: terms added to
    std::uint32_t count = 0;  // Stairs
    std::uint32_t table = 0;
    bool always = false;                               // Write: needs no test
    std::uint32_t first_column = 0, column_count = 0;  // Read: into columns and outs; Write: into written
};

struct PlanGroup {
    PlanExpression base, at;
    std::uint32_t group = 0;  // of Forward::groups
};

struct Plan {
    std::vector<std::pair<std::uint32_t, std::int64_t>> start;  // known from the start: added first
    std::vector<Term> terms;
    std::vector<PlanOperation> operations;
    std::vector<std::uint32_t> columns;
    std::vector<Span> outs;
    std::vector<PlanExpression> written;
    std::vector<PlanGroup> groups;
};

// Tokens with the same embedding in everything but the value of a byte behave alike.
std::uint32_t token_class(Token token);
inline constexpr std::uint32_t kTokenClasses = 15;

// Of the prompt: no prediction is asked for.
Plan plan_prompt(const Forward& forward, std::uint32_t token_class);
// Up to the fetch of the opcode, and from there on for one opcode.
Plan plan_front(const Forward& forward, std::uint32_t token_class);
Plan plan_back(const Forward& forward, std::uint32_t token_class, Opcode opcode);

// Plans, made when first asked for; any number of threads may ask.
class PlanCache {
public:
    // `forward` must outlive it.
    explicit PlanCache(const Forward& forward) : forward_(forward) {}
    const Plan& prompt(std::uint32_t token_class);
    const Plan& front(std::uint32_t token_class);
    const Plan& back(std::uint32_t token_class, Opcode opcode);

private:
    template <typename Make>
    const Plan& get(std::atomic<const Plan*>& place, Make make);

    const Forward& forward_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Plan>> made_;
    std::array<std::atomic<const Plan*>, kTokenClasses> prompt_{};
    std::array<std::atomic<const Plan*>, kTokenClasses> front_{};
    std::array<std::atomic<const Plan*>, kTokenClasses * kOpcodeCount> back_{};
};

}  // namespace hearth::vm
