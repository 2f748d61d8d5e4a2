// hearth vm: programs inside weights. The verbs that do more than a few lines are in vm_*.cpp.
#include "cli/vm.h"

#include "base/json.h"
#include "base/mapped_file.h"
#include "cli/commands.h"
#include "cli/model_options.h"
#include "cli/vm_source.h"
#include "machine/machine.h"
#include "vm/draw.h"
#include "vm/model_file.h"
#include "vm/transformer.h"

namespace hearth {

namespace {

constexpr Positional kPositionals[] = {
    {.name = "VERB",
     .kind = ValueKind::Choice,
     .help = "run executes a program, build compiles it, disasm lists its instructions, "
             "trace prints its tokens, verify asks the model at every position of a "
             "trace, bench times every way of running, model shows the heads or a file "
             "of weights, draw makes a picture of them.",
     .choices = "run|build|disasm|trace|verify|bench|model|draw"},
    {.name = "FILE",
     .kind = ValueKind::File,
     .required = false,
     .help = "The program: a .c, .wasm or .vm file; for model, a file of weights."}};
constexpr Option kOptions[] = {
    {.name = "input", .kind = ValueKind::Text, .value_name = "TEXT", .help = "What the program is given to read."},
    {.name = "output", .letter = 'o', .kind = ValueKind::File, .value_name = "FILE", .help = "The file to write."},
    {.name = "engine",
     .kind = ValueKind::Choice,
     .value_name = "int64|float64|native",
     .help = "Who executes: the model in exact integers or in doubles, or the machine itself without a model.",
     .default_text = "int64",
     .choices = "int64|float64|native"},
    {.name = "heads",
     .kind = ValueKind::Choice,
     .value_name = "auto|hull",
     .help = "Look-ups by what each head was proved to be, or all by convex hull.",
     .default_text = "auto",
     .choices = "auto|hull"},
    {.name = "speculate", .help = "Let the machine itself draft and the model check every token."},
    {.name = "specialize", .help = "Bake the program's instructions into weights of its own (small programs)."},
    {.name = "model",
     .kind = ValueKind::File,
     .value_name = "FILE",
     .help = "Run a prompt (FILE is its tokens) in another system's model.bin."},
    {.name = "snapshot",
     .kind = ValueKind::File,
     .value_name = "FILE",
     .help = "Where to keep a run that a limit stopped."},
    {.name = "resume", .kind = ValueKind::File, .value_name = "FILE", .help = "Go on with a run that was kept."},
    {.name = "max-tokens", .kind = ValueKind::Whole, .value_name = "N", .help = "Stop after N generated tokens."},
    {.name = "max-seconds", .kind = ValueKind::Real, .value_name = "S", .help = "Stop after S seconds."},
    {.name = "batch",
     .kind = ValueKind::File,
     .value_name = "LIST",
     .help = "Run many: lines FILE, tab, INPUT; one line of JSON each."},
    {.name = "inputs",
     .kind = ValueKind::File,
     .value_name = "FILE",
     .help = "Run the program on every line of FILE, its prompt read once; one line of JSON each."},
    {.name = "trace",
     .kind = ValueKind::File,
     .value_name = "FILE",
     .help = "The trace to verify, as `vm trace` prints it; without it, the machine's own."},
    kThreadsOption};
constexpr Example kExamples[] = {
    {"hearth vm run hello.c --input World", "Compile a C program and execute it in the model."},
    {"hearth vm build hello.c -o hello.vm", "Compile once."},
    {"hearth vm disasm hello.vm", "Show the machine program."},
    {"hearth vm verify sudoku.vm --input 53..7....", "Ask the model at every position of the trace."}};

Result<std::string> needed_file(const Arguments& arguments) {
    if (const std::optional<std::string> path = arguments.positional(1)) return *path;
    return Error{ErrorCode::Usage, "vm: the verb '" + *arguments.positional(0) + "' needs a FILE"};
}

Status run_build(const Arguments& arguments, Session& session) {
    const std::string path = TRY(needed_file(arguments));
    const std::optional<std::string> out = arguments.text("output");
    if (!out) return Error{ErrorCode::Usage, "vm build: where to? (-o FILE)"};
    const vm::Program program = TRY(load_vm_program(path));
    TRY(write_file_atomically(*out, vm::write_program(program)));
    if (arguments.flag("json")) {
        session.console.print_line(Json(Json::Object{{"out", *out},
                                                     {"instructions", static_cast<std::uint64_t>(program.code.size())},
                                                     {"slots", static_cast<std::uint64_t>(program.absolute.size())}})
                                       .dump());
        return {};
    }
    session.console.print_line(*out + ": " + std::to_string(program.code.size()) + " instructions, " +
                               std::to_string(program.absolute.size()) + " constants and globals");
    return {};
}

void print_text(const Arguments& arguments, Session& session, const std::string& text) {
    session.console.print(arguments.flag("json") ? json_quote(text) + "\n" : text);
}

// A file that says all by being there; programs are told its name.
Status write_out(const Arguments& arguments, Session& session, const std::string& path,
                 std::span<const std::byte> bytes) {
    TRY(write_file_atomically(path, bytes));
    if (arguments.flag("json")) session.console.print_line(Json(Json::Object{{"out", path}}).dump());
    return {};
}

Status run_disasm(const Arguments& arguments, Session& session) {
    const vm::Program program = TRY(load_vm_program(TRY(needed_file(arguments))));
    print_text(arguments, session, vm::disassemble(program));
    return {};
}

Status run_trace(const Arguments& arguments, Session& session) {
    const vm::Program program = TRY(load_vm_program(TRY(needed_file(arguments))));
    const vm::RunLimits limits = TRY(vm_limits(arguments));
    const bool json = arguments.flag("json");
    std::string line = json ? "[" : "";
    bool first = true;
    const auto print = [&](std::span<const vm::Token> tokens) {
        for (const vm::Token token : tokens) {
            if (json) {
                line += (first ? "" : ",") + json_quote(vm::token_name(token));
                first = false;
                continue;
            }
            line += vm::token_name(token);
            const bool ends = !vm::is_byte(token) && token != vm::token::kSep && token != vm::token::kSep2 &&
                              token != vm::token::kHigh && token < vm::token::kOpcode;
            line += ends ? "\n" : " ";
        }
        session.console.print(line);
        line.clear();
    };
    TRY(vm::run_native(program, arguments.text("input").value_or(""), limits, print));
    session.console.print(json ? "]\n" : "\n");
    return {};
}

Json sizes_json(std::uint64_t vocabulary, std::uint64_t width, std::uint64_t layers, std::uint64_t heads,
                std::uint64_t neurons) {
    return Json::Object{
        {"vocabulary", vocabulary}, {"width", width}, {"layers", layers}, {"heads", heads}, {"neurons", neurons}};
}

Status show_upstream(const Arguments& arguments, Session& session, const std::string& path,
                     const vm::UpstreamModel& model) {
    const std::string& stop = model.spellings[static_cast<std::size_t>(model.stop)];
    const std::uint64_t non_zero = model.non_zero();
    if (arguments.flag("json")) {
        const Json sizes = sizes_json(model.vocabulary, model.width, model.layers, model.heads, model.neurons);
        session.console.print_line(
            Json(Json::Object{{"sizes", sizes}, {"stop", stop}, {"non_zero_weights", non_zero}}).dump());
        return {};
    }
    session.console.print_line(path + ": V=" + std::to_string(model.vocabulary) + " D=" + std::to_string(model.width) +
                               " L=" + std::to_string(model.layers) + " H=" + std::to_string(model.heads) +
                               " F=" + std::to_string(model.neurons) + ", stop " + stop + ", " +
                               std::to_string(non_zero) + " weights are not zero");
    return {};
}

void show_model(const Arguments& arguments, Session& session, const vm::Model& model) {
    std::string text = "V=" + std::to_string(model.embedding.size()) + " D=" + std::to_string(model.width) +
                       " L=" + std::to_string(model.layers.size()) + " H=" + std::to_string(model.head_count) +
                       " F=" + std::to_string(model.neuron_count) + "\n";
    Json::Array heads;
    for (std::size_t l = 0; l < model.layers.size(); ++l) {
        for (const vm::Head& head : model.layers[l].heads) {
            const std::string kind(vm::head_kind_name(head.kind));
            heads.push_back(Json::Object{
                {"layer", static_cast<std::uint64_t>(l)}, {"kind", kind}, {"name", head.name}, {"proof", head.proof}});
            text += "layer " + std::to_string(l) + "  " + kind + "  " + head.name + ": " + head.proof + "\n";
        }
    }
    if (!arguments.flag("json")) return session.console.print(text);
    const Json sizes =
        sizes_json(model.embedding.size(), model.width, model.layers.size(), model.head_count, model.neuron_count);
    session.console.print_line(Json(Json::Object{{"sizes", sizes}, {"heads", std::move(heads)}}).dump());
}

// One line a head: what it is and why; or a file of the weights, or what such a file holds.
Status run_model(const Arguments& arguments, Session& session) {
    vm::Model model = vm::build_transformer(vm::HeadMode::Auto)->model;
    if (const std::optional<std::string> path = arguments.positional(1)) {
        const std::string content = TRY(read_file(*path, std::size_t{256} << 20));
        const std::span<const std::byte> bytes = std::as_bytes(std::span(content));
        if (!vm::is_model_file(bytes)) {
            return show_upstream(arguments, session, *path, TRY(vm::read_upstream(bytes)));
        }
        model = TRY(vm::read_model(bytes));
    }
    if (const std::optional<std::string> out = arguments.text("output")) {
        return write_out(arguments, session, *out, vm::write_model(model));
    }
    show_model(arguments, session, model);
    return {};
}

Status run_draw(const Arguments& arguments, Session& session) {
    const std::string svg = vm::draw_svg(vm::build_transformer(vm::HeadMode::Auto)->model);
    const std::optional<std::string> out = arguments.text("output");
    if (out) return write_out(arguments, session, *out, std::as_bytes(std::span(svg)));
    print_text(arguments, session, svg);
    return {};
}

Status run_vm(const Arguments& arguments, Session& session) {
    const std::string verb = *arguments.positional(0);
    if (verb == "run") return vm_run(arguments, session);
    if (verb == "build") return run_build(arguments, session);
    if (verb == "disasm") return run_disasm(arguments, session);
    if (verb == "trace") return run_trace(arguments, session);
    if (verb == "verify") return vm_verify(arguments, session);
    if (verb == "model") return run_model(arguments, session);
    if (verb == "draw") return run_draw(arguments, session);
    return vm_bench(arguments, session);
}

}  // namespace

Result<vm::RunLimits> vm_limits(const Arguments& arguments) {
    vm::RunLimits limits;
    const std::optional<std::uint64_t> tokens = TRY(arguments.whole("max-tokens", 1, limits.max_tokens));
    if (tokens) limits.max_tokens = *tokens;
    const std::optional<float> seconds = TRY(arguments.real("max-seconds"));
    if (seconds && !(*seconds > 0)) return Error{ErrorCode::Usage, "--max-seconds: must be above 0"};
    if (seconds) limits.max_seconds = static_cast<double>(*seconds);
    return limits;
}

Result<std::size_t> vm_threads(const Arguments& arguments, const Session& session) {
    const std::size_t threads = TRY(threads_option(arguments, session.environment));
    return threads == 0 ? detect_machine().recommended_threads : threads;
}

vm::HeadMode vm_heads(const Arguments& arguments) {
    return arguments.text("heads").value_or("auto") == "hull" ? vm::HeadMode::Hull : vm::HeadMode::Auto;
}

const Command kVmCommand = {
    "vm",
    "Execute programs inside transformer weights, exactly",
    "A transformer whose weights are built, not trained: decoding executes a program, token by token. C (through "
    "clang) and WebAssembly programs become a prompt; the same model runs them all.",
    kPositionals,
    kOptions,
    kExamples,
    run_vm};

}  // namespace hearth
