// Any bytes as a model: what the reader accepts is built into a graph or refused in words, never a crash.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "models/model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace hearth;
    std::vector<std::byte> copy(size);
    if (size != 0) std::memcpy(copy.data(), data, size);
    const Result<GgufFile> file = GgufFile::parse(copy, "fuzz.gguf");
    if (!file.ok()) return 0;
    Arena arena;
    Graph graph(arena);
    const Result<ModelInfo> info = build_model(file.value(), BuildRequest{}, graph);
    if (!info.ok() && info.error().message.empty()) std::abort();
    if (info.ok() && !graph.logits()) std::abort();
    return 0;
}
