// Scheduler: many answers at once from one engine. One thread owns every Sequence; each step packs a ragged batch of
// prompt chunks and decode rows. What an answer says does not depend on its neighbours, on preemption or on the cache.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/sequence.h"
#include "sampling/sampler.h"
#include "text/grammar.h"

namespace hearth {

using AnswerId = std::uint64_t;
using SchedulerClock = std::chrono::steady_clock;

struct TokenLogprob {
    TokenId token = 0;
    float logprob = 0;
};

// One generated token of one choice. Views are valid during the call.
struct TokenEvent {
    std::size_t choice = 0;
    TokenId token = 0;
    std::string_view text;              // what became certain with it; may be empty
    float logprob = 0;                  // when asked for
    std::span<const TokenLogprob> top;  // the likeliest, when asked for
};

enum class FinishReason : std::uint8_t { EndOfText, StopString, Length, Cancelled, Deadline, Failed };

struct Usage {
    std::size_t prompt_tokens = 0;
    std::size_t cached_tokens = 0;     // of the prompt: not computed again
    std::size_t generated_tokens = 0;  // of all choices
    double queue_seconds = 0;
    double first_token_seconds = 0;  // since submission
    double seconds = 0;
    std::string cache_note;  // why the prompt was (not) found: for the debug view
};

// The caller's end of an answer. Called on the scheduler's thread, one call at a time, and never blocks. It may call
// the scheduler (but not drain or destroy it): what it asks for happens before the next step.
class AnswerSink {
public:
    virtual ~AnswerSink() = default;
    virtual void token(const TokenEvent& event) = 0;
    // A choice has ended; `text` is what was still held back.
    virtual void choice_finished(std::size_t choice, FinishReason reason, std::string_view text) = 0;
    // The last call, after every choice has ended. `error` is set when the answer failed, not when it was cancelled or
    // its deadline passed: the choices say that.
    virtual void finished(const Usage& usage, const std::optional<Error>& error) = 0;
    // With AnswerRequest::keep, after choice_finished: the choice as it stands, to be continued or forked later. While
    // the scheduler lives, a Sequence is used and destroyed on its thread only (run_between_steps). A choice that had
    // lost its blocks and finds none is not kept.
    virtual void kept(std::size_t choice, Sequence sequence);
};

struct AnswerRequest {
    std::vector<TokenId> prompt;   // the whole prompt, or what is added to `from`
    std::optional<Sequence> from;  // continues this timeline (a tree's node); the prefix tree is not asked then
    std::shared_ptr<const SamplingOptions> sampling;
    std::shared_ptr<const StopStrings> stops;
    std::shared_ptr<const Grammar> grammar;  // none: free text
    std::size_t max_tokens = 0;              // 0: until the context is full
    std::size_t choices = 1;                 // answers forked after the prompt; choice i samples with seed + i
    bool logprobs = false;
    std::size_t top_logprobs = 0;  // at most 20
    bool ignore_end = false;       // go on after an end token: for benchmarks
    bool keep = false;
    std::string scope;  // prefixes are shared only within a scope
    std::optional<SchedulerClock::time_point> deadline;
    std::shared_ptr<AnswerSink> sink;
};

// The mean of the last layer's normalised hidden states over all tokens, not scaled to length 1.
struct EmbeddingRequest {
    std::vector<TokenId> tokens;
    std::function<void(Result<std::vector<float>>)> done;  // on the scheduler's thread
};

// Where the tokens of a step are chosen once its logits are there. What is chosen does not depend on it.
enum class SamplingPlace : std::uint8_t {
    Scheduler,  // one after another on the scheduler's thread
    Pool,       // rows whose chain reads the whole vocabulary on all threads of the engine, the others as above
};

struct SchedulerOptions {
    std::size_t queue_limit = 256;   // answers waiting at most; more are refused
    std::size_t running_limit = 64;  // choices decoded at once at most
    std::size_t prefix_bytes = 0;    // KV kept for later prompts at most; 0: what the running answers leave free
    SamplingPlace sampling = SamplingPlace::Pool;
    GrammarLimits grammar = {};  // of each answer that follows one; beyond them it fails
};

struct SchedulerStats {
    std::size_t waiting = 0;
    std::size_t running = 0;  // choices
    std::size_t kv_blocks = 0;
    std::size_t kv_blocks_free = 0;    // not used by anything
    std::size_t kv_blocks_cached = 0;  // used only by the prefix tree
    std::uint64_t steps = 0;
    std::uint64_t prompt_tokens = 0;
    std::uint64_t cached_tokens = 0;
    std::uint64_t generated_tokens = 0;
    std::uint64_t preemptions = 0;
    std::uint64_t cancellations = 0;
};

// Told by the scheduler's thread after each step, for histograms. Never blocks.
struct StepReport {
    std::size_t rows = 0;
    std::size_t prompt_rows = 0;
    std::size_t choices = 0;
    double seconds = 0;          // in all
    double forward_seconds = 0;  // of these, for the forward pass; the rest: choosing tokens and telling the sinks
};

class Scheduler {
public:
    // Starts its thread.
    Scheduler(std::shared_ptr<Engine> engine, const SchedulerOptions& options,
              std::function<void(const StepReport&)> on_step = {});
    // Cancels what is left and joins.
    ~Scheduler();

    // Refuses with Usage what can never run (prompt longer than the context, both counts said), with Busy when the
    // queue is full. `from` is gone in any case. From any thread.
    Result<AnswerId> submit(AnswerRequest request);
    Result<AnswerId> submit_embedding(EmbeddingRequest request);
    // Takes effect before the next step; each choice ends with Cancelled, then the answer. Unknown ids are ignored.
    void cancel(AnswerId id);
    // A paused answer keeps its place and its KV but decodes nothing: its reader is slow.
    void pause(AnswerId id);
    void resume(AnswerId id);
    // Runs `task` on the scheduler's thread between two steps: for work on sequences that live elsewhere (trees).
    void run_between_steps(std::function<void()> task);
    // Takes nothing new; returns when everything accepted has ended, or at the deadline (false). Not from a sink.
    bool drain(SchedulerClock::time_point deadline);

    SchedulerStats stats() const;
    Engine& engine() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace hearth
