// One step: packing the batch, computing it, and what becomes of its rows.
#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "engine/engine_state.h"
#include "engine/scheduler_state.h"

namespace hearth {

namespace {

constexpr double kStepSeconds = 0.05;          // prompts may make a step this long, or twice as long as without them
constexpr std::size_t kFewestPromptRows = 32;  // of a step in which others decode
constexpr std::size_t kUnknownSpeedRows = 64;
constexpr double kSmoothing = 0.2;

bool weighs_everything(const SamplingOptions& options) {
    return options.logprob || (options.temperature > 0 && (options.top_k == 0 || options.typical_p < 1));
}

double smooth(double before, double now) {
    return before == 0 ? now : before + kSmoothing * (now - before);
}

}  // namespace

// How many prompt rows a step takes. Alone a prompt gets all; beside others, so many that these do not wait long for
// their next token.
std::size_t Scheduler::Impl::prompt_budget() const {
    const std::size_t most = engine->batch_rows() - decode_rows;
    if (decode_rows == 0) return most;
    if (row_seconds <= 0) return std::min(most, kUnknownSpeedRows);
    const double spare = std::max(kStepSeconds - decode_seconds, decode_seconds);
    const double rows = std::min(spare / row_seconds, static_cast<double>(most));
    return std::min(most, std::max(kFewestPromptRows, static_cast<std::size_t>(rows)));
}

void Scheduler::Impl::learn_speed(double seconds) {
    if (prompt_rows == 0) {
        decode_seconds = smooth(decode_seconds, seconds);
    } else if (prompt_rows >= kFewestPromptRows) {
        const double others = decode_rows == 0 ? 0.0 : std::min(decode_seconds, seconds);
        row_seconds = smooth(row_seconds, (seconds - others) / static_cast<double>(prompt_rows));
    }
}

void Scheduler::Impl::add_feed(SchedulerAnswer& answer, SchedulerChoice& choice, std::size_t rows) {
    const bool last = rows == choice.sequence->pending();
    feeds.push_back({&*choice.sequence, rows, last ? Want::Last : Want::None});
    batch.push_back({&answer, static_cast<std::size_t>(&choice - answer.choices.data()), wanted_rows, {}});
    if (last) ++wanted_rows;
}

// One row for everybody who decodes, then chunks of prompts.
void Scheduler::Impl::pack() {
    feeds.clear();
    batch.clear();
    decode_rows = 0;
    prompt_rows = 0;
    wanted_rows = 0;
    prompts.clear();
    for (const auto& answer : answers) {
        if (answer->ended || answer->paused || !answer->admitted) continue;
        for (SchedulerChoice& choice : answer->choices) {
            if (choice.ended || !choice.holds_blocks()) continue;
            if (choice.sequence->pending() == 1) {
                add_feed(*answer, choice, 1);
                ++decode_rows;
            } else {
                prompts.push_back({answer.get(), &choice});
            }
        }
    }
    if (!prompts.empty()) pack_prompts(prompt_budget());
}

// Half goes to the oldest, so that every prompt gets done; the rest to those with the least left, so that as many as
// can be have their first token soon, and a short one is not held up by a long one.
void Scheduler::Impl::pack_prompts(std::size_t budget) {
    const auto give = [&](Prompt& prompt, std::size_t most) {
        const std::size_t rows = std::min({budget, most, prompt.choice->sequence->pending() - prompt.rows});
        prompt.rows += rows;
        budget -= rows;
    };
    give(prompts.front(), std::max<std::size_t>(budget / 2, 1));
    std::ranges::sort(prompts, {}, [](const Prompt& prompt) {
        return std::pair(prompt.choice->sequence->pending() - prompt.rows, prompt.answer->id);
    });
    for (Prompt& prompt : prompts) {
        give(prompt, budget);
        if (prompt.rows == 0) continue;
        prompt_rows += prompt.rows;
        add_feed(*prompt.answer, *prompt.choice, prompt.rows);
    }
}

void Scheduler::Impl::step() {
    pack();
    if (feeds.empty()) return;
    moved = true;
    const double began = monotonic_seconds();
    const Result<Logits> logits = engine->forward(feeds);
    ++counts.steps;
    if (!logits.ok()) {
        for (const BatchRow& row : batch) {
            if (!row.answer->ended) finish_answer(*row.answer, FinishReason::Failed, logits.error());
        }
        return;
    }
    const double forward_seconds = monotonic_seconds() - began;
    learn_speed(forward_seconds);
    if (options.sampling == SamplingPlace::Pool) sample_on_pool(logits.value());
    take_rows(logits.value());
    if (on_step) {
        on_step({decode_rows + prompt_rows, prompt_rows, batch.size(), monotonic_seconds() - began, forward_seconds});
    }
}

// Greedy and top-k chains read little more than the maxima of the chunks: that is done before other threads are awake.
// Chains that weigh the whole vocabulary are worth spreading (docs/results/lane.md). Choices of one grammar share its
// states, so they are left to the scheduler's thread.
void Scheduler::Impl::sample_on_pool(const Logits& logits) {
    ThreadPool& pool = engine->impl().pool;
    spread.clear();
    for (std::size_t i = 0; i < batch.size(); ++i) {
        if (feeds[i].want != Want::Last || !batch[i].answer->forked) continue;
        const Sequence& sequence = *feeds[i].sequence;
        if (!sequence.has_grammar() && weighs_everything(sequence.sampling())) spread.push_back(i);
    }
    if (spread.size() < 2 || pool.size() < 2) return;
    while (scratches.size() < pool.size()) scratches.emplace_back(engine->tokenizer().vocabulary_size());
    pool.for_each(spread.size(), [&](std::size_t item, std::size_t worker) {
        BatchRow& row = batch[spread[item]];
        try {
            row.sampled = feeds[spread[item]].sequence->sample(logits.sampler_row(row.logits), scratches[worker]);
        } catch (const std::bad_alloc&) {
            row.sampled.reset();  // tried again on the scheduler's thread, where running out of memory is handled
        }
    });
}

void Scheduler::Impl::take_rows(const Logits& logits) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
        SchedulerAnswer& answer = *batch[i].answer;
        SchedulerChoice& choice = answer.choices[batch[i].choice];
        // Those before may have taken this one's blocks: then it comes back and computes the same again.
        if (answer.ended || choice.ended || !choice.holds_blocks()) continue;
        if (!answer.forked) share_prompt(answer);
        if (feeds[i].want != Want::Last) continue;
        const LogitRow row = logits.sampler_row(batch[i].logits);
        const bool first = !answer.forked;
        if (first) fork_choices(answer);
        decode(answer, batch[i].choice, row, batch[i].sampled ? *batch[i].sampled : choice.sequence->sample(row));
        for (std::size_t k = 1; first && k < answer.choices.size() && !answer.ended; ++k) {
            if (answer.choices[k].holds_blocks()) decode(answer, k, row, answer.choices[k].sequence->sample(row));
        }
    }
}

// What is computed of a prompt can be used by others at once.
void Scheduler::Impl::share_prompt(SchedulerAnswer& answer) {
    const Sequence& sequence = *answer.choices.front().sequence;
    const std::size_t full = sequence.computed() / kKvBlockTokens * kKvBlockTokens;
    if (full <= answer.inserted) return;
    prefix.insert(answer.request.scope, sequence.chain());
    answer.inserted = full;
}

// The prompt is computed once; each further choice shares it and samples with a seed of its own.
void Scheduler::Impl::fork_choices(SchedulerAnswer& answer) {
    answer.forked = true;
    Sequence& first = *answer.choices.front().sequence;
    SamplingOptions sampling = *answer.request.sampling;
    sampling.logprob = answer.request.logprobs || answer.request.top_logprobs > 0;
    for (std::size_t i = 1; i < answer.choices.size(); ++i) {
        Result<Sequence> sibling = first.fork(first.mark());
        CHECK(sibling.ok());
        ++sampling.seed;
        sibling->set_sampling(std::make_shared<const SamplingOptions>(sampling));
        answer.choices[i].sequence = std::move(sibling).value();
    }
}

// The next token of a choice, from the logits of its last one.
void Scheduler::Impl::decode(SchedulerAnswer& answer, std::size_t index, const LogitRow& row,
                             const Result<SampledToken>& sampled) {
    SchedulerChoice& choice = answer.choices[index];
    Sequence& sequence = *choice.sequence;
    if (!sampled.ok()) return finish_answer(answer, FinishReason::Failed, sampled.error());
    const bool ends = engine->tokenizer().ends_generation(sampled->token);
    if (ends && (!answer.request.ignore_end || sequence.has_grammar())) {
        return finish_choice(answer, index, FinishReason::EndOfText);
    }
    if (sequence.length() >= engine->context()) return finish_choice(answer, index, FinishReason::Length);
    text.clear();
    if (Status added = accept(answer, choice, sampled->token); !added.ok()) {
        return finish_answer(answer, FinishReason::Failed, added.error());
    }
    if (!choice.holds_blocks()) return;  // it had to give way; later it gets here again
    ++choice.generated;
    ++counts.generated_tokens;
    ++answer.usage.generated_tokens;
    tell_token(answer, index, sampled.value(), row);
    const std::size_t most = answer.request.max_tokens;
    if (sequence.stopped()) {
        finish_choice(answer, index, FinishReason::StopString);
    } else if (sequence.must_end()) {
        finish_choice(answer, index, FinishReason::EndOfText);
    } else if ((most != 0 && choice.generated >= most) || sequence.length() >= engine->context()) {
        finish_choice(answer, index, FinishReason::Length);
    }
}

// Adds the token; when no block is free for it the youngest gives way, which may be this choice itself.
Status Scheduler::Impl::accept(SchedulerAnswer& answer, SchedulerChoice& choice, TokenId token) {
    for (;;) {
        Status added = choice.sequence->accept(token, text);
        if (added.ok() || added.error().code != ErrorCode::OutOfResources) return added;
        if (preempt_for(answer, choice)) continue;
        if (!anybody_computes(&choice)) return added;
        park(answer, choice);
        return {};
    }
}

void Scheduler::Impl::tell_token(SchedulerAnswer& answer, std::size_t choice, const SampledToken& sampled,
                                 const LogitRow& row) {
    if (answer.usage.first_token_seconds == 0) {
        answer.usage.first_token_seconds =
            std::chrono::duration<double>(SchedulerClock::now() - answer.submitted).count();
    }
    TokenEvent event;
    event.choice = choice;
    event.token = sampled.token;
    event.text = text;
    if (answer.request.logprobs) event.logprob = sampled.logprob;
    if (answer.request.top_logprobs > 0) {
        top.clear();
        if (top_logprobs(row, answer.request.top_logprobs, engine->impl().sampler_scratch, likeliest).ok()) {
            for (const SampledToken& one : likeliest) top.push_back({one.token, one.logprob});
        }
        event.top = top;
    }
    answer.request.sink->token(event);
}

void Scheduler::Impl::finish_choice(SchedulerAnswer& answer, std::size_t index, FinishReason reason) {
    SchedulerChoice& choice = answer.choices[index];
    choice.ended = true;
    text.clear();
    if (choice.sequence && choice.generated > 0 && reason != FinishReason::Failed) choice.sequence->finish_text(text);
    answer.request.sink->choice_finished(index, reason, text);
    if (choice.sequence) {
        const bool keep = answer.request.keep;
        if (choice.holds_blocks() && reason != FinishReason::Failed) {
            prefix.insert(answer.request.scope, choice.sequence->chain(), keep ? Tail::Leave : Tail::Keep);
        } else if (keep && choice.sequence->parked()) {
            static_cast<void>(choice.sequence->unpark());  // still parked when there is no room: nothing to keep then
        }
        if (keep && !choice.sequence->parked()) answer.request.sink->kept(index, std::move(*choice.sequence));
        choice.sequence.reset();
    }
    finish_if_done(answer);
}

void Scheduler::Impl::finish_answer(SchedulerAnswer& answer, FinishReason reason, const std::optional<Error>& error) {
    answer.failure = error;
    for (std::size_t i = 0; i < answer.choices.size(); ++i) {
        if (!answer.choices[i].ended) finish_choice(answer, i, reason);
    }
}

void Scheduler::Impl::finish_if_done(SchedulerAnswer& answer) {
    if (answer.ended || !std::ranges::all_of(answer.choices, &SchedulerChoice::ended)) return;
    answer.ended = true;
    moved = true;
    answer.request.from.reset();
    answer.usage.seconds = std::chrono::duration<double>(SchedulerClock::now() - answer.submitted).count();
    {
        const std::lock_guard lock(mutex);
        if (!answer.admitted) --waiting;
        --accepted;
    }
    answer.request.sink->finished(answer.usage, answer.failure);
}

}  // namespace hearth
