// Who gets KV blocks: beginning answers, taking blocks away from the youngest, giving them back.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/scheduler_state.h"

namespace hearth {

namespace {

constexpr std::size_t kBlock = kKvBlockTokens;

// What the prefix tree found, until a sequence takes it over: given back whatever happens before.
class FoundChain {
public:
    FoundChain(BlockTree& tree, const Chain& chain) : tree_(tree), chain_(chain) {}
    FoundChain(const FoundChain&) = delete;
    FoundChain& operator=(const FoundChain&) = delete;
    ~FoundChain() { tree_.release(chain_); }

    std::size_t length() const { return chain_.length; }
    Chain take() { return std::exchange(chain_, Chain{}); }

private:
    BlockTree& tree_;
    Chain chain_;
};

bool lacks_blocks(const Status& status) {
    return !status.ok() && status.error().code == ErrorCode::OutOfResources;
}

std::size_t common_prefix(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
    const std::size_t limit = std::min(a.size(), b.size());
    return static_cast<std::size_t>(
        std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(limit), b.begin()).first - a.begin());
}

}  // namespace

std::size_t Scheduler::Impl::living_choices() const {
    std::size_t count = 0;
    for (const auto& answer : answers) {
        if (!answer->admitted || answer->ended) continue;
        for (const SchedulerChoice& choice : answer->choices) count += choice.ended ? 0 : 1;
    }
    return count;
}

// Whether somebody can be computed now, and so will give blocks back sooner or later.
bool Scheduler::Impl::anybody_computes(const SchedulerChoice* but) const {
    if (!embeddings.empty() && embeddings.front()->sequence) return true;
    return std::ranges::any_of(answers, [but](const auto& answer) {
        return !answer->ended && !answer->paused &&
               std::ranges::any_of(answer->choices, [but](const SchedulerChoice& choice) {
                   return &choice != but && !choice.ended && choice.holds_blocks();
               });
    });
}

// Blocks that are missing for `length` positions, and one more to go on in, when the first `found` are shared.
std::size_t Scheduler::Impl::blocks_missing(std::size_t length, std::size_t found) {
    return length / kBlock + 1 - found / kBlock;
}

// Whether so many blocks can be had without taking any from an answer. Those who run keep one each to go on with.
bool Scheduler::Impl::room_for(std::size_t blocks) {
    const std::size_t spare = anybody_computes() ? living_choices() : 0;
    if (tree.blocks_free() >= blocks + spare) return true;
    return tree.blocks_free() + prefix.evictable() >= blocks + spare;
}

void Scheduler::Impl::admit() {
    if (!resume_parked()) return;
    for (std::size_t i = 0; i < answers.size(); ++i) {
        SchedulerAnswer& answer = *answers[i];
        if (answer.ended || answer.admitted || answer.paused) continue;
        if (living_choices() + answer.choices.size() > options.running_limit) return;
        if (!admit_answer(answer)) return;
    }
}

// The oldest parked choice first. When it does not fit, nobody else comes in before it.
bool Scheduler::Impl::resume_parked() {
    for (std::size_t i = 0; i < answers.size(); ++i) {
        SchedulerAnswer& answer = *answers[i];
        if (answer.ended || answer.paused) continue;
        for (SchedulerChoice& choice : answer.choices) {
            if (choice.ended || !choice.sequence || !choice.sequence->parked()) continue;
            const std::span<const PositionRecord> records = choice.sequence->parked_records();
            std::size_t searched = 0;
            if (!answer.request.keep) {  // the notes of a kept timeline must be its own
                resumed_tokens.resize(records.size());
                std::ranges::transform(records, resumed_tokens.begin(), &PositionRecord::token);
                searched = records.size() - 1;
            }
            FoundChain found(
                tree, searched == 0 ? Chain{} : prefix.find(answer.request.scope, resumed_tokens, searched).chain);
            const std::size_t missing = blocks_missing(records.size(), found.length());
            if (!room_for(missing) && anybody_computes()) return false;
            Status resumed = choice.sequence->unpark(found.take());
            while (!resumed.ok() && preempt_for(answer, choice)) resumed = choice.sequence->unpark();
            if (!resumed.ok()) {
                if (anybody_computes()) return false;
                finish_answer(answer, FinishReason::Failed, resumed.error());
                break;
            }
            moved = true;
        }
    }
    return true;
}

// False: blocks are missing, and those behind must wait as well.
bool Scheduler::Impl::admit_answer(SchedulerAnswer& answer) {
    if (answer.waits_for != 0) {
        const auto leader =
            std::ranges::find_if(answers, [&](const auto& other) { return other->id == answer.waits_for; });
        const bool computing = leader != answers.end() && !(*leader)->ended && !(*leader)->paused &&
                               !(*leader)->forked && (*leader)->inserted < answer.waits_until;
        if (computing) return true;
        answer.waits_for = 0;
    }
    return answer.request.from ? start_from(answer) : start_prompt(answer);
}

// Of two prompts with the same beginning that come together, the second waits until the first has computed it.
bool Scheduler::Impl::waits_for_neighbour(SchedulerAnswer& answer, std::size_t found) {
    for (const auto& other : answers) {
        if (other->ended || other->paused || !other->admitted || other->forked || other->request.from) continue;
        if (other->request.scope != answer.request.scope) continue;
        const std::size_t shared = common_prefix(other->request.prompt, answer.request.prompt) / kBlock * kBlock;
        if (shared <= found || shared <= other->inserted) continue;
        answer.waits_for = other->id;
        answer.waits_until = shared;
        return true;
    }
    return false;
}

bool Scheduler::Impl::start_prompt(SchedulerAnswer& answer) {
    const AnswerRequest& request = answer.request;
    const std::vector<TokenId>& prompt = request.prompt;
    PrefixTree::Match match = prefix.find(request.scope, prompt, prompt.size() - 1);
    FoundChain found(tree, match.chain);
    const std::size_t cached = found.length();
    if (waits_for_neighbour(answer, cached)) return true;
    if (!room_for(blocks_missing(prompt.size(), cached)) && anybody_computes()) return false;
    SchedulerChoice& choice = answer.choices.front();
    choice.sequence.emplace(engine, request.sampling, request.stops);
    choice.sequence->adopt(found.take());
    const Status appended =
        retry_preempting_paused(&choice, [&] { return choice.sequence->append(std::span(prompt).subspan(cached)); });
    if (!appended.ok()) {
        choice.sequence.reset();
        if (lacks_blocks(appended) && anybody_computes()) return false;
        finish_answer(answer, FinishReason::Failed, appended.error());
        return true;
    }
    answer.usage.cached_tokens = cached;
    answer.usage.cache_note = std::move(match.note);
    admitted(answer);
    return true;
}

// Goes on with a timeline that lives elsewhere; what it has computed stays.
bool Scheduler::Impl::start_from(SchedulerAnswer& answer) {
    AnswerRequest& request = answer.request;
    const Time before = request.from->mark();
    const std::size_t missing = blocks_missing(before.position + request.prompt.size(), before.position);
    if (!room_for(missing + 1) && anybody_computes()) return false;  // one more: its last block may be shared
    // The choice has it before anything changes: when memory runs out halfway, the answer counts as begun and ends.
    SchedulerChoice& choice = answer.choices.front();
    choice.sequence = std::exchange(request.from, std::nullopt);
    Sequence& sequence = *choice.sequence;
    const Status started = retry_preempting_paused(&choice, [&]() -> Status {
        TRY(sequence.append(request.prompt));
        sequence.recompute_last();
        Status owned = sequence.own_pending();
        if (!owned.ok()) TRY(sequence.regress(before));
        return owned;
    });
    if (!started.ok()) {
        if (lacks_blocks(started) && anybody_computes(&choice)) {
            request.from = std::exchange(choice.sequence, std::nullopt);
            return false;
        }
        finish_answer(answer, FinishReason::Failed, started.error());
        return true;
    }
    answer.usage.cached_tokens = sequence.computed();
    answer.usage.cache_note = "continues a timeline";
    admitted(answer);
    return true;
}

void Scheduler::Impl::admitted(SchedulerAnswer& answer) {
    Sequence& sequence = *answer.choices.front().sequence;
    SamplingOptions sampling = *answer.request.sampling;
    sampling.logprob = answer.request.logprobs || answer.request.top_logprobs > 0;
    sequence.begin_answer(std::make_shared<const SamplingOptions>(std::move(sampling)), answer.request.stops,
                          answer.grammar);
    answer.admitted = true;
    answer.inserted = sequence.computed() / kBlock * kBlock;
    answer.usage.prompt_tokens = sequence.length();
    answer.usage.queue_seconds = std::chrono::duration<double>(SchedulerClock::now() - answer.submitted).count();
    counts.prompt_tokens += sequence.length();
    counts.cached_tokens += answer.usage.cached_tokens;
    moved = true;
    const std::lock_guard lock(mutex);
    --waiting;
}

// Takes the blocks of the youngest choice of a paused answer: it does nothing with them. False when there is none.
bool Scheduler::Impl::preempt_paused() {
    for (std::size_t i = answers.size(); i > 0; --i) {
        SchedulerAnswer& answer = *answers[i - 1];
        if (!answer.ended && answer.paused && preempt_youngest(answer, nullptr)) return true;
    }
    return false;
}

// Where blocks are missing and nobody but `choice` computes, waiting brings none: only paused answers can give some.
Status Scheduler::Impl::retry_preempting_paused(const SchedulerChoice* choice, const std::function<Status()>& start) {
    Status started = start();
    while (lacks_blocks(started) && !anybody_computes(choice) && preempt_paused()) started = start();
    return started;
}

// Takes the blocks of the youngest choice that is younger than this one; those of paused answers first. False when
// there is none.
bool Scheduler::Impl::preempt_for(const SchedulerAnswer& answer, const SchedulerChoice& choice) {
    if (preempt_paused()) return true;
    for (std::size_t i = answers.size(); i > 0; --i) {
        SchedulerAnswer& other = *answers[i - 1];
        if (&other == &answer) return preempt_youngest(other, &choice);
        if (!other.ended && preempt_youngest(other, nullptr)) return true;
    }
    return false;
}

// Takes the blocks of an answer's youngest choice that has some, of those after `but` where that is one of them.
bool Scheduler::Impl::preempt_youngest(SchedulerAnswer& answer, const SchedulerChoice* but) {
    for (std::size_t k = answer.choices.size(); k > 0 && &answer.choices[k - 1] != but; --k) {
        SchedulerChoice& choice = answer.choices[k - 1];
        if (choice.ended || !choice.holds_blocks()) continue;
        park(answer, choice);
        return true;
    }
    return false;
}

// What was computed stays in the prefix tree as long as nobody needs the blocks: then resuming costs little.
void Scheduler::Impl::park(SchedulerAnswer& answer, SchedulerChoice& choice) {
    prefix.insert(answer.request.scope, choice.sequence->chain());
    choice.sequence->park();
    ++counts.preemptions;
    moved = true;
}

}  // namespace hearth
