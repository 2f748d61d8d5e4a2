// Asks a running `hearth serve` over a plain socket: one request, one JSON answer. For `hearth top` and `hearth tree`.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace hearth {

struct ServerAddress {
    std::string host = "127.0.0.1";
    std::string port = "8080";

    std::string shown() const;  // "host:port", an IPv6 address in brackets
    // HOST, HOST:PORT, [ADDRESS]:PORT, each with or without "http://" before it.
    static Result<ServerAddress> parse(std::string_view text);
};

struct ServerRequest {
    std::string_view method = "GET";
    std::string path = {};
    std::string body = {};             // JSON; empty: none
    std::string key = {};              // empty: none
    std::chrono::seconds patience{5};  // for the next bytes of the answer; 0: for ever
};

struct ServerReply {
    unsigned status = 0;
    Json body;
};

// An error when nothing answers there, or no Hearth server does. A status of 400 and more is a reply like others.
Result<ServerReply> ask_server(const ServerAddress& address, const ServerRequest& request);

// The status and JSON of an answer as it came over the wire; an error when it is none of HTTP/1.1.
Result<ServerReply> parse_reply(std::string_view bytes);

// The text of an OpenAI error object, or the status when there is none.
std::string error_text(const ServerReply& reply);

}  // namespace hearth
