// The sampling chain. Nothing is sorted further than the chain needs, and every sum runs in an order that depends on
// the logits alone, so that a (seed, position) gives the same token everywhere.
#include "sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/rng.h"
#include "sampling/exponential.h"

namespace hearth {

namespace {

using Candidate = SamplerScratch::Candidate;

constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr std::size_t kLanes = 16;           // virtual lanes of every pass over the vocabulary
constexpr std::size_t kFirstSortStep = 128;  // candidates sorted at once when it is not known how many are needed

Status check_range(const char* name, float value, float lowest, float highest, bool lowest_allowed = true) {
    const bool inside = value <= highest && (lowest_allowed ? value >= lowest : value > lowest);
    if (inside) return {};  // false for NaN
    char text[160];
    std::snprintf(text, sizeof text, "%s: %g is outside %c%g, %g]", name, static_cast<double>(value),
                  lowest_allowed ? '[' : '(', static_cast<double>(lowest), static_cast<double>(highest));
    return Error{ErrorCode::Usage, text};
}

struct Survey {
    float highest = kLowest;
    bool has_nan = false;
};

// One pass over the logits: the maximum, and whether any is NaN.
Survey survey(std::span<const float> logits) {
    float highest[kLanes];
    std::uint32_t nan[kLanes] = {};
    std::fill(highest, highest + kLanes, kLowest);
    std::size_t i = 0;
    for (; i + kLanes <= logits.size(); i += kLanes) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            const float value = logits[i + lane];
            highest[lane] = value > highest[lane] ? value : highest[lane];
            nan[lane] |= value != value ? 1u : 0u;
        }
    }
    Survey result;
    for (; i < logits.size(); ++i) {
        highest[0] = std::max(highest[0], logits[i]);
        nan[0] |= logits[i] != logits[i] ? 1u : 0u;
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        result.highest = std::max(result.highest, highest[lane]);
        result.has_nan = result.has_nan || nan[lane] != 0;
    }
    return result;
}

// Sum of e^(logit - highest), in lanes added up by a fixed tree.
double sum_of_exponentials(std::span<const float> logits, float highest) {
    constexpr std::size_t kWide = 8;
    double sums[kWide] = {};
    std::size_t i = 0;
    for (; i + kWide <= logits.size(); i += kWide) {
        for (std::size_t lane = 0; lane < kWide; ++lane) {
            sums[lane] += exponential(static_cast<double>(logits[i + lane]) - static_cast<double>(highest));
        }
    }
    for (std::size_t lane = 0; i < logits.size(); ++i, ++lane) {
        sums[lane] += exponential(static_cast<double>(logits[i]) - static_cast<double>(highest));
    }
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

// Likelier first, then the lower id: a total order.
bool likelier(const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// Orders more and more of the front of `set`: nothing is sorted that nobody looks at.
template <typename Before>
class GrowingFront {
public:
    GrowingFront(std::span<Candidate> set, Before before) : set_(set), before_(before) {}

    const Candidate& operator[](std::size_t index) {
        if (index >= sorted_) grow(index);
        return set_[index];
    }

private:
    void grow(std::size_t index) {
        const std::size_t wanted = std::min(set_.size(), std::max({index + 1, 4 * sorted_, kFirstSortStep}));
        const auto begin = set_.begin() + static_cast<std::ptrdiff_t>(sorted_);
        const auto middle = set_.begin() + static_cast<std::ptrdiff_t>(wanted);
        if (middle != set_.end()) std::nth_element(begin, middle, set_.end(), before_);
        std::sort(begin, middle, before_);
        sorted_ = wanted;
    }
    std::span<Candidate> set_;
    Before before_;
    std::size_t sorted_ = 0;
};

// Whether one of kLanes values exceeds `bar`.
bool any_above(const float* values, float bar) {
    std::uint32_t above = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane) above |= values[lane] > bar ? 1u : 0u;
    return above != 0;
}

// The `count` likeliest of all logits, in order, at the front of `candidates`. Blocks without a value above the current
// bar are passed over at the speed of a maximum.
std::size_t select_top(std::span<const float> logits, std::size_t count, std::span<Candidate> candidates) {
    const std::size_t capacity = std::min(candidates.size(), std::max<std::size_t>(2 * count, 256) + kLanes);
    std::size_t held = 0;
    float bar = kLowest;  // what does not exceed it cannot be among the best
    const auto shrink = [&] {
        if (held <= count) return;
        const auto begin = candidates.begin();
        std::nth_element(begin, begin + static_cast<std::ptrdiff_t>(count) - 1,
                         begin + static_cast<std::ptrdiff_t>(held), likelier);
        held = count;
        bar = candidates[count - 1].logit;
    };
    for (std::size_t i = 0; i < logits.size(); i += kLanes) {
        const std::size_t end = std::min(i + kLanes, logits.size());
        if (i + kLanes <= logits.size() && !any_above(logits.data() + i, bar)) continue;
        if (held + kLanes > capacity && capacity < candidates.size()) shrink();
        for (std::size_t k = i; k < end; ++k) {
            if (logits[k] > bar) candidates[held++] = Candidate{logits[k], static_cast<TokenId>(k)};
        }
    }
    shrink();
    std::sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(held), likelier);
    return held;
}

// All tokens that can be drawn at all, in the order of their ids.
std::size_t select_all(std::span<const float> logits, std::span<Candidate> candidates) {
    std::size_t held = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        if (logits[i] > kLowest) candidates[held++] = Candidate{logits[i], static_cast<TokenId>(i)};
    }
    return held;
}

double weight(const Candidate& candidate, float highest, double inverse_temperature = 1.0) {
    return exponential((static_cast<double>(candidate.logit) - static_cast<double>(highest)) * inverse_temperature);
}

double total_weight(std::span<const Candidate> set, float highest, double inverse_temperature = 1.0) {
    double total = 0.0;
    for (const Candidate& candidate : set) total += weight(candidate, highest, inverse_temperature);
    return total;
}

float highest_of(std::span<const Candidate> set) {
    float highest = kLowest;
    for (const Candidate& candidate : set) highest = std::max(highest, candidate.logit);
    return highest;
}

// Keeps the front of `set`, ordered by `before`, until its share of `total`, the weight of all, reaches `mass`.
template <typename Before>
std::size_t keep_mass(std::span<Candidate> set, double total, float mass, float highest, Before before) {
    const double target = static_cast<double>(mass) * total;
    GrowingFront front(set, before);
    double sum = 0.0;
    for (std::size_t i = 0; i < set.size(); ++i) {
        sum += weight(front[i], highest);
        if (sum >= target) return i + 1;
    }
    return set.size();
}

// Locally typical sampling: the tokens whose surprise is nearest to the expected one, up to a mass.
std::size_t keep_typical(std::span<Candidate> set, double total, float mass, float highest) {
    // Surprise is -ln p = distance below `highest` + ln(total); the constant drops out of every comparison.
    double expected = 0.0;
    for (const Candidate& candidate : set) {
        const double distance = static_cast<double>(highest) - static_cast<double>(candidate.logit);
        expected += weight(candidate, highest) / total * distance;
    }
    const auto deviation = [highest, expected](const Candidate& candidate) {
        return std::fabs(static_cast<double>(highest) - static_cast<double>(candidate.logit) - expected);
    };
    return keep_mass(set, total, mass, highest, [deviation](const Candidate& a, const Candidate& b) {
        const double first = deviation(a);
        const double second = deviation(b);
        return first != second ? first < second : likelier(a, b);
    });
}

// Keeps, in their order, the candidates at least `share` as likely as the likeliest.
std::size_t keep_above(std::span<Candidate> set, float share, float highest) {
    std::size_t held = 0;
    for (const Candidate& candidate : set) {
        if (weight(candidate, highest) >= static_cast<double>(share)) set[held++] = candidate;
    }
    return held;
}

TokenId draw(std::span<Candidate> set, float temperature, double unit) {
    const float highest = highest_of(set);
    const double inverse_temperature = 1.0 / static_cast<double>(temperature);
    const double target = unit * total_weight(set, highest, inverse_temperature);
    GrowingFront front(set, likelier);
    double sum = 0.0;
    for (std::size_t i = 0; i < set.size(); ++i) {
        sum += weight(front[i], highest, inverse_temperature);
        if (sum > target) return front[i].token;
    }
    // Only when rounding left the sum in descending order below the one in id order.
    return front[set.size() - 1].token;
}

bool has_penalties(const SamplingOptions& options) {
    return options.penalty_last > 0 && (options.repetition_penalty != 1.0f || options.frequency_penalty != 0.0f ||
                                        options.presence_penalty != 0.0f);
}

// Applies the penalties to `logits` for the tokens of `recent`. `counts` is zero before and after.
void penalise(std::span<float> logits, const SamplingOptions& options, std::span<const TokenId> recent,
              std::span<std::uint32_t> counts) {
    recent = recent.last(std::min<std::size_t>(recent.size(), options.penalty_last));
    const auto inside = [&](TokenId token) { return token >= 0 && static_cast<std::size_t>(token) < logits.size(); };
    for (const TokenId token : recent) {
        if (inside(token)) ++counts[static_cast<std::size_t>(token)];
    }
    for (const TokenId token : recent) {
        if (!inside(token)) continue;
        const std::size_t index = static_cast<std::size_t>(token);
        if (counts[index] == 0) continue;  // an earlier occurrence has been here
        float& logit = logits[index];
        logit = logit > 0.0f ? logit / options.repetition_penalty : logit * options.repetition_penalty;
        logit -= static_cast<float>(counts[index]) * options.frequency_penalty + options.presence_penalty;
        counts[index] = 0;
    }
}

Error broken(const char* what, std::uint64_t position) {
    return Error{ErrorCode::Failed, std::string("the model produced ") + what + " logits at position " +
                                        std::to_string(position) + ": its weights or the computation are broken"};
}

}  // namespace

Status SamplingOptions::validate(std::size_t vocabulary_size) const {
    TRY(check_range("temperature", temperature, 0.0f, 100.0f));
    TRY(check_range("top_p", top_p, 0.0f, 1.0f, false));
    TRY(check_range("min_p", min_p, 0.0f, 1.0f));
    TRY(check_range("typical_p", typical_p, 0.0f, 1.0f, false));
    TRY(check_range("repetition_penalty", repetition_penalty, 0.0f, 10.0f, false));
    TRY(check_range("frequency_penalty", frequency_penalty, -2.0f, 2.0f));
    TRY(check_range("presence_penalty", presence_penalty, -2.0f, 2.0f));
    for (const auto& [token, bias] : logit_bias) {
        if (token < 0 || static_cast<std::size_t>(token) >= vocabulary_size) {
            return Error{ErrorCode::Usage, "logit_bias: token " + std::to_string(token) + " is outside [0, " +
                                               std::to_string(vocabulary_size) + ")"};
        }
        TRY(check_range("logit_bias", bias, -100.0f, 100.0f));
    }
    return {};
}

SamplerScratch::SamplerScratch(std::size_t vocabulary_size)
    : candidates_(vocabulary_size), adjusted_(vocabulary_size), counts_(vocabulary_size) {}

Result<SampledToken> sample(std::span<const float> logits, const SamplingOptions& options,
                            std::span<const TokenId> recent, std::uint64_t position, SamplerScratch& scratch) {
    if (logits.empty() || logits.size() > scratch.candidates_.size()) {
        return Error{ErrorCode::Failed, "sampling " + std::to_string(logits.size()) + " logits with memory for " +
                                            std::to_string(scratch.candidates_.size())};
    }
    const Survey model = survey(logits);
    if (model.has_nan) return broken("NaN", position);
    if (model.highest == std::numeric_limits<float>::infinity()) return broken("infinite", position);
    if (model.highest == kLowest) return broken("only -Inf", position);

    std::span<const float> adjusted = logits;
    Survey after = model;
    if (has_penalties(options) || !options.logit_bias.empty()) {
        const std::span<float> copy(scratch.adjusted_.data(), logits.size());
        std::copy(logits.begin(), logits.end(), copy.begin());
        for (const auto& [token, bias] : options.logit_bias) {
            if (token >= 0 && static_cast<std::size_t>(token) < copy.size()) {
                copy[static_cast<std::size_t>(token)] += bias;
            }
        }
        if (has_penalties(options)) penalise(copy, options, recent, scratch.counts_);
        adjusted = copy;
        after = survey(adjusted);
        if (after.has_nan || !(std::fabs(after.highest) < std::numeric_limits<float>::infinity())) {
            return broken("overflowing", position);
        }
    }

    TokenId token;
    if (options.temperature == 0.0f) {
        token = static_cast<TokenId>(std::find(adjusted.begin(), adjusted.end(), after.highest) - adjusted.begin());
    } else {
        std::span<Candidate> set(scratch.candidates_);
        const bool cut = options.top_k > 0 && options.top_k < adjusted.size();
        set = set.first(cut ? select_top(adjusted, options.top_k, set) : select_all(adjusted, set));
        float highest = after.highest;
        const bool weighs = options.typical_p < 1.0f || options.top_p < 1.0f;
        double total = 0.0;
        if (weighs) total = cut ? total_weight(set, highest) : sum_of_exponentials(adjusted, highest);
        if (options.typical_p < 1.0f) {
            set = set.first(keep_typical(set, total, options.typical_p, highest));
            highest = highest_of(set);
            total = total_weight(set, highest);
        }
        if (options.top_p < 1.0f) set = set.first(keep_mass(set, total, options.top_p, highest, likelier));
        if (options.min_p > 0.0f) set = set.first(keep_above(set, options.min_p, highest));
        token = draw(set, options.temperature, random_unit(options.seed, position));
    }
    const double normaliser = logarithm(sum_of_exponentials(logits, model.highest));
    const double distance =
        static_cast<double>(logits[static_cast<std::size_t>(token)]) - static_cast<double>(model.highest);
    return SampledToken{token, static_cast<float>(distance - normaliser)};
}

double log_sum_exp(std::span<const float> logits) {
    const float highest = survey(logits).highest;
    return static_cast<double>(highest) + logarithm(sum_of_exponentials(logits, highest));
}

}  // namespace hearth
