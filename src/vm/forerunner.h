// The machine itself running ahead of the model: it proposes the tokens and brings the model's tables to any point of
// the trace at a fiftieth of the model's cost. Nothing it says is believed: verify.cpp compares the state the model
// arrives at with the one assumed here.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "vm/engine.h"
#include "vm/interpreter.h"

namespace hearth::vm {

template <typename Number>
class Forerunner {
public:
    // What is found by position is not kept here: an engine that is fed this many tokens from an earlier point has it.
    static constexpr std::size_t kWarmUp = 64;

    // `engine` has read the prompt, all but its last token. Nothing where the prompt lists no program (it is baked in),
    // or where the tables are not those of the machine (hulls).
    static std::unique_ptr<Forerunner> create(const Forward& forward, const Engine<Number>& engine,
                                              std::span<const Token> prompt);
    struct Tables {  // numbers of Forward::tables
        std::size_t slots = 0, memory = 0, calls = 0, counts = 0, jump = 0, frame = 0, run = 0;
    };
    Forerunner(Program program, const Tables& tables, Engine<Number> engine)
        : program_(std::move(program)), tables_(tables), engine_(std::move(engine)), interpreter_(program_, "") {}
    Forerunner(const Forerunner&) = delete;
    Forerunner& operator=(const Forerunner&) = delete;

    // Whole instructions, until it is at `position` or the program stops; their tokens are appended to `trace`.
    void advance(std::vector<Token>& trace, std::uint64_t position);
    bool running() const { return interpreter_.state() == Interpreter::State::Running; }
    std::uint64_t position() const { return engine_.position(); }
    // The model as it is between the last instruction and the next, but for what is found by position.
    Engine<Number> engine();

private:
    static std::optional<Tables> find_tables(const Forward& forward);
    void apply(const StateChange& change, std::uint64_t position);

    Program program_;
    Tables tables_;
    Engine<Number> engine_;
    Interpreter interpreter_;
    std::vector<Token> tokens_;  // of one advance
    std::vector<StateChange> changes_;
};

extern template class Forerunner<std::int64_t>;
extern template class Forerunner<double>;

}  // namespace hearth::vm
