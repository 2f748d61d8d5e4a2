// The web page, compiled in from web/: its files by path, with type, ETag and a strict Content-Security-Policy.
#pragma once

#include <span>
#include <string_view>

#include "server/http_server.h"

namespace hearth {

struct PageFile {
    std::string_view path;  // "/index.html"
    std::string_view content_type;
    std::string_view etag;  // with its quotes
    std::string_view bytes;
};

// Made by the build from the files in web/; empty when there were none.
std::span<const PageFile> page_files();

// Answers GET / and the files of the page; false: not one of them.
bool serve_page(const HttpRequest& request, HttpExchange& exchange);

}  // namespace hearth
