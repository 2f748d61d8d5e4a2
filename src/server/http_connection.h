// One connection of the HTTP server and what all of them share. Included by http_server.cpp alone, as it brings Asio
// along. A connection lives on a strand: one coroutine serves its requests in order, another keeps a read pending so
// that a client that leaves is noticed.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/clock.h"
#include "server/api_keys.h"
#include "server/http_exchange.h"
#include "server/http_parser.h"
#include "server/http_rules.h"
#include "server/http_server.h"

namespace hearth {

namespace asio = boost::asio;
using asio::awaitable;
using asio::ip::tcp;
using SystemError = boost::system::error_code;
using TimePoint = std::chrono::steady_clock::time_point;

inline constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
inline constexpr std::size_t kIdleReadBytes = 4 << 10;
inline constexpr std::size_t kBodyReadBytes = 64 << 10;
inline constexpr std::size_t kPipelineBytes = 16
                                              << 10;  // kept for later requests while one is answered, beyond a header
inline constexpr std::size_t kDirectExchanges = 1;    // so many answers are sent by the thread that computes them
inline constexpr std::size_t kMostRefusing = 32;      // connections at once that are told in full that there is no room
inline constexpr int kSendBufferBytes = 256 << 10;    // the kernel would let a reader that stopped hold megabytes
inline constexpr std::chrono::milliseconds kLinger{
    1'000};  // for the client to read the answer before the socket closes
inline constexpr std::chrono::milliseconds kAcceptPause{20};
inline constexpr std::chrono::milliseconds kMoment{100};  // the longest that text is kept for more to come

class Connection;

// What the connections share.
struct Core {
    HttpOptions options;
    HttpHandler handler;
    AccessRules rules;
    ApiKeys keys;
    std::size_t connection_limit = 1;
    asio::io_context io;
    std::optional<asio::ssl::context> tls;

    std::atomic<bool> draining = false;
    std::atomic<std::uint64_t> accepted = 0;
    std::atomic<std::uint64_t> refused = 0;
    std::atomic<std::uint64_t> requests = 0;
    std::atomic<std::uint64_t> next_id = 0;
    std::atomic<std::size_t> serving = 0;   // connections within the limit
    std::atomic<std::size_t> refusing = 0;  // those beyond it
    std::atomic<std::size_t> body_bytes = 0;

    std::mutex mutex;
    std::condition_variable changed;
    std::unordered_set<Connection*> connections;
    std::atomic<std::size_t> open_exchanges = 0;  // changes with the mutex held
    bool accepting = false;
    TimePoint stop_at = TimePoint::max();  // when stop() no longer waits for exchanges

    void count_exchange(int step) {
        const std::lock_guard lock(mutex);
        open_exchanges = step > 0 ? open_exchanges + 1 : open_exchanges - 1;
        changed.notify_all();
    }
};

enum class Role { Serve, Refuse };

// Why there is no request to serve.
struct Fault {
    bool any = false;
    unsigned status = 0;  // 0: nobody is left to be told
    std::string message;
    HttpExchange::Headers extra;
};
inline Fault closing() {
    return {true, 0, "", {}};
}
inline Fault fault(unsigned status, std::string_view message) {
    return {true, status, std::string(message), {}};
}

class Connection final : public ExchangeHost, public std::enable_shared_from_this<Connection> {
public:
    Connection(Core& core, tcp::socket socket, Role role)
        : core_(core),
          role_(role),
          socket_(std::move(socket)),
          signal_(socket_.get_executor(), TimePoint::max()),
          timer_(socket_.get_executor(), TimePoint::max()),
          moment_(socket_.get_executor(), TimePoint::max()) {
        if (core_.tls) tls_.emplace(socket_, *core_.tls);
        (role_ == Role::Serve ? core_.serving : core_.refusing).fetch_add(1);
        const std::lock_guard lock(core_.mutex);
        core_.connections.insert(this);
    }

    ~Connection() override {
        release_body();
        (role_ == Role::Serve ? core_.serving : core_.refusing).fetch_sub(1);
        const std::lock_guard lock(core_.mutex);
        core_.connections.erase(this);
        core_.changed.notify_all();
    }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    void start() {
        SystemError ignored;
        socket_.set_option(tcp::no_delay(true), ignored);
        socket_.set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
        if (core_.options.on_access) peer_ = socket_.remote_endpoint(ignored).address().to_string();
        asio::co_spawn(socket_.get_executor(), run(), [self = shared_from_this()](const std::exception_ptr&) {
            self->end();  // also after a failed allocation: this connection is lost, the others are not
        });
    }

    bool wake_later() override {
        try {
            asio::post(socket_.get_executor(), [self = shared_from_this()] { self->on_wake(); });
            return true;
        } catch (...) {
            return false;
        }
    }

    bool wake_in_a_moment() override {
        if (moment_passes_.exchange(true)) return true;
        try {
            asio::post(socket_.get_executor(), [self = shared_from_this()] { self->start_moment(); });
            return true;
        } catch (...) {
            moment_passes_ = false;
            return false;
        }
    }

    std::size_t send_now(std::string_view bytes) override {
        if (tls_) return 0;  // its state belongs to the strand
        const std::lock_guard lock(socket_mutex_);
        if (closed_) return 0;
        const ssize_t size = ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (size <= 0) return 0;  // what the matter is shows when the connection sends the rest
        sent_bytes_ += static_cast<std::uint64_t>(size);
        return static_cast<std::size_t>(size);
    }

    bool sends_directly() const override { return core_.open_exchanges <= kDirectExchanges; }

    // From another thread: have a look at `draining`, or close at once.
    void nudge(bool close) {
        asio::post(socket_.get_executor(), [self = shared_from_this(), close] {
            if (close) self->close();
            self->wake();
        });
    }

private:
    awaitable<void> run();
    awaitable<void> serve();
    awaitable<void> read_loop();
    awaitable<Fault> read_head(RequestParser& parser, bool first);
    awaitable<Fault> read_body(RequestParser& parser);
    awaitable<bool> exchange(HttpRequest request, ExchangeTraits traits);
    awaitable<void> answer(unsigned status, std::string message, HttpExchange::Headers extra, ExchangeTraits traits);
    awaitable<bool> write_all(std::string_view bytes);
    awaitable<void> linger();
    awaitable<void> wait();

    const HttpLimits& limits() const { return core_.options.limits; }
    std::size_t input_limit() const { return limits().header_bytes + kPipelineBytes; }
    std::uint64_t new_id() { return core_.next_id.fetch_add(1); }

    void wake() {
        woken_ = true;
        signal_.cancel();
    }

    void on_wake() {
        if (exchange_ && !exchange_->deliver()) {
            close();
            exchange_->abandon();
        } else if (exchange_ && !input_ended_ && exchange_->flush()) {
            return;
        }
        wake();
    }

    void start_moment() {
        moment_.expires_after(closed_ ? std::chrono::milliseconds(0) : kMoment);
        moment_.async_wait([self = shared_from_this()](const SystemError&) {
            self->moment_passes_ = false;
            self->on_wake();
        });
    }

    void close() {
        {
            const std::lock_guard lock(socket_mutex_);  // nobody sends to a descriptor that is another's by now
            closed_ = true;
            SystemError ignored;
            socket_.close(ignored);
        }
        timer_.cancel();
        moment_.cancel();
    }

    void end() {
        close();
        if (exchange_) finish_exchange();
        wake();
    }

    void finish_exchange() {
        const std::shared_ptr<ExchangeState> ended = std::exchange(exchange_, nullptr);
        core_.count_exchange(-1);
        ended->abandon();
    }

    void release_body() { core_.body_bytes.fetch_sub(std::exchange(held_body_bytes_, 0)); }

    void start_reading() {
        if (reading_ || input_ended_ || closed_ || (!discarding_ && input_.size() >= input_limit())) return;
        reading_ = true;
        asio::co_spawn(socket_.get_executor(), read_loop(), [self = shared_from_this()](const std::exception_ptr& e) {
            self->reading_ = false;
            if (e) self->close();
            self->wake();
        });
    }

    // A later deadline costs nothing: the timer finds out when it fires. An earlier one has to wake it.
    void set_deadline(std::chrono::milliseconds time) {
        timed_out_ = false;
        if (closed_) return;  // a timer would only keep this object
        deadline_ = std::chrono::steady_clock::now() + time;
        if (!timer_armed_) {
            arm_timer();
        } else if (deadline_ < timer_.expiry()) {
            timer_.cancel();
        }
    }

    void clear_deadline() {
        timed_out_ = false;
        deadline_ = TimePoint::max();
    }

    void arm_timer() {
        timer_armed_ = true;
        timer_.expires_at(deadline_);
        timer_.async_wait([self = shared_from_this()](const SystemError&) {
            self->timer_armed_ = false;
            if (self->closed_ || self->deadline_ == TimePoint::max()) return;
            if (std::chrono::steady_clock::now() < self->deadline_) return self->arm_timer();
            self->clear_deadline();
            self->timed_out_ = true;
            if (self->writing_) self->close();
            self->wake();
        });
    }

    // Hands bytes to the parser; how many it took.
    std::size_t feed(RequestParser& parser) {
        const std::size_t used = parser.feed(input_);
        if (used == input_.size() && input_.capacity() > kBodyReadBytes) {
            input_ = std::string();
        } else {
            input_.erase(0, used);
        }
        start_reading();
        return used;
    }

    void log(const ExchangeTraits& traits, const HttpRequest& request, unsigned status) {
        if (!core_.options.on_access) return;
        HttpAccess access;
        access.id = traits.id;
        access.method = traits.head_only ? "HEAD" : std::string_view(request.method);
        access.path = request.path;
        access.peer = peer_;
        access.key_scope = request.key_scope;
        access.status = status;
        access.sent_bytes = sent_bytes_.exchange(0);
        access.seconds = monotonic_seconds() - request_seconds_;
        core_.options.on_access(access);
    }

    Core& core_;  // outlives every connection: stop() waits for them
    const Role role_;
    tcp::socket socket_;
    std::optional<asio::ssl::stream<tcp::socket&>> tls_;
    asio::steady_timer signal_;  // never expires: cancelling it wakes serve()
    asio::steady_timer timer_;
    asio::steady_timer moment_;
    std::atomic<bool> moment_passes_ = false;
    TimePoint deadline_ = TimePoint::max();
    bool timer_armed_ = false;
    bool timed_out_ = false;
    bool woken_ = false;
    bool closed_ = false;
    bool reading_ = false;
    bool reading_body_ = false;
    bool writing_ = false;
    bool discarding_ = false;
    bool input_ended_ = false;
    std::string incoming_;  // being read into
    std::string input_;     // read, not parsed yet
    std::shared_ptr<ExchangeState> exchange_;
    std::size_t held_body_bytes_ = 0;
    std::string peer_;
    std::atomic<std::uint64_t> sent_bytes_ = 0;
    std::mutex socket_mutex_;  // closing the socket, and sending from another thread
    double request_seconds_ = 0;
};

}  // namespace hearth
