// The rules without sockets: targets, hosts, origins, response heads, log lines, descriptor limits, keys.
#include "server/http_rules.h"

#include <gtest/gtest.h>

#include <string>

#include "server/api_keys.h"
#include "server/http_response.h"

namespace hearth {
namespace {

TEST(HttpRules, SplitsTargetsIntoPathAndQuery) {
    const auto plain = parse_target("/v1/models?a=b%20c?d");
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain->path, "/v1/models");
    EXPECT_EQ(plain->query, "a=b%20c?d");
    EXPECT_EQ(plain->authority, "");
    const auto absolute = parse_target("HTTP://host:80/x%41?q");
    ASSERT_TRUE(absolute);
    EXPECT_EQ(absolute->authority, "host:80");
    EXPECT_EQ(absolute->path, "/xA");
    EXPECT_EQ(absolute->query, "q");
    EXPECT_EQ(parse_target("http://host")->path, "/");
    EXPECT_EQ(parse_target("http://host?q")->query, "q");
    EXPECT_EQ(parse_target("/%2F")->path, "//");
    for (const char* bad : {"", "x", "*", "http://", "http:///x", "/#fragment", "/%", "/%1", "/%g0", "/%00", "/.",
                            "/..", "/a/%2e%2E", "/a%2f..%2fb", "ftp://host/"}) {
        EXPECT_FALSE(parse_target(bad)) << bad;
    }
    EXPECT_FALSE(parse_target(std::string_view("/a\0b", 4)));
}

TEST(HttpRules, FindsTheHostOfAnAuthority) {
    EXPECT_EQ(host_of_authority("Example.ORG:8080"), "example.org");
    EXPECT_EQ(host_of_authority("example.org."), "example.org");
    EXPECT_EQ(host_of_authority("[::1]:80"), "::1");
    EXPECT_EQ(host_of_authority("[::1]"), "::1");
    EXPECT_EQ(host_of_authority("localhost:"), "localhost");
    for (const char* bad :
         {"", ":80", "a:b", "a:80:80", "[::1", "[name]", "[::1]x", "a b", "a@b", "a/b", "a:123456", "."}) {
        EXPECT_FALSE(host_of_authority(bad)) << bad;
    }
}

TEST(HttpRules, AnOpenAddressIsAlsoCalledByAnyAddressButNotByAnyName) {
    AccessRules rules;
    rules.bound_address = "0.0.0.0";
    EXPECT_TRUE(rules.host_allowed("192.0.2.7:8080"));
    EXPECT_TRUE(rules.host_allowed("[2001:db8::1]"));
    EXPECT_FALSE(rules.host_allowed("name.example"));
    rules.bound_address = "127.0.0.1";
    EXPECT_FALSE(rules.host_allowed("192.0.2.7"));
    rules.allowed_hosts = {"*"};
    EXPECT_TRUE(rules.host_allowed("name.example"));
}

TEST(HttpRules, TheOwnOriginFollowsTheSchemeOfTheServer) {
    AccessRules rules;
    EXPECT_TRUE(rules.origin_allowed("http://localhost:80", "localhost:80"));
    EXPECT_FALSE(rules.origin_allowed("https://localhost:80", "localhost:80"));
    rules.tls = true;
    EXPECT_TRUE(rules.origin_allowed("https://localhost:80", "LOCALHOST:80"));
    EXPECT_FALSE(rules.origin_allowed("http://localhost:80", "localhost:80"));
    EXPECT_FALSE(rules.origin_allowed("null", ""));
}

TEST(HttpRules, KeepsDescriptorsBack) {
    EXPECT_EQ(connections_within(4096, 1 << 20), 4096u);
    EXPECT_EQ(connections_within(4096, 1024), 896u);
    EXPECT_EQ(connections_within(4096, 256), 192u);
    EXPECT_EQ(connections_within(4096, 10), 1u);
    EXPECT_EQ(connections_within(0, 1024), 1u);
}

TEST(HttpRules, KeysAreToldApartByAScopeThatIsNotTheirHash) {
    const Result<ApiKeys> keys = ApiKeys::create({"a", "b"});
    ASSERT_TRUE(keys.ok());
    const std::string scope = keys.value().scope_of("Bearer a", "");
    EXPECT_EQ(scope.size(), 16u);
    EXPECT_NE(scope, "ca978112ca1bbdca");  // the start of SHA-256("a")
    EXPECT_EQ(keys.value().scope_of("", "a"), scope);
    EXPECT_EQ(keys.value().scope_of("bearer   a ", ""), scope);
    EXPECT_NE(keys.value().scope_of("", "b"), scope);
    EXPECT_EQ(keys.value().scope_of("", "c"), "");
    EXPECT_EQ(keys.value().scope_of("", ""), "");
    EXPECT_EQ(keys.value().scope_of("Bearer c", "a"), "");  // what was said first counts
}

TEST(HttpRules, WritesDatesAsTheStandardWants) {
    EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
    EXPECT_EQ(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
}

TEST(HttpRules, TheCallerMaySetCachingButNotFraming) {
    ResponseHead head;
    head.length = 5;
    const std::string text =
        response_head(head, {{"Cache-Control", "max-age=60"}, {"Content-Length", "7"}, {"Connection", "upgrade"}});
    EXPECT_NE(text.find("cache-control: max-age=60\r\n"), std::string::npos);
    EXPECT_EQ(text.find("no-store"), std::string::npos);
    EXPECT_NE(text.find("content-length: 5\r\n"), std::string::npos);
    EXPECT_EQ(text.find("content-length: 7"), std::string::npos);
    EXPECT_EQ(text.find("upgrade"), std::string::npos);
}

TEST(HttpRules, AClientCannotForgeALogLine) {
    HttpAccess access;
    access.id = 255;
    access.method = "GET";
    access.path = "/a\n\"b\\\x1b[31m";
    access.peer = "127.0.0.1";
    access.status = 200;
    access.sent_bytes = 12;
    access.seconds = 0.0015;
    EXPECT_EQ(access_line(access),
              "req-00000000000000ff 127.0.0.1 - \"GET /a\\x0a\\x22b\\x5c\\x1b[31m\" 200 12B 1.5ms");
}

}  // namespace
}  // namespace hearth
