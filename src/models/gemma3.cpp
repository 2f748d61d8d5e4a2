// Gemma 3, text (arXiv 2503.19786): scaled embeddings, norms before and after attention and feed-forward, normed heads,
// and five layers with a sliding window to each one that sees everything. Norm weights in GGUF include the 1 of 1 + w.
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "models/families.h"
#include "models/hyperparameters.h"
#include "models/rope.h"
#include "models/weights.h"

namespace hearth {

namespace {

enum class Reach : std::uint8_t { Local, Global };

// Which layers look through the window: an array with one flag a layer, or a period whose last layer is global.
Result<std::vector<Reach>> read_reaches(const GgufFile& file, const Hyperparameters& h) {
    std::vector<Reach> reaches(h.layers, Reach::Global);
    if (h.window == 0) return reaches;
    const std::string key = family_key(h.architecture, "attention.sliding_window_pattern");
    if (const GgufValue* stored = file.find(key); stored != nullptr && stored->type == GgufType::Array) {
        if (stored->count != h.layers) {
            return model_error(file, key + " has " + std::to_string(stored->count) + " entries for " +
                                         std::to_string(h.layers) + " layers");
        }
        const std::vector<std::int32_t> flags = TRY(file.integers(key));
        for (std::size_t layer = 0; layer < h.layers; ++layer) {
            if (flags[layer] != 0) reaches[layer] = Reach::Local;
        }
        return reaches;
    }
    const std::uint32_t period = TRY(file.find_u32(key)).value_or(6);
    if (period == 0) return model_error(file, key + " is 0");
    for (std::size_t layer = 0; layer < h.layers; ++layer) {
        if ((layer + 1) % period != 0) reaches[layer] = Reach::Local;
    }
    return reaches;
}

// Local layers keep the rope the model began with; only global ones were stretched.
Result<RopeTable> local_rope_table(const GgufFile& file, const Hyperparameters& h) {
    RopeParameters rope;
    rope.rotated = h.rotated;
    const std::string base_key = family_key(h.architecture, "rope.freq_base_swa");
    rope.base = TRY(positive_or(file, base_key, 10000.0F));
    return make_checked_rope_table(file, base_key, rope, {});
}

// The 27B model, known by its 62 layers, scales scores by dim / heads instead of the head's size, and its files do not
// say so.
void correct_attention_scale(const GgufFile& file, Hyperparameters& h) {
    constexpr std::size_t kLayersOf27B = 62;
    if (h.layers != kLayersOf27B || file.find(family_key(h.architecture, "attention.scale")) != nullptr) return;
    h.attention_scale = 1.0F / std::sqrt(static_cast<float>(h.dim) / static_cast<float>(h.heads));
}

}  // namespace

Result<ModelInfo> build_gemma3(const GgufFile& file, const BuildRequest& request, Graph& graph) {
    Hyperparameters h = TRY(read_hyperparameters(file, request));
    correct_attention_scale(file, h);
    const std::vector<Reach> reaches = TRY(read_reaches(file, h));
    Weights weights(file, graph);
    const Handle global_angles = graph.rope_angles(TRY(read_rope_table(weights, h)));
    const Handle local_angles = h.window == 0 ? global_angles : graph.rope_angles(TRY(local_rope_table(file, h)));
    const Handle embedding = TRY(weights.matrix("token_embd.weight", h.dim, h.vocabulary));

    Handle x = graph.embed(embedding, std::sqrt(static_cast<float>(h.dim)));
    for (std::size_t layer = 0; layer < h.layers; ++layer) {
        const auto name = [layer](std::string_view part) { return layer_tensor(layer, part); };
        const auto norm = [&](Handle input, std::string_view part) -> Result<Handle> {
            return graph.rms_norm(input, TRY(weights.vector(name(part), h.dim)), h.norm_eps);
        };
        const bool local = reaches[layer] == Reach::Local;
        const Handle angles = local ? local_angles : global_angles;

        Handle normed = TRY(norm(x, "attn_norm.weight"));
        Handle q = TRY(weights.linear(normed, name("attn_q"), h.dim, h.query_dim()));
        Handle k = TRY(weights.linear(normed, name("attn_k"), h.dim, h.kv_dim()));
        const Handle v = TRY(weights.linear(normed, name("attn_v"), h.dim, h.kv_dim()));
        const Handle q_norm = TRY(weights.vector(name("attn_q_norm.weight"), h.head_dim));
        const Handle k_norm = TRY(weights.vector(name("attn_k_norm.weight"), h.head_dim));
        q = graph.rms_norm_heads(q, q_norm, h.norm_eps, h.head_dim);
        k = graph.rms_norm_heads(k, k_norm, h.norm_eps, h.head_dim);
        q = graph.rope(q, angles, RopeStyle::Halves, h.head_dim);
        k = graph.rope(k, angles, RopeStyle::Halves, h.head_dim);
        Handle attended = graph.attention(q, k, v, layer, h.attention(local ? h.window : 0));
        if (layer + 1 == h.layers) {  // beyond the last KV only the rows with logits matter
            attended = graph.wanted_rows(attended);
            x = graph.wanted_rows(x);
        }
        attended = TRY(weights.linear(attended, name("attn_output"), h.query_dim(), h.dim));
        x = graph.add(x, TRY(norm(attended, "post_attention_norm.weight")));

        normed = TRY(norm(x, "ffn_norm.weight"));
        const Handle gate = TRY(weights.linear(normed, name("ffn_gate"), h.dim, h.ffn_dim));
        const Handle up = TRY(weights.linear(normed, name("ffn_up"), h.dim, h.ffn_dim));
        const Handle hidden = graph.gate(Activation::GeluTanh, gate, up);
        const Handle fed = TRY(weights.linear(hidden, name("ffn_down"), h.ffn_dim, h.dim));
        x = graph.add(x, TRY(norm(fed, "post_ffw_norm.weight")));
    }
    x = graph.rms_norm(x, TRY(weights.vector("output_norm.weight", h.dim)), h.norm_eps);
    graph.set_logits(graph.matmul(x, TRY(weights.output(embedding, h.dim, h.vocabulary))));
    TRY(weights.refuse_untaken(h.layers));
    return h.info();
}

}  // namespace hearth
