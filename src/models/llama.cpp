// Llama 2 and 3, Mistral, TinyLlama, SmolLM2 (arXiv 2302.13971, 2407.21783, 2310.06825): pre-norm, grouped-query
// attention with rotary positions, SwiGLU. Their GGUF files store Q and K with the two of a rotated pair side by side.
#include "models/families.h"
#include "models/hyperparameters.h"
#include "models/rope.h"
#include "models/weights.h"

namespace hearth {

Result<ModelInfo> build_llama(const GgufFile& file, const BuildRequest& request, Graph& graph) {
    const Hyperparameters h = TRY(read_hyperparameters(file, request));
    Weights weights(file, graph);
    const Handle angles = graph.rope_angles(TRY(read_rope_table(weights, h)));
    const Handle embedding = TRY(weights.matrix("token_embd.weight", h.dim, h.vocabulary));

    Handle x = graph.embed(embedding);
    for (std::size_t layer = 0; layer < h.layers; ++layer) {
        const auto name = [layer](std::string_view part) { return layer_tensor(layer, part); };

        Handle normed = graph.rms_norm(x, TRY(weights.vector(name("attn_norm.weight"), h.dim)), h.norm_eps);
        Handle q = TRY(weights.linear(normed, name("attn_q"), h.dim, h.query_dim()));
        Handle k = TRY(weights.linear(normed, name("attn_k"), h.dim, h.kv_dim()));
        const Handle v = TRY(weights.linear(normed, name("attn_v"), h.dim, h.kv_dim()));
        q = graph.rope(q, angles, RopeStyle::Adjacent, h.head_dim);
        k = graph.rope(k, angles, RopeStyle::Adjacent, h.head_dim);
        Handle attended = graph.attention(q, k, v, layer, h.attention(h.window));
        if (layer + 1 == h.layers) {  // beyond the last KV only the rows with logits matter
            attended = graph.wanted_rows(attended);
            x = graph.wanted_rows(x);
        }
        x = graph.add(x, TRY(weights.linear(attended, name("attn_output"), h.query_dim(), h.dim)));

        normed = graph.rms_norm(x, TRY(weights.vector(name("ffn_norm.weight"), h.dim)), h.norm_eps);
        const Handle gate = TRY(weights.linear(normed, name("ffn_gate"), h.dim, h.ffn_dim));
        const Handle up = TRY(weights.linear(normed, name("ffn_up"), h.dim, h.ffn_dim));
        const Handle hidden = graph.gate(Activation::Silu, gate, up);
        x = graph.add(x, TRY(weights.linear(hidden, name("ffn_down"), h.ffn_dim, h.dim)));
    }
    x = graph.rms_norm(x, TRY(weights.vector("output_norm.weight", h.dim)), h.norm_eps);
    graph.set_logits(graph.matmul(x, TRY(weights.output(embedding, h.dim, h.vocabulary))));
    TRY(weights.refuse_untaken(h.layers));
    return h.info();
}

}  // namespace hearth
