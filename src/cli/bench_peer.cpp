#include "cli/bench_peer.h"

#include <cmath>
#include <optional>

#include "base/json.h"
#include "cli/child_process.h"

namespace hearth {

namespace {

std::optional<double> number_at(const Json& object, std::string_view key) {
    const Json* value = object.find(key);
    if (value == nullptr) return std::nullopt;
    if (const double* real = value->as_double()) return *real;
    if (const std::int64_t* whole = value->as_int()) return static_cast<double>(*whole);
    return std::nullopt;
}

bool has_count(const Json& object, std::string_view key, std::size_t count) {
    // n_depth is younger than the others: where it is absent, it is 0.
    return number_at(object, key).value_or(0) == static_cast<double>(count);
}

std::string last_line(std::string_view text) {
    const std::size_t end = text.find_last_not_of(" \r\n");
    if (end == std::string_view::npos) return "";
    text = text.substr(0, end + 1);
    return std::string(text.substr(text.rfind('\n') + 1));
}

Error peer_error(const BenchPeer& peer, const BenchTest& test, const std::string& message) {
    return Error{ErrorCode::Failed, "--against " + peer.program + ": " + test.name() + ": " + message};
}

}  // namespace

std::vector<std::string> peer_command(const BenchPeer& peer, const BenchTest& test) {
    const std::string tokens = std::to_string(test.tokens);
    const bool prompt = test.kind == BenchKind::Prompt;
    std::vector<std::string> words = {peer.program,
                                      "-m",
                                      peer.model,
                                      "-p",
                                      prompt ? tokens : "0",
                                      "-n",
                                      prompt ? "0" : tokens,
                                      "-t",
                                      std::to_string(peer.threads),
                                      "-r",
                                      "1",
                                      "-o",
                                      "json"};
    if (test.depth > 0) words.insert(words.end(), {"-d", std::to_string(test.depth)});
    return words;
}

Result<double> parse_peer(const BenchPeer& peer, const BenchTest& test, std::string_view output) {
    const Result<Json> json = Json::parse(output);
    if (!json.ok()) return peer_error(peer, test, "wrote no JSON: " + json.error().message);
    const bool prompt = test.kind == BenchKind::Prompt;
    const Json::Array* entries = json->as_array();
    if (entries == nullptr) return peer_error(peer, test, "wrote JSON that is no array");
    for (const Json& entry : *entries) {
        if (!has_count(entry, "n_prompt", prompt ? test.tokens : 0)) continue;
        if (!has_count(entry, "n_gen", prompt ? 0 : test.tokens)) continue;
        if (!has_count(entry, "n_depth", test.depth)) continue;
        const std::optional<double> rate = number_at(entry, "avg_ts");
        if (rate && std::isfinite(*rate) && *rate > 0) return *rate;
    }
    return peer_error(peer, test, "wrote no avg_ts for this test");
}

Result<double> measure_peer(const BenchPeer& peer, const BenchTest& test, const std::function<void()>& on_tick) {
    const Result<ChildResult> child = run_child(peer_command(peer, test), {}, on_tick, ChildOutput::Keep);
    if (!child.ok()) return Error{child.error().code, "--against " + child.error().message};
    if (child->exit_code != 0) {
        const std::string reason = last_line(child->errors);
        return peer_error(
            peer, test,
            "ended with exit code " + std::to_string(child->exit_code) + (reason.empty() ? "" : ": " + reason));
    }
    return parse_peer(peer, test, child->output);
}

}  // namespace hearth
