// What the server refuses, and that it says so: sizes, framing, deadlines, the number of connections.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "unit/server/raw_client.h"

namespace hearth::http_test {
namespace {

// An OpenAI error object with this status, after which the connection ends.
void expect_refused(const Running& running, const std::string& bytes, unsigned status) {
    RawClient client = running.client();
    client.send(bytes);
    const Response response = client.read_response();
    EXPECT_EQ(response.status, status) << bytes.substr(0, 80);
    EXPECT_EQ(response.header("content-type"), "application/json");
    EXPECT_EQ(response.header("connection"), "close");
    const Result<Json> body = Json::parse(response.body);
    ASSERT_TRUE(body.ok()) << response.body;
    const Json* error = body.value().find("error");
    ASSERT_TRUE(error);
    for (const char* field : {"message", "type"}) {
        ASSERT_TRUE(error->find(field)) << field;
        EXPECT_TRUE(error->find(field)->as_string());
    }
    for (const char* field : {"param", "code"}) EXPECT_TRUE(error->find(field)) << field;
    EXPECT_TRUE(client.wait_for_close());
}

std::string chunked(std::string_view chunks, std::string_view more_headers = "") {
    return "POST / HTTP/1.1\r\nHost: localhost\r\n" + std::string(more_headers) + "Transfer-Encoding: chunked\r\n\r\n" +
           std::string(chunks);
}

TEST(HttpLimits, AHeaderThatIsTooLargeIs431) {
    HttpOptions options;
    options.limits.header_bytes = 4096;
    const Running running = run_server(options);
    expect_refused(running, get("/", "X-Long: " + std::string(5000, 'x') + "\r\n"), 431);
    expect_refused(running, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Endless: " + std::string(9000, 'x'), 431);
    EXPECT_EQ(running.ask(get("/", "X-Long: " + std::string(3000, 'x') + "\r\n")).status, 200u);
}

TEST(HttpLimits, TooManyHeaderFieldsAre431) {
    const Running running = run_server();
    std::string many;
    for (int i = 0; i < 101; ++i) many += "X-" + std::to_string(i) + ": 1\r\n";
    expect_refused(running, get("/", many), 431);
}

TEST(HttpLimits, ATargetThatIsTooLongIs414) {
    HttpOptions options;
    options.limits.target_bytes = 100;
    options.limits.header_bytes = 4096;
    const Running running = run_server(options);
    expect_refused(running, get("/" + std::string(100, 'a')), 414);
    expect_refused(running, "GET /" + std::string(8000, 'a'), 414);
    EXPECT_EQ(running.ask(get("/" + std::string(99, 'a'))).status, 200u);
}

TEST(HttpLimits, ABodyThatIsTooLargeIs413) {
    HttpOptions options;
    options.limits.body_bytes = 1000;
    const Running running = run_server(options);
    expect_refused(running, post("/", std::string(1001, 'b')), 413);
    expect_refused(running, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n", 413);
    expect_refused(running, chunked("3e9\r\n" + std::string(1001, 'b')), 413);
    const std::string half = "1f4\r\n" + std::string(500, 'b') + "\r\n";
    expect_refused(running, chunked(half + half + "1\r\nb\r\n0\r\n\r\n"), 413);
    EXPECT_EQ(running.ask(post("/", std::string(1000, 'b'))).status, 200u);
    EXPECT_EQ(running.ask(chunked(half + half + "0\r\n\r\n")).status, 200u);
}

TEST(HttpLimits, BodiesTogetherAreBounded) {
    HttpOptions options;
    options.limits.all_bodies_bytes = 1500;
    Parked parked;
    const Running running = run_server(options, parked.handler());
    RawClient first = running.client();
    first.send(post("/", std::string(1000, 'b')));
    const auto exchange = parked.next();
    ASSERT_TRUE(exchange);
    RawClient second = running.client();
    second.send(post("/", std::string(1000, 'b')));
    const Response refused = second.read_response();
    EXPECT_EQ(refused.status, 503u);
    EXPECT_EQ(refused.header("retry-after"), "1");
    exchange->respond(200, "text/plain", "");
    EXPECT_EQ(first.read_response().status, 200u);
    first.send(post("/", std::string(1000, 'b')));  // there is room again for what comes after
    const auto later = parked.next();
    ASSERT_TRUE(later);
    later->respond(200, "text/plain", "");
    EXPECT_EQ(first.read_response().status, 200u);
}

TEST(HttpLimits, AmbiguousLengthsAre400) {
    const Running running = run_server();
    const std::string head = "POST / HTTP/1.1\r\nHost: localhost\r\n";
    for (const char* lengths :
         {"Content-Length: -1\r\n", "Content-Length: 5x\r\n", "Content-Length: \r\n", "Content-Length: +5\r\n",
          "Content-Length: 99999999999999999999999\r\n", "Content-Length: 5\r\nContent-Length: 5\r\n",
          "Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5, 5\r\n",
          "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
          "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"}) {
        expect_refused(running, head + lengths + "\r\nhello", 400);
    }
}

TEST(HttpLimits, UnknownTransferCodingsAre501) {
    const Running running = run_server();
    for (const char* coding : {"gzip", "chunked, gzip", "gzip, chunked", "identity", "xchunked"}) {
        const std::string head = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: ";
        expect_refused(running, head + coding + "\r\n\r\n0\r\n\r\n", 501);
    }
}

TEST(HttpLimits, WhatIsNotHttpIs400) {
    const Running running = run_server();
    for (const char* bytes :
         {"HELLO\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
          "\x16\x03\x01\x02\x00\x01\xfc\r\n\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\nBad Name: 1\r\n\r\n",
          "GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x01z\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
          "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
          "GET / HTTP/1.1\nHost: localhost\n\n\r\n\r\n"}) {
        expect_refused(running, bytes, 400);
    }
    for (const char* chunks : {"zz\r\n", "5\r\nhelloXX0\r\n\r\n", "-5\r\nhello\r\n0\r\n\r\n", "\r\n\r\n"}) {
        expect_refused(running, chunked(chunks), 400);
    }
    expect_refused(running, chunked("5;" + std::string(100'000, 'e')), 400);
}

TEST(HttpLimits, OtherVersionsAre505AndOtherExpectations417) {
    const Running running = run_server();
    expect_refused(running, "GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", 505);
    expect_refused(running, get("/", "Expect: a-pony\r\n"), 417);
}

TEST(HttpLimits, AnEarlyRefusalReachesAClientThatIsStillSending) {
    HttpOptions options;
    options.limits.body_bytes = 1000;
    const Running running = run_server(options);
    RawClient client = running.client();
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n");
    client.send(std::string(3'000'000, 'b'));
    EXPECT_EQ(client.read_response().status, 413u);
}

TEST(HttpLimits, AHeaderThatDoesNotArriveInTimeIs408) {
    HttpOptions options;
    options.limits.header_deadline = std::chrono::milliseconds(50);
    expect_refused(run_server(options), "GET / HTTP/1.1\r\nHost: loc", 408);
}

TEST(HttpLimits, AConnectionThatSaysNothingIsClosed) {
    HttpOptions options;
    options.limits.header_deadline = std::chrono::milliseconds(50);
    const Running running = run_server(options);
    EXPECT_TRUE(running.client().wait_for_close());
}

TEST(HttpLimits, ABodyThatDoesNotArriveInTimeIs408) {
    HttpOptions options;
    options.limits.body_deadline = std::chrono::milliseconds(50);
    const Running running = run_server(options);
    expect_refused(running, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf", 408);
}

TEST(HttpLimits, AnIdleConnectionIsClosedAfterItsDeadline) {
    HttpOptions options;
    options.limits.idle_deadline = std::chrono::milliseconds(50);
    const Running running = run_server(options);
    RawClient client = running.client();
    client.send(get("/"));
    EXPECT_EQ(client.read_response().status, 200u);
    EXPECT_TRUE(client.wait_for_close());
}

TEST(HttpLimits, TheTimeToAnswerIsNotLimited) {
    HttpOptions options;
    options.limits.header_deadline = options.limits.body_deadline = options.limits.idle_deadline =
        options.limits.write_deadline = std::chrono::milliseconds(30);
    OpenRequest open(options, 0, post("/", "x"));
    ASSERT_TRUE(open.exchange);
    RawClient other = open.running.client();  // all deadlines pass while this one waits for its own
    EXPECT_TRUE(other.wait_for_close());
    open.exchange->respond(200, "text/plain", "late");
    EXPECT_EQ(open.client.read_response().body, "late");
}

TEST(HttpLimits, AConnectionBeyondTheLimitIsToldToComeBack) {
    HttpOptions options;
    options.limits.connections = 2;
    const Running running = run_server(options);
    RawClient first = running.client();
    RawClient second = running.client();
    ASSERT_TRUE(eventually([&] { return running.server->stats().connections == 2; }));
    const Response refused = running.ask(get("/"));
    EXPECT_EQ(refused.status, 429u);
    EXPECT_EQ(refused.header("retry-after"), "1");
    EXPECT_EQ(refused.header("connection"), "close");
    EXPECT_EQ(running.server->stats().refused, 1u);
    first.close();
    ASSERT_TRUE(eventually([&] { return running.server->stats().connections == 1; }));
    EXPECT_EQ(running.ask(get("/")).status, 200u);
    second.send(get("/"));
    EXPECT_EQ(second.read_response().status, 200u);
}

}  // namespace
}  // namespace hearth::http_test
