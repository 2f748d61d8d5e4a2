// Text as a trace: an error, or tokens whose prompt is refused or a program that runs, and that the model may be asked
// about.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "vm/interpreter.h"
#include "vm/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace hearth::vm;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const hearth::Result<std::vector<Token>> tokens = parse_trace(text);
    if (!tokens.ok()) return 0;
    const hearth::Result<TraceParts> parts = split_trace(tokens.value());
    if (!parts.ok()) return 0;
    const hearth::Result<Program> program = program_of_prompt(parts->prompt);
    if (program.ok()) {
        Interpreter interpreter(program.value(), "");
        interpreter.run(20000);
    }
    static const std::unique_ptr<Transformer> transformer = build_transformer(HeadMode::Auto);
    static hearth::ThreadPool pool(2);
    TraceVerifier<std::int64_t> verifier(*transformer, pool);
    verifier.begin(parts->prompt);
    verifier.check(parts->generated, {});
    return 0;
}
