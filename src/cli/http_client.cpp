// See http_client.h.
#include "cli/http_client.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>

namespace hearth {

namespace {

constexpr std::size_t kReplyLimit = std::size_t{64} << 20;
constexpr std::size_t kReplyDepth = 64;

class Socket {
public:
    explicit Socket(int descriptor) : descriptor_(descriptor) {}
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    ~Socket() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }
    int descriptor() const { return descriptor_; }

private:
    int descriptor_;
};

int connect_to(const ServerAddress& address, std::chrono::seconds patience) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found) != 0) return -1;
    int descriptor = -1;
    for (const addrinfo* one = found; one != nullptr && descriptor < 0; one = one->ai_next) {
        descriptor = ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
        if (descriptor < 0) continue;
        timeval limit = {};
        limit.tv_sec = patience.count();
        ::setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        if (::connect(descriptor, one->ai_addr, one->ai_addrlen) != 0) {
            ::close(descriptor);
            descriptor = -1;
        }
    }
    ::freeaddrinfo(found);
    return descriptor;
}

bool send_all(int descriptor, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

std::string head_of(const ServerAddress& address, const ServerRequest& request) {
    std::string head = std::string(request.method) + " " + request.path + " HTTP/1.1\r\nHost: " + address.shown() +
                       "\r\nConnection: close\r\n";
    if (!request.key.empty()) head += "Authorization: Bearer " + request.key + "\r\n";
    if (!request.body.empty()) {
        head += "Content-Type: application/json\r\nContent-Length: " + std::to_string(request.body.size()) + "\r\n";
    }
    return head + "\r\n";
}

bool is_header_text(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

std::string ServerAddress::shown() const {
    return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port;
}

Result<ServerAddress> ServerAddress::parse(std::string_view text) {
    const std::string given(text);
    const Error bad{ErrorCode::Usage, "'" + given + "' is not the address of a server (http://HOST:PORT)"};
    if (text.starts_with("https://")) {
        return Error{ErrorCode::Usage, "'" + given + "': only plain HTTP is spoken here (http://HOST:PORT)"};
    }
    if (text.starts_with("http://")) text.remove_prefix(7);
    if (text.ends_with('/')) text.remove_suffix(1);
    ServerAddress address;
    std::size_t colon = text.rfind(':');
    if (text.starts_with('[')) {
        const std::size_t end = text.find(']');
        if (end == std::string_view::npos) return bad;
        address.host = std::string(text.substr(1, end - 1));
        if (end + 1 < text.size() && text[end + 1] != ':') return bad;
        colon = end + 1 < text.size() ? end + 1 : std::string_view::npos;
    } else {
        address.host = std::string(text.substr(0, colon));
    }
    if (colon != std::string_view::npos) address.port = std::string(text.substr(colon + 1));
    const bool is_number =
        !address.port.empty() && address.port.size() <= 5 &&
        std::all_of(address.port.begin(), address.port.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number || address.host.empty() || !is_header_text(address.host) ||
        address.host.find_first_of("/[]") != std::string::npos) {
        return bad;
    }
    return address;
}

Result<ServerReply> ask_server(const ServerAddress& address, const ServerRequest& request) {
    if (!is_header_text(request.key)) return Error{ErrorCode::Usage, "the key holds bytes that cannot be sent"};
    const Socket socket(connect_to(address, request.patience));
    if (socket.descriptor() < 0 || !send_all(socket.descriptor(), head_of(address, request)) ||
        !send_all(socket.descriptor(), request.body)) {
        return Error{ErrorCode::Failed, "no server answers at " + address.shown() + " (hearth serve starts one)"};
    }
    std::string reply;
    char buffer[8192];
    for (ssize_t got = 0; (got = ::recv(socket.descriptor(), buffer, sizeof buffer, 0)) > 0;) {
        reply.append(buffer, static_cast<std::size_t>(got));
        if (reply.size() > kReplyLimit) break;
    }
    if (reply.empty()) return Error{ErrorCode::Failed, "the server at " + address.shown() + " said nothing"};
    Result<ServerReply> parsed = parse_reply(reply);
    if (!parsed.ok()) {
        return Error{ErrorCode::Failed,
                     "what answers at " + address.shown() + " is not a Hearth server: " + parsed.error().message};
    }
    return parsed;
}

Result<ServerReply> parse_reply(std::string_view bytes) {
    constexpr std::string_view kVersion = "HTTP/1.1 ";
    const std::size_t end = bytes.find("\r\n\r\n");
    if (!bytes.starts_with(kVersion) || end == std::string_view::npos || end < kVersion.size() + 3) {
        return Error{ErrorCode::Failed, "no answer of HTTP/1.1"};
    }
    ServerReply reply;
    for (const char digit : bytes.substr(kVersion.size(), 3)) {
        if (digit < '0' || digit > '9') return Error{ErrorCode::Failed, "no status"};
        reply.status = reply.status * 10 + static_cast<unsigned>(digit - '0');
    }
    Result<Json> body = Json::parse(bytes.substr(end + 4), kReplyDepth);
    if (!body.ok()) return body.error();
    reply.body = std::move(body).value();
    return reply;
}

std::string error_text(const ServerReply& reply) {
    const Json* error = reply.body.find("error");
    const Json* message = error == nullptr ? nullptr : error->find("message");
    if (message != nullptr && message->as_string() != nullptr) return *message->as_string();
    return "the server answers with status " + std::to_string(reply.status);
}

}  // namespace hearth
