#include "vm/transformer.h"

#include "vm/machine.h"

namespace hearth::vm {

namespace {

constexpr std::uint64_t kWatchTokens = 4096;  // between two looks at the limits

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
        if (!report.book(next)) break;
        engine.feed(next);
    }
    report.pc = engine.cursor();
    report.seconds = watch.seconds();
    report.stopped_by = watch.stopped_by();
    return report;
}

template class PreparedProgram<std::int64_t>;
template class PreparedProgram<double>;

}  // namespace hearth::vm
