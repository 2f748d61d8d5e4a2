// hearth top: what a server is doing, redrawn in place. It asks /health over a plain socket.
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/http_client.h"
#include "cli/interrupt.h"

namespace hearth {

namespace {

constexpr Positional kPositionals[] = {
    {.name = "SERVER", .required = false, .help = "HOST:PORT of a server; none: 127.0.0.1:8080."}};

constexpr Option kOptions[] = {
    {.name = "interval",
     .kind = ValueKind::Whole,
     .value_name = "MS",
     .help = "Time between two looks.",
     .default_text = "1000"},
    {.name = "once", .help = "One look, without a rate, and done."},
};

constexpr Example kExamples[] = {{"hearth top", "Watches the server on this machine."},
                                 {"hearth top 10.0.0.7:8080 --once --json", "What it says, as JSON."}};

// /health of the server; it answers so whatever its state.
Result<Json> ask_health(const ServerAddress& address) {
    Result<ServerReply> reply = ask_server(address, {.path = "/health"});
    if (!reply.ok()) return Error{reply.error().code, "top: " + reply.error().message};
    if (reply->body.find("models") == nullptr) {
        return Error{ErrorCode::Failed, "top: what answers at " + address.shown() + " is not a Hearth server"};
    }
    return std::move(reply->body);
}

std::int64_t count_of(const Json& model, std::string_view key) {
    const Json* value = model.find(key);
    return value != nullptr && value->as_int() != nullptr ? *value->as_int() : 0;
}

std::string text_of(const Json& object, std::string_view key) {
    const Json* value = object.find(key);
    return value != nullptr && value->as_string() != nullptr ? *value->as_string() : std::string("?");
}

std::string padded(std::string text, std::size_t width) {
    text.resize(std::max(text.size(), width), ' ');
    return text;
}

std::string percent(std::int64_t part, std::int64_t whole) {
    return whole == 0 ? "-" : std::to_string(part * 100 / whole) + " %";
}

// One line a model; `before` is the look `seconds` ago, or null.
std::string draw(const Json& health, const Json& before, double seconds) {
    std::string out = "hearth " + text_of(health, "version") + " · " + text_of(health, "status") + "\n" +
                      padded("model", 28) + padded("state", 10) + padded("running", 9) + padded("waiting", 9) +
                      padded("tok/s", 9) + padded("prompt/s", 10) + padded("cached", 8) + "KV used\n";
    const Json::Array none;
    const Json* list = health.find("models");
    for (const Json& model : list->as_array() != nullptr ? *list->as_array() : none) {
        const Json* earlier = nullptr;
        if (const Json* old = before.find("models"); old != nullptr && old->as_array() != nullptr) {
            for (const Json& one : *old->as_array()) {
                if (text_of(one, "id") == text_of(model, "id")) earlier = &one;
            }
        }
        const auto rate = [&](std::string_view key) {
            if (earlier == nullptr || seconds <= 0) return std::string("-");
            return format_number(static_cast<double>(count_of(model, key) - count_of(*earlier, key)) / seconds, 1);
        };
        const std::int64_t blocks = count_of(model, "kv_blocks");
        const std::int64_t used = blocks - count_of(model, "kv_blocks_free") - count_of(model, "kv_blocks_cached");
        out += padded(text_of(model, "id").substr(0, 26), 28) + padded(text_of(model, "status"), 10) +
               padded(std::to_string(count_of(model, "running")), 9) +
               padded(std::to_string(count_of(model, "waiting")), 9) + padded(rate("generated_tokens"), 9) +
               padded(rate("prompt_tokens"), 10) +
               padded(percent(count_of(model, "cached_tokens"), count_of(model, "prompt_tokens")), 8) +
               percent(used, blocks) + "\n";
    }
    return out;
}

// In slices, so that Ctrl-C need not wait for the end: sleep_for goes on after a signal.
void wait(std::chrono::milliseconds interval) {
    constexpr std::chrono::milliseconds kSlice(50);
    for (; interval.count() > 0 && !InterruptScope::requested(); interval -= kSlice) {
        std::this_thread::sleep_for(std::min(interval, kSlice));
    }
}

Status run_top(const Arguments& arguments, Session& session) {
    Console& console = session.console;
    const ServerAddress address = TRY(ServerAddress::parse(arguments.positional(0).value_or("127.0.0.1:8080")));
    const std::chrono::milliseconds interval(TRY(arguments.whole("interval", 50, 3'600'000)).value_or(1000));
    Json before;
    double then = monotonic_seconds();
    if (arguments.flag("once") || arguments.flag("json") || !console.output_is_terminal()) {
        const Json health = TRY(ask_health(address));
        console.print(arguments.flag("json") ? health.dump() + "\n" : draw(health, before, 0));
        return {};
    }
    const InterruptScope interrupts;
    while (!InterruptScope::requested() && !console.output_closed()) {
        const Json health = TRY(ask_health(address));
        const double now = monotonic_seconds();
        console.print("\x1b[H\x1b[2J" + draw(health, before, now - then) + "\nCtrl-C ends this.\n");
        before = health;
        then = now;
        wait(interval);
    }
    return {};
}

}  // namespace

const Command kTopCommand = {
    "top",
    "Watch a server at work",
    "Shows a line per model of a running `hearth serve`: answers running and waiting, tokens per second, the part of "
    "the "
    "prompts that was known already, and the KV in use. Redraws until Ctrl-C; without a terminal, with --once or with "
    "--json it looks once.",
    kPositionals,
    kOptions,
    kExamples,
    run_top};

}  // namespace hearth
