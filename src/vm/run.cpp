#include "vm/run.h"

#include "base/clock.h"
#include "vm/interpreter.h"

namespace hearth::vm {

RunWatch::RunWatch(const RunLimits& limits) : limits_(limits), started_(monotonic_seconds()) {}

double RunWatch::seconds() const {
    return monotonic_seconds() - started_;
}

bool RunWatch::go_on(std::uint64_t tokens) {
    if (tokens >= limits_.max_tokens) stopped_by_ = "the limit of " + std::to_string(limits_.max_tokens) + " tokens";
    if (limits_.max_seconds > 0 && seconds() > limits_.max_seconds) stopped_by_ = "the time limit";
    if (limits_.on_progress && !limits_.on_progress(tokens)) stopped_by_ = "request";
    return stopped_by_.empty();
}

bool RunReport::book(Token token) {
    trace_hash.add(token);
    ++tokens;
    if (is_output(token)) output.push_back(static_cast<char>(token - token::kOut));
    if (!is_stop(token)) return true;
    halted = true;
    if (token != token::kHalt) trap = static_cast<TrapKind>(token - token::kTrap);
    return false;
}

Result<RunReport> run_native(const Program& program, std::string_view input, const RunLimits& limits,
                             const std::function<void(std::span<const Token>)>& sink) {
    TRY(check_input(program, input));
    constexpr std::size_t kPart = 1 << 16;
    RunWatch watch(limits);
    RunReport report;
    std::vector<Token> part = prompt_program(program);
    const std::vector<Token> last = prompt_input(program, input);
    part.insert(part.end(), last.begin(), last.end());
    report.prompt_tokens = part.size();
    Interpreter interpreter(program, input);
    for (;;) {
        report.trace_hash.add(part);
        if (sink) sink(part);
        if (interpreter.state() != Interpreter::State::Running || !watch.go_on(report.tokens)) break;
        part.clear();
        const std::uint64_t room = limits.max_tokens - report.tokens;
        interpreter.run_traced(part, std::min<std::uint64_t>(kPart, room));
        // Instructions run whole, limits may end inside one; what prints or stops is a single token and never cut.
        part.resize(std::min<std::uint64_t>(part.size(), room));
        report.tokens += part.size();
    }
    report.output = interpreter.output();
    report.seconds = watch.seconds();
    report.halted = interpreter.state() != Interpreter::State::Running;
    if (interpreter.state() == Interpreter::State::Trapped) report.trap = interpreter.trap();
    report.pc = interpreter.pc();
    report.stopped_by = watch.stopped_by();
    return report;
}

}  // namespace hearth::vm
