#include "server/api/answer_job.h"

#include <algorithm>

#include "base/clock.h"

namespace hearth {

// Each request's answers tell the job, which numbers the choices of all requests through.
class AnswerJob::Sink : public AnswerSink {
public:
    Sink(std::shared_ptr<AnswerJob> job, std::size_t first_choice) : job_(std::move(job)), first_(first_choice) {}
    void token(const TokenEvent& event) override { job_->token(first_, event); }
    void choice_finished(std::size_t choice, FinishReason reason, std::string_view text) override {
        job_->choice_finished(first_ + choice, reason, text);
    }
    void finished(const Usage& usage, const std::optional<Error>& error) override { job_->finished(usage, error); }

private:
    std::shared_ptr<AnswerJob> job_;
    std::size_t first_;
};

AnswerJob::AnswerJob(std::shared_ptr<HttpExchange> exchange, ServedModel* model, std::unique_ptr<Reply> reply,
                     OnReport on_report)
    : exchange_(std::move(exchange)), model_(model), reply_(std::move(reply)), on_report_(std::move(on_report)) {
    report_.model = model_->name;
}

std::optional<ApiError> AnswerJob::start(std::vector<AnswerRequest> requests) {
    // The exchange keeps the watcher, so the watcher must not keep the job (which keeps the exchange).
    const std::weak_ptr<AnswerJob> weak = weak_from_this();
    exchange_->watch({.gone =
                          [weak] {
                              if (const auto job = weak.lock()) job->cancel_all();
                          },
                      .slow =
                          [weak] {
                              if (const auto job = weak.lock()) job->set_slow(true);
                          },
                      .caught_up =
                          [weak] {
                              if (const auto job = weak.lock()) job->set_slow(false);
                          }});
    {
        const std::scoped_lock lock(mutex_);
        open_ = requests.size();
    }
    std::size_t first_choice = 0;
    for (AnswerRequest& request : requests) {
        request.sink = std::make_shared<Sink>(shared_from_this(), first_choice);
        first_choice += request.choices;
        const Result<AnswerId> id = model_->scheduler.submit(std::move(request));
        if (!id.ok()) {
            cancel_all();
            const ApiError error = api_error(id.error());
            const std::scoped_lock lock(mutex_);
            fail(error);
            return error;
        }
        const std::scoped_lock lock(ids_mutex_);
        ids_.push_back(id.value());
        if (gone_) model_->scheduler.cancel(id.value());
        if (slow_) model_->scheduler.pause(id.value());
    }
    const std::scoped_lock lock(mutex_);
    if (!over_) begin();
    return {};
}

void AnswerJob::cancel_all() {
    const std::scoped_lock lock(ids_mutex_);
    gone_ = true;
    for (const AnswerId id : ids_) model_->scheduler.cancel(id);
}

void AnswerJob::set_slow(bool slow) {
    const std::scoped_lock lock(ids_mutex_);
    slow_ = slow;
    for (const AnswerId id : ids_) {
        if (slow) {
            model_->scheduler.pause(id);
        } else {
            model_->scheduler.resume(id);
        }
    }
}

void AnswerJob::begin() {
    if (begun_) return;
    begun_ = true;
    reply_->begin();
}

void AnswerJob::fail(const ApiError& error) {
    if (over_) return;
    over_ = true;
    reply_->failed(error);
}

void AnswerJob::token(std::size_t first_choice, const TokenEvent& event) {
    const std::scoped_lock lock(mutex_);
    if (over_) return;
    begin();
    TokenEvent numbered = event;
    numbered.choice += first_choice;
    if (last_token_.size() <= numbered.choice) last_token_.resize(numbered.choice + 1, 0);
    const double now = monotonic_seconds();
    if (last_token_[numbered.choice] > 0) report_.token_gaps.push_back(now - last_token_[numbered.choice]);
    last_token_[numbered.choice] = now;
    reply_->token(numbered);
}

void AnswerJob::choice_finished(std::size_t choice, FinishReason reason, std::string_view text) {
    const std::scoped_lock lock(mutex_);
    if (over_ || reason == FinishReason::Failed) return;
    begin();
    const bool cut = reason == FinishReason::Length || reason == FinishReason::Deadline;
    ++(cut ? report_.cut : report_.stopped);
    reply_->choice_finished(choice, reason, text);
}

void AnswerJob::finished(const Usage& usage, const std::optional<Error>& error) {
    const std::scoped_lock lock(mutex_);
    Usage& total = report_.usage;
    total.prompt_tokens += usage.prompt_tokens;
    total.cached_tokens += usage.cached_tokens;
    total.generated_tokens += usage.generated_tokens;
    total.queue_seconds = std::max(total.queue_seconds, usage.queue_seconds);
    total.first_token_seconds = std::max(total.first_token_seconds, usage.first_token_seconds);
    total.seconds = std::max(total.seconds, usage.seconds);
    total.cache_note = usage.cache_note;
    if (error) {
        report_.failed = true;
        fail(api_error(*error));
    }
    if (--open_ > 0) return;
    if (!over_) {
        begin();
        over_ = true;
        reply_->finished(total);
    }
    end();
}

void AnswerJob::end() {
    {
        const std::scoped_lock lock(ids_mutex_);
        if (gone_) report_.cancelled = true;
    }
    report_.called_tools = std::min(reply_->choices_with_calls(), report_.stopped);
    report_.stopped -= report_.called_tools;
    if (on_report_) on_report_(report_);
}

}  // namespace hearth
