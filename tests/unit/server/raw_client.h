// A client of bytes: what the tests of the HTTP server send and read, with nothing that would tidy it up.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_server.h"

namespace hearth::http_test {

constexpr std::chrono::seconds kPatience{20};  // for what must come; reached only when a test fails

struct Response {
    unsigned status = 0;
    std::string head;  // with the status line, lower-case as the server writes it
    std::string body;  // unchunked
    bool complete = false;

    std::string header(std::string_view name) const;
};

class RawClient {
public:
    explicit RawClient(std::uint16_t port, int receive_buffer_bytes = 0);
    ~RawClient();
    RawClient(RawClient&& other) noexcept;
    RawClient(const RawClient&) = delete;
    RawClient& operator=(const RawClient&) = delete;

    bool connected() const { return descriptor_ >= 0; }
    int descriptor() const { return descriptor_; }
    bool send(std::string_view bytes);
    void finish_sending();  // half-closes
    void close();
    void reset();  // closes with RST
    Response read_response(bool to_head = false);
    std::string read_until(std::string_view end);  // all read so far up to and with `end`; less when the stream ends
    bool wait_for_close();                         // reads and drops the rest; false when it does not end

private:
    bool fill();
    int descriptor_ = -1;
    std::string buffer_;
};

std::string get(std::string_view path, std::string_view more_headers = "");
std::string post(std::string_view path, std::string_view body, std::string_view more_headers = "");

// Something a callback announces and a test waits for.
class Event {
public:
    void set();
    bool wait(std::chrono::milliseconds time = kPatience);
    bool is_set() const;

private:
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    bool set_ = false;
};

bool eventually(const std::function<bool()>& holds);  // polls; false after kPatience

// A server on a free port. The default handler answers "METHOD path query body".
struct Running {
    std::unique_ptr<HttpServer> server;
    std::uint16_t port() const { return server->port(); }
    RawClient client() const { return RawClient(server->port()); }
    Response ask(std::string_view bytes) const;
};
Running run_server(HttpOptions options = {}, HttpHandler handler = nullptr);

// Keeps the exchanges it is given for the test to answer.
class Parked {
public:
    HttpHandler handler();
    std::shared_ptr<HttpExchange> next();  // waits; null when none comes

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::shared_ptr<HttpExchange>> waiting_;
    std::size_t taken_ = 0;
};

// A server with one client whose request waits for the test to answer it. What fails on the way leaves no exchange.
struct OpenRequest {
    explicit OpenRequest(const HttpOptions& options = {}, int receive_buffer_bytes = 0,
                         std::string_view request = get("/"));

    Parked parked;
    Running running;
    RawClient client;
    std::shared_ptr<HttpExchange> exchange;
};

}  // namespace hearth::http_test
