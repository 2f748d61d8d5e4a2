// Many connections at once: idle streams, slow senders, and too few descriptors.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "unit/server/raw_client.h"

namespace hearth::http_test {
namespace {

// The descriptors that `clients` need on both sides, or fewer clients where the machine gives less.
std::size_t affordable_clients(std::size_t clients) {
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur > 2 * clients + 1000 ? clients : (limit.rlim_cur - 200) / 3;
}

TEST(HttpLoad, ThousandsOfIdleStreamsLeaveRoomForOthers) {
    const std::size_t count = affordable_clients(2000);
    std::mutex mutex;
    std::vector<std::shared_ptr<HttpExchange>> streams;
    const Running running = run_server({}, [&](const HttpRequest& request, std::shared_ptr<HttpExchange> exchange) {
        if (request.path == "/health") return exchange->respond(200, "application/json", "{}");
        exchange->begin_stream();
        exchange->write("data: hello\n\n");
        const std::lock_guard lock(mutex);
        streams.push_back(std::move(exchange));
    });
    std::vector<RawClient> clients;
    for (std::size_t i = 0; i < count; ++i) {
        clients.push_back(running.client());
        ASSERT_TRUE(clients.back().send(get("/stream")));
    }
    for (RawClient& client : clients) ASSERT_NE(client.read_until("hello\n\n").find("200 OK"), std::string::npos);
    EXPECT_EQ(running.ask(get("/health")).body, "{}");
    for (const auto& stream : streams) stream->write("data: more\n\n");
    for (RawClient& client : clients) ASSERT_NE(client.read_until("more\n\n").find("more"), std::string::npos);
    EXPECT_EQ(running.ask(get("/health")).body, "{}");
    for (const auto& stream : streams) stream->end_stream();
    for (RawClient& client : clients) ASSERT_NE(client.read_until("0\r\n\r\n").find("0\r\n\r\n"), std::string::npos);
}

TEST(HttpLoad, SlowSendersAreClosedWhileOthersAreServed) {
    const std::size_t count = affordable_clients(2000);
    HttpOptions options;
    options.limits.header_deadline = std::chrono::milliseconds(1500);
    const Running running = run_server(options);
    RawClient kept = running.client();
    kept.send(get("/"));
    ASSERT_EQ(kept.read_response().status, 200u);
    std::vector<RawClient> slow;
    for (std::size_t i = 0; i < count; ++i) {
        slow.push_back(running.client());
        slow.back().send("GET / HTTP/1.1\r\nHost: loc");
    }
    kept.send(get("/"));
    EXPECT_EQ(kept.read_response().status, 200u);
    for (RawClient& client : slow) ASSERT_TRUE(client.wait_for_close());
    slow.clear();
    kept.send(get("/"));
    EXPECT_EQ(kept.read_response().status, 200u);
    EXPECT_TRUE(eventually([&] { return running.server->stats().connections == 1; }));
}

// In a process of its own with 256 descriptors; says its port, then serves until its input ends.
[[noreturn]] void serve_with_few_descriptors(int port_pipe, int end_pipe) {
    const rlimit few = {256, 256};
    setrlimit(RLIMIT_NOFILE, &few);
    const Running running = run_server();
    if (!running.server) std::_Exit(1);
    const std::uint16_t port = running.port();
    if (write(port_pipe, &port, sizeof port) != sizeof port) std::_Exit(2);
    char byte = 0;
    while (read(end_pipe, &byte, 1) > 0) {
    }
    running.server->stop(std::chrono::milliseconds(0));
    std::_Exit(running.server->stats().connections == 0 ? 0 : 3);
}

TEST(HttpLoad, SurvivesFiveThousandClientsWithFewDescriptors) {
    int port_pipe[2] = {};
    int end_pipe[2] = {};
    ASSERT_EQ(pipe(port_pipe), 0);
    ASSERT_EQ(pipe(end_pipe), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        close(end_pipe[1]);
        serve_with_few_descriptors(port_pipe[1], end_pipe[0]);
    }
    close(port_pipe[1]);
    close(end_pipe[0]);
    std::uint16_t port = 0;
    ASSERT_EQ(read(port_pipe[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
    RawClient kept(port);
    kept.send(get("/"));
    ASSERT_EQ(kept.read_response().status, 200u);
    {
        std::vector<RawClient> crowd;
        const std::size_t count = affordable_clients(5000);
        for (std::size_t i = 0; i < count; ++i) {
            crowd.emplace_back(port);
            crowd.back().send(get("/"));
        }
        std::size_t served = 0;
        std::size_t told = 0;
        for (RawClient& client : crowd) {
            const unsigned status = client.read_response().status;
            served += status == 200;
            told += status == 429;
        }
        EXPECT_GE(served, 150u);
        EXPECT_LE(served, 256u);
        EXPECT_GE(told, 1u);
        kept.send(get("/"));
        EXPECT_EQ(kept.read_response().status, 200u);  // whoever is in stays in
    }
    EXPECT_TRUE(eventually([&] {  // and there is room again when the crowd has left
        RawClient next(port);
        next.send(get("/"));
        return next.read_response().status == 200;
    }));
    close(end_pipe[1]);
    close(port_pipe[0]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace hearth::http_test
