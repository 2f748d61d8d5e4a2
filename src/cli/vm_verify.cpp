// hearth vm verify and bench: every position of a trace against the model, and how fast each way of running is.
#include <ctime>

#include "base/clock.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/vm.h"
#include "cli/vm_source.h"
#include "vm/interpreter.h"
#include "vm/speculate.h"

namespace hearth {

namespace {

struct Verified {
    std::uint64_t positions = 0;
    double seconds = 0;
    std::string trace_hash;
    std::optional<vm::Mismatch> mismatch;
};

template <typename Number>
Result<Verified> verify_tokens(const vm::Transformer& transformer, ThreadPool& pool, std::span<const vm::Token> tokens,
                               Console& console) {
    const vm::TraceParts parts = TRY(vm::split_trace(tokens));
    ProgressBar bar(console, "verifying", tokens.size(), ProgressBar::Unit::Items);
    const double started = monotonic_seconds();
    vm::TraceVerifier<Number> verifier(transformer, pool);
    verifier.begin(parts.prompt);
    Verified result;
    result.mismatch = verifier.check(parts.generated, [&](std::uint64_t position) {
        bar.update(position);
        return !InterruptScope::requested();
    });
    if (verifier.stopped()) return Error{ErrorCode::Cancelled, "vm verify: interrupted"};
    result.positions = result.mismatch ? result.mismatch->position - parts.prompt.size() : parts.generated.size();
    result.seconds = monotonic_seconds() - started;
    vm::TraceHash hash;
    hash.add(tokens);
    result.trace_hash = hash.text();
    return result;
}

Result<std::vector<vm::Token>> trace_to_check(const Arguments& arguments, const vm::Program& program) {
    if (const std::optional<std::string> path = arguments.text("trace"))
        return vm::parse_trace(TRY(read_text_file(*path)));
    std::vector<vm::Token> tokens;
    TRY(vm::run_native(
        program, arguments.text("input").value_or(""), TRY(vm_limits(arguments)),
        [&](std::span<const vm::Token> part) { tokens.insert(tokens.end(), part.begin(), part.end()); }));
    return tokens;
}

// A trace is of a program and an input: its prompt must be of nothing else.
Status check_prompt(const Arguments& arguments, const vm::Program& program, std::span<const vm::Token> tokens) {
    const std::string input = TRY(vm::input_of_prompt(program, TRY(vm::split_trace(tokens)).prompt));
    if (arguments.text("input").value_or(input) != input) {
        return Error{ErrorCode::InvalidModel, "trace: it is of another input than --input"};
    }
    return {};
}

// Rows of a benchmark. The processor's time shows whether others had a share of the machine.
class BenchRows {
public:
    template <typename Body>
    auto time(std::string_view name, std::size_t threads, const Body& body) {
        const std::clock_t before = std::clock();
        auto result = body();
        const double cpu = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
        names_.push_back({std::string(name), threads, cpu});
        return result;
    }
    // Of the last one timed.
    void add(std::uint64_t tokens, double seconds) {
        const auto& [name, threads, cpu] = names_.back();
        rows.push_back(
            Json(Json::Object{{"name", name},
                              {"threads", static_cast<std::uint64_t>(threads)},
                              {"tokens", tokens},
                              {"seconds", seconds},
                              {"cpu_seconds", cpu},
                              {"tokens_per_second", seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0}}));
    }
    Json::Array rows;

private:
    struct Timed {
        std::string name;
        std::size_t threads = 1;
        double cpu = 0;
    };
    std::vector<Timed> names_;
};

}  // namespace

Status vm_verify(const Arguments& arguments, Session& session) {
    const std::optional<std::string> path = arguments.positional(1);
    if (!path) return Error{ErrorCode::Usage, "vm verify: of which program? (FILE)"};
    const std::string engine = arguments.text("engine").value_or("int64");
    if (engine == "native") return Error{ErrorCode::Usage, "vm verify: it is the model that verifies (--engine)"};
    const InterruptScope interrupts;
    const vm::Program program = TRY(load_vm_program(*path));
    const std::vector<vm::Token> tokens = TRY(trace_to_check(arguments, program));
    TRY(check_prompt(arguments, program, tokens));
    ThreadPool pool(TRY(vm_threads(arguments, session)));
    const std::unique_ptr<vm::Transformer> transformer = vm::build_transformer(vm_heads(arguments));
    const Verified verified =
        TRY(engine == "float64" ? verify_tokens<double>(*transformer, pool, tokens, session.console)
                                : verify_tokens<std::int64_t>(*transformer, pool, tokens, session.console));
    const std::string difference =
        verified.mismatch ? vm::describe(*verified.mismatch, program, tokens) : std::string();
    if (arguments.flag("json")) {
        Json::Object fields{{"positions", verified.positions},
                            {"mismatches", verified.mismatch ? 1 : 0},
                            {"seconds", verified.seconds},
                            {"trace_hash", verified.trace_hash},
                            {"threads", static_cast<std::uint64_t>(pool.size())}};
        if (verified.mismatch) fields.emplace_back("mismatch", difference);
        session.console.print_line(Json(std::move(fields)).dump());
    } else if (!verified.mismatch) {
        const double rate = static_cast<double>(verified.positions) / std::max(verified.seconds, 1e-9);
        session.console.print_line(std::to_string(verified.positions) + " positions verified, 0 mismatches, " +
                                   format_number(rate / 1000, 0) + "K tok/s, trace " + verified.trace_hash);
    }
    if (verified.mismatch) return Error{ErrorCode::Failed, *path + ": mismatch at " + difference};
    return {};
}

Status vm_bench(const Arguments& arguments, Session& session) {
    const std::optional<std::string> path = arguments.positional(1);
    if (!path) return Error{ErrorCode::Usage, "vm bench: which program? (FILE)"};
    const vm::Program program = TRY(load_vm_program(*path));
    const std::string input = arguments.text("input").value_or("");
    const vm::RunLimits limits = TRY(vm_limits(arguments));
    ThreadPool pool(TRY(vm_threads(arguments, session)));
    ThreadPool alone(1);
    const double build_started = monotonic_seconds();
    const std::unique_ptr<vm::Transformer> transformer = vm::build_transformer(vm::HeadMode::Auto);
    const double build_seconds = monotonic_seconds() - build_started;
    // Passes are compiled when they are first needed: once a model, not once a run.
    const double compile_started = monotonic_seconds();
    vm::RunLimits some = limits;
    some.max_tokens = std::min<std::uint64_t>(limits.max_tokens, 1 << 17);
    TRY(vm::PreparedProgram<std::int64_t>(*transformer, program).generate(input, some));
    const double compile_seconds = monotonic_seconds() - compile_started;
    std::vector<vm::Token> tokens;
    BenchRows bench;
    const vm::RunReport native = TRY(bench.time("native interpreter with trace (no model)", 1, [&] {
        return vm::run_native(program, input, limits, [&](std::span<const vm::Token> part) {
            tokens.insert(tokens.end(), part.begin(), part.end());
        });
    }));
    bench.add(native.tokens, native.seconds);
    // Without a trace there are no tokens to count, so only what is known to end is run so.
    if (native.halted) {
        const double plain_seconds = bench.time("native interpreter without trace (no model)", 1, [&] {
            const double started = monotonic_seconds();
            vm::Interpreter(program, input).run(~std::uint64_t{0});
            return monotonic_seconds() - started;
        });
        bench.add(native.tokens, plain_seconds);
    }
    const auto generate = [&]<typename Number>(std::string_view name, Number) {
        return bench.time(name, 1,
                          [&] { return vm::PreparedProgram<Number>(*transformer, program).generate(input, limits); });
    };
    const vm::RunReport int64 = TRY(generate("generate int64", std::int64_t{}));
    bench.add(int64.tokens, int64.seconds);
    const vm::RunReport float64 = TRY(generate("generate float64", double{}));
    bench.add(float64.tokens, float64.seconds);
    const auto verify = [&](const std::string& name, ThreadPool& threads) {
        return bench.time(name, threads.size(),
                          [&] { return verify_tokens<std::int64_t>(*transformer, threads, tokens, session.console); });
    };
    const Verified one = TRY(verify("verify int64, 1 thread", alone));
    bench.add(one.positions, one.seconds);
    const std::string threads = std::to_string(pool.size()) + " threads";
    const Verified all = TRY(verify("verify int64, " + threads, pool));
    bench.add(all.positions, all.seconds);
    const vm::RunReport drafted = TRY(bench.time("speculate int64, " + threads, pool.size(), [&] {
        return vm::run_speculatively<std::int64_t>(*transformer, program, input, limits, pool);
    }));
    bench.add(drafted.tokens, drafted.seconds);
    const std::string hash = native.trace_hash.text();
    const bool same = int64.trace_hash.text() == hash && float64.trace_hash.text() == hash &&
                      drafted.trace_hash.text() == hash && !one.mismatch && !all.mismatch;
    if (arguments.flag("json")) {
        session.console.print_line(Json(Json::Object{{"build_seconds", build_seconds},
                                                     {"first_run_seconds", compile_seconds},
                                                     {"trace_hash", hash},
                                                     {"equal", same},
                                                     {"rows", std::move(bench.rows)}})
                                       .dump());
    } else {
        session.console.print_line("model built in " + format_number(build_seconds * 1000, 1) + " ms; trace " + hash +
                                   (same ? ", the same every way" : ", NOT the same every way"));
        for (const Json& row : bench.rows) {
            session.console.print_line(format_number(*row.find("tokens_per_second")->as_double() / 1e6, 3) +
                                       " M tok/s  " + *row.find("name")->as_string());
        }
    }
    if (!same) return Error{ErrorCode::Failed, "vm bench: the traces differ"};
    return {};
}

}  // namespace hearth
