// Sockets, threads and deadlines of the HTTP server; the one file that includes Asio.
#include <utility>
// First of all: on GCC 12 Asio's coroutine headers use std::exchange without including it.
#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/strand.hpp>
#include <ctime>
#include <thread>
#include <tuple>
#include <vector>

#include "server/http_connection.h"
#include "server/http_gate.h"
#include "server/http_response.h"
#include "server/http_server.h"

namespace hearth {

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
        body = error_body(status, message, traits.path);
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
        traits.path = judgement.request.path;
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

namespace {

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
    void drain();

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
    const std::lock_guard only(stop_mutex_);
    drain();
}

void Server::drain() {
    if (threads_.empty() || core_.draining.exchange(true)) return;
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
    {
        const std::lock_guard lock(core_.mutex);
        core_.stop_at = std::min(core_.stop_at, std::chrono::steady_clock::now() + grace);
        core_.changed.notify_all();  // a stop that is under way may have less time now
    }
    const std::lock_guard only(stop_mutex_);
    if (threads_.empty()) return;
    drain();
    {
        std::unique_lock lock(core_.mutex);
        while (core_.open_exchanges > 0 && std::chrono::steady_clock::now() < core_.stop_at) {
            core_.changed.wait_until(lock, core_.stop_at);
        }
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
