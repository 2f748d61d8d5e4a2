// Who is let in: keys, host names, origins, addresses, paths, TLS.
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "base/json.h"
#include "unit/server/raw_client.h"

namespace hearth::http_test {
namespace {

HttpHandler scope_teller() {
    return [](const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange) {
        exchange->respond(200, "text/plain", request.key_scope);
    };
}

TEST(HttpSecurity, WithoutAValidKeyIs401) {
    HttpOptions options;
    options.keys = {"first-key", "second-key"};
    const Running running = run_server(options, scope_teller());
    for (const char* header : {"", "Authorization: Bearer wrong\r\n", "Authorization: Bearer first-ke\r\n",
                               "Authorization: Bearer first-keyy\r\n", "Authorization: Basic first-key\r\n",
                               "Authorization: first-key\r\n", "x-api-key: wrong\r\n", "Authorization: Bearer \r\n"}) {
        const Response response = running.ask(get("/v1/models", header));
        EXPECT_EQ(response.status, 401u) << header;
        EXPECT_EQ(response.header("www-authenticate"), "Bearer");
        const Result<Json> body = Json::parse(response.body);
        ASSERT_TRUE(body.ok());
        EXPECT_EQ(*body.value().find("error")->find("code")->as_string(), "invalid_api_key");
    }
    const Response messages = running.ask(post("/v1/messages", "{}"));
    EXPECT_EQ(messages.status, 401u);
    const Result<Json> body = Json::parse(messages.body);
    ASSERT_TRUE(body.ok());
    EXPECT_EQ(*body.value().find("type")->as_string(), "error");
    EXPECT_EQ(*body.value().find("error")->find("type")->as_string(), "authentication_error");
}

TEST(HttpSecurity, AKeyIsAcceptedInBothHeadersAndTellsCallersApart) {
    HttpOptions options;
    options.keys = {"first-key", "second-key"};
    const Running running = run_server(options, scope_teller());
    const Response first = running.ask(get("/v1/models", "Authorization: Bearer first-key\r\n"));
    const Response again = running.ask(get("/v1/models", "x-api-key: first-key\r\n"));
    const Response second = running.ask(get("/v1/models", "authorization: bearer second-key\r\n"));
    EXPECT_EQ(first.status, 200u);
    EXPECT_EQ(again.status, 200u);
    EXPECT_EQ(second.status, 200u);
    EXPECT_EQ(first.body.size(), 16u);
    EXPECT_EQ(first.body, again.body);
    EXPECT_NE(first.body, second.body);
}

TEST(HttpSecurity, PublicPathsNeedNoKey) {
    HttpOptions options;
    options.keys = {"key"};
    options.public_paths = {"/", "/health", "/assets/"};
    const Running running = run_server(options);
    EXPECT_EQ(running.ask(get("/")).status, 200u);
    EXPECT_EQ(running.ask(get("/health?x=1")).status, 200u);
    EXPECT_EQ(running.ask(get("/assets/page.js")).status, 200u);
    EXPECT_EQ(running.ask(get("/healthy")).status, 401u);
    EXPECT_EQ(running.ask(get("/v1/models")).status, 401u);
    EXPECT_EQ(running.ask(get("/assets/../v1/models")).status, 404u);
}

TEST(HttpSecurity, TheBodyOfAnUnauthorisedRequestIsNotRead) {
    HttpOptions options;
    options.keys = {"key"};
    const Running running = run_server(options);
    RawClient client = running.client();
    client.send("POST /v1 HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n");
    const Response response = client.read_response();
    EXPECT_EQ(response.status, 401u);
    EXPECT_EQ(response.header("connection"), "close");
    EXPECT_TRUE(client.wait_for_close());
}

TEST(HttpSecurity, SecretsDoNotReachTheHandler) {
    HttpOptions options;
    options.keys = {"key"};
    std::string seen;
    const Running running = run_server(options, [&](const HttpRequest& request, const auto& exchange) {
        for (const auto& [name, value] : request.headers) seen += name + "=" + value + ";";
        exchange->respond(200, "text/plain", "");
    });
    running.ask(get("/v1", "Authorization: Bearer key\r\nX-API-Key: key\r\nCookie: a=b\r\nX-Other: Yes\r\n"));
    EXPECT_EQ(seen, "host=localhost;x-other=Yes;");
}

TEST(HttpSecurity, AKeyThatCannotBeSentIsAnError) {
    for (const char* key : {"", "with space", "new\nline"}) {
        HttpOptions options;
        options.port = 0;
        options.keys = {key};
        EXPECT_FALSE(HttpServer::start(options, scope_teller()).ok());
    }
}

TEST(HttpSecurity, AnOpenAddressNeedsAKey) {
    HttpOptions options;
    options.port = 0;
    for (const char* address : {"0.0.0.0", "::", "192.0.2.1"}) {
        options.address = address;
        options.keys.clear();
        const auto refused = HttpServer::start(options, scope_teller());
        ASSERT_FALSE(refused.ok());
        EXPECT_EQ(refused.error().code, ErrorCode::Usage);
        EXPECT_NE(refused.error().message.find("needs an API key"), std::string::npos);
    }
    options.address = "0.0.0.0";
    options.keys = {"key"};
    EXPECT_TRUE(HttpServer::start(options, scope_teller()).ok());
    options.address = "nonsense";
    EXPECT_FALSE(HttpServer::start(options, scope_teller()).ok());
}

TEST(HttpSecurity, ForeignHostNamesAre403) {
    HttpOptions options;
    options.allowed_hosts = {"Hearth.example"};
    const Running running = run_server(options);
    const auto status_of = [&](const std::string& host) {
        return running.ask("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n").status;
    };
    for (const char* host : {"localhost", "LOCALHOST:1234", "127.0.0.1", "127.0.0.1:80", "[::1]:80", "localhost.",
                             "hearth.example:8080", "HEARTH.EXAMPLE"}) {
        EXPECT_EQ(status_of(host), 200u) << host;
    }
    for (const char* host :
         {"evil.example", "localhost.evil.example", "192.0.2.1", "hearth.example.evil.example",
          "localhost@evil.example", "localhost:80:80", "[::1", "", "localhost evil", "127.0.0.1.evil"}) {
        EXPECT_EQ(status_of(host), 403u) << host;
    }
    EXPECT_EQ(running.ask("GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 403u);
    EXPECT_EQ(running.ask("GET http://localhost/x HTTP/1.1\r\nHost: localhost\r\n\r\n").body, "GET /x  ");
}

TEST(HttpSecurity, ForeignOriginsAre403) {
    HttpOptions options;
    options.allowed_origins = {"https://app.example"};
    const Running running = run_server(options);
    for (const char* origin : {"http://evil.example", "null", "https://localhost", "http://localhost:1",
                               "https://app.example.evil", "http://app.example"}) {
        const Response response = running.ask(get("/", "Origin: " + std::string(origin) + "\r\n"));
        EXPECT_EQ(response.status, 403u) << origin;
        EXPECT_EQ(response.header("access-control-allow-origin"), "");
    }
    const Response own = running.ask(get("/", "Origin: http://localhost\r\n"));
    EXPECT_EQ(own.status, 200u);
    EXPECT_EQ(own.header("access-control-allow-origin"), "");
    const Response allowed = running.ask(get("/", "Origin: https://app.example\r\n"));
    EXPECT_EQ(allowed.status, 200u);
    EXPECT_EQ(allowed.header("access-control-allow-origin"), "https://app.example");
    EXPECT_EQ(allowed.header("vary"), "origin");
}

TEST(HttpSecurity, PreflightsAreAnsweredForAllowedOriginsWithoutAKey) {
    HttpOptions options;
    options.keys = {"key"};
    options.allowed_origins = {"https://app.example"};
    const Running running = run_server(options);
    const std::string head = "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n";
    const Response allowed =
        running.ask(head + "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n\r\n");
    EXPECT_EQ(allowed.status, 204u);
    EXPECT_NE(allowed.header("access-control-allow-methods").find("POST"), std::string::npos);
    EXPECT_NE(allowed.header("access-control-allow-headers").find("authorization"), std::string::npos);
    const Response own_headers =
        running.ask(head + "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n" +
                    "Access-Control-Request-Headers: anthropic-version,x-stainless-os\r\n\r\n");
    EXPECT_EQ(own_headers.header("access-control-allow-headers"), "anthropic-version,x-stainless-os");
    EXPECT_EQ(running.ask(head + "Origin: https://evil.example\r\n\r\n").status, 403u);
    const Response plain = running.ask(head + "\r\n");
    EXPECT_EQ(plain.status, 204u);
    EXPECT_EQ(plain.header("access-control-allow-methods"), "");
    EXPECT_EQ(running.ask("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 204u);
}

TEST(HttpSecurity, PathsThatClimbOrHoldNulAre404) {
    const Running running = run_server();
    for (const char* path : {"/../etc/passwd", "/a/../b", "/a/..", "/%2e%2e/etc", "/a/%2E%2e/b", "/..%2fetc",
                             "/a%5c..%5cb", "/a\\..\\b", "/a%00b", "/%", "/%4", "/%zz", "/a/./b", "relative"}) {
        EXPECT_EQ(running.ask(get(path)).status, 404u) << path;
    }
    EXPECT_EQ(running.ask(get("/a..b/...")).body, "GET /a..b/...  ");
    EXPECT_EQ(running.ask(get("/%252e%252e/x")).body, "GET /%2e%2e/x  ");  // decoded once
}

TEST(HttpSecurity, UnknownMethodsAre405) {
    const Running running = run_server();
    for (const char* method : {"TRACE", "CONNECT", "BREW", "get", "Get"}) {
        EXPECT_EQ(running.ask(std::string(method) + " / HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 405u) << method;
    }
}

TEST(HttpSecurity, ResponseHeadersCannotBeBrokenOutOf) {
    const Running running = run_server({}, [](const HttpRequest& request, const auto& exchange) {
        exchange->respond(200, "text/plain\r\nX-Type: 1", "",
                          {{"x-echo", request.path}, {"bad name", "1"}, {"x-fine", "2"}});
    });
    const Response response = running.ask(get("/a%0d%0aSet-Cookie:%20b"));
    EXPECT_EQ(response.head.find("Set-Cookie"), std::string::npos);
    EXPECT_EQ(response.head.find("X-Type"), std::string::npos);
    EXPECT_EQ(response.head.find("bad name"), std::string::npos);
    EXPECT_EQ(response.header("x-fine"), "2");
}

// A self-signed certificate of a minute, and its key, in files that go with this object.
class Certificate {
public:
    Certificate() {
        const std::string base = testing::TempDir() + "hearth_tls_" + std::to_string(getpid());
        certificate = base + "_certificate.pem";
        key = base + "_key.pem";
        const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> pair(EVP_EC_gen("P-256"), EVP_PKEY_free);
        const std::unique_ptr<X509, decltype(&X509_free)> made(X509_new(), X509_free);
        ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
        X509_gmtime_adj(X509_getm_notBefore(made.get()), -60);
        X509_gmtime_adj(X509_getm_notAfter(made.get()), 3600);
        X509_set_pubkey(made.get(), pair.get());
        X509_NAME* name = X509_get_subject_name(made.get());
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1,
                                   -1, 0);
        X509_set_issuer_name(made.get(), name);
        X509_sign(made.get(), pair.get(), EVP_sha256());
        std::FILE* file = std::fopen(certificate.c_str(), "w");
        PEM_write_X509(file, made.get());
        std::fclose(file);
        file = std::fopen(key.c_str(), "w");
        PEM_write_PrivateKey(file, pair.get(), nullptr, nullptr, 0, nullptr, nullptr);
        std::fclose(file);
    }
    ~Certificate() {
        std::remove(certificate.c_str());
        std::remove(key.c_str());
    }
    Certificate(const Certificate&) = delete;
    Certificate& operator=(const Certificate&) = delete;

    std::string certificate;
    std::string key;
};

// A TLS client over blocking sockets.
class TlsClient {
public:
    explicit TlsClient(const Running& running) : raw_(running.client()) {
        SSL_set_fd(session_.get(), raw_.descriptor());
        connected_ = SSL_connect(session_.get()) == 1;
    }
    bool connected() const { return connected_; }
    bool send(std::string_view bytes) {
        return SSL_write(session_.get(), bytes.data(), static_cast<int>(bytes.size())) ==
               static_cast<int>(bytes.size());
    }
    std::string read_until(std::string_view end) {
        while (buffer_.find(end) == std::string::npos) {
            char piece[4096];
            const int size = SSL_read(session_.get(), piece, sizeof piece);
            if (size <= 0) return std::exchange(buffer_, "");
            buffer_.append(piece, static_cast<std::size_t>(size));
        }
        std::string found = buffer_.substr(0, buffer_.find(end) + end.size());
        buffer_.erase(0, found.size());
        return found;
    }
    bool ended_well() {  // close_notify, not just a closed socket
        char byte = 0;
        const int size = SSL_read(session_.get(), &byte, 1);
        return SSL_get_error(session_.get(), size) == SSL_ERROR_ZERO_RETURN;
    }
    void close() { raw_.close(); }

private:
    RawClient raw_;
    std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{SSL_CTX_new(TLS_client_method()), SSL_CTX_free};
    std::unique_ptr<SSL, decltype(&SSL_free)> session_{SSL_new(context_.get()), SSL_free};
    bool connected_ = false;
    std::string buffer_;
};

TEST(HttpTls, ServesRequestsAndStreams) {
    const Certificate pair;
    HttpOptions options;
    options.tls_certificate = pair.certificate;
    options.tls_key = pair.key;
    Parked parked;
    const Running running = run_server(options, parked.handler());
    ASSERT_TRUE(running.server);
    TlsClient client(running);
    ASSERT_TRUE(client.connected());
    ASSERT_TRUE(client.send(get("/", "Origin: https://localhost\r\n")));
    const auto first = parked.next();
    ASSERT_TRUE(first);
    first->respond(200, "text/plain", "secret");
    EXPECT_NE(client.read_until("secret").find("HTTP/1.1 200 OK"), std::string::npos);
    ASSERT_TRUE(client.send(get("/", "Connection: close\r\n")));
    const auto second = parked.next();
    ASSERT_TRUE(second);
    second->begin_stream();
    second->write("data: 1\n\n");
    client.read_until("data: 1\n\n");
    second->write("data: 2\n\n");
    client.read_until("data: 2\n\n");
    second->end_stream();
    client.read_until("0\r\n\r\n");
    EXPECT_TRUE(client.ended_well());
}

TEST(HttpTls, AClientThatLeavesIsNoticed) {
    const Certificate pair;
    HttpOptions options;
    options.tls_certificate = pair.certificate;
    options.tls_key = pair.key;
    Parked parked;
    const Running running = run_server(options, parked.handler());
    TlsClient client(running);
    ASSERT_TRUE(client.send(get("/")));
    const auto exchange = parked.next();
    ASSERT_TRUE(exchange);
    Event gone;
    exchange->watch({[&] { gone.set(); }, nullptr, nullptr});
    client.close();
    EXPECT_TRUE(gone.wait());
}

TEST(HttpTls, AHandshakeThatDoesNotComeIsGivenUp) {
    const Certificate pair;
    HttpOptions options;
    options.tls_certificate = pair.certificate;
    options.tls_key = pair.key;
    options.limits.header_deadline = std::chrono::milliseconds(50);
    const Running running = run_server(options);
    RawClient silent = running.client();
    EXPECT_TRUE(silent.wait_for_close());
    RawClient plain = running.client();
    plain.send(get("/"));
    EXPECT_EQ(plain.read_response().status, 0u);
}

TEST(HttpTls, UnusableFilesAreErrorsThatNameThem) {
    const Certificate pair;
    HttpOptions options;
    options.port = 0;
    options.tls_certificate = pair.certificate;
    EXPECT_FALSE(HttpServer::start(options, scope_teller()).ok());
    options.tls_key = "/nonexistent/key.pem";
    const auto no_key = HttpServer::start(options, scope_teller());
    ASSERT_FALSE(no_key.ok());
    EXPECT_NE(no_key.error().message.find("/nonexistent/key.pem"), std::string::npos);
    options.tls_key = pair.key;
    options.tls_certificate = pair.key;
    EXPECT_FALSE(HttpServer::start(options, scope_teller()).ok());
}

}  // namespace
}  // namespace hearth::http_test
