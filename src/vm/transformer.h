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
};

// Milliseconds; the same weights every time.
std::unique_ptr<Transformer> build_transformer(HeadMode mode);

// A program whose prompt the model has read: any number of inputs go on from there.
template <typename Number>
class PreparedProgram {
public:
    // Both must outlive it.
    PreparedProgram(const Transformer& transformer, const Program& program);

    // Generates token by token.
    Result<RunReport> generate(std::string_view input, const RunLimits& limits) const;

    std::uint64_t prefix_tokens() const { return prefix_.size(); }

private:
    Engine<Number> begin(std::string_view input, RunReport& report) const;

    const Program* program_;
    std::vector<Token> prefix_;
    Engine<Number> engine_;
};

extern template class PreparedProgram<std::int64_t>;
extern template class PreparedProgram<double>;

}  // namespace hearth::vm
