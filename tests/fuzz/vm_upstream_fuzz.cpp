// A model.bin with edits: an error, or a model that runs within its limits, whatever its weights are.
#include <bit>
#include <cstdlib>

#include "fuzz/edits.h"
#include "vm/byte_stream.h"
#include "vm/upstream_run.h"

namespace {

std::vector<std::byte> small_model() {
    constexpr std::size_t kWidth = 4;
    hearth::vm::ByteWriter out;
    for (const std::uint32_t size : {3u, 4u, 1u, 2u, 1u, 0u}) out.u32(size);
    for (const char* spelling : {"stop", "go", "out(A)"}) out.text(spelling);
    for (std::size_t i = 0; i < 3 * kWidth + 4 * kWidth * kWidth + 3 * kWidth + 3 * kWidth; ++i) {
        out.u64(std::bit_cast<std::uint64_t>(static_cast<double>(i % 5) - 2));
    }
    out.u32(1);  // lists of slots to erase: two a layer
    for (const std::uint32_t number : {1u, 3u, 0u}) out.u32(number);
    for (const std::uint32_t kind : {1u, 2u}) {
        out.u32(1);
        for (std::size_t head = 0; head < kWidth / 2; ++head) out.u32(kind);
    }
    return out.take();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace hearth::vm;
    static const std::vector<std::byte> model = small_model();
    if (!read_upstream(model).ok()) std::abort();
    const hearth::Result<UpstreamModel> read = read_upstream(hearth::edited(model, data, size));
    if (read.ok()) {
        RunLimits limits;
        limits.max_tokens = 50;
        const std::uint32_t prompt[] = {0, read->vocabulary - 1};
        if (run_upstream(read.value(), prompt, limits).tokens > limits.max_tokens) std::abort();
    }
    static_cast<void>(read_upstream(std::as_bytes(std::span(data, size))));
    return 0;
}
