// Running a program: limits, progress, and what is known at the end, whoever ran it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "vm/program.h"
#include "vm/trace_hash.h"

namespace hearth::vm {

struct RunLimits {
    std::uint64_t max_tokens = std::uint64_t{1} << 26;  // generated; positions are exact below
    double max_seconds = 0;                             // 0: no limit
    // Called now and then with the number of tokens so far; false stops the run.
    std::function<bool(std::uint64_t tokens)> on_progress;
};

struct RunReport {
    std::string output;
    std::uint64_t prompt_tokens = 0;
    std::uint64_t tokens = 0;  // generated
    double seconds = 0;
    TraceHash trace_hash;  // prompt and generated tokens
    bool halted = false;   // the program stopped by itself, by a trap too
    std::optional<TrapKind> trap;
    std::uint32_t pc = 0;       // where it stopped
    std::string stopped_by;     // which limit, when it did not stop by itself
    bool left_program = false;  // ... or because the model came to where no instruction is

    bool book(Token token);  // one more generated token; false when it is the last
};

// Watches the limits of a run.
class RunWatch {
public:
    explicit RunWatch(const RunLimits& limits);
    // False when the run must end; `stopped_by` then says why.
    bool go_on(std::uint64_t tokens);
    double seconds() const;
    const std::string& stopped_by() const { return stopped_by_; }

private:
    const RunLimits& limits_;
    double started_;
    std::string stopped_by_;
};

// The machine itself, without a model: the trace it proposes. `sink` hears every part of it.
Result<RunReport> run_native(const Program& program, std::string_view input, const RunLimits& limits,
                             const std::function<void(std::span<const Token>)>& sink = {});

}  // namespace hearth::vm
