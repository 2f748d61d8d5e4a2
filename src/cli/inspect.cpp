// hearth inspect: what the loader and the detector see.
#include <unistd.h>

#include "cli/catalogue.h"
#include "cli/commands.h"
#include "gguf/describe.h"
#include "machine/machine.h"

namespace hearth {

namespace {

constexpr Positional kPositionals[] = {
    {.name = "MODEL", .kind = ValueKind::Model, .help = "A GGUF file or a pulled model; or the word machine."}};
constexpr Example kExamples[] = {
    {"hearth inspect machine", "Processor, caches, memory, limits, GPUs, and what Hearth will use of them."},
    {"hearth inspect smollm2-135m", "Hyperparameters, tokenizer and tensors of a model."},
    {"hearth inspect model.gguf --json | jq .tensors", "The same for programs."}};

Status run_inspect(const Arguments& arguments, Session& session) {
    const std::string what = *arguments.positional(0);
    Console& console = session.console;
    const bool json = arguments.flag("json");
    if (what == "machine" && ::access("machine", F_OK) != 0) {
        const Machine machine = detect_machine();
        console.print(json ? describe(machine).dump(2) + "\n" : summary_text(machine));
        return {};
    }
    const Catalogue catalogue = TRY(Catalogue::load(session.environment));
    const GgufFile file = TRY(GgufFile::open(TRY(resolve_model(session.environment, catalogue, what))));
    console.print(json ? describe(file).dump(2) + "\n" : summary_text(file));
    return {};
}

}  // namespace

const Command kInspectCommand = {"inspect",
                                 "Show what is in a model file, or what this machine offers",
                                 "Shows what the loader sees in a model file, or with the word machine what the "
                                 "detector sees of this computer. Loads no weights.",
                                 kPositionals,
                                 {},
                                 kExamples,
                                 run_inspect};

}  // namespace hearth
