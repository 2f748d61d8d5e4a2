// The language the machine is written in. A dimension is one integer per token: an input (set by the token's
// embedding), a gated product relu(gate) * value, the result of an attention look-up, or a named sum. Everything
// between dimensions is linear, so that a schedule turns the whole into the weights of a transformer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "vm/isa.h"

namespace hearth::vm {

using Dim = std::int32_t;

struct Interval {
    std::int64_t low = 0;
    std::int64_t high = 0;
    bool operator==(const Interval&) const = default;
};

// A linear combination of dimensions with integer coefficients.
class Linear {
public:
    Linear() = default;
    explicit Linear(Dim dim) : terms_{{dim, 1}} {}

    const std::map<Dim, std::int64_t>& terms() const { return terms_; }
    std::int64_t coefficient(Dim dim) const {
        const auto found = terms_.find(dim);
        return found == terms_.end() ? 0 : found->second;
    }
    void add(Dim dim, std::int64_t factor) {
        const std::int64_t value = coefficient(dim) + factor;
        if (value == 0) {
            terms_.erase(dim);
        } else {
            terms_[dim] = value;
        }
    }
    Linear& operator+=(const Linear& other) {
        for (const auto& [dim, factor] : other.terms_) add(dim, factor);
        return *this;
    }
    Linear& operator-=(const Linear& other) {
        for (const auto& [dim, factor] : other.terms_) add(dim, -factor);
        return *this;
    }
    friend Linear operator+(Linear a, const Linear& b) { return a += b; }
    friend Linear operator-(Linear a, const Linear& b) { return a -= b; }
    friend Linear operator-(const Linear& a) { return Linear() -= a; }
    friend Linear operator*(std::int64_t factor, const Linear& a) {
        Linear result;
        for (const auto& [dim, value] : a.terms_) result.add(dim, factor * value);
        return result;
    }
    bool operator==(const Linear&) const = default;
    auto operator<=>(const Linear&) const = default;

private:
    std::map<Dim, std::int64_t> terms_;
};

// How a head resolves equal scores: the latest entry, or the sum of all of them.
enum class Tie : std::uint8_t { Latest, Sum, Average };

// score(t, s) = 2 q_t k_s - k_s^2 - kBlocked * blocked_s; the greatest wins.
struct LookUp {
    std::string name;
    Linear query;
    Linear key;
    Linear key_square;
    Linear blocked;  // 0: takes part; 1: does not
    std::vector<Linear> values;
    Tie tie = Tie::Latest;
    std::vector<Dim> results;
};
inline constexpr std::int64_t kBlocked = std::int64_t{1} << 60;

enum class DimKind : std::uint8_t { Input, Product, Result, Sum };

struct DimNode {
    DimKind kind = DimKind::Input;
    std::string name;
    Interval range;
    bool assumed = false;  // the range is an invariant of the machine, not a consequence of its inputs' ranges
    Linear value;          // Product, Sum
    Linear gate;           // Product
    int look_up = -1;      // Result
};

class Graph {
public:
    Graph();

    // 1 on every token but the first, where it is 0: constants vanish there, and position 0 is an entry "0" for all.
    Linear one() const { return Linear(kOne); }
    Linear constant(std::int64_t value) const { return value * one(); }
    Linear position() const { return Linear(kPosition); }
    static constexpr Dim kOne = 0;
    static constexpr Dim kPosition = 1;
    static constexpr Dim kPositionSquare = 2;

    // A number the embedding gives every token; set() fills its table.
    Linear input(std::string_view name);
    void set(const Linear& input, Token token, std::int64_t value);
    const std::vector<std::int64_t>& table(Dim input) const { return tables_[static_cast<std::size_t>(input)]; }

    // relu(gate) * value
    Linear product(const Linear& value, const Linear& gate, std::string_view name);
    // The same with a range that is known for reasons the ranges of value and gate do not show.
    Linear product_within(const Linear& value, const Linear& gate, Interval range, std::string_view name);
    Linear step(const Linear& number, std::string_view name);  // [number >= 0]
    // value where the flag is 1, 0 where it is 0
    Linear choose(const Linear& flag, const Linear& value, std::string_view name) { return product(value, flag, name); }
    Linear both(const Linear& first, const Linear& second, std::string_view name) {
        return product(one(), first + second - one(), name);
    }
    Linear sum(const Linear& number, std::string_view name);  // keeps a linear combination as one dimension
    Linear square(const Linear& number, std::string_view name);

    std::vector<Linear> gather(const Linear& position, std::vector<Linear> values, std::string_view name);
    std::vector<Linear> latest(const Linear& member, std::vector<Linear> values, std::string_view name);
    std::vector<Linear> latest_by_key(const Linear& query, const Linear& key, const Linear& member,
                                      std::vector<Linear> values, std::string_view name);
    std::vector<Linear> running_sum(std::vector<Linear> values, std::string_view name);

    const std::vector<DimNode>& dims() const { return dims_; }
    const std::vector<LookUp>& look_ups() const { return look_ups_; }
    Interval range(const Linear& number) const;
    void narrow(const Linear& dim, Interval range);  // states an invariant of an input-like dimension

    // What the head reads: score of every token is a linear combination.
    void set_logit(Token token, const Linear& score) { logits_[token] = score; }
    const std::vector<Linear>& logits() const { return logits_; }

private:
    Linear add(DimNode node);
    std::vector<Linear> look_up(LookUp look_up);

    std::vector<DimNode> dims_;
    std::vector<std::vector<std::int64_t>> tables_;
    std::vector<LookUp> look_ups_;
    std::vector<Linear> logits_;
    std::map<std::pair<Linear, Linear>, Dim> products_;
    std::map<Linear, Dim> sums_;
};

inline constexpr std::int64_t kMaxPosition = (std::int64_t{1} << 26) - 1;

}  // namespace hearth::vm
