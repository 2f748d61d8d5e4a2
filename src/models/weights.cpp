#include "models/weights.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "models/hyperparameters.h"

namespace hearth {

namespace {

// The layer of "blk.N.rest", and the rest.
struct LayerTensorName {
    std::size_t layer;
    std::string_view rest;
};

std::optional<LayerTensorName> split_layer_tensor(std::string_view name) {
    constexpr std::string_view kPrefix = "blk.";
    if (!name.starts_with(kPrefix)) return std::nullopt;
    name.remove_prefix(kPrefix.size());
    std::size_t layer = 0;
    const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), layer);
    const std::size_t digits = static_cast<std::size_t>(end - name.data());
    if (fault != std::errc() || digits >= name.size() || name[digits] != '.') return std::nullopt;
    return LayerTensorName{layer, name.substr(digits + 1)};
}

// Tables of old files that repeat what the hyperparameters say.
bool is_redundant(std::string_view rest) {
    return rest == "attn_rot_embd.weight" || rest == "attn_rot_embd" || rest.ends_with("rotary_emb.inv_freq");
}

}  // namespace

std::string layer_tensor(std::size_t layer, std::string_view name) {
    return "blk." + std::to_string(layer) + "." + std::string(name);
}

Result<TensorView> Weights::view(const std::string& name, std::size_t columns, std::size_t rows) {
    const TensorView found = TRY(file_->tensor(name, Shape{{columns, rows, 1, 1}}));
    taken_.insert(name);
    return found;
}

Result<Handle> Weights::matrix(const std::string& name, std::size_t columns, std::size_t rows) {
    return graph_->weight(TRY(view(name, columns, rows)));
}

Result<TensorView> Weights::f32(const std::string& name, std::size_t elements) {
    const TensorView found = TRY(view(name, elements, 1));
    if (found.type != DType::F32) {
        return model_error(*file_, "tensor " + name + " is " + std::string(traits(found.type).name) +
                                       "; norms, biases and rope factors must be F32");
    }
    return found;
}

Result<Handle> Weights::vector(const std::string& name, std::size_t elements) {
    return graph_->weight(TRY(f32(name, elements)));
}

Result<std::vector<float>> Weights::floats(const std::string& name, std::size_t elements) {
    const TensorView found = TRY(f32(name, elements));
    std::vector<float> values(elements);
    std::memcpy(values.data(), found.data, elements * sizeof(float));
    return values;
}

Result<Handle> Weights::linear(Handle x, const std::string& name, std::size_t columns, std::size_t rows) {
    const Handle product = graph_->matmul(x, TRY(matrix(name + ".weight", columns, rows)));
    const std::string bias = name + ".bias";
    if (!contains(bias)) return product;
    return graph_->add_bias(product, TRY(vector(bias, rows)));
}

Result<Handle> Weights::output(Handle embedding, std::size_t dim, std::size_t vocabulary) {
    if (!contains("output.weight")) return embedding;
    return matrix("output.weight", dim, vocabulary);
}

Status Weights::refuse_untaken(std::size_t layers) const {
    constexpr std::array<std::string_view, 5> kOutsideLayers{
        "output.bias", "output_norm.bias", "position_embd.weight", "token_embd_norm.weight", "token_types.weight",
    };
    for (const GgufTensor& tensor : file_->tensors()) {
        if (taken_.contains(tensor.name)) continue;
        const std::optional<LayerTensorName> split = split_layer_tensor(tensor.name);
        const bool of_layer = split && split->layer < layers && !is_redundant(split->rest);
        if (of_layer || std::ranges::find(kOutsideLayers, tensor.name) != kOutsideLayers.end()) {
            return model_error(*file_, "tensor " + std::string(tensor.name) +
                                           " has no place in this architecture: the model is not supported");
        }
    }
    return {};
}

}  // namespace hearth
