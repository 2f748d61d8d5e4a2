#include "models/hyperparameters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

namespace hearth {

namespace {

// Far above any model there is, far below what makes a product of two of them overflow.
constexpr std::uint32_t kMaxLayers = 1024;
constexpr std::uint32_t kMaxDim = 1U << 17;
constexpr std::uint32_t kMaxHeads = 4096;
constexpr std::uint32_t kMaxHeadDim = 512;  // what the attention kernels hold
constexpr std::uint32_t kMaxFfnDim = 1U << 20;
constexpr std::uint32_t kMaxVocabulary = 1U << 24;
constexpr std::uint32_t kMaxContext = 1U << 27;

Error out_of_range(const GgufFile& file, std::string_view key, std::uint32_t value, std::uint32_t low,
                   std::uint32_t high) {
    return model_error(file, std::string(key) + " is " + std::to_string(value) + ", not within " + std::to_string(low) +
                                 " and " + std::to_string(high));
}

// A count, or an array with one count per layer as long as all are equal.
Result<std::optional<std::uint32_t>> find_count(const GgufFile& file, const std::string& key, std::uint32_t low,
                                                std::uint32_t high) {
    const GgufValue* stored = file.find(key);
    if (stored == nullptr) return std::optional<std::uint32_t>();
    std::uint32_t value = 0;
    if (stored->type == GgufType::Array) {
        if (stored->count > kMaxLayers) {
            return model_error(file, key + " has " + std::to_string(stored->count) + " entries, at most " +
                                         std::to_string(kMaxLayers) + " layers are supported");
        }
        const std::vector<std::int32_t> per_layer = TRY(file.integers(key));
        if (per_layer.empty()) return model_error(file, key + " is an empty array");
        for (const std::int32_t count : per_layer) {
            if (count != per_layer.front()) {
                return model_error(file, key + " differs between layers, which is not supported");
            }
        }
        if (per_layer.front() < 0) return model_error(file, key + " is negative");
        value = static_cast<std::uint32_t>(per_layer.front());
    } else {
        value = TRY(file.u32(key));
    }
    if (value < low || value > high) return out_of_range(file, key, value, low, high);
    return std::optional<std::uint32_t>(value);
}

Result<std::uint32_t> count(const GgufFile& file, const std::string& key, std::uint32_t low, std::uint32_t high) {
    const std::optional<std::uint32_t> value = TRY(find_count(file, key, low, high));
    if (!value) return model_error(file, key + " is missing");
    return *value;
}

// How many tokens the model knows: the tokenizer's list decides, and the embedding must have a row for each.
Result<std::size_t> read_vocabulary(const GgufFile& file, const std::string& architecture) {
    const GgufTensor* embedding = file.find_tensor("token_embd.weight");
    if (embedding == nullptr) return model_error(file, "tensor token_embd.weight is missing");
    const std::uint64_t rows = embedding->view.shape.rows();
    std::string source = "tokenizer.ggml.tokens";
    std::uint64_t known = rows;
    if (const GgufValue* tokens = file.find(source); tokens != nullptr) {
        if (tokens->type != GgufType::Array) return model_error(file, source + " is not an array");
        known = tokens->count;
    } else {
        source = family_key(architecture, "vocab_size");
        if (const std::optional<std::uint32_t> size = TRY(find_count(file, source, 1, kMaxVocabulary))) known = *size;
    }
    if (known != rows) {
        return model_error(file, source + " counts " + std::to_string(known) + " tokens, token_embd.weight has " +
                                     std::to_string(rows) + " rows");
    }
    if (rows < 1 || rows > kMaxVocabulary) {
        return model_error(file, "token_embd.weight has " + std::to_string(rows) + " rows, at most " +
                                     std::to_string(kMaxVocabulary) + " are supported");
    }
    return static_cast<std::size_t>(rows);
}

// Settings that change the computation in a way no family here has. Ignoring one would give wrong answers in silence.
Status refuse_unsupported_settings(const GgufFile& file, const std::string& architecture) {
    constexpr std::array<std::string_view, 9> kMustBeZero{
        "expert_count",        "attn_logit_softcapping",   "final_logit_softcapping",
        "attention.clamp_kqv", "attention.max_alibi_bias", "logit_scale",
        "residual_scale",      "embedding_scale",          "rope.scaling.alpha",
    };
    for (const std::string_view suffix : kMustBeZero) {
        const std::string key = family_key(architecture, suffix);
        const GgufValue* stored = file.find(key);
        if (stored == nullptr) continue;
        const bool is_float = stored->type == GgufType::F32 || stored->type == GgufType::F64;
        const float value = is_float ? TRY(file.f32(key)) : static_cast<float>(TRY(file.u32(key)));
        if (value != 0) return model_error(file, key + " is set, which is not supported for this architecture");
    }
    const std::string causal = family_key(architecture, "attention.causal");
    if (!TRY(file.find_boolean(causal)).value_or(true)) {
        return model_error(file, causal + " is false: only causal models generate text");
    }
    return {};
}

Status read_heads(const GgufFile& file, const std::string& architecture, Hyperparameters& h) {
    const auto key = [&](std::string_view suffix) { return family_key(architecture, suffix); };
    const std::string heads_key = key("attention.head_count");
    const std::string kv_heads_key = key("attention.head_count_kv");
    h.heads = TRY(count(file, heads_key, 1, kMaxHeads));
    h.kv_heads = TRY(find_count(file, kv_heads_key, 1, kMaxHeads)).value_or(static_cast<std::uint32_t>(h.heads));
    if (h.heads % h.kv_heads != 0) {
        return model_error(file, heads_key + " (" + std::to_string(h.heads) + ") is not a multiple of " + kv_heads_key +
                                     " (" + std::to_string(h.kv_heads) + ")");
    }

    const std::string length_key = key("attention.key_length");
    const std::optional<std::uint32_t> key_length = TRY(find_count(file, length_key, 2, kMaxHeadDim));
    if (!key_length && h.dim % h.heads != 0) {
        return model_error(file, key("embedding_length") + " (" + std::to_string(h.dim) + ") is not a multiple of " +
                                     heads_key + " (" + std::to_string(h.heads) + ")");
    }
    h.head_dim = key_length ? *key_length : h.dim / h.heads;
    if (h.head_dim % 2 != 0 || h.head_dim < 2 || h.head_dim > kMaxHeadDim) {
        return model_error(file, (key_length ? length_key : heads_key) + " makes heads of " +
                                     std::to_string(h.head_dim) + " elements; even and at most " +
                                     std::to_string(kMaxHeadDim) + " is supported");
    }
    const std::string value_key = key("attention.value_length");
    if (const std::optional<std::uint32_t> value_length = TRY(find_count(file, value_key, 1, kMaxHeadDim));
        value_length && *value_length != h.head_dim) {
        return model_error(file, value_key + " (" + std::to_string(*value_length) +
                                     ") differs from the length of keys (" + std::to_string(h.head_dim) +
                                     "), which is not supported");
    }

    const std::string rotated_key = key("rope.dimension_count");
    h.rotated = TRY(find_count(file, rotated_key, 2, kMaxHeadDim)).value_or(static_cast<std::uint32_t>(h.head_dim));
    if (h.rotated % 2 != 0 || h.rotated > h.head_dim) {
        return model_error(file, rotated_key + " is " + std::to_string(h.rotated) + ", not even or beyond a head's " +
                                     std::to_string(h.head_dim) + " elements");
    }
    h.attention_scale =
        TRY(positive_or(file, key("attention.scale"), 1.0F / std::sqrt(static_cast<float>(h.head_dim))));
    return {};
}

}  // namespace

std::string family_key(std::string_view architecture, std::string_view suffix) {
    return std::string(architecture) + "." + std::string(suffix);
}

Error model_error(const GgufFile& file, std::string_view message) {
    return Error{ErrorCode::InvalidModel, file.name() + ": " + std::string(message)};
}

Result<float> positive_or(const GgufFile& file, const std::string& key, float fallback) {
    const std::optional<float> value = TRY(file.find_f32(key));
    if (!value) return fallback;
    if (!std::isfinite(*value) || *value <= 0) return model_error(file, key + " is not a number above 0");
    return *value;
}

ModelInfo Hyperparameters::info() const {
    return ModelInfo{architecture, layers,  dim,        heads,           kv_heads,
                     head_dim,     ffn_dim, vocabulary, trained_context, context};
}

Result<Hyperparameters> read_hyperparameters(const GgufFile& file, const BuildRequest& request) {
    Hyperparameters h;
    h.architecture = std::string(TRY(file.string("general.architecture")));
    const auto key = [&](std::string_view suffix) { return family_key(h.architecture, suffix); };
    h.layers = TRY(count(file, key("block_count"), 1, kMaxLayers));
    h.dim = TRY(count(file, key("embedding_length"), 1, kMaxDim));
    h.ffn_dim = TRY(count(file, key("feed_forward_length"), 1, kMaxFfnDim));
    h.trained_context = TRY(count(file, key("context_length"), 1, kMaxContext));
    h.context = request.context == 0 ? std::min(h.trained_context, kDefaultContext) : request.context;
    TRY(read_heads(file, h.architecture, h));

    const std::string eps_key = key("attention.layer_norm_rms_epsilon");
    h.norm_eps = TRY(file.f32(eps_key));
    if (!std::isfinite(h.norm_eps) || h.norm_eps < 0 || h.norm_eps > 1) {
        return model_error(file, eps_key + " is not a number within 0 and 1");
    }
    h.rope_base = TRY(positive_or(file, key("rope.freq_base"), 10000.0F));
    h.window = TRY(find_count(file, key("attention.sliding_window"), 0, UINT32_MAX)).value_or(0);
    TRY(refuse_unsupported_settings(file, h.architecture));
    h.vocabulary = TRY(read_vocabulary(file, h.architecture));
    return h;
}

}  // namespace hearth
