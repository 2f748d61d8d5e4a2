// The families behind build_model: each writes its forward pass into the graph, in its own file.
#pragma once

#include "base/result.h"
#include "models/model.h"

namespace hearth {

Result<ModelInfo> build_llama(const GgufFile& file, const BuildRequest& request, Graph& graph);
Result<ModelInfo> build_qwen2(const GgufFile& file, const BuildRequest& request, Graph& graph);
Result<ModelInfo> build_qwen3(const GgufFile& file, const BuildRequest& request, Graph& graph);
Result<ModelInfo> build_phi3(const GgufFile& file, const BuildRequest& request, Graph& graph);
Result<ModelInfo> build_gemma3(const GgufFile& file, const BuildRequest& request, Graph& graph);

}  // namespace hearth
