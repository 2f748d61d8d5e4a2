// The rules of the HTTP layer that need no socket: paths, hosts, origins, header texts, descriptor limits.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

// What a request target asks for.
struct HttpTarget {
    std::string authority;  // of the absolute form "http://host/path"; else empty
    std::string path;       // percent-decoded once; starts with "/"
    std::string query;      // as it came, without "?"
};

// Origin form ("/path?query") or absolute form. Nothing when it is neither, when an escape is broken, or when the
// decoded path holds NUL or a "." or ".." segment (a backslash separates segments too).
std::optional<HttpTarget> parse_target(std::string_view target);

std::string to_lower(std::string_view text);          // ASCII
std::string_view trim_spaces(std::string_view text);  // spaces and tabs
bool is_header_name(std::string_view name);           // an RFC 9110 token
bool is_header_value(std::string_view value);         // no control characters: nothing that could end the line

// "Example.org:8080" -> "example.org", "[::1]:80" -> "::1". Nothing when it is not a host with an optional port.
std::optional<std::string> host_of_authority(std::string_view authority);

bool is_ip_literal(std::string_view host);        // without brackets
bool is_loopback_literal(std::string_view host);  // 127.0.0.0/8 or ::1

// Guards a server without keys against web pages: by DNS rebinding (the page's own name then points at this machine) a
// page could call it as same-origin, so only known names are answered, and no foreign origin.
struct AccessRules {
    std::string bound_address;  // as text, without brackets
    std::vector<std::string> allowed_hosts;
    std::vector<std::string> allowed_origins;
    std::vector<std::string> public_paths;
    bool tls = false;

    // Loopback names, the bound address, allowed_hosts ("*": any). Bound to another address than loopback every IP
    // address is fine too: rebinding needs a name.
    bool host_allowed(std::string_view authority) const;
    // The server's own origin as the request names it, and allowed_origins ("*": any).
    bool origin_allowed(std::string_view origin, std::string_view authority) const;
    // Whether the origin needs CORS headers, that is, is allowed but not our own.
    bool is_cross_origin(std::string_view origin, std::string_view authority) const;
    bool is_public(std::string_view path) const;
};

// How many connections fit below the limit of open files, keeping a reserve for the rest of the process.
std::size_t connections_within(std::size_t wanted, std::size_t descriptor_limit);
std::size_t descriptor_limit();  // the soft limit of this process

}  // namespace hearth
