#include "server/api/answer_fields.h"

#include <charconv>
#include <limits>
#include <random>

namespace hearth {

namespace {

std::uint64_t draw_seed() {
    std::random_device device;
    return (std::uint64_t{device()} << 31) ^ device();
}

void read_logit_bias(Fields& fields, const Tokenizer& tokenizer, AnswerSpec& spec) {
    const Json::Object* bias = fields.object("logit_bias");
    if (bias == nullptr) return;
    if (bias->size() > kLogitBiasLimit) {
        fields.fault("logit_bias", "holds " + std::to_string(bias->size()) + " tokens, at most " +
                                       std::to_string(kLogitBiasLimit) + " are allowed");
        return;
    }
    for (const auto& [key, value] : *bias) {
        TokenId token = -1;
        const auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), token);
        if (code != std::errc{} || end != key.data() + key.size() || !tokenizer.contains(token)) {
            fields.fault("logit_bias", "'" + key.substr(0, 40) + "' is not a token id between 0 and " +
                                           std::to_string(tokenizer.vocabulary_size() - 1));
            return;
        }
        const Json single = Json::Object{{key, value}};
        Fields one(single, "logit_bias", fields.faults());
        const std::optional<double> amount = one.number(key, -100, 100);
        if (amount) spec.sampling.logit_bias.emplace_back(token, static_cast<float>(*amount));
    }
}

}  // namespace

void read_sampling(Fields& fields, const Tokenizer& tokenizer, AnswerSpec& spec) {
    SamplingOptions& sampling = spec.sampling;
    const auto real = [&](std::string_view key, float& target, double lowest, double highest) {
        if (const auto value = fields.number(key, lowest, highest)) target = static_cast<float>(*value);
    };
    const auto whole = [&](std::string_view key, std::uint32_t& target) {
        constexpr std::int64_t kHighest = std::numeric_limits<std::int32_t>::max();
        if (const auto value = fields.integer(key, 0, kHighest)) target = static_cast<std::uint32_t>(*value);
    };
    real("temperature", sampling.temperature, 0, 100);
    real("top_p", sampling.top_p, 0, 1);
    real("min_p", sampling.min_p, 0, 1);
    real("typical_p", sampling.typical_p, 0, 1);
    whole("top_k", sampling.top_k);
    real("repetition_penalty", sampling.repetition_penalty, 0, 10);
    real("frequency_penalty", sampling.frequency_penalty, -2, 2);
    real("presence_penalty", sampling.presence_penalty, -2, 2);
    whole("penalty_last", sampling.penalty_last);
    const auto seed = fields.integer("seed", 0, std::numeric_limits<std::int64_t>::max());
    sampling.seed = seed ? static_cast<std::uint64_t>(*seed) : draw_seed();
    // 0 would leave no token at all; clients that mean "the likeliest only" get that.
    if (sampling.top_p == 0) {
        sampling.top_p = 1;
        sampling.top_k = 1;
    }
    spec.ignore_end = fields.boolean("ignore_eos").value_or(false);
    read_logit_bias(fields, tokenizer, spec);
    if (!fields.ok()) return;
    if (const Status valid = sampling.validate(tokenizer.vocabulary_size()); !valid.ok()) {
        const std::string& message = valid.error().message;
        fields.faults().add({400, message, message.substr(0, message.find_first_of(": ")), "invalid_value"});
    }
}

void read_stops(Fields& fields, std::string_view key, AnswerSpec& spec) {
    const Json* value = fields.take(key);
    if (value == nullptr) return;
    Json::Array single;
    const Json::Array* items = value->as_array();
    if (value->as_string() != nullptr) {
        single.push_back(*value);
        items = &single;
    }
    if (items == nullptr) {
        fields.fault(key, "must be a string or an array of strings, not " + std::string(type_name(*value)));
        return;
    }
    if (items->size() > kStopLimit) {
        fields.fault(key, "holds " + std::to_string(items->size()) + " strings, at most " + std::to_string(kStopLimit) +
                              " are allowed");
        return;
    }
    for (const Json& item : *items) {
        const std::string* text = item.as_string();
        if (text == nullptr || text->empty() || text->size() > kStopBytesLimit) {
            fields.fault(key, "each must be a string of 1 to " + std::to_string(kStopBytesLimit) + " bytes");
            return;
        }
        spec.stops.push_back(*text);
    }
}

void read_choices_and_stream(Fields& fields, AnswerSpec& spec) {
    spec.choices = static_cast<std::size_t>(fields.integer("n", 1, kChoiceLimit).value_or(1));
    spec.stream = fields.boolean("stream").value_or(false);
    if (const Json* options = fields.take("stream_options")) {
        Fields parts(*options, "stream_options", fields.faults());
        spec.include_usage = parts.boolean("include_usage").value_or(false);
        static_cast<void>(parts.boolean("include_obfuscation"));
        parts.finish();
        if (!spec.stream) fields.fault("stream_options", "is only allowed with \"stream\": true");
    }
}

std::shared_ptr<const Grammar> read_format(const Json& value, const std::string& path, SchemaPlace place,
                                           Faults& faults) {
    Fields format(value, path, faults);
    const auto type = format.choice("type", {"text", "json_object", "json_schema"});
    if (!type) format.fault("type", "is missing");
    if (faults.any() || type == "text") return nullptr;
    if (type == "json_object") {
        format.finish();
        return Grammar::json_object();
    }
    const Json* holder = place == SchemaPlace::Nested ? format.take("json_schema") : &value;
    if (holder == nullptr) {
        format.fault("json_schema", "is missing");
        return nullptr;
    }
    Fields parts(*holder, place == SchemaPlace::Nested ? format.path("json_schema") : path, faults);
    parts.ignore({"name", "description", "strict", "type"});
    const Json* schema = parts.take("schema");
    parts.finish();
    if (schema == nullptr) parts.fault("schema", "is missing");
    if (faults.any()) return nullptr;
    auto grammar = Grammar::from_json_schema(*schema);
    if (grammar.ok()) return std::move(grammar).value();
    parts.fault("schema", grammar.error().message);
    return nullptr;
}

void read_response_format(Fields& fields, AnswerSpec& spec) {
    if (const Json* value = fields.take("response_format")) {
        spec.grammar = read_format(*value, "response_format", SchemaPlace::Nested, fields.faults());
    }
    const std::optional<std::string> source = fields.string("grammar");
    if (!source) return;
    if (spec.grammar != nullptr) {
        fields.fault("grammar", "cannot be combined with response_format");
        return;
    }
    auto grammar = Grammar::from_gbnf(*source);
    if (grammar.ok()) {
        spec.grammar = std::move(grammar).value();
    } else {
        fields.fault("grammar", grammar.error().message);
    }
}

}  // namespace hearth
