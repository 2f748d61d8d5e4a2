// See http_exchange.h.
#include "server/http_exchange.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "server/http_response.h"

namespace hearth {

namespace {

constexpr std::size_t kMostTaken = 64 << 10;            // bytes of a stream in one write, so that progress shows
constexpr std::size_t kMostKept = 16 << 10;             // bytes that wait for more
constexpr std::chrono::milliseconds kSendInterval{16};  // between sends of a stream: a frame of a screen

class ExchangeHandle final : public HttpExchange {
public:
    explicit ExchangeHandle(std::shared_ptr<ExchangeState> state) : state_(std::move(state)) {}
    ~ExchangeHandle() override { state_->dropped(); }
    ExchangeHandle(const ExchangeHandle&) = delete;
    ExchangeHandle& operator=(const ExchangeHandle&) = delete;

    void respond(unsigned status, std::string_view content_type, std::string body, Headers extra) override {
        state_->respond(status, content_type, std::move(body), extra);
    }
    void begin_stream(Headers extra) override { state_->begin_stream(extra); }
    void write(std::string piece) override { state_->write(std::move(piece)); }
    void end_stream() override { state_->end_stream(); }
    void watch(Watcher watcher) override { state_->watch(std::move(watcher)); }

private:
    std::shared_ptr<ExchangeState> state_;
};

}  // namespace

std::shared_ptr<HttpExchange> make_exchange_handle(std::shared_ptr<ExchangeState> state) {
    return std::make_shared<ExchangeHandle>(std::move(state));
}

ExchangeState::ExchangeState(ExchangeHost& host, ExchangeTraits traits)
    : host_(&host), traits_(std::move(traits)), keep_alive_(traits_.keep_alive) {}

void ExchangeState::notify() {
    if (!host_ || wake_pending_) return;
    wake_pending_ = host_->wake_later();
}

void ExchangeState::respond(unsigned status, std::string_view content_type, std::string body,
                            const HttpExchange::Headers& extra) {
    std::shared_ptr<const HttpExchange::Watcher> released;  // its captures may end in here: not under the mutex
    const std::lock_guard lock(mutex_);
    if (!host_ || gone_ || phase_ != Phase::Open) return;
    phase_ = Phase::Answered;
    status_ = status;
    ResponseHead head;
    head.status = status;
    head.content_type = content_type;
    head.keep_alive = keep_alive_;
    head.id = traits_.id;
    head.cors_origin = traits_.cors_origin;
    const bool bodiless = status == 204 || status == 304 || status < 200;
    if (!bodiless) head.length = body.size();
    framed_ = response_head(head, extra);
    if (!bodiless && !traits_.head_only) pending_ = std::move(body);
    released.swap(watcher_);
    notify();
}

void ExchangeState::begin_stream(const HttpExchange::Headers& extra) {
    const std::lock_guard lock(mutex_);
    if (!host_ || gone_ || phase_ != Phase::Open) return;
    phase_ = traits_.head_only ? Phase::Answered : Phase::Streaming;
    status_ = 200;
    chunked_ = !traits_.http10;
    if (!chunked_) keep_alive_ = false;
    ResponseHead head;
    head.content_type = "text/event-stream";
    head.chunked = chunked_;
    head.keep_alive = keep_alive_;
    head.id = traits_.id;
    head.cors_origin = traits_.cors_origin;
    framed_ = response_head(head, extra);
    notify();
}

void ExchangeState::write(std::string piece) {
    {
        const std::lock_guard lock(mutex_);
        if (!host_ || gone_ || overflowed_ || phase_ != Phase::Streaming || piece.empty()) return;
        if (piece.size() > traits_.stream_buffer_bytes || unsent() > traits_.stream_buffer_bytes - piece.size()) {
            overflowed_ = true;
            pending_ = std::string();
        } else if (pending_.empty()) {
            pending_ = std::move(piece);
        } else {
            pending_ += piece;
        }
        if (overflowed_ || !host_->sends_directly() || !send_or_wait()) notify();
    }
    tell_pace();  // here too: the connection's thread may come too late, and what is written meanwhile overflow
}

bool ExchangeState::send_or_wait() {
    // Tokens that come faster than anybody can look leave together: a send costs a token's time one per cent.
    const auto now = std::chrono::steady_clock::now();
    const bool waits = now - sent_at_ < kSendInterval && unsent() < kMostKept;
    if (waits && host_->wake_in_a_moment()) return true;
    sent_at_ = now;
    return send_some();
}

void ExchangeState::end_stream() {
    std::shared_ptr<const HttpExchange::Watcher> released;
    const std::lock_guard lock(mutex_);
    if (!host_ || gone_ || phase_ != Phase::Streaming) return;
    phase_ = Phase::Answered;
    released.swap(watcher_);
    notify();
}

void ExchangeState::watch(HttpExchange::Watcher watcher) {
    auto shared = std::make_shared<const HttpExchange::Watcher>(std::move(watcher));
    {
        const std::lock_guard lock(mutex_);
        if (!gone_) {
            if (host_ && phase_ != Phase::Answered) watcher_.swap(shared);
            return;
        }
        if (phase_ == Phase::Answered) return;
    }
    if (shared->gone) shared->gone();
}

void ExchangeState::dropped() {
    Phase phase = Phase::Open;
    {
        const std::lock_guard lock(mutex_);
        if (!host_ || gone_ || phase_ == Phase::Answered) return;
        phase = phase_;
        if (phase == Phase::Streaming) {
            overflowed_ = true;  // half an answer: the connection must not look as if it had ended well
            notify();
        }
    }
    if (phase == Phase::Open)
        respond(500, "application/json", error_body(500, "the request was not answered", traits_.path), {});
}

std::size_t ExchangeState::unsent() const {
    return framed_.size() + pending_.size() + in_flight_bytes_;
}

bool ExchangeState::take(std::string& out) {
    const std::lock_guard lock(mutex_);
    sending_ = take_some(out);
    return sending_;
}

bool ExchangeState::take_some(std::string& out) {
    out = std::exchange(framed_, std::string());
    if (status_ == 0 || terminated_) return !out.empty();
    const bool framed = phase_ == Phase::Streaming || chunked_;
    const std::size_t size = framed || traits_.http10 ? std::min(pending_.size(), kMostTaken) : pending_.size();
    in_flight_bytes_ = size;
    if (size > 0) {
        if (chunked_) {
            std::array<char, 24> length = {};
            std::snprintf(length.data(), length.size(), "%zx\r\n", size);
            out += length.data();
        }
        if (size == pending_.size()) {
            out += pending_;
            pending_ = std::string();
        } else {
            out.append(pending_, 0, size);
            pending_.erase(0, size);
        }
        if (chunked_) out += "\r\n";
    }
    if (phase_ == Phase::Answered && pending_.empty()) {
        if (chunked_ && !traits_.head_only) out += "0\r\n\r\n";
        terminated_ = true;
    }
    return !out.empty();
}

void ExchangeState::sent() {
    const std::lock_guard lock(mutex_);
    sending_ = false;
    in_flight_bytes_ = 0;
}

bool ExchangeState::send_some() {
    if (sending_ || !host_) return false;
    std::string bytes;
    if (!take_some(bytes)) return true;
    in_flight_bytes_ = 0;
    const std::size_t size = host_->send_now(bytes);
    framed_.assign(bytes, size);
    return framed_.empty() && pending_.empty();
}

bool ExchangeState::flush() {
    bool is_done = false;
    {
        const std::lock_guard lock(mutex_);
        is_done = send_some() && !terminated_;
    }
    tell_pace();
    return is_done;
}

bool ExchangeState::deliver() {
    {
        const std::lock_guard lock(mutex_);
        wake_pending_ = false;
        if (overflowed_) return false;
    }
    tell_pace();
    return true;
}

void ExchangeState::tell_pace() {
    const std::lock_guard in_order(pace_mutex_);
    std::shared_ptr<const HttpExchange::Watcher> watcher;
    bool slow = false;
    {
        const std::lock_guard lock(mutex_);
        if (phase_ != Phase::Streaming || gone_ || overflowed_) return;
        slow = !slow_told_ && unsent() > traits_.stream_buffer_bytes / 2;
        const bool caught_up = slow_told_ && unsent() <= traits_.stream_buffer_bytes / 8;
        if (!slow && !caught_up) return;
        slow_told_ = slow;
        watcher = watcher_;
    }
    if (!watcher) return;
    const std::function<void()>& told = slow ? watcher->slow : watcher->caught_up;
    if (told) told();
}

bool ExchangeState::complete() const {
    const std::lock_guard lock(mutex_);
    return terminated_;
}

bool ExchangeState::answered() const {
    const std::lock_guard lock(mutex_);
    return phase_ == Phase::Answered;
}

bool ExchangeState::keep_alive() const {
    const std::lock_guard lock(mutex_);
    return keep_alive_;
}

unsigned ExchangeState::status() const {
    const std::lock_guard lock(mutex_);
    return status_;
}

void ExchangeState::abandon() {
    std::shared_ptr<const HttpExchange::Watcher> watcher;
    {
        const std::lock_guard lock(mutex_);
        host_ = nullptr;
        if (gone_) return;
        gone_ = true;
        pending_ = std::string();
        watcher.swap(watcher_);
    }
    if (watcher && watcher->gone) watcher->gone();
}

}  // namespace hearth
