// Embeddings: one input at a time, a chunk between two steps, so that decoding goes on beside it.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "engine/scheduler_state.h"

namespace hearth {

void Scheduler::Impl::embed_some() {
    if (embeddings.empty()) return;
    SchedulerEmbedding& job = *embeddings.front();
    if (!job.sequence) {
        // Those who compute give blocks back in time. Asked first: an append that fails empties the prefix tree.
        if (!room_for(blocks_missing(job.request.tokens.size(), 0)) && anybody_computes()) return;
        Sequence sequence(engine, std::make_shared<const SamplingOptions>());
        const Status appended = retry_preempting_paused(nullptr, [&] { return sequence.append(job.request.tokens); });
        if (!appended.ok()) {
            if (appended.error().code == ErrorCode::OutOfResources && anybody_computes()) return;
            return finish_embedding(appended.error());
        }
        job.sequence = std::move(sequence);
        job.sum.assign(engine->info().dim, 0.0);
        const std::lock_guard lock(mutex);
        --waiting;
    }
    moved = true;
    const std::size_t rows = std::min({job.sequence->pending(), engine->wanted_rows(), prompt_budget()});
    const Feed feed{&*job.sequence, rows, Want::All};
    const double began = monotonic_seconds();
    const Result<std::span<const float>> hidden = engine->forward_hidden({&feed, 1});
    ++counts.steps;
    if (!hidden.ok()) return finish_embedding(hidden.error());
    const std::size_t dim = job.sum.size();
    for (std::size_t i = 0; i < hidden->size(); ++i) job.sum[i % dim] += static_cast<double>(hidden.value()[i]);
    const double seconds = monotonic_seconds() - began;
    if (on_step) on_step({rows, rows, 1, seconds, seconds});
    if (job.sequence->pending() > 0) return;
    std::vector<float> mean(dim);
    const double count = static_cast<double>(job.request.tokens.size());
    for (std::size_t i = 0; i < dim; ++i) mean[i] = static_cast<float>(job.sum[i] / count);
    counts.prompt_tokens += job.request.tokens.size();
    finish_embedding(std::move(mean));
}

// Ends the first in the queue.
void Scheduler::Impl::finish_embedding(Result<std::vector<float>> result) {
    const std::unique_ptr<SchedulerEmbedding> job = std::move(embeddings.front());
    embeddings.pop_front();
    end_embedding(*job, std::move(result));
}

void Scheduler::Impl::end_embedding(SchedulerEmbedding& job, Result<std::vector<float>> result) {
    moved = true;
    const bool began = job.sequence.has_value();
    job.sequence.reset();
    {
        const std::lock_guard lock(mutex);
        if (!began) --waiting;
        --accepted;
    }
    job.request.done(std::move(result));
}

}  // namespace hearth
