#include "server/api/page.h"

namespace hearth {

namespace {

// Nothing from elsewhere, nothing inline, no frames around it.
constexpr std::string_view kPolicy =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; "
    "img-src 'self' data:; require-trusted-types-for 'script'";

}  // namespace

bool serve_page(const HttpRequest& request, HttpExchange& exchange) {
    if (request.method != "GET") return false;
    const std::string_view path =
        request.path == "/" ? std::string_view("/index.html") : std::string_view(request.path);
    for (const PageFile& file : page_files()) {
        if (file.path != path) continue;
        HttpExchange::Headers headers{{"ETag", std::string(file.etag)},
                                      {"Cache-Control", "no-cache"},
                                      {"Content-Security-Policy", std::string(kPolicy)},
                                      {"Referrer-Policy", "no-referrer"}};
        if (request.header("if-none-match") == file.etag) {
            exchange.respond(304, file.content_type, "", std::move(headers));
        } else {
            exchange.respond(200, file.content_type, std::string(file.bytes), std::move(headers));
        }
        return true;
    }
    return false;
}

}  // namespace hearth
