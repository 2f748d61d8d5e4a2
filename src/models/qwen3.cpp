// Qwen3, dense (arXiv 2505.09388): no biases, heads of a size of their own, and an RMS norm on every head of Q and K
// before they are rotated.
#include "models/families.h"
#include "models/hyperparameters.h"
#include "models/rope.h"
#include "models/weights.h"

namespace hearth {

Result<ModelInfo> build_qwen3(const GgufFile& file, const BuildRequest& request, Graph& graph) {
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
        const Handle q_norm = TRY(weights.vector(name("attn_q_norm.weight"), h.head_dim));
        const Handle k_norm = TRY(weights.vector(name("attn_k_norm.weight"), h.head_dim));
        q = graph.rms_norm_heads(q, q_norm, h.norm_eps, h.head_dim);
        k = graph.rms_norm_heads(k, k_norm, h.norm_eps, h.head_dim);
        q = graph.rope(q, angles, RopeStyle::Halves, h.head_dim);
        k = graph.rope(k, angles, RopeStyle::Halves, h.head_dim);
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
