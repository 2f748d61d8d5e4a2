#include "models/rope.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace hearth {

namespace {

constexpr double kPi = 3.14159265358979323846;

Result<RopeScaling> read_scaling(const GgufFile& file, const std::string& key, bool has_factor) {
    const std::optional<std::string_view> type = TRY(file.find_string(key));
    // Files from before the key existed give only a factor, and mean linear.
    if (!type) return has_factor ? RopeScaling::Linear : RopeScaling::None;
    if (*type == "none") return RopeScaling::None;
    if (*type == "linear") return has_factor ? RopeScaling::Linear : RopeScaling::None;
    if (*type == "yarn") return RopeScaling::Yarn;
    if (*type == "longrope") return RopeScaling::LongRope;
    return model_error(file, key + " is '" + std::string(*type) + "'; known are none, linear, yarn, longrope");
}

// YaRN's remedy for the entropy that attention gains over more positions (the paper's equation 22).
double yarn_magnitude(double factor, double multiplier) {
    return factor <= 1 ? 1 : 0.1 * multiplier * std::log(factor) + 1;
}

Status read_yarn(const GgufFile& file, const Hyperparameters& h, RopeParameters& rope) {
    const auto key = [&](std::string_view suffix) {
        return family_key(h.architecture, "rope.scaling." + std::string(suffix));
    };
    rope.beta_fast = TRY(positive_or(file, key("yarn_beta_fast"), 32));
    rope.beta_slow = TRY(positive_or(file, key("yarn_beta_slow"), 1));
    const std::string extrapolation_key = key("yarn_ext_factor");
    rope.extrapolation = TRY(file.find_f32(extrapolation_key)).value_or(1);
    if (rope.extrapolation < 0) rope.extrapolation = 1;  // writers say "not set" with a negative number
    if (!(rope.extrapolation <= 1)) return model_error(file, extrapolation_key + " is above 1");

    const float multiplier = TRY(file.find_f32(key("yarn_log_multiplier"))).value_or(0);
    double magnitude = yarn_magnitude(rope.factor, 1);
    if (multiplier > 0) magnitude /= yarn_magnitude(rope.factor, multiplier);
    rope.magnitude *= TRY(positive_or(file, key("yarn_attn_factor"), static_cast<float>(magnitude)));
    return {};
}

// LongRoPE's magnitude (its section 3.3), for files that do not state it.
float longrope_magnitude(const Hyperparameters& h, std::size_t original_context) {
    const double stretch = static_cast<double>(h.trained_context) / static_cast<double>(original_context);
    if (stretch <= 1 || original_context <= 1) return 1;
    return static_cast<float>(std::sqrt(1 + std::log(stretch) / std::log(static_cast<double>(original_context))));
}

// The pair that turns `turns` times within the original context.
double yarn_pair(const RopeParameters& rope, double turns) {
    const double original = static_cast<double>(rope.original_context);
    return static_cast<double>(rope.rotated) * std::log(original / (turns * 2 * kPi)) /
           (2 * std::log(static_cast<double>(rope.base)));
}

}  // namespace

Result<RopeParameters> read_rope_parameters(const GgufFile& file, const Hyperparameters& h) {
    const auto key = [&](std::string_view suffix) { return family_key(h.architecture, "rope." + std::string(suffix)); };
    RopeParameters rope;
    rope.rotated = h.rotated;
    rope.base = h.rope_base;

    std::string factor_key = key("scaling.factor");
    if (file.find(factor_key) == nullptr) factor_key = key("scale_linear");  // its name in the oldest files
    const float factor = TRY(file.find_f32(factor_key)).value_or(0);         // 0 is how writers say "none"
    if (!std::isfinite(factor) || factor < 0) return model_error(file, factor_key + " is not a number above 0");
    rope.factor = factor == 0 ? 1 : factor;
    rope.scaling = TRY(read_scaling(file, key("scaling.type"), factor != 0));
    rope.magnitude = TRY(positive_or(file, key("scaling.attn_factor"), 1));

    const std::string original_key = key("scaling.original_context_length");
    const std::optional<std::uint32_t> original = TRY(file.find_u32(original_key));
    if (original == 0U) return model_error(file, original_key + " is 0");
    rope.original_context = original ? *original : h.trained_context;
    if (rope.scaling == RopeScaling::Yarn) {
        if (rope.base <= 1) return model_error(file, key("freq_base") + " is not above 1, which yarn needs");
        TRY(read_yarn(file, h, rope));
    }
    return rope;
}

RopeTable make_rope_table(const RopeParameters& rope, std::span<const float> factors) {
    const std::size_t pairs = rope.rotated / 2;
    CHECK(factors.empty() || factors.size() == pairs);
    double low = 0;
    double high = 0;
    if (rope.scaling == RopeScaling::Yarn) {
        low = std::max(std::floor(yarn_pair(rope, rope.beta_fast)), 0.0);
        high = std::min(std::ceil(yarn_pair(rope, rope.beta_slow)), static_cast<double>(rope.rotated) - 1);
    }
    RopeTable table;
    table.magnitude = rope.magnitude;
    table.inverse_frequencies.reserve(pairs);
    for (std::size_t pair = 0; pair < pairs; ++pair) {
        const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(rope.rotated);
        double frequency = std::pow(static_cast<double>(rope.base), exponent);
        if (!factors.empty()) frequency /= static_cast<double>(factors[pair]);
        if (rope.scaling == RopeScaling::Linear) frequency /= static_cast<double>(rope.factor);
        if (rope.scaling == RopeScaling::Yarn) {
            const double ramp = (static_cast<double>(pair) - low) / std::max(high - low, 0.001);
            const double kept = (1 - std::clamp(ramp, 0.0, 1.0)) * static_cast<double>(rope.extrapolation);
            frequency = frequency / static_cast<double>(rope.factor) * (1 - kept) + frequency * kept;
        }
        table.inverse_frequencies.push_back(static_cast<float>(frequency));
    }
    return table;
}

Result<RopeTable> make_checked_rope_table(const GgufFile& file, const std::string& base_key,
                                          const RopeParameters& parameters, std::span<const float> factors) {
    constexpr float kHighest = 1000;  // radians a position; real ropes stay at or near 1
    RopeTable table = make_rope_table(parameters, factors);
    for (const float frequency : table.inverse_frequencies) {
        if (!(frequency >= 0 && frequency <= kHighest)) {
            return model_error(file, base_key + " and the rope's factors make a frequency out of range");
        }
    }
    return table;
}

Result<RopeTable> read_rope_table(Weights& weights, const Hyperparameters& h) {
    const std::string long_name = "rope_factors_long.weight";
    const std::string short_name = "rope_factors_short.weight";
    RopeParameters rope = TRY(read_rope_parameters(weights.file(), h));
    std::string name;
    if (weights.contains("rope_freqs.weight")) {
        name = "rope_freqs.weight";
    } else if (weights.contains(long_name) || weights.contains(short_name)) {
        name = h.context > rope.original_context ? long_name : short_name;
        rope.scaling = RopeScaling::LongRope;
        const std::string magnitude_key = family_key(h.architecture, "rope.scaling.attn_factor");
        if (weights.file().find(magnitude_key) == nullptr) {
            rope.magnitude = longrope_magnitude(h, rope.original_context);
        }
    } else if (rope.scaling == RopeScaling::LongRope) {
        return model_error(weights.file(), "rope scaling is longrope, but tensor " + short_name + " is missing");
    }
    const std::string base_key = family_key(h.architecture, "rope.freq_base");
    if (name.empty()) return make_checked_rope_table(weights.file(), base_key, rope, {});

    const std::vector<float> factors = TRY(weights.floats(name, rope.rotated / 2));
    for (const float factor : factors) {
        if (!std::isfinite(factor) || factor <= 0) {
            return model_error(weights.file(), "tensor " + name + " holds a factor that is not a number above 0");
        }
    }
    return make_checked_rope_table(weights.file(), base_key, rope, factors);
}

}  // namespace hearth
