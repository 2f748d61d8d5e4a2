// Any bytes as a model file: parse, then walk everything that was accepted.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "gguf/gguf.h"
#include "unit/gguf/model_bytes.h"
#include "unit/gguf/walk.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace hearth;
    const gguf_test::ExactBytes copy(std::string_view(reinterpret_cast<const char*>(data), size));
    const Result<GgufFile> file = GgufFile::parse(copy.span(), "fuzz.gguf");
    const std::string fault =
        file.ok() ? gguf_test::walk(file.value()) : gguf_test::fault_of_error(file.error(), "fuzz.gguf");
    if (!fault.empty()) std::abort();
    return 0;
}
