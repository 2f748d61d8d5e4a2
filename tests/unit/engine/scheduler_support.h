// What the scheduler's tests share: a sink that writes down what it hears and can be waited for.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/scheduler.h"
#include "engine_support.h"

namespace hearth::test {

struct HeardChoice {
    std::vector<TokenId> tokens;
    std::string text;
    std::vector<float> logprobs;
    std::vector<std::vector<TokenLogprob>> top;
    std::optional<FinishReason> reason;
};

class ListeningSink : public AnswerSink {
public:
    void token(const TokenEvent& event) override {
        {
            const std::lock_guard lock(mutex_);
            HeardChoice& choice = choices_[event.choice];
            choice.tokens.push_back(event.token);
            choice.text += event.text;
            choice.logprobs.push_back(event.logprob);
            choice.top.emplace_back(event.top.begin(), event.top.end());
            ++tokens_;
        }
        heard_.notify_all();
        if (on_token) on_token(event);
    }
    void choice_finished(std::size_t choice, FinishReason reason, std::string_view text) override {
        const std::lock_guard lock(mutex_);
        EXPECT_FALSE(choices_[choice].reason.has_value()) << "choice " << choice << " ended twice";
        choices_[choice].reason = reason;
        choices_[choice].text += text;
    }
    void finished(const Usage& usage, const std::optional<Error>& error) override {
        if (on_finished) on_finished();
        {
            const std::lock_guard lock(mutex_);
            EXPECT_FALSE(done_) << "finished twice";
            usage_ = usage;
            error_ = error;
            done_ = true;
        }
        heard_.notify_all();
    }
    void kept(std::size_t choice, Sequence sequence) override {
        if (on_kept) on_kept(choice, std::move(sequence));
    }

    // Waits for the end; the map of what every choice said.
    const std::map<std::size_t, HeardChoice>& wait() {
        std::unique_lock lock(mutex_);
        heard_.wait(lock, [this] { return done_; });
        return choices_;
    }
    const HeardChoice& wait_one() { return wait().at(0); }
    void wait_for_tokens(std::size_t count) {
        std::unique_lock lock(mutex_);
        heard_.wait(lock, [&] { return tokens_ >= count || done_; });
    }
    bool done() {
        const std::lock_guard lock(mutex_);
        return done_;
    }
    std::size_t tokens() {
        const std::lock_guard lock(mutex_);
        return tokens_;
    }
    // After wait().
    const Usage& usage() const { return usage_; }
    const std::optional<Error>& error() const { return error_; }

    // On the scheduler's thread.
    std::function<void(const TokenEvent&)> on_token;
    std::function<void()> on_finished;
    std::function<void(std::size_t, Sequence)> on_kept;

private:
    std::mutex mutex_;
    std::condition_variable heard_;
    std::map<std::size_t, HeardChoice> choices_;
    std::size_t tokens_ = 0;
    bool done_ = false;
    Usage usage_;
    std::optional<Error> error_;
};

inline std::shared_ptr<const SamplingOptions> drawing(std::uint64_t seed) {
    SamplingOptions options;
    options.temperature = 1.0f;
    options.seed = seed;
    options.repetition_penalty = 1.1f;
    return std::make_shared<const SamplingOptions>(options);
}

struct Submitted {
    std::shared_ptr<ListeningSink> sink = std::make_shared<ListeningSink>();
    AnswerId id = 0;
};

inline AnswerRequest make_request(std::vector<TokenId> prompt, std::size_t max_tokens,
                                  std::shared_ptr<const SamplingOptions> sampling = greedy()) {
    AnswerRequest request;
    request.prompt = std::move(prompt);
    request.sampling = std::move(sampling);
    request.max_tokens = max_tokens;
    request.ignore_end = true;
    return request;
}

inline Submitted submit(Scheduler& scheduler, AnswerRequest request, std::shared_ptr<ListeningSink> sink = nullptr) {
    Submitted submitted;
    if (sink) submitted.sink = std::move(sink);
    request.sink = submitted.sink;
    Result<AnswerId> id = scheduler.submit(std::move(request));
    EXPECT_TRUE(id.ok()) << (id.ok() ? "" : id.error().message);
    if (id.ok()) submitted.id = id.value();
    return submitted;
}

// What a request says with the engine to itself and no scheduler.
inline HeardChoice answer_alone(const std::shared_ptr<Engine>& engine, const AnswerRequest& request) {
    Sequence sequence(engine, request.sampling, request.stops);
    EXPECT_TRUE(sequence.append(request.prompt).ok());
    HeardChoice heard;
    while (heard.tokens.size() < request.max_tokens && !sequence.stopped()) {
        const Result<Logits> logits = forward_pending(*engine, sequence);
        EXPECT_TRUE(logits.ok());
        const Result<SampledToken> sampled = sequence.sample(logits->sampler_row(0));
        EXPECT_TRUE(sampled.ok());
        heard.tokens.push_back(sampled->token);
        EXPECT_TRUE(sequence.accept(sampled->token, heard.text).ok());
    }
    sequence.finish_text(heard.text);
    return heard;
}

// Holds the scheduler's thread in its on_step callback until told to go on.
class StepGate {
public:
    void pass() {  // in on_step
        std::unique_lock lock(mutex_);
        ++steps_;
        changed_.notify_all();
        changed_.wait(lock, [this] { return open_ || steps_ <= allowed_; });
    }
    // Waits until `count` steps have been made in all; the thread stands still after the last of them.
    void stop_after(std::size_t count) {
        std::unique_lock lock(mutex_);
        allowed_ = count - 1;
        changed_.notify_all();
        changed_.wait(lock, [&] { return steps_ >= count; });
    }
    void open() {
        const std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }
    std::size_t steps() {
        const std::lock_guard lock(mutex_);
        return steps_;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t steps_ = 0;
    std::size_t allowed_ = 0;
    bool open_ = false;
};

}  // namespace hearth::test
