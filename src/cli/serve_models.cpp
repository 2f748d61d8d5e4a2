// hearth serve: from options to a running server, and back down in order.
#include <cstdlib>  // for __GLIBC__
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <thread>

#include "cli/catalogue.h"
#include "cli/model_options.h"
#include "cli/pull.h"
#include "cli/serve.h"
#include "server/api/api.h"
#include "server/api/page.h"
#include "server/http_response.h"
#include "server/http_server.h"

namespace hearth {

namespace {

using std::chrono::milliseconds;

// A signal handler can reach nothing but a global.
volatile std::sig_atomic_t signals_seen = 0;

void note_signal(int) {
    signals_seen = signals_seen + 1;
}

// For the rest of the process: a late second signal must not turn an orderly end into a death by signal.
void catch_signals() {
    signals_seen = 0;
    struct sigaction action = {};
    action.sa_handler = note_signal;
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
}

// By itself glibc keeps ever larger blocks once one was freed, in each thread's arena: after one large request the
// process would stay large. Fixed, what is freed goes back to the system.
void return_freed_memory() {
#if defined(__GLIBC__)
    constexpr int kKeptBytes = 256 << 10;
    ::mallopt(M_MMAP_THRESHOLD, kKeptBytes);
    ::mallopt(M_TRIM_THRESHOLD, 4 * kKeptBytes);
#endif
}

std::string name_from_path(std::string_view path) {
    std::string_view name = path.substr(path.find_last_of('/') + 1);
    if (name.ends_with(".gguf")) name.remove_suffix(5);
    return std::string(name);
}

Result<std::vector<ModelSpec>> model_specs(const Arguments& arguments, Session& session) {
    EngineOptions engine = TRY(engine_options(arguments, session.environment));
    engine.kv_size = KvSize::FreeMemory;
    engine.kv_bytes = static_cast<std::size_t>(TRY(arguments.whole("kv-memory", 1, 1u << 24)).value_or(0)) << 20;
    const Catalogue catalogue = TRY(Catalogue::load(session.environment));
    std::vector<std::string> words;
    for (std::size_t i = 0; i < arguments.positional_count(); ++i) words.push_back(*arguments.positional(i));
    if (words.empty()) words.push_back(catalogue.default_model);
    std::vector<ModelSpec> specs;
    for (const std::string& word : words) {
        const std::size_t equals = word.find('=');
        const bool named = equals != std::string::npos && word.find('/') > equals;
        const std::string model = named ? word.substr(equals + 1) : word;
        ModelSpec spec;
        spec.name = named ? word.substr(0, equals) : name_from_path(model);
        if (!is_model_name(spec.name)) {
            return Error{
                ErrorCode::Usage,
                "serve: '" + spec.name + "' cannot name a model: letters, digits, '.', '_' and '-' can (NAME=FILE)"};
        }
        const bool twice =
            std::any_of(specs.begin(), specs.end(), [&](const ModelSpec& other) { return other.name == spec.name; });
        if (twice) return Error{ErrorCode::Usage, "serve: two models are named " + spec.name + " (NAME=FILE)"};
        spec.path = TRY(find_or_pull(catalogue, model, session));
        spec.engine = engine;
        spec.version = HEARTH_VERSION;
        specs.push_back(std::move(spec));
    }
    return specs;
}

Result<HttpOptions> http_options(const Arguments& arguments, const Environment& environment) {
    HttpOptions options;
    options.address = arguments.text("host").value_or(options.address);
    options.port = static_cast<std::uint16_t>(TRY(arguments.whole("port", 0, 65535)).value_or(options.port));
    options.keys = arguments.texts("key");
    if (options.keys.empty() && !environment.api_key.empty()) options.keys.push_back(environment.api_key);
    options.allowed_hosts = arguments.texts("allow-host");
    options.allowed_origins = arguments.texts("allow-origin");
    options.tls_certificate = arguments.text("tls-cert").value_or("");
    options.tls_key = arguments.text("tls-key").value_or("");
    if (options.tls_certificate.empty() != options.tls_key.empty()) {
        return Error{ErrorCode::Usage, "serve: --tls-cert and --tls-key go together"};
    }
    HttpLimits& limits = options.limits;
    limits.body_bytes = static_cast<std::size_t>(TRY(arguments.whole("max-body", 1, 1024)).value_or(16)) << 20;
    limits.all_bodies_bytes = std::max(limits.all_bodies_bytes, limits.body_bytes);
    limits.connections =
        static_cast<std::size_t>(TRY(arguments.whole("max-connections", 1, 1'000'000)).value_or(limits.connections));
    const auto seconds = [&](std::string_view name, milliseconds& target) -> Status {
        const auto given = TRY(arguments.whole(name, 1, 86400));
        if (given) target = std::chrono::seconds(*given);
        return {};
    };
    TRY(seconds("header-timeout", limits.header_deadline));
    TRY(seconds("client-timeout", limits.body_deadline));
    TRY(seconds("client-timeout", limits.write_deadline));
    for (const PageFile& file : page_files()) options.public_paths.emplace_back(file.path);
    return options;
}

Result<ApiOptions> api_options(const Arguments& arguments) {
    ApiOptions options;
    options.version = HEARTH_VERSION;
    SchedulerOptions& scheduler = options.scheduler;
    scheduler.running_limit =
        static_cast<std::size_t>(TRY(arguments.whole("parallel", 1, 4096)).value_or(scheduler.running_limit));
    scheduler.queue_limit =
        static_cast<std::size_t>(TRY(arguments.whole("queue", 1, 1'000'000)).value_or(scheduler.queue_limit));
    options.worker_queue = scheduler.queue_limit;  // who may wait for an answer may wait to be read
    options.trees = static_cast<std::size_t>(TRY(arguments.whole("trees", 1, 100'000)).value_or(options.trees));
    return options;
}

std::string describe(const ServedModel& model) {
    const Engine& engine = *model.engine;
    const std::size_t positions = engine.kv_block_count() * 64;
    return model.name + ": " + engine.info().architecture + ", " + std::to_string(engine.threads()) + " threads, " +
           std::string(engine.isa()) + " kernels, context " + std::to_string(engine.context()) + " of " +
           std::to_string(engine.info().trained_context) + ", " + std::string(kv_type_name(engine.kv_layout().type)) +
           " KV for " + std::to_string(positions) + " tokens" +
           (engine.chat_template().ok() ? "" : ", no chat template: /v1/completions only") +
           (engine.packed().reason().empty() ? "" : "; " + engine.packed().reason());
}

// Shows how far loading is. An error when no model could be loaded.
Status wait_for_models(const Api& api, Console& console) {
    constexpr std::uint64_t kSteps = 1000;
    ProgressBar bar(console, "loading", kSteps, ProgressBar::Unit::Items);
    while (!api.settled() && signals_seen == 0) {
        double done = 0;
        const std::vector<ModelStatus> all = api.models();
        for (const ModelStatus& status : all) done += status.state == LoadState::Failed ? 1.0 : status.progress;
        bar.update(static_cast<std::uint64_t>(done * static_cast<double>(kSteps) / static_cast<double>(all.size())));
        std::this_thread::sleep_for(milliseconds(20));
    }
    bar.clear();
    std::string failure;
    for (const ModelStatus& status : api.models()) {
        if (status.state != LoadState::Failed) continue;
        failure = status.error;
        console.note(console.for_error(Style::Red, status.name + " could not be loaded: ") + status.error);
    }
    for (const ServedModel* model : api.ready()) console.note(describe(*model));
    if (api.settled() && api.ready().empty())
        return Error{ErrorCode::InvalidModel, "no model could be loaded: " + failure};
    return {};
}

// Lets running answers end, until the grace is over or a second signal comes.
void shut_down(Api& api, HttpServer& server, std::chrono::seconds grace, Console& console) {
    console.note("ending: new work is refused, running answers may end (a second signal stops at once)");
    server.stop_accepting();
    const auto end = std::chrono::steady_clock::now() + grace;
    bool drained = false;
    while (!drained && signals_seen < 2 && std::chrono::steady_clock::now() < end) {
        drained = api.drain(std::chrono::steady_clock::now() + milliseconds(50));
    }
    server.stop(drained ? milliseconds(2000) : milliseconds(0));
}

}  // namespace

Status serve_models(const Arguments& arguments, Session& session) {
    return_freed_memory();
    Console& console = session.console;
    HttpOptions http = TRY(http_options(arguments, session.environment));
    const ApiOptions options = TRY(api_options(arguments));
    const std::chrono::seconds grace(TRY(arguments.whole("grace", 0, 86400)).value_or(30));
    std::vector<ModelSpec> specs = TRY(model_specs(arguments, session));
    if (arguments.flag("log")) http.on_access = [&](const HttpAccess& access) { console.note(access_line(access)); };
    Api api(options, std::move(specs));
    catch_signals();
    const std::unique_ptr<HttpServer> server =
        TRY(HttpServer::start(http, [&api](HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
            api.handle(std::move(request), std::move(exchange));
        }));
    api.watch_server(*server);
    const bool is_v6 = http.address.find(':') != std::string::npos;
    const std::string url = std::string(http.tls_certificate.empty() ? "http://" : "https://") +
                            (is_v6 ? "[" + http.address + "]" : http.address) + ":" + std::to_string(server->port());
    console.print_line(arguments.flag("json") ? Json(Json::Object{{"url", url}}).dump() : url);
    api.load_in_background();
    const Status loaded = wait_for_models(api, console);
    if (!loaded.ok()) {
        server->stop(milliseconds(0));
        return loaded.error();
    }
    if (signals_seen == 0) {
        console.note("ready: " + url + (http.keys.empty() ? " (no key needed)" : " (with a key)"));
    }
    while (signals_seen == 0) std::this_thread::sleep_for(milliseconds(50));
    shut_down(api, *server, grace, console);
    if (!api.settled()) {
        // A model is still being loaded, which cannot be interrupted and may take minutes: nobody is served any more,
        // so the process ends without waiting for it. What was written is flushed; nothing else is held.
        std::fflush(nullptr);
        std::_Exit(0);
    }
    return {};
}

}  // namespace hearth
