// See raw_client.h.
#include "unit/server/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <utility>

namespace hearth::http_test {

std::string Response::header(std::string_view name) const {
    const std::string line = "\r\n" + std::string(name) + ": ";
    const std::size_t at = head.find(line);
    if (at == std::string::npos) return "";
    const std::size_t start = at + line.size();
    return head.substr(start, head.find("\r\n", start) - start);
}

RawClient::RawClient(std::uint16_t port, int receive_buffer_bytes) {
    descriptor_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor_ < 0) return;
    if (receive_buffer_bytes > 0) {
        setsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
    }
    const timeval patience = {kPatience.count(), 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    const int on = 1;
    setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) close();
}

RawClient::~RawClient() {
    close();
}

RawClient::RawClient(RawClient&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), buffer_(std::move(other.buffer_)) {}

void RawClient::close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
}

void RawClient::reset() {
    const linger abort = {1, 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
    close();
}

void RawClient::finish_sending() {
    shutdown(descriptor_, SHUT_WR);
}

bool RawClient::send(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

bool RawClient::fill() {
    std::array<char, 16384> piece;
    const ssize_t size = recv(descriptor_, piece.data(), piece.size(), 0);
    if (size <= 0) return false;
    buffer_.append(piece.data(), static_cast<std::size_t>(size));
    return true;
}

std::string RawClient::read_until(std::string_view end) {
    std::size_t at = 0;
    while ((at = buffer_.find(end)) == std::string::npos) {
        if (!fill()) return std::exchange(buffer_, "");
    }
    std::string found = buffer_.substr(0, at + end.size());
    buffer_.erase(0, found.size());
    return found;
}

bool RawClient::wait_for_close() {
    for (;;) {
        std::array<char, 16384> piece;
        pollfd ready = {descriptor_, POLLIN, 0};
        if (poll(&ready, 1, static_cast<int>(kPatience.count()) * 1000) <= 0) return false;
        if (recv(descriptor_, piece.data(), piece.size(), 0) <= 0) return true;  // an end or a reset
    }
}

Response RawClient::read_response(bool to_head) {
    Response response;
    response.head = read_until("\r\n\r\n");
    if (!response.head.ends_with("\r\n\r\n") || !response.head.starts_with("HTTP/1.1 ")) return response;
    response.status = static_cast<unsigned>(std::atoi(response.head.c_str() + 9));
    if (to_head || response.status < 200 || response.status == 204) {
        response.complete = true;
        return response;
    }
    if (response.header("transfer-encoding") == "chunked") {
        for (;;) {
            const std::string line = read_until("\r\n");
            if (!line.ends_with("\r\n")) return response;
            const std::size_t size = std::strtoull(line.c_str(), nullptr, 16);
            while (buffer_.size() < size + 2) {
                if (!fill()) return response;
            }
            response.body += buffer_.substr(0, size);
            buffer_.erase(0, size + 2);
            if (size == 0) break;
        }
        response.complete = true;
        return response;
    }
    const std::string length = response.header("content-length");
    if (length.empty()) {  // the body ends with the connection
        while (fill()) {
        }
        response.body = std::exchange(buffer_, "");
        response.complete = true;
        return response;
    }
    const std::size_t size = std::strtoull(length.c_str(), nullptr, 10);
    while (buffer_.size() < size) {
        if (!fill()) return response;
    }
    response.body = buffer_.substr(0, size);
    buffer_.erase(0, size);
    response.complete = true;
    return response;
}

std::string get(std::string_view path, std::string_view more_headers) {
    return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(more_headers) + "\r\n";
}

std::string post(std::string_view path, std::string_view body, std::string_view more_headers) {
    return "POST " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(more_headers) +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

void Event::set() {
    const std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_all();
}

bool Event::wait(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [this] { return set_; });
}

bool Event::is_set() const {
    const std::lock_guard lock(mutex_);
    return set_;
}

bool eventually(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!holds()) {
        if (std::chrono::steady_clock::now() > end) return false;
        poll(nullptr, 0, 1);
    }
    return true;
}

Response Running::ask(std::string_view bytes) const {
    RawClient asking = client();
    asking.send(bytes);
    return asking.read_response(bytes.starts_with("HEAD"));
}

Running run_server(HttpOptions options, HttpHandler handler) {
    options.port = 0;
    if (!handler) {
        handler = [](const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange) {
            exchange->respond(200, "text/plain",
                              request.method + " " + request.path + " " + request.query + " " + request.body);
        };
    }
    Result<std::unique_ptr<HttpServer>> server = HttpServer::start(options, std::move(handler));
    if (!server.ok()) return {};
    return {std::move(server).value()};
}

HttpHandler Parked::handler() {
    return [this](const HttpRequest&, std::shared_ptr<HttpExchange> exchange) {
        const std::lock_guard lock(mutex_);
        waiting_.push_back(std::move(exchange));
        changed_.notify_all();
    };
}

std::shared_ptr<HttpExchange> Parked::next() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [this] { return waiting_.size() > taken_; })) return nullptr;
    return std::move(waiting_[taken_++]);
}

OpenRequest::OpenRequest(const HttpOptions& options, int receive_buffer_bytes, std::string_view request)
    : running(run_server(options, parked.handler())), client(running.port(), receive_buffer_bytes) {
    if (client.send(request)) exchange = parked.next();
}

}  // namespace hearth::http_test
