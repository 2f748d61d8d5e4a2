// Phi-3, Phi-3.5 and Phi-4 (arXiv 2404.14219, 2412.08905): Llama's shape with Q, K and V in one matrix, gate and up in
// another, LongRoPE (arXiv 2402.13753) for long contexts, and in some sizes a sliding window or partly rotated heads.
#include "models/families.h"
#include "models/hyperparameters.h"
#include "models/rope.h"
#include "models/weights.h"

namespace hearth {

Result<ModelInfo> build_phi3(const GgufFile& file, const BuildRequest& request, Graph& graph) {
    const Hyperparameters h = TRY(read_hyperparameters(file, request));
    Weights weights(file, graph);
    const Handle angles = graph.rope_angles(TRY(read_rope_table(weights, h)));
    const Handle embedding = TRY(weights.matrix("token_embd.weight", h.dim, h.vocabulary));

    Handle x = graph.embed(embedding);
    for (std::size_t layer = 0; layer < h.layers; ++layer) {
        const auto name = [layer](std::string_view part) { return layer_tensor(layer, part); };
        // Rows of a fused matrix, by reference.
        const auto part_of = [&](const TensorView& fused, std::size_t first, std::size_t rows) {
            return graph.weight(fused.row_range(first, rows));
        };

        Handle normed = graph.rms_norm(x, TRY(weights.vector(name("attn_norm.weight"), h.dim)), h.norm_eps);
        const std::size_t qkv_dim = h.query_dim() + 2 * h.kv_dim();
        const TensorView qkv = TRY(weights.view(name("attn_qkv.weight"), h.dim, qkv_dim));
        Handle q = graph.matmul(normed, part_of(qkv, 0, h.query_dim()));
        Handle k = graph.matmul(normed, part_of(qkv, h.query_dim(), h.kv_dim()));
        const Handle v = graph.matmul(normed, part_of(qkv, h.query_dim() + h.kv_dim(), h.kv_dim()));
        q = graph.rope(q, angles, RopeStyle::Halves, h.head_dim);
        k = graph.rope(k, angles, RopeStyle::Halves, h.head_dim);
        Handle attended = graph.attention(q, k, v, layer, h.attention(h.window));
        if (layer + 1 == h.layers) {  // beyond the last KV only the rows with logits matter
            attended = graph.wanted_rows(attended);
            x = graph.wanted_rows(x);
        }
        x = graph.add(x, TRY(weights.linear(attended, name("attn_output"), h.query_dim(), h.dim)));

        normed = graph.rms_norm(x, TRY(weights.vector(name("ffn_norm.weight"), h.dim)), h.norm_eps);
        const TensorView gate_up = TRY(weights.view(name("ffn_up.weight"), h.dim, 2 * h.ffn_dim));
        const Handle gate = graph.matmul(normed, part_of(gate_up, 0, h.ffn_dim));
        const Handle up = graph.matmul(normed, part_of(gate_up, h.ffn_dim, h.ffn_dim));
        const Handle hidden = graph.gate(Activation::Silu, gate, up);
        x = graph.add(x, TRY(weights.linear(hidden, name("ffn_down"), h.ffn_dim, h.dim)));
    }
    x = graph.rms_norm(x, TRY(weights.vector("output_norm.weight", h.dim)), h.norm_eps);
    graph.set_logits(graph.matmul(x, TRY(weights.output(embedding, h.dim, h.vocabulary))));
    TRY(weights.refuse_untaken(h.layers));
    return h.info();
}

}  // namespace hearth
