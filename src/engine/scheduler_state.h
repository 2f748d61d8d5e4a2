// The inside of a Scheduler. Everything but the inbox belongs to its thread; callers only put commands into the inbox.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/scheduler.h"
#include "kv/prefix_tree.h"

namespace hearth {

// One of an answer's texts. Choices but the first come to life when the prompt has been computed.
struct SchedulerChoice {
    std::optional<Sequence> sequence;
    std::size_t generated = 0;
    bool ended = false;

    bool holds_blocks() const { return sequence.has_value() && !sequence->parked(); }
};

struct SchedulerAnswer {
    AnswerId id = 0;
    AnswerRequest request;
    std::shared_ptr<TokenGrammar> grammar;
    std::vector<SchedulerChoice> choices;
    Usage usage;
    SchedulerClock::time_point submitted;
    bool admitted = false;
    bool forked = false;  // the prompt is computed, every choice lives
    bool paused = false;
    bool ended = false;        // finished() has been said; removed after the step
    std::size_t inserted = 0;  // positions of the prompt already in the prefix tree
    std::optional<Error> failure;
    AnswerId waits_for = 0;  // an answer that is computing the same beginning
    std::size_t waits_until = 0;
};

struct SchedulerEmbedding {
    AnswerId id = 0;
    EmbeddingRequest request;
    std::optional<Sequence> sequence;
    std::vector<double> sum;
};

struct Scheduler::Impl {
    Impl(std::shared_ptr<Engine> engine, const SchedulerOptions& options,
         std::function<void(const StepReport&)> on_step);

    // What the callers want, in the order they said it.
    enum class CommandKind : std::uint8_t { Submit, Embed, Cancel, Pause, Resume, Task, Release };
    struct Command {
        CommandKind kind = CommandKind::Task;
        AnswerId id = 0;
        std::unique_ptr<SchedulerAnswer> answer = nullptr;
        std::unique_ptr<SchedulerEmbedding> embedding = nullptr;
        std::function<void()> task = {};
        std::optional<Sequence> released = std::nullopt;  // dropped on this thread: its blocks are
    };
    void send(Command command);
    Status check(const AnswerRequest& request) const;
    Result<AnswerId> accept_command(Command command);

    // scheduler.cpp: the thread.
    void run();
    void wait_for_work(std::unique_lock<std::mutex>& lock);
    bool take_commands();  // false: stop
    void apply(Command& command);
    void expire();
    void sweep();
    void publish();
    void end_everything();
    void run_out_of_memory();
    void drop(SchedulerAnswer& answer, const Error& error);

    // scheduler_admission.cpp: who gets blocks.
    void admit();
    bool resume_parked();  // false: blocks are missing, nobody new comes in
    bool admit_answer(SchedulerAnswer& answer);
    bool start_from(SchedulerAnswer& answer);
    bool start_prompt(SchedulerAnswer& answer);
    bool waits_for_neighbour(SchedulerAnswer& answer, std::size_t found);
    void admitted(SchedulerAnswer& answer);
    static std::size_t blocks_missing(std::size_t length, std::size_t found);
    bool room_for(std::size_t blocks);
    Status retry_preempting_paused(const SchedulerChoice* choice, const std::function<Status()>& start);
    bool preempt_paused();
    bool preempt_youngest(SchedulerAnswer& answer, const SchedulerChoice* but);
    bool preempt_for(const SchedulerAnswer& answer, const SchedulerChoice& choice);
    void park(SchedulerAnswer& answer, SchedulerChoice& choice);
    std::size_t living_choices() const;
    bool anybody_computes(const SchedulerChoice* but = nullptr) const;

    // scheduler_step.cpp: one step.
    void step();
    void pack();
    void pack_prompts(std::size_t budget);
    void add_feed(SchedulerAnswer& answer, SchedulerChoice& choice, std::size_t rows);
    std::size_t prompt_budget() const;
    void learn_speed(double seconds);
    void take_rows(const Logits& logits);
    void sample_on_pool(const Logits& logits);
    void share_prompt(SchedulerAnswer& answer);
    void fork_choices(SchedulerAnswer& answer);
    void decode(SchedulerAnswer& answer, std::size_t choice, const LogitRow& row, const Result<SampledToken>& sampled);
    Status accept(SchedulerAnswer& answer, SchedulerChoice& choice, TokenId token);
    void tell_token(SchedulerAnswer& answer, std::size_t choice, const SampledToken& sampled, const LogitRow& row);
    void finish_choice(SchedulerAnswer& answer, std::size_t choice, FinishReason reason);
    void finish_answer(SchedulerAnswer& answer, FinishReason reason, const std::optional<Error>& error = {});
    void finish_if_done(SchedulerAnswer& answer);

    // scheduler_embedding.cpp.
    void embed_some();
    void finish_embedding(Result<std::vector<float>> result);
    void end_embedding(SchedulerEmbedding& job, Result<std::vector<float>> result);

    struct BatchRow {
        SchedulerAnswer* answer;
        std::size_t choice;
        std::size_t logits;  // its row of them, when its feed wants any
        std::optional<Result<SampledToken>> sampled;
    };

    std::shared_ptr<Engine> engine;
    SchedulerOptions options;
    std::function<void(const StepReport&)> on_step;
    BlockTree& tree;
    PrefixTree prefix;

    std::vector<std::unique_ptr<SchedulerAnswer>> answers;  // by age; admitted ones and those that wait
    std::deque<std::unique_ptr<SchedulerEmbedding>> embeddings;

    // The step being made; reserved once.
    std::vector<SamplerScratch> scratches;  // one a worker
    std::vector<std::size_t> spread;        // rows of the batch chosen on the pool
    struct Prompt {
        SchedulerAnswer* answer;
        SchedulerChoice* choice;
        std::size_t rows = 0;
    };
    std::vector<Feed> feeds;
    std::vector<BatchRow> batch;
    std::vector<Prompt> prompts;
    std::size_t decode_rows = 0;
    std::size_t prompt_rows = 0;
    std::size_t wanted_rows = 0;  // feeds with logits so far
    std::string text;
    std::vector<SampledToken> likeliest;
    std::vector<TokenLogprob> top;
    std::vector<TokenId> resumed_tokens;
    double decode_seconds = 0;  // of a step without prompts, smoothed
    double row_seconds = 0;     // of a prompt row, smoothed
    SchedulerStats counts;
    std::uint64_t seen_changes = ~std::uint64_t{0};
    bool moved = false;  // something was computed, begun or ended in this round

    mutable std::mutex mutex;
    std::condition_variable wake;
    std::condition_variable idle;
    std::vector<Command> inbox;     // under mutex
    std::vector<Command> commands;  // being applied
    bool stopping = false;          // under mutex
    bool draining = false;          // under mutex
    bool resting = false;           // under mutex: the thread waits and there is nothing left to do
    std::size_t accepted = 0;       // under mutex: answers and embeddings not ended
    std::size_t waiting = 0;        // under mutex: of these, not yet admitted
    AnswerId last_id = 0;           // under mutex
    SchedulerStats published;       // under mutex
    std::thread thread;             // last: everything else is there when it starts
};

}  // namespace hearth
