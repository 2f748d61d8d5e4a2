// The answer to one request between the thread that computes it and the connection that sends it: a bounded queue of
// bytes, with what the owner of the answer is told. No sockets here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "server/http_server.h"

namespace hearth {

// What an exchange needs of its connection.
class ExchangeHost {
public:
    virtual ~ExchangeHost() = default;
    // There is something to send or to tell: call deliver() and take() on the connection's own thread, soon. False when
    // that could not be arranged (no memory).
    virtual bool wake_later() = 0;
    // The same, but not before a moment has passed: what comes until then leaves with it.
    virtual bool wake_in_a_moment() = 0;
    // Sends what the socket takes at once and says how much that was. From any thread, while nothing else is being
    // sent.
    virtual std::size_t send_now(std::string_view bytes) = 0;
    // An answer alone is sent by the thread that computes it: waking another for each token costs more than it saves.
    virtual bool sends_directly() const = 0;
};

struct ExchangeTraits {
    std::uint64_t id = 0;
    bool head_only = false;  // the answer to HEAD
    bool http10 = false;     // no chunks: a stream ends with the connection
    bool keep_alive = true;
    std::string cors_origin;
    std::string path;  // says whose errors its clients know
    std::size_t stream_buffer_bytes = 1 << 20;
};

class ExchangeState {
public:
    ExchangeState(ExchangeHost& host, ExchangeTraits traits);

    // For the owner of the answer, on any thread.
    void respond(unsigned status, std::string_view content_type, std::string body, const HttpExchange::Headers& extra);
    void begin_stream(const HttpExchange::Headers& extra);
    void write(std::string piece);
    void end_stream();
    void watch(HttpExchange::Watcher watcher);
    void dropped();  // nobody is left who could answer

    // For the connection, on its own thread.
    bool take(std::string& out);  // the next bytes to send; false when there are none now
    void sent();                  // what was taken last is on its way
    bool flush();                 // sends what can be sent at once; false when more is to be done
    bool deliver();               // tells the owner what is due; false when the queue has overflowed
    bool complete() const;        // everything has been taken
    bool answered() const;        // the owner has said all there is
    bool keep_alive() const;
    unsigned status() const;  // 0 before the answer
    void abandon();           // the end: no more calls to the host; the owner is told unless its answer was complete

private:
    enum class Phase { Open, Streaming, Answered };
    // With the mutex held.
    void notify();
    std::size_t unsent() const;
    bool take_some(std::string& out);
    bool send_some();     // false when something is left
    bool send_or_wait();  // the same, but waits for more where that is better

    // Without it: tells the owner that its reader is slow, or no longer.
    void tell_pace();

    std::mutex pace_mutex_;  // taken before the other: the owner hears of slow and caught up in their order
    mutable std::mutex mutex_;
    ExchangeHost* host_;  // null once detached
    const ExchangeTraits traits_;
    Phase phase_ = Phase::Open;
    unsigned status_ = 0;
    bool keep_alive_;
    bool chunked_ = false;
    bool terminated_ = false;  // the end of the answer has been taken
    bool overflowed_ = false;
    bool gone_ = false;
    bool slow_told_ = false;
    bool wake_pending_ = false;
    bool sending_ = false;  // what was taken is not sent yet
    std::string framed_;    // goes out as it is, before what is pending
    std::string pending_;
    std::size_t in_flight_bytes_ = 0;
    std::chrono::steady_clock::time_point sent_at_{};  // when the owner's thread sent last
    std::shared_ptr<const HttpExchange::Watcher> watcher_;
};

// The handle given to the handler; its end is noticed.
std::shared_ptr<HttpExchange> make_exchange_handle(std::shared_ptr<ExchangeState> state);

}  // namespace hearth
