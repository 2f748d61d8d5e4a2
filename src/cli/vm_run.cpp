// hearth vm run: one program or a list of them.
#include <sys/resource.h>

#include <memory>

#include "base/json.h"
#include "base/mapped_file.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/vm.h"
#include "cli/vm_source.h"
#include "vm/speculate.h"
#include "vm/upstream_run.h"

namespace hearth {

namespace {

std::string hex_text(std::string_view bytes) {
    std::string text;
    for (const char c : bytes) {
        const unsigned value = static_cast<unsigned char>(c);
        text += "0123456789abcdef"[value >> 4];
        text += "0123456789abcdef"[value & 15];
    }
    return text;
}

std::string tokens_text(const vm::RunReport& report) {
    const double rate = report.seconds > 0 ? static_cast<double>(report.tokens) / report.seconds : 0;
    return "prompt " + std::to_string(report.prompt_tokens) + " tok · " + std::to_string(report.tokens) + " tok " +
           format_number(rate / 1000, 0) + "K tok/s · " + format_number(report.seconds, 3) + " s";
}

// Of this process, so far.
std::uint64_t peak_memory_bytes() {
    rusage used{};
    return ::getrusage(RUSAGE_SELF, &used) == 0 ? static_cast<std::uint64_t>(used.ru_maxrss) * 1024 : 0;
}

Json report_json(const vm::Program& program, const vm::RunReport& report) {
    Json::Object fields{{"output", report.output},
                        {"output_hex", hex_text(report.output)},
                        {"prompt_tokens", report.prompt_tokens},
                        {"tokens", report.tokens},
                        {"seconds", report.seconds},
                        {"peak_memory_bytes", peak_memory_bytes()},
                        {"trace_hash", report.trace_hash.text()},
                        {"halted", report.halted},
                        {"trap", nullptr}};
    if (report.trap) {
        fields.back().second = std::string(vm::trap_message(*report.trap));
        fields.emplace_back("position", vm::position_text(program, report.pc));
    }
    if (!report.stopped_by.empty()) fields.emplace_back("stopped_by", report.stopped_by);
    return Json(std::move(fields));
}

// Of a run that did not end by itself.
Error unfinished(const std::string& path, const vm::RunReport& report) {
    const ErrorCode code = InterruptScope::requested() ? ErrorCode::Cancelled
                           : report.left_program       ? ErrorCode::Failed
                                                       : ErrorCode::OutOfResources;
    return Error{code, path + ": stopped by " + report.stopped_by};
}

// Who executes: the model is made once for all programs of a call, and a program's prompt is read once for all inputs.
class Executor {
public:
    static Result<Executor> create(const Arguments& arguments, const Session& session) {
        Executor made;
        made.engine_ = arguments.text("engine").value_or("int64");
        made.speculates_ = arguments.flag("speculate");
        made.snapshot_ = arguments.text("snapshot").value_or("");
        made.resume_ = arguments.text("resume").value_or("");
        const bool plain = made.engine_ != "native" && !made.speculates_ && vm_heads(arguments) == vm::HeadMode::Auto;
        if (!plain && !(made.snapshot_.empty() && made.resume_.empty())) {
            return Error{ErrorCode::Usage, "vm run: snapshots are of the model generating by itself"};
        }
        if (made.engine_ == "native") return made;
        made.heads_ = vm_heads(arguments);
        made.specializes_ = arguments.flag("specialize");
        if (!made.specializes_) made.transformer_ = vm::build_transformer(made.heads_);
        if (made.speculates_) made.pool_ = std::make_unique<ThreadPool>(TRY(vm_threads(arguments, session)));
        return made;
    }
    Status load(const std::string& path) {
        int64_.reset();
        float64_.reset();
        program_ = std::make_unique<vm::Program>(TRY(load_vm_program(path)));
        if (specializes_) transformer_ = TRY(vm::build_specialized(*program_, heads_));
        return {};
    }
    const vm::Program& program() const { return *program_; }
    Result<vm::RunReport> run(std::string_view input, const vm::RunLimits& limits) {
        if (engine_ == "native") return vm::run_native(*program_, input, limits);
        if (engine_ == "float64") return run_in(float64_, input, limits);
        return run_in(int64_, input, limits);
    }

private:
    template <typename Number>
    Result<vm::RunReport> run_in(std::unique_ptr<vm::PreparedProgram<Number>>& prepared, std::string_view input,
                                 const vm::RunLimits& limits) {
        if (speculates_) return vm::run_speculatively<Number>(*transformer_, *program_, input, limits, *pool_);
        vm::Generation<Number> generation = TRY(begin(prepared, input));
        generation.run(limits);
        if (!snapshot_.empty() && !generation.report().halted) {
            TRY(write_file_atomically(snapshot_, generation.save(*program_)));
        }
        return generation.report();
    }
    template <typename Number>
    Result<vm::Generation<Number>> begin(std::unique_ptr<vm::PreparedProgram<Number>>& prepared,
                                         std::string_view input) {
        if (!resume_.empty()) {
            const std::string content = TRY(read_file(resume_, std::size_t{4} << 30));
            return vm::Generation<Number>::load(*transformer_, *program_, std::as_bytes(std::span(content)));
        }
        if (prepared == nullptr) prepared = std::make_unique<vm::PreparedProgram<Number>>(*transformer_, *program_);
        return prepared->begin(input);
    }
    std::string engine_;
    vm::HeadMode heads_ = vm::HeadMode::Auto;
    bool speculates_ = false;
    bool specializes_ = false;
    std::string snapshot_, resume_;
    std::unique_ptr<vm::Transformer> transformer_;
    std::unique_ptr<ThreadPool> pool_;
    std::unique_ptr<vm::Program> program_;
    std::unique_ptr<vm::PreparedProgram<std::int64_t>> int64_;
    std::unique_ptr<vm::PreparedProgram<double>> float64_;
};

Result<vm::RunReport> execute(const Arguments& arguments, Session& session, Executor& executor,
                              std::string_view input) {
    vm::RunLimits limits = TRY(vm_limits(arguments));
    ProgressBar bar(session.console, "executing", 0, ProgressBar::Unit::Items);
    limits.on_progress = [&](std::uint64_t tokens) {
        bar.update(tokens);
        return !InterruptScope::requested();
    };
    return executor.run(input, limits);
}

// One line of JSON for each (program, input); programs that follow each other are compiled and read once.
Status run_list(const Arguments& arguments, Session& session,
                const std::vector<std::pair<std::string, std::string>>& list) {
    Executor executor = TRY(Executor::create(arguments, session));
    std::string loaded;
    for (const auto& [path, input] : list) {
        const Status ready = path == loaded ? Status{} : executor.load(path);
        loaded = ready.ok() ? path : "";
        Json answer;
        if (ready.ok()) {
            const Result<vm::RunReport> report = execute(arguments, session, executor, input);
            answer = report.ok() ? report_json(executor.program(), report.value())
                                 : Json(Json::Object{{"error", report.error().message}});
        } else {
            answer = Json(Json::Object{{"error", ready.error().message}});
        }
        session.console.print_line(answer.dump());
        if (InterruptScope::requested()) return Error{ErrorCode::Cancelled, "vm run: interrupted"};
    }
    return {};
}

std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        lines.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

Status run_batch(const Arguments& arguments, Session& session, const std::string& list_path) {
    std::vector<std::pair<std::string, std::string>> list;
    for (const std::string& line : lines_of(TRY(read_text_file(list_path)))) {
        if (line.empty()) continue;
        const std::size_t tab = std::min(line.find('\t'), line.size());
        list.emplace_back(line.substr(0, tab), tab < line.size() ? line.substr(tab + 1) : "");
    }
    return run_list(arguments, session, list);
}

// Weights of upstream, a prompt in its tokens.
Status run_foreign(const Arguments& arguments, Session& session, const std::string& path,
                   const std::string& model_path) {
    const std::string weights = TRY(read_file(model_path, std::size_t{256} << 20));
    const vm::UpstreamModel model = TRY(vm::read_upstream(std::as_bytes(std::span(weights))));
    const std::vector<std::uint32_t> prompt = TRY(vm::parse_upstream_prompt(model, TRY(read_text_file(path))));
    vm::RunLimits limits = TRY(vm_limits(arguments));
    limits.on_progress = [](std::uint64_t) { return !InterruptScope::requested(); };
    const vm::RunReport report = vm::run_upstream(model, prompt, limits);
    if (arguments.flag("json")) {
        session.console.print_line(Json(Json::Object{{"output", report.output},
                                                     {"output_hex", hex_text(report.output)},
                                                     {"prompt_tokens", report.prompt_tokens},
                                                     {"tokens", report.tokens},
                                                     {"seconds", report.seconds},
                                                     {"halted", report.halted}})
                                       .dump());
    } else {
        session.console.print(report.output);
        session.console.note(tokens_text(report));
    }
    if (!report.halted) return unfinished(path, report);
    return {};
}

// A snapshot is of one run, with the input that run has read.
Status check_options(const Arguments& arguments) {
    const bool many = arguments.text("inputs") || arguments.text("batch");
    if (arguments.text("resume") && (many || arguments.text("input"))) {
        return Error{ErrorCode::Usage, "vm run: --resume goes on with the input the run began with"};
    }
    if (arguments.text("snapshot") && many)
        return Error{ErrorCode::Usage, "vm run: --snapshot keeps one run, not many"};
    return {};
}

}  // namespace

Status vm_run(const Arguments& arguments, Session& session) {
    const InterruptScope interrupts;
    TRY(check_options(arguments));
    if (const std::optional<std::string> list = arguments.text("batch")) return run_batch(arguments, session, *list);
    const std::optional<std::string> path = arguments.positional(1);
    if (!path) return Error{ErrorCode::Usage, "vm run: which program? (FILE or --batch LIST)"};
    if (const std::optional<std::string> model = arguments.text("model")) {
        return run_foreign(arguments, session, *path, *model);
    }
    if (const std::optional<std::string> inputs = arguments.text("inputs")) {
        std::vector<std::pair<std::string, std::string>> list;
        for (std::string& line : lines_of(TRY(read_text_file(*inputs)))) list.emplace_back(*path, std::move(line));
        return run_list(arguments, session, list);
    }
    Executor executor = TRY(Executor::create(arguments, session));
    TRY(executor.load(*path));
    const vm::Program& program = executor.program();
    const vm::RunReport report = TRY(execute(arguments, session, executor, arguments.text("input").value_or("")));
    if (arguments.flag("json")) {
        session.console.print_line(report_json(program, report).dump());
    } else {
        session.console.print(report.output);
        session.console.note(tokens_text(report) + " · trace " + report.trace_hash.text());
    }
    if (report.trap) {
        return Error{ErrorCode::Failed, *path + ": trap: " + std::string(vm::trap_message(*report.trap)) + " in " +
                                            vm::position_text(program, report.pc)};
    }
    if (!report.halted) return unfinished(*path, report);
    return {};
}

}  // namespace hearth
