// Requests out of bytes, whatever the pieces they come in.
#include "server/http_parser.h"

#include <gtest/gtest.h>

#include <string>

namespace hearth {
namespace {

using State = RequestParser::State;

struct Parsed {
    State state = State::Head;
    std::string method;
    std::string target;
    std::string body;
    std::string rest;
    unsigned status = 0;
};

Parsed parse(const std::string& bytes, std::size_t piece) {
    RequestParser parser{HttpLimits()};
    std::string waiting;
    std::size_t fed = 0;
    for (;;) {
        const std::size_t used = parser.feed(waiting);
        waiting.erase(0, used);
        if (parser.state() == State::Done || parser.state() == State::Failed) break;
        if (used > 0 && !waiting.empty()) continue;
        if (fed == bytes.size()) break;
        waiting += bytes.substr(fed, piece);
        fed = std::min(bytes.size(), fed + piece);
    }
    return {parser.state(),     parser.head().method,        parser.head().target,
            parser.take_body(), waiting + bytes.substr(fed), parser.error_status()};
}

TEST(HttpParser, SeesTheSameRequestInPiecesOfAnySize) {
    const std::string next = "GET /next HTTP/1.1\r\n";
    const std::string plain = "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";
    const std::string chunked =
        "\r\n\r\nPOST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
        "CHUNKED\r\n\r\n3;x=\"y\\\"z\"\r\nhel\r\n2\r\nlo\r\n0\r\nT: 1\r\n\r\n";
    const std::string bodiless = "GET /g HTTP/1.1\r\nHost: h\r\n\r\n";
    const std::string no_chunks = "POST /e HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    const std::string only_a_trailer = no_chunks.substr(0, no_chunks.size() - 2) + "T: 1\r\n\r\n";
    for (const std::string& request : {plain, chunked, bodiless, no_chunks, only_a_trailer}) {
        for (std::size_t piece = 1; piece <= request.size() + next.size(); ++piece) {
            const Parsed parsed = parse(request + next, piece);
            ASSERT_EQ(parsed.state, State::Done) << request << piece;
            EXPECT_EQ(parsed.body, request == plain || request == chunked ? "hello" : "");
            EXPECT_EQ(parsed.rest, next);
        }
    }
}

TEST(HttpParser, StopsAfterTheHeadSoThatItCanBeJudged) {
    RequestParser parser{HttpLimits()};
    const std::string bytes = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";
    const std::size_t used = parser.feed(bytes);
    EXPECT_EQ(parser.state(), State::Body);
    EXPECT_EQ(bytes.substr(used), "hello");
    EXPECT_EQ(parser.head().header("content-length"), "5");
    EXPECT_TRUE(parser.head().keep_alive);
    EXPECT_EQ(parser.feed("hel"), 3u);
    EXPECT_EQ(parser.body_size(), 3u);
    EXPECT_EQ(parser.feed("loGET"), 2u);
    EXPECT_EQ(parser.state(), State::Done);
    EXPECT_EQ(parser.take_body(), "hello");
}

TEST(HttpParser, ALengthOfZeroIsNoBody) {
    const Parsed parsed = parse("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\nrest", 1000);
    EXPECT_EQ(parsed.state, State::Done);
    EXPECT_EQ(parsed.rest, "rest");
}

TEST(HttpParser, AnEmptyLineIsNoStart) {
    RequestParser parser{HttpLimits()};
    EXPECT_EQ(parser.feed("\r\n\r\n"), 4u);
    EXPECT_FALSE(parser.started());
    EXPECT_EQ(parser.feed("G"), 0u);
    EXPECT_TRUE(parser.started());
}

TEST(HttpParser, RefusesTheSameInPiecesOfAnySize) {
    for (const char* bytes :
         {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
          "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
          "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"\r\nhello\r\n5;a=\"b\"\r\n",
          "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0;a=\"\\\"\r\n\r\n",
          "nonsense\r\n\r\n"}) {
        for (std::size_t piece = 1; piece <= std::string(bytes).size(); ++piece) {
            const Parsed parsed = parse(bytes, piece);
            EXPECT_EQ(parsed.state, State::Failed) << bytes << piece;
            EXPECT_EQ(parsed.status, 400u);
        }
    }
}

TEST(HttpParser, RefusesALineOfAChunkThatDoesNotEnd) {
    const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    const std::string line = "1;" + std::string(1022, 'a');
    for (const std::size_t piece : {1u, 2u, 3u, 7u, 100u, 5000u}) {
        EXPECT_EQ(parse(head + line + "\r\nx\r\n0\r\n\r\n", piece).state, State::Done) << piece;
        EXPECT_EQ(parse(head + line, piece).state, State::Body) << piece;
        for (const char* end : {"a", "a\r\nx\r\n0\r\n\r\n"}) {
            const Parsed longer = parse(head + line + end, piece);
            EXPECT_EQ(longer.state, State::Failed) << piece;
            EXPECT_EQ(longer.status, 400u);
        }
    }
}

}  // namespace
}  // namespace hearth
