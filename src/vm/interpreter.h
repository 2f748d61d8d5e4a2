// The machine run directly: the oracle of what the model must say, and the cheap proposer of its traces.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "vm/program.h"

namespace hearth::vm {

// What an instruction did to the machine, with the place in the trace of the token that did it.
struct StateChange {
    enum class Kind : std::uint8_t {
        Slot,  // slot `key` is `value`
        Byte,  // byte `key` of the memory is `value`
        Call,  // call number `key` was made at instruction `value`, in the frame `frame`
    };
    Kind kind = Kind::Slot;
    std::uint32_t key = 0;
    std::uint32_t frame = 0;
    std::uint64_t value = 0;
    std::size_t at = 0;  // in the vector of tokens
};

class Interpreter {
public:
    enum class State : std::uint8_t { Running, Halted, Trapped };

    // `program` must outlive the interpreter; it and the input must have been checked.
    Interpreter(const Program& program, std::string_view input);

    // Executes whole instructions and appends their tokens to `trace` until it has at least `want` tokens or the
    // program stops. The prompt is not part of the trace.
    State run_traced(std::vector<Token>& trace, std::size_t want);
    // And appends what they did.
    State run_followed(std::vector<Token>& trace, std::size_t want, std::vector<StateChange>& changes);
    // The same without a trace, at most `instructions` of them.
    State run(std::uint64_t instructions);

    State state() const { return state_; }
    TrapKind trap() const { return trap_; }
    std::uint32_t pc() const { return pc_; }  // of the next instruction, or of the one that stopped
    std::uint32_t frame() const { return frame_; }
    std::size_t depth() const { return calls_.size(); }
    const std::string& output() const { return output_; }

private:
    struct Frame {
        std::uint32_t pc;
        std::uint32_t frame;
    };
    struct NoTrace;
    struct Trace;
    struct FollowedTrace;

    template <typename Sink>
    void step(Sink& sink);
    template <typename Sink>
    void arithmetic(const Instruction& instruction, Sink& sink);
    template <typename Sink>
    void divide(const Instruction& instruction, Sink& sink);
    template <typename Sink>
    void shift(const Instruction& instruction, Sink& sink);
    template <typename Sink>
    void load(const Instruction& instruction, Sink& sink);
    template <typename Sink>
    void store(const Instruction& instruction, Sink& sink);
    template <typename Sink>
    void call(std::uint32_t target, std::uint32_t advance, Sink& sink);
    template <typename Sink>
    void leave(Sink& sink);
    template <typename Sink>
    void branch(bool taken, std::uint32_t target, Sink& sink);
    template <typename Sink>
    void stop(TrapKind kind, Sink& sink);
    template <typename Sink>
    void finish32(std::uint32_t d, std::uint32_t value, Sink& sink);  // a result of free length
    template <typename Sink>
    void finish64(std::uint32_t d, std::uint64_t value, Sink& sink);

    std::uint64_t read(std::uint32_t field) const {
        return field < kAbsolute ? frames_[frame_ - kFirstFrame + field] : absolute_[field - kAbsolute];
    }
    std::uint32_t low(std::uint32_t field) const { return static_cast<std::uint32_t>(read(field)); }
    // The token that commits it has just been written.
    template <typename Sink>
    void write(std::uint32_t field, std::uint64_t value, Sink& sink) {
        (field < kAbsolute ? frames_[frame_ - kFirstFrame + field] : absolute_[field - kAbsolute]) = value;
        sink.slot(field < kAbsolute ? frame_ + field : field, value);
    }
    std::uint64_t memory_limit() const {
        return std::min<std::uint64_t>(absolute_[kMemoryPagesSlot], kMaxPages) * kPageBytes;
    }
    bool reserve_memory(std::uint64_t end);

    const Program* program_;
    std::vector<std::uint64_t> absolute_;
    std::vector<std::uint64_t> frames_;
    std::vector<Frame> calls_;
    std::vector<std::uint8_t> memory_;  // grows to what was written; the rest reads as zero
    std::vector<std::uint8_t> table_;
    std::uint32_t pc_ = 0;
    std::uint32_t frame_ = kFirstFrame;
    State state_ = State::Running;
    TrapKind trap_ = TrapKind::Unreachable;
    std::string output_;
};

}  // namespace hearth::vm
