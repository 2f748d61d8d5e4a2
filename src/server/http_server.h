// The HTTP/1.1 server: sockets, limits, security checks and streams. It knows nothing about models. Asio's
// templates live in http_server.cpp, Beast's in http_parser.cpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace hearth {

struct HttpLimits {
    std::size_t header_bytes = 32 << 10;  // request line and headers
    std::size_t target_bytes = 8 << 10;
    std::size_t body_bytes = 16 << 20;
    std::size_t all_bodies_bytes = 512 << 20;   // held for all open requests together; beyond it 503
    std::size_t connections = 4096;             // fewer when the descriptor limit says so
    std::size_t stream_buffer_bytes = 1 << 20;  // unsent bytes of a stream: paused beyond half, gone when full
    std::chrono::milliseconds header_deadline{10'000};
    std::chrono::milliseconds body_deadline{60'000};
    std::chrono::milliseconds idle_deadline{75'000};   // between requests of a kept-alive connection
    std::chrono::milliseconds write_deadline{60'000};  // a reader that takes nothing for so long is gone
};

// One answered (or given up) request, for the access log.
struct HttpAccess {
    std::uint64_t id = 0;
    std::string_view method;
    std::string_view path;  // as decoded: may hold any byte but NUL
    std::string_view peer;  // address without port
    std::string_view key_scope;
    unsigned status = 0;  // 499: the client had gone before there was one
    std::uint64_t sent_bytes = 0;
    double seconds = 0;
};

struct HttpOptions {
    std::string address = "127.0.0.1";
    std::uint16_t port = 8080;  // 0: any free one
    std::size_t io_threads = 2;
    std::vector<std::string> keys;             // API keys; a non-loopback address needs one
    std::vector<std::string> allowed_hosts;    // besides the loopback names and the address itself
    std::vector<std::string> allowed_origins;  // besides the server's own
    std::string tls_certificate;               // PEM files; both or none
    std::string tls_key;
    // Answered without a key: these paths, and everything below those that end in "/" (but "/" means itself alone).
    std::vector<std::string> public_paths = {"/", "/health"};
    HttpLimits limits;
    std::function<void(const HttpAccess&)> on_access;  // called on an I/O thread; must not block
};

struct HttpRequest {
    std::string method;  // HEAD arrives as GET, and the body of its answer is left out
    std::string path;    // percent-decoded once, no "..", no NUL
    std::string query;   // raw
    std::string body;
    std::string key_scope;  // stands for the caller's key, never the key itself; empty without keys
    std::uint64_t id = 0;   // for logs and x-request-id
    std::vector<std::pair<std::string, std::string>> headers;  // lower-case names; without keys and cookies

    // The first of that lower-case name; empty when there is none.
    std::string_view header(std::string_view name) const {
        for (const auto& [key, value] : headers) {
            if (key == name) return value;
        }
        return {};
    }
};

// One request being answered. Every function may be called from any thread; after the client has gone they do nothing.
// An exchange that is dropped unanswered answers 500, one that is dropped within a stream closes the connection.
class HttpExchange {
public:
    virtual ~HttpExchange() = default;
    using Headers = std::vector<std::pair<std::string, std::string>>;

    virtual void respond(unsigned status, std::string_view content_type, std::string body, Headers extra = {}) = 0;

    // Server-sent events: begin once, then pieces, then end. The pieces are written as they are.
    virtual void begin_stream(Headers extra = {}) = 0;
    virtual void write(std::string piece) = 0;
    virtual void end_stream() = 0;

    // What the owner of the answer wants to know; set before the first write. Called on an I/O thread, but
    // watch() itself calls `gone` when the client has gone already, and write() the other two, so that the owner knows
    // before it writes more. All three are dropped when the answer is complete.
    struct Watcher {
        std::function<void()> gone;  // the client has closed, timed out or overflowed: stop the work. At most once.
        std::function<void()> slow;  // more than half of the buffer is unsent
        std::function<void()> caught_up;  // it is nearly empty again
    };
    virtual void watch(Watcher watcher) = 0;
};

using HttpHandler = std::function<void(HttpRequest request, std::shared_ptr<HttpExchange> exchange)>;

struct HttpStats {
    std::size_t connections = 0;
    std::uint64_t accepted = 0;
    std::uint64_t refused = 0;  // by a limit
    std::uint64_t requests = 0;
};

class HttpServer {
public:
    // Binds and listens; errors name the address. `handler` is called on an I/O thread and must not block.
    static Result<std::unique_ptr<HttpServer>> start(const HttpOptions& options, HttpHandler handler);
    virtual ~HttpServer() = default;
    virtual std::uint16_t port() const = 0;
    virtual HttpStats stats() const = 0;
    // No new connections; idle ones are closed, open requests are answered and their connections then closed.
    virtual void stop_accepting() = 0;
    // Closes what is left after the open exchanges have ended or the time is over. Not from an I/O thread; a second
    // call from another thread may shorten the time of the first.
    virtual void stop(std::chrono::milliseconds grace) = 0;
};

}  // namespace hearth
