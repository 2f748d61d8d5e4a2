// See http_parser.h. The one file that includes Beast.
#include "server/http_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cstdint>
#include <optional>

#include "server/http_rules.h"

namespace hearth {

namespace http = boost::beast::http;
using boost::beast::string_view;
using BeastError = boost::system::error_code;

namespace {

constexpr std::size_t kMostHeaders = 100;
constexpr std::size_t kMostChunkLine = 1024;  // the size of a chunk and its extensions, which nobody reads
constexpr std::string_view kMalformedChunks = "the chunks of the request body are malformed";

// "... HTTP/2.0" ends the first line: a version, though none of ours.
bool names_a_version(std::string_view bytes) {
    const std::string_view line = bytes.substr(0, bytes.find("\r\n"));
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    return line.size() > 9 && line.substr(line.size() - 9, 6) == " HTTP/" && is_digit(line[line.size() - 3]) &&
           line[line.size() - 2] == '.' && is_digit(line[line.size() - 1]);
}

// The line of a last chunk without what must follow it: Beast 1.74 asserts that "0\r\n\r\n" could be whole when it is
// asked again, which is not so where the body is empty and comes in bits.
bool is_unfinished_last_chunk(std::string_view rest) {
    return rest.size() < 5 && rest.starts_with('0') && rest.find("\r\n") != std::string_view::npos;
}

// Whether the line of a chunk with which `rest` begins is too long (each arrival of a bit of it is searched from its
// start), or is whole and ends within a quoted text of the extensions: Beast would look for the end of that in the
// lines that follow, and count the chunk again each time it has to wait for them.
bool is_bad_chunk_line(std::string_view rest) {
    if (rest.starts_with("\r\n")) rest.remove_prefix(2);  // the end of the chunk before
    std::string_view line = rest.substr(0, rest.find("\r\n"));
    const bool whole = line.size() < rest.size();
    if (!whole && line.ends_with('\r')) line.remove_suffix(1);  // half of its end, it seems
    if (line.size() > kMostChunkLine) return true;
    if (!whole) return false;
    bool quoted = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '"') quoted = !quoted;
        if (line[i] == '\\' && quoted) ++i;
    }
    return quoted;
}

std::string_view std_view(string_view text) {
    return {text.data(), text.size()};
}

}  // namespace

std::string_view RequestHead::header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
        if (key == name) return value;
    }
    return {};
}

std::size_t RequestHead::count(std::string_view name) const {
    return static_cast<std::size_t>(
        std::count_if(headers.begin(), headers.end(), [&](const auto& header) { return header.first == name; }));
}

struct RequestParser::Impl final : http::basic_parser<true> {
    explicit Impl(const HttpLimits& the_limits) : limits(the_limits) {
        header_limit(static_cast<std::uint32_t>(std::min<std::size_t>(limits.header_bytes, 1 << 30)));
        body_limit(limits.body_bytes);
    }

    HttpLimits limits;
    State state = State::Head;
    RequestHead head;
    std::string body;
    bool in_chunk = false;  // between the lines of a chunked body
    unsigned error_status = 0;
    std::string_view error_message;

    void fail(unsigned status, std::string_view message) {
        state = State::Failed;
        error_status = status;
        error_message = message;
    }

    void refuse(unsigned status, std::string_view message, BeastError& error) {
        fail(status, message);
        error = http::make_error_code(http::error::bad_field);  // any: it stops the parser
    }

    void on_request_impl(http::verb, string_view method, string_view target, int version, BeastError& error) override {
        if (target.size() > limits.target_bytes) return refuse(414, "the request target is too long", error);
        head.method = std::string(std_view(method));
        head.target = std::string(std_view(target));
        head.http10 = version == 10;
    }

    void on_field_impl(http::field, string_view name, string_view value, BeastError& error) override {
        if (state != State::Head) return;  // trailers of a chunked body are of no use here
        if (head.headers.size() >= kMostHeaders) return refuse(431, "the request has too many header fields", error);
        head.headers.emplace_back(to_lower(std_view(name)), std::string(std_view(value)));
    }

    void on_header_impl(BeastError& error) override {
        const std::size_t lengths = head.count("content-length");
        const std::size_t codings = head.count("transfer-encoding");
        if (lengths > 1 || head.header("content-length").find(',') != std::string_view::npos) {
            return refuse(400, "the request has more than one content-length", error);
        }
        if (lengths + codings > 1) return refuse(400, "the length of the request body is said twice", error);
        if (codings == 1) {
            if (head.http10) return refuse(400, "HTTP/1.0 has no transfer-encoding", error);
            if (to_lower(trim_spaces(head.header("transfer-encoding"))) != "chunked") {
                return refuse(501, "the only transfer-encoding known here is chunked", error);
            }
        }
        const std::size_t hosts = head.count("host");
        if (hosts > 1 || (hosts == 0 && !head.http10)) {
            return refuse(400, "the request needs exactly one host header", error);
        }
        if (head.count("authorization") > 1 || head.count("x-api-key") > 1 || head.count("origin") > 1) {
            return refuse(400, "a header field that may stand once stands twice", error);
        }
        head.keep_alive = keep_alive();
        const std::string expect = to_lower(trim_spaces(head.header("expect")));
        if (!expect.empty() && expect != "100-continue") return refuse(417, "unknown expectation", error);
        head.expects_continue = !expect.empty() && !head.http10;
    }

    void on_body_init_impl(const boost::optional<std::uint64_t>&, BeastError&) override {}

    std::size_t on_body_impl(string_view piece, BeastError&) override {
        body.append(piece.data(), piece.size());
        return piece.size();
    }

    void on_chunk_header_impl(std::uint64_t size, string_view, BeastError&) override { in_chunk = size > 0; }

    std::size_t on_chunk_body_impl(std::uint64_t left, string_view piece, BeastError&) override {
        body.append(piece.data(), piece.size());
        in_chunk = piece.size() < left;
        return piece.size();
    }

    void on_finish_impl(BeastError&) override {}
    void on_response_impl(int, string_view, int, BeastError&) override {}

    void explain(const BeastError& error, std::string_view bytes) {
        if (state == State::Failed) return;  // said already
        if (error == http::error::header_limit) {
            // Without the end of the first line it is the target that does not end.
            const bool in_first_line = head.method.empty() && bytes.find('\n') == std::string_view::npos;
            if (in_first_line) return fail(414, "the request target is too long");
            return fail(431, "the header of the request is too large");
        }
        if (error == http::error::body_limit) return fail(413, "the body of the request is too large");
        if (error == http::error::bad_version && names_a_version(bytes)) {
            return fail(505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
        }
        if (error == http::error::bad_content_length || error == http::error::multiple_content_length) {
            return fail(400, "the content-length of the request is not a number");
        }
        if (error == http::error::bad_transfer_encoding) {
            return fail(400, "the length of the request body is said twice");
        }
        if (state == State::Body) return fail(400, kMalformedChunks);
        fail(400, "the request is not valid HTTP");
    }
};

RequestParser::RequestParser(const HttpLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}
RequestParser::~RequestParser() = default;
RequestParser::RequestParser(RequestParser&&) noexcept = default;
RequestParser& RequestParser::operator=(RequestParser&&) noexcept = default;

std::size_t RequestParser::feed(std::string_view bytes) {
    std::size_t used = 0;
    // A client may send empty lines before a request (RFC 9112 section 2.2).
    if (impl_->state == State::Head && !impl_->got_some()) {
        while (used < bytes.size() && (bytes[used] == '\r' || bytes[used] == '\n')) ++used;
    }
    const bool head_was_open = impl_->state == State::Head;
    while (used < bytes.size() && (impl_->state == State::Head || impl_->state == State::Body)) {
        const std::string_view rest = bytes.substr(used);
        if (impl_->state == State::Body && impl_->chunked() && !impl_->in_chunk) {
            if (is_unfinished_last_chunk(rest)) break;
            if (is_bad_chunk_line(rest)) {
                impl_->fail(400, kMalformedChunks);
                break;
            }
        }
        BeastError error;
        const std::size_t taken = impl_->put(boost::asio::const_buffer(rest.data(), rest.size()), error);
        used += taken;
        if (error == http::error::need_more) break;
        if (error) {
            impl_->explain(error, bytes.substr(used));
            break;
        }
        if (impl_->is_done()) {
            impl_->state = State::Done;
        } else if (impl_->is_header_done()) {
            impl_->state = State::Body;
        }
        if (head_was_open && impl_->state != State::Head) break;
    }
    return used;
}

RequestParser::State RequestParser::state() const {
    return impl_->state;
}
bool RequestParser::started() const {
    return impl_->got_some();
}
const RequestHead& RequestParser::head() const {
    return impl_->head;
}
std::string RequestParser::take_body() {
    return std::move(impl_->body);
}
std::size_t RequestParser::body_size() const {
    return impl_->body.size();
}
unsigned RequestParser::error_status() const {
    return impl_->error_status;
}
std::string_view RequestParser::error_message() const {
    return impl_->error_message;
}

}  // namespace hearth
