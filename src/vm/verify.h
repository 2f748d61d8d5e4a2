// Checking a whole trace: at every position the model is asked what comes next. Blocks are checked in parallel; a
// pass that only writes entries runs ahead and leaves each block the state it begins with.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "machine/thread_pool.h"
#include "vm/transformer.h"

namespace hearth::vm {

struct Mismatch {
    std::uint64_t position = 0;
    Token expected = 0;   // what the trace says
    Token predicted = 0;  // what the model says
    std::uint32_t pc = 0;
};

template <typename Number>
class TraceVerifier {
public:
    // All three must outlive it.
    TraceVerifier(const Transformer& transformer, ThreadPool& pool);

    // Reads a prompt, up to and with its start token.
    void begin(std::span<const Token> prompt);
    // Checks these tokens as what follows; nothing when all are what the model predicts. `go_on` is asked now and
    // then and stops the check by answering false.
    std::optional<Mismatch> check(std::span<const Token> tokens, const std::function<bool(std::uint64_t)>& go_on);
    std::uint64_t position() const { return tokens_.size(); }
    std::span<const Token> tokens() const { return tokens_; }
    bool stopped() const { return stopped_; }

private:
    static constexpr std::size_t kBlock = 1 << 14;
    struct Job {
        std::unique_ptr<Engine<Number>> engine;
        std::size_t first = 0, end = 0;  // tokens to feed: [first, end); each is followed by what it must predict
        std::optional<Mismatch> mismatch;
    };
    std::vector<Job> prepare(std::size_t count);
    std::optional<Mismatch> check_alone(const std::function<bool(std::uint64_t)>& go_on);
    static void run(Job& job, std::span<const Token> tokens);

    const Transformer& transformer_;
    ThreadPool& pool_;
    std::vector<Token> tokens_;
    std::unique_ptr<Engine<Number>> ahead_;
    std::size_t next_ = 0;  // first token not handed out
    bool stopped_ = false;
};

extern template class TraceVerifier<std::int64_t>;
extern template class TraceVerifier<double>;

// "position 812: the trace says 05, the model 06; at instruction 17 (add32 s3, s1, s2) of function compute, ...".
std::string describe(const Mismatch& mismatch, const Program& program, std::span<const Token> tokens);

// A prompt must begin with "{" and hold one start token, the rest of a trace none; what ends it ends it.
struct TraceParts {
    std::span<const Token> prompt, generated;
};
Result<TraceParts> split_trace(std::span<const Token> tokens);

// Tokens from their names between white space.
Result<std::vector<Token>> parse_trace(std::string_view text);

}  // namespace hearth::vm
