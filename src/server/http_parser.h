// One HTTP/1.x request out of the bytes of a connection, within limits. The grammar is Beast's; what may follow from
// ambiguous framing (two lengths, a length and chunks, unknown codings) is refused here.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http_server.h"

namespace hearth {

struct RequestHead {
    std::string method;
    std::string target;
    bool http10 = false;
    bool keep_alive = false;
    bool expects_continue = false;
    std::vector<std::pair<std::string, std::string>> headers;  // lower-case names, in order

    std::string_view header(std::string_view name) const;  // the first; empty when there is none
    std::size_t count(std::string_view name) const;
};

class RequestParser {
public:
    enum class State { Head, Body, Done, Failed };

    explicit RequestParser(const HttpLimits& limits);
    ~RequestParser();
    RequestParser(RequestParser&&) noexcept;
    RequestParser& operator=(RequestParser&&) noexcept;

    // Takes what it can of `bytes` (all that is unconsumed so far) and says how much that was. It stops after the head,
    // so that the request can be judged before its body is read: call again for the rest.
    std::size_t feed(std::string_view bytes);

    State state() const;
    bool started() const;  // any byte of a request has been seen
    const RequestHead& head() const;
    std::string take_body();
    std::size_t body_size() const;  // so far

    // Of a failed parse: 400, 413, 414, 417, 431, 501 or 505.
    unsigned error_status() const;
    std::string_view error_message() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace hearth
