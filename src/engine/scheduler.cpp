// The scheduler's thread and its inbox.
#include "engine/scheduler.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "engine/engine_state.h"
#include "engine/scheduler_state.h"

namespace hearth {

namespace {

constexpr std::size_t kMostLogprobs = 20;

SchedulerOptions within_engine(SchedulerOptions options, const Engine& engine) {
    options.running_limit =
        std::clamp<std::size_t>(options.running_limit, 1, std::min(engine.wanted_rows(), engine.batch_rows()));
    return options;
}

}  // namespace

void AnswerSink::kept(std::size_t, Sequence) {}

Scheduler::Impl::Impl(std::shared_ptr<Engine> shared, const SchedulerOptions& wanted,
                      std::function<void(const StepReport&)> report)
    : engine(std::move(shared)),
      options(within_engine(wanted, *engine)),
      on_step(std::move(report)),
      tree(*engine->impl().tree),
      prefix(tree, (options.prefix_bytes + tree.layout().block_bytes() - 1) / tree.layout().block_bytes()) {
    feeds.reserve(engine->batch_rows());
    batch.reserve(engine->batch_rows());
    tree.set_reclaimer([this] { return prefix.evict_one(); });
    publish();
    thread = std::thread([this] {
        const PlacedCaller placed(engine->pool());
        run();
    });
}

Scheduler::Scheduler(std::shared_ptr<Engine> engine, const SchedulerOptions& options,
                     std::function<void(const StepReport&)> on_step)
    : impl_(std::make_unique<Impl>(std::move(engine), options, std::move(on_step))) {}

Scheduler::~Scheduler() {
    {
        const std::lock_guard lock(impl_->mutex);
        impl_->stopping = true;
        impl_->draining = true;
    }
    impl_->wake.notify_all();
    impl_->thread.join();
    impl_->tree.set_reclaimer({});
}

Engine& Scheduler::engine() const {
    return *impl_->engine;
}

SchedulerStats Scheduler::stats() const {
    const std::lock_guard lock(impl_->mutex);
    SchedulerStats stats = impl_->published;
    stats.waiting = impl_->waiting;
    return stats;
}

Status Scheduler::Impl::check(const AnswerRequest& request) const {
    CHECK(request.sink != nullptr && request.sampling != nullptr);
    const auto usage = [](std::string message) { return Error{ErrorCode::Usage, std::move(message)}; };
    const std::size_t before = request.from ? request.from->length() : 0;
    const std::size_t length = before + request.prompt.size();
    if (length == 0) return usage("the prompt is empty: there is nothing to continue");
    if (length > engine->context()) {
        return usage("the prompt has " + std::to_string(length) + " tokens, the context has room for " +
                     std::to_string(engine->context()));
    }
    if (length > tree.block_count() * kKvBlockTokens) {
        return usage("the prompt has " + std::to_string(length) + " tokens, the KV memory has room for " +
                     std::to_string(tree.block_count() * kKvBlockTokens));
    }
    for (const TokenId token : request.prompt) {
        if (!engine->tokenizer().contains(token)) {
            return usage("token " + std::to_string(token) + " is not in the vocabulary");
        }
    }
    if (request.choices == 0 || request.choices > options.running_limit) {
        return usage("choices: " + std::to_string(request.choices) + " is outside [1, " +
                     std::to_string(options.running_limit) + "]");
    }
    if (request.top_logprobs > kMostLogprobs) {
        return usage("top_logprobs: " + std::to_string(request.top_logprobs) + " is outside [0, 20]");
    }
    return request.sampling->validate(engine->tokenizer().vocabulary_size());
}

// Numbers the command and puts it into the inbox, unless the scheduler is full or ending.
Result<AnswerId> Scheduler::Impl::accept_command(Command command) {
    std::unique_lock lock(mutex);
    std::optional<Error> refused;
    if (draining) refused = Error{ErrorCode::Busy, "shutting down: nothing new is taken"};
    if (!refused && waiting >= options.queue_limit) {
        refused = Error{ErrorCode::Busy, std::to_string(waiting) + " answers are waiting already, the limit is " +
                                             std::to_string(options.queue_limit)};
    }
    if (refused) {
        // A timeline may only die on the scheduler's thread.
        if (command.answer && command.answer->request.from) {
            Command release;
            release.kind = CommandKind::Release;
            release.released = std::move(command.answer->request.from);
            inbox.push_back(std::move(release));
            wake.notify_one();
        }
        return std::move(*refused);
    }
    const AnswerId id = ++last_id;
    command.id = id;
    if (command.answer) command.answer->id = id;
    if (command.embedding) command.embedding->id = id;
    ++accepted;
    ++waiting;
    inbox.push_back(std::move(command));
    wake.notify_one();
    return id;
}

void Scheduler::Impl::send(Command command) {
    {
        const std::lock_guard lock(mutex);
        inbox.push_back(std::move(command));
    }
    wake.notify_one();
}

Result<AnswerId> Scheduler::submit(AnswerRequest request) {
    if (Status status = impl_->check(request); !status.ok()) {
        if (request.from) {
            Impl::Command release;
            release.kind = Impl::CommandKind::Release;
            release.released = std::move(request.from);
            impl_->send(std::move(release));
        }
        return std::move(status).error();
    }
    auto answer = std::make_unique<SchedulerAnswer>();
    if (request.grammar)
        answer->grammar =
            std::make_shared<TokenGrammar>(request.grammar, impl_->engine->token_trie(), impl_->options.grammar);
    answer->request = std::move(request);
    answer->submitted = SchedulerClock::now();
    Impl::Command command;
    command.kind = Impl::CommandKind::Submit;
    command.answer = std::move(answer);
    return impl_->accept_command(std::move(command));
}

Result<AnswerId> Scheduler::submit_embedding(EmbeddingRequest request) {
    const std::size_t length = request.tokens.size();
    if (length == 0) return Error{ErrorCode::Usage, "the input is empty: there is nothing to embed"};
    if (length > impl_->engine->context()) {
        return Error{ErrorCode::Usage, "the input has " + std::to_string(length) +
                                           " tokens, the context has room for " +
                                           std::to_string(impl_->engine->context())};
    }
    for (const TokenId token : request.tokens) {
        if (!impl_->engine->tokenizer().contains(token)) {
            return Error{ErrorCode::Usage, "token " + std::to_string(token) + " is not in the vocabulary"};
        }
    }
    Impl::Command command;
    command.kind = Impl::CommandKind::Embed;
    command.embedding = std::make_unique<SchedulerEmbedding>();
    command.embedding->request = std::move(request);
    return impl_->accept_command(std::move(command));
}

void Scheduler::cancel(AnswerId id) {
    Impl::Command command;
    command.kind = Impl::CommandKind::Cancel;
    command.id = id;
    impl_->send(std::move(command));
}

void Scheduler::pause(AnswerId id) {
    Impl::Command command;
    command.kind = Impl::CommandKind::Pause;
    command.id = id;
    impl_->send(std::move(command));
}

void Scheduler::resume(AnswerId id) {
    Impl::Command command;
    command.kind = Impl::CommandKind::Resume;
    command.id = id;
    impl_->send(std::move(command));
}

void Scheduler::run_between_steps(std::function<void()> task) {
    Impl::Command command;
    command.kind = Impl::CommandKind::Task;
    command.task = std::move(task);
    impl_->send(std::move(command));
}

bool Scheduler::drain(SchedulerClock::time_point deadline) {
    CHECK(std::this_thread::get_id() != impl_->thread.get_id());  // it would wait for itself
    std::unique_lock lock(impl_->mutex);
    impl_->draining = true;
    // Resting: what the last answer left behind has been put in order, and the engine is not touched any more.
    return impl_->idle.wait_until(lock, deadline, [this] { return impl_->accepted == 0 && impl_->resting; });
}

void Scheduler::Impl::run() {
    while (take_commands()) {
        try {
            expire();
            admit();
            step();
            embed_some();
            sweep();
            publish();
        } catch (const std::bad_alloc&) {
            run_out_of_memory();
        }
    }
    end_everything();
}

// An allocation failed somewhere in a round: what was being computed ends with an error, and what is kept for later
// goes. With nothing running, the one that could not begin.
void Scheduler::Impl::run_out_of_memory() {
    const Error error{ErrorCode::OutOfResources, "out of memory"};
    prefix.clear();
    bool ended = false;
    for (const auto& answer : answers) {
        const bool begun = answer->admitted || std::ranges::any_of(answer->choices, [](const SchedulerChoice& choice) {
                               return choice.ended || choice.sequence.has_value();
                           });
        if (answer->ended || !begun) continue;
        drop(*answer, error);
        ended = true;
    }
    const auto waiting_answer = std::ranges::find_if(answers, [](const auto& answer) { return !answer->ended; });
    if (!embeddings.empty() && (embeddings.front()->sequence || (!ended && waiting_answer == answers.end()))) {
        finish_embedding(error);
    } else if (!ended && waiting_answer != answers.end()) {
        drop(**waiting_answer, error);
    }
    sweep();
}

// As finish_answer, whatever the state of its choices. A sink that runs out of memory itself hears no more.
void Scheduler::Impl::drop(SchedulerAnswer& answer, const Error& error) {
    try {
        finish_answer(answer, FinishReason::Failed, error);
    } catch (const std::bad_alloc&) {
        answer.failure = error;
    }
    for (SchedulerChoice& choice : answer.choices) {
        choice.ended = true;
        choice.sequence.reset();
    }
    try {
        finish_if_done(answer);
    } catch (const std::bad_alloc&) {
        answer.request.sink.reset();
    }
}

// Sleeps when nothing changed in the last round, then takes the inbox. Every command before a step takes effect in it.
bool Scheduler::Impl::take_commands() {
    {
        std::unique_lock lock(mutex);
        if (!moved) {
            if (accepted == 0 && inbox.empty()) {
                resting = true;
                idle.notify_all();
            }
            wait_for_work(lock);
            resting = false;
        }
        moved = false;
        if (stopping) return false;
        commands.swap(inbox);
    }
    for (Command& command : commands) {
        try {
            apply(command);
        } catch (const std::bad_alloc&) {
            // What was to be taken over is still with the command; what was to be cancelled is among the answers.
            const Error error{ErrorCode::OutOfResources, "out of memory"};
            if (command.answer) drop(*command.answer, error);
            for (const auto& answer : answers) {
                if (answer->id == command.id && !answer->ended) drop(*answer, error);
            }
            if (command.embedding) end_embedding(*command.embedding, error);
        }
    }
    commands.clear();
    return true;
}

void Scheduler::Impl::wait_for_work(std::unique_lock<std::mutex>& lock) {
    std::optional<SchedulerClock::time_point> nearest;
    for (const auto& answer : answers) {
        const auto& deadline = answer->request.deadline;
        if (deadline && (!nearest || *deadline < *nearest)) nearest = deadline;
    }
    const auto called = [this] { return stopping || !inbox.empty(); };
    if (nearest) {
        wake.wait_until(lock, *nearest, called);
    } else {
        wake.wait(lock, called);
    }
}

void Scheduler::Impl::apply(Command& command) {
    const auto find = [&]() -> SchedulerAnswer* {
        for (const auto& answer : answers) {
            if (answer->id == command.id && !answer->ended) return answer.get();
        }
        return nullptr;
    };
    switch (command.kind) {
        case CommandKind::Submit:
            command.answer->choices.resize(command.answer->request.choices);
            answers.push_back(std::move(command.answer));
            break;
        case CommandKind::Embed: embeddings.push_back(std::move(command.embedding)); break;
        case CommandKind::Cancel:
            if (SchedulerAnswer* answer = find()) {
                ++counts.cancellations;
                finish_answer(*answer, FinishReason::Cancelled);
            }
            for (std::size_t i = 0; i < embeddings.size(); ++i) {
                if (embeddings[i]->id != command.id) continue;
                ++counts.cancellations;
                const std::unique_ptr<SchedulerEmbedding> job = std::move(embeddings[i]);
                embeddings.erase(embeddings.begin() + static_cast<std::ptrdiff_t>(i));
                end_embedding(*job, Error{ErrorCode::Cancelled, "cancelled"});
                break;
            }
            break;
        case CommandKind::Pause:
            if (SchedulerAnswer* answer = find()) answer->paused = true;
            break;
        case CommandKind::Resume:
            if (SchedulerAnswer* answer = find()) answer->paused = false;
            break;
        case CommandKind::Task: command.task(); break;
        case CommandKind::Release: command.released.reset(); break;
    }
}

void Scheduler::Impl::expire() {
    std::optional<SchedulerClock::time_point> now;
    for (std::size_t i = 0; i < answers.size(); ++i) {
        SchedulerAnswer& answer = *answers[i];
        if (answer.ended || !answer.request.deadline) continue;
        if (!now) now = SchedulerClock::now();
        if (*answer.request.deadline <= *now) finish_answer(answer, FinishReason::Deadline);
    }
}

void Scheduler::Impl::sweep() {
    std::erase_if(answers, [](const auto& answer) { return answer->ended; });
}

// Also when nothing ran: a cancelled answer gives its blocks back.
void Scheduler::Impl::publish() {
    counts.kv_blocks = tree.block_count();
    counts.kv_blocks_free = tree.blocks_free();
    if (seen_changes != tree.changes()) {
        counts.kv_blocks_cached = prefix.evictable();
        seen_changes = tree.changes();
    }
    counts.running = living_choices();
    const std::lock_guard lock(mutex);
    published = counts;
}

// The scheduler ends: everything accepted is cancelled, also what is still in the inbox.
void Scheduler::Impl::end_everything() {
    for (;;) {
        {
            const std::lock_guard lock(mutex);
            commands.swap(inbox);
        }
        if (commands.empty() && answers.empty() && embeddings.empty()) break;
        for (Command& command : commands) apply(command);
        commands.clear();
        for (const auto& answer : answers) {
            if (!answer->ended) finish_answer(*answer, FinishReason::Cancelled);
        }
        answers.clear();
        while (!embeddings.empty()) finish_embedding(Error{ErrorCode::Cancelled, "the scheduler ends"});
    }
    prefix.clear();
    publish();
}

}  // namespace hearth
