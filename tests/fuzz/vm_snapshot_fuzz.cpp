// A snapshot with edits and a checksum that fits them: an error, or a run that goes on within its limits.
#include <cstdlib>

#include "base/hash.h"
#include "fuzz/edits.h"
#include "vm/transformer.h"

namespace {

using namespace hearth::vm;

// A loop that counts, stores and prints.
Program small_program() {
    const auto slot = [](std::size_t index) { return static_cast<std::uint16_t>(kAbsolute + index); };
    Program program;
    program.absolute = {1, 1, 64};
    program.code = {{Opcode::Add32, 0, 0, slot(1), 0},
                    {Opcode::Store32, 0, slot(2), 0, 0},
                    {Opcode::Load32, 1, slot(2), 0, 0},
                    {Opcode::Output, 0, 0, 1, 0},
                    {Opcode::Branch, 0, 0, 0, 0}};
    program.offsets.assign(program.code.size(), 0);
    program.functions = {{"main", 0}};
    return program;
}

template <typename Number>
void go_on(const Transformer& transformer, const std::uint8_t* data, std::size_t size) {
    static const Program program = small_program();
    static const std::vector<std::byte> kept = [&] {
        Generation<Number> generation = PreparedProgram<Number>(transformer, program).begin("").value();
        RunLimits limits;
        limits.max_tokens = 40;
        generation.run(limits);
        return generation.save(program);
    }();
    if (!Generation<Number>::load(transformer, program, kept).ok()) std::abort();
    std::vector<std::byte> bytes = hearth::edited({kept.begin(), kept.end() - 8}, data, size);
    const std::uint64_t check = hearth::hash_bytes(bytes);
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(check >> (8 * i)));
    hearth::Result<Generation<Number>> generation = Generation<Number>::load(transformer, program, bytes);
    if (!generation.ok()) return;
    RunLimits limits;
    limits.max_tokens = 200;
    generation->run(limits);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const std::unique_ptr<Transformer> transformer = build_transformer(HeadMode::Auto);
    go_on<std::int64_t>(*transformer, data, size);
    go_on<double>(*transformer, data, size);
    return 0;
}
