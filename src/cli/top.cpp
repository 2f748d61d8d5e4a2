// hearth top: what a server is doing, redrawn in place. It asks /health over a plain socket.
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/interrupt.h"

namespace hearth {

namespace {

constexpr Positional kPositionals[] = {
    {.name = "SERVER", .required = false, .help = "HOST:PORT of a server; none: 127.0.0.1:8080."}};

constexpr Option kOptions[] = {
    {.name = "interval",
     .kind = ValueKind::Whole,
     .value_name = "MS",
     .help = "Time between two looks.",
     .default_text = "1000"},
    {.name = "once", .help = "One look, without a rate, and done."},
};

constexpr Example kExamples[] = {{"hearth top", "Watches the server on this machine."},
                                 {"hearth top 10.0.0.7:8080 --once --json", "What it says, as JSON."}};

constexpr std::size_t kReplyLimit = 1 << 20;
constexpr int kTimeoutSeconds = 5;

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

int connect_to(const std::string& host, const std::string& port) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return -1;
    int descriptor = -1;
    for (const addrinfo* one = found; one != nullptr && descriptor < 0; one = one->ai_next) {
        descriptor = ::socket(one->ai_family, one->ai_socktype, one->ai_protocol);
        if (descriptor < 0) continue;
        const timeval limit{kTimeoutSeconds, 0};
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

// /health of the server; it answers so whatever its state.
Result<Json> ask_health(const std::string& host, const std::string& port) {
    const Error unreachable{ErrorCode::Failed, "top: no server answers at " + host + ":" + port};
    const Socket socket(connect_to(host, port));
    if (socket.descriptor() < 0) return unreachable;
    const std::string request = "GET /health HTTP/1.1\r\nHost: " + host + ":" + port + "\r\nConnection: close\r\n\r\n";
    if (::send(socket.descriptor(), request.data(), request.size(), 0) != static_cast<ssize_t>(request.size())) {
        return unreachable;
    }
    std::string reply;
    char buffer[8192];
    for (ssize_t got = 0; (got = ::recv(socket.descriptor(), buffer, sizeof buffer, 0)) > 0;) {
        reply.append(buffer, static_cast<std::size_t>(got));
        if (reply.size() > kReplyLimit) break;
    }
    const std::size_t body = reply.find("\r\n\r\n");
    if (!reply.starts_with("HTTP/1.1 ") || body == std::string::npos) return unreachable;
    Result<Json> health = Json::parse(std::string_view(reply).substr(body + 4));
    if (!health.ok() || health->find("models") == nullptr) {
        return Error{ErrorCode::Failed, "top: what answers at " + host + ":" + port + " is not a Hearth server"};
    }
    return health;
}

std::int64_t count_of(const Json& model, std::string_view key) {
    const Json* value = model.find(key);
    return value != nullptr && value->as_int() != nullptr ? *value->as_int() : 0;
}

std::string text_of(const Json& object, std::string_view key) {
    const Json* value = object.find(key);
    return value != nullptr && value->as_string() != nullptr ? *value->as_string() : std::string("?");
}

std::string padded(std::string text, std::size_t width) {
    text.resize(std::max(text.size(), width), ' ');
    return text;
}

std::string percent(std::int64_t part, std::int64_t whole) {
    return whole == 0 ? "-" : std::to_string(part * 100 / whole) + " %";
}

// One line a model; `before` is the look `seconds` ago, or null.
std::string draw(const Json& health, const Json& before, double seconds) {
    std::string out = "hearth " + text_of(health, "version") + " · " + text_of(health, "status") + "\n" +
                      padded("model", 28) + padded("state", 10) + padded("running", 9) + padded("waiting", 9) +
                      padded("tok/s", 9) + padded("prompt/s", 10) + padded("cached", 8) + "KV used\n";
    const Json::Array none;
    const Json* list = health.find("models");
    for (const Json& model : list->as_array() != nullptr ? *list->as_array() : none) {
        const Json* earlier = nullptr;
        if (const Json* old = before.find("models"); old != nullptr && old->as_array() != nullptr) {
            for (const Json& one : *old->as_array()) {
                if (text_of(one, "id") == text_of(model, "id")) earlier = &one;
            }
        }
        const auto rate = [&](std::string_view key) {
            if (earlier == nullptr || seconds <= 0) return std::string("-");
            return format_number(static_cast<double>(count_of(model, key) - count_of(*earlier, key)) / seconds, 1);
        };
        const std::int64_t blocks = count_of(model, "kv_blocks");
        const std::int64_t used = blocks - count_of(model, "kv_blocks_free") - count_of(model, "kv_blocks_cached");
        out += padded(text_of(model, "id").substr(0, 26), 28) + padded(text_of(model, "status"), 10) +
               padded(std::to_string(count_of(model, "running")), 9) +
               padded(std::to_string(count_of(model, "waiting")), 9) + padded(rate("generated_tokens"), 9) +
               padded(rate("prompt_tokens"), 10) +
               padded(percent(count_of(model, "cached_tokens"), count_of(model, "prompt_tokens")), 8) +
               percent(used, blocks) + "\n";
    }
    return out;
}

Status run_top(const Arguments& arguments, Session& session) {
    Console& console = session.console;
    const std::string server = arguments.positional(0).value_or("127.0.0.1:8080");
    const std::size_t colon = server.rfind(':');
    const std::string host = server.substr(0, colon);
    const std::string port = colon == std::string::npos ? "8080" : server.substr(colon + 1);
    const std::chrono::milliseconds interval(TRY(arguments.whole("interval", 50, 3'600'000)).value_or(1000));
    Json before;
    double then = monotonic_seconds();
    if (arguments.flag("once") || !console.output_is_terminal()) {
        const Json health = TRY(ask_health(host, port));
        console.print(arguments.flag("json") ? health.dump() + "\n" : draw(health, before, 0));
        return {};
    }
    const InterruptScope interrupts;
    while (!InterruptScope::requested() && !console.output_closed()) {
        const Json health = TRY(ask_health(host, port));
        const double now = monotonic_seconds();
        console.print("\x1b[H\x1b[2J" + draw(health, before, now - then) + "\nCtrl-C ends this.\n");
        before = health;
        then = now;
        std::this_thread::sleep_for(interval);
    }
    return {};
}

}  // namespace

const Command kTopCommand = {
    "top",
    "Watch a server at work",
    "Shows a line per model of a running `hearth serve`: answers running and waiting, tokens per second, the part of "
    "the "
    "prompts that was known already, and the KV in use. Redraws until Ctrl-C; without a terminal, or with --once, it "
    "looks once.",
    kPositionals,
    kOptions,
    kExamples,
    run_top};

}  // namespace hearth
