// hearth vm run: one program or a list of them.
#include <memory>

#include "base/json.h"
#include "base/mapped_file.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/vm.h"
#include "cli/vm_source.h"
#include "vm/speculate.h"

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

Json report_json(const vm::Program& program, const vm::RunReport& report) {
    Json::Object fields{{"output", report.output},
                        {"output_hex", hex_text(report.output)},
                        {"prompt_tokens", report.prompt_tokens},
                        {"tokens", report.tokens},
                        {"seconds", report.seconds},
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

// Who executes, made once for all programs of a call.
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
    Result<vm::RunReport> run(const vm::Program& program, std::string_view input, const vm::RunLimits& limits) const {
        if (engine_ == "native") return vm::run_native(program, input, limits);
        std::unique_ptr<vm::Transformer> own;
        if (specializes_) own = TRY(vm::build_specialized(program, heads_));
        const vm::Transformer& transformer = own != nullptr ? *own : *transformer_;
        if (engine_ == "float64") return run_in<double>(transformer, program, input, limits);
        return run_in<std::int64_t>(transformer, program, input, limits);
    }

private:
    template <typename Number>
    Result<vm::RunReport> run_in(const vm::Transformer& transformer, const vm::Program& program, std::string_view input,
                                 const vm::RunLimits& limits) const {
        if (speculates_) return vm::run_speculatively<Number>(transformer, program, input, limits, *pool_);
        vm::Generation<Number> generation = TRY(begin<Number>(transformer, program, input));
        generation.run(limits);
        if (!snapshot_.empty() && !generation.report().halted) {
            TRY(write_file_atomically(snapshot_, generation.save(program)));
        }
        return generation.report();
    }
    template <typename Number>
    Result<vm::Generation<Number>> begin(const vm::Transformer& transformer, const vm::Program& program,
                                         std::string_view input) const {
        if (resume_.empty()) return vm::PreparedProgram<Number>(transformer, program).begin(input);
        const std::string content = TRY(read_file(resume_, std::size_t{4} << 30));
        return vm::Generation<Number>::load(transformer, program, std::as_bytes(std::span(content)));
    }
    std::string engine_;
    vm::HeadMode heads_ = vm::HeadMode::Auto;
    bool speculates_ = false;
    bool specializes_ = false;
    std::string snapshot_, resume_;
    std::unique_ptr<vm::Transformer> transformer_;
    std::unique_ptr<ThreadPool> pool_;
};

Result<vm::RunReport> execute(const Arguments& arguments, Session& session, const Executor& executor,
                              const vm::Program& program, std::string_view input) {
    vm::RunLimits limits = TRY(vm_limits(arguments));
    ProgressBar bar(session.console, "executing", 0, ProgressBar::Unit::Items);
    limits.on_progress = [&](std::uint64_t tokens) {
        bar.update(tokens);
        return !InterruptScope::requested();
    };
    return executor.run(program, input, limits);
}

Status run_batch(const Arguments& arguments, Session& session, const std::string& list_path) {
    const std::string list = TRY(read_text_file(list_path));
    const Executor executor = TRY(Executor::create(arguments, session));
    std::size_t begin = 0;
    while (begin < list.size()) {
        const std::size_t end = std::min(list.find('\n', begin), list.size());
        const std::string line = list.substr(begin, end - begin);
        begin = end + 1;
        if (line.empty()) continue;
        const std::size_t tab = std::min(line.find('\t'), line.size());
        const Result<vm::Program> program = load_vm_program(line.substr(0, tab));
        Json answer;
        if (program.ok()) {
            const std::string input = tab < line.size() ? line.substr(tab + 1) : "";
            const Result<vm::RunReport> report = execute(arguments, session, executor, program.value(), input);
            answer = report.ok() ? report_json(program.value(), report.value())
                                 : Json(Json::Object{{"error", report.error().message}});
        } else {
            answer = Json(Json::Object{{"error", program.error().message}});
        }
        session.console.print_line(answer.dump());
        if (InterruptScope::requested()) return Error{ErrorCode::Cancelled, "vm run: interrupted"};
    }
    return {};
}

}  // namespace

Status vm_run(const Arguments& arguments, Session& session) {
    const InterruptScope interrupts;
    if (const std::optional<std::string> list = arguments.text("batch")) return run_batch(arguments, session, *list);
    const std::optional<std::string> path = arguments.positional(1);
    if (!path) return Error{ErrorCode::Usage, "vm run: which program? (FILE or --batch LIST)"};
    const vm::Program program = TRY(load_vm_program(*path));
    const Executor executor = TRY(Executor::create(arguments, session));
    const vm::RunReport report =
        TRY(execute(arguments, session, executor, program, arguments.text("input").value_or("")));
    if (arguments.flag("json")) {
        session.console.print_line(report_json(program, report).dump());
    } else {
        session.console.print(report.output);
        const double rate = report.seconds > 0 ? static_cast<double>(report.tokens) / report.seconds : 0;
        session.console.note("prompt " + std::to_string(report.prompt_tokens) + " tok · " +
                             std::to_string(report.tokens) + " tok " + format_number(rate / 1000, 0) + "K tok/s · " +
                             format_number(report.seconds, 3) + " s · trace " + report.trace_hash.text());
    }
    if (report.trap) {
        return Error{ErrorCode::Failed, *path + ": trap: " + std::string(vm::trap_message(*report.trap)) + " in " +
                                            vm::position_text(program, report.pc)};
    }
    if (!report.halted) return Error{ErrorCode::OutOfResources, *path + ": stopped by " + report.stopped_by};
    return {};
}

}  // namespace hearth
