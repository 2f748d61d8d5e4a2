// Numbers between bounds: the digits themselves say what is in range.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "text/grammar/json_rules.h"

namespace hearth::grammar {

namespace {

constexpr std::uint64_t kLargest = 999'999'999'999'999'999;  // 18 digits
constexpr std::uint32_t kFractionDigits = 15;

ExprId digit_between(Source& source, char first, char last) {
    return source.character_class({{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last)}});
}

// Two numbers of equally many digits, the first not above the second.
ExprId same_length(Source& source, const std::string& low, const std::string& high, std::size_t at) {
    if (at == low.size()) return source.empty();
    const bool all =
        low.find_first_not_of('0', at) == std::string::npos && high.find_first_not_of('9', at) == std::string::npos;
    const auto left = static_cast<std::uint32_t>(low.size() - at);
    if (all) return source.repeat(digit_between(source, '0', '9'), left, left);
    if (low[at] == high[at]) {
        return source.sequence({digit_between(source, low[at], low[at]), same_length(source, low, high, at + 1)});
    }
    const std::string nines(low.size(), '9');
    const std::string zeros(low.size(), '0');
    std::vector<ExprId> ways;
    ways.push_back(source.sequence({digit_between(source, low[at], low[at]), same_length(source, low, nines, at + 1)}));
    if (low[at] + 1 < high[at]) {
        ways.push_back(
            source.sequence({digit_between(source, static_cast<char>(low[at] + 1), static_cast<char>(high[at] - 1)),
                             source.repeat(digit_between(source, '0', '9'), left - 1, left - 1)}));
    }
    ways.push_back(
        source.sequence({digit_between(source, high[at], high[at]), same_length(source, zeros, high, at + 1)}));
    return source.choice(std::move(ways));
}

// Whole numbers from low to high, without leading zeros.
ExprId natural_between(Source& source, std::uint64_t low, std::uint64_t high) {
    std::vector<ExprId> ways;
    for (std::uint64_t first = low; first <= high;) {
        const std::string text = std::to_string(first);
        std::uint64_t last = 9;
        for (std::size_t i = 1; i < text.size(); ++i) last = last * 10 + 9;
        last = std::min(last, high);
        ways.push_back(same_length(source, text, std::to_string(last), 0));
        first = last + 1;
    }
    return source.choice(std::move(ways));
}

std::uint64_t magnitude(std::int64_t value) {
    return value < 0 ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
}

struct Half {
    std::uint64_t low = 0;
    std::uint64_t high = kLargest;
    bool low_excluded = false;
    bool high_excluded = false;
};

// Numbers of one sign from low to high.
ExprId decimal_between(Source& source, const Half& half) {
    const ExprId digits = source.repeat(digit_between(source, '0', '9'), 1, kFractionDigits);
    const ExprId fraction = source.optional(source.sequence({source.literal("."), digits}));
    std::vector<ExprId> ways;
    std::uint64_t low = half.low;
    if (half.low_excluded && low < half.high) {
        const ExprId zeros = source.repeat(source.literal("0"), 0, kFractionDigits - 1);
        const ExprId rest = source.repeat(digit_between(source, '0', '9'), 0, kFractionDigits);
        ways.push_back(
            source.sequence({source.literal(std::to_string(low) + "."), zeros, digit_between(source, '1', '9'), rest}));
        ++low;
    }
    if (low < half.high) ways.push_back(source.sequence({natural_between(source, low, half.high - 1), fraction}));
    if (!half.high_excluded && (low <= half.high) && !(half.low_excluded && half.low == half.high)) {
        const ExprId zeros = source.repeat(source.literal("0"), 1, 3);
        ways.push_back(source.sequence({source.literal(std::to_string(half.high)),
                                        source.optional(source.sequence({source.literal("."), zeros}))}));
    }
    return source.choice(std::move(ways));
}

Error no_number() {
    return Error{ErrorCode::Usage, "no number lies between the bounds"};
}

Status check(const Bounds& bounds) {
    for (const std::optional<std::int64_t>& bound : {bounds.lower, bounds.upper}) {
        if (bound.has_value() && magnitude(*bound) > kLargest) {
            return Error{ErrorCode::Usage, "a bound has more than 18 digits"};
        }
    }
    if (bounds.lower.has_value() && bounds.upper.has_value()) {
        const bool excluded = bounds.lower_excluded || bounds.upper_excluded;
        if (*bounds.lower > *bounds.upper || (excluded && *bounds.lower == *bounds.upper)) return no_number();
    }
    return {};
}

}  // namespace

Result<ExprId> integer_between(Source& source, const Bounds& bounds) {
    TRY(check(bounds));
    const auto largest = static_cast<std::int64_t>(kLargest);
    const std::int64_t low = bounds.lower.value_or(-largest);
    const std::int64_t high = bounds.upper.value_or(largest);
    std::vector<ExprId> ways;
    if (low < 0) {
        const std::uint64_t nearest = high < 0 ? magnitude(high) : 1;
        ways.push_back(source.sequence({source.literal("-"), natural_between(source, nearest, magnitude(low))}));
    }
    if (high >= 0) ways.push_back(natural_between(source, magnitude(std::max<std::int64_t>(low, 0)), magnitude(high)));
    return source.choice(std::move(ways));
}

Result<ExprId> number_between(Source& source, const Bounds& bounds) {
    TRY(check(bounds));
    const auto largest = static_cast<std::int64_t>(kLargest);
    const std::int64_t low = bounds.lower.value_or(-largest);
    const std::int64_t high = bounds.upper.value_or(largest);
    std::vector<ExprId> ways;
    if (low < 0) {
        Half half;  // mirrored: the upper bound is the nearer one
        half.high = magnitude(low);
        half.high_excluded = bounds.lower_excluded;
        half.low = high < 0 ? magnitude(high) : 0;
        half.low_excluded = high == 0 || (high < 0 && bounds.upper_excluded);  // zero has no sign here
        if (high == 0 && !bounds.upper_excluded) ways.push_back(source.literal("0"));
        ways.push_back(source.sequence({source.literal("-"), decimal_between(source, half)}));
    }
    if (high > 0 || (high == 0 && low == 0)) {
        Half half;
        half.low = magnitude(std::max<std::int64_t>(low, 0));
        half.low_excluded = low >= 0 && bounds.lower_excluded;
        half.high = magnitude(high);
        half.high_excluded = bounds.upper_excluded;
        ways.push_back(decimal_between(source, half));
    }
    return source.choice(std::move(ways));
}

}  // namespace hearth::grammar
