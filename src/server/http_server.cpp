// Sockets, threads and deadlines of the HTTP server; the one file that includes Asio. Each connection lives on a
// strand: one coroutine serves its requests in order, another keeps a read pending so that a client that leaves is
// noticed.
#include <utility>
// First of all: on GCC 12 Asio's coroutine headers use std::exchange without including it.
#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <condition_variable>
#include <ctime>
#include <exception>
#include <mutex>
#include <thread>
#include <tuple>
#include <unordered_set>

#include "base/clock.h"
#include "server/api_keys.h"
#include "server/http_exchange.h"
#include "server/http_gate.h"
#include "server/http_parser.h"
#include "server/http_response.h"
#include "server/http_rules.h"
#include "server/http_server.h"

namespace hearth {

namespace asio = boost::asio;
using asio::awaitable;
using asio::ip::tcp;
using SystemError = boost::system::error_code;
using TimePoint = std::chrono::steady_clock::time_point;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kIdleReadBytes = 4 << 10;
constexpr std::size_t kBodyReadBytes = 64 << 10;
constexpr std::size_t kPipelineBytes = 16 << 10;     // kept for later requests while one is answered, beyond a header
constexpr std::size_t kMostRefusing = 32;            // connections at once that are told in full that there is no room
constexpr int kSendBufferBytes = 256 << 10;          // the kernel would let a reader that stopped hold megabytes
constexpr std::chrono::milliseconds kLinger{1'000};  // for the client to read the answer before the socket closes
constexpr std::chrono::milliseconds kAcceptPause{20};

// These are functions because GCC 12 cannot compile lists of strings within a coroutine.
HttpExchange::Headers retry_soon() {
    return {{"retry-after", "1"}};
}

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
    std::size_t open_exchanges = 0;
    bool accepting = false;

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
Fault closing() {
    return {true, 0, "", {}};
}
Fault fault(unsigned status, std::string_view message) {
    return {true, status, std::string(message), {}};
}

class Connection final : public ExchangeHost, public std::enable_shared_from_this<Connection> {
public:
    Connection(Core& core, tcp::socket socket, Role role)
        : core_(core),
          role_(role),
          socket_(std::move(socket)),
          signal_(socket_.get_executor(), TimePoint::max()),
          timer_(socket_.get_executor(), TimePoint::max()) {
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
        }
        wake();
    }

    void close() {
        closed_ = true;
        SystemError ignored;
        socket_.close(ignored);
        timer_.cancel();
    }

    void end() {
        close();
        if (exchange_) finish_exchange();
        wake();
    }

    void finish_exchange() {
        const std::shared_ptr<ExchangeState> ended = std::exchange(exchange_, nullptr);
        ended->abandon();
        core_.count_exchange(-1);
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
        access.sent_bytes = std::exchange(sent_bytes_, 0);
        access.seconds = monotonic_seconds() - request_seconds_;
        core_.options.on_access(access);
    }

    Core& core_;  // outlives every connection: stop() waits for them
    const Role role_;
    tcp::socket socket_;
    std::optional<asio::ssl::stream<tcp::socket&>> tls_;
    asio::steady_timer signal_;  // never expires: cancelling it wakes serve()
    asio::steady_timer timer_;
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
    std::uint64_t sent_bytes_ = 0;
    double request_seconds_ = 0;
};

awaitable<void> Connection::wait() {
    while (!woken_) co_await signal_.async_wait(kAwait);
    woken_ = false;
}

awaitable<void> Connection::run() {
    if (tls_ && role_ == Role::Refuse) co_return;  // a handshake to say no would be the dearest way to say it
    if (tls_) {
        writing_ = true;  // the deadline closes the socket
        set_deadline(limits().header_deadline);
        const auto [error] = co_await tls_->async_handshake(asio::ssl::stream_base::server, kAwait);
        writing_ = false;
        if (error || closed_) co_return;
    }
    start_reading();
    if (role_ == Role::Serve) {
        co_await serve();
    } else {
        discarding_ = true;
        ExchangeTraits traits;
        traits.id = new_id();
        traits.keep_alive = false;
        request_seconds_ = monotonic_seconds();
        co_await answer(429, "too many connections: try again later", retry_soon(), std::move(traits));
    }
    if (!closed_) co_await linger();
}

awaitable<void> Connection::read_loop() {
    while (!closed_) {
        incoming_.resize(reading_body_ ? kBodyReadBytes : kIdleReadBytes);
        if (!reading_body_ && incoming_.capacity() > kBodyReadBytes / 2) incoming_.shrink_to_fit();
        const asio::mutable_buffer buffer = asio::buffer(incoming_);
        SystemError error;
        std::size_t size = 0;
        if (tls_) {
            std::tie(error, size) = co_await tls_->async_read_some(buffer, kAwait);
        } else {
            std::tie(error, size) = co_await socket_.async_read_some(buffer, kAwait);
        }
        if (error) {
            input_ended_ = true;
            if (exchange_ && !exchange_->answered()) {
                close();
                exchange_->abandon();
            }
            co_return;
        }
        if (discarding_) continue;
        input_.append(incoming_, 0, size);
        wake();
        if (input_.size() >= input_limit()) co_return;  // feed() starts the next one
    }
}

awaitable<bool> Connection::write_all(std::string_view bytes) {
    writing_ = true;
    std::size_t done = 0;
    while (done < bytes.size() && !closed_) {
        set_deadline(limits().write_deadline);  // anew whenever the client has taken something
        const asio::const_buffer buffer = asio::buffer(bytes.substr(done));
        SystemError error;
        std::size_t size = 0;
        if (tls_) {
            std::tie(error, size) = co_await tls_->async_write_some(buffer, kAwait);
        } else {
            std::tie(error, size) = co_await socket_.async_write_some(buffer, kAwait);
        }
        done += size;
        if (error) break;
    }
    writing_ = false;
    clear_deadline();
    sent_bytes_ += done;
    co_return done == bytes.size() && !closed_;
}

awaitable<void> Connection::linger() {
    // Closing with unread bytes makes the kernel send a reset, which can overtake the answer.
    discarding_ = true;
    input_ = std::string();
    start_reading();
    set_deadline(kLinger);
    if (tls_) {
        writing_ = true;
        co_await tls_->async_shutdown(kAwait);
        writing_ = false;
    } else {
        SystemError ignored;
        socket_.shutdown(tcp::socket::shutdown_send, ignored);
    }
    while (!input_ended_ && !timed_out_ && !closed_) co_await wait();
}

awaitable<Fault> Connection::read_head(RequestParser& parser, bool first) {
    set_deadline(first ? limits().header_deadline : limits().idle_deadline);
    bool header_clock = first;
    for (;;) {
        feed(parser);
        if (parser.state() == RequestParser::State::Failed) {
            co_return fault(parser.error_status(), parser.error_message());
        }
        if (parser.state() != RequestParser::State::Head) co_return Fault();
        if (!header_clock && parser.started()) {
            header_clock = true;
            set_deadline(limits().header_deadline);
        }
        if (closed_ || input_ended_ || (core_.draining && !parser.started())) co_return closing();
        if (timed_out_ && !parser.started()) co_return closing();
        if (timed_out_) co_return fault(408, "the header of the request did not arrive in time");
        co_await wait();
    }
}

awaitable<Fault> Connection::read_body(RequestParser& parser) {
    reading_body_ = true;
    set_deadline(limits().body_deadline);
    Fault found;
    while (!found.any) {
        const std::size_t used = feed(parser);
        const std::size_t grown = parser.body_size() - held_body_bytes_;
        held_body_bytes_ += grown;
        if (core_.body_bytes.fetch_add(grown) + grown > limits().all_bodies_bytes) {
            found = fault(503, "too many large requests at once: try again later");
            found.extra = retry_soon();
        } else if (parser.state() == RequestParser::State::Failed) {
            found = fault(parser.error_status(), parser.error_message());
        } else if (parser.state() == RequestParser::State::Done) {
            break;
        } else if (used > 0 && !input_.empty()) {
            continue;
        } else if (timed_out_) {
            found = fault(408, "the body of the request did not arrive in time");
        } else if (input_.size() >= input_limit()) {
            found = fault(400, "the chunks of the request body are malformed");
        } else if (closed_ || input_ended_) {
            found = closing();
        } else {
            co_await wait();
        }
    }
    reading_body_ = false;
    clear_deadline();
    if (found.any) {
        parser.take_body();
        release_body();
    }
    co_return found;
}

// An answer of this layer itself.
awaitable<void> Connection::answer(unsigned status, std::string message, HttpExchange::Headers extra,
                                   ExchangeTraits traits) {
    ResponseHead head;
    head.status = status;
    head.keep_alive = traits.keep_alive;
    head.id = traits.id;
    head.cors_origin = traits.cors_origin;
    std::string body;
    if (!message.empty()) {
        body = error_body(status, message);
        head.content_type = "application/json";
        head.length = body.size();
    }
    std::string bytes = response_head(head, extra);
    if (!traits.head_only) bytes += body;
    if (!co_await write_all(bytes)) close();
}

awaitable<bool> Connection::exchange(HttpRequest request, ExchangeTraits traits) {
    const ExchangeTraits said = traits;
    HttpRequest logged;  // without body and headers
    if (core_.options.on_access) {
        logged.method = request.method;
        logged.path = request.path;
        logged.key_scope = request.key_scope;
    }
    const auto state = std::make_shared<ExchangeState>(*this, std::move(traits));
    exchange_ = state;
    core_.count_exchange(+1);
    try {
        core_.handler(std::move(request), make_exchange_handle(state));
    } catch (...) {  // the handle is gone then, and with it the exchange answered
    }
    std::string bytes;
    while (exchange_ == state && !closed_) {
        if (!state->deliver()) break;
        if (state->take(bytes)) {
            if (!co_await write_all(bytes)) break;
            state->sent();
            continue;
        }
        if (state->complete()) break;
        if (input_ended_ && !state->answered()) break;
        co_await wait();
    }
    const bool well = state->complete() && !closed_;
    const bool again = well && state->keep_alive();
    if (!well) close();
    log(said, logged, state->status() == 0 ? 499 : state->status());
    finish_exchange();
    release_body();
    co_return again;
}

awaitable<void> Connection::serve() {
    for (bool first = true; !closed_; first = false) {
        RequestParser parser(limits());
        Fault found = co_await read_head(parser, first);
        if (found.any && found.status == 0) co_return;
        core_.requests.fetch_add(1);
        request_seconds_ = monotonic_seconds();
        sent_bytes_ = 0;
        const RequestHead& head = parser.head();
        Judgement judgement;
        if (!found.any) judgement = judge(head, core_.rules, core_.keys);
        ExchangeTraits traits;
        traits.id = new_id();
        traits.head_only = head.method == "HEAD";
        traits.http10 = head.http10;
        traits.keep_alive = head.keep_alive && !core_.draining;
        traits.cors_origin = judgement.cors_origin;
        traits.stream_buffer_bytes = limits().stream_buffer_bytes;
        if (!found.any && judgement.status == 0 && parser.state() == RequestParser::State::Body) {
            const bool is_waiting = head.expects_continue && input_.empty();
            if (is_waiting && !co_await write_all("HTTP/1.1 100 Continue\r\n\r\n")) {
                close();
                co_return;
            }
            found = co_await read_body(parser);
            if (found.any && found.status == 0) co_return;
        }
        if (found.any) {
            judgement.status = found.status;
            judgement.message = std::move(found.message);
            judgement.extra = std::move(found.extra);
        }
        bool again = false;
        if (judgement.status != 0) {
            // A body that nobody wants is not read: the connection ends instead.
            traits.keep_alive = traits.keep_alive && parser.state() == RequestParser::State::Done;
            co_await answer(judgement.status, judgement.message, judgement.extra, traits);
            log(traits, judgement.request, judgement.status);
            again = traits.keep_alive;
        } else {
            clear_deadline();
            judgement.request.id = traits.id;
            judgement.request.body = parser.take_body();
            again = co_await exchange(std::move(judgement.request), std::move(traits));
        }
        if (!again) co_return;
    }
}

class Server final : public HttpServer {
public:
    Server() : acceptor_(asio::make_strand(core_.io)), pause_(acceptor_.get_executor()) {}
    ~Server() override { stop(std::chrono::milliseconds(0)); }
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    Status open(const HttpOptions& options, HttpHandler handler);
    std::uint16_t port() const override { return port_; }
    HttpStats stats() const override;
    void stop_accepting() override;
    void stop(std::chrono::milliseconds grace) override;

private:
    Status open_tls();
    Status listen(const asio::ip::address& address);
    awaitable<void> accept_loop();
    void admit(tcp::socket socket);
    void run_thread();
    void nudge_all(bool close);

    Core core_;
    tcp::acceptor acceptor_;
    asio::steady_timer pause_;
    std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
    std::vector<std::thread> threads_;
    std::mutex stop_mutex_;
    std::uint16_t port_ = 0;
};

std::string place_of(const HttpOptions& options) {
    return options.address + " port " + std::to_string(options.port);
}

Status Server::open_tls() {
    const HttpOptions& options = core_.options;
    if (options.tls_certificate.empty() && options.tls_key.empty()) return {};
    if (options.tls_certificate.empty() || options.tls_key.empty()) {
        return Error{ErrorCode::Usage, "TLS needs both a certificate and a key"};
    }
    core_.tls.emplace(asio::ssl::context::tls_server);
    SystemError error;
    core_.tls->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                               asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 |
                               asio::ssl::context::no_tlsv1_1,
                           error);
    SSL_CTX_set_mode(core_.tls->native_handle(), SSL_MODE_RELEASE_BUFFERS);  // idle streams cost 34 kB less
    if (!error) core_.tls->use_certificate_chain_file(options.tls_certificate, error);
    if (error) {
        return Error{ErrorCode::Failed, options.tls_certificate + ": not a usable certificate: " + error.message()};
    }
    core_.tls->use_private_key_file(options.tls_key, asio::ssl::context::pem, error);
    if (error) {
        return Error{ErrorCode::Failed, options.tls_key + ": not a usable key of the certificate: " + error.message()};
    }
    return {};
}

Status Server::listen(const asio::ip::address& address) {
    SystemError error;
    const tcp::endpoint endpoint(address, core_.options.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
        return Error{ErrorCode::Failed, "cannot listen on " + place_of(core_.options) + ": " + error.message()};
    }
    port_ = acceptor_.local_endpoint(error).port();
    return {};
}

Status Server::open(const HttpOptions& options, HttpHandler handler) {
    core_.options = options;
    core_.handler = std::move(handler);
    core_.keys = TRY(ApiKeys::create(options.keys));
    SystemError error;
    const asio::ip::address address =
        asio::ip::make_address(options.address == "localhost" ? "127.0.0.1" : options.address, error);
    if (error) return Error{ErrorCode::Usage, options.address + " is not an IP address to listen on"};
    if (!address.is_loopback() && core_.keys.empty()) {
        return Error{ErrorCode::Usage, "listening on " + options.address +
                                           " needs an API key, or everybody who can reach this machine could use it: "
                                           "give a key, or listen on 127.0.0.1"};
    }
    core_.rules = {address.to_string(), options.allowed_hosts, options.allowed_origins, options.public_paths,
                   !options.tls_certificate.empty()};
    core_.connection_limit = connections_within(options.limits.connections, descriptor_limit());
    core_.next_id = static_cast<std::uint64_t>(std::time(nullptr)) << 32;  // differs from those of the last start
    TRY(open_tls());
    TRY(listen(address));
    core_.accepting = true;
    work_.emplace(core_.io.get_executor());
    asio::co_spawn(acceptor_.get_executor(), accept_loop(), [this](const std::exception_ptr&) {
        const std::lock_guard lock(core_.mutex);
        core_.accepting = false;
        core_.changed.notify_all();
    });
    for (std::size_t i = 0; i < std::max<std::size_t>(1, options.io_threads); ++i) {
        threads_.emplace_back([this] { run_thread(); });
    }
    return {};
}

void Server::run_thread() {
    for (;;) {
        try {
            core_.io.run();
            return;
        } catch (...) {  // of a callback or a failed allocation: what threw is lost, the server is not
        }
    }
}

void Server::admit(tcp::socket socket) {
    core_.accepted.fetch_add(1);
    if (core_.serving < core_.connection_limit) {
        return std::make_shared<Connection>(core_, std::move(socket), Role::Serve)->start();
    }
    core_.refused.fetch_add(1);
    if (core_.refusing < kMostRefusing) {
        return std::make_shared<Connection>(core_, std::move(socket), Role::Refuse)->start();
    }
    // Beyond that many there are no descriptors to wait with until each has read its answer.
    if (core_.tls) return;
    ResponseHead head;
    head.status = 429;
    head.length = 0;
    head.keep_alive = false;
    head.id = core_.next_id.fetch_add(1);
    SystemError ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(response_head(head, retry_soon())), ignored);
    socket.shutdown(tcp::socket::shutdown_send, ignored);
}

awaitable<void> Server::accept_loop() {
    while (acceptor_.is_open()) {
        auto [error, socket] =
            co_await acceptor_.async_accept(asio::any_io_executor(asio::make_strand(core_.io)), kAwait);
        bool failed = bool(error);
        if (!failed) {
            try {
                admit(std::move(socket));
            } catch (...) {
                failed = true;
            }
        }
        if (!failed || !acceptor_.is_open() || error == asio::error::connection_aborted) continue;
        // No descriptors or no memory: the callers wait in the kernel's queue meanwhile.
        pause_.expires_after(kAcceptPause);
        co_await pause_.async_wait(kAwait);
    }
}

HttpStats Server::stats() const {
    HttpStats stats;
    stats.connections = core_.serving;
    stats.accepted = core_.accepted;
    stats.refused = core_.refused;
    stats.requests = core_.requests;
    return stats;
}

void Server::nudge_all(bool close) {
    std::vector<std::shared_ptr<Connection>> alive;  // released without the mutex: the last owner needs it to leave
    {
        const std::lock_guard lock(core_.mutex);
        alive.reserve(core_.connections.size());
        for (Connection* connection : core_.connections) {
            if (auto owned = connection->weak_from_this().lock()) alive.push_back(std::move(owned));
        }
    }
    for (const std::shared_ptr<Connection>& connection : alive) connection->nudge(close);
}

void Server::stop_accepting() {
    if (core_.draining.exchange(true)) return;
    asio::post(acceptor_.get_executor(), [this] {
        SystemError ignored;
        acceptor_.close(ignored);
        pause_.cancel();
    });
    {
        std::unique_lock lock(core_.mutex);
        core_.changed.wait(lock, [this] { return !core_.accepting; });
    }
    nudge_all(false);
}

void Server::stop(std::chrono::milliseconds grace) {
    const std::lock_guard only(stop_mutex_);
    if (threads_.empty()) return;
    stop_accepting();
    {
        std::unique_lock lock(core_.mutex);
        core_.changed.wait_for(lock, grace, [this] { return core_.open_exchanges == 0; });
    }
    nudge_all(true);
    {
        std::unique_lock lock(core_.mutex);
        core_.changed.wait(lock, [this] { return core_.connections.empty(); });
    }
    work_.reset();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpOptions& options, HttpHandler handler) {
    try {
        auto server = std::make_unique<Server>();
        const Status opened = server->open(options, std::move(handler));
        if (!opened) return opened.error();
        return std::unique_ptr<HttpServer>(std::move(server));
    } catch (const std::exception& error) {  // Asio throws when the system has no threads or descriptors left
        return Error{ErrorCode::OutOfResources, "cannot start the HTTP server: " + std::string(error.what())};
    }
}

}  // namespace hearth
