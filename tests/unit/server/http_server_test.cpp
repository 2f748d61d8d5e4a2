// The server over real sockets: requests, connections, streams, and clients that leave.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/http_exchange.h"
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

TEST(HttpServer, SendsWhatComesFastTogetherAndKeepsNothingForALaterPiece) {
    OpenRequest open;
    ASSERT_TRUE(open.exchange);
    open.exchange->begin_stream();
    open.client.read_until("\r\n\r\n");
    std::string written;
    for (int i = 0; i < 100; ++i) {  // much faster than sends follow one another
        const std::string piece = "data: " + std::to_string(i) + "\n\n";
        written += piece;
        open.exchange->write(piece);
    }
    std::string read;  // to the last piece, though nothing comes after it
    std::size_t chunks = 0;
    for (; read.size() < written.size(); ++chunks) {
        const std::string head = open.client.read_until("\r\n");
        ASSERT_FALSE(head.empty());
        const std::string chunk = open.client.read_until("\n\n\r\n");
        ASSERT_EQ(std::stoul(head, nullptr, 16) + 2, chunk.size());
        read += chunk.substr(0, chunk.size() - 2);
    }
    EXPECT_EQ(read, written);
    EXPECT_LT(chunks, 100U);
}

TEST(HttpExchange, KeepsLittleTextForMoreToCome) {
    struct FullSocket final : ExchangeHost {
        bool wake_later() override { return woken = true; }
        bool wake_in_a_moment() override { return true; }
        std::size_t send_now(std::string_view) override { return 0; }
        bool sends_directly() const override { return true; }
        bool woken = false;
    } host;
    ExchangeState exchange(host, {});
    exchange.begin_stream({});
    exchange.deliver();
    exchange.write("the first is sent at once");
    exchange.deliver();
    host.woken = false;
    const std::string piece(1024, 'x');
    // Half a buffer of a megabyte is much more than this: a reader that is slow is noticed in time.
    for (int i = 0; i < 32 && !host.woken; ++i) exchange.write(piece);
    EXPECT_TRUE(host.woken);
    exchange.abandon();
}

TEST(HttpServer, AWriterHearsThatItsReaderIsSlowBeforeItWritesMore) {
    struct Host final : ExchangeHost {  // its thread never comes
        bool wake_later() override { return true; }
        bool wake_in_a_moment() override { return true; }
        std::size_t send_now(std::string_view) override { return 0; }
        bool sends_directly() const override { return false; }
    } host;
    ExchangeTraits traits;
    traits.stream_buffer_bytes = 64 << 10;
    ExchangeState exchange(host, traits);
    int slow = 0;
    int caught_up = 0;
    exchange.watch({nullptr, [&] { ++slow; }, [&] { ++caught_up; }});
    exchange.begin_stream({});
    std::string taken;
    EXPECT_TRUE(exchange.take(taken));  // the head
    exchange.sent();
    for (std::size_t written = 0; written <= traits.stream_buffer_bytes / 2; written += 1024) {
        EXPECT_EQ(slow, 0);
        exchange.write(std::string(1024, 'x'));
    }
    EXPECT_EQ(slow, 1);
    exchange.write("y");
    EXPECT_EQ(slow, 1);
    EXPECT_TRUE(exchange.deliver());
    EXPECT_TRUE(exchange.take(taken));
    exchange.sent();
    EXPECT_EQ(caught_up, 0);
    EXPECT_TRUE(exchange.deliver());
    EXPECT_EQ(caught_up, 1);
    exchange.abandon();
}

TEST(HttpServer, StreamsPiecesInOrderAsChunks) {
    OpenRequest open;
    ASSERT_TRUE(open.exchange);
    open.exchange->begin_stream();
    const std::string head = open.client.read_until("\r\n\r\n");
    EXPECT_NE(head.find("content-type: text/event-stream\r\n"), std::string::npos);
    EXPECT_NE(head.find("transfer-encoding: chunked\r\n"), std::string::npos);
    open.exchange->write("data: 1\n\n");  // arrives by itself, before the next is written
    EXPECT_EQ(open.client.read_until("\n\n\r\n"), "9\r\ndata: 1\n\n\r\n");
    open.exchange->write("data: 2\n\n");
    EXPECT_EQ(open.client.read_until("\n\n\r\n"), "9\r\ndata: 2\n\n\r\n");
    open.exchange->end_stream();
    EXPECT_EQ(open.client.read_until("0\r\n\r\n"), "0\r\n\r\n");
    ASSERT_TRUE(open.client.send(get("/")));  // and the connection is still good
    const auto second = open.parked.next();
    ASSERT_TRUE(second);
    second->respond(200, "text/plain", "again");
    EXPECT_EQ(open.client.read_response().body, "again");
}

TEST(HttpServer, StreamsFromAnotherThreadWithoutLosingAPiece) {
    OpenRequest open;
    ASSERT_TRUE(open.exchange);
    std::string expected;
    for (int i = 0; i < 5000; ++i) expected += std::to_string(i) + "\n";
    std::thread writer([&] {
        open.exchange->begin_stream();
        for (int i = 0; i < 5000; ++i) open.exchange->write(std::to_string(i) + "\n");
        open.exchange->end_stream();
    });
    const Response response = open.client.read_response();
    writer.join();
    EXPECT_TRUE(response.complete);
    EXPECT_EQ(response.body, expected);
}

TEST(HttpServer, AnswersHeadWithoutTheBodyOfGet) {
    const Running running = run_server();
    RawClient client = running.client();
    client.send("HEAD /x HTTP/1.1\r\nHost: localhost\r\n\r\n" + get("/y"));
    const Response head = client.read_response(true);
    EXPECT_EQ(head.status, 200u);
    EXPECT_EQ(head.header("content-length"), "8");
    EXPECT_EQ(client.read_response().body, "GET /y  ");
}

TEST(HttpServer, SaysContinueToAClientThatWaitsForIt) {
    const Running running = run_server();
    RawClient client = running.client();
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hello");
    EXPECT_EQ(client.read_response().body, "POST /  hello");
}

TEST(HttpServer, ReadsChunkedBodiesInPiecesOfAnySize) {
    const Running running = run_server();
    RawClient client = running.client();
    const std::string request =
        "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5\r\nhello\r\n6;note=1\r\n world\r\n0\r\nX-Trailer: 1\r\n\r\n";
    for (const char byte : request) ASSERT_TRUE(client.send(std::string_view(&byte, 1)));
    EXPECT_EQ(client.read_response().body, "POST /  hello world");
    client.send(request + get("/next"));
    EXPECT_EQ(client.read_response().body, "POST /  hello world");
    EXPECT_EQ(client.read_response().body, "GET /next  ");
}

TEST(HttpServer, ReadsALargeBodyAndSendsALargeAnswer) {
    const Running running = run_server({}, [](HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) {
        exchange->respond(200, "application/octet-stream", std::move(request.body));
    });
    std::string body;
    for (int i = 0; body.size() < (8u << 20); ++i) body += std::to_string(i) + ",";
    RawClient client = running.client();
    std::thread sender([&] { client.send(post("/", body)); });
    const Response response = client.read_response();
    sender.join();
    EXPECT_EQ(response.body.size(), body.size());
    EXPECT_TRUE(response.body == body);
}

TEST(HttpServer, SpeaksHttp10) {
    Parked parked;
    const Running running = run_server({}, parked.handler());
    RawClient plain = running.client();
    plain.send("GET / HTTP/1.0\r\n\r\n");
    parked.next()->respond(200, "text/plain", "old");
    EXPECT_EQ(plain.read_response().body, "old");
    EXPECT_TRUE(plain.wait_for_close());

    RawClient kept = running.client();
    kept.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    parked.next()->respond(200, "text/plain", "kept");
    EXPECT_EQ(kept.read_response().header("connection"), "keep-alive");

    RawClient stream = running.client();  // chunks are not known to it: the stream ends with the connection
    stream.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    const auto exchange = parked.next();
    exchange->begin_stream();
    exchange->write("data: 1\n\n");
    exchange->end_stream();
    const Response response = stream.read_response();
    EXPECT_EQ(response.header("transfer-encoding"), "");
    EXPECT_EQ(response.header("connection"), "close");
    EXPECT_EQ(response.body, "data: 1\n\n");
}

TEST(HttpServer, AnExchangeDroppedUnansweredIsA500) {
    const Running running =
        run_server({}, [](const HttpRequest&, const std::shared_ptr<HttpExchange>&) { /* forgets it */ });
    EXPECT_EQ(running.ask(get("/")).status, 500u);
}

TEST(HttpServer, AHandlerThatThrowsIsA500) {
    const Running running =
        run_server({}, [](const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange) {
            if (request.path == "/bad") throw 1;
            exchange->respond(200, "text/plain", "");
        });
    EXPECT_EQ(running.ask(get("/bad")).status, 500u);
    EXPECT_EQ(running.ask(get("/good")).status, 200u);
}

TEST(HttpServer, AStreamDroppedHalfwayDoesNotLookComplete) {
    OpenRequest open;
    ASSERT_TRUE(open.exchange);
    open.exchange->begin_stream();
    open.exchange->write("data: 1\n\n");
    EXPECT_EQ(open.client.read_until("data: 1\n\n\r\n").back(), '\n');
    open.exchange.reset();
    const std::string rest = open.client.read_until("0\r\n\r\n");
    EXPECT_EQ(rest, "");
}

TEST(HttpServer, ASecondAnswerIsIgnored) {
    const Running running = run_server({}, [](const HttpRequest&, const std::shared_ptr<HttpExchange>& exchange) {
        exchange->respond(200, "text/plain", "one");
        exchange->respond(200, "text/plain", "two");
        exchange->begin_stream();
        exchange->write("three");
        exchange->end_stream();
    });
    RawClient client = running.client();
    for (int i = 0; i < 2; ++i) {
        client.send(get("/"));
        EXPECT_EQ(client.read_response().body, "one");
    }
}

TEST(HttpServer, AClientThatLeavesBeforeTheAnswerIsNoticed) {
    Parked parked;
    const Running running = run_server({}, parked.handler());
    for (const bool with_reset : {false, true}) {
        RawClient client = running.client();
        client.send(post("/", "x"));
        const auto exchange = parked.next();
        ASSERT_TRUE(exchange);
        Event gone;
        exchange->watch({[&] { gone.set(); }, nullptr, nullptr});
        if (with_reset) {
            client.reset();
        } else {
            client.close();
        }
        EXPECT_TRUE(gone.wait());
        exchange->respond(200, "text/plain", "to nobody");
        EXPECT_TRUE(eventually([&] { return running.server->stats().connections == 0; }));
    }
}

TEST(HttpServer, AClientThatLeavesWithinAStreamIsNoticedOnce) {
    OpenRequest open;
    ASSERT_TRUE(open.exchange);
    std::atomic<int> times = 0;
    Event gone;
    open.exchange->watch({[&] {
                              ++times;
                              gone.set();
                          },
                          nullptr, nullptr});
    open.exchange->begin_stream();
    open.exchange->write("data: 1\n\n");
    open.client.read_until("data: 1\n\n");
    open.client.close();
    EXPECT_TRUE(gone.wait());
    open.exchange->write("data: 2\n\n");
    open.exchange->end_stream();
    EXPECT_TRUE(eventually([&] { return open.running.server->stats().connections == 0; }));
    EXPECT_EQ(times, 1);
}

TEST(HttpServer, TheWatcherHearsOfAClientThatLeftBeforeItWatched) {
    OpenRequest open;
    ASSERT_TRUE(open.exchange);
    open.client.close();
    ASSERT_TRUE(eventually([&] { return open.running.server->stats().connections == 0; }));
    Event gone;
    open.exchange->watch({[&] { gone.set(); }, nullptr, nullptr});
    EXPECT_TRUE(gone.is_set());
}

TEST(HttpServer, AClientThatLeavesAfterACompleteAnswerIsNotReported) {
    OpenRequest open;
    ASSERT_TRUE(open.exchange);
    Event gone;
    open.exchange->watch({[&] { gone.set(); }, nullptr, nullptr});
    open.exchange->respond(200, "text/plain", "done");
    EXPECT_EQ(open.client.read_response().body, "done");
    open.client.close();
    ASSERT_TRUE(eventually([&] { return open.running.server->stats().connections == 0; }));
    EXPECT_FALSE(gone.is_set());
}

TEST(HttpServer, AHalfClosedClientStillGetsAnAnswerThatWasReady) {
    const Running running = run_server();
    RawClient client = running.client();
    client.send(get("/a") + get("/b"));
    client.finish_sending();
    EXPECT_EQ(client.read_response().body, "GET /a  ");
    EXPECT_EQ(client.read_response().body, "GET /b  ");
    EXPECT_TRUE(client.wait_for_close());
}

TEST(HttpServer, ASlowReaderIsReportedAndThenCatchesUp) {
    HttpOptions options;
    options.limits.stream_buffer_bytes = 256 << 10;
    OpenRequest open(options, 4096);
    ASSERT_TRUE(open.exchange);
    Event slow;
    Event caught_up;
    Event gone;
    open.exchange->watch({[&] { gone.set(); }, [&] { slow.set(); }, [&] { caught_up.set(); }});
    open.exchange->begin_stream();
    std::size_t written = 0;
    while (!slow.is_set()) {  // the kernel takes some of it, then the rest waits here
        open.exchange->write(std::string(4096, 'x'));
        written += 4096;
        ASSERT_LT(written, 64u << 20);
        slow.wait(std::chrono::milliseconds(1));
    }
    EXPECT_FALSE(caught_up.is_set());
    std::thread reader([&] { EXPECT_EQ(open.client.read_response().body.size(), written); });
    EXPECT_TRUE(caught_up.wait());
    open.exchange->end_stream();
    reader.join();
    EXPECT_FALSE(gone.is_set());
}

TEST(HttpServer, AReaderThatNeverReadsIsGivenUpWhenTheBufferIsFull) {
    HttpOptions options;
    options.limits.stream_buffer_bytes = 64 << 10;
    OpenRequest open(options, 4096);
    ASSERT_TRUE(open.exchange);
    Event slow;
    Event gone;
    open.exchange->watch({[&] { gone.set(); }, [&] { slow.set(); }, nullptr});
    open.exchange->begin_stream();
    for (int i = 0; i < 20'000 && !gone.is_set(); ++i) {
        open.exchange->write(std::string(4096, 'x'));
        gone.wait(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(gone.is_set());
    EXPECT_TRUE(slow.is_set());
    EXPECT_TRUE(eventually([&] { return open.running.server->stats().connections == 0; }));
}

TEST(HttpServer, AReaderThatTakesNothingForTooLongIsGivenUp) {
    HttpOptions options;
    options.limits.write_deadline = std::chrono::milliseconds(100);
    OpenRequest open(options, 4096);
    ASSERT_TRUE(open.exchange);
    open.exchange->respond(200, "text/plain", std::string(32 << 20, 'x'));
    EXPECT_TRUE(eventually([&] { return open.running.server->stats().connections == 0; }));
}

TEST(HttpServer, PipelinedBytesAreKeptButBounded) {
    OpenRequest open;
    ASSERT_TRUE(open.exchange);
    std::string many;
    while (many.size() < (1u << 20)) many += get("/later");
    std::thread sender([&] { open.client.send(many); });
    open.exchange->respond(200, "text/plain", "first");
    EXPECT_EQ(open.client.read_response().body, "first");
    for (std::size_t i = 0; i < many.size() / get("/later").size(); ++i) {
        const auto later = open.parked.next();
        ASSERT_TRUE(later);
        later->respond(200, "text/plain", std::to_string(i));
        ASSERT_EQ(open.client.read_response().body, std::to_string(i));
    }
    sender.join();
}

TEST(HttpServer, StopWaitsForOpenAnswers) {
    OpenRequest open;
    ASSERT_TRUE(open.exchange);
    RawClient idle = open.running.client();
    ASSERT_TRUE(eventually([&] { return open.running.server->stats().connections == 2; }));
    open.running.server->stop_accepting();
    EXPECT_TRUE(idle.wait_for_close());
    EXPECT_FALSE(RawClient(open.running.port()).connected());
    std::thread stopper([&] { open.running.server->stop(kPatience); });
    open.exchange->respond(200, "text/plain", "just in time");
    const Response response = open.client.read_response();
    EXPECT_EQ(response.body, "just in time");
    stopper.join();
    EXPECT_EQ(open.running.server->stats().connections, 0u);
}

TEST(HttpServer, StopEndsWhatIsStillOpenWhenTheTimeIsOver) {
    OpenRequest open;
    ASSERT_TRUE(open.exchange);
    Event gone;
    open.exchange->watch({[&] { gone.set(); }, nullptr, nullptr});
    open.running.server->stop(std::chrono::milliseconds(1));
    EXPECT_TRUE(gone.is_set());
    EXPECT_TRUE(open.client.wait_for_close());
}

TEST(HttpServer, ASecondStopShortensTheFirst) {
    OpenRequest open;
    ASSERT_TRUE(open.exchange);
    std::thread patient([&] { open.running.server->stop(std::chrono::hours(1)); });
    EXPECT_TRUE(eventually([&] { return !RawClient(open.running.port()).connected(); }));
    open.running.server->stop(std::chrono::milliseconds(0));
    patient.join();
    EXPECT_EQ(open.running.server->stats().connections, 0u);
}

TEST(HttpServer, AnExchangeMayOutliveItsServer) {
    Parked parked;
    std::shared_ptr<HttpExchange> exchange;
    {
        const Running running = run_server({}, parked.handler());
        RawClient client = running.client();
        client.send(get("/"));
        exchange = parked.next();
        exchange->begin_stream();
    }
    exchange->write("into the void");
    exchange->end_stream();
}

TEST(HttpServer, StartsAndStopsManyTimes) {
    for (int i = 0; i < 50; ++i) {
        const Running running = run_server();
        ASSERT_TRUE(running.server);
        EXPECT_EQ(running.ask(get("/")).status, 200u);
    }
}

TEST(HttpServer, APortInUseIsAnErrorThatNamesIt) {
    const Running running = run_server();
    HttpOptions options;
    options.port = running.port();
    const auto second = HttpServer::start(options, [](const HttpRequest&, const std::shared_ptr<HttpExchange>&) {});
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.error().message.find(std::to_string(running.port())), std::string::npos);
}

TEST(HttpServer, TellsTheAccessLogOfEveryRequest) {
    std::mutex mutex;
    std::condition_variable told;
    std::vector<std::string> lines;
    HttpOptions options;
    options.on_access = [&](const HttpAccess& access) {
        const std::lock_guard lock(mutex);
        lines.push_back(std::string(access.method) + " " + std::string(access.path) + " " +
                        std::to_string(access.status) + " " + std::string(access.peer));
        told.notify_all();
    };
    const Running running = run_server(options);
    // A client has its answer a moment before the log has its line: the next one waits for it.
    const auto ask = [&](std::string_view request, std::size_t count) {
        running.ask(request);
        std::unique_lock lock(mutex);
        told.wait_for(lock, kPatience, [&] { return lines.size() == count; });
    };
    ask(get("/one"), 1);
    ask("HEAD /two HTTP/1.1\r\nHost: localhost\r\n\r\n", 2);
    ask("nonsense\r\n\r\n", 3);
    running.server->stop(kPatience);
    EXPECT_EQ(lines,
              (std::vector<std::string>{"GET /one 200 127.0.0.1", "HEAD /two 200 127.0.0.1", "  400 127.0.0.1"}));
}

}  // namespace
}  // namespace hearth::http_test
