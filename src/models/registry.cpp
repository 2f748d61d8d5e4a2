// Finds the family by the name a file gives in general.architecture.
#include <algorithm>
#include <array>
#include <string>

#include "models/families.h"
#include "models/hyperparameters.h"
#include "models/model.h"

namespace hearth {

namespace {

using BuildFn = Result<ModelInfo> (*)(const GgufFile& file, const BuildRequest& request, Graph& graph);

constexpr std::array<std::string_view, 5> kNames{"llama", "qwen2", "qwen3", "phi3", "gemma3"};
constexpr std::array<BuildFn, kNames.size()> kBuilders{build_llama, build_qwen2, build_qwen3, build_phi3, build_gemma3};

}  // namespace

std::span<const std::string_view> known_architectures() {
    return kNames;
}

Result<ModelInfo> build_model(const GgufFile& file, const BuildRequest& request, Graph& graph) {
    const std::string_view architecture = TRY(file.string("general.architecture"));
    const auto found = std::ranges::find(kNames, architecture);
    if (found == kNames.end()) {
        std::string message = "general.architecture is '" + std::string(architecture) + "'; known are";
        for (const std::string_view name : kNames) message.append(" ").append(name);
        return model_error(file, message);
    }
    return kBuilders[static_cast<std::size_t>(found - kNames.begin())](file, request, graph);
}

}  // namespace hearth
