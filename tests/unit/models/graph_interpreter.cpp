#include "unit/models/graph_interpreter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/check.h"

namespace hearth {

namespace {

using Rows = std::vector<std::vector<double>>;  // one vector a token

class Interpreter {
public:
    Interpreter(const Graph& graph, std::span<const std::int32_t> tokens) : graph_(graph), tokens_(tokens) {}

    Rows run() {
        for (const Node& node : graph_.nodes()) execute(node);
        return values_.at(graph_.logits().index);
    }

private:
    const Rows& value(Handle handle) const { return values_.at(handle.index); }

    std::vector<double> weight_row(Handle handle, std::size_t row) const {
        const TensorView& view = graph_.arena().constant(handle);
        CHECK(view.type == DType::F32);
        std::vector<float> stored(view.shape.columns());
        std::memcpy(stored.data(), view.row(row), stored.size() * sizeof(float));
        return {stored.begin(), stored.end()};
    }

    void execute(const Node& node) {
        if (node.op == Op::StoreKv) {
            keys_[node.layer] = value(node.input);
            values_of_layer_[node.layer] = value(node.second);
            return;
        }
        Rows& out = values_[node.output.index];
        out.resize(tokens_.size());
        if (node.op == Op::Matmul) return matmul(node, out);
        for (std::size_t position = 0; position < tokens_.size(); ++position) out[position] = row(node, position);
    }

    void matmul(const Node& node, Rows& out) const {
        const std::size_t rows = graph_.arena().constant(node.constant).shape.rows();
        for (std::size_t index = 0; index < rows; ++index) {
            const std::vector<double> weights = weight_row(node.constant, index);
            for (std::size_t position = 0; position < out.size(); ++position) {
                const std::vector<double>& x = value(node.input)[position];
                double sum = 0;
                for (std::size_t column = 0; column < x.size(); ++column) sum += weights[column] * x[column];
                out[position].push_back(sum);
            }
        }
    }

    std::vector<double> row(const Node& node, std::size_t position) const {
        switch (node.op) {
            case Op::Embed: return embed(node, position);
            case Op::RopeAngles: return angles(node, position);
            case Op::RmsNorm: return rms_norm(node, position);
            case Op::Rope: return rope(node, position);
            case Op::Attend: return attend(node, position);
            case Op::SelectRows: return value(node.input)[position];
            case Op::Add: return combine(value(node.input)[position], value(node.second)[position], std::plus<>());
            case Op::AddBias: return combine(value(node.input)[position], weight_row(node.constant, 0), std::plus<>());
            case Op::Gate:
                return combine(value(node.input)[position], value(node.second)[position],
                               [&](double gate, double up) { return activate(node.activation, gate) * up; });
            default: CHECK(false && "not an operation a model writes"); return {};
        }
    }

    template <typename Function>
    static std::vector<double> combine(std::vector<double> a, const std::vector<double>& b, Function function) {
        for (std::size_t i = 0; i < a.size(); ++i) a[i] = function(a[i], b[i]);
        return a;
    }

    static double activate(Activation activation, double x) {
        if (activation == Activation::Silu) return x / (1 + std::exp(-x));
        return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    }

    std::vector<double> embed(const Node& node, std::size_t position) const {
        std::vector<double> out = weight_row(node.constant, static_cast<std::size_t>(tokens_[position]));
        for (double& element : out) element *= static_cast<double>(node.scale);
        return out;
    }

    std::vector<double> angles(const Node& node, std::size_t position) const {
        const RopeTable& table = graph_.rope_tables()[node.table];
        std::vector<double> out;
        for (const float frequency : table.inverse_frequencies) {
            const double angle = static_cast<double>(position) * static_cast<double>(frequency);
            out.push_back(std::cos(angle) * static_cast<double>(table.magnitude));
            out.push_back(std::sin(angle) * static_cast<double>(table.magnitude));
        }
        return out;
    }

    std::vector<double> rms_norm(const Node& node, std::size_t position) const {
        std::vector<double> out = value(node.input)[position];
        const std::vector<double> weights = weight_row(node.constant, 0);
        for (std::size_t begin = 0; begin < out.size(); begin += node.group) {
            double squares = 0;
            for (std::size_t i = 0; i < node.group; ++i) squares += out[begin + i] * out[begin + i];
            const double root = std::sqrt(squares / node.group + static_cast<double>(node.eps));
            for (std::size_t i = 0; i < node.group; ++i) out[begin + i] *= weights[i] / root;
        }
        return out;
    }

    std::vector<double> rope(const Node& node, std::size_t position) const {
        std::vector<double> out = value(node.input)[position];
        const std::vector<double>& turn = value(node.second)[position];
        const std::size_t pairs = turn.size() / 2;
        for (std::size_t head = 0; head < out.size(); head += node.head_dim) {
            for (std::size_t pair = 0; pair < pairs; ++pair) {
                const bool adjacent = node.style == RopeStyle::Adjacent;
                double& first = out[head + (adjacent ? 2 * pair : pair)];
                double& second = out[head + (adjacent ? 2 * pair + 1 : pair + pairs)];
                const double x = first;
                const double y = second;
                first = x * turn[2 * pair] - y * turn[2 * pair + 1];
                second = x * turn[2 * pair + 1] + y * turn[2 * pair];
            }
        }
        return out;
    }

    std::vector<double> attend(const Node& node, std::size_t position) const {
        const AttentionShape& shape = node.attention;
        const std::vector<double>& query = value(node.input)[position];
        const Rows& keys = keys_.at(node.layer);
        const Rows& stored_values = values_of_layer_.at(node.layer);
        std::vector<double> out(query.size());
        const std::size_t seen = shape.window == 0 ? position + 1 : std::min(position + 1, shape.window);
        const std::size_t first = position + 1 - seen;
        for (std::size_t head = 0; head < shape.heads; ++head) {
            const std::size_t at = head * shape.head_dim;
            const std::size_t kv_at = head / (shape.heads / shape.kv_heads) * shape.head_dim;
            std::vector<double> scores(seen);
            for (std::size_t past = 0; past < seen; ++past) {
                for (std::size_t i = 0; i < shape.head_dim; ++i) {
                    scores[past] += query[at + i] * keys[first + past][kv_at + i];
                }
                scores[past] *= static_cast<double>(shape.scale);
            }
            const double largest = *std::max_element(scores.begin(), scores.end());
            double total = 0;
            for (double& score : scores) total += score = std::exp(score - largest);
            for (std::size_t past = 0; past < seen; ++past) {
                for (std::size_t i = 0; i < shape.head_dim; ++i) {
                    out[at + i] += scores[past] / total * stored_values[first + past][kv_at + i];
                }
            }
        }
        return out;
    }

    const Graph& graph_;
    std::span<const std::int32_t> tokens_;
    std::map<std::uint32_t, Rows> values_;  // by ephemeral index
    std::map<std::uint32_t, Rows> keys_;    // by layer
    std::map<std::uint32_t, Rows> values_of_layer_;
};

}  // namespace

std::vector<double> interpret(const Graph& graph, std::span<const std::int32_t> tokens) {
    std::vector<double> logits;
    for (const std::vector<double>& row : Interpreter(graph, tokens).run()) {
        logits.insert(logits.end(), row.begin(), row.end());
    }
    return logits;
}

}  // namespace hearth
