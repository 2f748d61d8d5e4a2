// See http_gate.h.
#include "server/http_gate.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace hearth {

namespace {

constexpr std::string_view kMethods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

bool is_method(std::string_view method) {
    constexpr std::array<std::string_view, 7> kKnown = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
    return std::find(kKnown.begin(), kKnown.end(), method) != kKnown.end();
}

bool is_secret(std::string_view name) {
    return name == "authorization" || name == "x-api-key" || name == "cookie" || name == "proxy-authorization";
}

}  // namespace

Judgement judge(const RequestHead& head, const AccessRules& rules, const ApiKeys& keys) {
    Judgement judgement;
    const auto refuse = [&](unsigned status, std::string message, HttpExchange::Headers extra = {}) {
        judgement.status = status;
        judgement.message = std::move(message);
        judgement.extra = std::move(extra);
        return judgement;
    };
    HttpRequest& request = judgement.request;
    request.method = head.method;
    if (!is_method(head.method)) {
        return refuse(405, "this method is not known here", {{"allow", std::string(kMethods)}});
    }
    const bool asks_options = head.method == "OPTIONS";
    std::optional<HttpTarget> target = parse_target(head.target);
    if (!target && asks_options && head.target == "*") target = HttpTarget{"", "*", ""};
    if (!target) return refuse(404, "there is no such path");
    request.path = std::move(target->path);
    request.query = std::move(target->query);

    const std::string_view host = head.header("host");
    const std::string_view authority = target->authority.empty() ? host : std::string_view(target->authority);
    // Only HTTP/1.0 may come without a host, and no browser speaks it.
    if (!authority.empty() || !head.http10) {
        if (!rules.host_allowed(authority)) {
            return refuse(403,
                          "the host name of this request is not known here: call the server by its address or "
                          "allow the name when starting it");
        }
    }
    const std::string_view origin = head.header("origin");
    if (!origin.empty()) {
        if (!rules.origin_allowed(origin, authority)) {
            return refuse(403, "web pages of this origin may not call this server: allow it when starting the server");
        }
        if (rules.is_cross_origin(origin, authority)) judgement.cors_origin = std::string(origin);
    }
    if (asks_options) {
        HttpExchange::Headers extra = {{"allow", std::string(kMethods)}};
        if (!judgement.cors_origin.empty()) {
            extra.emplace_back("access-control-allow-methods", std::string(kMethods));
            // The origin is trusted, and clients have headers of their own (x-stainless-*, anthropic-version, ...).
            const std::string_view asked = head.header("access-control-request-headers");
            const bool usable = !asked.empty() && is_header_value(asked);
            extra.emplace_back("access-control-allow-headers",
                               usable ? std::string(asked) : "authorization, content-type, x-api-key");
            extra.emplace_back("access-control-max-age", "600");
        }
        return refuse(204, "", std::move(extra));
    }
    if (!keys.empty()) {
        request.key_scope = keys.scope_of(head.header("authorization"), head.header("x-api-key"));
        if (request.key_scope.empty() && !rules.is_public(request.path)) {
            return refuse(401, "a valid API key is needed: send it as 'Authorization: Bearer KEY'",
                          {{"www-authenticate", "Bearer"}});
        }
    }
    if (head.method == "HEAD") request.method = "GET";
    for (const auto& [name, value] : head.headers) {
        if (!is_secret(name)) request.headers.emplace_back(name, value);
    }
    return judgement;
}

}  // namespace hearth
