// Checking a whole trace: at every position the model is asked what comes next. Blocks are checked in parallel, each
// from a state that the machine itself, running ahead, says it begins with; that state is compared with the one the
// model reaches at the end of the block before. So nothing but the model decides.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "machine/thread_pool.h"
#include "vm/forerunner.h"
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
    // Both must outlive it.
    TraceVerifier(const Transformer& transformer, ThreadPool& pool);

    // Reads a prompt, up to and with its start token.
    void begin(std::span<const Token> prompt);
    // Checks these tokens as what follows; nothing when all are what the model predicts. `go_on` is asked now and
    // then and stops the check by answering false.
    std::optional<Mismatch> check(std::span<const Token> tokens, const std::function<bool(std::uint64_t)>& go_on);
    std::span<const Token> tokens() const { return tokens_; }
    bool stopped() const { return stopped_; }
    // So many tokens, the prompt's among them, are what the model says.
    std::size_t checked() const { return next_ + 1; }
    // Blocks whose assumed state was the model's own; the others were checked again from the model's.
    std::size_t blocks_assumed() const { return assumed_; }

private:
    static constexpr std::size_t kBlock = 1 << 13;
    struct Block {
        std::size_t first = 0, end = 0;  // tokens to feed: [first, end); each is followed by what it must predict
        std::unique_ptr<Engine<Number>> engine;  // at `first`; after the check, at `end`
        std::unique_ptr<Engine<Number>> early;   // a little before `first`; none where the state is known
        std::unique_ptr<Engine<Number>> start;   // what was assumed at `first`
        std::optional<Mismatch> mismatch;
        enum class Stage : std::uint8_t { Ready, Running, Done } stage = Stage::Ready;
    };
    std::unique_ptr<Block> prepare();
    bool run_ahead(std::size_t position);
    void run(Block& block) const;
    void work(const std::function<bool(std::uint64_t)>& go_on);
    void settle(const std::function<bool(std::uint64_t)>& go_on);
    std::optional<Mismatch> check_alone(const std::function<bool(std::uint64_t)>& go_on);

    const Transformer& transformer_;
    ThreadPool& pool_;
    std::vector<Token> tokens_;
    std::unique_ptr<Engine<Number>> engine_;  // the model's own state, at `next_`
    std::size_t next_ = 0;                    // first token not checked
    std::unique_ptr<Forerunner<Number>> ahead_;
    bool stopped_ = false;
    std::size_t assumed_ = 0;

    // Of one check with several threads.
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::unique_ptr<Block>> blocks_;               // in the order of the trace
    std::size_t cut_ = 0;                                     // where the next block begins
    std::unique_ptr<Engine<Number>> cut_early_, cut_engine_;  // what is assumed there; none: the model's own
    bool preparing_ = false, cut_all_ = false, over_ = false;
    bool wrong_assumption_ = false;
    std::optional<Mismatch> mismatch_;
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
