// See http_response.h.
#include "server/http_response.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "server/error_object.h"
#include "server/http_rules.h"

namespace hearth {

namespace {

std::string_view reason_of(unsigned status) {
    switch (status) {
        case 200: return "OK";
        case 201: return "Created";
        case 202: return "Accepted";
        case 204: return "No Content";
        case 206: return "Partial Content";
        case 301: return "Moved Permanently";
        case 302: return "Found";
        case 303: return "See Other";
        case 304: return "Not Modified";
        case 307: return "Temporary Redirect";
        case 308: return "Permanent Redirect";
        case 400: return "Bad Request";
        case 401: return "Unauthorized";
        case 403: return "Forbidden";
        case 404: return "Not Found";
        case 405: return "Method Not Allowed";
        case 408: return "Request Timeout";
        case 409: return "Conflict";
        case 410: return "Gone";
        case 413: return "Content Too Large";
        case 414: return "URI Too Long";
        case 415: return "Unsupported Media Type";
        case 417: return "Expectation Failed";
        case 422: return "Unprocessable Content";
        case 429: return "Too Many Requests";
        case 431: return "Request Header Fields Too Large";
        case 500: return "Internal Server Error";
        case 501: return "Not Implemented";
        case 503: return "Service Unavailable";
        case 504: return "Gateway Timeout";
        case 505: return "HTTP Version Not Supported";
        case 507: return "Insufficient Storage";
        default: return "Status";
    }
}

// What the caller of an exchange may not set: the framing is this layer's alone.
bool is_reserved(std::string_view lower_name) {
    return lower_name == "content-length" || lower_name == "transfer-encoding" || lower_name == "connection" ||
           lower_name == "x-request-id" || lower_name == "date" || lower_name == "keep-alive" ||
           lower_name == "trailer";
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
    out.append(name).append(": ").append(value).append("\r\n");
}

}  // namespace

std::string response_head(const ResponseHead& head, const HttpExchange::Headers& extra) {
    std::string own;
    bool caching_said = false;
    bool type_said = false;
    for (const auto& [name, value] : extra) {
        const std::string lower = to_lower(name);
        if (!is_header_name(name) || !is_header_value(value) || is_reserved(lower)) continue;
        caching_said |= lower == "cache-control";
        type_said |= lower == "content-type";
        append_header(own, lower, value);
    }
    std::string out = "HTTP/1.1 " + std::to_string(head.status) + " ";
    out.append(reason_of(head.status)).append("\r\n");
    append_header(out, "date", http_date(std::time(nullptr)));
    append_header(out, "x-request-id", request_id_text(head.id));
    append_header(out, "x-content-type-options", "nosniff");
    if (!caching_said) append_header(out, "cache-control", "no-store");
    if (!type_said && !head.content_type.empty() && is_header_value(head.content_type)) {
        append_header(out, "content-type", head.content_type);
    }
    if (!head.cors_origin.empty()) {
        append_header(out, "access-control-allow-origin", head.cors_origin);
        append_header(out, "access-control-expose-headers", "x-request-id, retry-after");
        append_header(out, "vary", "origin");
    }
    if (head.chunked) {
        append_header(out, "transfer-encoding", "chunked");
    } else if (head.length) {
        append_header(out, "content-length", std::to_string(*head.length));
    }
    append_header(out, "connection", head.keep_alive ? "keep-alive" : "close");
    return out + own + "\r\n";
}

HttpExchange::Headers retry_soon() {
    return {{"retry-after", "1"}};
}

bool is_anthropic_path(std::string_view path) {
    return path == "/v1/messages" || path.starts_with("/v1/messages/");
}

std::string error_body(unsigned status, std::string_view message, std::string_view path) {
    ApiError error{status, std::string(message), "", ""};
    if (status == 401) error.code = "invalid_api_key";
    if (status == 404) error.code = "not_found";
    return (is_anthropic_path(path) ? anthropic_error(error) : openai_error(error)).dump();
}

std::string request_id_text(std::uint64_t id) {
    std::array<char, 32> text = {};
    std::snprintf(text.data(), text.size(), "req-%016llx", static_cast<unsigned long long>(id));
    return text.data();
}

std::string http_date(std::time_t seconds) {
    static constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    std::tm parts = {};
    gmtime_r(&seconds, &parts);  // strftime would follow the locale
    std::array<char, 64> text = {};
    std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                  kDays[static_cast<std::size_t>(parts.tm_wday)], parts.tm_mday,
                  kMonths[static_cast<std::size_t>(parts.tm_mon)], parts.tm_year + 1900, parts.tm_hour, parts.tm_min,
                  parts.tm_sec);
    return text.data();
}

std::string access_line(const HttpAccess& access) {
    constexpr std::size_t kLongestPath = 256;
    std::string line = request_id_text(access.id) + " ";
    line.append(access.peer).append(" ");
    line.append(access.key_scope.empty() ? "-" : access.key_scope).append(" \"");
    const std::string shown =
        std::string(access.method.substr(0, 16)) + " " + std::string(access.path.substr(0, kLongestPath));
    for (const char c : shown) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\') {
            line += c;
        } else {
            std::array<char, 8> escaped = {};
            std::snprintf(escaped.data(), escaped.size(), "\\x%02x", byte);
            line += escaped.data();
        }
    }
    if (access.path.size() > kLongestPath) line += "...";
    std::array<char, 96> numbers = {};
    std::snprintf(numbers.data(), numbers.size(), "\" %u %lluB %.1fms", access.status,
                  static_cast<unsigned long long>(access.sent_bytes), access.seconds * 1e3);
    return line + numbers.data();
}

}  // namespace hearth
