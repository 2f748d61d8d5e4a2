#include "vm/transformer.h"

#include "vm/interpreter.h"
#include "vm/machine.h"

namespace hearth::vm {

namespace {

constexpr std::uint64_t kWatchTokens = 4096;  // between two looks at the limits

// Books one token of the trace; false when it is the last.
bool book(RunReport& report, Token token) {
    report.trace_hash.add(token);
    ++report.tokens;
    if (is_output(token)) report.output.push_back(static_cast<char>(token - token::kOut));
    if (!is_stop(token)) return true;
    report.halted = true;
    if (token != token::kHalt) report.trap = static_cast<TrapKind>(token - token::kTrap);
    return false;
}

}  // namespace

std::unique_ptr<Transformer> build_transformer(HeadMode mode) {
    auto made = std::make_unique<Transformer>();
    made->graph = build_machine();
    made->model = schedule(made->graph);
    made->forward = compile_forward(made->model, mode);
    made->plans = std::make_unique<PlanCache>(made->forward);
    return made;
}

template <typename Number>
PreparedProgram<Number>::PreparedProgram(const Transformer& transformer, const Program& program)
    : program_(&program), prefix_(prompt_program(program)), engine_(transformer.forward, transformer.plans.get()) {
    for (const Token token : prefix_) engine_.feed(token);
}

template <typename Number>
Engine<Number> PreparedProgram<Number>::begin(std::string_view input, RunReport& report) const {
    Engine<Number> engine = engine_.clone();
    report.trace_hash.add(prefix_);
    for (const Token token : prompt_input(*program_, input)) {
        engine.feed(token);
        report.trace_hash.add(token);
    }
    report.prompt_tokens = engine.position();
    return engine;
}

template <typename Number>
Result<RunReport> PreparedProgram<Number>::generate(std::string_view input, const RunLimits& limits) const {
    TRY(check_input(*program_, input));
    RunWatch watch(limits);
    RunReport report;
    Engine<Number> engine = begin(input, report);
    while (report.tokens % kWatchTokens != 0 || watch.go_on(report.tokens)) {
        if (report.tokens >= limits.max_tokens && !watch.go_on(report.tokens)) break;
        const Token next = engine.predict();
        if (!book(report, next)) break;
        engine.feed(next);
    }
    report.pc = engine.cursor();
    report.seconds = watch.seconds();
    report.stopped_by = watch.stopped_by();
    return report;
}

template <typename Number>
Result<RunReport> PreparedProgram<Number>::speculate(std::string_view input, const RunLimits& limits) const {
    TRY(check_input(*program_, input));
    RunWatch watch(limits);
    RunReport report;
    Engine<Number> engine = begin(input, report);
    Interpreter interpreter(*program_, input);
    std::vector<Token> draft;
    bool trusted = true;
    bool running = true;
    while (running && watch.go_on(report.tokens)) {
        draft.clear();
        if (trusted) interpreter.run_traced(draft, std::min(kWatchTokens, limits.max_tokens - report.tokens));
        if (!trusted) draft.push_back(engine.predict());
        for (const Token proposed : draft) {
            const Token next = engine.predict();
            running = book(report, next);
            if (!running) break;
            engine.feed(next);
            if (next == proposed) continue;
            trusted = false;  // the draft is of another program now
            break;
        }
    }
    report.pc = engine.cursor();
    report.seconds = watch.seconds();
    report.stopped_by = watch.stopped_by();
    return report;
}

template class PreparedProgram<std::int64_t>;
template class PreparedProgram<double>;

}  // namespace hearth::vm
