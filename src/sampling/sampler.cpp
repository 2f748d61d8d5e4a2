// The sampling chain. Nothing is sorted further than the chain needs, and every sum runs in an order that depends on
// the logits alone, so that a (seed, position) gives the same token everywhere.
#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/rng.h"
#include "sampling/exponential.h"
#include "sampling/exponential_sums.h"

namespace hearth {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Status check_range(const char* name, float value, float lowest, float highest, bool lowest_allowed = true) {
    const bool inside = value <= highest && (lowest_allowed ? value >= lowest : value > lowest);
    if (inside) return {};  // false for NaN
    char text[160];
    std::snprintf(text, sizeof text, "%s: %g is outside %c%g, %g]", name, static_cast<double>(value),
                  lowest_allowed ? '[' : '(', static_cast<double>(lowest), static_cast<double>(highest));
    return Error{ErrorCode::Usage, text};
}

double weight(const Candidate& candidate, float highest, double inverse_temperature = 1.0) {
    return exponential((static_cast<double>(candidate.logit) - static_cast<double>(highest)) * inverse_temperature);
}

// Calls visit(candidate, weight) for each of `set` in its order.
template <typename Visit>
void for_each_weight(std::span<const Candidate> set, float highest, double inverse_temperature, Visit visit) {
    constexpr std::size_t kBlock = 64;
    double weights[kBlock];
    for (std::size_t i = 0; i < set.size(); i += kBlock) {
        const std::size_t count = std::min(kBlock, set.size() - i);
        exponentials(&set[i].logit, sizeof(Candidate) / sizeof(float), count, highest, inverse_temperature, weights);
        for (std::size_t k = 0; k < count; ++k) visit(set[i + k], weights[k]);
    }
}

double total_weight(std::span<const Candidate> set, float highest, double inverse_temperature = 1.0) {
    double total = 0.0;
    for_each_weight(set, highest, inverse_temperature, [&](const Candidate&, double weight) { total += weight; });
    return total;
}

// The same over a whole row, in the order of the ids.
double total_weight(const ChunkedLogits& row, double inverse_temperature) {
    double total = 0.0;
    double weights[kLogitChunk];
    for (std::size_t c = 0; c < row.chunk_count(); ++c) {
        const std::span<const float> chunk = row.chunk(c);
        exponentials(chunk.data(), 1, chunk.size(), row.highest(), inverse_temperature, weights);
        for (std::size_t i = 0; i < chunk.size(); ++i) {
            if (chunk[i] > -kInfinity) total += weights[i];
        }
    }
    return total;
}

float highest_of(std::span<const Candidate> set) {
    float highest = -kInfinity;
    for (const Candidate& candidate : set) highest = std::max(highest, candidate.logit);
    return highest;
}

// How many of the first of `front` it takes until their share of `total`, the weight of all, reaches `mass`.
template <typename Front>
std::size_t count_mass(Front& front, double total, float mass, float highest) {
    const double target = static_cast<double>(mass) * total;
    double sum = 0.0;
    std::size_t count = 0;
    while (const Candidate* candidate = front.at(count)) {
        ++count;
        sum += weight(*candidate, highest);
        if (sum >= target) break;
    }
    return count;
}

template <typename Before>
std::span<Candidate> keep_mass(std::span<Candidate> set, double total, float mass, float highest, Before before) {
    GrowingFront front(set, before);
    return set.first(count_mass(front, total, mass, highest));
}

// Locally typical sampling: the tokens whose surprise is nearest to the expected one, up to a mass.
std::span<Candidate> keep_typical(std::span<Candidate> set, double total, float mass, float highest) {
    // Surprise is -ln p = distance below `highest` + ln(total); the constant drops out of every comparison.
    double expected = 0.0;
    for_each_weight(set, highest, 1.0, [&](const Candidate& candidate, double weight) {
        const double distance = static_cast<double>(highest) - static_cast<double>(candidate.logit);
        expected += weight / total * distance;
    });
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
std::span<Candidate> keep_above(std::span<Candidate> set, float share, float highest) {
    std::size_t held = 0;
    for (const Candidate& candidate : set) {
        if (weight(candidate, highest) >= static_cast<double>(share)) set[held++] = candidate;
    }
    return set.first(held);
}

// A logit below which keep_above keeps nothing: a little lower than the exact place, whatever the rounding.
float bar_of_share(float share, float highest) {
    return static_cast<float>(static_cast<double>(highest) + logarithm(static_cast<double>(share)) - 1e-3);
}

// Walks down `front` to where `unit` of the weight `total` lies.
template <typename Front>
TokenId draw(Front& front, double total, float highest, double inverse_temperature, double unit) {
    const double target = unit * total;
    double sum = 0.0;
    TokenId token = 0;
    for (std::size_t i = 0; const Candidate* candidate = front.at(i); ++i) {
        token = candidate->token;
        sum += weight(*candidate, highest, inverse_temperature);
        if (sum > target) break;
    }
    return token;  // the last one only when rounding left the sum in descending order below the one in id order
}

// What the filters leave of a row. Only called when there is one.
std::span<Candidate> filter(const ChunkedLogits& row, const SamplingOptions& options, Selection& selection) {
    const bool cut = options.top_k > 0 && options.top_k < row.size();
    float highest = row.highest();
    std::span<Candidate> set;
    if (cut || options.typical_p < 1.0f) {
        set = cut ? selection.top(row, options.top_k) : selection.all(row);
        double total = 0.0;
        const bool weighs = options.typical_p < 1.0f || options.top_p < 1.0f;
        if (weighs) total = cut ? total_weight(set, highest) : sum_of_exponentials(row);
        if (options.typical_p < 1.0f) {
            set = keep_typical(set, total, options.typical_p, highest);
            highest = highest_of(set);
            total = total_weight(set, highest);
        }
        if (options.top_p < 1.0f) set = keep_mass(set, total, options.top_p, highest, likelier);
    } else if (options.top_p < 1.0f) {
        DescendingRow front(row, selection);
        set = front.first(count_mass(front, sum_of_exponentials(row), options.top_p, highest));
    } else {
        set = selection.at_least(row, bar_of_share(options.min_p, highest));
    }
    return options.min_p > 0.0f ? keep_above(set, options.min_p, highest) : set;
}

TokenId draw_token(const ChunkedLogits& row, const SamplingOptions& options, std::uint64_t position,
                   Selection& selection) {
    const double inverse_temperature = 1.0 / static_cast<double>(options.temperature);
    const double unit = random_unit(options.seed, position);
    const bool filtered = (options.top_k > 0 && options.top_k < row.size()) || options.typical_p < 1.0f ||
                          options.top_p < 1.0f || options.min_p > 0.0f;
    if (!filtered) {
        DescendingRow front(row, selection);
        return draw(front, total_weight(row, inverse_temperature), row.highest(), inverse_temperature, unit);
    }
    const std::span<Candidate> set = filter(row, options, selection);
    const float highest = highest_of(set);
    const double total = total_weight(set, highest, inverse_temperature);
    GrowingFront front(set, likelier);
    return draw(front, total, highest, inverse_temperature, unit);
}

// The lowest of the likeliest tokens.
TokenId likeliest(const ChunkedLogits& row) {
    const std::span<const float> maxima = row.maxima();
    const std::size_t index =
        static_cast<std::size_t>(std::find(maxima.begin(), maxima.end(), row.highest()) - maxima.begin());
    const std::span<const float> chunk = row.chunk(index);
    const auto place = std::find(chunk.begin(), chunk.end(), row.highest()) - chunk.begin();
    return static_cast<TokenId>(index * kLogitChunk + static_cast<std::size_t>(place));
}

bool has_penalties(const SamplingOptions& options) {
    return options.penalty_last > 0 && (options.repetition_penalty != 1.0f || options.frequency_penalty != 0.0f ||
                                        options.presence_penalty != 0.0f);
}

// Applies the penalties for the tokens of `recent`. `counts` is zero before and after.
void penalise(ChunkedLogits& row, const SamplingOptions& options, std::span<const TokenId> recent,
              std::span<std::uint32_t> counts) {
    recent = recent.last(std::min<std::size_t>(recent.size(), options.penalty_last));
    const auto inside = [&](TokenId token) { return token >= 0 && static_cast<std::size_t>(token) < row.size(); };
    for (const TokenId token : recent) {
        if (inside(token)) ++counts[static_cast<std::size_t>(token)];
    }
    for (const TokenId token : recent) {
        if (!inside(token)) continue;
        const std::size_t index = static_cast<std::size_t>(token);
        if (counts[index] == 0) continue;  // an earlier occurrence has been here
        float& logit = row.change(index);
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
    : row_(vocabulary_size), selection_(vocabulary_size), counts_(vocabulary_size) {}

Result<SampledToken> sample(const LogitRow& row, const SamplingOptions& options, std::span<const TokenId> recent,
                            std::uint64_t position, SamplerScratch& scratch, std::span<const std::uint64_t> mask) {
    const std::span<const float> logits = row.logits;
    ChunkedLogits& adjusted = scratch.row_;
    if (logits.empty() || logits.size() > adjusted.capacity()) {
        return Error{ErrorCode::Failed, "sampling " + std::to_string(logits.size()) + " logits with memory for " +
                                            std::to_string(adjusted.capacity())};
    }
    adjusted.reset(row);
    const float highest = adjusted.highest();
    if (std::isnan(highest)) return broken("NaN", position);
    if (highest == kInfinity) return broken("infinite", position);
    if (highest == -kInfinity) return broken("only -Inf", position);

    for (const auto& [token, bias] : options.logit_bias) {
        const bool inside = token >= 0 && static_cast<std::size_t>(token) < logits.size();
        if (inside) adjusted.change(static_cast<std::size_t>(token)) += bias;
    }
    if (has_penalties(options)) penalise(adjusted, options, recent, scratch.counts_);
    adjusted.settle();
    if (!std::isfinite(adjusted.highest())) return broken("overflowing", position);

    const auto allowed = [mask](TokenId token) {
        const std::size_t index = static_cast<std::size_t>(token);
        return mask.empty() || (mask[index / 64] >> (index % 64) & 1) != 0;
    };
    // The likeliest of all is the likeliest of the allowed if it is one of them; nothing else is so simple.
    if (!mask.empty() && !(options.temperature == 0.0f && allowed(likeliest(adjusted)))) {
        adjusted.restrict_to(mask);
        adjusted.settle();
        if (!std::isfinite(adjusted.highest())) {
            return Error{ErrorCode::Failed, "the grammar allows no token at position " + std::to_string(position)};
        }
    }

    SampledToken sampled;
    sampled.token =
        options.temperature == 0.0f ? likeliest(adjusted) : draw_token(adjusted, options, position, scratch.selection_);
    if (options.logprob) {
        const double normaliser = logarithm(sum_of_exponentials_fast(logits, highest));
        const double logit = static_cast<double>(logits[static_cast<std::size_t>(sampled.token)]);
        sampled.logprob = static_cast<float>(logit - static_cast<double>(highest) - normaliser);
    }
    return sampled;
}

Status top_logprobs(const LogitRow& row, std::size_t count, SamplerScratch& scratch, std::vector<SampledToken>& out) {
    out.clear();
    if (row.logits.empty() || row.logits.size() > scratch.row_.capacity()) {
        return Error{ErrorCode::Failed, "sampling " + std::to_string(row.logits.size()) + " logits with memory for " +
                                            std::to_string(scratch.row_.capacity())};
    }
    scratch.row_.reset(row);
    const float highest = scratch.row_.highest();
    if (!std::isfinite(highest)) return broken("no finite", 0);
    const double normaliser = logarithm(sum_of_exponentials_fast(row.logits, highest));
    for (const Candidate& candidate : scratch.selection_.top(scratch.row_, std::min(count, row.logits.size()))) {
        const double logprob = static_cast<double>(candidate.logit) - static_cast<double>(highest) - normaliser;
        out.push_back({candidate.token, static_cast<float>(logprob)});
    }
    return {};
}

double log_sum_exp(std::span<const float> logits) {
    const float highest = largest_logit(logits);
    if (!std::isfinite(highest)) return static_cast<double>(highest);
    return static_cast<double>(highest) + logarithm(sum_of_exponentials_fast(logits, highest));
}

}  // namespace hearth
