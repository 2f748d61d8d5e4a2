// The server over real sockets: requests, connections, streams, and clients that leave.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "unit/server/raw_client.h"

namespace hearth::http_test {
namespace {

TEST(HttpServer, AnswersWithWhatTheHandlerSays) {
    const Running running = run_server();
    const Response response = running.ask(post("/a%20b?x=1", "hello"));
    EXPECT_EQ(response.status, 200u);
    EXPECT_EQ(response.body, "POST /a b x=1 hello");
    EXPECT_EQ(response.header("content-type"), "text/plain");
    EXPECT_EQ(response.header("cache-control"), "no-store");
    EXPECT_EQ(response.header("x-content-type-options"), "nosniff");
    EXPECT_EQ(response.header("x-request-id").size(), 20u);
}

TEST(HttpServer, KeepsAConnectionForTheNextRequest) {
    const Running running = run_server();
    RawClient client = running.client();
    for (const char* path : {"/one", "/two", "/three"}) {
        ASSERT_TRUE(client.send(get(path)));
        const Response response = client.read_response();
        EXPECT_EQ(response.body, "GET " + std::string(path) + "  ");
        EXPECT_EQ(response.header("connection"), "keep-alive");
    }
    EXPECT_EQ(running.server->stats().accepted, 1u);
    EXPECT_EQ(running.server->stats().requests, 3u);
}

TEST(HttpServer, ClosesWhenTheClientAsksForIt) {
    const Running running = run_server();
    RawClient client = running.client();
    ASSERT_TRUE(client.send(get("/", "Connection: close\r\n")));
    EXPECT_EQ(client.read_response().header("connection"), "close");
    EXPECT_TRUE(client.wait_for_close());
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
    Parked parked;
    const Running running = run_server({}, parked.handler());
    RawClient client = running.client();
    ASSERT_TRUE(client.send(get("/1") + post("/2", "two") + get("/3")));
    for (const char* body : {"first", "second", "third"}) {
        const auto exchange = parked.next();
        ASSERT_TRUE(exchange);
        exchange->respond(200, "text/plain", body);
        EXPECT_EQ(client.read_response().body, body);
    }
}

TEST(HttpServer, StreamsPiecesInOrderAsChunks) {
    Parked parked;
    const Running running = run_server({}, parked.handler());
    RawClient client = running.client();
    ASSERT_TRUE(client.send(get("/")));
    const auto exchange = parked.next();
    ASSERT_TRUE(exchange);
    exchange->begin_stream();
    const std::string head = client.read_until("\r\n\r\n");
    EXPECT_NE(head.find("content-type: text/event-stream\r\n"), std::string::npos);
    EXPECT_NE(head.find("transfer-encoding: chunked\r\n"), std::string::npos);
    exchange->write("data: 1\n\n");  // arrives by itself, before the next is written
    EXPECT_EQ(client.read_until("\n\n\r\n"), "9\r\ndata: 1\n\n\r\n");
    exchange->write("data: 2\n\n");
    EXPECT_EQ(client.read_until("\n\n\r\n"), "9\r\ndata: 2\n\n\r\n");
    exchange->end_stream();
    EXPECT_EQ(client.read_until("0\r\n\r\n"), "0\r\n\r\n");
    ASSERT_TRUE(client.send(get("/")));  // and the connection is still good
    const auto second = parked.next();
    ASSERT_TRUE(second);
    second->respond(200, "text/plain", "again");
    EXPECT_EQ(client.read_response().body, "again");
}

TEST(HttpServer, StreamsFromAnotherThreadWithoutLosingAPiece) {
    Parked parked;
    const Running running = run_server({}, parked.handler());
    RawClient client = running.client();
    ASSERT_TRUE(client.send(get("/")));
    const auto exchange = parked.next();
    ASSERT_TRUE(exchange);
    std::string expected;
    for (int i = 0; i < 5000; ++i) expected += std::to_string(i) + "\n";
    std::thread writer([&] {
        exchange->begin_stream();
        for (int i = 0; i < 5000; ++i) exchange->write(std::to_string(i) + "\n");
        exchange->end_stream();
    });
    const Response response = client.read_response();
    writer.join();
    EXPECT_TRUE(response.complete);
    EXPECT_EQ(response.body, expected);
}

}  // namespace
}  // namespace hearth::http_test
