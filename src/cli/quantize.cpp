// hearth quantize: a model file into a smaller one.
#include "gguf/quantize.h"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "base/json.h"
#include "cli/catalogue.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "machine/machine.h"
#include "machine/thread_pool.h"

namespace hearth {

namespace {

constexpr Positional kPositionals[] = {
    {.name = "IN", .kind = ValueKind::Model, .help = "The model to quantise: a GGUF file, best F32, F16 or BF16."},
    {.name = "OUT", .kind = ValueKind::File, .help = "The file to write; it appears when it is complete."},
    {.name = "TYPE", .help = "What to make: Q8_0, Q6_K, Q5_K_M, Q4_K_M, Q4_0 and others; an unknown one lists all."}};
constexpr Option kOptions[] = {{.name = "imatrix",
                                .kind = ValueKind::File,
                                .value_name = "FILE",
                                .help = "Importance matrix (GGUF): columns that matter more are kept more exactly."},
                               kThreadsOption};
constexpr Example kExamples[] = {
    {"hearth quantize model-f16.gguf model-q4.gguf Q4_K_M", "The usual choice: about 4.8 bits a weight."},
    {"hearth quantize model-f16.gguf model-q4.gguf Q4_K_M --imatrix model.imatrix.gguf",
     "The same, steered by an importance matrix."}};

Error unknown_type(const std::string& type) {
    std::string list;
    std::vector<std::string_view> names(quantize_mixes().begin(), quantize_mixes().end());
    for (const std::string_view name : names) list += (list.empty() ? "" : ", ") + std::string(name);
    return Error{ErrorCode::Usage, "quantize: unknown type '" + type + "': one of " + list};
}

std::string upper(std::string text) {
    for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    return text;
}

Status run_quantize(const Arguments& arguments, Session& session) {
    Console& console = session.console;
    const std::string mix = upper(*arguments.positional(2));
    const std::span<const std::string_view> mixes = quantize_mixes();
    if (std::find(mixes.begin(), mixes.end(), mix) == mixes.end()) return unknown_type(*arguments.positional(2));
    const Catalogue catalogue = TRY(Catalogue::load(session.environment));
    const std::string in_path = TRY(resolve_model(session.environment, catalogue, *arguments.positional(0)));
    const std::string out_path = *arguments.positional(1);
    const GgufFile in = TRY(GgufFile::open(in_path));
    std::optional<GgufFile> importance_file;
    std::optional<ImportanceMatrix> importance;
    if (const std::optional<std::string> path = arguments.text("imatrix")) {
        importance_file = TRY(GgufFile::open(*path));
        importance = TRY(ImportanceMatrix::read(*importance_file));
    }
    std::size_t threads = TRY(threads_option(arguments, session.environment));
    if (threads == 0) threads = detect_machine().recommended_threads;
    ThreadPool pool(threads);
    QuantizeOptions options;
    options.mix = mix;
    options.importance = importance ? &*importance : nullptr;
    options.parallel = [&](std::size_t count, const std::function<void(std::size_t)>& work) {
        pool.for_each(count, [&](std::size_t item, std::size_t) { work(item); });
    };
    const InterruptScope interrupts;
    const double started = monotonic_seconds();
    std::uint64_t before = 0;
    std::uint64_t after = 0;
    std::map<std::string, std::size_t> warnings;  // and how many tensors each is about
    ProgressBar bar(console, "quantizing", in.tensors().size(), ProgressBar::Unit::Items);
    const QuantizeProgress progress = [&](const QuantizeEvent& event) {
        before += event.bytes_before;
        after += event.bytes_after;
        if (!event.warning.empty()) {
            ++warnings[std::string(event.warning) + " (now " + std::string(traits(event.to).name) + ")"];
        }
        bar.set_note(std::string(event.name));
        bar.update(event.index + 1);
        return InterruptScope::requested() ? QuantizeNext::Cancel : QuantizeNext::Continue;
    };
    TRY(quantize_model(in, out_path, options, progress));
    bar.clear();
    for (const auto& [warning, tensors] : warnings) {
        console.note(std::to_string(tensors) + (tensors == 1 ? " tensor: " : " tensors: ") + warning);
    }
    const double seconds = monotonic_seconds() - started;
    if (arguments.flag("json")) {
        console.print_line(Json(Json::Object{{"in", in_path},
                                             {"out", out_path},
                                             {"type", mix},
                                             {"tensors", static_cast<std::uint64_t>(in.tensors().size())},
                                             {"bytes_before", before},
                                             {"bytes_after", after},
                                             {"file_bytes", file_size(out_path).value_or(0)},
                                             {"seconds", seconds}})
                               .dump());
        return {};
    }
    console.print_line(out_path + ": " + mix + ", " + format_bytes(before) + " of weights became " +
                       format_bytes(after) + " in " + format_number(seconds, 1) + " s");
    return {};
}

}  // namespace

const Command kQuantizeCommand = {
    "quantize",
    "Make a smaller model file",
    "Writes a model file with its weights in fewer bits. The result depends on the model, the type and the importance "
    "matrix alone, not on the machine or the number of threads.",
    kPositionals,
    kOptions,
    kExamples,
    run_quantize};

}  // namespace hearth
