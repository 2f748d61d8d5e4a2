// Any bytes as what a connection sends: parsed whole and in pieces with the same outcome, then judged.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_gate.h"
#include "server/http_parser.h"
#include "server/http_response.h"

namespace {

using namespace hearth;

struct Outcome {
    std::vector<std::string> requests;  // method, target, headers and body of each
    unsigned status = 0;                // of the failure that ended the connection
    bool head_is_open = false;          // or it ended within a header
};

void require(bool holds) {
    if (!holds) std::abort();
}

// What the server would hand to its handler keeps its promises.
void judge_and_check(const RequestHead& head) {
    AccessRules rules;
    rules.bound_address = "127.0.0.1";
    rules.allowed_origins = {"https://app.example"};
    rules.public_paths = {"/", "/health"};
    Result<ApiKeys> keys = ApiKeys::create({"key"});
    const Judgement judgement = judge(head, rules, keys.value());
    if (judgement.status == 0) {
        const std::string& path = judgement.request.path;
        require(path.starts_with("/") && path.find('\0') == std::string::npos);
        require(("/" + path + "/").find("/../") == std::string::npos);
        require(!judgement.request.key_scope.empty() || rules.is_public(path));
    }
    ResponseHead answer;
    answer.status = judgement.status;
    answer.cors_origin = judgement.cors_origin;
    const std::string text = response_head(answer, judgement.extra);
    require(text.find("\r\n\r\n") == text.size() - 4);
    HttpAccess access;
    access.method = judgement.request.method;
    access.path = judgement.request.path;
    const std::string line = access_line(access);
    require(std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c < 0x7f; }));
}

Outcome serve(std::string_view bytes, std::size_t piece, const HttpLimits& limits) {
    Outcome outcome;
    RequestParser parser(limits);
    std::string waiting;
    while (outcome.requests.size() < 32) {
        const std::size_t used = parser.feed(waiting);
        require(used <= waiting.size());
        waiting.erase(0, used);
        require(parser.body_size() <= limits.body_bytes);
        if (parser.state() == RequestParser::State::Failed) {
            outcome.status = parser.error_status();
            require(outcome.status >= 400 && outcome.status < 600 && !parser.error_message().empty());
            break;
        }
        if (parser.state() == RequestParser::State::Done) {
            const RequestHead& head = parser.head();
            judge_and_check(head);
            std::string request = head.method + " " + head.target + "\n";
            for (const auto& [name, value] : head.headers) request += name + ":" + value + "\n";
            outcome.requests.push_back(request + parser.take_body());
            parser = RequestParser(limits);
            continue;
        }
        if (used > 0 && !waiting.empty()) continue;
        if (bytes.empty()) {
            outcome.head_is_open = parser.state() == RequestParser::State::Head;
            break;
        }
        waiting += bytes.substr(0, piece);
        bytes.remove_prefix(std::min(piece, bytes.size()));
    }
    return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    HttpLimits limits;
    limits.header_bytes = 2048;
    limits.target_bytes = 256;
    limits.body_bytes = 1024;
    const Outcome whole = serve(bytes, std::max<std::size_t>(size, 1), limits);
    const Outcome bits = serve(bytes, 1, limits);
    require(whole.requests == bits.requests);
    // A header is judged when it is whole or too large, so what comes first depends on the pieces: but only there.
    const bool in_header = whole.head_is_open || bits.head_is_open || whole.status == 431 || bits.status == 431 ||
                           whole.status == 414 || bits.status == 414;
    require(in_header || whole.status == bits.status);
    return 0;
}
