// See http_rules.h.
#include "server/http_rules.h"

#include <arpa/inet.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>

namespace hearth {

namespace {

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

std::optional<std::string> percent_decode(std::string_view text) {
    std::string decoded;
    decoded.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            decoded += text[i];
            continue;
        }
        if (i + 2 >= text.size()) return std::nullopt;
        const int high = hex_digit(text[i + 1]);
        const int low = hex_digit(text[i + 2]);
        if (high < 0 || low < 0) return std::nullopt;
        decoded += static_cast<char>(high * 16 + low);
        i += 2;
    }
    return decoded;
}

bool has_dot_segment(std::string_view path) {
    std::size_t start = 0;
    while (start <= path.size()) {
        const std::size_t end = std::min(path.find_first_of("/\\", start), path.size());
        const std::string_view segment = path.substr(start, end - start);
        if (segment == "." || segment == "..") return true;
        start = end + 1;
    }
    return false;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
    return a.size() == b.size() && to_lower(a) == to_lower(b);
}

bool is_port(std::string_view text) {
    return text.size() <= 5 && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string to_lower(std::string_view text) {
    std::string lower(text);
    for (char& c : lower) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return lower;
}

std::string_view trim_spaces(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool is_header_name(std::string_view name) {
    constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
    return !name.empty() && std::all_of(name.begin(), name.end(), [&](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               kMarks.find(c) != std::string_view::npos;
    });
}

bool is_header_value(std::string_view value) {
    return std::all_of(value.begin(), value.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return c == '\t' || (byte >= 0x20 && byte != 0x7f);
    });
}

std::optional<HttpTarget> parse_target(std::string_view target) {
    HttpTarget parsed;
    for (const std::string_view scheme : {"http://", "https://"}) {
        if (!equal_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
        target.remove_prefix(scheme.size());
        const std::size_t end = std::min(target.find_first_of("/?"), target.size());
        if (end == 0) return std::nullopt;
        parsed.authority = std::string(target.substr(0, end));
        target.remove_prefix(end);
        if (target.empty() || target.front() == '?') {
            parsed.path = "/";
            if (!target.empty()) parsed.query = std::string(target.substr(1));
            return parsed;
        }
        break;
    }
    if (target.empty() || target.front() != '/' || target.find('#') != std::string_view::npos) return std::nullopt;
    const std::size_t question = target.find('?');
    if (question != std::string_view::npos) parsed.query = std::string(target.substr(question + 1));
    std::optional<std::string> path = percent_decode(target.substr(0, question));
    if (!path || path->find('\0') != std::string::npos || has_dot_segment(*path)) return std::nullopt;
    parsed.path = std::move(*path);
    return parsed;
}

std::optional<std::string> host_of_authority(std::string_view authority) {
    std::string_view host = authority;
    std::string_view rest;
    if (authority.starts_with('[')) {
        const std::size_t end = authority.find(']');
        if (end == std::string_view::npos) return std::nullopt;
        host = authority.substr(1, end - 1);
        rest = authority.substr(end + 1);
        if (!is_ip_literal(host)) return std::nullopt;
    } else {
        const std::size_t colon = authority.find(':');
        if (colon != std::string_view::npos) {
            host = authority.substr(0, colon);
            rest = authority.substr(colon);
        }
    }
    if (!rest.empty() && (rest.front() != ':' || !is_port(rest.substr(1)))) return std::nullopt;
    if (host.ends_with('.')) host.remove_suffix(1);  // the root of DNS: the same name
    const bool plain = std::all_of(host.begin(), host.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
               c == '_' || c == ':';
    });
    if (host.empty() || !plain) return std::nullopt;
    return to_lower(host);
}

bool is_ip_literal(std::string_view host) {
    const std::string text(host);
    std::array<unsigned char, 16> bytes = {};
    return inet_pton(AF_INET, text.c_str(), bytes.data()) == 1 || inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1;
}

bool is_loopback_literal(std::string_view host) {
    const std::string text(host);
    std::array<unsigned char, 16> bytes = {};
    if (inet_pton(AF_INET, text.c_str(), bytes.data()) == 1) return bytes[0] == 127;
    if (inet_pton(AF_INET6, text.c_str(), bytes.data()) != 1) return false;
    const bool zeros = std::all_of(bytes.begin(), bytes.end() - 1, [](unsigned char byte) { return byte == 0; });
    return zeros && bytes[15] == 1;
}

bool AccessRules::host_allowed(std::string_view authority) const {
    const std::optional<std::string> host = host_of_authority(authority);
    if (!host) return false;
    if (*host == "localhost" || is_loopback_literal(*host) || *host == bound_address) return true;
    if (!is_loopback_literal(bound_address) && is_ip_literal(*host)) return true;
    return std::any_of(allowed_hosts.begin(), allowed_hosts.end(), [&](const std::string& allowed) {
        return allowed == "*" || host_of_authority(allowed) == host;
    });
}

bool AccessRules::is_cross_origin(std::string_view origin, std::string_view authority) const {
    return !equal_ignoring_case(origin, (tls ? "https://" : "http://") + std::string(authority));
}

bool AccessRules::origin_allowed(std::string_view origin, std::string_view authority) const {
    if (!is_cross_origin(origin, authority)) return true;
    return std::any_of(allowed_origins.begin(), allowed_origins.end(), [&](const std::string& allowed) {
        return allowed == "*" || equal_ignoring_case(allowed, origin);
    });
}

bool AccessRules::is_public(std::string_view path) const {
    return std::any_of(public_paths.begin(), public_paths.end(), [&](const std::string& allowed) {
        return path == allowed || (allowed.size() > 1 && allowed.ends_with('/') && path.starts_with(allowed));
    });
}

std::size_t connections_within(std::size_t wanted, std::size_t descriptor_limit) {
    // Model files, logs, the listener, and connections that are being told to go away.
    const std::size_t reserve = std::max<std::size_t>(64, descriptor_limit / 8);
    const std::size_t room = descriptor_limit > reserve ? descriptor_limit - reserve : 1;
    return std::clamp<std::size_t>(wanted, 1, room);
}

std::size_t descriptor_limit() {
    rlimit limit = {};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 1 << 20;
    return static_cast<std::size_t>(limit.rlim_cur);
}

}  // namespace hearth
