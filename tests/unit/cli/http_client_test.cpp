// Answers of a server as they come over the wire, right ones and others.
#include "cli/http_client.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(ServerAddresses, HaveBracketsAroundAnAddressOrNone) {
    EXPECT_EQ(ServerAddress::parse("http://[::1]:8080/").value().shown(), "[::1]:8080");
    for (const char* text : {"http://)::1]:8080", "[a]b", "a[b]:80", "[[::1]]:80", "a]:80", "[::1"}) {
        EXPECT_FALSE(ServerAddress::parse(text).ok()) << text;
    }
}

TEST(ServerReplies, AreAStatusAndJson) {
    const Result<ServerReply> reply = parse_reply("HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{\"status\": \"ok\"}");
    ASSERT_TRUE(reply.ok()) << reply.error().message;
    EXPECT_EQ(reply->status, 200U);
    EXPECT_EQ(*reply->body.find("status")->as_string(), "ok");
}

TEST(ServerReplies, OfAnErrorSayItsText) {
    EXPECT_EQ(error_text(parse_reply("HTTP/1.1 404 Not Found\r\n\r\n{\"error\": {\"message\": \"no tree\"}}").value()),
              "no tree");
    EXPECT_EQ(error_text(parse_reply("HTTP/1.1 502 Bad Gateway\r\n\r\n[]").value()),
              "the server answers with status 502");
}

TEST(ServerReplies, OfOtherServersAreRefused) {
    for (const std::string_view bytes :
         {"", "HTTP/1.1 ", "HTTP/1.1 2\r\n\r\n{}", "HTTP/1.1 2x0 OK\r\n\r\n{}", "HTTP/1.0 200 OK\r\n\r\n{}",
          "HTTP/1.1 200 OK\r\n{}", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n<html>",
          "HTTP/1.1 200 OK\r\n\r\n{} {}", "SSH-2.0-OpenSSH\r\n\r\n"}) {
        EXPECT_FALSE(parse_reply(bytes).ok()) << bytes;
    }
    EXPECT_FALSE(parse_reply("HTTP/1.1 200 OK\r\n\r\n" + std::string(100'000, '[')).ok());
}

}  // namespace
}  // namespace hearth
