#include "vm/transformer.h"

#include "vm/machine.h"

namespace hearth::vm {

namespace {

constexpr std::uint64_t kWatchTokens = 4096;  // between two looks at the limits

std::unique_ptr<Transformer> build(const Program* baked, HeadMode mode) {
    auto made = std::make_unique<Transformer>();
    made->graph = build_machine(baked);
    made->prompt_code = baked == nullptr ? PromptCode::Listed : PromptCode::Baked;
    made->model = schedule(made->graph);
    made->forward = compile_forward(made->model, mode);
    made->plans = std::make_unique<PlanCache>(made->forward);
    return made;
}

}  // namespace

std::unique_ptr<Transformer> build_transformer(HeadMode mode) {
    return build(nullptr, mode);
}

Result<std::unique_ptr<Transformer>> build_specialized(const Program& program, HeadMode mode) {
    if (program.code.size() > kMaxBaked) {
        return Error{ErrorCode::Usage, "a program of " + std::to_string(program.code.size()) +
                                           " instructions is too large for the weights (at most " +
                                           std::to_string(kMaxBaked) + ")"};
    }
    return build(&program, mode);
}

template <typename Number>
PreparedProgram<Number>::PreparedProgram(const Transformer& transformer, const Program& program)
    : program_(&program),
      prefix_(prompt_program(program, transformer.prompt_code)),
      engine_(transformer.forward, transformer.plans.get()) {
    for (const Token token : prefix_) engine_.feed(token);
}

template <typename Number>
Result<Generation<Number>> PreparedProgram<Number>::begin(std::string_view input) const {
    TRY(check_input(*program_, input));
    RunReport report;
    Engine<Number> engine = engine_.clone();
    report.trace_hash.add(prefix_);
    for (const Token token : prompt_input(*program_, input)) {
        engine.feed(token);
        report.trace_hash.add(token);
    }
    report.prompt_tokens = engine.position();
    return Generation<Number>(std::move(engine), std::move(report));
}

template <typename Number>
Result<RunReport> PreparedProgram<Number>::generate(std::string_view input, const RunLimits& limits) const {
    Generation<Number> generation = TRY(begin(input));
    generation.run(limits);
    return generation.report();
}

template <typename Number>
void Generation<Number>::run(const RunLimits& limits) {
    RunWatch watch(limits);
    while (!report_.halted) {
        const bool look = report_.tokens % kWatchTokens == 0 || report_.tokens >= limits.max_tokens;
        if (look && !watch.go_on(report_.tokens)) break;
        const Token next = engine_.predict();
        // The machine traps where a call names no instruction; the model finds none, and falls back to position 0.
        report_.left_program = next == token::kBegin;
        if (report_.left_program) break;
        if (report_.book(next)) engine_.feed(next);
    }
    report_.pc = engine_.cursor();
    report_.seconds += watch.seconds();
    report_.stopped_by = report_.left_program ? "a call of what is no instruction" : watch.stopped_by();
}

template class Generation<std::int64_t>;
template class Generation<double>;
template class PreparedProgram<std::int64_t>;
template class PreparedProgram<double>;

}  // namespace hearth::vm
