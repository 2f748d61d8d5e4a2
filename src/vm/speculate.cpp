#include "vm/speculate.h"

#include "vm/interpreter.h"

namespace hearth::vm {

template <typename Number>
Result<RunReport> run_speculatively(const Transformer& transformer, const Program& program, std::string_view input,
                                    const RunLimits& limits, ThreadPool& pool) {
    TRY(check_input(program, input));
    constexpr std::uint64_t kDraft = 1 << 18;
    RunWatch watch(limits);
    RunReport report;
    std::vector<Token> prompt = prompt_program(program, transformer.prompt_code);
    const std::vector<Token> last = prompt_input(program, input);
    prompt.insert(prompt.end(), last.begin(), last.end());
    report.prompt_tokens = prompt.size();
    report.trace_hash.add(prompt);
    TraceVerifier<Number> verifier(transformer, pool);
    verifier.begin(prompt);
    Interpreter interpreter(program, input);
    std::vector<Token> draft;
    while (!report.halted && watch.go_on(report.tokens)) {
        draft.clear();
        const std::uint64_t room = limits.max_tokens - report.tokens;
        interpreter.run_traced(draft, std::min(kDraft, room));
        draft.resize(std::min<std::uint64_t>(draft.size(), room));  // a limit may end inside an instruction
        const auto go_on = [&](std::uint64_t position) { return watch.go_on(position - report.prompt_tokens); };
        if (verifier.check(draft, go_on)) return PreparedProgram<Number>(transformer, program).generate(input, limits);
        draft.resize(verifier.checked() - report.prompt_tokens - report.tokens);  // all, unless it was stopped
        for (const Token token : draft) report.book(token);
    }
    report.pc = interpreter.pc();
    report.seconds = watch.seconds();
    report.stopped_by = report.halted ? "" : watch.stopped_by();
    return report;
}

template Result<RunReport> run_speculatively<std::int64_t>(const Transformer&, const Program&, std::string_view,
                                                           const RunLimits&, ThreadPool&);
template Result<RunReport> run_speculatively<double>(const Transformer&, const Program&, std::string_view,
                                                     const RunLimits&, ThreadPool&);

}  // namespace hearth::vm
