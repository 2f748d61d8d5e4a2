// The texts this layer writes: response heads, error objects, access log lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "server/http_server.h"

namespace hearth {

struct ResponseHead {
    unsigned status = 200;
    std::string_view content_type;      // empty: none
    std::optional<std::size_t> length;  // without one the body is chunked, or ends with the connection
    bool chunked = false;
    bool keep_alive = true;
    std::uint64_t id = 0;
    std::string_view cors_origin;  // empty: no CORS headers
};

// The status line and headers with the empty line. `extra` replaces the defaults of the same name; entries that could
// break out of their line, and those about framing and the connection, are left out.
std::string response_head(const ResponseHead& head, const HttpExchange::Headers& extra);

// Whether clients of this path speak Anthropic's API.
bool is_anthropic_path(std::string_view path);

// The error object of the path's API, with the type and code that fit the status.
std::string error_body(unsigned status, std::string_view message, std::string_view path);

// The header of an answer that may be different in a second. Its list of strings stands in a file without coroutines:
// inside one GCC 12 cannot compile it, and clang 14 puts it in the wrong place.
HttpExchange::Headers retry_soon();

std::string request_id_text(std::uint64_t id);  // "req-" and 16 hex digits
std::string http_date(std::time_t seconds);     // "Sun, 06 Nov 1994 08:49:37 GMT"

// One line without a newline: id, peer, key scope, "METHOD path", status, bytes and milliseconds; all foreign bytes
// beyond printable ASCII are escaped, so that a client cannot forge lines.
std::string access_line(const HttpAccess& access);

}  // namespace hearth
