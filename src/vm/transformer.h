// The built model and its compiled passes, made once and shared; programs run in it.
#pragma once

#include <string_view>

#include "vm/engine.h"
#include "vm/run.h"

namespace hearth::vm {

struct Transformer {
    Graph graph;
    Model model;
    Forward forward;
    std::unique_ptr<PlanCache> plans;
    PromptCode prompt_code = PromptCode::Listed;
};

// Milliseconds; the same weights every time.
std::unique_ptr<Transformer> build_transformer(HeadMode mode);
// For one small program, whose instructions are in the weights instead of the prompt.
Result<std::unique_ptr<Transformer>> build_specialized(const Program& program, HeadMode mode);

// A run that can be left and taken up again, in another process too.
template <typename Number>
class Generation {
public:
    Generation(Engine<Number> engine, RunReport report) : engine_(std::move(engine)), report_(std::move(report)) {}

    // Token by token, until the program stops or a limit is met. Limits count from the beginning of the program.
    void run(const RunLimits& limits);
    const RunReport& report() const { return report_; }

    // A snapshot belongs to one program; taken up with another it is refused.
    std::vector<std::byte> save(const Program& program) const;
    static Result<Generation> load(const Transformer& transformer, const Program& program,
                                   std::span<const std::byte> bytes);

private:
    Engine<Number> engine_;
    RunReport report_;
};

extern template class Generation<std::int64_t>;
extern template class Generation<double>;

// A program whose prompt the model has read: any number of inputs go on from there.
template <typename Number>
class PreparedProgram {
public:
    // Both must outlive it.
    PreparedProgram(const Transformer& transformer, const Program& program);

    // Generates token by token.
    Result<RunReport> generate(std::string_view input, const RunLimits& limits) const;
    // The prompt read to its end, nothing generated yet.
    Result<Generation<Number>> begin(std::string_view input) const;

private:
    const Program* program_;
    std::vector<Token> prefix_;
    Engine<Number> engine_;
};

extern template class PreparedProgram<std::int64_t>;
extern template class PreparedProgram<double>;

}  // namespace hearth::vm
